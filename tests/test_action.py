"""The GitHub Action's own scripts, run on a repository with two commits."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.sides import trials, written

STAND_IN = """
import json, os, shutil, sys
from pathlib import Path
if sys.argv[1] == "run":
    out = Path(sys.argv[sys.argv.index("--out") + 1])
    shutil.copytree(Path("kept").resolve(), out)
    with open(os.environ["HEARD"], "a") as heard:
        heard.write(json.dumps(sys.argv[1:]) + chr(10))
    sys.exit(0)
sys.path.insert(0, os.environ["REAL"])
for name in [n for n in sys.modules if n.split(".")[0] == "recoverybench"]:
    del sys.modules[name]
from recoverybench.cli import main
main()
"""
"""`python -m recoverybench` whose `run` takes the run that lies in the checkout."""


def git(folder: Path, *arguments: str) -> str:
    command = ["git", "-c", "user.name=t", "-c", "user.email=t@t", "-C", str(folder), *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


@pytest.fixture
def checkout(tmp_path: Path) -> tuple[Path, str]:
    """A repository whose head recovers in half as much time again as its base; and the base."""
    folder = tmp_path / "checkout"
    (folder / "recoverybench").mkdir(parents=True)
    (folder / "recoverybench" / "__init__.py").touch()
    (folder / "recoverybench" / "__main__.py").write_text(STAND_IN)
    git(folder, "init", "-q")
    for factor in (1.0, 1.5):
        if (folder / "kept").exists():
            shutil.rmtree(folder / "kept")
        written(folder, trials(10, factor, seed=int(10 * factor)), "kept")
        (folder / "kept" / "note").write_text(str(factor))
        git(folder, "add", "-A")
        git(folder, "commit", "-qm", f"times {factor}")
    return folder, git(folder, "rev-parse", "HEAD~1")


def test_both_sides_are_run_and_compared(
    checkout: tuple[Path, str], tmp_path: Path, repository: Path
) -> None:
    folder, base = checkout
    site = next(p for p in sys.path if p.endswith("site-packages"))
    place = 'echo "$SITE" > "$($PYTHON -c "import site; print(site.getsitepackages()[0])")/x.pth"'
    environment = {
        **os.environ,
        "RUNNER_TEMP": str(tmp_path),
        "GITHUB_OUTPUT": str(tmp_path / "output"),
        "GITHUB_STEP_SUMMARY": str(tmp_path / "summary"),
        "HEARD": str(tmp_path / "heard"),
        "REAL": str(repository),
        "SITE": site,
        "RB_PYTHON": sys.executable,
        "RB_SUITE": "quick",
        "RB_OPTIONS": "--trials 10 --label 'two words; $(touch ran)'",
        "RB_BASE": base,
        "RB_INSTALL": place,
        "RB_FAIL_ON": "regression",
        "RB_MARGIN": "10%",
    }
    environment.pop("PYTHONPATH", None)
    script = repository / ".github/actions/compare/compare.sh"
    done = subprocess.run(
        ["bash", str(script)], cwd=folder, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    said = dict(line.split("=", 1) for line in (tmp_path / "output").read_text().splitlines())
    assert said["verdict"] == "wrong"
    text = Path(said["markdown"]).read_text()
    assert "3 worse" in text and text == (tmp_path / "summary").read_text()
    heard = (tmp_path / "heard").read_text().splitlines()
    assert len(heard) == 2 and '"two words; $(touch ran)"' in heard[0]
    assert not (folder / "ran").exists()
    assert git(folder, "worktree", "list").count("\n") == 0  # nothing stays


def test_the_action_passes_every_variable_that_its_scripts_read(repository: Path) -> None:
    folder = repository / ".github/actions/compare"
    action = (folder / "action.yml").read_text()
    for name in ("compare.sh", "comment.sh"):
        script = (folder / name).read_text()
        assert f'bash "$GITHUB_ACTION_PATH/{name}"' in action
        read = set(re.findall(r"\bRB_[A-Z_]+", script)) - {"RB_PYTHON"}
        assert read and all(f"{variable}: $" in action for variable in read)
