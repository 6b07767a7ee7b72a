"""Workers that live and are cut off: by lost packets, each worker on a machine of its own."""

from __future__ import annotations

from typing import Any

import pytest

from recoverybench import capabilities
from recoverybench.analysis.journal import read_trial
from recoverybench.records import TrialRecord
from recoverybench.results.store import Run
from tests.real_support import Command, only, suite_text

_WHY = capabilities.MISSING["network-namespaces"]() or capabilities.MISSING["nftables"]()

pytestmark = [
    pytest.mark.real,
    pytest.mark.timeout(400),
    pytest.mark.skipif(_WHY is not None, reason=f"no networks of one's own here: {_WHY}"),
]

CELLS: dict[str, dict[str, Any]] = {
    "all": {"strategy": "elastic", "fault": "partition"},
    "spare": {"strategy": "hot-spare", "fault": "one-way"},
    "anew": {"strategy": "warm-restart", "fault": "partition", "victim": 0},
    "first": {"strategy": "elastic", "fault": "partition", "victim": 0},
    "outside": {
        "strategy": "hot-spare",
        "fault": "partition",
        "victim": 0,
        "coordinator": "external",
    },
    "service": {"strategy": "hot-spare", "fault": "coordinator-cut"},
    "heals": {"strategy": "elastic", "fault": "partition:500ms", "watchdog": "20s"},
    "lapse": {"strategy": "elastic", "fault": "coordinator-cut:2s", "watchdog": "20s"},
    "reset": {"strategy": "hot-spare", "fault": "coordinator-reset", "watchdog": "20s"},
}
"""What is cut off in each of the cells: all of them in one run."""

RECOVERED = ("all", "spare", "anew", "outside", "service", "reset")
BY_WATCHDOG = ("all", "spare", "anew", "first", "outside", "service")


@pytest.fixture(scope="module")
def run(command: Command, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """One trial of each cell."""
    first, *others = CELLS.values()
    matrix = {key: [value] for key, value in first.items()} | {"watchdog": ["2s"]}
    suite = suite_text(matrix, include=others)
    return command.measure(tmp_path_factory.mktemp("network"), suite, patience_s=300)


def trial(run: Run, name: str) -> TrialRecord:
    """The trial of that cell."""
    factors = {key: value for key, value in CELLS[name].items() if key != "watchdog"}
    return only(run, **({"victim": None, "coordinator": "worker0"} | factors))


def mechanisms(record: TrialRecord) -> list[str]:
    return [evidence.mechanism for evidence in record.detection_evidence]


@pytest.mark.parametrize("name", RECOVERED)
def test_the_job_comes_back_with_a_sound_machine(run: Run, name: str) -> None:
    record = trial(run, name)
    assert (record.outcome, record.error) == ("recovered", None)
    assert record.verify is not None and record.verify.passed
    assert min(record.phases.values()) >= 0


@pytest.mark.parametrize("name", BY_WATCHDOG)
def test_who_is_silent_is_found_by_the_watchdog_and_a_probe(run: Run, name: str) -> None:
    """It lives, nothing is closed, nobody gets an error: until the strategy acts."""
    record = trial(run, name)
    assert record.detected_by == "watchdog"
    acted = (
        (record.milestones["act"] - record.milestones["inject"]) / 1e9
        if ("act" in record.milestones)
        else float("inf")
    )
    before = [e for e in record.detection_evidence if e.after_s < acted]
    # Strategies that keep the survivors probe them to find out who it is.
    keeps = record.cell.strategy not in ("restart", "warm-restart", "suspend-resume")
    assert [e.mechanism for e in before] == ["watchdog", *(["health_probe"] if keeps else [])]
    if name != "first":
        replaced = {worker for worker, pids in record.pids.items() if len(set(pids)) > 1}
        assert replaced == ({"0", "1", "2"} if name == "anew" else {str(record.victim)})


def test_without_an_external_service_the_survivors_are_lost_with_worker_0(run: Run) -> None:
    record = trial(run, "first")
    assert record.outcome == "not_recovered"
    assert record.error is not None and "coordination service" in record.error


@pytest.mark.parametrize("name", ["heals", "lapse"])
def test_what_heals_in_time_needs_no_recovery(run: Run, name: str) -> None:
    """TCP sends again what was lost. A service out of reach for two seconds alarms nobody."""
    record = trial(run, name)
    assert (record.outcome, record.error) == ("no_effect", None)
    assert not record.detection_evidence
    lines = read_trial(run.path / "journal" / record.trial).lines
    inject, undone = (
        next(line["t"] for line in lines if line["event"] == event)
        for event in ("inject", "undone")
    )
    assert (undone - inject) / 1e9 >= {"heals": 0.5, "lapse": 2.0}[name]


def test_a_reset_connection_to_the_service_is_called_that(run: Run) -> None:
    """One lost call ends a worker that is sound; it did not crash, and no heartbeat was late."""
    record = trial(run, "reset")
    found = mechanisms(record)
    assert "coordinator_connection" in found
    assert "process_exit" not in found and "heartbeat" not in found
    detail = next(
        e.detail for e in record.detection_evidence if e.mechanism == "coordinator_connection"
    )
    assert detail is not None and "Failed to send RPC to coordination service" in detail
    took_s = next(e.after_s for e in record.detection_evidence)
    assert took_s < record.cell.heartbeat_s, "the heartbeat's budget is another one"
