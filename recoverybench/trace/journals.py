"""The journals of one trial as far as they are there and can be read, and what of them is shown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from recoverybench.analysis.history import History, Line
from recoverybench.analysis.journal import Journal, JournalError, joined, read_journal
from recoverybench.records import TrialRecord
from recoverybench.trace.model import Owner

_ALWAYS = ("journal", "spawn", "assigned", "exit")
"""Who is who: shown of a soak's other injections too, or needed to name what is shown."""


@dataclass(frozen=True, slots=True)
class Window:
    """From `begin` to `end`, ns; None: open there."""

    begin: int | None
    end: int | None

    def holds(self, line: Line) -> bool:
        """Whether a line, with the span that it closes, lies in the window or reaches into it."""
        begun = line.get("t0", line["t"])
        begun = begun if isinstance(begun, int) else line["t"]
        return (self.begin is None or line["t"] >= self.begin) and (
            self.end is None or begun < self.end
        )

    def __contains__(self, t: int) -> bool:
        return (self.begin is None or t >= self.begin) and (self.end is None or t < self.end)


@dataclass(frozen=True, slots=True)
class Attempt:
    """One process of the job, from its own journal.

    Attributes:
        owner: the worker and attempt that it is, or became. file: what it was started as.
        pid: its id, or None. lines: what is shown, earliest first.
    """

    owner: Owner
    file: Owner
    pid: int | None
    lines: tuple[Line, ...]


@dataclass(frozen=True, slots=True)
class Journals:
    """What one trial's journals say.

    Attributes:
        supervisor: lines of the supervisor that are shown, earliest first.
        pid: of the supervisor. attempts: one for each worker's file.
        spawned, ended: the line of each attempt's start and end, where one is written; of the
            whole job, also outside the window.
        window: what the trial is of a soak. known: whether any journal was read.
        said: for people: ``read``, ``not there``, or why not.
    """

    supervisor: tuple[Line, ...] = ()
    pid: int | None = None
    attempts: tuple[Attempt, ...] = ()
    spawned: tuple[Line, ...] = ()
    ended: tuple[Line, ...] = ()
    window: Window = Window(None, None)
    known: bool = False
    said: str = "not there"


def read_journals(run: Path, record: TrialRecord) -> Journals:
    """The journals of a trial; none where they are not there, or one of them cannot be read.

    Args:
        run: the run's directory; nothing outside it is read.
        record: the trial. Of a soak, its part of the job: from the injection before it to the
            next one.
    """
    directory = run / "journal" / record.trial.partition(".")[0]
    try:
        if not directory.is_dir():
            return Journals()
        if not directory.resolve().is_relative_to(run.resolve()):
            return Journals(said="a link that leads out of the run: not read")
        paths = sorted(directory.glob("*.jsonl"))
        files = joined([read_journal(path, within=run) for path in paths])
    except (JournalError, OSError, RuntimeError, ValueError) as error:
        return Journals(said=f"cannot be read: {error}")
    return of_files(files, record) if files else Journals()


def of_files(files: Sequence[Journal], record: TrialRecord) -> Journals:
    """As `read_journals`, from journals that are in memory."""
    histories = [(file, _lines(file)) for file in files]
    own = [line for file, lines in histories if file.worker_slot is None for line in lines]
    window = _window(own, record)
    attempts = [
        _attempt((file.worker_slot, file.attempt), lines, window)
        for file, lines in histories
        if file.worker_slot is not None
    ]
    return Journals(
        supervisor=tuple(line for line in own if window.holds(line)),
        pid=_pid(own),
        attempts=tuple(a for a in attempts if a is not None),
        spawned=tuple(line for line in own if line["event"] == "spawn"),
        ended=tuple(line for line in own if line["event"] == "exit"),
        window=window,
        known=True,
        said="read",
    )


def _lines(file: Journal) -> list[Line]:
    """The lines of a file that hold what their events must hold, earliest first."""
    history = History.of([file])
    return list(history.named(*history.events)) if history.events else []


def _window(own: Sequence[Line], record: TrialRecord) -> Window:
    """What of a job with several injections belongs to this one."""
    if record.soak is None or record.t_inject is None:
        return Window(None, None)
    instants = sorted(line["t"] for line in own if line["event"] == "inject")
    before = [t for t in instants if t < record.t_inject]
    after = [t for t in instants if t > record.t_inject]
    return Window(before[-1] if before else None, after[0] if after else None)


def _attempt(file: Owner, lines: Sequence[Line], window: Window) -> Attempt | None:
    shown = [line for line in lines if window.holds(line)]
    if not [line for line in shown if line["event"] not in _ALWAYS]:
        return None
    until = [line for line in lines if window.end is None or line["t"] < window.end]
    assigned = [line for line in until if line["event"] == "assigned"]
    owner = (assigned[-1]["worker"], assigned[-1]["attempt"]) if assigned else file
    return Attempt(owner, file, _pid(lines), tuple(shown))


def _pid(lines: Sequence[Line]) -> int | None:
    heads = [line.get("pid") for line in lines if line["event"] == "journal"]
    return heads[0] if heads and isinstance(heads[0], int) else None
