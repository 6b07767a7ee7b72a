"""Standard streams that end no command: closed from the start, left by their reader, or full."""

from __future__ import annotations

import io
import os
import sys
from typing import TYPE_CHECKING, TextIO

from recoverybench.errors import UsageError

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer


def prepare() -> None:
    """Give the process standard streams that can be written to, whatever it was started with.

    * One that is closed leads to nothing. Without that the next file that is opened would take
      its number, and what a child prints would be written into it.
    * Whoever closes stdout early (``| head``) has seen enough: the rest goes nowhere, and the
      exit code is the same.
    * stdout that cannot be written is a `UsageError`; of stderr nothing more can be said.
    * A terminal that cannot show a character gets its escape.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest number that is free: this one
    sys.stdout = _stream(sys.stdout, sys.__stdout__, "stdout")
    sys.stderr = _stream(sys.stderr, sys.__stderr__, "stderr")


def _stream(stream: TextIO | None, original: TextIO | None, name: str) -> TextIO:
    """The stream to use; one that the caller has put there (a test) is left in its place."""
    if stream is None:
        return open(os.devnull, "w", encoding="utf-8")
    if not isinstance(stream, io.TextIOWrapper):
        return stream
    if stream is not original:
        stream.reconfigure(errors="backslashreplace")
        return stream
    stream.flush()
    return io.TextIOWrapper(
        io.BufferedWriter(_Output(stream.fileno(), name)),
        encoding=stream.encoding,
        errors="backslashreplace",
        line_buffering=stream.line_buffering,
        write_through=stream.write_through,
    )


class _Output(io.FileIO):
    """A descriptor that leads to nothing from the first write that fails."""

    def __init__(self, number: int, name: str) -> None:
        super().__init__(number, "w", closefd=False)
        self._said = name

    def write(self, data: ReadableBuffer, /) -> int:
        """As a file's.

        Raises:
            UsageError: stdout cannot be written, and not for want of a reader.
        """
        try:
            return super().write(data) or 0
        except OSError as error:
            nothing = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nothing, self.fileno())
            os.close(nothing)
            if self._said == "stdout" and not isinstance(error, BrokenPipeError):
                said = f"expected a place that can be written ({error.strerror})"
                raise UsageError(f"{self._said}: {said}") from None
            return memoryview(data).nbytes
