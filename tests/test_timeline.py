"""Milestones and phases from journals that were made by hand: tables, then properties."""

from __future__ import annotations

import math
import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recoverybench.analysis.history import History
from recoverybench.analysis.milestones import covered
from recoverybench.analysis.timeline import Timeline, detail_of, timeline
from recoverybench.vocabulary import MILESTONES, PHASES, RECOVERY_PHASES, WORKER_MILESTONES
from tests.histories import (
    INJECT,
    MS,
    WORKERS,
    Files,
    at,
    change,
    journals,
    patched,
    recovery,
    until,
    with_line,
    without,
)

STRATEGIES = ("restart", "elastic", "hot-spare")


def line_of(files: Files) -> Timeline:
    return timeline(History.of(journals(files)), WORKERS)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_phases_of_a_recovery(strategy: str) -> None:
    line = line_of(recovery(strategy))
    assert line.problem is None
    assert (line.generation, line.reached, line.waiting_for) == (1, True, None)
    assert [mark.name for mark in line.marks] == list(MILESTONES)
    in_ms = {name: round(s * 1000, 6) for name, s in line.phases.items()}
    assert in_ms == {
        "detect": 10,
        "react": 5,
        "teardown": 35,
        "replace": 50,
        "rendezvous": 10,
        "restore": 20,
        "compile": 30,
        "first_step": 10,
        "catch_up": 50,
    }
    assert line.recovery_s == pytest.approx(0.170)
    assert line.time_to_progress_s == pytest.approx(0.220)
    assert line.step_before == 25


@pytest.mark.parametrize(
    ("strategy", "by"),
    [
        ("restart", [None, 0, None, None, 2, 2, 2, 2, 2, 2]),
        ("elastic", [None, 0, None, 0, 2, 2, 2, 2, 2, 2]),
        ("hot-spare", [None, 0, None, 0, 2, 2, 2, 2, 2, 2]),
    ],
)
def test_the_critical_worker_is_the_one_that_was_last(strategy: str, by: list[int | None]) -> None:
    assert [mark.by for mark in line_of(recovery(strategy)).marks] == by


def test_each_mechanism_and_observer_is_kept_once_with_its_time() -> None:
    files = with_line(recovery(), 0, 0, 40, "error", mechanism="collective_error", message="again")
    files = with_line(files, None, 0, 30, "evidence", mechanism="connection_lost", detail="w1")
    seen = [(e.mechanism, e.observer, round(e.after_s, 6)) for e in line_of(files).evidence]
    assert seen == [
        ("collective_error", 0, 0.010),
        ("process_exit", None, 0.011),
        ("collective_error", 2, 0.012),
        ("connection_lost", None, 0.030),
    ]


def test_what_is_noticed_after_the_deadline_is_the_harness_itself() -> None:
    files = without(without(recovery(), event="error"), event="evidence")
    files = with_line(until(files, 5), None, 0, 1000, "deadline")
    files = with_line(files, None, 0, 1001, "evidence", mechanism="process_exit", detail="")
    line = line_of(files)
    assert line.evidence == ()
    assert line.waiting_for == ("evidence", ())


def test_an_error_that_is_no_evidence_is_not_counted_as_such() -> None:
    files = with_line(recovery(), 0, 0, 2, "error", mechanism="none of ours", message="?")
    assert line_of(files).evidence[0].after_s == pytest.approx(0.010)


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ({"detail": "worker 1: SIGKILL"}, "worker 1: SIGKILL"),
        ({"detail": "  \nlost\nmore"}, "lost"),
        ({"detail": ""}, ""),
        ({"type": "ValueError", "message": "Gloo"}, "ValueError: Gloo"),
        ({"type": "ValueError", "message": "ValueError: Gloo\n  at x"}, "ValueError: Gloo"),
        ({"detail": "x" * 500}, "x" * 199 + "…"),
    ],
)
def test_what_a_line_says_is_one_line(line: dict[str, Any], text: str) -> None:
    assert detail_of(line) == text


