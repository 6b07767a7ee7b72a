"""Environments: spellings, what an environment keeps to, keys, locks."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recoverybench.environments import installed, locate
from recoverybench.environments.resolve import moved, pinned, pins
from recoverybench.environments.uv import UvError
from recoverybench.errors import UsageError
from recoverybench.plan import environments
from recoverybench.plan.factors import FACTORS
from recoverybench.plan.suite import Overrides, load_suite
from tests.environment_samples import OLD

# Spelling


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("this", None),
        ("jax==0.10.1", "jax==0.10.1"),
        ("  jax==0.10.1   orbax-checkpoint==0.11.* ", "jax==0.10.1 orbax-checkpoint==0.11.*"),
        ("jax[cuda12]>=0.9,<0.10", "jax[cuda12]>=0.9,<0.10"),
        ("flax@git+https://github.com/google/flax", "flax@git+https://github.com/google/flax"),
        ("numpy", "numpy"),
        ("python:/opt/x y/bin/python", "python:/opt/x y/bin/python"),
        ("python:python3.12", "python:python3.12"),
    ],
)
def test_spellings(text: str, found: str | None) -> None:
    assert environments.read(text, "--env") == found


@pytest.mark.parametrize(
    "value",
    [
        "",
        " ",
        "python:",
        "jax=1",
        "jax==",
        "this jax==0.10.1",
        "-r x.txt",
        "jax; y",
        "a\0b",
        3,
        None,
        "jax == 0.10.1",
        "--pre",
        "./x.whl",
        "jax==0.10.1\n--pre",
    ],
)
def test_what_is_no_environment(value: object) -> None:
    with pytest.raises(UsageError, match=r"^--env = .*: expected requirements such as") as caught:
        environments.read(value, "--env")
    assert "\n" not in str(caught.value)


@given(st.text())
def test_a_spelling_is_read_or_refused_in_one_line(text: str) -> None:
    """What is read is read again as itself: a run that goes on has the same cells."""
    try:
        found = environments.read(text, "--env")
    except UsageError as error:
        assert len(str(error).splitlines()) == 1
        return
    if found is None:
        assert " ".join(text.split()) == environments.THIS
        return
    assert environments.read(found, "--env") == found
    if environments.path_of(found) is None:
        # Nothing that uv would take for an option or for another line of a file.
        assert all(each[0].isalnum() for each in environments.requirements_of(found))


def test_a_path_is_the_same_one_everywhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    assert environments.read("python:x/bin/python", "") == f"python:{tmp_path}/x/bin/python"


def test_the_option_is_called_env() -> None:
    assert FACTORS["environment"].option == "--env"
    with pytest.raises(UsageError, match=r"^--env = 'jax=1': expected"):
        load_suite("quick", Overrides(environment=("jax=1",)), device_limit=16)
    both = load_suite("quick", Overrides(environment=("this", OLD)), device_limit=16)
    assert {c.environment for c in both.cells} == {None, OLD}


def test_the_suite_of_releases() -> None:
    suite = load_suite("releases", device_limit=16)
    assert not suite.unsupported
    names = dict.fromkeys(c.environment for c in suite.cells)
    assert None not in names, "what runs this has more installed, and starts more slowly"
    assert len(names) >= 5


# What it keeps to


def test_what_is_installed_here() -> None:
    found = installed.versions()
    assert set(installed.ROOTS) <= set(found)
    assert {"jaxlib", "tensorstore"} <= set(found), "what these need is followed"
    assert not {"pandas", "plotly", "click", "recoverybench"} & set(installed.ROOTS)


def test_an_accelerator_is_asked_for_as_well() -> None:
    there = {"jax-cuda12-plugin": ("0.10.2", ["jax-cuda12-pjrt==0.10.2"])}
    assert "jax[cuda12]" in installed.roots(there.get)
    assert installed.versions(there.get) == {"jax-cuda12-plugin": "0.10.2"}
    assert installed.roots(lambda name: None) == installed.ROOTS


@pytest.mark.parametrize(
    ("requirement", "name"),
    [("ml_dtypes", "ml-dtypes"), ("Jax[cuda12]==1", "jax"), ("a.b~=1; python_version>'3'", "a-b")],
)
def test_names(requirement: str, name: str) -> None:
    assert installed.name_of(requirement) == name


def test_a_lock_file_is_read() -> None:
    lock = "a-b==1.0 \\\n    --hash=sha256:00\nC==2.0.post1 ; python_version > '3'\nd @ file:///d\n"
    assert pins(lock) == {"a-b": "1.0", "c": "2.0.post1"}


HERE = {"jax": "2", "jaxlib": "2", "flax": "5", "optax": "1"}


def resolver(rules: Iterable[Mapping[str, str]], greedy: Mapping[str, str]) -> Any:
    """A resolver that answers `greedy` first, and of `rules`, in their order, the first that has
    all that is held.
    """
    calls: list[tuple[str, ...]] = []

    def resolve(preferred: Mapping[str, str], held: Iterable[str]) -> str:
        held = tuple(held)
        calls.append(held)
        if not held:
            return text_of(greedy)
        for each in rules:
            if all(each.get(name) == preferred[name] for name in held):
                return text_of(each)
        raise UvError("no solution")

    resolve.calls = calls  # type: ignore[attr-defined]
    return resolve


def text_of(versions: Mapping[str, str]) -> str:
    return "".join(f"{name}=={version}\n" for name, version in versions.items())


def test_nothing_moves_that_need_not() -> None:
    """jaxlib follows jax, and flax has to; optax was moved for nothing."""
    greedy = {"jax": "1", "jaxlib": "1", "flax": "4", "optax": "0"}
    best = {"jax": "1", "jaxlib": "1", "flax": "4", "optax": "1"}
    resolve = resolver([best], greedy)
    lock = pinned(resolve, HERE, ["jax==1"])
    assert pins(lock) == best
    assert moved(lock, HERE, ["jax==1"]) == {"jaxlib": ("1", "2"), "flax": ("4", "5")}
    assert resolve.calls == [(), ("flax",), ("jaxlib",), ("optax",)]


def test_nothing_more_is_asked_where_nothing_moved() -> None:
    exact = {**HERE, "jax": "1"}
    resolve = resolver([], exact)
    assert pins(pinned(resolve, HERE, ["jax==1"])) == exact
    assert resolve.calls == [()]


def test_what_cannot_be_resolved_is_said() -> None:
    def resolve(preferred: Mapping[str, str], held: Iterable[str]) -> str:
        raise UvError("no such version")

    with pytest.raises(UvError, match="no such version"):
        pinned(resolve, HERE, ["jax==9"])


@given(
    st.dictionaries(st.sampled_from("abcdef"), st.sampled_from("12"), min_size=1),
    st.dictionaries(st.sampled_from("abcdef"), st.sampled_from("12"), min_size=1),
)
def test_what_moved_is_what_differs(there: dict[str, str], here: dict[str, str]) -> None:
    asked = ["a==1"]
    found = moved(text_of(there), here, asked)
    assert set(found) == {n for n, v in there.items() if n != "a" and here.get(n) != v}
    assert all(pair == (there[name], here.get(name)) for name, pair in found.items())


# Keys, locks, code


def test_a_key_covers_what_decides() -> None:
    key = locate.key_of(["a==1", "b"], ["jax"], HERE)
    assert key == locate.key_of(["b", "a==1"], ["jax"], dict(reversed(HERE.items())))
    others = {
        locate.key_of(["a==2", "b"], ["jax"], HERE),
        locate.key_of(["a==1", "b"], ["jax", "jax[cuda12]"], HERE),
        locate.key_of(["a==1", "b"], ["jax"], {**HERE, "flax": "6"}),
    }
    assert len(others) == 3 and key not in others


def test_a_key_covers_python(monkeypatch: pytest.MonkeyPatch) -> None:
    key = locate.key_of([OLD], [], {})
    monkeypatch.setattr(sys, "version", "4.0.0")
    assert locate.key_of([OLD], [], {}) != key


_HOLD = """
import sys
from pathlib import Path
from recoverybench.environments import locate
with locate.locked(Path(sys.argv[1])):
    print(flush=True)
    sys.stdin.read()
