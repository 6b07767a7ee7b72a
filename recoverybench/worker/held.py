"""What of the state this worker holds: copies of its own parts, their digests and their norms.

Where every worker has the whole state, its digest is that of the state. Where the mesh splits
it, a worker digests what it has, and by itself what it is the first to have; whoever reads all
workers' journals adds the latter up to the digest of the whole.
"""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from recoverybench.worker.digest import Piece, digest_of_pieces


@dataclass(frozen=True, slots=True)
class Held:
    """Parts of a state in host memory.

    Attributes:
        pieces: each part once, whatever number of this worker's devices has it.
        owned: for each of them, whether this worker is the first that has it.
    """

    pieces: tuple[Piece, ...]
    owned: tuple[bool, ...]

    @classmethod
    def of(cls, names: Sequence[str], leaves: Sequence[jax.Array], *, copy: bool) -> Held:
        """This worker's parts of these leaves.

        Args:
            names: of the leaves.
            copy: real copies; else they may be views of buffers that the next step overwrites.
        """
        pieces: list[Piece] = []
        owned: list[bool] = []
        for name, leaf in zip(names, leaves, strict=True):
            seen: dict[tuple[int, ...], int] = {}
            for shard in leaf.addressable_shards:
                start = tuple(part.start or 0 for part in shard.index)
                if start not in seen:
                    array = np.array(shard.data, copy=True) if copy else np.asarray(shard.data)
                    seen[start] = len(pieces)
                    pieces.append(Piece(name, tuple(leaf.shape), start, array))
                    owned.append(False)
                owned[seen[start]] |= shard.replica_id == 0
        return cls(tuple(pieces), tuple(owned))

    @property
    def whole(self) -> bool:
        """This worker has all of every leaf, in one piece or in several."""
        here: Counter[str] = Counter()
        for piece in self.pieces:
            here[piece.name] += piece.array.size
        return all(here[piece.name] == math.prod(piece.shape) for piece in self.pieces)

    def described(self) -> dict[str, Any]:
        """Fields of a ``digest`` line: ``digest`` and ``leaves``, and where this worker has only
        parts, ``holds`` (names the parts) and ``owned`` (digest of those it is the first with).
        """
        fields: dict[str, Any] = {
            "digest": digest_of_pieces(self.pieces),
            "leaves": len({piece.name for piece in self.pieces}),
        }
        if not self.whole:
            fields["holds"] = self._identity()
            fields["owned"] = digest_of_pieces(self._own())
        return fields

    def squares(self) -> list[float]:
        """Sum of squares of every leaf, in the order of their names (float64).

        Of whole leaves, or of the parts that this worker is the first with. What is compared
        where bits cannot be equal: after steps on another topology.
        """
        pieces = self.pieces if self.whole else self._own()
        sums = dict.fromkeys(sorted({piece.name for piece in self.pieces}), 0.0)
        for piece in pieces:
            flat = np.asarray(piece.array, np.float64).reshape(-1)
            sums[piece.name] += float(flat @ flat)
        return list(sums.values())

    def _own(self) -> list[Piece]:
        return [piece for piece, mine in zip(self.pieces, self.owned, strict=True) if mine]

    def _identity(self) -> str:
        text = repr([(p.name, p.start, p.array.shape) for p in self.pieces])
        return hashlib.blake2b(text.encode(), digest_size=4).hexdigest()