def test_a_replacement_may_be_up_before_the_last_survivor_has_closed() -> None:
    files = patched(recovery(), {"event": "up", "worker": 1, "generation": 1}, t=at(20))
    line = line_of(files)
    assert line.problem is None
    assert line.phases["replace"] == pytest.approx(0.050)


def test_everything_up_before_the_last_exit_makes_the_phase_empty_not_negative() -> None:
    files = recovery("restart")
    files = patched(files, {"event": "exit", "worker": 0, "reason": "teardown"}, t=at(104))
    line = line_of(files)
    assert line.problem is None
    assert line.phases["replace"] == 0.0
    assert line.phases["teardown"] == pytest.approx(0.089)
    assert line.recovery_s == pytest.approx(0.170)


@pytest.mark.parametrize("strategy", ["elastic", "hot-spare"])
def test_late_news_of_a_lost_machine_that_nobody_waited_for_is_in_no_phase(strategy: str) -> None:
    late = {"event": "exit", "worker": 1, "reason": "inject"}
    files = patched(recovery(strategy), late, t=at(240), seen=False)
    assert line_of(files).phases == line_of(recovery(strategy)).phases
    # What a launcher has seen itself is when it ended, and it was not out of the way before.
    seen = line_of(patched(files, late, seen=True))
    assert seen.phases["teardown"] == pytest.approx(0.225)


def test_news_that_was_waited_for_is_teardown() -> None:
    late = {"event": "exit", "worker": 0, "reason": "teardown"}
    files = patched(recovery("restart"), late, t=at(51), seen=False)
    assert line_of(files).phases["teardown"] == pytest.approx(0.036)


def test_verification_on_the_critical_path_is_in_no_phase() -> None:
    files = recovery()
    for t0, t in ((132, 140), (136, 142), (125, 131)):
        files = with_line(files, 2, 0, t, "span", name="verify", t0=at(t0), generation=1)
    # Worker 0 is not the critical one.
    files = with_line(files, 0, 0, 150, "span", name="verify", t0=at(130), generation=1)
    line = line_of(files)
    assert line.phases["restore"] == pytest.approx(0.015)
    assert line.phases["compile"] == pytest.approx(0.019)
    assert line.verify_s == pytest.approx(0.016)
    assert line.recovery_s == pytest.approx(0.154)
    assert line.unattributed_s == line_of(recovery()).unattributed_s


def test_time_that_no_span_covers() -> None:
    # React has no span of the supervisor, closing begins at 12 ms, `up` at 50: 5 ms are open.
    assert line_of(recovery()).unattributed_s == pytest.approx(0.005)
    files = without(recovery(), event="span", worker=2, name="do restored")
    assert line_of(files).unattributed_s == pytest.approx(0.025)
    # The same span missing on a worker that nobody waited for changes nothing.
    files = without(recovery(), event="span", worker=0, name="do restored")
    assert line_of(files).unattributed_s == pytest.approx(0.005)


def test_spans_of_the_supervisor_cover_what_the_supervisor_ended() -> None:
    assert line_of(recovery("restart")).unattributed_s == pytest.approx(0.005)
    files = with_line(recovery("restart"), None, 0, 15, "span", name="decide", t0=at(10))
    assert line_of(files).unattributed_s == 0.0


@pytest.mark.parametrize(
    ("ms", "waiting"),
    [
        (5, ("evidence", ())),
        (14, ("act", ())),
        (16, ("closed", (0, 2))),
        (49, ("closed", (0,))),
        (99, ("up", (2,))),
        (129, ("restored", (2,))),
        (169, ("first_step", (2,))),
        (200, ("progress", (0, 1, 2))),
    ],
)
def test_a_recovery_that_was_cut_off(ms: float, waiting: tuple[str, tuple[int, ...]]) -> None:
    line = line_of(until(recovery(), ms))
    assert line.problem is None
    assert line.waiting_for == waiting
    assert line.reached == (waiting[0] == "progress")
    assert (line.recovery_s is None) == (not line.reached)
    assert line.time_to_progress_s is None
    reached = [mark.name for mark in line.marks]
    assert reached == list(MILESTONES[: len(reached)])
    assert list(line.phases) == list(PHASES[: len(reached) - 1])


