"""Offsets of clocks: whatever the network does, the true one is within the bound."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from recoverybench.clocks import (
    MOST_RATE_PPM,
    OWN,
    SEVERAL,
    Clock,
    Course,
    Exchange,
    Offset,
    Reading,
    apart_ns,
    clock_problem,
    offset_of,
    on_one_clock,
    reading_of,
    surely_before,
)

DAY = 86_400 * 10**9
SECOND = 10**9
INSTANTS = st.integers(0, 400 * DAY)
OFFSETS = st.integers(-400 * DAY, 400 * DAY)
DELAYS = st.tuples(st.integers(0, 10**10), st.integers(0, 10**10))


def exchange(sent: int, delays: tuple[int, int], theirs: Callable[[int], int]) -> Exchange:
    """An exchange whose two ways take that long, with a clock that shows `theirs(our time)`."""
    there = sent + delays[0]
    return Exchange(sent, theirs(there), there + delays[1])


def series(at: int, ways: list[tuple[int, int]], theirs: Callable[[int], int]) -> list[Exchange]:
    found = []
    for delays in ways:
        found.append(exchange(at, delays, theirs))
        at = found[-1].received
    return found


@given(INSTANTS, OFFSETS, st.lists(DELAYS, min_size=1, max_size=8))
def test_the_true_offset_is_within_the_bound_whatever_the_two_ways_take(
    at: int, offset: int, ways: list[tuple[int, int]]
) -> None:
    found = offset_of(series(at, ways, lambda t: t + offset))
    assert abs(found.offset - offset) <= found.bound
    assert found.bound == (min(map(sum, ways)) + 1) // 2
    assert at <= found.at <= at + sum(map(sum, ways))


@given(INSTANTS, OFFSETS, st.lists(DELAYS, min_size=2, max_size=8))
def test_more_exchanges_never_widen_the_bound(
    at: int, offset: int, ways: list[tuple[int, int]]
) -> None:
    every = series(at, ways, lambda t: t + offset)
    bounds = [offset_of(every[:n]).bound for n in range(1, len(every) + 1)]
    assert bounds == sorted(bounds, reverse=True)


@given(INSTANTS, OFFSETS, st.integers(0, 10**9))
def test_a_network_that_takes_equally_long_both_ways_gives_the_very_offset(
    at: int, offset: int, way: int
) -> None:
    assert offset_of([exchange(at, (way, way), lambda t: t + offset)]).offset == offset


@given(INSTANTS, OFFSETS, OFFSETS, DELAYS)
def test_setting_the_other_clock_moves_the_offset_by_as_much(
    at: int, offset: int, more: int, delays: tuple[int, int]
) -> None:
    a = offset_of([exchange(at, delays, lambda t: t + offset)])
    b = offset_of([exchange(at, delays, lambda t: t + offset + more)])
    assert (b.offset - a.offset, b.bound, b.at) == (more, a.bound, a.at)


@pytest.mark.parametrize("exchanges", [[], [Exchange(5, 0, 4)]])
def test_no_exchange_and_an_answer_before_its_question_say_nothing(
    exchanges: list[Exchange],
) -> None:
    with pytest.raises(ValueError, match=r"exchange|before its question"):
        offset_of(exchanges)


@st.composite
def measured(draw: st.DrawFn, rate_ppm: int = MOST_RATE_PPM) -> tuple[Callable[[int], int], Course]:
    """A clock that drifts steadily, and the course that two series make of it."""
    start, offset = draw(INSTANTS), draw(OFFSETS)
    rate = draw(st.integers(-rate_ppm, rate_ppm))

    def theirs(t: int) -> int:
        return t + offset + (t - start) * rate // 1_000_000

    gap = draw(st.integers(1, 3600 * SECOND))
    ways = st.lists(st.tuples(st.integers(0, 10**7), st.integers(0, 10**7)), min_size=1, max_size=4)
    before, after = (offset_of(series(at, draw(ways), theirs)) for at in (start, start + gap))
    return theirs, Course([after, before])


@given(measured(), st.integers(-600 * SECOND, 4000 * SECOND))
def test_a_clock_that_drifts_steadily_is_within_the_bound_at_every_time(
    clock: tuple[Callable[[int], int], Course], after: int
) -> None:
    theirs, course = clock
    t = course._points[0].at - course._points[0].offset + after
    offset, bound = course.at(theirs(t))
    # A nanosecond for each of the two places at which `theirs` is rounded down.
    assert abs(theirs(t) - t - offset) <= bound + 2


@given(measured(10), st.data())
def test_instants_of_one_clock_keep_their_order(
    clock: tuple[Callable[[int], int], Course], data: st.DataObject
) -> None:
    _, course = clock
    begin = course._points[0].at
    a, b = sorted(data.draw(st.integers(begin - SECOND, begin + 60 * SECOND)) for _ in range(2))
    assert a - course.at(a)[0] <= b - course.at(b)[0]


@given(
    st.integers(1, 100 * SECOND),
    st.integers(-(10**12), 10**12),
    st.tuples(st.integers(0, 10**7), st.integers(0, 10**7)),
    st.tuples(st.floats(-1, 1), st.floats(-1, 1)),
    st.floats(0, 1),
    st.floats(0, 1),
)
def test_where_series_disagree_every_course_without_a_turn_is_within_the_bound(
    gap: int,
    changed: int,
    bounds: tuple[int, int],
    wrong: tuple[float, float],
    when: float,
    how_far: float,
) -> None:
    """A step, a slew, a drift: anything between the true offsets before and after."""
    first = Offset(0, round(wrong[0] * bounds[0]), bounds[0])
    last = Offset(gap, changed + round(wrong[1] * bounds[1]), bounds[1])
    assume(abs(last.offset - first.offset) > sum(bounds))
    assume(gap + last.offset > first.offset)  # else the other clock went backwards
    course = Course([first, last])
    there = round(how_far * changed)  # between the true offsets 0 and `changed`
    t = first.offset + round(when * (gap + last.offset - first.offset))
    t = min(max(t, first.offset), gap + last.offset - 1)
    offset, bound = course.at(t)
    assert abs(there - offset) <= bound


def test_the_bound_between_series_that_agree_goes_from_one_to_the_other() -> None:
    course = Course([Offset(0, 0, 100), Offset(10_000_000, 150, 200)])
    assert course.at(0) == (0, 101)
    assert course.at(5_000_075) == (75, 151)


def test_outside_of_all_series_the_bound_grows_with_the_distance() -> None:
    course = Course([Offset(10 * SECOND, 7, 100)])
    assert course.at(10 * SECOND + 7) == (7, 100)
    assert course.at(12 * SECOND + 7) == (7, 100 + 2 * SECOND // 1000)
    assert course.at(9 * SECOND + 7) == (7, 100 + SECOND // 1000)


def test_series_close_together_do_not_make_a_drift_of_their_noise() -> None:
    course = Course([Offset(0, 0, 5_000_000), Offset(1_000_000, 4_000_000, 1_000_000)])
    assert course.at(1_000_000) == (4_000_000, 1_000_000 + 4_000)


def test_no_series_is_no_course() -> None:
    with pytest.raises(ValueError, match="series"):
        Course([])


@given(st.lists(st.tuples(INSTANTS, OFFSETS), min_size=1, max_size=6), st.randoms())
@example([(0, 0), (1, -1)], Random(5))  # the same instant of the clock that is measured
def test_the_order_of_the_series_does_not_matter(found: list[tuple[int, int]], random: Any) -> None:
    every = [Offset(at, offset, 5) for at, offset in found]
    mixed = random.sample(every, len(every))
    for t in (every[0].at + every[0].offset + d for d in (-5, 0, 5 * SECOND)):
        assert Course(every).at(t) == Course(mixed).at(t)


# Lines on one clock

OURS, THEIRS = Clock("a", "time:[1]"), Clock("a", "time:[2]")
OTHER = Clock("b", "time:[1]")


def line(t: int, event: str, worker: int | None, **fields: Any) -> dict[str, Any]:
    return {"t": t, "event": event, "worker": worker, "attempt": 0, **fields}


def head(worker: int | None, clock: Clock, t: int = 0) -> dict[str, Any]:
    where = {"boot_id": clock.boot_id, "time_namespace": clock.time_namespace}
    return line(t, "journal", worker, clock_offset_ns=0, clock_bound_ns=0, **where)


def measured_line(clock: Clock, at: int, offset: int, bound: int) -> dict[str, Any]:
    where = {"boot_id": clock.boot_id, "time_namespace": clock.time_namespace}
    return line(at, "clock", 1, at=at, offset_ns=offset, bound_ns=bound, **where)


def test_lines_of_another_clock_are_moved_to_ours_with_their_bound() -> None:
    ours = [
        head(None, OURS),
        measured_line(THEIRS, 1000, 5000, 10),
        measured_line(THEIRS, 3000, 5000, 20),
    ]
    theirs = [
        head(1, THEIRS, t=6000),
        line(7000, "span", 1, name="x", t0=6500),
        line(8000, "up", 1),
    ]
    same = [head(0, OURS), line(2000, "up", 0)]
    moved = on_one_clock([ours, same, theirs])
    assert moved[0] == tuple(ours) and moved[1] == tuple(same)
    assert moved[1][1] is same[1]
    assert [found["t"] for found in moved[2]] == [1000, 2000, 3000]
    assert moved[2][1]["t0"] == 1500
    assert [found["clock_bound_ns"] for found in moved[2]] == [11, 16, 20]
    assert clock_problem(moved) is None
    assert on_one_clock(moved) == moved, "moved once, and never again"


def test_an_instant_of_the_supervisors_own_is_not_moved() -> None:
    ours = [head(None, OURS), measured_line(THEIRS, 1000, 5000, 10)]
    spawned = line(6200, "span", 1, name="start the interpreter", t0=900, t0_of="supervisor")
    ((_, moved),) = on_one_clock([ours, [head(1, THEIRS), spawned]])[1:]
    assert (moved["t0"], moved["t"]) == (900, 1200)


@pytest.mark.parametrize(
    ("clock", "words"),
    [(THEIRS, "the clock of another time namespace"), (OTHER, "the clock of another host")],
)
def test_a_clock_that_was_not_measured_is_a_problem(clock: Clock, words: str) -> None:
    files = [
        [head(None, OURS), measured_line(Clock("c", "time:[1]"), 1, 2, 3)],
        [head(2, clock), line(5, "up", 2)],
    ]
    assert on_one_clock(files) == [tuple(lines) for lines in files]
    problem = clock_problem(files)
    assert problem == f"worker 2, attempt 0 has {words}, and its offset was not measured"


def test_old_journals_do_not_know_of_namespaces() -> None:
    old = Clock("a", None)
    assert old.same(OURS) and OURS.same(old) and not OURS.same(THEIRS) and not OURS.same(OTHER)
    assert clock_problem([[head(None, OURS)], [head(1, old)]]) is None


def test_a_line_about_a_clock_that_lacks_something_is_none() -> None:
    bad = {**measured_line(THEIRS, 1, 2, 3), "bound_ns": None}
    files = [[head(None, OURS), bad], [head(1, THEIRS), line(5, "up", 1)]]
    assert on_one_clock(files) == [tuple(lines) for lines in files]
    assert clock_problem(files) is not None
    assert clock_problem([[], [head(1, THEIRS)]]) is None, "nobody to be joined with"


# Times between instants


def test_the_time_between_two_clocks_is_wrong_by_both_bounds_at_most() -> None:
    a, b = Reading("a", 100, 30), Reading("b", 0, 50)
    assert apart_ns(a, b, 10**9) == 80
    assert apart_ns(OWN, b, 10**9) == 50
    assert apart_ns(OWN, OWN, 10**9) == 0


def test_the_time_on_one_clock_is_wrong_by_its_drift_alone() -> None:
    a, b = Reading("a", 1000, 50_000_000), Reading("a", 1004, 50_000_000)
    assert apart_ns(a, b, 1_000_000) == 1_000 + 4
    assert apart_ns(a, Reading("a", 1000, 10), 10**12) == 50_000_010
    unknown = Reading(SEVERAL, 0, 40)
    assert apart_ns(unknown, unknown, 1) == 80


def test_a_line_is_surely_before_another_only_beyond_the_bound() -> None:
    def at(t: int, bound: int) -> dict[str, Any]:
        return line(t, "up", 1, clock="a", clock_offset_ns=0, clock_bound_ns=bound)

    ours = line(1000, "inject", None)
    assert surely_before(at(899, 100), ours) and not surely_before(at(900, 100), ours)
    assert surely_before(line(999, "act", None), ours) and not surely_before(ours, ours)
    assert reading_of(at(1, 7)) == Reading("a", 0, 7) and reading_of(ours) == OWN
    assert reading_of(head(1, THEIRS)) == OWN
