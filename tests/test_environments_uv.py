"""What uv is told, what it says, and environments that it makes.

It resolves and installs small wheels from a directory, without a network.
"""

from __future__ import annotations

import base64
import hashlib
import subprocess
import sys
import zipfile
from collections.abc import Iterable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recoverybench.environments import installed, locate, make, uv
from recoverybench.errors import UsageError
from tests.environment_samples import OLD

# What uv is told, and what it says


def test_uv_goes_where_pip_goes() -> None:
    said = (
        ":env:.cert='/c.pem'\nglobal.extra-index-url='file:///a file:///b'\n"
        "global.find-links='/w\\n/v'\nglobal.cert='/other.pem'\nglobal.quiet='1'\n"
    )
    found = uv.environment({"HOME": "/h", "PYTHONPATH": "/p"}, uv.read_pip(said))
    assert found["UV_INDEX"] == "file:///a file:///b"
    assert found["UV_INDEX_STRATEGY"] == "unsafe-best-match"
    assert found["UV_FIND_LINKS"] == "/w,/v"
    assert found["SSL_CERT_FILE"] == "/c.pem"
    assert found["HOME"] == "/h" and "PYTHONPATH" not in found


def test_what_the_user_says_to_uv_stands() -> None:
    found = uv.environment({"UV_DEFAULT_INDEX": "file:///mine"}, {"extra-index-url": "file:///a"})
    assert found["UV_DEFAULT_INDEX"] == "file:///mine"
    assert "UV_INDEX" not in found


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ("", "uv failed and said nothing"),
        (
            "warning: x\nerror: Failed to fetch: `u`\n  Caused by: no route\n",
            "Failed to fetch: `u`: no route",
        ),
        (
            "  × No solution found when resolving dependencies:\n  ╰─▶ Because there is no version "
            "of\n      jax==9 and you require jax==9, we can conclude.\n",
            "No solution found when resolving dependencies: Because there is no version of jax==9 "
            "and you require jax==9, we can conclude",
        ),
        (
            "error: No solution found\n  cause: Because a<=3 depends on b.\n"
            "         And because you require a<3, we can conclude that it cannot be.\n",
            "No solution found: because you require a<3, we can conclude that it cannot be",
        ),
    ],
)
def test_reasons(said: str, reason: str) -> None:
    assert uv.reason(said) == reason


@given(st.text())
def test_a_reason_is_one_line_of_some_length(said: str) -> None:
    reason = uv.reason(said)
    assert reason and len(reason) <= 420 and len(reason.splitlines()) == 1


def test_no_uv(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UsageError, match=r"needs uv, .*: expected it to be installed") as caught:
        make.made([OLD], tmp_path, make.where_of(OLD))
    assert "\n" not in str(caught.value)


# Made by uv, from wheels of this test


def wheel(folder: Path, name: str, version: str, requires: Iterable[str] = ()) -> None:
    """A wheel with nothing in it but a module that says its version."""
    info = f"{name}-{version}.dist-info"
    files = {
        f"{name}.py": f"VERSION = {version!r}\n",
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
        + "".join(f"Requires-Dist: {each}\n" for each in requires),
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: t\nRoot-Is-Purelib: true\n"
        "Tag: py3-none-any\n",
    }
    record = "".join(
        f"{path},sha256={_hash(text)},{len(text.encode())}\n" for path, text in files.items()
    )
    with zipfile.ZipFile(folder / f"{name}-{version}-py3-none-any.whl", "w") as archive:
        for path, text in {**files, f"{info}/RECORD": f"{record}{info}/RECORD,,\n"}.items():
            archive.writestr(path, text)


def _hash(text: str) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()


@pytest.fixture
def wheels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Wheels of `base` and `top`, which are all that workers need; 2.0 and 1.0 are here."""
    folder = tmp_path / "wheels"
    folder.mkdir()
    for version in ("1.0", "2.0", "3.0"):
        wheel(folder, "rbt_base", version)
        wheel(folder, "rbt_top", version, [f"rbt_base=={version}", "rbt_free"])
        wheel(folder, "rbt_free", version)
    monkeypatch.setenv("UV_FIND_LINKS", str(folder))
    monkeypatch.setenv("UV_NO_INDEX", "1")
    monkeypatch.setenv("UV_OFFLINE", "1")
    monkeypatch.setenv("UV_CACHE_DIR", str(tmp_path / "uv"))
    here = {"rbt-base": "2.0", "rbt-top": "2.0", "rbt-free": "1.0"}
    monkeypatch.setattr(installed, "versions", lambda: here)
    monkeypatch.setattr(installed, "roots", lambda: ("rbt-top",))
    return folder


def test_an_environment_is_made_once(wheels: Path, tmp_path: Path) -> None:
    root, told = tmp_path / "environments", list[str]()
    found = make.made(["rbt-top==1.0"], root, "environment", told.append)
    # What is not tied to it is as it is here, though there are newer ones.
    assert found.moved == {"rbt-base": ("1.0", "2.0")}
    said = subprocess.run(
        [found.python, "-c", "import rbt_top, rbt_free; print(rbt_top.VERSION, rbt_free.VERSION)"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert said.stdout.split() == ["1.0", "1.0"]
    assert list(found.directory.rglob("rbt_top.*.pyc")), "compiled before the first cold start"
    lock = (found.directory / make.LOCK).read_text()
    assert "--hash=sha256:" in lock
    assert found.lock == hashlib.sha256(lock.encode()).hexdigest()
    assert len(told) == 2
    assert make.made(["rbt-top==1.0"], root, "environment", told.append) == found
    assert len(told) == 2, "it is there"


def test_a_build_that_was_cut_off_is_made_again(wheels: Path, tmp_path: Path) -> None:
    root = tmp_path / "environments"
    key = locate.key_of(["rbt-top==3.0"], installed.roots(), installed.versions())
    (root / f"{key}.part" / "bin").mkdir(parents=True)
    (root / key / "bin").mkdir(parents=True)  # complete ones have a mark
    found = make.made(["rbt-top==3.0"], root, "environment")
    assert found.directory == root / key
    assert not (root / f"{key}.part").exists()
    (found.directory / make.LOCK).write_text("damaged")
    assert make.made(["rbt-top==3.0"], root, "environment") == found


@pytest.mark.parametrize(
    ("asked", "reason"),
    [
        (["rbt-top==9.0"], "there is no version of rbt-top==9.0"),
        (["rbt-top==1.0", "rbt-base==2.0"], "unsatisfiable"),
        (["rbt-nothing"], "rbt-nothing was not found"),
    ],
)
def test_what_cannot_be_made(wheels: Path, tmp_path: Path, asked: list[str], reason: str) -> None:
    root = tmp_path / "environments"
    with pytest.raises(UsageError, match=reason) as caught:
        make.made(asked, root, make.where_of(" ".join(asked)))
    text = str(caught.value)
    assert text.startswith(f"environment = '{asked[0]}") and "\n" not in text
    assert [path.suffix for path in root.iterdir()] == [".lock"], "nothing else is left"
