"""Between the devices and host memory, without a collective and without a compilation."""

from __future__ import annotations

from collections.abc import Mapping

import jax
import numpy as np
from jax.sharding import NamedSharding

from recoverybench.worker.program import Shardings, Signature


def to_host(arrays: Mapping[str, jax.Array]) -> dict[str, np.ndarray]:
    """Copies of arrays that this process's devices have whole: each, or all together.

    Real copies: on CPU a plain conversion is a view of a buffer that the next step overwrites.
    """
    for array in arrays.values():
        for shard in array.addressable_shards:
            shard.data.copy_to_host_async()
    return {name: _whole(array) for name, array in arrays.items()}


def _placed(array: np.ndarray, sharding: NamedSharding) -> jax.Array:
    parts = sharding.addressable_devices_indices_map(array.shape)
    return jax.make_array_from_single_device_arrays(
        array.shape,
        sharding,
        [jax.device_put(array[index], device) for device, index in parts.items()],
    )


def _whole(array: jax.Array) -> np.ndarray:
    if array.is_fully_replicated:
        return np.array(array.addressable_data(0), copy=True)
    whole = np.empty(array.shape, array.dtype)
    for shard in array.addressable_shards:
        whole[shard.index] = np.asarray(shard.data)
    return whole


def to_devices(
    arrays: Mapping[str, np.ndarray], signature: Signature, places: Shardings
) -> dict[str, jax.Array]:
    """Whole arrays to where the mesh wants them; every worker must hold the same ones.

    `jax.device_put` onto a sharding that spans workers first compares what they put, by a
    collective that has to be compiled; put device by device, nothing is compiled.
    """
    homes = {leaf.name: places.of_leaf(leaf) for leaf in signature.leaves}
    placed: dict[str, jax.Array] = {
        name: _placed(array, homes[name]) for name, array in arrays.items()
    }
    jax.block_until_ready(placed)
    return placed
