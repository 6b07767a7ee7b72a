"""What an interpreter says of itself, and what a release cannot measure."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from recoverybench.environments import describe, installed, make, prepare
from recoverybench.environments.environment import Environment, own
from recoverybench.environments.support import COMMAND, needed, why_not, why_not_at_all
from recoverybench.errors import UsageError
from tests.environment_samples import OLD, cell, environment, suite

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
