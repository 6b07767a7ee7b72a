"""Journal of a command to its record: what counts as back, what is named, what is equal."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recoverybench.analysis.journal import Journal
from recoverybench.cells import Cell
from recoverybench.external.losses import CommandReference, differs
from recoverybench.external.record import NOTHING_TO_COMPARE, Terms, analyse_command
from recoverybench.labels import not_verified
from recoverybench.records import TrialRecord

S = 1_000_000_000
T = 100 * S
"""Instant of the injection."""

CELL = Cell.from_dict(
    {
        "workload": "external/jax-loop",
        "topology": "2x1",
        "strategy": "own",
        "state_source": "storage",
        "fault": "kill",
        "trigger": "step:25",
        "interval": 10,
        "victim": None,
        "heartbeat_s": 10.0,
        "watchdog_s": 5.0,
        "coordinator": "worker0",
        "compile_cache": "executable",
    }
)

Line = dict[str, Any]


def loss_at(step: int) -> str:
    return f"{5.0 - step / 100:.3f}"


def mark(at_s: float, who: int | None, what: str, attempt: int = 0, **fields: Any) -> Line:
    line = {"t": T + round(at_s * S), "event": "mark", "worker": who, "attempt": attempt}
    return {**line, "what": what, "step": None, "loss": None, "source": "output", **fields}


def step(at_s: float, who: int | None, number: int, attempt: int = 0, **fields: Any) -> Line:
    more = {"step": number, "loss": loss_at(number), **fields}
    return mark(at_s, who, "step", attempt, **more)


def line(at_s: float, event: str, worker: int | None = None, attempt: int = 0, **more: Any) -> Line:
    return {
        "t": T + round(at_s * S),
        "event": event,
        "worker": worker,
        "attempt": attempt,
        **more,
    }


def healthy(who: Iterable[int | None] = (0, 1), last: int = 24) -> list[Line]:
    """Steps 1 to `last` of each, the last one 0.1 s before the injection."""
    return [
        step(-0.1 * (last - number + 1), one, number)
        for number in range(1, last + 1)
        for one in who
    ]


def struck(victim: int = 1) -> list[Line]:
    return [
        line(0, "inject", victim, fault="kill", generation=0),
        line(0.01, "exit", victim, pid=11, code=None, signal="SIGKILL", ours=True, reason="inject"),
    ]


def spawned(at_s: float, who: int, attempt: int) -> Line:
    return line(at_s, "spawn", who, attempt, pid=10 + who + 100 * attempt, how="found")


def restarted(first: int = 21, who: Iterable[int] = (0, 1), at_s: float = 5.0) -> list[Line]:
    """Everybody is started anew 1 s after the injection, and does steps from `at_s` on."""
    lines = [spawned(1.0, one, 1) for one in who]
    lines += [
        step(at_s + 0.1 * (number - first), one, number, 1)
        for number in range(first, 46)
        for one in who
    ]
    return lines


def done(code: int = 0) -> list[Line]:
    return [line(20, "command_ended", None, code=code, signal=None)]


def reference(losses: Mapping[int | None, Mapping[int, str]] | None = None) -> CommandReference:
    if losses is None:
        losses = {one: {n: loss_at(n) for n in range(1, 46)} for one in (0, 1)}
    plain = {who: {n: [text] for n, text in own.items()} for who, own in losses.items()}
    return CommandReference("ref", 1, 45, plain)


def record(
    lines: Iterable[Line],
    *,
    terms: Terms | None = None,
    ref: CommandReference | None = None,
    **more: Any,
) -> TrialRecord:
    head = line(-50, "journal", schema=1)
    return analyse_command(
        [Journal(None, 0, (head, *lines), 0)],
        trial="0000",
        cell=CELL,
        rep=0,
        seed=1,
        victim=1,
        terms=terms or Terms("losses", None, "all", True, 1),
        reference=ref or reference(),
        load=(0.0, 0.0),
        memory_available_bytes=(1, 1),
        wall_s=1.0,
        **more,
    )


def test_a_restart_with_nothing_but_steps() -> None:
    found = record([*healthy(), *struck(), *restarted(), *done()])
    assert found.outcome == "recovered" and found.error is None
    assert found.recovery_s == pytest.approx(5.0)
    assert found.time_to_progress_s == pytest.approx(5.4)  # step 25 is the first beyond 24
    assert found.phases == pytest.approx({"detect": 1.0, "unnamed": 4.0, "catch_up": 0.4})
    assert (found.step_before, found.restored_step, found.lost_steps) == (24, 20, 4)
    assert found.detected_by == "process_exit"
    assert found.verify is not None and found.verify.losses_compared == 25
    assert found.pids == {"0": [110], "1": [111]}


def test_named_where_a_mark_names_it() -> None:
    way = [
        mark(2.0 + one / 10, one, what, 1, **({"step": 20} if what == "restore_end" else {}))
        for one in (0, 1)
        for what in ("up", "rendezvous", "restore_begin", "restore_end", "compiled")
    ]
    for number, one in enumerate(way):
        one["t"] += (number % 5) * S // 2
    found = record([*healthy(), *struck(), *restarted(), *way, *done()])
    assert found.phases == pytest.approx(
        {
            "detect": 1.0,
            "unnamed": 1.1 + 0.5,  # evidence to up, rendezvous to the begin of the restore
            "rendezvous": 0.5,
            "restore": 0.5,
            "compile": 0.5,
            "first_step": 0.9,
            "catch_up": 0.4,
        }
    )
    assert found.recovery_s == pytest.approx(5.0)
    assert list(found.milestones) == [
        "inject",
        "evidence",
        "up",
        "rendezvous",
        "restored",
        "compiled",
        "first_step",
        "progress",
    ]


@given(
    st.lists(
        st.sampled_from(["up", "rendezvous", "restore_begin", "restore_end", "compiled"]),
        max_size=8,
    ),
    st.lists(st.floats(1.1, 4.9), min_size=8, max_size=8),
)
def test_the_phases_add_up_whatever_is_marked(kinds: list[str], times: list[float]) -> None:
    marks = [mark(at, 0, kind, 1) for kind, at in zip(kinds, times, strict=False)]
    found = record([*healthy(), *struck(), *restarted(), *marks, *done()])
    assert found.recovery_s == pytest.approx(5.0)
    parts = [value for name, value in found.phases.items() if name != "catch_up"]
    assert math.fsum(parts) == pytest.approx(5.0) and min(parts) >= 0.0
    instants = list(found.milestones.values())
    assert instants == sorted(instants)


def test_what_was_under_way_is_not_the_recovery() -> None:
    """A survivor prints the step that it was at, and even the victim's last line comes late."""
    late = [step(0.005, 0, 25), step(0.004, 1, 25)]
    found = record([*healthy(), *struck(), *late, *restarted(), *done()])
    assert found.recovery_s == pytest.approx(5.0) and found.step_before == 24


