"""The processes of a command: descendants of this process, and which rank each of them is.

Everything is read from ``/proc``, of which tests make their own. A process whose parent has ended
is a child of this one, as it is a subreaper; so whatever the command starts stays among this
process's descendants, however often it forks.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from recoverybench.external.spec import Ranks

PROC: Final = Path("/proc")

WRAPPERS: Final = frozenset(
    {
        *("ash", "bash", "csh", "dash", "fish", "ksh", "sh", "tcsh", "zsh"),
        *("env", "ionice", "nice", "nohup", "numactl", "setsid", "stdbuf", "sudo", "taskset"),
        *("tee", "time", "timeout", "xargs"),
    }
)
"""Programs that start others: with a rank in their environment they are still not that rank."""

TICKS: Final = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Found:
    """One process.

    Attributes:
        pid: its id. parent: its parent's. start: clock ticks since boot; with the pid, unique.
        name: of its program: the last part of the file that it executes.
        arguments: its command line. rank: the rank that it says it is; None: it says none.
        zombie: it has ended, and its parent has not asked how.
    """

    pid: int
    parent: int
    start: int
    name: str
    arguments: str
    rank: int | None
    zombie: bool = False


def children(pid: int, proc: Path = PROC) -> list[int]:
    """The children of a process, of all its threads; none where it is gone."""
    found: list[int] = []
    try:
        threads = list((proc / str(pid) / "task").iterdir())
    except OSError:
        return []
    for thread in threads:
        try:
            found += [int(child) for child in (thread / "children").read_text().split()]
        except (OSError, ValueError):
            continue
    return sorted(set(found))


def descendants(roots: Iterable[int], proc: Path = PROC) -> Iterator[int]:
    """These and everything below them, parents first, each once."""
    waiting, seen = list(roots), set[int]()
    while waiting:
        pid = waiting.pop(0)
        if pid not in seen:
            seen.add(pid)
            yield pid
            waiting += children(pid, proc)


def look(pid: int, ranks: Ranks, proc: Path = PROC) -> Found | None:
    """What ``/proc`` says of a process; None where it is gone."""
    folder = proc / str(pid)
    try:
        stat = (folder / "stat").read_text(errors="replace")
        name, fields = stat[stat.index("(") + 1 : stat.rindex(")")], stat.rpartition(")")[2].split()
        if fields[0] in "ZX":
            return Found(pid, int(fields[1]), int(fields[19]), name, "", None, zombie=True)
        arguments = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        environ = (folder / "environ").read_bytes()
        # The kernel's own name for it changes: PyTorch, for one, names its main thread.
        name = os.path.basename(os.readlink(folder / "exe")) or name
    except (OSError, ValueError, IndexError):
        return None
    rank = rank_of(environ, arguments, ranks)
    return Found(pid, int(fields[1]), int(fields[19]), name, arguments.strip(), rank)


def rank_of(environ: bytes, arguments: str, ranks: Ranks) -> int | None:
    """The rank that a process's command line or environment says; None: none."""
    if ranks.arguments is not None and (found := ranks.arguments.search(arguments)):
        return _whole(found.groups[0] or "")
    values = dict(item.split(b"=", 1) for item in environ.split(b"\0") if b"=" in item)
    for variable in ranks.environment:
        rank = _whole(values.get(variable.encode(), b"").decode(errors="replace"))
        if rank is not None:
            return rank
    return None


def _whole(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else None


def by_rank(
    found: Iterable[Found],
    ranks: Ranks,
    told: Mapping[int, int] | None = None,
    programs: Mapping[int, str] | None = None,
) -> dict[int, Found]:
    """Rank -> the process that is that rank.

    That is the one which said so in a mark; else, of those with that rank in the environment
    or on the command line, the one nearest to the command that is no wrapper and matches
    `Ranks.process`, as what it starts has the same environment. Of several the oldest.

    Args:
        told: pid -> rank, as marks said.
        programs: rank -> the program that a process of that rank runs; None: any. What a shell
            loop runs between two attempts is none of them.
    """
    told, programs = told or {}, programs or {}
    everything = {process.pid: process for process in found}
    living = [p for p in everything.values() if not p.zombie]
    result: dict[int, Found] = {}
    for process in sorted(living, key=lambda p: (p.start, p.pid)):
        if process.pid in told:
            result.setdefault(told[process.pid], process)
    for process in sorted(living, key=lambda p: (p.start, p.pid)):
        if process.rank is None or not _may_be(process, ranks, programs):
            continue
        above = everything.get(process.parent)
        nested = False
        while above is not None:
            nested = nested or (above.rank == process.rank and _may_be(above, ranks, programs))
            above = everything.get(above.parent) if above.parent != above.pid else None
        if not nested:
            result.setdefault(process.rank, process)
    return result


def _may_be(process: Found, ranks: Ranks, programs: Mapping[int, str]) -> bool:
    if process.rank is not None and process.name != programs.get(process.rank, process.name):
        return False
    if ranks.process is not None:
        return ranks.process.search(process.arguments) is not None
    return process.name not in WRAPPERS


def how_it_ended(pid: int, proc: Path = PROC) -> int | None:
    """The wait status of a process that has ended, while its parent has not asked for it; None:
    too late.
    """
    try:
        fields = (proc / str(pid) / "stat").read_text(errors="replace").rpartition(")")[2].split()
        return int(fields[49]) if fields[0] == "Z" else None
    except (OSError, ValueError, IndexError):
        return None


def started_ns(process: Found, proc: Path = PROC) -> int:
    """When a process was started, CLOCK_MONOTONIC ns, as exactly as the kernel keeps it (10 ms).

    The kernel counts from boot; both clocks agree on a machine that was never suspended, and
    where they do not the difference is taken off.
    """
    asleep = time.clock_gettime_ns(time.CLOCK_BOOTTIME) - time.monotonic_ns()
    return process.start * 1_000_000_000 // TICKS - asleep
