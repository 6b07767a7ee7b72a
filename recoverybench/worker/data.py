"""Batches for one worker, cut from a global order that no topology changes.

Grain does the shuffling: ``MapDataset.source(...).seed(seed).shuffle().repeat()`` is a
permutation of the source per epoch, another one each epoch, fixed by the seed and readable at
any index. Position `p` of that order belongs to step ``p // batch_size + 1`` (steps count from
1) and to row ``p % batch_size`` of its batch; a worker reads its own rows and no others. So
the global batch of a step is the same for 1 worker and for 6, and where the data stands is one
number.

Nothing is read ahead: a prefetching iterator counts samples as consumed that no step has seen,
so the state in a checkpoint would be ahead of the training it belongs to.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import grain
import numpy as np


class Source(Protocol):
    """Records that can be read by index, as `grain.sources.RandomAccessDataSource` is."""

    def __len__(self) -> int:
        """The number of records; an epoch."""
        ...

    def __getitem__(self, index: int, /) -> dict[str, np.ndarray]:
        """Record `index`: named arrays whose shapes do not depend on the index."""
        ...


@dataclass(frozen=True, slots=True)
class Batch:
    """One worker's rows of one global batch."""

    arrays: dict[str, np.ndarray]
    """The records' arrays, stacked: the first axis has ``batch_size // world`` rows."""

    samples: list[int]
    """For each row ``epoch * len(source) + index``: no two rows of a training share an id.

    None where another worker accounts for the same rows.
    """


class Pipeline:
    """The data of one worker, from step 1 on without end.

    Attributes:
        batch_size: rows of the global batch.
        position: the number of steps whose batches were handed out.
    """

    def __init__(
        self,
        source: Source,
        *,
        batch_size: int,
        seed: int,
        rank: int = 0,
        world: int = 1,
        counts: bool = True,
    ) -> None:
        """Open the order that `seed` gives, at step 1.

        Args:
            source: the records.
            batch_size: rows of the global batch.
            seed: of the order, 0 to 2**32 - 1.
            rank: which share of a batch, 0 to `world` - 1.
            world: shares of a batch: one for each worker, unless some work on the same rows.
            counts: this worker accounts for its samples; else another one with the same share.

        Raises:
            ValueError: `world` does not divide `batch_size`, `rank` is not below `world`, or
                the source is empty.
        """
        if world < 1 or batch_size < 1 or batch_size % world:
            raise ValueError(f"a batch of {batch_size} rows cannot be shared by {world} workers")
        if not 0 <= rank < world:
            raise ValueError(f"rank {rank} of {world} workers")
        if len(source) < 1:
            raise ValueError("the source holds no record")
        self._length = len(source)
        self.batch_size = batch_size
        self._seed = seed
        self._rows = batch_size // world
        self._first_row = rank * self._rows
        self._counts = counts
        self._order = grain.MapDataset.source(_Indexed(source)).seed(seed).shuffle().repeat()
        self.position = 0

    def next(self) -> Batch:
        """This worker's rows for step ``position + 1``; the position moves on by one."""
        start = self.position * self.batch_size + self._first_row
        records: list[dict[str, np.ndarray]] = []
        samples: list[int] = []
        for place in range(start, start + self._rows):
            index, record = self._order[place]
            records.append(record)
            samples.append(place // self._length * self._length + index)
        self.position += 1
        return Batch(
            arrays={name: np.stack([record[name] for record in records]) for name in records[0]},
            samples=samples if self._counts else [],
        )

    def state(self) -> dict[str, int]:
        """Where the data stands, fit for JSON; the same on every rank and for every `world`."""
        return self._identity() | {"position": self.position}

    def restore(self, state: dict[str, Any]) -> None:
        """Go on behind the step at which `state` was taken, also under another `world`.

        Raises:
            ValueError: `state` is of another order (seed, batch size or number of records), or
                holds no position.
        """
        for key, mine in self._identity().items():
            if state.get(key) != mine:
                raise ValueError(f"data state has {key} = {state.get(key)!r}, the job has {mine}")
        position = state.get("position")
        if not isinstance(position, int) or isinstance(position, bool) or position < 0:
            raise ValueError(f"data state has position = {position!r}")
        self.position = position

    def _identity(self) -> dict[str, int]:
        return {"seed": self._seed, "batch_size": self.batch_size, "records": self._length}


class _Indexed:
    """A source whose records carry their index: Grain's shuffle does not tell it."""

    def __init__(self, source: Source) -> None:
        self._source = source

    def __len__(self) -> int:
        return len(self._source)

    def __getitem__(self, index: int) -> tuple[int, dict[str, np.ndarray]]:
        return index, self._source[index]
