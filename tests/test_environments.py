"""Environments: spellings, what an environment keeps to, keys, locks, and what is refused.

The tests of uv itself resolve and install small wheels from a directory, without a network.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import subprocess
import sys
import zipfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recoverybench.campaign.bench import Bench
from recoverybench.campaign.campaign import Campaign, Silent
from recoverybench.campaign.design import Place
from recoverybench.cells import Cell
from recoverybench.environments import describe, installed, locate, make, prepare, uv
from recoverybench.environments.environment import Environment, own
from recoverybench.environments.resolve import moved, pinned, pins
from recoverybench.environments.support import COMMAND, needed, why_not, why_not_at_all
from recoverybench.environments.uv import UvError
from recoverybench.errors import HarnessError, UsageError
from recoverybench.plan import environments
from recoverybench.plan.factors import FACTORS
from recoverybench.plan.suite import Overrides, Suite, load_suite

OLD = "jax==0.10.1"


def cell(strategy: str = "elastic", environment: str | None = OLD, **changes: Any) -> Cell:
    values: dict[str, Any] = {
        "workload": "mlp:tiny",
        "topology": "3x1",
        "strategy": strategy,
        "state_source": "storage",
        "fault": "kill",
        "trigger": "step:25",
        "interval": 10,
        "victim": None,
        "heartbeat_s": 10.0,
        "watchdog_s": 5.0,
        "coordinator": "worker0",
        "compile_cache": "executable",
        "environment": environment,
    }
    return Cell(**{**values, **changes})


def environment(name: str | None = OLD, **changes: Any) -> Environment:
    values: dict[str, Any] = {
        "name": name,
        "python": "/x/bin/python",
        "version": "3.11.7 (main)",
        "release": "3.11.7",
        "packages": {"jax": "0.10.1"},
    }
    return Environment(**{**values, **changes})


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


# Asking an interpreter


def test_this_interpreter_described(tmp_path: Path) -> None:
    """By the probe itself, without its imports, which a test with workers has."""
    path = tmp_path / "python"
    path.write_text(
        f"#!{sys.executable}\nimport sys\nsys.path.insert(0, {os.getcwd()!r})\n"
        "from recoverybench.worker import probe\n"
        "probe.lacks = lambda: {'recoverability': 'there is none'}\nprobe.main()\n"
    )
    path.chmod(0o755)
    found = describe.described("python:x", str(path), tmp_path, "environment")
    assert found.version == sys.version
    assert found.packages["jax"] == installed.versions()["jax"]
    assert found.lacks == {"recoverability": "there is none"}
    assert found.variables["PYTHONPATH"].startswith(str(tmp_path))
    kept = found.as_dict()
    assert json.loads(json.dumps(kept)) == kept
    assert kept["sha256"] == found.sha256 and kept["python"] == found.release


def test_an_environment_that_was_made_is_asked_once(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    asked: list[str] = []

    def described(name: str, *_: object) -> Environment:
        asked.append(name)
        return environment(name)

    monkeypatch.setattr(describe, "described", described)

    def ask(name: str, identity: str = "00", **settings: str) -> Environment:
        return describe.described_once(
            name, "/p", tmp_path, "environment", settings, tmp_path / "answers", identity
        )

    assert ask("a") == ask("a") == environment("a")
    assert ask("b").name == "b" and asked == ["a"], "the same interpreter under another name"
    ask("a", "01")
    ask("a", XLA_FLAGS="--x")
    assert asked == ["a"] * 3


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ("echo hello", "expected a Python that answers"),
        ("echo broken >&2; exit 3", r"expected a Python that answers \(broken\)"),
        ("exit 3", r"expected a Python that answers \(it ended with code 3\)"),
        (
            """echo '{"release": "3.9.1", "version_info": [3, 9, 1]}'""",
            "3.11 or newer, it is 3.9.1",
        ),
    ],
)
def test_what_is_no_python(tmp_path: Path, script: str, reason: str) -> None:
    path = tmp_path / "python"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    with pytest.raises(UsageError, match=reason):
        describe.described("python:x", str(path), tmp_path, "environment = 'python:x'")


def test_no_file_at_all(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"that can be started \(No such file or directory\)"):
        describe.described("python:x", str(tmp_path / "none"), tmp_path, "environment")


def test_a_python_that_lacks_what_workers_need(monkeypatch: pytest.MonkeyPatch) -> None:
    lacking = environment("python:/x", lacks={"workers": "jax cannot be imported (gone)"})
    monkeypatch.setattr(prepare, "described", lambda *_: lacking)
    monkeypatch.setattr(prepare, "code_directory", lambda root: root)
    with pytest.raises(UsageError, match=r"all that workers need: jax cannot be imported \(gone\)"):
        prepare.prepare(suite(cell(environment="python:/x")), Path("/r"), {})


# What a release cannot measure


def suite(*cells: Cell) -> Suite:
    return Suite("s", "", 1, 0, 60.0, 45, cells)


@pytest.fixture
def known(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> dict[str, Environment]:
    """Environments that `prepare` finds, by their names."""
    found: dict[str, Environment] = {}
    here = make.Made(tmp_path, {"flax": ("4", "5")}, "00")
    monkeypatch.setattr(prepare, "made", lambda *_: here)
    monkeypatch.setattr(prepare, "code_directory", lambda root: root)
    monkeypatch.setattr(prepare, "described_once", lambda name, *_: found[name])
    return found


def test_a_cell_that_a_release_cannot_measure_is_listed(known: dict[str, Environment]) -> None:
    """Neither skipped in silence nor a failure of the strategy (S10)."""
    known[OLD] = environment(lacks={"recoverability": "JAX has no setting"})
    asked = [cell("restart"), cell("elastic"), cell("elastic", None)]
    found = prepare.prepare(suite(*asked), Path("/r"), {})
    assert found.suite.cells == (asked[0], asked[2])
    assert found.suite.unsupported == ((asked[1], "jax==0.10.1: JAX has no setting"),)
    assert list(found.as_dict()) == [OLD]
    assert found.as_dict()[OLD]["moved"] == {"flax": ["4", "5"]}
    assert found.notes() == ["jax==0.10.1 also needed flax 4 (here 5)"]


def test_nothing_left_to_measure(known: dict[str, Environment]) -> None:
    known[OLD] = environment(lacks={"workers": "flax cannot be imported"})
    with pytest.raises(UsageError, match=r"unsupported: jax==0\.10\.1: flax"):
        prepare.prepare(suite(cell(), cell("restart")), Path("/r"), {})


def test_without_another_environment_nothing_is_asked() -> None:
    plain = suite(cell(environment=None))
    found = prepare.prepare(plain, Path("/nowhere"), {})
    assert found.suite is plain
    assert list(found.environments) == [None] and found.as_dict() == {} and found.notes() == []


def test_what_strategies_need() -> None:
    assert needed(cell("restart")) == ("workers",)
    assert needed(cell("elastic", agreement="on")) == ("workers", "recoverability", "agreement")
    assert needed(cell("restart", fault="preempt:unhandled")) == ("workers", "preemption")
    assert "pathways" in needed(cell("pathways"))


def test_the_supervisor_s_own_is_never_asked() -> None:
    assert why_not(cell(environment=None), own()) is None


def test_commands_have_a_python_of_their_own(tmp_path: Path) -> None:
    path = tmp_path / "x.toml"
    path.write_text("[workload]\n")
    command = cell(workload=str(path))
    assert why_not_at_all(command) == COMMAND
    assert why_not_at_all(cell(workload=str(path), environment=None)) is None


# On a bench


class Launcher:
    """Counts what is open."""

    open: ClassVar[list[str | None]] = []

    def __init__(self, variables: dict[str, str], log: Path, python: str | None = None) -> None:
        self.environment, self.log, self.python = variables, log, python
        self.open.append(python)

    def close(self) -> None:
        self.open.remove(self.python)


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    monkeypatch.setattr(Launcher, "open", [])
    module: Any = type("module", (), {"create": Launcher})
    known = {
        None: own(),
        "a": environment("a", python="/a", variables={"PYTHONPATH": "/code"}),
        "b": environment("b", python="/b", stable=False),
    }
    return Bench(module, tmp_path / "fork.log", "cpu", {"X": "1"}, tmp_path / "d", known, 2)


def test_fork_servers_end_when_there_are_too_many(bench: Bench) -> None:
    own_one = bench.launcher_of(None)
    assert bench.launcher_of(None) is own_one
    one: Any = bench.launcher_of("a")
    assert one.environment == {"X": "1", "PYTHONPATH": "/code"} and one.log.name == "fork-1.log"
    bench.launcher_of(None)
    bench.launcher_of("b")
    assert Launcher.open == [None, "/b"], "the one that was used last stays"
    bench.keep({"b"})
    assert Launcher.open == ["/b"]
    bench.close()
    assert Launcher.open == []


def test_keys_follow_the_environment(bench: Bench) -> None:
    assert bench.software_of("a") == {"versions": {"jax": "0.10.1"}, "python": "3.11.7 (main)"}
    assert bench.software_of(None) == own().software()
    # Of code that may be edited nothing is kept for another run.
    assert bench.software_of("b")["bench"] == bench.opened_ns


# A release on which nothing runs


def campaign_of(tmp_path: Path, kept: list[Any]) -> Campaign:
    def trial_dirs(name: str) -> tuple[Path, Path]:
        found = tmp_path / name / "journal", tmp_path / name / "logs"
        for path in found:
            path.mkdir(parents=True)
        return found

    run: Any = SimpleNamespace(trial_dirs=trial_dirs, append=kept.append, path=tmp_path)
    nobody: Any = SimpleNamespace()
    return Campaign(suite(cell()), run, nobody, Silent())


def test_a_release_on_which_no_job_runs_is_an_outcome(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> Any:
        tries.append(1)
        raise HarnessError("no fault, and yet: the healthy job failed")

    kept: list[Any] = []
    tries: list[int] = []
    monkeypatch.setattr(Campaign, "_reference", fail)
    campaign = campaign_of(tmp_path, kept)
    keys: Any = SimpleNamespace(reference="r", program="p")
    for place in (Place(cell("restart"), 0, 0, 0), Place(cell("restart"), 1, 0, 1)):
        plan = campaign._plan(place)
        campaign._one(plan, keys, campaign._reference_of(plan, keys))
    assert [record.outcome for record in kept] == ["invalid", "invalid"]
    assert kept[0].error == "no fault, and yet: the healthy job failed"
    assert kept[0].recovery_s is None and kept[0].cell.environment == OLD
    assert len(tries) == 1, "it is not tried for each trial"
    plan = campaign._plan(Place(cell("restart", None), 0, 0, 0))
    keys = SimpleNamespace(reference="own", program="p")
    with pytest.raises(HarnessError, match="the healthy job failed"):
        campaign._reference_of(plan, keys)
