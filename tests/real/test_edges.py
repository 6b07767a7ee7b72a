"""Where coming back is hard: worker 0, no watchdog, no checkpoint."""

from __future__ import annotations

from typing import Any

import pytest

from recoverybench.analysis.journal import read_trial
from recoverybench.results.store import Run
from recoverybench.stats import summarise
from tests.real_support import STEPS, Command, only, suite_text

pytestmark = [pytest.mark.real, pytest.mark.timeout(400)]

STRATEGIES = ("restart", "elastic", "hot-spare")
DEADLINE_S = 60.0


@pytest.fixture(scope="module")
def edges(command: Command, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """One trial of each of these cells, and not all of them recover."""
    cells: list[dict[str, Any]] = [
        *({"strategy": strategy, "victim": 0} for strategy in STRATEGIES),
        {"strategy": "restart", "fault": "hang", "watchdog": "off", "heartbeat": "2s"},
        {"fault": "preempt:30s", "trigger": f"step:{STEPS - 1}"},
        {"strategy": "restart", "trigger": "step:10", "interval": 25},
        {"trigger": "step:10", "interval": 25},
        {"strategy": "elastic", "trigger": "step:1"},
    ]
    suite = suite_text({"victim": [1]}, include=cells, deadline=f"{DEADLINE_S:.0f}s")
    return command.measure(tmp_path_factory.mktemp("edges"), suite, "--strict", code=1)


def test_the_victim_that_a_suite_names_is_the_one_that_is_broken(edges: Run) -> None:
    record = only(edges, victim=1, fault="kill", trigger="step:17", strategy="hot-spare")
    assert record.victim == 1 and record.outcome == "recovered"


def test_restart_survives_the_loss_of_worker_0(edges: Run) -> None:
    record = only(edges, victim=0, strategy="restart")
    assert record.outcome == "recovered" and record.victim == 0
    assert all(len(pids) == 2 for pids in record.pids.values())


@pytest.mark.parametrize("strategy", ["elastic", "hot-spare"])
def test_survivors_do_not_outlive_worker_0(edges: Run, strategy: str) -> None:
    record = only(edges, victim=0, strategy=strategy)
    assert record.outcome == "not_recovered"
    assert record.error is not None and "worker 0" in record.error
    assert record.recovery_s is None and record.lost_steps is None
    assert record.wall_s < DEADLINE_S / 2, "it waited for the deadline"
    lines = read_trial(edges.path / "journal" / record.trial).lines
    assert not [line for line in lines if line["event"] == "deadline"]


def test_without_a_watchdog_the_heartbeat_finds_a_stopped_worker(edges: Run) -> None:
    record = only(edges, fault="hang", strategy="restart")
    assert record.outcome == "recovered"
    # A process that is aborted closes its channel an instant before it has ended.
    mechanisms = {evidence.mechanism for evidence in record.detection_evidence}
    assert mechanisms and mechanisms <= {"heartbeat", "connection_lost"}
    assert record.cell.heartbeat_s == 2 and record.cell.watchdog_s is None
    # What noticed and what the strategy did are told apart.
    assert record.milestones["evidence"] < record.milestones["act"]


def test_a_job_that_ends_within_the_grace_period_needs_no_recovery(edges: Run) -> None:
    record = only(edges, fault="preempt:30s")
    assert record.outcome == "no_effect"
    assert record.verify is not None and record.verify.passed
    assert record.recovery_s is None and record.phases == {} and record.wall_s < 30
    lines = read_trial(edges.path / "journal" / record.trial).lines
    assert [line["worker"] for line in lines if line["event"] == "notice"] == [1]
    # JAX swallows SIGTERM: the worker went on and ended with code 0, because it was told to.
    assert [e.code for e in record.exits] == [0] * len(record.exits)


@pytest.mark.parametrize("strategy", ["restart", "hot-spare"])
def test_a_loss_before_the_first_checkpoint(edges: Run, strategy: str) -> None:
    record = only(edges, interval=25, strategy=strategy)
    assert record.outcome == "no_usable_checkpoint"
    assert not record.restored_step and record.lost_steps == record.step_before == 9


def test_a_loss_before_the_first_step(edges: Run) -> None:
    record = only(edges, trigger="step:1")
    assert record.outcome == "no_usable_checkpoint"
    assert not record.step_before and not record.restored_step


def test_every_trial_of_a_cell_counts_but_only_recovered_ones_give_times(edges: Run) -> None:
    for summary in summarise(edges.trials):
        without_effect = summary.outcomes.get("no_effect", 0)
        assert (summary.n, summary.judged) == (1, 1 - without_effect)
        assert (summary.recovery_s is not None) == (summary.recovered == 1)


@pytest.fixture(scope="module")
def unnoticed(command: Command, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A stopped worker that nothing can notice before the deadline."""
    cells = [{"strategy": "restart", "heartbeat": "30s"}]
    matrix = {"strategy": ["elastic"], "fault": ["hang"], "watchdog": ["off"], "heartbeat": ["2s"]}
    suite = suite_text(matrix, include=cells, deadline="4s")
    return command.measure(tmp_path_factory.mktemp("unnoticed"), suite)


# A worker that can be recovered is one whose silence JAX reports to nobody: where survivors
# are to rejoin, only the watchdog finds a worker that is stopped.
@pytest.mark.parametrize("strategy", ["restart", "elastic"])
def test_what_nothing_notices_is_a_result(unnoticed: Run, strategy: str) -> None:
    record = only(unnoticed, strategy=strategy)
    assert record.outcome == "undetected" and record.detected_by is None
    assert record.detection_evidence == () and record.recovery_s is None
    victim = [e for e in record.exits if e.worker == record.victim]
    assert [(e.signal, e.ours, e.reason) for e in victim] == [("SIGKILL", True, "end")]
    (summary,) = summarise([record])
    assert (summary.judged, summary.censored, summary.recovered) == (1, 1, 0)