def test_the_last_generation_that_was_begun_counts() -> None:
    files = with_line(recovery(), None, 0, 290, "act", strategy="elastic", generation=2)
    line = line_of(files)
    assert (line.generation, line.reached, line.recovery_s) == (2, False, None)


def test_no_injection_no_timeline() -> None:
    line = line_of(without(recovery(), event="inject"))
    assert (line.t_inject, line.marks, line.recovery_s) == (None, (), None)


PROBLEMS: list[tuple[Any, list[str]]] = [
    (lambda f: without(f, event="closed", worker=2), ["up (worker 2, attempt 0)", "closed"]),
    (lambda f: without(f, event="restored", worker=1), ["compiled (worker 1", "restored"]),
    (lambda f: without(f, event="first_step", worker=0), ["step (worker 0", "first_step"]),
    (lambda f: without(f, event="exit", worker=1, reason="inject"), ["closed of worker 1"]),
    (lambda f: without(f, event="act"), ["without act"]),
    (
        lambda f: without(without(f, event="evidence"), event="error"),
        ["act (supervisor)", "nothing was noticed"],
    ),
    (
        lambda f: patched(f, {"event": "act"}, t=at(9)),
        ["act (supervisor)", "0.001000 s before", "error collective_error (worker 0, attempt 0)"],
    ),
    (
        lambda f: patched(f, {"event": "act"}, t=at(-1)),
        ["act (supervisor)", "inject (worker 1, attempt 0)"],
    ),
    (
        lambda f: patched(f, {"event": "evidence"}, t=at(-2)),
        ["evidence process_exit (supervisor)", "0.002000 s before inject"],
    ),
    (
        lambda f: patched(f, {"event": "restored", "worker": 1, "generation": 1}, t=at(105)),
        ["restored (worker 1, attempt 1)", "before rendezvous (worker 1, attempt 1)"],
    ),
    (
        lambda f: patched(f, {"event": "closed", "worker": 0}, t=at(-3)),
        ["closed (worker 0, attempt 0)", "before inject"],
    ),
    (
        lambda f: with_line(f, 0, 0, 120, "up", generation=1),
        ["up (worker 0, attempt 0) twice"],
    ),
    (
        lambda f: with_line(f, 1, 1, 60, "closed", generation=1),
        ["closed (worker 1, attempt 1)", "nothing to close"],
    ),
    (
        lambda f: with_line(f, 0, 0, 60, "span", name="x", t0=at(61), generation=1),
        ["span x (worker 0", "before it starts"],
    ),
    (lambda f: patched(f, {"event": "step"}, loss_bits=None), ["loss_bits is not text"]),
]


@pytest.mark.parametrize(("spoil", "words"), PROBLEMS)
def test_a_problem_is_named_and_gives_no_number(spoil: Any, words: list[str]) -> None:
    line = line_of(spoil(recovery()))
    assert line.problem is not None
    assert [word for word in words if word not in line.problem] == [], line.problem
    assert line.phases == {}
    assert line.recovery_s is line.time_to_progress_s is line.unattributed_s is None


def test_a_second_injection_is_a_problem() -> None:
    extra = {"t": at(60), "event": "inject", "worker": 2, "attempt": 0, "fault": "kill"}
    files = recovery()
    files[None, 0].append(extra)
    assert line_of(files).problem == "more than one injection"


def test_what_was_noticed_between_the_notice_and_the_injection_is_no_false_alarm() -> None:
    files = with_line(recovery(), 0, 0, -5, "error", mechanism="collective_error", message="")
    assert line_of(files).problem is not None
    files[None, 0].append(
        {"t": at(-9), "event": "notice", "worker": 1, "attempt": 0, "fault": "preempt"}
    )
    line = line_of(files)
    assert line.problem is None
    assert line.evidence[0].after_s == pytest.approx(0.010)


# --- properties -----------------------------------------------------------------------