def test_a_survivor_that_goes_on_is_back_with_the_step_after_that() -> None:
    going = [step(0.2 + 0.1 * (n - 25), 0, n) for n in range(25, 46)]
    found = record([*healthy(), *struck(), *going, *done()], terms=_any())
    assert found.outcome == "recovered" and found.recovery_s == pytest.approx(0.3)
    assert found.lost_steps == 0


def test_a_survivor_that_says_it_begins_anew_is_back_with_its_next_step() -> None:
    going = [mark(0.1, 0, "error"), *(step(0.2 + 0.1 * (n - 25), 0, n) for n in range(25, 46))]
    found = record([*healthy(), *struck(), *going, *done()], terms=_any())
    assert found.recovery_s == pytest.approx(0.2)
    assert found.phases["detect"] == pytest.approx(0.1)
    assert found.detection_evidence[0].mechanism == "exception"


def test_a_survivor_that_went_back_is_back() -> None:
    """In-process restart: the same process does step 21 once more, and says nothing."""
    again = [step(3.0 + 0.1 * (n - 21), one, n) for n in range(21, 46) for one in (0, 1)]
    hung = [line(0, "inject", 1, fault="hang", generation=0)]
    found = record([*healthy(), *hung, *again, *done()])
    assert found.outcome == "recovered" and found.recovery_s == pytest.approx(3.0)
    assert found.restored_step == 20


