"""A process that outlives us for a moment: if we are killed, it ends what a command started.

The kernel ends a child with its parent where it is asked to, but not the child's children; of a
shell that starts training in a loop only the shell would go. Whatever we start carries our mark in
its environment, and so can be found (`leftovers`).
"""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import suppress
from types import TracebackType
from typing import Final, Self

_WATCH: Final = """
import os, select, sys
parent = os.pidfd_open(int(sys.argv[1]))
print(flush=True)
if not sys.stdin.read():  # nobody said that all is well: its pipes close before it is gone
    select.select([parent], [], [])
    from recoverybench.leftovers import reap
    reap()
"""


class Warden:
    """Use it as a context manager around whatever starts commands; it costs one idle process."""

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-c", _WATCH, str(os.getpid())],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        assert self._process.stdout is not None
        self._process.stdout.readline()  # it watches
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._process.stdin is not None and self._process.stdout is not None
        with suppress(BrokenPipeError):
            self._process.stdin.write(b"done")
            self._process.stdin.close()
        self._process.stdout.close()
        self._process.wait()
