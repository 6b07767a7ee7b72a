"""The example of a workload of one's own, in parts on a mesh, broken and brought back."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.real_support import Command, story, suite_text

pytestmark = [pytest.mark.real, pytest.mark.timeout(400)]


def test_the_example_recovers_on_a_mesh(command: Command, tmp_path: Path, repository: Path) -> None:
    shutil.copy(repository / "workloads/examples/regression.py", tmp_path / "mine.py")
    mesh = {"workload": ["mine.py:make"], "topology": ["2x2:data=2,fsdp=2"]}
    run = command.measure(tmp_path, suite_text(mesh), "--strict")
    [trial] = run.trials
    assert trial.outcome == "recovered", story(run, trial)
    assert trial.verify is not None
    assert trial.verify.passed
    assert trial.verify.tolerance is None  # bit for bit, as on an unchanged topology
    assert trial.cell.workload == f"{tmp_path / 'mine.py'}:make"
