"""Made-up clicks as a random-access source: a law instead of a file.

Every number comes from SplitMix64 (Steele et al. 2014) of the record's index, so that a record
is the same on every machine and with every version of NumPy.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

DENSE: Final = 13
"""Numbers that describe a record besides its ids; as many as in Criteo's click logs."""

_GAMMA: Final = np.uint64(0x9E3779B97F4A7C15)
_MIX: Final = ((30, np.uint64(0xBF58476D1CE4E5B9)), (27, np.uint64(0x94D049BB133111EB)))


class Clicks:
    """Records of a recommender, made up.

    With u uniform in [0, 1), independent for each number:

    - ``dense``: -log(1 - u), exponential with mean 1, as logarithms of counts are;
    - an id of a table with n rows: floor(n × u⁴), whose density falls as id^(-3/4): few rows
      are looked up often and most hardly ever;
    - ``labels``: 1 with the probability 1 / (1 + exp(-s)), where s is 2 × (dense[0] - dense[1])
      plus, for each table, 1 or -1 over the root of the number of tables: 1 where the first
      id looked up in it is even.
    """

    def __init__(self, table_rows: Sequence[int], lookups: Sequence[int], records: int) -> None:
        """Describe the tables.

        Args:
            table_rows: rows of each table.
            lookups: ids that a record has in each table.
            records: length of the source, an epoch.
        """
        self._records = records
        self._rows = np.repeat(np.asarray(table_rows, np.int64), lookups)
        ends = np.cumsum(table_rows)
        self._offsets = np.repeat(ends - table_rows, lookups)
        self._firsts = np.cumsum(lookups) - lookups
        self._numbers = np.arange(DENSE + len(self._rows) + 1, dtype=np.uint64)

    def __len__(self) -> int:
        """The number of records."""
        return self._records

    def __getitem__(self, index: int) -> dict[str, np.ndarray]:
        """Record `index`.

        Returns:
            ``dense``: float32 [13]. ``ids``: int32 [lookups of all tables], rows of all tables
            put one below the other. ``labels``: int32 scalar, 0 or 1.
        """
        if not 0 <= index < len(self):
            raise IndexError(f"record {index} of {len(self)}")
        uniform = self._uniform(index)
        dense = -np.log1p(-uniform[:DENSE])
        ids = (self._rows * uniform[DENSE:-1] ** 4).astype(np.int64)
        signs = 1 - 2 * (ids[self._firsts] % 2)
        score = 2 * (dense[0] - dense[1]) + signs.sum() / len(signs) ** 0.5
        clicked = uniform[-1] < 1 / (1 + np.exp(-score))
        return {
            "dense": dense.astype(np.float32),
            "ids": (ids + self._offsets).astype(np.int32),
            "labels": np.asarray(clicked, np.int32),
        }

    def _uniform(self, index: int) -> np.ndarray:
        """All uniform numbers of a record: float64 in [0, 1)."""
        count = len(self._numbers)
        bits = (self._numbers + np.uint64(index * count + 1)) * _GAMMA
        for shift, factor in _MIX:
            bits = (bits ^ (bits >> np.uint64(shift))) * factor
        bits ^= bits >> np.uint64(31)
        return (bits >> np.uint64(11)) * 2.0**-53
