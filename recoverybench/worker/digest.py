"""A digest of a state that parts of it can be added up to: equal digests mean equal bits.

Every element of a leaf is taken as an unsigned number and multiplied with an odd factor of its
place; all products are summed modulo 2**64, and so are the leaves. Which worker or device holds
which part makes no difference: the digests of the parts add up to that of the whole, so that a
state is known again on another topology. An element that differs in a bit changes the sum, as
an odd factor loses no bit; two changes cancel out by chance in one of 2**64 cases. It is no
protection against somebody who wants them to.

The factor of a place is the product of one factor for each of its coordinates, which takes a
table a dimension, not one of the size of the leaf.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

_BLOCK = 1 << 18
"""Elements that are worked on at once: 2 MB as uint64, which stay in a core's cache."""

_MASK = (1 << 64) - 1


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a leaf, in host memory.

    Attributes:
        name: of the leaf. shape: of the whole leaf.
        start: coordinates in it of the piece's first element.
        array: the piece.
    """

    name: str
    shape: tuple[int, ...]
    start: tuple[int, ...]
    array: np.ndarray


def digest(leaves: Mapping[str, np.ndarray]) -> str:
    """The digest of whole leaves (16 hex digits).

    Args:
        leaves: name -> array on the host, any shape and dtype.
    """
    return digest_of_pieces(
        Piece(name, array.shape, (0,) * array.ndim, array) for name, array in leaves.items()
    )


def digest_of_pieces(pieces: Iterable[Piece]) -> str:
    """The digest of parts of leaves; those of disjoint parts add up (`add`)."""
    return f"{sum(_of_piece(piece) for piece in pieces) & _MASK:016x}"


def add(digests: Iterable[str]) -> str:
    """The digest of all parts together, from the digests of disjoint ones."""
    return f"{sum(int(each, 16) for each in digests) & _MASK:016x}"


def _of_piece(piece: Piece) -> int:
    array = np.ascontiguousarray(piece.array)
    kind = f"{piece.name}|{array.dtype.str}|{piece.shape}"
    if array.dtype.kind == "c":
        array = array.view(array.real.dtype).reshape(*array.shape, 2)
    words = array.view(np.dtype(f"u{array.dtype.itemsize}"))
    if words.ndim == 0:
        words = words.reshape(1)
    start = (*piece.start, *(0,) * (words.ndim - len(piece.start)))
    salts = np.frombuffer(hashlib.blake2b(kind.encode(), digest_size=64).digest(), np.uint64)
    factors = [
        _factors(begin, size, int(salts[axis % 7]) + axis)
        for axis, (begin, size) in enumerate(zip(start, words.shape, strict=True))
    ]
    total = _contracted(words, factors)
    # The leaf itself counts, also where it is all zeros or empty; once, however it is cut.
    return total + (int(salts[7]) if not any(piece.start) else 0)


def _contracted(words: np.ndarray, factors: list[np.ndarray]) -> int:
    """Sum of words times the factors of their coordinates, modulo 2**64."""
    if not words.size:
        return 0
    rows = words.reshape(-1, words.shape[-1])
    weights = factors[0] if len(factors) > 1 else np.ones(1, np.uint64)
    for axis in factors[1:-1]:
        weights = np.multiply.outer(weights, axis).reshape(-1)
    last, total = factors[-1], 0
    high, wide = max(1, _BLOCK // rows.shape[1]), min(_BLOCK, rows.shape[1])
    buffer = np.empty((high, wide), np.uint64)
    for top in range(0, len(rows), high):
        for left in range(0, rows.shape[1], wide):
            block = rows[top : top + high, left : left + wide]
            out = buffer[: block.shape[0], : block.shape[1]]
            out[...] = block
            sums = np.einsum("ij,j->i", out, last[left : left + wide])
            total += int((sums * weights[top : top + high]).sum(dtype=np.uint64))
    return total & _MASK


def _factors(begin: int, size: int, salt: int) -> np.ndarray:
    """Odd numbers for the coordinates from `begin` on (splitmix64 of the coordinate)."""
    z = np.arange(begin, begin + size, dtype=np.uint64) + np.uint64(salt & _MASK)
    z *= np.uint64(0x9E3779B97F4A7C15)
    z ^= z >> np.uint64(30)
    z *= np.uint64(0xBF58476D1CE4E5B9)
    z ^= z >> np.uint64(27)
    z *= np.uint64(0x94D049BB133111EB)
    z ^= z >> np.uint64(31)
    z |= np.uint64(1)
    return z
