"""Between the devices and host memory, without a collective and without a compilation."""

from __future__ import annotations

from collections.abc import Mapping

import jax
import numpy as np

from recoverybench.worker.program import Shardings


def to_host(arrays: Mapping[str, jax.Array]) -> dict[str, np.ndarray]:
    """Copies of arrays that are whole on every device.

    Real copies: on CPU a plain conversion is a view of a buffer that the next step overwrites.
    """
    here = {name: array.addressable_data(0) for name, array in arrays.items()}
    for array in here.values():
        array.copy_to_host_async()
    return {name: np.array(array, copy=True) for name, array in here.items()}


def to_devices(arrays: Mapping[str, np.ndarray], places: Shardings) -> dict[str, jax.Array]:
    """Arrays that are whole on every device of the mesh; every worker must hold the same.

    `jax.device_put` onto a sharding that spans workers first compares what they put, by a
    collective that has to be compiled; put device by device, nothing is compiled.
    """
    sharding = places.replicated
    devices = list(sharding.addressable_devices)
    placed: dict[str, jax.Array] = {
        name: jax.make_array_from_single_device_arrays(
            array.shape, sharding, [jax.device_put(array, device) for device in devices]
        )
        for name, array in arrays.items()
    }
    jax.block_until_ready(placed)
    return placed
