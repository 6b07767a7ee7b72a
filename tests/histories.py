"""Journals of trials that never ran: every instant is chosen, nothing is timed.

`faultless` makes a reference, `recovery` a trial that loses worker 1 and comes back. Both
return one list of lines a file, to be changed at will before `journals` wraps them.
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Iterable
from typing import Any

from recoverybench.analysis.journal import Journal
from recoverybench.analysis.verify import Reference, reference_of

MS = 1_000_000
START = 7_000_000 * MS
INJECT = START + 2_000 * MS
WORKERS = 3
STEPS = 30
INTERVAL = 10
BEFORE = 25
RESTORED = 20

Lines = list[dict[str, Any]]
Files = dict[tuple[int | None, int], Lines]


def at(ms: float) -> int:
    """An instant, in ms from the injection."""
    return INJECT + round(ms * MS)


def journals(files: Files) -> tuple[Journal, ...]:
    return tuple(Journal(slot, n, tuple(lines), 0) for (slot, n), lines in files.items())


def faultless(workers: int = WORKERS, steps: int = STEPS) -> Files:
    files: Files = {}
    for w in range(workers):
        out = files[w, 0] = Lines()
        _open(out, w, 0, pid=100 + w)
        _train(out, w, 0, 0, range(1, steps + 1), START, workers, final=steps)
    return files


@functools.cache
def reference() -> Reference:
    return reference_of(journals(faultless()), "tiny-3x1-0")


def recovery(strategy: str = "elastic") -> Files:
    """Worker 1 is killed after step 25 and comes back from step 20, as the strategy does it.

    Phases in ms: detect 10 (a survivor's exception), react 5, teardown 35, replace 50,
    rendezvous 10, restore 20, compile 30, first_step 10, catch_up: steps 22 to 26, 10 each.
    """
    files: Files = {(None, 0): _supervisor(strategy)}
    for w in range(WORKERS):
        out = files[w, 0] = Lines()
        _open(out, w, 0, pid=100 + w)
        _train(out, w, 0, 0, range(1, BEFORE + 1), START, WORKERS)
        if w != 1:
            error = {"mechanism": "collective_error", "type": "ValueError", "message": "Gloo: no"}
            _log(out, at(10 + w), "error", w, 0, 0, **error)
            _log(out, at(10 + w), "span", w, 0, 0, name="step", t0=at(-1))
        if strategy != "restart" and w != 1:
            _log(out, at(50 - w), "span", w, 0, 0, name="close runtime", t0=at(12))
            _log(out, at(50 - w), "closed", w, 0, 1)
            _come_back(out, w, 0)
            continue
        slot = (WORKERS, 0) if strategy == "hot-spare" else (w, 1)
        new = files[slot] = Lines()
        _open(new, *slot, pid=200 + w)
        if strategy == "hot-spare":
            _log(new, at(-900), "up", *slot, 0)
            _log(new, at(51), "assigned", w, 1, 1, slot=WORKERS, rank=w)
        _come_back(new, w, 1)
    return files


def change(files: Files, edit: Callable[[dict[str, Any]], dict[str, Any] | None]) -> Files:
    """A copy with every line replaced by `edit(line)`; None drops it."""
    files = copy.deepcopy(files)
    return {key: [new for line in lines if (new := edit(line))] for key, lines in files.items()}


def without(files: Files, **fields: Any) -> Files:
    """A copy without the lines that hold all of `fields`."""
    return change(files, lambda line: None if matches(line, fields) else line)


def patched(files: Files, where: dict[str, Any], **fields: Any) -> Files:
    """A copy in which the lines that hold all of `where` hold `fields` as well."""
    return change(files, lambda line: line | fields if matches(line, where) else line)


def with_line(files: Files, slot: int | None, n: int, ms: float, event: str, **kw: Any) -> Files:
    """A copy with one line more, at the end of file `slot.n`."""
    files = copy.deepcopy(files)
    line = {"t": at(ms), "event": event, "worker": slot, "attempt": n}
    files[slot, n].append(line | kw)
    return files


def matches(line: dict[str, Any], fields: dict[str, Any]) -> bool:
    return all(k in line and line[k] == v for k, v in fields.items())


def until(files: Files, ms: float) -> Files:
    """A copy without the lines after that instant."""
    return change(files, lambda line: line if line["t"] <= at(ms) else None)


def _log(
    out: Lines, t: int, event: str, worker: int | None, attempt: int, g: int | None, **kw: Any
) -> None:
    line: dict[str, Any] = {"t": t, "event": event, "worker": worker, "attempt": attempt}
    if g is not None:
        line["generation"] = g
    out.append(line | kw)


def _open(out: Lines, worker: int | None, attempt: int, pid: int) -> None:
    head = {"schema": 1, "boot_id": "b", "clock_offset_ns": 0, "clock_bound_ns": 0, "pid": pid}
    _log(out, START - 10 * MS, "journal", worker, attempt, None if worker is None else 0, **head)


def _train(
    out: Lines,
    w: int,
    attempt: int,
    g: int,
    steps: Iterable[int],
    start: int,
    workers: int,
    *,
    final: int | None = None,
) -> None:
    """Steps of 10 ms, one after another from `start`; the first is the generation's first."""
    if g == 0:
        for i, name in enumerate(("up", "rendezvous", "restored", "compiled")):
            _log(out, start - (4 - i) * MS, name, w, attempt, g)
    t, first = start, True
    for step in steps:
        t0, t = t, t + 10 * MS
        if first:
            _log(out, t, "first_step", w, attempt, g)
            first = False
        ids = [1000 * step + 2 * w, 1000 * step + 2 * w + 1]
        bits = f"{0x40000000 + step:08x}"
        body = {"step": step, "loss": 2.0, "loss_bits": bits, "samples": ids, "t0": t0}
        _log(out, t, "step", w, attempt, g, **body)
        if step % INTERVAL == 0 and step != final:
            body = {"what": "saved", "step": step, "digest": f"state{step}", "leaves": 4}
            _log(out, t, "digest", w, attempt, g, **body)
            _log(out, t, "save", w, attempt, g, step=step)
            if w == 0:
                _log(out, t + 3 * MS, "committed", w, attempt, g, step=step)
    if final is not None:
        body = {"what": "final", "step": final, "digest": f"state{final}", "leaves": 4}
        _log(out, t + 2 * MS, "digest", w, attempt, g, **body)
        _log(out, t + 3 * MS, "done", w, attempt, g, step=final)


def _come_back(out: Lines, w: int, attempt: int) -> None:
    """From `up` to the end of the job, in generation 1, worker 2 being the last everywhere."""
    ahead = 2 - w
    marks = {"up": 100, "rendezvous": 110, "restored": 130, "compiled": 160}
    start = 50
    for name, ms in marks.items():
        _log(out, at(ms - ahead), "span", w, attempt, 1, name=f"do {name}", t0=at(start))
        _log(out, at(ms - ahead), name, w, attempt, 1)
        if name == "restored":
            _log(out, at(ms - ahead), "restore", w, attempt, 1, step=RESTORED, bytes=64, tried=[])
        start = ms
    _log(out, at(160 - ahead), "compile_cache", w, attempt, 1, function="step", status="hit")
    steps = range(RESTORED + 1, STEPS + 1)
    _train(out, w, attempt, 1, steps, at(160 - ahead), WORKERS, final=STEPS)
    body = {"what": "restored", "step": RESTORED, "digest": f"state{RESTORED}", "leaves": 4}
    _log(out, at(300), "digest", w, attempt, 1, **body)


def _supervisor(strategy: str) -> Lines:
    out = Lines()
    _open(out, None, 0, pid=99)
    for w in range(WORKERS):
        _log(out, START - 20 * MS, "spawn", w, 0, None, pid=100 + w, how="cold")
    if strategy == "hot-spare":
        _log(out, START - 20 * MS, "spawn", WORKERS, 0, None, pid=201, how="cold")
    _log(out, at(0), "inject", 1, 0, None, fault="kill")
    killed = {"pid": 101, "code": None, "signal": "SIGKILL", "ours": True, "reason": "inject"}
    _log(out, at(11), "exit", 1, 0, None, **killed)
    body: dict[str, Any] = {"mechanism": "process_exit", "detail": "worker 1: SIGKILL"}
    _log(out, at(11), "evidence", None, 0, None, **body)
    _log(out, at(15), "act", None, 0, None, strategy=strategy, generation=1)
    new = (0, 1, 2) if strategy == "restart" else (1,)
    if strategy == "restart":
        for w in (0, 2):
            body = {"pid": 100 + w, "code": None, "signal": "SIGKILL", "ours": True}
            _log(out, at(50 - w), "exit", w, 0, None, **body, reason="teardown")
        _log(out, at(50), "span", None, 0, None, name="end the workers", t0=at(15))
    if strategy != "hot-spare":
        for w in new:
            _log(out, at(52), "spawn", w, 1, None, pid=200 + w, how="cold")
    for w in range(WORKERS):
        attempt, pid = (1, 200 + w) if w in new else (0, 100 + w)
        body = {"pid": pid, "code": 0, "signal": None, "ours": False, "reason": "end"}
        _log(out, at(310), "exit", w, attempt, None, **body)
    _log(out, at(320), "end", None, 0, None)
    return out
