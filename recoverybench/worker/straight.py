"""Files of an array that hold its bytes as they are, read straight to where they are wanted.

An uncompressed zarr array (version 2) is a file for each chunk. Where a chunk's rows lie in the
wanted part one after another, as they do for every part that a device saved, a part of the file
is a part of the memory, and nothing has to be put in between. Everything else is for TensorStore.
"""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Self

import numpy as np

BLOCK = 4 << 20
"""Most bytes of one read: as of the raw read that a restore is compared with."""

Part = Sequence[tuple[int, int]]
"""Of an array: begin and end in each dimension."""


@dataclass(frozen=True, slots=True)
class Read:
    """Bytes of a file, and where they belong.

    Attributes:
        path: of the file. at: where they begin in it. size: how many. to: where they begin in
            the memory of the wanted part.
    """

    path: Path
    at: int
    size: int
    to: int

    def into(self, memory: memoryview) -> None:
        """Read them into the memory of the wanted part.

        Raises:
            OSError: there is no such file, or it ends before them.
        """
        descriptor = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            done = 0
            while done < self.size:
                into = memory[self.to + done : self.to + self.size]
                got = os.preadv(descriptor, [into], self.at + done)
                if got == 0:
                    raise OSError(f"{self.path} ends {self.size - done} bytes early")
                done += got
        finally:
            os.close(descriptor)


@dataclass(frozen=True, slots=True)
class Plain:
    """An array whose chunks are files of its bytes.

    Attributes:
        directory: of the files. shape, chunks: of the array, and of each chunk.
        dtype: of its elements. separator: between the numbers in a chunk's name.
    """

    directory: Path
    shape: tuple[int, ...]
    chunks: tuple[int, ...]
    dtype: np.dtype
    separator: str

    @classmethod
    def at(cls, directory: Path) -> Self | None:
        """The array of a directory; None: it is none that can be read here."""
        try:
            told = json.loads((directory / ".zarray").read_bytes())
            dtype = np.dtype(told["dtype"] if isinstance(told["dtype"], str) else object)
        except (OSError, ValueError, KeyError, TypeError):
            return None
        usual = told.get("compressor") is None and not told.get("filters")
        if not usual or told.get("order") != "C" or not dtype.isnative or dtype.kind in "OSU":
            return None
        return cls(
            directory,
            tuple(told["shape"]),
            tuple(told["chunks"]),
            dtype,
            told.get("dimension_separator", "."),
        )

    def reads(self, part: Part) -> list[Read] | None:
        """What is to be read for a part of it; None: its bytes lie in another order."""
        for (begin, end), chunk in itertools.islice(zip(part, self.chunks, strict=True), 1, None):
            if begin % chunk or end - begin != chunk:
                return None
        if not part:
            return [Read(self.directory / "0", 0, self.dtype.itemsize, 0)]
        row = prod(end - begin for begin, end in part[1:]) * self.dtype.itemsize
        return [read for read in self._rows(part, row) if read.size]

    def _rows(self, part: Part, row: int) -> Iterator[Read]:
        (begin, end), high = part[0], self.chunks[0]
        others = [
            begin // chunk for (begin, _), chunk in zip(part[1:], self.chunks[1:], strict=True)
        ]
        for number in range(begin // high, -(-end // high)):
            name = self.separator.join(map(str, [number, *others]))
            first, last = max(begin, number * high), min(end, (number + 1) * high)
            start, size = (first - number * high) * row, (last - first) * row
            for at in range(0, size, BLOCK):
                yield Read(
                    self.directory / name,
                    start + at,
                    min(BLOCK, size - at),
                    (first - begin) * row + at,
                )
