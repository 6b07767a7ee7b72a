"""Storage that fails under real workers: saves that do not count, restores that try, crashes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from recoverybench import capabilities
from recoverybench.records import TrialRecord
from recoverybench.results.store import Run
from tests.real_support import Command, lines_of, only, suite_text

pytestmark = [pytest.mark.real, pytest.mark.timeout(400)]

CELLS: tuple[dict[str, Any], ...] = (
    # A survivor may wait ten minutes for what worker 0 could not make: end every process.
    {"fault": "disk-full", "strategy": "warm-restart"},
    {"fault": "disk-full:500ms", "strategy": "warm-restart"},
    # Only the last save is left.
    {"fault": "io-error:save", "trigger": "step:25", "strategy": "warm-restart"},
    {"fault": "io-error:restore"},
    {"fault": "slow-storage:5MB/s"},
    {"fault": "slow-storage:1MB/s:restore"},
    {"trigger": "save:51:torn", "strategy": "warm-restart", "victim": 0},
    {"trigger": "save:89:after", "strategy": "warm-restart", "victim": 0},
)
PATIENCE_S = 300.0
SAVED, BEFORE = 10, 5
"""The save that the trigger meets, and the one before it."""


@pytest.fixture(scope="module")
def run(command: Command, tmp_path_factory: pytest.TempPathFactory) -> Run:
    if (why := capabilities.MISSING["user-notification"]()) is not None:
        pytest.skip(why)
    base: dict[str, list[Any]] = {
        "strategy": ["elastic"],
        "watchdog": ["1s"],
        "fault": ["kill"],
        "interval": [SAVED - BEFORE],
    }
    suite = suite_text(base, include=CELLS)
    directory = tmp_path_factory.mktemp("storage")
    run = command.measure(directory, suite, patience_s=PATIENCE_S)
    assert (directory / "run.html").is_file()  # whatever became of the trials
    left = command.processes()
    assert not left, f"still running after the command: {left}"
    return run


def journal(run: Run, trial: TrialRecord) -> list[dict[str, Any]]:
    """Every line of every journal of a trial, in order of time."""
    files = Path(run.path / "journal" / trial.trial).iterdir()
    return sorted((line for file in files for line in lines_of(file)), key=lambda line: line["t"])


def after_injection(run: Run, trial: TrialRecord, event: str) -> list[dict[str, Any]]:
    lines = journal(run, trial)
    injected = next(line["t"] for line in lines if line["event"] == "inject")
    return [line for line in lines if line["event"] == event and line["t"] > injected]


def test_a_save_on_a_full_disk_is_no_checkpoint(run: Run) -> None:
    trial = only(run, fault="disk-full")
    assert trial.outcome == "not_recovered"
    assert trial.detected_by is not None
    assert not after_injection(run, trial, "committed")
    assert after_injection(run, trial, "undone")[-1]["operations"] > 0


def test_a_disk_with_room_again_takes_the_save(run: Run) -> None:
    trial = only(run, fault="disk-full:500ms")
    assert (trial.outcome, trial.error) == ("recovered", None)
    assert trial.verify is not None and trial.verify.passed
    # Steps whose saves failed are saved when they come again, and so is what follows.
    assert {line["step"] for line in after_injection(run, trial, "committed")} >= {20, 25}


def test_an_error_of_the_last_save_surfaces(run: Run) -> None:
    trial = only(run, fault="io-error:save")
    assert trial.outcome == "not_recovered"
    assert trial.detected_by is not None
    assert not [line for line in journal(run, trial) if line["event"] == "done"]


def test_every_checkpoint_is_tried_where_none_can_be_read(run: Run) -> None:
    trial = only(run, fault="io-error:restore")
    assert trial.outcome == "no_usable_checkpoint"
    tried = after_injection(run, trial, "restore")[0]["tried"]
    assert [t["step"] for t in tried] == sorted((t["step"] for t in tried), reverse=True)
    assert tried[0]["step"] in (10, 15)
    assert all(t["error"] for t in tried)


def test_slow_storage_alone_is_no_failure(run: Run) -> None:
    trial = only(run, fault="slow-storage:5MB/s")
    assert trial.outcome == "no_effect"
    assert not after_injection(run, trial, "evidence")


def test_a_restore_takes_what_the_disk_takes(run: Run) -> None:
    trial = only(run, fault="slow-storage:1MB/s:restore")
    assert (trial.outcome, trial.error) == ("recovered", None)
    # Three workers read about 0.75 MB each.
    assert trial.phases["restore"] > 1.5


def test_a_torn_save_is_skipped(run: Run) -> None:
    trial = only(run, trigger="save:51:torn")
    assert (trial.outcome, trial.restored_step) == ("recovered", BEFORE)
    (stopped,) = [line for line in journal(run, trial) if line["event"] == "stopped"]
    assert stopped["operation"] == 51
    assert f"/{SAVED}." in stopped["path"]


def test_what_is_left_of_a_save_does_not_hinder_the_next_one(run: Run) -> None:
    trial = only(run, trigger="save:51:torn")
    assert {line["step"] for line in after_injection(run, trial, "committed")} >= {10, 15, 20, 25}


def test_a_save_counts_from_its_last_rename_on(run: Run) -> None:
    trial = only(run, trigger="save:89:after")
    assert trial.outcome == "recovered"
    (stopped,) = [line for line in journal(run, trial) if line["event"] == "stopped"]
    committed = (stopped["kind"], Path(stopped["path"]).name) == ("rename", str(SAVED))
    assert trial.restored_step == (SAVED if committed else BEFORE)
