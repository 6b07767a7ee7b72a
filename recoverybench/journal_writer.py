"""Writing a journal: one line an event, one `write(2)` a line.

A line that was written is in the kernel's hands, so SIGKILL loses nothing that was
logged, and a reader never sees two lines mixed. The format is in docs/formats.md.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any

from recoverybench.vocabulary import JOURNAL_SCHEMA

_dumps = json.JSONEncoder(separators=(",", ":")).encode


def boot_id() -> str:
    """The kernel's boot id. Two journals with the same one, and with the same time namespace,
    share CLOCK_MONOTONIC.
    """
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def time_namespace() -> str | None:
    """The time namespace of this process, such as ``time:[4026531834] 0 0``; None: before Linux 5.6
    there are none.

    Numbers of namespaces that are gone are given to new ones, so the offset to the machine's
    CLOCK_MONOTONIC (s, ns) belongs to it.
    """
    try:
        number = os.readlink("/proc/self/ns/time")
        offsets = Path("/proc/self/timens_offsets").read_text().splitlines()
    except OSError:
        return None
    (monotonic,) = (line.split()[1:] for line in offsets if line.startswith("monotonic"))
    return " ".join([number, *monotonic])


class Journal:
    """An append-only journal of one process.

    Args:
        path: file to create or append to.
        worker: the worker it speaks for; None for the supervisor.
        attempt: incarnation of that worker.

    Attributes:
        around: what every span is in besides: a profiler has it see the name; None: nothing.
    """

    def __init__(self, path: Path, worker: int | None, attempt: int) -> None:
        self._fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
        self._worker = worker
        self._attempt = attempt
        self.around: Callable[[str], AbstractContextManager[object]] | None = None
        self._generation: int | None = None if worker is None else 0
        self._head()
        self.log(
            "journal",
            schema=JOURNAL_SCHEMA,
            boot_id=boot_id(),
            time_namespace=time_namespace(),
            clock_offset_ns=0,
            clock_bound_ns=0,
            pid=os.getpid(),
        )

    def _head(self) -> None:
        common = f'"worker":{_dumps(self._worker)},"attempt":{self._attempt}'
        if self._generation is not None:
            common += f',"generation":{self._generation}'
        self._common = common

    def become(self, worker: int, attempt: int, generation: int) -> None:
        """From here on lines speak for that worker, attempt and generation."""
        self._worker, self._attempt, self._generation = worker, attempt, generation
        self._head()

    def log(self, event: str, t: int | None = None, **fields: Any) -> int:
        """Write one line; returns its instant (CLOCK_MONOTONIC, ns).

        Args:
            event: a name from `vocabulary`.
            t: the instant, when it is not now.
            fields: JSON data. `worker` and `attempt` take the place of the journal's own.
        """
        if t is None:
            t = time.monotonic_ns()
        common = self._common
        if "attempt" in fields:  # the supervisor, about a worker's process
            common = f'"worker":{_dumps(fields.pop("worker"))},"attempt":{fields.pop("attempt")}'
        elif "worker" in fields:
            common = f'"worker":{_dumps(fields.pop("worker"))},"attempt":{self._attempt}'
        rest = _dumps(fields)
        line = f'{{"t":{t},"event":"{event}",{common}'
        line += "," + rest[1:] + "\n" if len(rest) > 2 else "}\n"
        os.write(self._fd, line.encode())
        return t

    @contextmanager
    def span(self, name: str) -> Iterator[None]:
        """Log what happens inside as a span, also when it raises."""
        t0 = time.monotonic_ns()
        try:
            with nullcontext() if self.around is None else self.around(name):
                yield
        finally:
            self.log("span", name=name, t0=t0)

    def close(self) -> None:
        """Close the file; logging after that raises OSError."""
        os.close(self._fd)
