"""What the time of a phase went into, from the events of one trace. Pure.

The events are those of xprof's trace viewer, in Chrome's format: ``ph`` = ``X`` with ``ts`` and
``dur`` in microseconds, ``name``, ``pid``, ``tid`` and ``args``. A worker has marked its phases,
and what it does in them, with names of its own (`protocol.PROFILE_PREFIX`), on the training thread.

Events of one thread mostly nest, but not always: a mark begins inside the call that sets it and
outlives that call. So an instant belongs to the event that began last of those that still go on.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from recoverybench.profiles.model import KINDS, PARTS, Operation, Part
from recoverybench.protocol import PROFILE_PREFIX

MOST_OPERATIONS: Final = 12
"""Operations of a part that are kept."""

MOST_SPANS: Final = 12
"""Spans of a part that are kept."""

MOST_NAME: Final = 160
"""Characters of a name that are kept; names of operations can be whole lines of a program."""

_COLLECTIVE = re.compile(
    r"all-?reduce|all-?gather|reduce-?scatter|all-?to-?all|collective|permute|broadcast-start"
    r"|\bnccl|\bsend\b|\brecv\b",
    re.IGNORECASE,
)
_COMPILE = re.compile(
    r"backend_compile|compile_or_get_cached|XlaCompile|CpuCompiler|GpuCompiler|TpuCompile"
    r"|CompileAndLoad|trace_to_jaxpr|lower_jaxpr|cached_lowering|deserialize_and_load"
    r"|DeserializeExecutable|persistent_load|LoadSerializedExecutable",
)
_WAITING = re.compile(
    r"\s(wait|acquire|poll|select|sleep|recv|recv_into|accept|join|get|result|_value"
    r"|block_until_ready|blocking_key_value_get\w*|wait_at_barrier)$"
    r"|^np\.asarray\(jax\.Array\)$|wait for completion|\bAwait$|^BlockHostUntilReady",
)
"""Of a name that is innermost on a thread: that thread waits for something."""

_END = re.compile(r"^end: ")

Interval = tuple[float, float]
"""From, to; in microseconds of the trace."""


@dataclass(frozen=True, slots=True)
class Event:
    """One event of the trace; times in microseconds."""

    start: float
    end: float
    name: str
    thread: tuple[Any, Any]
    device: bool


def parts_of(trace: Mapping[str, Any]) -> tuple[Part, ...]:
    """The phases of a trace, in their order; those that it does not show are left out.

    Args:
        trace: what xprof's ``trace_viewer`` makes of a trace, parsed.
    """
    events = list(_events(trace))
    marked: dict[str, Event] = {}
    for event in events:
        name = event.name.removeprefix(PROFILE_PREFIX)
        if name in PARTS and event.name != name:
            marked.setdefault(name, event)  # the first one: nothing else is called so
    return tuple(_part(name, marked[name], events) for name in PARTS if name in marked)


def _events(trace: Mapping[str, Any]) -> Iterable[Event]:
    listed = [e for e in trace.get("traceEvents", ()) if isinstance(e, dict)]
    devices = {
        e.get("pid")
        for e in listed
        if e.get("ph") == "M"
        and e.get("name") == "process_name"
        and "/device:" in str((e.get("args") or {}).get("name", ""))
    }
    for e in listed:
        start, length, name = e.get("ts"), e.get("dur"), e.get("name")
        if e.get("ph") != "X" or not isinstance(name, str):
            continue
        if not isinstance(start, int | float) or not isinstance(length, int | float):
            continue
        args = e.get("args")
        on_device = e.get("pid") in devices or (isinstance(args, dict) and "hlo_op" in args)
        thread = (e.get("pid"), e.get("tid"))
        yield Event(float(start), float(start) + max(0.0, float(length)), name, thread, on_device)


def _part(name: str, mark: Event, events: Sequence[Event]) -> Part:
    inside: dict[tuple[Any, Any], list[Event]] = defaultdict(list)
    for event in events:
        if event.end > mark.start and event.start < mark.end and not _END.match(event.name):
            inside[event.thread].append(event)
    window = (mark.start, mark.end)
    own = innermost(inside[mark.thread], window)
    found: dict[str, list[Interval]] = defaultdict(list)
    for thread in inside.values():
        for event in thread:
            if (kind := _kind(event)) is not None:
                found[kind].append((event.start, event.end))
    for start, end, event in own:
        if _WAITING.search(event.name) is None:
            found["host"].append((start, end))
    return Part(
        name=name,
        seconds=_seconds(mark.end - mark.start),
        split=split(window, found),
        spans=_spans(inside[mark.thread], window),
        operations=_operations(inside, mark, own),
    )


def _kind(event: Event) -> str | None:
    """What an event makes of the instants that it covers, whatever else goes on in them."""
    if event.name == PROFILE_PREFIX + "input":
        return "input"
    if event.device:
        return "collective" if _COLLECTIVE.search(event.name) else "device"
    return "compile" if _COMPILE.search(event.name) else None


def split(window: Interval, found: Mapping[str, Sequence[Interval]]) -> dict[str, float]:
    """Kind -> seconds of the window: each instant is of the first of `KINDS` that covers it, and of
    the last one where none does. Together they are the window.
    """
    left, seconds = [window], {}
    for kind in KINDS[:-1]:
        taken = 0.0
        rest: list[Interval] = []
        covers = _union(found.get(kind, ()))
        at = 0
        for start, end in left:
            while at < len(covers) and covers[at][1] <= start:
                at += 1
            here = at
            while here < len(covers) and covers[here][0] < end:
                a, b = max(start, covers[here][0]), min(end, covers[here][1])
                if a > start:
                    rest.append((start, a))
                taken += b - a
                start = b
                here += 1
            if start < end:
                rest.append((start, end))
        left = rest
        seconds[kind] = _seconds(taken)
    seconds[KINDS[-1]] = _seconds(sum(end - start for start, end in left))
    return seconds


def _union(intervals: Sequence[Interval]) -> list[Interval]:
    """The same instants as intervals that are apart, by their start."""
    joined: list[Interval] = []
    for start, end in sorted(i for i in intervals if i[1] > i[0]):
        if joined and start <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(joined[-1][1], end))
        else:
            joined.append((start, end))
    return joined


def innermost(events: Iterable[Event], window: Interval) -> list[tuple[float, float, Event]]:
    """Who each instant of the window belongs to, of the events of one thread: the one that began
    last of those that go on, and of several that begin together the shortest.

    Returns:
        (from, to, event), by time; instants that no event covers are left out.
    """
    found: list[tuple[float, float, Event]] = []
    open_: list[Event] = []
    at = window[0]

    def advance(to: float) -> None:
        nonlocal at
        while open_ and at < to:
            end = min(open_[-1].end, to)
            if end > at:
                found.append((at, end, open_[-1]))
                at = end
            if open_[-1].end <= at:
                open_.pop()
        at = max(at, to)

    for event in sorted(events, key=lambda e: (e.start, -e.end)):
        advance(min(max(event.start, window[0]), window[1]))
        open_.append(event)
    advance(window[1])
    return found


def _spans(events: Iterable[Event], window: Interval) -> dict[str, float]:
    """What the worker says of itself -> seconds, the longest first."""
    marks = [e for e in events if e.name.startswith(PROFILE_PREFIX)]
    total: Counter[str] = Counter()
    for start, end, event in innermost(marks, window):
        total[event.name.removeprefix(PROFILE_PREFIX)] += end - start  # type: ignore[assignment]
    return {name[:MOST_NAME]: _seconds(us) for name, us in total.most_common(MOST_SPANS)}


def _operations(
    inside: Mapping[tuple[Any, Any], Sequence[Event]],
    mark: Event,
    own: Sequence[tuple[float, float, Event]],
) -> tuple[Operation, ...]:
    """What took longest: on the training thread, and of the device on every thread."""
    total: dict[tuple[str, str], float] = defaultdict(float)
    count: Counter[tuple[str, str]] = Counter()
    for thread, events in inside.items():
        if thread == mark.thread:
            owned = own
        else:
            owned = innermost([e for e in events if e.device], (mark.start, mark.end))
        for start, end, event in owned:
            if not event.name.startswith(PROFILE_PREFIX):
                total[event.name, _said(event)] += end - start
        for event in events:
            count[event.name, _said(event)] += 1
    longest = sorted(total.items(), key=lambda item: (-item[1], item[0]))[:MOST_OPERATIONS]
    return tuple(
        Operation(name[:MOST_NAME], kind, count[name, kind], _seconds(us))
        for (name, kind), us in longest
    )


def _said(event: Event) -> str:
    kind = _kind(event)
    if kind is not None:
        return kind
    return "idle" if _WAITING.search(event.name) else "host"


def _seconds(us: float) -> float:
    return round(us / 1e6, 9)
