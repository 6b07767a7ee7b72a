"""The processes of a trial: what each worker's attempt and the supervisor did. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from recoverybench.analysis.history import Line, name_of
from recoverybench.labels import exit_reason, one_controller
from recoverybench.records import Span, TrialRecord
from recoverybench.trace.journals import Attempt, Journals
from recoverybench.trace.model import Count, Instant, Owner, Process, Slice
from recoverybench.vocabulary import WORKER_MILESTONES

WORK, MARKS, EVENTS, LIFE = "work", "marks", "events", "process"
"""Names of tracks: spans and steps; what a command says; single events; start to exit."""

_NOT_ARGS = {
    "t",
    "t0",
    "event",
    "worker",
    "attempt",
    "name",
    "samples",
    "tried",
    "holds",
    "squares",
}
_NOT_EVENTS = {"span", "step", "journal", "spawn", "exit", "mark"}


@dataclass(frozen=True, slots=True)
class Life:
    """From where to where a process was there, ns; None: nobody says."""

    begun: int | None
    ended: int | None
    exit: Line | None


def processes_of(record: TrialRecord, journals: Journals) -> dict[Owner, Process]:
    """Every process of the job that something is known of, and the supervisor.

    What a journal says comes before what the record says of the same process: it has every step,
    where the record has those around the recovery.
    """
    attempts = {attempt.owner: attempt for attempt in journals.attempts}
    spans = _spans_of(record)
    lives = _lives(journals)
    found: dict[Owner, Process] = {}
    for owner in sorted(_owners(record, journals, spans, lives), key=_place):
        process = found[owner] = _named(owner, record, attempts.get(owner), journals)
        if owner in attempts:
            _work(process, attempts[owner].lines, _first_done(journals))
        elif owner[0] is None and journals.supervisor:
            _work(process, journals.supervisor, {})
        else:
            _from_record(process, spans.get(owner, ()), record.t_inject or 0)
        if owner[0] is not None:
            file = attempts[owner].file if owner in attempts else owner
            _life(process, lives.get(owner) or lives.get(file), lives.get(file), journals)
    _marks(found, journals)
    return found


def worker_name(owner: Owner, record: TrialRecord) -> str:
    """What a worker's process is called."""
    worker, attempt = owner
    if worker is None:
        return "supervisor"
    if one_controller(record.cell) and worker == 0:
        return "controller" + (f", attempt {attempt}" if attempt else "")
    if worker >= _workers(record):
        return f"standby {worker}" + (f", attempt {attempt}" if attempt else "")
    return f"worker {worker}, attempt {attempt}"


def _workers(record: TrialRecord) -> int:
    if record.workers is not None:
        return record.workers
    count = record.cell.topology.partition("x")[0]
    return int(count) if count.isascii() and count.isdigit() and len(count) < 9 else 1


def _place(owner: Owner) -> tuple[int, int]:
    worker, attempt = owner
    return (-1 if worker is None else worker, attempt)


def _spans_of(record: TrialRecord) -> dict[Owner, list[Span]]:
    spans: dict[Owner, list[Span]] = {}
    for span in record.spans if record.t_inject is not None else ():
        spans.setdefault((span.worker, span.attempt), []).append(span)
    return spans


def _owners(
    record: TrialRecord,
    journals: Journals,
    spans: Mapping[Owner, list[Span]],
    lives: Mapping[Owner, Life],
) -> set[Owner]:
    became = {a.file for a in journals.attempts if a.file != a.owner}
    owners = {a.owner for a in journals.attempts} | set(spans)
    window = journals.window
    for owner, life in lives.items():
        begun_after = window.end is not None and (life.begun or 0) >= window.end
        ended_before = window.begin is not None and (life.ended or window.begin) < window.begin
        if not (begun_after or ended_before or owner in became):
            owners.add(owner)
    if not journals.known:
        owners |= {(item.worker, item.attempt) for item in record.exits}
    if journals.supervisor:
        owners.add((None, 0))
    return owners


def _lives(journals: Journals) -> dict[Owner, Life]:
    begun = {(line["worker"], line["attempt"]): line for line in journals.spawned}
    ended = {(line["worker"], line["attempt"]): line for line in journals.ended}
    return {
        owner: Life(
            begun[owner]["t"] if owner in begun else None,
            ended[owner]["t"] if owner in ended else None,
            ended.get(owner),
        )
        for owner in begun.keys() | ended.keys()
    }


def _named(
    owner: Owner, record: TrialRecord, attempt: Attempt | None, journals: Journals
) -> Process:
    worker, number = owner
    process = Process(worker_name(owner, record))
    if worker is None:
        process.pid = journals.pid
        return process
    if attempt is not None and attempt.file != owner:
        process.labels.append(f"had stood by in slot {attempt.file[0]}")
    exits = [item for item in record.exits if (item.worker, item.attempt) == owner]
    process.labels += [_exit_words(item.code, item.signal, item.reason) for item in exits[:1]]
    pids = record.pids.get(str(worker), [])
    known = [attempt.pid] if attempt is not None and attempt.pid is not None else []
    known += [item.pid for item in exits] + pids[number : number + 1]
    process.pid = known[0] if known else None
    return process


