"""A trace as JSON events: the Trace Event Format, which Perfetto and chrome://tracing read. Pure.

The format: https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU
("X" a slice, "i" an instant, "C" a counter, "s", "t" and "f" a flow, "M" metadata). Its times are
microseconds; whole ones here, rounded down: a viewer multiplies and cuts what it reads, so that
fractions could make the end of a slice pass that of the one around it.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from recoverybench.trace.lanes import Timed, nested
from recoverybench.trace.model import FARTHEST_NS, Process, Slice, Trace, Track
from recoverybench.visible import clean

JOB_PID: Final = 1
"""Id of what is no process: the job as a whole is shown as one."""
NO_PID: Final = 2**22 + 1
"""The first id for processes whose own is not known; Linux has none so high."""

_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")
_LONGEST = 4096
"""Characters of one text."""

Event = dict[str, Any]


def render(trace: Trace) -> dict[str, Any]:
    """The trace as plain JSON data: ``traceEvents``, and ``otherData`` about it.

    Every time is in microseconds since the first thing that is shown, so none is negative;
    ``otherData`` says when that was, and when the injection was.
    """
    times = _Times(trace)
    placed: dict[int, Event] = {}
    ranked: list[tuple[int, Event]] = []
    for order, (pid, process) in enumerate(_pids(trace.processes)):
        ranked += _process(process, pid, order, times, placed)
    ranked.sort(key=_order)
    events = list(_with_flows((event for _, event in ranked), trace, placed))
    origin = {
        "origin": "ts 0 is the first thing shown; times are whole microseconds, rounded down",
        "origin_clock": "CLOCK_MONOTONIC of the host, ns",
        "origin_ns": times.origin,
        "injection_ts_us": None if trace.injected is None else times.us(trace.injected),
        "left_out": times.left_out,
    }
    facts = {name: _plain(value) for name, value in trace.facts.items()}
    return {"displayTimeUnit": "ms", "otherData": facts | origin, "traceEvents": events}


class _Times:
    """Instants in ns to whole microseconds since the first."""

    def __init__(self, trace: Trace) -> None:
        ends = sorted(
            t
            for process in trace.processes
            for t in (
                *(x.start for track in process.tracks.values() for x in track.slices),
                *(x.end for track in process.tracks.values() for x in track.slices),
                *(x.t for track in process.tracks.values() for x in track.instants),
                *(x.t for x in process.counts),
            )
        )
        median = ends[len(ends) // 2] if ends else 0
        self._around = median if trace.injected is None else trace.injected
        self.origin = min(filter(self.near, ends), default=self._around)
        self.left_out = 0

    def near(self, t: int) -> bool:
        return abs(t - self._around) <= FARTHEST_NS

    def shown(self, *instants: int) -> bool:
        """Whether these are times of this trial; what is not shown is counted."""
        near = all(map(self.near, instants))
        self.left_out += not near
        return near

    def us(self, t: int) -> int:
        return (t - self.origin) // 1000


def _pids(processes: tuple[Process, ...]) -> Iterator[tuple[int, Process]]:
    """An id for each, its own where nobody else has it."""
    taken = {JOB_PID}
    for number, process in enumerate(processes):
        pid = process.pid if number else JOB_PID
        if number and (pid is None or not 0 < pid < NO_PID or pid in taken):
            pid = NO_PID + number
        assert pid is not None
        taken.add(pid)
        yield pid, process


def _process(
    process: Process, pid: int, order: int, times: _Times, placed: dict[int, Event]
) -> Iterator[tuple[int, Event]]:
    """The events of a process, each with the rank of its track."""
    yield 0, _metadata("process_name", pid, 0, {"name": process.name})
    yield 0, _metadata("process_sort_index", pid, 0, {"sort_index": order})
    if process.labels:
        yield 0, _metadata("process_labels", pid, 0, {"labels": ", ".join(process.labels)})
    tid = JOB_PID  # a thread with its process's id is called the main thread
    for track in process.tracks.values():
        for line in _lines(track, times):
            tid += 1
            yield 0, _metadata("thread_name", pid, tid, {"name": track.name})
            yield 0, _metadata("thread_sort_index", pid, tid, {"sort_index": tid})
            for event, source in line:
                event |= {"pid": pid, "tid": tid}
                if source is not None:
                    placed[id(source)] = event
                yield track.rank, event
    for count in process.counts:
        if times.shown(count.t) and math.isfinite(count.value):
            value = {"ts": times.us(count.t), "args": {count.unit: count.value}}
            yield 0, {"ph": "C", "name": _text(count.name), "pid": pid, **value}


def _lines(track: Track, times: _Times) -> Iterator[list[tuple[Event, Slice | None]]]:
    """The events of a track, a list for each thread that it needs."""
    timed, instants = [], []
    for one in track.slices:
        if not times.shown(one.start, one.end):
            continue
        if one.end < one.start:
            said = {**one.args, "end_before_start_s": (one.end - one.start) / 1e9}
            instants.append(_instant(one.name, times.us(one.start), one.category, said))
        else:
            start = times.us(one.start)
            # One of no length is no slice to a viewer, and no arrow could hold on to it.
            timed.append(Timed(start, max(start + 1, times.us(one.end)), one))
    for happened in track.instants:
        if times.shown(happened.t):
            at = times.us(happened.t)
            instants.append(_instant(happened.name, at, happened.category, happened.args))
    lines: list[list[tuple[Event, Slice | None]]] = [
        [(_slice(one), one.what) for one in line] for line in nested(timed)
    ]
    if instants:
        lines = lines or [[]]
        lines[0] = [*lines[0], *((event, None) for event in instants)]
    yield from lines


def _slice(one: Timed[Slice]) -> Event:
    return {
        "ph": "X",
        "name": _text(one.what.name),
        "cat": one.what.category,
        "ts": one.start,
        "dur": one.end - one.start,
        "args": _args(one.what.args),
    }


def _instant(name: str, ts: int, category: str, args: Mapping[str, Any]) -> Event:
    plain = _args(args)
    return {"ph": "i", "s": "t", "name": _text(name), "cat": category, "ts": ts, "args": plain}


def _metadata(name: str, pid: int, tid: int, args: dict[str, Any]) -> Event:
    return {"ph": "M", "name": name, "pid": pid, "tid": tid, "args": _args(args)}


def _with_flows(events: Iterable[Event], trace: Trace, placed: dict[int, Event]) -> Iterator[Event]:
    """The events, each with the flows that pass its beginning right behind it.

    There a viewer binds a flow to that slice, even where another one begins at the same moment.
    """
    passing: dict[int, list[Event]] = {}
    for number, flow in enumerate(trace.flows, start=1):
        there = [placed[id(one)] for one in flow.slices if id(one) in placed]
        for place, event in enumerate(there if len(there) > 1 else ()):
            last = place == len(there) - 1
            step: Event = {
                "ph": "s" if place == 0 else "f" if last else "t",
                "name": _text(flow.name),
            }
            step |= {"cat": "flow", "id": number}
            step |= {name: event[name] for name in ("pid", "tid", "ts")}
            passing.setdefault(id(event), []).append(step | ({"bp": "e"} if last else {}))
    for event in events:
        yield event
        yield from passing.get(id(event), ())


def _order(ranked: tuple[int, Event]) -> tuple[int, int]:
    """Metadata first, then by time; what has the same time by rank, and else stays as it is."""
    rank, event = ranked
    return (-1, 0) if event["ph"] == "M" else (event["ts"], rank)


def _args(args: Mapping[str, Any]) -> dict[str, Any]:
    return {name: _plain(value) for name, value in args.items() if _KEY.fullmatch(name)}


def _plain(value: Any) -> Any:
    """A value that every reader of JSON takes: a text, a number, a flag or null."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int):
        return value if abs(value) < 2**53 else str(value)[:_LONGEST]
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, str):
        return _text(value)
    try:
        return _text(json.dumps(value, default=str, ensure_ascii=False))
    except (ValueError, RecursionError):
        return "…"


def _text(text: str) -> str:
    """A text without halves of characters, which are valid in JSON and in no reader of it.

    Perfetto (52) takes the quotation mark after a backslash for part of the text, also where the
    backslash is one of the text's own, and the file for cut off: no text may end in one.
    """
    shown = clean(text[:_LONGEST]) + "…" * (len(text) > _LONGEST)
    return f"{shown} " if shown.endswith("\\") else shown
