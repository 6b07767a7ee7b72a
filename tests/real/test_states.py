"""Every state source, with real workers: where the state came from, and what was lost."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from recoverybench import page_cache
from recoverybench.analysis.journal import read_trial
from recoverybench.records import TrialRecord
from recoverybench.results.store import Run
from tests.real_support import PATIENCE_S, Command, only, suite_text

pytestmark = [pytest.mark.real, pytest.mark.timeout(400)]

SOURCES = ("snapshot", "peer", "local")
KEEPING = ("elastic", "hot-spare")
AT_HAND = {"snapshot": "memory", "peer": "memory", "local": "local"}
TRIGGER, INTERVAL, WORKERS = 27, 5, 3


@pytest.fixture(scope="module")
def run(command: Command, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """One trial of each cell; the command's exit code says that every one recovered."""
    matrix: dict[str, Sequence[Any]] = {
        "strategy": KEEPING,
        "state_source": SOURCES,
        "trigger": [f"step:{TRIGGER}"],
        "interval": [INTERVAL],
    }
    restarts = [{"strategy": "restart", "state_source": s} for s in ("local", "snapshot")]
    # Storage whose files are not in memory, where this machine can drop them.
    cold = page_cache.why_not(str(command.temporary)) is None
    others = [
        {
            "strategy": "warm-restart",
            "state_source": "storage",
            "checkpoint": "straight",
            "page_cache": "cold" if cold else "warm",
        }
    ]
    suite = suite_text(matrix, include=[*restarts, *others])
    directory = tmp_path_factory.mktemp("states")
    # Two references as well: `peer` has a step function of its own.
    run = command.measure(directory, suite, "--strict", patience_s=2 * PATIENCE_S)
    left = command.processes()
    assert not left, f"still running after the command: {left}"
    return run


@pytest.fixture(params=[(strategy, source) for strategy in KEEPING for source in SOURCES])
def trial(request: pytest.FixtureRequest, run: Run) -> TrialRecord:
    """A trial in which all but one worker kept their process."""
    strategy, source = request.param
    return only(run, strategy=strategy, state_source=source)


def restores(run: Run, trial: TrialRecord) -> dict[int, dict[str, Any]]:
    lines = read_trial(run.path / "journal" / trial.trial).lines
    return {line["worker"]: line for line in lines if line["event"] == "restore"}


def test_every_trial_recovers_and_equals_the_reference(run: Run) -> None:
    assert [(t.outcome, t.error) for t in run.trials] == [("recovered", None)] * 9
    assert all(t.verify is not None and t.verify.passed for t in run.trials)


def test_no_step_is_lost_that_a_survivor_had(trial: TrialRecord) -> None:
    assert trial.restored_step is not None and trial.step_before is not None
    if trial.cell.state_source == "peer":
        assert trial.restored_step in (TRIGGER - 1, TRIGGER)
        assert trial.lost_steps in (0, 1)
    else:
        newest = TRIGGER - TRIGGER % INTERVAL
        # A save on a node goes on in the background: the newest may not be whole yet.
        older = newest - INTERVAL if trial.cell.state_source == "local" else newest
        assert trial.restored_step in (newest, older)


def test_the_replacement_gets_it_from_another_worker(run: Run, trial: TrialRecord) -> None:
    found = restores(run, trial)
    assert len(found) == WORKERS
    size = {line["bytes"] for line in found.values()}
    assert len(size) == 1 and size != {0}
    for worker, line in found.items():
        assert line["tried"] == []
        if worker == trial.victim:
            assert (line["tier"], {line["received"]}) == ("peer", size)
        else:
            # A survivor may also have been one step or one save behind.
            assert line["tier"] in (AT_HAND[trial.cell.state_source], "peer")
            assert line["received"] == (line["bytes"] if line["tier"] == "peer" else 0)


def test_nothing_is_compiled_in_the_recovery(trial: TrialRecord) -> None:
    assert set(trial.compile_cache.values()) == {"executable"}


def test_peer_copies_nothing_while_the_job_is_healthy(run: Run) -> None:
    trial = only(run, strategy="elastic", state_source="peer")
    lines = read_trial(run.path / "journal" / trial.trial).lines
    assert not [line for line in lines if line["event"] in ("save", "committed")]
    copied = [
        line
        for line in lines
        if line["event"] == "span" and line["name"] == "copy the state to the host"
    ]
    assert len(copied) == WORKERS - 1  # each survivor, once, as it leaves


def test_a_lost_node_is_made_good_by_the_others_when_all_processes_end(run: Run) -> None:
    trial = only(run, strategy="restart", state_source="local")
    found = restores(run, trial)
    assert trial.victim is not None
    assert found[trial.victim]["tier"] == "peer"
    assert "local" in {line["tier"] for line in found.values()}


def test_a_copy_in_memory_does_not_outlive_its_processes(run: Run) -> None:
    trial = only(run, strategy="restart", state_source="snapshot")
    assert {line["tier"] for line in restores(run, trial).values()} == {"storage"}
    # Every second save goes to storage; the last one may not have been whole.
    assert trial.restored_step in (10, 20)


def test_a_restore_is_set_against_a_raw_read_of_its_checkpoint(run: Run) -> None:
    trial = only(run, strategy="warm-restart", checkpoint="straight")
    lines = read_trial(run.path / "journal" / trial.trial).lines
    dropped = [line for line in lines if line["event"] == "dropped"]
    assert len(dropped) == (trial.cell.page_cache == "cold")
    assert all(trial.restored_step in line["steps"] for line in dropped)
    assert trial.checkpoint_bytes is not None and trial.restore_bytes is not None
    # As plain files: all bytes of the state, and a few of metadata.
    assert trial.restore_bytes < trial.checkpoint_bytes < 1.2 * trial.restore_bytes
    assert trial.raw_read_warm_s and trial.restore_read_s and trial.save_s
    assert trial.save_stall_s
    assert trial.restore_fraction is not None and trial.restore_fraction > 0
    # The raw read lies after everything that was timed.
    raw = next(line["t"] for line in lines if line["event"] == "raw_read")
    assert raw > max(line["t"] for line in lines if line["event"] == "done")