def test_everybody_who_prints_has_to_be_back() -> None:
    half = [one for one in restarted() if one["worker"] == 0]
    found = record([*healthy(), *struck(), *half, line(60, "deadline")])
    assert found.outcome == "timeout" and found.recovery_s is None
    assert found.error == "noticed, and at the deadline still without a step"


def test_lines_of_no_rank() -> None:
    lines = [*healthy([None]), *struck(), *restarted(who=[0, 1])]
    lines = [one for one in lines if one["event"] != "mark" or one["worker"] is None]
    lines += [step(5.0 + 0.1 * (n - 21), None, n, 1) for n in range(21, 46)]
    ref = reference({None: {n: loss_at(n) for n in range(1, 46)}})
    found = record([*lines, *done()], ref=ref)
    assert found.outcome == "recovered" and found.recovery_s == pytest.approx(5.0)


def test_all_ranks_print_into_one_stream_without_a_rank() -> None:
    """Each step is there twice; one that is there for the first time is no step back."""
    twice = list(itertools.chain.from_iterable((one, dict(one)) for one in healthy([None])))
    late = [step(0.01, None, 24), step(0.02, None, 25), step(0.02, None, 25)]
    back = [step(5.0 + 0.1 * (n - 21), None, n) for n in range(21, 46) for _ in range(2)]
    del twice[-1]  # one of them had not printed step 24 yet
    ref = reference({None: {n: loss_at(n) for n in range(1, 46)}})
    found = record([*twice, *struck(), *late, *back, *done()], ref=ref)
    assert found.recovery_s == pytest.approx(5.0)


def test_from_the_beginning() -> None:
    saved = mark(-1.5, 0, "saved", step=10)
    found = record([*healthy(), saved, *struck(), *restarted(first=1), *done()])
    assert found.outcome == "restarted_from_scratch" and found.lost_steps == 24
    found = record([*healthy(), *struck(), *restarted(first=1), *done()])
    assert found.outcome == "no_usable_checkpoint"
    assert found.error is not None and "no line or mark" in found.error


def test_another_loss_is_another_training() -> None:
    lines = restarted()
    lines[-1]["loss"] = "9.9"
    found = record([*healthy(), *struck(), *lines, *done()])
    assert found.outcome == "diverged"
    assert found.error == (
        "step 45, worker 1: loss is 9.9, expected 4.550, a relative difference of 1.2"
    )


def test_a_tolerance_is_kept_and_told() -> None:
    lines = restarted()
    lines[-1]["loss"] = "4.55001"
    loose = Terms("losses", 1e-5, "all", True, 1)
    found = record([*healthy(), *struck(), *lines, *done()], terms=loose)
    assert found.outcome == "recovered"
    assert found.verify is not None and found.verify.losses_within == 25
    assert found.verify.largest_difference == pytest.approx(1e-5 / 4.55)
    strict = record([*healthy(), *struck(), *lines, *done()])
    assert strict.outcome == "diverged"


def test_a_step_that_is_left_out_is_another_training() -> None:
    lines = [one for one in restarted() if one.get("step") != 30]
    found = record([*healthy(), *struck(), *lines, *done()])
    assert found.outcome == "diverged" and found.error == "step 30, worker 0: the step is missing"


def test_a_command_that_differs_from_run_to_run_is_not_measured() -> None:
    before = healthy()
    before[5]["loss"] = "1.0"
    found = record([*before, *struck(), *restarted(), *done()])
    assert found.outcome == "invalid" and found.recovery_s is None and found.phases == {}
    assert found.error is not None and "not the same from run to run" in found.error


