"""Whole journals to whole records."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recoverybench.analysis.lanes import SPANS_KEPT
from recoverybench.analysis.record import analyse, reanalyse
from recoverybench.records import TrialRecord
from recoverybench.vocabulary import MILESTONES, PHASES, WORKER_MILESTONES
from tests.histories import (
    STEPS,
    WORKERS,
    Files,
    at,
    faultless,
    journals,
    patched,
    recovery,
    reference,
    until,
    with_line,
    without,
)
from tests.sample_run import make_cell


def record_of(files: Files, **changes: Any) -> TrialRecord:
    arguments: dict[str, Any] = {
        "trial": "0007",
        "cell": make_cell(),
        "rep": 2,
        "seed": 5,
        "workers": WORKERS,
        "reference": reference(),
        "load": (0.5, 1.5),
        "memory_available_bytes": (10, 9),
        "wall_s": 4.5,
    }
    return analyse(journals(files), **(arguments | changes))


def test_a_recovered_trial() -> None:
    record = record_of(recovery(), harness={"journal_line_us": 6.5})
    assert (record.outcome, record.error, record.victim) == ("recovered", None, 1)
    assert (record.trial, record.rep, record.seed, record.wall_s) == ("0007", 2, 5, 4.5)
    assert (record.step_before, record.restored_step, record.lost_steps) == (25, 20, 5)
    assert record.recovery_s == pytest.approx(0.170)
    assert record.time_to_progress_s == pytest.approx(0.220)
    assert list(record.milestones) == list(MILESTONES)
    assert list(record.phases) == list(PHASES)
    assert record.detected_by == "collective_error"
    assert record.compile_cache == {"0": "hit", "1": "hit", "2": "hit"}
    assert (record.restore_bytes, record.restore_tried) == (64, ())
    assert record.verify is not None and record.verify.passed
    assert record.steady_step_s == pytest.approx(0.010)
    assert record.window_s == pytest.approx(0.300)
    assert record.harness == {"journal_line_us": 6.5, "spans_dropped": 0, "lines_dropped": 0}
    assert TrialRecord.from_dict(json.loads(json.dumps(record.as_dict()))) == record


@pytest.mark.parametrize(
    ("strategy", "pids"),
    [
        ("restart", {"0": [100, 200], "1": [101, 201], "2": [102, 202]}),
        ("elastic", {"0": [100], "1": [101, 201], "2": [102]}),
        ("hot-spare", {"0": [100], "1": [101, 201], "2": [102]}),
    ],
)
def test_survivors_keep_their_pid(strategy: str, pids: dict[str, list[int]]) -> None:
    assert record_of(recovery(strategy)).pids == pids


def test_exits_in_their_order() -> None:
    ends = [(e.worker, e.attempt, e.signal, e.code, e.ours, e.reason) for e in _restart().exits]
    assert ends == [
        (1, 0, "SIGKILL", None, True, "inject"),
        (2, 0, "SIGKILL", None, True, "teardown"),
        (0, 0, "SIGKILL", None, True, "teardown"),
        (0, 1, None, 0, False, "end"),
        (1, 1, None, 0, False, "end"),
        (2, 1, None, 0, False, "end"),
    ]


def _restart() -> TrialRecord:
    return record_of(recovery("restart"))


def scratch(files: Files, tried: list[dict[str, Any]] | None = None) -> Files:
    """The same trial, come back from nothing: steps 1 to 20 are run again."""
    files = patched(files, {"event": "restore"}, step=None, tried=tried or [])
    files = without(files, what="restored")
    for w, attempt in ((0, 0), (1, 1), (2, 0)):
        for step in range(1, 21):
            ids = [1000 * step + 2 * w, 1000 * step + 2 * w + 1]
            body = {"loss_bits": f"{0x40000000 + step:08x}", "samples": ids, "t0": at(200)}
            files = with_line(
                files, w, attempt, 200 + step / 10, "step", step=step, **body, generation=1
            )
    return files


CRC = [{"step": 20, "error": "checksum"}, {"step": 10, "error": "checksum"}]


def deadline(files: Files, ms: float) -> Files:
    return with_line(until(files, ms), None, 0, ms, "deadline")


CASES: list[tuple[str, Files, str, str | None]] = [
    ("nobody noticed", deadline(recovery(), 9), "undetected", "nothing in the system noticed"),
    ("noticed only", deadline(recovery(), 12), "timeout", "still without act"),
    ("one missing", deadline(recovery(), 129), "timeout", "without restored of worker 2"),
    ("back but not done", deadline(recovery(), 230), "timeout", "not done at the deadline"),
    ("ended", until(recovery(), 129), "not_recovered", "worker 0: ValueError: Gloo: no"),
    ("corrupt and beaten", scratch(recovery(), CRC), "no_usable_checkpoint", "Gloo"),
    ("from scratch", scratch(recovery()), "restarted_from_scratch", "though a checkpoint"),
    (
        "nothing committed",
        without(scratch(recovery()), event="committed"),
        "no_usable_checkpoint",
        "no checkpoint had been committed",
    ),
    (
        "flipped bit",
        patched(recovery(), {"what": "restored"}, digest="bad"),
        "silent_corruption",
        "restored state is bad, expected state20",
    ),
    (
        "other loss",
        patched(recovery(), {"event": "step", "step": 26, "generation": 1}, loss_bits="0"),
        "diverged",
        "step 26, worker 0",
    ),
    ("never injected", faultless(), "invalid", "never injected"),
    (
        "no milestone",
        without(recovery(), event="restored", worker=0, generation=1),
        "invalid",
        "without restored",
    ),
    (
        "two steps",
        patched(recovery(), {"event": "restore", "worker": 1}, step=10),
        "invalid",
        "restored different steps: {0: 20, 1: 10, 2: 20}",
    ),
    (
        "no step",
        without(recovery(), event="restore", worker=2),
        "invalid",
        "worker 2 came back without saying",
    ),
    (
        "a foreign kill",
        patched(recovery(), {"event": "exit", "worker": 2}, signal="SIGKILL"),
        "invalid",
        "by SIGKILL, which neither we",
    ),
]


@pytest.mark.parametrize(
    ("files", "outcome", "words"), [case[1:] for case in CASES], ids=[case[0] for case in CASES]
)
def test_outcomes_and_what_they_say(files: Files, outcome: str, words: str | None) -> None:
    record = record_of(files)
    assert (record.outcome, record.error) == (outcome, record.error)
    assert record.error is not None and words is not None
    assert words in record.error
    assert "\n" not in record.error
    if outcome == "invalid":
        assert record.phases == {}
        assert record.recovery_s is record.unattributed_s is None


def test_worker_0_takes_the_survivors_along_and_nobody_acts() -> None:
    files = until(recovery(), 12)
    for w in (0, 2):
        body = {"worker": w, "pid": 100 + w, "code": None, "signal": "SIGABRT", "ours": False}
        files = with_line(files, None, 0, 40, "exit", **body, reason="own")
    record = record_of(files)
    assert (record.outcome, record.recovery_s) == ("not_recovered", None)
    files = with_line(files, None, 0, 41, "given_up", reason="worker 0 is lost")
    assert record_of(files).error == "worker 0 is lost"


def test_all_ended_with_code_0_is_no_recovery() -> None:
    files = without(until(recovery(), 5), signal="SIGKILL")
    for w in range(3):
        body = {"worker": w, "pid": 100 + w, "code": 0, "signal": None, "ours": False}
        files = with_line(files, None, 0, 40, "exit", **body, reason="own")
    assert record_of(files).outcome == "not_recovered"


def test_a_fault_without_an_effect() -> None:
    inject = {"t": at(0), "event": "inject", "worker": 1, "attempt": 0, "fault": "preempt"}
    files = faultless()
    files[None, 0] = [inject]
    record = record_of(files)
    assert (record.outcome, record.error, record.recovery_s) == ("no_effect", None, None)
    wrong = patched(files, {"event": "step", "step": STEPS}, loss_bits="0")
    assert record_of(wrong).outcome == "diverged"


def test_an_older_checkpoint_that_is_sound_is_a_recovery() -> None:
    files = patched(recovery(), {"event": "restore"}, tried=[{"step": 30, "error": "checksum"}])
    record = record_of(files)
    assert (record.outcome, record.restore_tried) == ("recovered", ("30: checksum",))


def test_nothing_came_back_from_anywhere() -> None:
    record = record_of(scratch(recovery(), CRC))
    assert record.restore_tried == ("20: checksum", "10: checksum")
    assert (record.restored_step, record.lost_steps) == (None, 25)


def test_what_the_harness_knows_is_kept_and_survives_a_second_analysis() -> None:
    record = record_of(recovery(), problem="the disk was full")
    assert (record.outcome, record.error) == ("invalid", "the disk was full")
    assert record.recovery_s is None
    assert reanalyse(record, journals(recovery()), reference()) == record


def test_without_a_reference_nothing_is_recovered() -> None:
    record = record_of(recovery(), reference=None)
    assert (record.outcome, record.error) == ("invalid", "there is no reference to compare with")


@pytest.mark.parametrize("strategy", ["restart", "elastic", "hot-spare"])
def test_a_record_can_be_computed_again(strategy: str) -> None:
    record = record_of(recovery(strategy))
    assert reanalyse(record, journals(recovery(strategy)), reference()) == record


def test_spans_of_the_waterfall() -> None:
    files = with_line(recovery(), 0, 0, -1500, "span", name="old", t0=at(-1600), generation=0)
    spans = record_of(files).spans
    assert "old" not in {span.name for span in spans}
    close = next(s for s in spans if s.name == "close runtime" and s.worker == 0)
    assert (close.attempt, close.start_s, close.end_s) == (0, 0.012, 0.05)
    assert {s.worker for s in spans if s.name == "step"} == {0, 1, 2}
    assert [s.start_s for s in spans] == sorted(s.start_s for s in spans)


def test_spans_are_capped_and_counted_and_the_recovery_stays() -> None:
    files = recovery()
    for i in range(SPANS_KEPT + 100):
        files[0, 0].append(
            {"t": at(400 + i), "event": "span", "worker": 0, "attempt": 0, "generation": 1}
            | {"name": "late", "t0": at(390)}
        )
    whole = record_of(recovery())
    record = record_of(files)
    assert len(record.spans) == SPANS_KEPT
    assert record.harness["spans_dropped"] == len(whole.spans) + 100
    inside = {s for s in whole.spans if s.end_s >= 0 and s.start_s <= 0.22}
    assert inside <= set(record.spans)


@settings(max_examples=20)
@given(st.sampled_from(["restart", "elastic", "hot-spare"]), st.randoms(use_true_random=False))
def test_the_order_of_files_and_lines_changes_nothing(strategy: str, rng: random.Random) -> None:
    files = recovery(strategy)
    mixed = dict(rng.sample(list(files.items()), len(files)))
    for lines in mixed.values():
        rng.shuffle(lines)
    assert record_of(mixed) == record_of(recovery(strategy))


@given(
    st.sampled_from(["restart", "elastic", "hot-spare"]),
    st.one_of(
        st.builds(
            lambda name, worker: {"event": name, "worker": worker, "generation": 1},
            st.sampled_from([*WORKER_MILESTONES, "done", "restore", "step"]),
            st.integers(0, 2),
        ),
        st.sampled_from(
            [
                {"event": "inject"},
                {"event": "act"},
                {"event": "exit", "reason": "inject"},
                {"event": "exit", "reason": "teardown", "worker": 0},
            ]
        ),
    ),
)
def test_what_is_missing_never_gives_a_number(strategy: str, fields: dict[str, Any]) -> None:
    files = without(recovery(strategy), **fields)
    if files == recovery(strategy):
        return
    record = record_of(files)
    assert record.outcome in ("invalid", "not_recovered", "diverged"), record.outcome
    if fields["event"] in (*WORKER_MILESTONES, "inject", "act", "exit"):
        assert record.recovery_s is None


@given(st.floats(-20, 320))
def test_a_trial_cut_at_any_instant_has_an_outcome(ms: float) -> None:
    record = record_of(until(recovery(), ms))
    assert record.outcome != "recovered" or ms >= 263
    assert (record.recovery_s is not None) == (ms >= 170)
