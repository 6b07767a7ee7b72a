"""Jobs that are more than one recovery: fewer workers, resumed ones, struck again, soaks."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recoverybench.analysis import closeness
from recoverybench.analysis.record import analyse, reanalyse
from recoverybench.analysis.soak import analyse_soak
from recoverybench.records import TrialRecord
from tests.histories import STEPS, WORKERS, Files, at, journals, patched, until, with_line, without
from tests.histories_more import (
    NORMS,
    SOAK_STEPS,
    Job,
    bits_of,
    cascade,
    healthy,
    loss_of,
    reference_to,
    resumed,
    shrunken,
    soak,
)
from tests.sample_run import make_cell


def arguments(steps: int = STEPS, **changes: Any) -> dict[str, Any]:
    return {
        "trial": "0007",
        "cell": make_cell(),
        "rep": 0,
        "seed": 5,
        "workers": WORKERS,
        "reference": reference_to(steps),
        "load": (0.5, 1.5),
        "memory_available_bytes": (10, 9),
        "wall_s": 4.5,
    } | changes


def record_of(job: Job | Files, **changes: Any) -> TrialRecord:
    files = job.files if isinstance(job, Job) else job
    return analyse(journals(files), **arguments(**changes))


def in_ms(phases: dict[str, float]) -> dict[str, float]:
    return {name: round(s * 1000, 6) for name, s in phases.items()}


# --- fewer workers, and back ------------------------------------------------------------


def test_a_job_goes_on_with_fewer_and_grows_back() -> None:
    record = record_of(shrunken())
    assert (record.outcome, record.error) == ("recovered", None)
    assert record.recovery_s == pytest.approx(0.080)
    assert record.time_to_progress_s == pytest.approx(0.220)  # step 26, in the grown generation
    assert (record.step_before, record.restored_step, record.lost_steps) == (25, 20, 5)
    assert (record.recoveries, record.restore_tier) == (1, "memory")
    [grown] = record.transitions
    assert (grown.kind, grown.generation, grown.step) == ("grow", 2, 23)
    assert grown.paused_s == pytest.approx(0.100)
    assert in_ms(grown.phases) == {
        "teardown": 20,
        "replace": 10,
        "rendezvous": 10,
        "restore": 10,
        "compile": 10,
        "first_step": 10,
    }
    assert TrialRecord.from_dict(json.loads(json.dumps(record.as_dict()))) == record
    assert reanalyse(record, journals(shrunken().files), reference_to()) == record


def test_what_fewer_workers_computed_is_compared_within_a_tolerance() -> None:
    found = record_of(shrunken(units=3)).verify
    assert found is not None and found.passed
    assert (found.losses_compared, found.losses_within) == (30, 10)
    assert found.tolerance == closeness.tolerance(10)
    bits = bits_of(21, 3), bits_of(21)
    assert found.largest_difference == closeness.relative(*map(loss_of, bits))
    # 60 samples are a batch of 6 for each step since the restored one: 3 by two, 7 by three.
    assert (found.samples_checked, found.samples_ok) == (60, True)
    assert found.digests_compared == 2 + 3 + 3


@pytest.mark.parametrize(
    ("job", "words"),
    [
        (shrunken(units=1000), "step 21, worker 0, generation 1: loss is 2."),
        (shrunken(norms=(1.0, 2.0, 4.0002)), "norm 2 of the final state is 4.0002, expected 4.0"),
        (shrunken(norms=NORMS[:2]), "final state has 2 norms, expected 3"),
        (shrunken(norms=(float("nan"), 2.0, 4.0)), "norm 0 of the final state is nan"),
    ],
)
def test_what_is_beyond_the_tolerance_is_another_training(job: Job, words: str) -> None:
    record = record_of(job)
    assert record.outcome == "diverged"
    assert record.error is not None and words in record.error


def test_before_there_were_fewer_workers_every_bit_counts() -> None:
    where = {"event": "step", "worker": 0, "step": 24, "generation": 0}
    files = patched(shrunken().files, where, loss_bits=bits_of(24, 1))
    assert record_of(files).error == (
        f"step 24, worker 0, generation 0: loss bits are {bits_of(24, 1)}, expected {bits_of(24)}"
    )


def test_samples_and_restored_states_of_fewer_workers_are_exact() -> None:
    where = {"event": "step", "worker": 2, "step": 22, "generation": 1}
    record = record_of(patched(shrunken().files, where, samples=[22003, 22004]))
    assert record.error == (
        "step 22, worker none, generation 1: sample 22005 was seen 0 times, expected 1"
    )
    flipped = patched(shrunken().files, {"what": "restored", "generation": 2}, digest="bad")
    assert record_of(flipped).outcome == "silent_corruption"
    assert record_of(flipped).error == (
        "step 23, worker 0, generation 2: restored state is bad, expected state23"
    )


def test_a_job_may_end_before_it_has_grown_back() -> None:
    job = healthy()
    job.kill(0, 1, 0)
    job.supervisor(20, "act", strategy="shrink", generation=1, ranks=[0, 2])
    job.set_up(30, 1, (0, 2), restored=20, survivors=(0, 2))
    job.train(70, 1, (0, 2), range(21, STEPS + 1), units=1)
    job.done(200, 1, (0, 2), restored=20)
    record = record_of(job)
    assert (record.outcome, record.transitions) == ("recovered", ())
    assert record.time_to_progress_s == pytest.approx(0.130)


def test_growing_back_that_does_not_come_to_its_end_is_no_recovery() -> None:
    record = record_of(until(shrunken().files, 180))
    assert record.outcome == "not_recovered"
    assert record.recovery_s == pytest.approx(0.080)
    [grown] = record.transitions
    assert (grown.paused_s, list(grown.phases)[-1]) == (None, "restore")


def test_a_generation_with_fewer_must_say_where_it_came_back_from() -> None:
    record = record_of(without(shrunken().files, event="restore", worker=2, generation=1))
    assert record.error == "worker 2 came back without saying from which step"
    files = patched(shrunken().files, {"event": "restore", "worker": 2, "generation": 2}, step=20)
    assert record_of(files).error == "the workers restored different steps: {0: 23, 1: 23, 2: 20}"


def test_a_reference_without_norms_proves_nothing_of_fewer_workers() -> None:
    bare = dataclasses.replace(reference_to(), norms=None)
    record = record_of(shrunken(), reference=bare)
    assert (record.outcome, record.error) == ("invalid", "there is no reference to compare with")


def long_after(units: int, *, odd: int | None = None) -> Files:
    """Fewer workers from step 21 on, to step 70; the last steps and the end are far off."""
    job = healthy()
    job.kill(0, 1, 0)
    job.supervisor(20, "act", strategy="shrink", generation=1, ranks=[0, 2])
    job.set_up(30, 1, (0, 2), restored=20, survivors=(0, 2))
    job.train(70, 1, (0, 2), range(21, 61))
    job.train(470, 1, (0, 2), range(61, 71), units=units)
    job.done(600, 1, (0, 2), restored=20, last=70, norms=(9.0, 9.0, 9.0))
    files = without(job.files, event="first_step", generation=1, t=at(480))
    where = {"event": "step", "worker": 2, "step": 65}
    return files if odd is None else patched(files, where, loss_bits=bits_of(65, odd))


def test_long_after_there_were_fewer_only_the_workers_are_compared_with_one_another() -> None:
    record = record_of(long_after(2**20), reference=reference_to(70))
    assert (record.outcome, record.error) == ("recovered", None)
    found = record.verify
    assert found is not None
    assert (found.losses_compared, found.losses_within, found.losses_beyond) == (60, 40, 10)
    assert found.tolerance == closeness.tolerance(closeness.HORIZON)
    assert found.samples_checked == 50 * 6
    record = record_of(long_after(2**20, odd=7), reference=reference_to(70))
    assert record.error == (
        f"step 65, worker 2, generation 1: loss bits are {bits_of(65, 7)}, "
        f"and another worker has {bits_of(65, 2**20)}"
    )
    files = patched(long_after(0), {"what": "final", "worker": 2}, digest="odd")
    record = record_of(files, reference=reference_to(70))
    assert record.error == (
        "step 70, worker 2, generation 1: final state is odd, and another worker has state70"
    )


@given(st.integers(-(2**21), 2**21), st.integers(0, 60))
def test_a_difference_is_close_enough_or_not_by_one_rule(units: int, step: int) -> None:
    found, wanted = loss_of(bits_of(0, units)), loss_of(bits_of(0))
    close = closeness.Closeness(since=0)
    differs = close.differs(found, wanted, step)
    assert (differs is None) == (abs(found - wanted) / wanted <= closeness.tolerance(step))
    assert (close.largest is None) == (differs is not None)


@pytest.mark.parametrize("bits", ["", "zz", "7fc00000", "12345"])
def test_what_is_no_number_is_close_to_nothing(bits: str) -> None:
    number = closeness.number_of(bits)
    assert closeness.Closeness(0).differs(number, 1.0, 1) is not None


def test_one_controller_that_lost_a_slice_is_fewer_too() -> None:
    job = Job()
    del job.files[1, 0], job.files[2, 0]
    job.files[None, 0] = [x for x in job.files[None, 0] if x["worker"] in (None, 0)]
    job.set_up(-450, 0, (0,), restored=None)
    job.train(-350, 0, (0,), range(1, 26), save=(10, 20))
    job.supervisor(0, "inject", 0, fault="kill", generation=0)
    job.log(5, "error", 0, 0, mechanism="slice_lost", type="E", message="slice 1 is gone")
    job.supervisor(7, "act", strategy="pathways", generation=1)
    job.set_up(10, 1, (0,), restored=20, survivors=(0,))
    job.train(50, 1, (0,), range(21, STEPS + 1), units=1)
    job.done(170, 1, (0,), restored=20)
    assert record_of(job, workers=1).outcome == "diverged"
    files = patched(job.files, {"event": "up", "generation": 0}, slices=[0, 1, 2])
    files = patched(files, {"event": "up", "generation": 1}, slices=[0, 2])
    record = record_of(files, workers=1, simulated=True)
    assert (record.outcome, record.detected_by, record.workers) == ("recovered", "slice_lost", 1)


# --- resumed, struck again ---------------------------------------------------------------


def test_a_job_that_was_resumed_is_measured_from_there() -> None:
    record = record_of(resumed())
    assert (record.outcome, record.error) == ("recovered", None)
    # Nothing beyond the checkpoint was there to be lost.
    assert (record.step_before, record.restored_step, record.lost_steps) == (20, 20, 0)
    assert record.recovery_s == pytest.approx(0.090)
    assert record.time_to_progress_s == pytest.approx(0.090)
    assert [(t.kind, t.generation, t.step, t.paused_s) for t in record.transitions] == [
        ("resume", 1, 25, None)
    ]
    assert record.detected_by == "process_exit"
    assert record.steady_step_s == pytest.approx(0.010)


def test_the_victim_of_a_resumed_job_is_its_new_attempt() -> None:
    where = {"event": "exit", "worker": 1, "attempt": 1}
    files = patched(resumed().files, where, ours=False, reason="own")
    assert record_of(files).outcome == "recovered"
    files = patched(resumed().files, {**where, "worker": 2}, ours=False, reason="own")
    assert "neither we nor the fault" in str(record_of(files).error)


def test_a_recovery_that_is_struck_lies_in_the_teardown_of_the_next() -> None:
    record = record_of(cascade())
    assert (record.outcome, record.error, record.recoveries) == ("recovered", None, 2)
    assert in_ms(record.phases) == {
        "detect": 10,
        "react": 10,
        "teardown": 70,
        "replace": 10,
        "rendezvous": 10,
        "restore": 10,
        "compile": 10,
        "first_step": 10,
        "catch_up": 50,
    }
    assert record.restore_tier == "memory+peer"
    assert record.restore_received_bytes == 24


def test_a_job_that_was_lost_again_lost_what_it_had_done_by_then() -> None:
    job = healthy(45)
    job.kill(0, 1, 0)
    for generation, ms, restored, steps in ((1, 20, 40, range(41, 56)), (2, 420, 50, [51])):
        job.supervisor(ms, "act", strategy="elastic", generation=generation)
        job.spawn(ms + 5, 1)
        job.set_up(ms + 10, generation, (0, 1, 2), restored=restored, survivors=(0, 2))
        job.train(ms + 50, generation, (0, 1, 2), steps, save=(50,))
        if generation == 1:
            job.seen(400, 1, "inject")
    record = record_of(job, reference=reference_to(60))
    assert (record.step_before, record.restored_step, record.lost_steps) == (45, 50, 5 + 5)


@pytest.mark.parametrize(("first", "lost"), [(20, 5), (0, 25), (10, 15)])
def test_a_recovery_without_a_step_lost_only_what_its_state_was_older_by(
    first: int, lost: int
) -> None:
    """The replacement dies with the state restored, and both recoveries come back from there."""
    job = healthy()
    job.kill(0, 1, 0)
    for generation, ms, restored, upto in ((1, 20, first, "restored"), (2, 420, first, "compiled")):
        job.supervisor(ms, "act", strategy="elastic", generation=generation)
        job.spawn(ms + 5, 1)
        job.set_up(ms + 10, generation, (0, 1, 2), restored=restored, survivors=(0, 2), upto=upto)
        if generation == 1:
            job.seen(400, 1, "inject")
    job.train(470, 2, (0, 1, 2), range(first + 1, 51))
    record = record_of(job, reference=reference_to(60))
    assert (record.recoveries, record.step_before, record.lost_steps) == (2, 25, lost)


def test_the_replacement_that_was_struck_is_no_foreign_death() -> None:
    where = {"event": "exit", "worker": 1, "attempt": 1}
    files = patched(cascade().files, where, ours=False, reason="own")
    assert record_of(files).outcome == "recovered"
    assert record_of(without(files, event="again")).outcome == "invalid"


# --- thrown away, false alarms, notices ---------------------------------------------------


def poisoned(generation: int, ms: float) -> Files:
    """A wrong loss of step 26, logged after the injection."""
    body = {"step": 26, "loss_bits": "7fc00000", "samples": [], "t0": at(ms - 1)}
    return with_line(cascade().files, 0, 0, ms, "step", **body, generation=generation)


def test_work_that_was_thrown_away_is_not_compared() -> None:
    assert record_of(poisoned(0, 5)).outcome == "recovered"
    assert record_of(poisoned(0, -5)).outcome == "diverged"  # before the injection it counts
    record = record_of(patched(cascade().files, {"event": "step", "step": 26}, loss_bits="0"))
    assert record.outcome == "diverged"


def test_an_alarm_at_a_harmless_fault_is_counted_until_the_strategy_acts() -> None:
    record = record_of(cascade(), harmless=True)
    assert (record.outcome, record.false_alarms, record.harmless) == ("recovered", 1, True)
    assert record_of(cascade()).false_alarms == 0
    quiet = healthy(STEPS)
    quiet.supervisor(-150, "inject", 1, fault="slow", generation=0)
    quiet.done(0, 0, (0, 1, 2))
    record = record_of(quiet, harmless=True)
    assert (record.outcome, record.false_alarms) == ("no_effect", 0)
    quiet.supervisor(-120, "evidence", mechanism="watchdog", detail="no step")
    record = record_of(quiet, harmless=True)
    assert (record.outcome, record.false_alarms) == ("no_effect", 1)


@pytest.mark.parametrize(("savers", "saved"), [((0, 1, 2), True), ((0, 2), False), ((), False)])
def test_whether_everybody_saved_on_notice(savers: tuple[int, ...], saved: bool) -> None:
    assert record_of(cascade()).preemption_save is None
    files = with_line(cascade().files, None, 0, -5, "notice", fault="preempt")
    for w in savers:
        files = with_line(files, w, 0, -2, "suspended", step=25, generation=0)
    assert record_of(files).preemption_save is saved


# --- soaks ------------------------------------------------------------------------------


def soak_of(job: Job | Files, **changes: Any) -> list[TrialRecord]:
    files = job.files if isinstance(job, Job) else job
    return analyse_soak(journals(files), **arguments(SOAK_STEPS, **changes))


def test_a_soak_is_a_trial_for_each_injection() -> None:
    records = soak_of(soak())
    assert [(r.trial, r.outcome, r.error) for r in records] == [
        (f"0007.{i:03d}", "recovered", None) for i in range(3)
    ]
    assert [(r.step_before, r.restored_step, r.lost_steps) for r in records] == [
        (25, 20, 5),
        (33, 30, 3),
        (40, 40, 0),
    ]
    assert [r.victim for r in records] == [1, 1, 2]
    assert [r.recoveries for r in records] == [1, 1, 2]
    assert [round(r.recovery_s or 0, 6) for r in records] == [0.08, 0.08, 0.13]
    assert [r.detected_by for r in records] == ["process_exit"] * 3
    assert [len(r.detection_evidence) for r in records] == [1, 1, 1]
    # From the first start on; here more time passes in the journals than `wall_s` says.
    assert [r.wall_s for r in records] == pytest.approx([8.08, 1.0, 0.0])
    checks = [r.verify for r in records if r.verify]
    assert [c.passed for c in checks] == [True] * 3
    assert [c.samples_checked for c in checks] == [13 * 6, 10 * 6, 5 * 6]
    assert [c.digests_compared for c in checks] == [0, 0, 6]


def test_the_sums_of_a_soak_are_in_every_record() -> None:
    records = soak_of(soak())
    whole = [r.soak for r in records]
    assert [w["index"] for w in whole if w] == [0, 1, 2]
    last = whole[-1]
    assert last is not None
    assert (last["injections"], last["steps"]) == (3, SOAK_STEPS)
    # From the first step (at -340 ms) to the last worker's end (2201 ms); 44 steps of 10 ms.
    assert last["wall_s"] == pytest.approx(2.541)
    assert last["goodput"] == pytest.approx(0.44 / 2.541)
    assert TrialRecord.from_dict(json.loads(json.dumps(records[1].as_dict()))) == records[1]


def test_a_soak_remembers_when_there_were_fewer_workers() -> None:
    job = healthy()
    job.kill(0, 1, 0, number=0)
    job.supervisor(20, "act", strategy="shrink", generation=1, ranks=[0, 2])
    job.set_up(30, 1, (0, 2), restored=20, survivors=(0, 2))
    job.train(70, 1, (0, 2), range(21, 24), save=(23,))
    job.supervisor(130, "transition", kind="grow", generation=2)
    job.spawn(60, 1)
    job.set_up(150, 2, (0, 1, 2), restored=23, survivors=(0, 2))
    first, *rest = range(24, 66)
    job.train(190, 2, (0, 1, 2), [first, *rest[:36]], save=(60,))
    job.train(560, 2, (0, 1, 2), rest[36:], units=2**20)
    for line in [*job.files[0, 0], *job.files[1, 1], *job.files[2, 0]]:
        if line["event"] == "first_step" and line["t"] == at(570):
            job.files[line["worker"], line["attempt"]].remove(line)
    job.kill(1000, 1, 2, number=1)
    job.supervisor(1020, "act", strategy="elastic", generation=3)
    job.spawn(1025, 1)
    job.set_up(1030, 3, (0, 1, 2), restored=60, survivors=(0, 2))
    job.train(1070, 3, (0, 1, 2), range(61, 71), units=2**20)
    job.done(1200, 3, (0, 1, 2), restored=60, last=70)
    records = soak_of(job, reference=reference_to(70))
    assert [(r.outcome, r.error) for r in records] == [("recovered", None)] * 2
    assert [r.verify.losses_beyond for r in records if r.verify] == [5, 10]
    assert [len(r.transitions) for r in records] == [1, 0]


def test_each_injection_of_a_soak_is_judged_by_itself() -> None:
    where = {"event": "step", "worker": 0, "step": 35, "generation": 2}
    outcomes = [r.outcome for r in soak_of(patched(soak().files, where, loss_bits="0"))]
    assert outcomes == ["recovered", "diverged", "diverged"]
    where = {"event": "digest", "what": "restored", "generation": 4}
    outcomes = [r.outcome for r in soak_of(patched(soak().files, where, digest="bad"))]
    assert outcomes == ["recovered", "recovered", "silent_corruption"]


def test_a_soak_that_was_lost_keeps_what_it_was_before() -> None:
    records = soak_of(until(soak().files, 2100))
    assert [r.outcome for r in records] == ["recovered", "recovered", "not_recovered"]


def test_one_injection_is_a_soak_of_one() -> None:
    [record] = soak_of(cascade(), reference=reference_to())
    plain = record_of(cascade())
    assert record.soak is not None and record.soak["injections"] == 1
    assert dataclasses.replace(record, soak=None, trial="0007") == plain


def test_a_soak_without_an_injection_says_so() -> None:
    [record] = soak_of(healthy())
    assert (record.trial, record.error) == ("0007.000", "the fault was never injected")


@given(st.floats(-300, 2300))
def test_a_soak_cut_at_any_instant_has_outcomes(ms: float) -> None:
    records = soak_of(until(soak().files, ms))
    assert len(records) == 1 + sum(ms >= t for t in (1000, 2000))
    for record in records[:-1]:
        assert record.outcome == "recovered"
