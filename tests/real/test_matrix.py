"""Every strategy against every fault, with real workers: recovered, and measured soundly."""

from __future__ import annotations

import dataclasses
import json
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

from recoverybench.analysis.journal import read_trial
from recoverybench.analysis.record import reanalyse
from recoverybench.campaign.reference import load_reference
from recoverybench.records import TrialRecord
from recoverybench.results.store import Run
from recoverybench.vocabulary import PHASES, RECOVERY_PHASES
from tests.real_support import STEPS, Command, finish, only, suite_text

pytestmark = [pytest.mark.real, pytest.mark.timeout(400)]

STRATEGIES = ("restart", "warm-restart", "elastic", "hot-spare")
ENDS_ALL = ("restart", "warm-restart")
FAULTS = ("kill", "hang", "preempt:150ms")
BATCH, TRIGGER, INTERVAL, WORKERS = 12, 17, 8, ("0", "1", "2")


@pytest.fixture(scope="module")
def run(command: Command, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """One trial of each cell; the command's exit code says that every one recovered."""
    matrix = {"strategy": STRATEGIES, "fault": FAULTS, "watchdog": ["2s"]}
    run = command.measure(tmp_path_factory.mktemp("matrix"), suite_text(matrix), "--strict")
    left = command.processes()
    assert not left, f"still running after the command: {left}"
    return run


@pytest.fixture(params=STRATEGIES)
def strategy(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(params=FAULTS)
def fault(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def trial(run: Run, strategy: str, fault: str) -> TrialRecord:
    return only(run, strategy=strategy, fault=fault)


def test_it_recovers_and_equals_the_reference(trial: TrialRecord) -> None:
    assert (trial.outcome, trial.error) == ("recovered", None)
    assert trial.verify is not None and trial.restored_step is not None
    assert trial.verify.passed and trial.verify.first_difference is None
    assert trial.verify.losses_compared == STEPS
    assert trial.verify.digests_compared == 2 * len(WORKERS)  # what came back, and the last state
    assert trial.verify.samples_ok
    assert trial.verify.samples_checked == (STEPS - trial.restored_step) * BATCH
    assert trial.restore_bytes and not trial.restore_tried


def test_phases_are_all_there_and_sum_to_the_recovery(trial: TrialRecord) -> None:
    assert trial.recovery_s is not None and trial.time_to_progress_s is not None
    assert tuple(trial.phases) == PHASES
    assert min(trial.phases.values()) >= 0
    recovery = sum(trial.phases[name] for name in RECOVERY_PHASES)
    assert recovery == pytest.approx(trial.recovery_s)
    assert recovery + trial.phases["catch_up"] == pytest.approx(trial.time_to_progress_s)


def test_little_of_the_recovery_is_unexplained(trial: TrialRecord) -> None:
    assert trial.recovery_s is not None and trial.unattributed_s is not None
    # The fork server forks one worker after another; the last one's wait is nobody's span.
    share = 0.1
    assert trial.unattributed_s <= share * trial.recovery_s


def test_steps_before_restored_and_lost_agree(run: Run, trial: TrialRecord) -> None:
    assert trial.step_before is not None and trial.restored_step is not None
    if trial.cell.fault.startswith("preempt"):  # it goes on within the grace period
        assert trial.step_before >= TRIGGER - 1
    else:
        assert trial.step_before == TRIGGER - 1
    assert trial.lost_steps == trial.step_before - trial.restored_step
    assert trial.restored_step % INTERVAL == 0 and trial.restored_step <= trial.step_before
    committed = [
        line["step"]
        for line in read_trial(run.path / "journal" / trial.trial).lines
        if line["event"] == "committed" and line["generation"] == 0
    ]
    assert trial.restored_step >= max(committed), "a committed checkpoint was passed over"


def test_what_noticed(trial: TrialRecord) -> None:
    mechanisms = [evidence.mechanism for evidence in trial.detection_evidence]
    times = [evidence.after_s for evidence in trial.detection_evidence]
    assert times == sorted(times) and min(times) >= 0
    assert trial.detected_by == mechanisms[0]
    if trial.cell.fault == "hang":  # its sockets stay open: nobody gets an error from that
        assert trial.detected_by == "watchdog"
    elif trial.cell.strategy in ENDS_ALL:  # which ends the others before all of them can tell
        assert trial.detected_by in ("process_exit", "collective_error")
    else:
        assert {"process_exit", "collective_error"} <= set(mechanisms)


def test_who_keeps_its_process(run: Run, trial: TrialRecord) -> None:
    victim = str(trial.victim)
    assert tuple(sorted(trial.pids)) == WORKERS and victim != "0"
    assert all(len(set(pids)) == len(pids) for pids in trial.pids.values())
    replaced = {worker for worker, pids in trial.pids.items() if len(pids) == 2}
    kept = {worker for worker, pids in trial.pids.items() if len(pids) == 1}
    assert replaced | kept == set(WORKERS)
    assert replaced == (set(WORKERS) if trial.cell.strategy in ENDS_ALL else {victim})
    if trial.cell.strategy == "hot-spare":
        lines = read_trial(run.path / "journal" / trial.trial).lines
        standby = [x["pid"] for x in lines if x["event"] == "spawn" and x["worker"] == len(WORKERS)]
        assert trial.pids[victim][1:] == standby
        assert sum(line["event"] == "spawn" for line in lines) == len(WORKERS) + 1


def test_how_processes_end(trial: TrialRecord) -> None:
    broken = [e for e in trial.exits if (e.worker, e.attempt) == (trial.victim, 0)]
    assert [(e.signal, e.ours) for e in broken] == [("SIGKILL", True)]
    # A stopped process does not end by itself: that it ended says that it was not forgotten.
    assert broken[0].reason == ("teardown" if trial.cell.fault == "hang" else "inject")
    assert all(e.ours and (e.code == 0 or e.signal == "SIGKILL") for e in trial.exits)
    ended = {e.pid for e in trial.exits}
    assert ended == {pid for pids in trial.pids.values() for pid in pids}


def test_every_worker_loads_its_step_function(trial: TrialRecord) -> None:
    assert trial.compile_cache == dict.fromkeys(WORKERS, "executable")


def test_no_log_tells_of_a_backend_that_lives_on_or_of_a_crash(run: Run) -> None:
    logs = sorted((run.path / "logs").glob("*/*.log"))
    assert len(logs) >= len(run.trials) * len(WORKERS)
    bad = re.compile(r"old backend|Fatal Python error|Segmentation fault|terminate called|^\*\*\* ")
    said = [
        f"{log}: {line}"
        for log in logs
        for line in log.read_text(errors="replace").splitlines()
        if bad.search(line)
    ]
    assert not said, "\n".join(said)


def _steps(run: Run) -> Iterator[tuple[TrialRecord, dict[str, object]]]:
    for record in run.trials:
        for line in read_trial(run.path / "journal" / record.trial).lines:
            if line["event"] == "step":
                yield record, line


def test_one_loss_a_step_in_all_trials_workers_and_generations(run: Run) -> None:
    bits: dict[object, set[object]] = defaultdict(set)
    for _, line in _steps(run):
        bits[line["step"]].add(line["loss_bits"])
    assert set(bits) == set(range(1, STEPS + 1))
    assert {step: seen for step, seen in bits.items() if len(seen) > 1} == {}
    assert len(set(map(str, bits.values()))) > STEPS / 2  # it does train


def test_no_sample_twice_in_what_counts(run: Run) -> None:
    seen: dict[str, list[int]] = defaultdict(list)
    for record, line in _steps(run):
        restored = record.restored_step
        assert restored is not None and isinstance(line["step"], int)
        # Up to the restored step the healthy job counts, after it the recovered one.
        if line["generation"] == (0 if line["step"] <= restored else 1):
            assert isinstance(line["samples"], list)
            seen[record.trial] += line["samples"]
    for trial, samples in seen.items():
        assert len(samples) == len(set(samples)) == STEPS * BATCH, trial


def test_one_final_state_in_all_trials(run: Run) -> None:
    final = {
        line["digest"]
        for record in run.trials
        for line in read_trial(run.path / "journal" / record.trial).lines
        if line["event"] == "digest" and line["what"] == "final"
    }
    assert len(final) == 1, final


def test_a_run_says_what_it_was(run: Run) -> None:
    assert run.info.status == "complete" and run.dropped == 0
    assert len({record.seed for record in run.trials}) == len(run.trials)
    # One block: every cell once, in an order that the seed draws.
    assert [record.trial for record in run.trials] == [f"{i:04d}" for i in range(len(run.trials))]
    assert {record.cell for record in run.trials} == set(run.info.suite.cells)
    places = [(record.block, record.position) for record in run.trials]
    assert places == [(0, i) for i in range(len(run.info.suite.cells))]
    assert [record.cell for record in run.trials] != list(run.info.suite.cells)


def test_records_can_be_computed_again_from_the_run(run: Run) -> None:
    (kept,) = (run.path / "reference").glob("*.json")
    reference = load_reference(kept)
    for record in run.trials:
        journals = read_trial(run.path / "journal" / record.trial).all
        again = json.loads(json.dumps(reanalyse(record, journals, reference).as_dict()))
        # Where it stood in the campaign is nothing that its journals say.
        found = TrialRecord.from_dict(again)
        found = dataclasses.replace(found, block=record.block, position=record.position)
        assert found == record


def _said(command: Command, directory: Path, *arguments: str | Path) -> str:
    output = directory / "said"
    assert finish(command.start(*arguments, output=output)) == 0, output.read_text()
    return output.read_text()


def test_show_and_report_of_the_run(command: Command, run: Run, tmp_path: Path) -> None:
    table = _said(command, tmp_path, "show", run.path)
    assert all(name in table for name in (*STRATEGIES, *FAULTS)) and table.count("1/1") == len(
        run.trials
    )
    (tmp_path / "said").unlink()
    timeline = _said(
        command,
        tmp_path,
        "show",
        run.path,
        "--trial",
        only(run, strategy="elastic", fault="hang").trial,
    )
    assert all(name in timeline for name in ("elastic", "hang", "watchdog", "recovered"))
    (tmp_path / "said").unlink()
    shown = json.loads(_said(command, tmp_path, "show", run.path, "--format", "json"))
    assert [trial["outcome"] for trial in shown["trials"]] == ["recovered"] * len(run.trials)
    report = tmp_path / "report.html"
    _said(command, tmp_path, "report", run.path, "-o", report)
    page = report.read_text()
    assert all(name in page for name in (*STRATEGIES, *FAULTS))
