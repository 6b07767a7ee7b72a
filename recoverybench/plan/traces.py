"""Traces of preemptions: our format, and a converter from traces of spot capacity.

A trace is a CSV file with the header ``time_s,node``; each line after it is one preemption:
seconds from the start of the trace, never falling, and which node was taken, an integer or a
name. The fault ``replay`` reads it.

Published spot traces (those in doc/data of uclasystem/bamboo, for example) hold elapsed time
and instances running instead, a step function without a header and in various units. They say
how many instances went, and not which. So the converter numbers instances in the order of
their start and lets the oldest go first; each of them goes once:

    python -m recoverybench.plan.traces IN OUT [--unit s|ms|h] [--compress X]
"""

from __future__ import annotations

import argparse
import itertools
import math
import sys
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from recoverybench.errors import EXIT_OK, UsageError, bad_value, shorten
from recoverybench.plan import catalogue

HEADER = "time_s,node"
UNITS = {"s": 1.0, "ms": 0.001, "h": 3600.0}
"""Seconds in each unit of a capacity trace."""


@dataclass(frozen=True, slots=True)
class Preemption:
    """A node was taken away.

    Attributes:
        time_s: from the start of the trace. node: an integer as text, or a name.
    """

    time_s: float
    node: str


def find(name_or_path: str) -> Path:
    """The file of a trace: one that ships, by its name, or a path.

    Raises:
        UsageError: there is no such file.
    """
    folder = catalogue.workloads_dir() / "traces"
    shipped = {path.stem: path for path in sorted(folder.glob("*.csv"))}
    if name_or_path in shipped:
        return shipped[name_or_path]
    path = Path(name_or_path)
    if not path.is_file():
        allowed = f"a CSV file that exists, or one of: {', '.join(shipped)}"
        raise bad_value("trace", name_or_path, allowed)
    return path


def read(path: Path) -> list[Preemption]:
    """Read a trace.

    Raises:
        UsageError: it is none; names the file and the line.
    """
    lines = _lines(path)
    if not lines or lines[0] != HEADER:
        head = lines[0] if lines else ""
        raise bad_value(f"{path}:1: header", head, f"{HEADER!r}")
    found: list[Preemption] = []
    for number, line in enumerate(lines[1:], start=2):
        time_s, node = _fields(line, f"{path}:{number}", "time_s,node")
        if not node:
            raise bad_value(f"{path}:{number}: node", node, "an integer or a name")
        seconds = _number(time_s, f"{path}:{number}: time_s")
        if found and seconds < found[-1].time_s:
            allowed = f"at least {found[-1].time_s:g}, the time of the line before"
            raise bad_value(f"{path}:{number}: time_s", time_s, allowed)
        found.append(Preemption(seconds, node))
    if not found:
        raise UsageError(f"{path}:2: no preemption: expected at least one line after the header")
    return found


def text_of(preemptions: Iterable[Preemption]) -> str:
    """A trace as it stands in a file."""
    lines = (f"{p.time_s:.6f}".rstrip("0").rstrip(".") + f",{p.node}" for p in preemptions)
    return "\n".join((HEADER, *lines)) + "\n"


def read_capacity(path: Path, unit: str = "s") -> list[tuple[float, int]]:
    """Read a capacity trace: (seconds, instances running) of each of its lines.

    Raises:
        UsageError: it is none; names the file and the line.
    """
    found: list[tuple[float, int]] = []
    for number, line in enumerate(_lines(path), start=1):
        where = f"{path}:{number}"
        elapsed, running = _fields(line, where, "elapsed time,instances running")
        seconds = _number(elapsed, f"{where}: elapsed time") * UNITS[unit]
        if not (running.isascii() and running.isdecimal()):
            raise bad_value(f"{where}: instances running", running, "a whole number of at least 0")
        if found and seconds < found[-1][0]:
            raise bad_value(f"{where}: elapsed time", elapsed, "at least that of the line before")
        found.append((seconds, int(running)))
    return found


def preemptions_of(
    capacity: Sequence[tuple[float, int]], compress: float = 1.0
) -> list[Preemption]:
    """Every decrease of capacity, as that many preemptions at its instant.

    Args:
        capacity: (seconds, instances running), times never falling.
        compress: times are divided by it.
    """
    names = itertools.count()
    running: deque[int] = deque()
    found = []
    for seconds, size in capacity:
        while len(running) > size:
            found.append(Preemption(seconds / compress, f"i{running.popleft()}"))
        while len(running) < size:
            running.append(next(names))
    return found


def convert(source: Path, target: Path, unit: str = "s", compress: float = 1.0) -> int:
    """Write the preemptions of a capacity trace to a new file; returns how many there are.

    Raises:
        UsageError: the source is no such trace or tells of no preemption, or the target is
            there already or cannot be written.
    """
    found = preemptions_of(read_capacity(source, unit), compress)
    if not found:
        raise bad_value("IN", str(source), "a trace in which capacity falls at least once")
    try:
        with target.open("x", encoding="utf-8") as file:
            file.write(text_of(found))
    except FileExistsError:
        raise bad_value("OUT", str(target), "a file that does not exist yet") from None
    except OSError as error:
        raise bad_value("OUT", str(target), f"a file to write ({error.strerror})") from None
    return len(found)


def _lines(path: Path) -> list[str]:
    """The lines of a text file, without what ends them; nothing may follow the last one."""
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        line = path.read_bytes()[: error.start].count(b"\n") + 1
        raise UsageError(f"{path}:{line}: not UTF-8: expected a CSV file") from None
    lines = [line.removesuffix("\r") for line in text.split("\n")]
    return lines[:-1] if lines[-1] == "" else lines


def _fields(line: str, where: str, names: str) -> tuple[str, str]:
    parts = [part.strip() for part in line.split(",")]
    if len(parts) != 2:
        raise UsageError(f"{where}: {shorten(line)}: expected {names}")
    return parts[0], parts[1]


def _number(text: str, where: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not 0 <= number < math.inf:
        raise bad_value(where, text, "a number of at least 0")
    return number


def main(arguments: Sequence[str] | None = None) -> int:
    """The converter's command line; returns the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m recoverybench.plan.traces",
        description="Make a trace of preemptions from a trace of spot capacity.",
    )
    parser.add_argument("source", metavar="IN", type=Path, help="elapsed time,instances running")
    parser.add_argument("target", metavar="OUT", type=Path, help="a new CSV file: time_s,node")
    parser.add_argument("--unit", choices=UNITS, default="s", help="of the elapsed time")
    parser.add_argument(
        "--compress", type=float, default=1.0, metavar="X", help="divide times by X"
    )
    given = parser.parse_args(arguments)
    try:
        if not 0 < given.compress < math.inf:
            raise bad_value("--compress", given.compress, "a number above 0")
        count = convert(given.source, given.target, given.unit, given.compress)
    except UsageError as error:
        print(f"{parser.prog}: {error}", file=sys.stderr)
        return error.exit_code
    print(f"{count} preemptions: {given.target}")
    return EXIT_OK


if __name__ == "__main__":
    sys.exit(main())
