"""This process's own copy of a parameter that every process has: choose one, and change it."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import jax
import numpy as np

if TYPE_CHECKING:
    from recoverybench.worker.steps import Loop

PARAMETERS = "params."
"""How the names of parameters begin, among the leaves of a state."""


@dataclass(frozen=True, slots=True)
class Chosen:
    """One bit of the parameters.

    Attributes:
        leaf: index of the leaf. byte: in C order of this process's first part of it.
        bit: 0 (the lowest) to 7.
    """

    leaf: int
    byte: int
    bit: int


def choose(loop: Loop, seed: int) -> Chosen:
    """A bit of the parameters, each as likely as any other.

    Raises:
        RuntimeError: the state has no parameters of floating point numbers.
    """
    chance = random.Random(seed)
    sizes = {
        index: leaf.addressable_data(0).nbytes
        for index, (name, leaf) in enumerate(zip(loop.names, loop.leaves, strict=True))
        if name.startswith(PARAMETERS) and np.issubdtype(leaf.dtype, np.floating) and leaf.nbytes
    }
    if not sizes:
        raise RuntimeError(f"no leaf of the state is called {PARAMETERS}… and holds floats")
    at = chance.randrange(sum(sizes.values()))
    for index, size in sizes.items():
        if at < size:
            return Chosen(index, at, chance.randrange(8))
        at -= size
    raise AssertionError("unreachable")


def mine(leaf: jax.Array) -> np.ndarray:
    """A copy of this process's first replica of it, on the host."""
    return np.array(leaf.addressable_data(0), copy=True)


def change(loop: Loop, index: int, do: Callable[[np.ndarray], object]) -> None:
    """Change every replica of a leaf that this process holds, and no other process's.

    Args:
        loop: the training loop. index: of the leaf.
        do: changes the array that it is given, in place.
    """
    leaf = loop.leaves[index]
    parts = []
    for shard in leaf.addressable_shards:
        array = np.array(shard.data, copy=True)
        do(array)
        parts.append(jax.device_put(array, shard.device))
    loop.leaves[index] = jax.make_array_from_single_device_arrays(leaf.shape, leaf.sharding, parts)
