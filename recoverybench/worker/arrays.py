"""How Orbax writes and reads the arrays of a checkpoint, with the job's options.

One module makes its handlers, for storage and for a node alike. `Arrays` reads as Orbax does
but for two things: how TensorStore reads files, and where an array is put in host memory.
"""

from __future__ import annotations

import asyncio
import mmap
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import jax
import numpy as np
import orbax.checkpoint as ocp
import tensorstore as ts
from orbax.checkpoint._src.metadata.array_metadata_store import Store
from orbax.checkpoint._src.serialization import tensorstore_utils
from orbax.checkpoint._src.serialization.type_handler_registry import (
    create_type_handler_registry,
)

from recoverybench.protocol import CheckpointOptions
from recoverybench.worker.straight import Part, Plain


def handler_of(
    options: CheckpointOptions,
    processes: ocp.options.MultiprocessingOptions,
    arrays: ocp.type_handlers.ArrayHandler | None = None,
) -> ocp.PyTreeCheckpointHandler:
    """What writes and reads the item ``state``.

    Args:
        options: of the job. processes: those that save together.
        arrays: handler of `jax.Array`; None: `Arrays`, as Orbax sets up its own but for the
            options.
    """
    if arrays is None:
        arrays = Arrays(options)
    gigabytes = None if options.concurrent is None else options.concurrent // 10**9
    return ocp.PyTreeCheckpointHandler(
        use_ocdbt=options.ocdbt,
        use_compression=options.compression,
        use_zarr3=options.zarr == 3,
        save_concurrent_gb=gigabytes,
        restore_concurrent_gb=gigabytes,
        multiprocessing_options=processes,
        type_handler_registry=create_type_handler_registry(
            (jax.Array, arrays), (np.ndarray, ocp.type_handlers.NumpyHandler())
        ),
    )


def saving(options: CheckpointOptions, state: Mapping[str, jax.Array]) -> ocp.args.PyTreeSave:
    """The arguments of a save."""
    how = None
    if options.chunk is not None:
        how = {name: ocp.SaveArgs(chunk_byte_size=options.chunk) for name in state}
    return ocp.args.PyTreeSave(dict(state), save_args=how)


class Arrays(ocp.type_handlers.ArrayHandler):  # type: ignore[misc]  # untyped
    """Reads `jax.Array` with the job's options. See the module.

    Args:
        options: of the job.
    """

    def __init__(self, options: CheckpointOptions) -> None:
        super().__init__(
            use_replica_parallel=options.replica_parallel, array_metadata_store=Store()
        )
        self._straight = options.straight
        self._context = None if options.io == "buffered" else _context(options.io)

    async def deserialize(
        self, infos: Sequence[Any], args: Sequence[Any] | None = None
    ) -> Sequence[jax.Array]:
        """See Orbax's `TypeHandler`."""
        if self._context is not None:
            infos = [info.replace(ts_context=self._context) for info in infos]
        if not self._straight or args is None:
            read: Sequence[jax.Array] = await super().deserialize(infos, args)
            return read
        with ThreadPoolExecutor(THREADS) as threads:
            return await asyncio.gather(
                *(_read(info, arg, threads) for info, arg in zip(infos, args, strict=True))
            )


def _context(mode: str) -> ts.Context:
    """Orbax's context of TensorStore (`tensorstore_utils.get_ts_context`), and how it reads files
    (TensorStore's ``Context.file_io_mode``).
    """
    return ts.Context(
        {
            "file_io_concurrency": {"limit": 128},
            "cache_pool#ocdbt": {"total_bytes_limit": 100_000_000},
            "file_io_mode": {"mode": mode},
        }
    )


THREADS = 2
"""That read files straight: as of the raw read that a restore is compared with."""


async def _read(info: Any, arg: Any, threads: ThreadPoolExecutor) -> jax.Array:
    """One array, each of this worker's parts read once into memory that the device can use.

    Raises:
        ValueError: it has another shape than was asked for.
    """
    plain = None
    if not info.is_ocdbt_checkpoint:
        plain = Plain.at(Path(info.parent_dir) / info.name)
        if plain is not None and arg.dtype is not None and plain.dtype != arg.dtype:
            plain = None
    spec = tensorstore_utils.build_array_read_spec(
        info,
        use_ocdbt=info.is_ocdbt_checkpoint,
        raise_array_data_missing_error=info.raise_array_data_missing_error,
        target_dtype=arg.dtype,
    )
    store = await ts.open(spec.json, open=True, context=info.ts_context)
    shape = tuple(arg.global_shape or store.shape)
    if shape != tuple(store.shape):
        raise ValueError(f"{info.name} has the shape {tuple(store.shape)}, expected {shape}")
    homes: dict[Part, list[jax.Device]] = {}
    for device, index in arg.sharding.addressable_devices_indices_map(shape).items():
        sizes = zip(index, shape, strict=True)
        part = tuple(piece.indices(size)[:2] for piece, size in sizes)
        homes.setdefault(part, []).append(device)
    placed: dict[jax.Device, jax.Array] = {}

    async def fetch(part: Part, devices: list[jax.Device]) -> None:
        memory, buffer = _aligned([e - b for b, e in part], store.dtype.numpy_dtype)
        reads = None if plain is None else plain.reads(part)
        if reads is not None:
            loop = asyncio.get_running_loop()
            view = memoryview(memory)
            await asyncio.gather(*(loop.run_in_executor(threads, r.into, view) for r in reads))
        else:
            wanted = store[tuple(slice(*bounds) for bounds in part)] if part else store
            await ts.array(buffer).write(wanted[ts.d[:].translate_to[0]] if part else wanted)
        for device in devices:
            placed[device] = jax.device_put(buffer, device)

    await asyncio.gather(*(fetch(part, devices) for part, devices in homes.items()))
    return jax.make_array_from_single_device_arrays(shape, arg.sharding, list(placed.values()))


def _aligned(shape: Sequence[int], dtype: np.dtype) -> tuple[mmap.mmap, np.ndarray]:
    """An array that begins at a page: the CPU backend takes one at a multiple of 64 bytes as it
    is, and copies any other. `np.empty` of a large array begins 16 bytes into a page.
    """
    size = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
    # Private: what is shared gets no huge pages.
    memory = mmap.mmap(-1, max(size, 1), mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    if size >= 1 << 21 and hasattr(mmap, "MADV_HUGEPAGE"):
        memory.madvise(mmap.MADV_HUGEPAGE)
    return memory, np.ndarray(tuple(shape), dtype, memory)
