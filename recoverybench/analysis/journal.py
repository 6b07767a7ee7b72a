"""Reading journals: what workers and the supervisor wrote while a trial ran.

A journal is one file of JSON lines, ``journal/<trial>/<slot>.<attempt>.jsonl`` or
``supervisor.0.jsonl``. A writer may be killed at any byte: whatever follows the last
newline is dropped and counted. Anything else that is no journal line is an error.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeGuard

from recoverybench.clocks import on_one_clock
from recoverybench.errors import HarnessError, UsageError, shorten
from recoverybench.received import JOURNAL_LIMIT, read_file
from recoverybench.vocabulary import JOURNAL_SCHEMA

_FILE_NAME = re.compile(r"(supervisor|[0-9]{1,9})\.([0-9]{1,9})\.jsonl")


_MOST_NS = 2**63 - 1
"""No clock of a kernel shows more, and no two are further apart."""


class JournalError(HarnessError):
    """A journal that our own writers cannot have written; names file and line."""


@dataclass(frozen=True, slots=True)
class Journal:
    """One file.

    Attributes:
        worker_slot: slot it was written in (a standby sits in slot W of W workers);
            None: the supervisor.
        attempt: incarnation of that slot.
        lines: every finished line in order, events of unknown names included.
        dropped: half-written last lines, 0 or 1.
    """

    worker_slot: int | None
    attempt: int
    lines: tuple[dict[str, Any], ...]
    dropped: int


@dataclass(frozen=True, slots=True)
class TrialJournals:
    """All journals of one trial.

    Attributes:
        supervisor: its journal, None where it wrote none.
        workers: by slot, then attempt.
    """

    supervisor: Journal | None
    workers: tuple[Journal, ...]

    @property
    def dropped(self) -> int:
        """Half-written lines in all files."""
        return sum(journal.dropped for journal in self.all)

    @property
    def all(self) -> tuple[Journal, ...]:
        """The supervisor's first, then the workers'."""
        return (*([self.supervisor] if self.supervisor else []), *self.workers)

    @property
    def lines(self) -> tuple[dict[str, Any], ...]:
        """The lines of all files by `t`; equal instants keep the order of `all`."""
        merged = [line for journal in self.all for line in journal.lines]
        return tuple(sorted(merged, key=lambda line: int(line["t"])))


def read_journal(path: Path, *, within: Path | None = None) -> Journal:
    """Reads one journal, whole or cut at any byte.

    Args:
        path: the file. within: directory that it may not lead out of; None: the file's own.

    Raises:
        JournalError: as `parse_journal`; or it is no plain file, leads elsewhere or is too long.
        OSError: it cannot be read.
    """
    try:
        content = read_file(path, within=within or path.parent, limit=JOURNAL_LIMIT)
    except UsageError as error:
        raise JournalError(str(error)) from None
    return parse_journal(path, content)


def parse_journal(path: Path, content: bytes) -> Journal:
    """A journal from the name of its file and the bytes that are in it.

    Raises:
        JournalError: the name or a finished line is not a journal's, or its schema is not ours.
    """
    name = _FILE_NAME.fullmatch(path.name)
    if name is None:
        raise JournalError(f"{path}: expected a name such as 2.0.jsonl or supervisor.0.jsonl")
    *finished, rest = content.split(b"\n")
    lines = tuple(_parse(raw, f"{path}:{n}") for n, raw in enumerate(finished, start=1))
    if lines:
        _check_head(lines[0], f"{path}:1")
    slot = None if name[1] == "supervisor" else int(name[1])
    return Journal(slot, int(name[2]), lines, dropped=1 if rest else 0)


def read_trial(directory: Path) -> TrialJournals:
    """Reads every ``*.jsonl`` of a trial's directory, joined; other files are left alone.

    Raises:
        JournalError: as `read_journal`, or there is no such directory.
    """
    if not directory.is_dir():
        raise JournalError(f"{directory}: no journals of that trial")
    journals = joined([read_journal(path) for path in directory.glob("*.jsonl")])
    workers = [journal for journal in journals if journal.worker_slot is not None]
    workers.sort(key=lambda journal: (journal.worker_slot or 0, journal.attempt))
    supervisors = [journal for journal in journals if journal.worker_slot is None]
    if len(supervisors) > 1:
        raise JournalError(f"{directory}: {len(supervisors)} supervisors wrote here")
    return TrialJournals(supervisors[0] if supervisors else None, tuple(workers))


def joined(journals: Sequence[Journal]) -> list[Journal]:
    """The same journals, with all lines on the supervisor's clock where its offset is known."""
    files = on_one_clock([journal.lines for journal in journals])
    return [
        dataclasses.replace(journal, lines=lines)
        for journal, lines in zip(journals, files, strict=True)
    ]


def _parse(raw: bytes, where: str) -> dict[str, Any]:
    try:
        line = json.loads(raw)
    except (ValueError, RecursionError):
        text = raw.decode("utf-8", errors="replace")
        raise JournalError(f"{where}: {shorten(text)} is not a line of JSON") from None
    if not isinstance(line, dict):
        raise JournalError(f"{where}: {shorten(line)} is not a JSON object")
    worker = line.get("worker")
    t = line.get("t")
    if not _is_int(t) or abs(t) > _MOST_NS:
        raise _wrong(where, line, "t", "an instant in ns")
    if not isinstance(line.get("event"), str):
        raise _wrong(where, line, "event", "the name of an event")
    if "worker" not in line or not (worker is None or _is_int(worker)):
        raise _wrong(where, line, "worker", "a worker or null")
    if not _is_int(line.get("attempt")):
        raise _wrong(where, line, "attempt", "a number")
    if line["event"] == "clock":
        _check_clock(line, where)
    return line


def _check_clock(line: dict[str, Any], where: str) -> None:
    """What all lines of another clock are moved by: a wrong one would move them unnoticed."""
    for key, least in (("at", -_MOST_NS), ("offset_ns", -_MOST_NS), ("bound_ns", 0)):
        value = line.get(key)
        if not _is_int(value) or not least <= value <= _MOST_NS:
            allowed = f"a whole number of ns from {least} to {_MOST_NS}"
            raise _wrong(where, line, key, allowed)


def _check_head(line: dict[str, Any], where: str) -> None:
    if line["event"] != "journal":
        raise _wrong(where, line, "event", "'journal' in the first line")
    if line.get("schema") != JOURNAL_SCHEMA:
        raise _wrong(where, line, "schema", f"{JOURNAL_SCHEMA}, the version this release reads")


def _wrong(where: str, line: dict[str, Any], key: str, expected: str) -> JournalError:
    found = shorten(line[key]) if key in line else "missing"
    return JournalError(f"{where}: {key} = {found}: expected {expected}")


def _is_int(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool)
