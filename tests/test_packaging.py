"""What is installed from where: the wheel, the lock files, the Makefile, the folder's state."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path
from typing import Any

import pytest

import recoverybench

LOCKS = ("requirements-uv.lock", "requirements.lock", "requirements-dev.lock")


@pytest.fixture(scope="module")
def project(repository: Path) -> dict[str, Any]:
    """pyproject.toml."""
    return tomllib.loads((repository / "pyproject.toml").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def wheel(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built from what is committed or would be, without network."""
    pytest.importorskip("hatchling")
    source = tmp_path_factory.mktemp("source")
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(repository / name, source)
    for name in ("recoverybench", "workloads"):
        ignore = shutil.ignore_patterns("__pycache__")
        shutil.copytree(repository / name, source / name, ignore=ignore)
    done = subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel"],
        cwd=source,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    (built,) = (source / "dist").glob("*.whl")
    return built


def test_the_description_says_what_it_is(project: dict[str, Any], repository: Path) -> None:
    assert project["project"]["description"].startswith("Training failure recovery")
    prose = [
        line
        for line in (repository / "README.md").read_text(encoding="utf-8").splitlines()
        if line and not line.startswith(("#", "[", "<"))
    ]
    assert prose[0].startswith("Training failure recovery")


def test_the_wheel_holds_package_and_workloads(wheel: Path, repository: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        metadata = next(n for n in names if n.endswith("/METADATA"))
        text = archive.read(metadata).decode()
    for folder, prefix in (("recoverybench", ""), ("workloads", "recoverybench/")):
        for path in (repository / folder).rglob("*"):
            if path.is_file() and "__pycache__" not in path.parts:
                assert prefix + str(path.relative_to(repository)) in names
    assert "recoverybench/py.typed" in names
    assert any(n.endswith("/licenses/LICENSE") for n in names)
    assert f"Version: {recoverybench.__version__}" in text
    assert not [n for n in names if n.startswith(("tests/", "results/", "reports/", "docs/"))]


def test_the_wheel_works_from_its_own_folder(wheel: Path, tmp_path: Path) -> None:
    """Not the checkout: -I keeps it off the path, and the editable install is passed by."""
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path)
    code = (
        f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n"
        "import recoverybench; print(recoverybench.__file__)\n"
        "from recoverybench.cli import call; sys.exit(call(['list', 'workloads']))"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-c", code],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    where, *listed = done.stdout.splitlines()
    assert where == str(tmp_path / "recoverybench/__init__.py")
    assert {"mlp", "transformer"} <= {line.split()[0] for line in listed}


@pytest.mark.parametrize("name", LOCKS)
def test_every_locked_package_has_a_version_and_hashes(name: str, repository: Path) -> None:
    text = (repository / name).read_text(encoding="utf-8")
    entries = re.split(r"\n(?=[a-z0-9])", re.sub(r"(?m)^\s*#.*\n", "", text))
    assert entries
    for entry in entries:
        assert re.match(r"[a-z0-9.-]+==\S+", entry), entry
        assert "--hash=sha256:" in entry, entry.partition("\n")[0]


def test_the_locks_hold_what_is_declared(project: dict[str, Any], repository: Path) -> None:
    def locked(name: str) -> set[str]:
        text = (repository / name).read_text(encoding="utf-8")
        return set(re.findall(r"(?m)^([a-z0-9.-]+)==", text))

    def wanted(requirements: list[str]) -> set[str]:
        names = (re.match(r"[\w.-]+", r) for r in requirements)
        return {m.group().replace("_", "-").lower() for m in names if m}

    assert wanted(project["project"]["dependencies"]) <= locked("requirements.lock")
    assert wanted(project["dependency-groups"]["dev"]) <= locked("requirements-dev.lock")
    assert wanted(project["build-system"]["requires"]) <= locked("requirements-dev.lock")
    assert locked("requirements-uv.lock") == {"uv"}


def make(repository: Path, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """The Makefile, with nothing of an outer make."""
    environment = {k: v for k, v in os.environ.items() if k not in ("MAKEFLAGS", "MFLAGS", "VENV")}
    return subprocess.run(
        ["make", "--no-print-directory", *arguments, *(f"{k}={v}" for k, v in variables.items())],
        cwd=repository,
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_make_alone_lists_every_target(repository: Path) -> None:
    text = (repository / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"(?m)^([a-z]+):", text))
    assert {"setup", "demo", "test", "lint", "format", "bench", "lock", "clean"} <= targets
    done = make(repository)
    assert done.returncode == 0, done.stderr
    assert {line.split()[1] for line in done.stdout.splitlines()} == targets


@pytest.mark.parametrize(
    ("python", "said"),
    [("no-such-python", "is not there"), ("{old}", "is 3.9"), ("{bare}", "has no venv module")],
)
def test_a_python_that_will_not_do_is_one_clear_line(
    python: str, said: str, repository: Path, tmp_path: Path
) -> None:
    """Stand-ins answer as an old Python, and as one without its venv module, would."""
    old, bare = tmp_path / "old", tmp_path / "bare"
    old.write_text('#!/bin/sh\ncase "$2" in *exit*) exit 1;; *) echo 3.9;; esac\n')
    bare.write_text('#!/bin/sh\ncase "$2" in *venv*) exit 1;; *) echo 3.12;; esac\n')
    for path in (old, bare):
        path.chmod(0o755)
    venv = tmp_path / "venv"
    done = make(repository, "setup", PYTHON=python.format(old=old, bare=bare), VENV=str(venv))
    assert done.returncode != 0
    ours = [line for line in done.stderr.splitlines() if "***" not in line]
    assert len(ours) == 1
    assert said in ours[0]
    assert not venv.exists()


def test_hooks_download_nothing(repository: Path) -> None:
    text = (repository / ".pre-commit-config.yaml").read_text(encoding="utf-8")
    assert set(re.findall(r"repo: (\S+)", text)) == {"local"}
    entries = re.findall(r"entry: (\S+)", text)
    assert entries and all(entry.startswith(".venv/bin/") for entry in entries)


def test_continuous_integration_runs_the_tests(repository: Path) -> None:
    script = repository / ".ci/run"
    assert os.access(script, os.X_OK)
    assert "make test" in script.read_text()
    assert ".ci/run" in (repository / ".github/workflows/ci.yml").read_text()