def test_without_losses_nothing_is_verified() -> None:
    lines = [*healthy(), *struck(), *restarted(), *done()]
    for one in lines:
        one["loss"] = None
    silent = reference({})
    found = record(lines, ref=silent)
    assert found.outcome == "invalid" and found.error == NOTHING_TO_COMPARE
    meant = record(lines, ref=silent, terms=Terms("none", None, "all", True, 1))
    assert meant.outcome == "recovered" and meant.recovery_s == pytest.approx(5.0)
    assert meant.verify is not None and meant.verify.passed is None and not_verified(meant)
    assert not not_verified(record([*healthy(), *struck(), *restarted(), *done()]))


def test_what_became_of_the_others() -> None:
    quiet = record([*healthy(), line(0, "inject", 1, fault="hang"), line(60, "deadline")])
    assert quiet.outcome == "undetected"
    over = record([*healthy(), *struck(), *done(code=1)])
    assert over.outcome == "not_recovered" and over.error == "the command ended with exit code 1"
    going = [step(0.1 * (n - 24), one, n) for n in range(25, 46) for one in (0, 1)]
    ignored = record([*healthy(), line(0, "inject", 1, fault="interrupt"), *going, *done()])
    assert ignored.outcome == "no_effect" and ignored.recovery_s is None
    never = record(healthy(), problem="the command ended before the fault")
    assert never.outcome == "invalid" and never.error == "the command ended before the fault"
    still = record(
        [*healthy(), *struck(), *restarted(), *done(), line(1, "stood_still", seconds=2)]
    )
    assert still.outcome == "invalid"


def test_the_end_of_the_victim_is_no_evidence() -> None:
    found = record([*healthy(), *struck(), line(60, "deadline")])
    assert found.outcome == "undetected" and found.detection_evidence == ()


def test_a_worker_that_is_done_is_no_evidence_either() -> None:
    ends = line(30, "exit", 0, pid=10, code=0, signal=None, ours=False, reason="own")
    found = record([*healthy(), *struck(), ends, line(60, "deadline")])
    assert found.outcome == "undetected"
    ends = line(30, "exit", 0, pid=10, code=1, signal=None, ours=False, reason="own")
    assert record([*healthy(), *struck(), ends, line(60, "deadline")]).outcome == "timeout"


def test_sparse_steps_do_not_say_where_the_state_came_from() -> None:
    def tenth(lines: list[Line]) -> list[Line]:
        return [one for one in lines if one["event"] != "mark" or one["step"] % 5 == 0]

    lines = [*tenth(healthy()), *struck(), *tenth(restarted()), *done()]
    sparse = reference({w: {n: loss_at(n) for n in range(5, 46, 5)} for w in (0, 1)})
    found = record(lines, ref=sparse)
    assert found.outcome == "recovered"
    assert found.restored_step is None and found.lost_steps is None


def test_the_record_can_be_kept() -> None:
    found = record([*healthy(), *struck(), *restarted(), *done()])
    assert TrialRecord.from_dict(found.as_dict()) == found


@given(st.dictionaries(st.integers(0, 50), st.text(max_size=5)), st.integers(0, 9))
def test_a_reference_comes_back_as_it_was(losses: dict[int, str], first: int) -> None:
    plain = {None: {n: [text] for n, text in losses.items()}, 3: {1: ["a", "b"]}}
    one = CommandReference("k", first, 50, plain)
    assert CommandReference.from_dict(one.as_dict()) == one


@given(st.floats(0.1, 100.0), st.floats(1e-9, 0.5))
def test_a_loss_is_close_to_itself_and_far_from_another(loss: float, tolerance: float) -> None:
    assert differs(repr(loss), [repr(loss)], None) is None
    other = repr(loss * (1 + 3 * tolerance))
    assert differs(other, [repr(loss)], tolerance) is not None
    assert differs(other, [repr(loss)], 4 * tolerance) is None
    assert differs("nan", [repr(loss)], tolerance) == math.inf
    assert differs("nan", ["nan"], None) is None


def _any() -> Terms:
    return Terms("losses", None, "any", True, 1)
