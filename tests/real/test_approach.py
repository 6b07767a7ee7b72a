"""Triggers, second faults, an outside coordination service, notices and a mesh that shrinks."""

from __future__ import annotations

from pathlib import Path

import pytest

from recoverybench.analysis.journal import read_trial
from recoverybench.capabilities import MISSING
from recoverybench.records import TrialRecord
from recoverybench.results.store import Run
from tests.real_support import Command, only, suite_text

pytestmark = [pytest.mark.real, pytest.mark.timeout(500)]

TRIGGERS = ("random", "save", "rendezvous", "restore", "compile")
CASCADES = ("cascade:rendezvous", "cascade:restore", "cascade:first-step")
INTERVAL = 5


@pytest.fixture(scope="module")
def run(command: Command, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """One trial of each cell."""
    cells: list[dict[str, object]] = [
        {"fault": list(CASCADES)},
        {"fault": "cascade:restore", "strategy": "shrink"},
        {"victim": 0, "coordinator": "external", "strategy": ["hot-spare", "shrink"]},
        {"victim": 0, "strategy": "hot-spare"},
        {"fault": "kill-coordinator", "coordinator": "external", "strategy": "warm-restart"},
        {"fault": "preempt:1ms", "strategy": "suspend-resume"},
        {"strategy": "shrink"},
        {"fault": "hang", "watchdog": "off", "agreement": "on", "heartbeat": "1s"},
        {"fault": "hang", "watchdog_factor": 40, "strategy": "warm-restart"},
    ]
    if MISSING["user-notification"]() is None:
        cells.append({"trigger": ["save:2", "save:9:torn", "save:9999"], "victim": 0} | RESTART)
    text = suite_text(
        {"trigger": TRIGGERS, "watchdog": ["5s"], "interval": [INTERVAL]},
        include=cells,
        deadline="60s",
    )
    # An included cell takes the first trigger of the list where it names none.
    return command.measure(tmp_path_factory.mktemp("approach"), text, patience_s=450)


RESTART: dict[str, object] = {"strategy": "warm-restart"}


def lines(run: Run, record: TrialRecord, event: str) -> list[dict[str, object]]:
    found = read_trial(run.path / "journal" / record.trial).lines
    return [line for line in found if line["event"] == event]


@pytest.mark.parametrize("trigger", TRIGGERS)
def test_every_trigger_is_reached_and_recovered_from(run: Run, trigger: str) -> None:
    record = only(
        run, trigger=trigger, strategy="hot-spare", fault="kill", victim=None, agreement="off"
    )
    assert (record.outcome, record.error) == ("recovered", None)
    (inject,) = lines(run, record, "inject")
    resumed = lines(run, record, "transition")
    if trigger in ("rendezvous", "restore", "compile"):
        assert [r["kind"] for r in resumed] == ["resume"] and inject["generation"] == 1
        broken = [e for e in record.exits if e.reason == "inject"]
        assert [e.worker for e in broken] == [record.victim]
        early = {"rendezvous": "rendezvous", "restore": "restored", "compile": "compiled"}[trigger]
        passed = [
            line
            for line in lines(run, record, early)
            if line["generation"] == 1 and line["worker"] == record.victim
        ]
        assert not passed, f"it was to die before {early}"
    else:
        assert not resumed and inject["generation"] == 0
    if trigger == "save":
        durable = [
            int(str(s["step"]))
            for s in lines(run, record, "committed")
            if int(str(s["t"])) < int(str(inject["t"]))
        ]
        assert 2 * INTERVAL not in durable, "the save was over when the fault struck"
    if trigger == "random":
        assert record.step_before is not None
        assert 2 * INTERVAL <= record.step_before < 3 * INTERVAL + 2


@pytest.mark.parametrize("fault", CASCADES)
def test_a_replacement_that_dies_is_replaced(run: Run, fault: str) -> None:
    record = only(run, fault=fault, strategy="hot-spare")
    assert (record.outcome, record.error) == ("recovered", None)
    assert record.recoveries == 2
    assert len(lines(run, record, "inject")) == 1 and len(lines(run, record, "again")) == 1
    died = [e for e in record.exits if e.reason == "inject"]
    assert [e.signal for e in died] == ["SIGKILL", "SIGKILL"]
    assert {e.worker for e in died} == {record.victim}


def test_worker_0_is_survived_with_a_service_outside(run: Run) -> None:
    for strategy in ("hot-spare", "shrink"):
        record = only(run, strategy=strategy, victim=0, coordinator="external")
        assert (record.outcome, record.error) == ("recovered", None)
        assert len(record.pids["1"]) == len(record.pids["2"]) == 1, "the survivors were replaced"
    lost = only(run, strategy="hot-spare", victim=0, coordinator="worker0")
    assert lost.outcome == "not_recovered" and "coordination service" in str(lost.error)


def test_the_service_itself_can_be_lost(run: Run) -> None:
    record = only(run, fault="kill-coordinator")
    assert (record.outcome, record.error) == ("recovered", None)


def test_a_notice_saves_where_there_is_time(run: Run, command: Command, tmp_path: Path) -> None:
    # Long enough that the workers agree on a step before the job is done.
    cells: dict[str, list[str] | list[int]] = {
        "strategy": ["suspend-resume"],
        "fault": ["preempt:30s"],
        "trigger": ["step:12"],
        # A save every few of so many steps would take most of the time.
        "interval": [100],
    }
    long = command.measure(tmp_path, suite_text(cells, steps=600))
    record = only(long, fault="preempt:30s")
    assert (record.outcome, record.error) == ("recovered", None)
    assert record.preemption_save is True
    assert record.lost_steps == 0 and record.detected_by == "preemption_notice"
    suspended = {line["step"] for line in lines(long, record, "suspended")}
    assert suspended == {record.restored_step}, "every worker saves the same step"
    late = only(run, fault="preempt:1ms")
    assert (late.outcome, late.error) == ("recovered", None)
    assert late.preemption_save is False and late.lost_steps is not None and late.lost_steps > 0


def test_a_mesh_shrinks_and_grows_back(run: Run) -> None:
    record = only(
        run, strategy="shrink", fault="kill", victim=None, agreement="off", trigger=TRIGGERS[0]
    )
    assert (record.outcome, record.error) == ("recovered", None)
    assert record.verify is not None and record.verify.tolerance is not None
    assert record.verify.samples_ok, "the global batch is the same with fewer workers"
    for transition in record.transitions:
        assert transition.kind == "grow" and (transition.paused_s or 0) > 0


def test_a_second_loss_in_a_mesh_that_grows_back(run: Run) -> None:
    record = only(run, strategy="shrink", fault="cascade:restore")
    assert (record.outcome, record.error) == ("recovered", None)


def test_survivors_agree_on_who_is_gone(run: Run) -> None:
    record = only(run, agreement="on")
    assert (record.outcome, record.error) == ("recovered", None)
    assert record.detected_by == "agreement"
    assert "health_probe" in {e.mechanism for e in record.detection_evidence}


def test_a_watchdog_in_steps_of_the_jobs_own_pace(run: Run) -> None:
    record = only(run, watchdog_factor=40.0)
    assert (record.outcome, record.detected_by) == ("recovered", "watchdog")


@pytest.mark.parametrize("trigger", ["save:2:before", "save:9:torn", "save:9999:before"])
def test_an_operation_of_a_save_is_met(run: Run, trigger: str) -> None:
    if (missing := MISSING["user-notification"]()) is not None:
        pytest.skip(missing)
    record = only(run, trigger=trigger)
    assert (record.outcome, record.error) == ("recovered", None)
    (stopped,) = lines(run, record, "stopped")
    if trigger == "save:9999:before":
        assert stopped["path"] is None and record.restored_step == 2 * INTERVAL
    else:
        assert stopped["operation"] == int(trigger.split(":")[1])
        assert f"/{2 * INTERVAL}" in str(stopped["path"])
        assert record.restored_step == INTERVAL, "an unfinished save is no checkpoint"


def test_no_process_is_left(run: Run, command: Command) -> None:
    left = command.processes()
    assert not left, f"still running after the command: {left}"


def test_the_suite_names_what_it_is(run: Run, tmp_path: Path) -> None:
    assert not run.info.suite.unsupported or MISSING["user-notification"]() is not None