def jittered(files: Files, shifts: dict[str, int]) -> Files:
    """Every event after the injection, moved by an amount that its writer and name choose."""

    def move(line: dict[str, Any]) -> dict[str, Any]:
        if line["t"] <= INJECT:
            return line
        key = f"{line['worker']}.{line['event']}.{line.get('step', '')}"
        return line | {"t": line["t"] + shifts.get(key, 0)}

    return change(files, move)


MOVED = st.dictionaries(
    st.sampled_from(
        [f"{w}.{e}." for w in (0, 1, 2) for e in (*WORKER_MILESTONES, "exit", "error", "span")]
        + [f"{w}.step.{s}" for w in (0, 1, 2) for s in (21, 26)]
        + ["None.act.", "None.evidence.", "None.span."]
    ),
    st.integers(-40 * MS, 40 * MS),
)


@given(st.sampled_from(STRATEGIES), MOVED)
def test_phases_sum_to_the_recovery_time_for_any_order(
    strategy: str, shifts: dict[str, int]
) -> None:
    line = line_of(jittered(recovery(strategy), shifts))
    if line.problem is not None:
        assert line.recovery_s is None
        assert line.phases == {}
        return
    assert line.recovery_s is not None and line.time_to_progress_s is not None
    assert line.verify_s is not None and line.unattributed_s is not None
    assert min(line.phases.values()) >= 0
    assert line.recovery_s == math.fsum(line.phases[p] for p in RECOVERY_PHASES)
    when = {mark.name: mark.t for mark in line.marks}
    window_s = (when["first_step"] - INJECT) / 1e9
    assert line.recovery_s + line.verify_s == pytest.approx(window_s, abs=1e-9)
    assert line.time_to_progress_s == line.recovery_s + line.phases["catch_up"]
    assert 0 <= line.unattributed_s <= line.recovery_s + 1e-12


@settings(max_examples=30)
@given(st.sampled_from(STRATEGIES), st.randoms(use_true_random=False))
def test_the_order_of_files_and_lines_changes_nothing(strategy: str, rng: random.Random) -> None:
    files = recovery(strategy)
    mixed = dict(rng.sample(list(files.items()), len(files)))
    for lines in mixed.values():
        rng.shuffle(lines)
    # Lines say themselves who wrote them: not even their file matters.
    moved = mixed[None, 0].pop()
    mixed[0, 0].insert(rng.randrange(len(mixed[0, 0])), moved)
    assert line_of(mixed) == line_of(recovery(strategy))


@given(st.sampled_from(STRATEGIES), st.integers(-(10**15), 10**15))
def test_shifting_the_clock_changes_nothing(strategy: str, shift: int) -> None:
    def move(line: dict[str, Any]) -> dict[str, Any]:
        return line | {k: line[k] + shift for k in ("t", "t0") if k in line}

    shifted, plain = line_of(change(recovery(strategy), move)), line_of(recovery(strategy))
    assert shifted.phases == plain.phases
    assert shifted.recovery_s == plain.recovery_s
    assert shifted.time_to_progress_s == plain.time_to_progress_s
    assert shifted.unattributed_s == plain.unattributed_s
    assert shifted.evidence == plain.evidence
    assert [(m.name, m.t - shift, m.by) for m in shifted.marks] == [
        (m.name, m.t, m.by) for m in plain.marks
    ]


@given(st.sampled_from(STRATEGIES), st.sampled_from(WORKER_MILESTONES), st.integers(0, 2))
def test_without_a_needed_milestone_there_is_no_number(
    strategy: str, name: str, worker: int
) -> None:
    whole = recovery(strategy)
    files = without(whole, event=name, worker=worker, generation=1)
    if files == whole:
        assert name == "closed"  # this worker did not survive
        return
    line = line_of(files)
    assert line.recovery_s is None
    assert line.time_to_progress_s is None
    assert line.problem is not None


SPANS = st.lists(st.tuples(st.integers(-20, 120), st.integers(0, 60)).map(lambda s: (s[0], sum(s))))


@given(SPANS)
def test_covered_counts_every_instant_once(spans: list[tuple[int, int]]) -> None:
    inside = {i for a, b in spans for i in range(a, b) if 0 <= i < 100}
    assert covered(spans, 0, 100) == len(inside)
