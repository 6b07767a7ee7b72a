"""A text file as a random-access source of byte windows, for the standard workloads.

It imports neither jax nor grain, so a data file can be checked before a worker starts.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import numpy as np

from recoverybench import errors

VOCABULARY: Final = 256
"""Tokens are bytes: every file is text, and there is no tokenizer to install or to version."""

SHIPPED_TEXT: Final = "paradise-lost.txt"
"""The text in `workloads/data/`, used when the user gives no file."""


class TextWindows:
    """Consecutive windows of `seq_len + 1` bytes.

    Window `i` starts at byte `i * seq_len`: neighbours share one byte, so every byte but the
    first is predicted exactly once in an epoch. A remainder shorter than a window is not used.
    """

    def __init__(self, path: Path, seq_len: int, minimum: int = 1) -> None:
        """Read `path`.

        Args:
            path: the file; any bytes.
            seq_len: bytes that a window predicts.
            minimum: windows that there have to be (a batch, say).

        Raises:
            UsageError: the file cannot be read, or is too short.
        """
        content = read(path)
        needed = minimum * seq_len + 1
        if len(content) < needed:
            raise errors.bad_value(
                "data", str(path), f"a file of at least {needed} bytes; it has {len(content)}"
            )
        self._bytes = np.frombuffer(content, dtype=np.uint8)
        self._seq_len = seq_len

    def __len__(self) -> int:
        """The number of windows."""
        return (len(self._bytes) - 1) // self._seq_len

    def __getitem__(self, index: int) -> dict[str, np.ndarray]:
        """Window `index` as ``{"tokens": int32 [seq_len + 1]}``."""
        if not 0 <= index < len(self):
            raise IndexError(f"window {index} of {len(self)}")
        start = index * self._seq_len
        return {"tokens": self._bytes[start : start + self._seq_len + 1].astype(np.int32)}


def read(path: Path) -> bytes:
    """The bytes of a data file.

    Raises:
        UsageError: there is no such file, or it cannot be read.
    """
    try:
        return path.read_bytes()
    except OSError as error:
        reason = error.strerror or str(error)
        raise errors.bad_value("data", str(path), f"a readable file ({reason})") from error