"""


def test_a_lock_is_held_against_another_process(tmp_path: Path) -> None:
    """And is free once that one has ended, however it did."""
    import fcntl

    path = tmp_path / "x.lock"
    with subprocess.Popen(
        [sys.executable, "-c", _HOLD, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as other:
        assert other.stdout is not None
        try:
            assert other.stdout.readline() == b"\n"
            with path.open() as file, pytest.raises(BlockingIOError):
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        finally:
            other.kill()
    with locate.locked(path):
        pass


def test_the_code_alone_is_on_the_path(tmp_path: Path) -> None:
    code = locate.code_directory(tmp_path)
    assert code == locate.code_directory(tmp_path)
    assert {path.name for path in code.iterdir()} <= {"recoverybench", "workloads"}
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", _FIND, str(code)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert {"mlp", "transformer"} <= set(done.stdout.split())


_FIND = """
import sys
sys.path.insert(0, sys.argv[1])
from pathlib import Path
import recoverybench
package = Path(recoverybench.__file__).parent
inside = package / "workloads"
folder = inside if inside.is_dir() else package.parent / "workloads"
print(*(path.stem for path in folder.glob("*.py")))
"""


def test_a_link_to_another_checkout_is_mended(tmp_path: Path) -> None:
    link = locate.code_directory(tmp_path) / "recoverybench"
    target = os.readlink(link)
    link.unlink()
    link.symlink_to(tmp_path / "gone")
    locate.code_directory(tmp_path)
    assert os.readlink(link) == target


def test_the_user_s_own_path_stays() -> None:
    found = locate.variables(Path("/code"), {"PYTHONPATH": "/mine:/yours"})
    assert found == {"PYTHONPATH": "/code:/mine:/yours"}
    assert locate.variables(Path("/code"), {}) == {"PYTHONPATH": "/code"}
