"""What a trace is split into."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recoverybench.profiles.events import Event, innermost, parts_of, split
from recoverybench.profiles.model import KINDS
from recoverybench.protocol import PROFILE_PREFIX

# --- what a trace is split into ---------------------------------------------------------

MAIN, POOL = 1, 2
MS = 1000.0


def event(name: str, start: float, length: float, tid: int = MAIN, **args: Any) -> dict[str, Any]:
    """An event of the trace viewer; times in ms."""
    return {
        "ph": "X",
        "pid": 7,
        "tid": tid,
        "name": name,
        "ts": start * MS,
        "dur": length * MS,
        "args": args,
    }


def ours(name: str, start: float, length: float) -> dict[str, Any]:
    return event(PROFILE_PREFIX + name, start, length)


def trace(*events: dict[str, Any]) -> dict[str, Any]:
    return {"traceEvents": list(events)}


def in_ms(seconds: dict[str, float]) -> dict[str, float]:
    return {name: round(s * 1000, 6) for name, s in seconds.items() if s}


def test_a_first_step_is_split_by_what_goes_on_in_each_instant() -> None:
    [part] = parts_of(
        trace(
            ours("first_step", 100, 50),
            event("$steps.py:133 _advance", 100, 50),
            ours("input", 101, 4),
            event("np.asarray(jax.Array)", 108, 42),
            event("fusion.1", 110, 10, POOL, hlo_op="fusion.1"),
            event("all-reduce", 118, 20, POOL, hlo_op="all-reduce"),
            event("end: all-reduce", 118, 20, POOL, hlo_op="all-reduce"),
            event("$compiler.py:1 backend_compile", 140, 3),
        )
    )
    assert part.name == "first_step" and part.seconds == pytest.approx(0.050)
    # 110 to 120 an operation runs, and to 138 workers exchange; to 110 and from there on, but for
    # what is compiled, the thread waits for the loss.
    assert in_ms(part.split) == {
        "compile": 3,
        "device": 10,
        "collective": 18,
        "input": 4,
        "host": 4,
        "idle": 11,
    }
    by_name = {one.name: one for one in part.operations}
    assert by_name["fusion.1"].kind == "device" and by_name["fusion.1"].count == 1
    assert by_name["all-reduce"].seconds == pytest.approx(0.020)
    assert by_name["np.asarray(jax.Array)"].kind == "idle"
    assert "end: all-reduce" not in by_name
    assert not any(name.startswith(PROFILE_PREFIX) for name in by_name)
    assert in_ms(part.spans) == {"first_step": 46, "input": 4}


def test_a_restore_says_which_of_its_own_spans_took_the_time() -> None:
    [part] = parts_of(
        trace(
            ours("restore", 0, 40),
            ours("read the checkpoint", 5, 30),
            ours("agree on the checkpoint", 25, 5),
            event("$<unknown> acquire", 6, 19),
        )
    )
    assert in_ms(part.spans) == {
        "read the checkpoint": 25,
        "restore": 10,
        "agree on the checkpoint": 5,
    }
    assert in_ms(part.split) == {"host": 21, "idle": 19}


def test_operations_of_a_device_are_known_by_their_process() -> None:
    name = {"ph": "M", "pid": 9, "name": "process_name", "args": {"name": "/device:TPU:0"}}
    on_device = {**event("%fusion.7", 2, 6, 3), "pid": 9}
    [part] = parts_of(trace(name, ours("first_step", 0, 10), on_device))
    assert in_ms(part.split) == {"device": 6, "host": 4}


def test_a_mark_that_outlives_the_call_which_set_it_has_the_time() -> None:
    """The profiler's own marks begin inside ``__enter__`` and do not nest with it."""
    events = [
        Event(0, 10, "$contextlib.py __enter__", (7, MAIN), False),
        Event(5, 100, "mark", (7, MAIN), False),
        Event(20, 30, "inner", (7, MAIN), False),
    ]
    found = [(a, b, e.name) for a, b, e in innermost(events, (0.0, 120.0))]
    assert found == [
        (0, 5, "$contextlib.py __enter__"),
        (5, 20, "mark"),
        (20, 30, "inner"),
        (30, 100, "mark"),
    ]


@pytest.mark.parametrize(
    "data",
    [
        {},
        trace({"ph": "X"}, {"ph": "X", "name": 3, "ts": 0, "dur": 1}, {"ph": "M", "args": None}),
        {"traceEvents": ["x", 3, None]},
        trace(event("restore", 0, 5)),
        trace(ours("verify", 0, 5)),
    ],
)
def test_a_trace_without_our_marks_has_no_parts(data: dict[str, Any]) -> None:
    assert parts_of(data) == ()


intervals = st.lists(st.tuples(st.floats(-5, 15), st.floats(0, 8)).map(lambda p: (p[0], sum(p))))


@given(st.dictionaries(st.sampled_from(KINDS[:-1]), intervals), st.floats(0.001, 12))
def test_kinds_share_the_time_and_leave_none(
    found: dict[str, list[tuple[float, float]]], length: float
) -> None:
    seconds = split((0.0, length), found)
    assert tuple(seconds) == KINDS
    assert all(s >= 0 for s in seconds.values())
    assert sum(seconds.values()) == pytest.approx(length / 1e6, abs=1e-8)
    # The first kind has all that it covers, whatever else there is.
    alone = split((0.0, length), {KINDS[0]: found.get(KINDS[0], [])})
    assert seconds[KINDS[0]] == pytest.approx(alone[KINDS[0]], abs=1e-8)


@given(st.lists(st.tuples(st.integers(0, 40), st.integers(0, 20)), max_size=12))
def test_an_instant_is_of_one_event(found: list[tuple[int, int]]) -> None:
    events = [
        Event(start, start + length, str(i), (1, 1), False)
        for i, (start, length) in enumerate(found)
    ]
    owned = innermost(events, (5.0, 35.0))
    assert all(5 <= a < b <= 35 for a, b, _ in owned)
    assert all(before[1] <= after[0] for before, after in itertools.pairwise(owned))
    assert all(event.start <= a and b <= event.end for a, b, event in owned)
    for a, b, owner in owned:
        going_on = [e for e in events if e.start <= a and e.end >= b]
        assert owner.start == max(e.start for e in going_on)
    covered = {t for e in events for t in range(int(e.start), int(e.end)) if 5 <= t < 35}
    assert sum(b - a for a, b, _ in owned) == pytest.approx(len(covered))
