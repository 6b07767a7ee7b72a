"""Workers of another interpreter, beside those of the supervisor's own, in one campaign."""

from __future__ import annotations

import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from tests.real_support import Command, story, suite_text

pytestmark = [pytest.mark.real, pytest.mark.timeout(400)]


def test_another_interpreter_beside_this_one(command: Command, tmp_path: Path) -> None:
    """A virtual environment over what is installed here: the same releases, another Python."""
    other = tmp_path / "other"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", other], check=True)
    site = next((other / "lib").glob("python*/site-packages"))
    (site / "over.pth").write_text(sysconfig.get_path("purelib") + "\n")
    name = f"python:{other}/bin/python"
    matrix = {"topology": ["2x1"], "environment": ["this", name]}
    run = command.measure(tmp_path, suite_text(matrix), "--strict")
    assert {t.cell.environment for t in run.trials} == {None, name}
    assert len({t.seed for t in run.trials}) == 1, "the environment is all that differs"
    for trial in run.trials:
        assert trial.outcome == "recovered", story(run, trial)
    kept = run.info.environments
    assert list(kept) == [name]
    assert kept[name]["packages"]["jax"] == run.info.environment["jax"]
    assert kept[name]["python"] == run.info.environment["python"]
    assert kept[name]["interpreter"] == str(other / "bin/python")
    assert len(list((run.path / "reference").glob("*.json"))) == 2, "each is its own reference"
    assert (run.path / "logs" / "fork-server-1.log").exists()
