"""A trial whose workers' clocks are off by seconds and by days, and by another amount each."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from recoverybench.campaign.reference import load_reference
from recoverybench.results.store import load
from tests.conftest import REPOSITORY
from tests.real_support import Command, finish, lines_of, only, suite_text
from tests.test_clocks_joined import compare_with_the_truth
from tests.time_spaces import why_not

_WHY = why_not()

pytestmark = [
    pytest.mark.real,
    pytest.mark.timeout(300),
    pytest.mark.skipif(_WHY is not None, reason=f"no clocks of one's own here: {_WHY}"),
]


def test_the_times_are_those_of_the_one_clock_behind_all_of_them(
    command: Command, tmp_path: Path
) -> None:
    """A replacement appears while the recovery is measured: its clock is measured after it."""
    arguments = command.arguments(tmp_path, suite_text({"strategy": ["elastic"]}, trials=1))
    with (tmp_path / "said").open("ab") as said:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.time_spaces", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=said,
            cwd=REPOSITORY,
            env=command.environment,
            start_new_session=True,
        )
    assert finish(process) == 0, (tmp_path / "said").read_text()
    run = load(tmp_path / "run")
    record = only(run)
    (reference,) = (run.path / "reference").glob("*.json")
    compare_with_the_truth(run.path, record, load_reference(reference))
    lines = lines_of(run.path / "journal" / record.trial / "supervisor.0.jsonl")
    measured = [line["t"] for line in lines if line["event"] == "clock"]
    assert len(measured) == 6 and record.t_inject is not None
    window = record.t_inject, record.milestones["progress"]
    assert not any(window[0] <= t <= window[1] for t in measured)