def _exit_words(code: Any, signal: Any, reason: Any) -> str:
    how = f"exit code {code}" if code is not None else "nobody says how it ended"
    return f"{signal or how}, {exit_reason(str(reason))}"


def _first_done(journals: Journals) -> dict[int, int]:
    """Step -> the first generation that completed it."""
    first: dict[int, int] = {}
    for attempt in journals.attempts:
        for line in attempt.lines:
            if line["event"] == "step":
                step, generation = line["step"], line["generation"]
                first[step] = min(first.get(step, generation), generation)
    return first


def _work(process: Process, lines: Iterable[Line], first: Mapping[int, int]) -> None:
    """What a journal says that a process did."""
    work, events = process.track(WORK), process.track(EVENTS)
    for line in lines:
        if line["event"] == "step":
            work.slices.append(_step(line, first))
            process.counts.append(Count("last completed", "step", line["t"], line["step"]))
        elif line["event"] == "span":
            work.slices.append(Slice(name_of(line), line["t0"], line["t"], "span", _args(line)))
        elif line["event"] not in _NOT_EVENTS:
            category = "milestone" if line["event"] in WORKER_MILESTONES else "event"
            events.instants.append(Instant(_title(line), line["t"], category, _args(line)))


def _step(line: Line, first: Mapping[int, int]) -> Slice:
    again = first.get(line["step"], line["generation"]) < line["generation"]
    name = f"step {line['step']}" + (", again" if again else "")
    args = {**_args(line), "done_before": again, "samples": len(line["samples"])}
    return Slice(name, line["t0"], line["t"], "step", args)


_DETAILS: dict[str, Callable[[Line], Any]] = {
    "error": lambda line: line.get("type"),
    "digest": lambda line: line["what"],
    "compile_cache": lambda line: f"{line['function']} {line['status']}",
    "committed": lambda line: f"step {line['step']}",
    "save": lambda line: f"step {line.get('step')}",
    "evidence": lambda line: line["mechanism"],
    "inject": lambda line: line.get("fault"),
    "transition": lambda line: line["kind"],
}


def _title(line: Line) -> str:
    of = _DETAILS.get(line["event"])
    detail = None if of is None else of(line)
    return str(line["event"]).replace("_", " ") + (f": {detail}" if detail else "")


def _args(line: Line) -> dict[str, Any]:
    return {name: value for name, value in line.items() if name not in _NOT_ARGS}


def _from_record(process: Process, spans: Iterable[Span], t_inject: int) -> None:
    for span in spans:
        try:
            start, end = (t_inject + round(t * 1e9) for t in (span.start_s, span.end_s))
        except (OverflowError, ValueError):  # no number at all
            continue
        category = "step" if span.name == "step" else "span"
        track = LIFE if span.name == LIFE else WORK
        process.track(track).slices.append(Slice(span.name, start, end, category))


def _life(process: Process, life: Life | None, start: Life | None, journals: Journals) -> None:
    """From the start of a process to its exit, and the exit, where the supervisor saw them."""
    if life is None:
        return
    begun = life.begun if life.begun is not None else start.begun if start else None
    track, window = process.track(LIFE), journals.window
    if life.exit is not None and life.exit["t"] in window:
        said = _exit_words(*(life.exit.get(name) for name in ("code", "signal", "reason")))
        track.instants.append(Instant(f"exit: {said}", life.exit["t"], "exit", _args(life.exit)))
    if track.slices or begun is None:
        return
    shown = max(begun, window.begin) if window.begin is not None else begun
    ends = [t for t in (life.ended, window.end) if t is not None]
    last = [one.end for t in process.tracks.values() for one in t.slices]
    end = min(ends) if ends else max(last, default=shown)
    if end > shown:
        args = {"since_its_start_s": (end - begun) / 1e9, "end_seen": life.ended == end}
        track.slices.append(
            Slice(f"process {process.pid or ''}".strip(), shown, end, "process", args)
        )


def _marks(found: dict[Owner, Process], journals: Journals) -> None:
    """What a command said of itself, in the process that said it; else in the supervisor's."""
    for line in journals.supervisor:
        if line["event"] != "mark":
            continue
        process = found.get((line["worker"], line["attempt"])) or found[None, 0]
        what, step = str(line.get("what")).replace("_", " "), line.get("step")
        if isinstance(step, bool) or not isinstance(step, int):
            step = None
        name = str(line.get("name") or what) if step is None else f"{what} {step}"
        process.track(MARKS).instants.append(Instant(name, line["t"], "mark", _args(line)))
        if what == "step" and step is not None:
            process.counts.append(Count("last completed", "step", line["t"], step))
