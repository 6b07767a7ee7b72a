"""Checkpoints that one process writes alone, of a state that all processes have.

Orbax, told that a process is on its own: its handlers take the first process for the one that
writes, unless each is told otherwise, and of an array that every process has only the first
copy is written. Nobody is waited for. A step is committed by a rename, as on storage.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import jax
import numpy as np
import orbax.checkpoint as ocp

from recoverybench.protocol import CheckpointOptions
from recoverybench.worker import arrays
from recoverybench.worker.checkpoint import Checkpoints
from recoverybench.worker.program import Signature


class NodeCheckpoints(Checkpoints):
    """The checkpoints of one process in one generation, in a directory of its own.

    Args:
        directory: on the node of this process; it is there already.
        index: of this process.
        timeout_s: how long a save may take.
        committed: called with a step once it is durable, from Orbax's thread.
        newest: how many are left there.
        options: as of `Checkpoints`; how replicas share the work, how files are read and where
            to, is of the storage alone.
    """

    def __init__(
        self,
        directory: Path,
        index: int,
        timeout_s: float,
        committed: Callable[[int], object],
        newest: int,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        self._saving = 0
        self._format = CheckpointOptions(**(options or {}))
        alone = ocp.options.MultiprocessingOptions(
            primary_host=index, active_processes={index}, barrier_sync_key_prefix=f"node{index}"
        )
        whole = ocp.type_handlers.ArrayHandler(
            primary_host=index, replica_id=None, use_replica_parallel=False
        )
        self._manager = ocp.CheckpointManager(
            directory,
            item_handlers={
                "state": arrays.handler_of(self._format, alone, whole),
                "data": ocp.JsonCheckpointHandler(multiprocessing_options=alone),
            },
            options=self._options(alone, timeout_s, committed, newest),
        )

    def save(self, step: int, state: Mapping[str, jax.Array], data: Mapping[str, Any]) -> bool:
        """See `Checkpoints.save`."""
        self._manager.wait_until_finished()
        self._saving = step
        begun: bool = self._manager.save(
            step,
            args=ocp.args.Composite(
                state=arrays.saving(self._format, state),
                data=ocp.args.JsonSave(dict(data)),
            ),
        )
        return begun

    def read(self, step: int, signature: Signature) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """Read a step into host memory: (leaves by name, the data item).

        Raises:
            ValueError: it holds leaves of other shapes or dtypes.
        """
        target = {
            leaf.name: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype) for leaf in signature.leaves
        }
        into = {name: ocp.RestoreArgs(restore_type=np.ndarray) for name in target}
        item = self._manager.restore(
            step,
            args=ocp.args.Composite(
                state=ocp.args.PyTreeRestore(target, restore_args=into),
                data=ocp.args.JsonRestore(),
            ),
        )
        for name, array in item["state"].items():
            found, wanted = (array.shape, array.dtype), (target[name].shape, target[name].dtype)
            if found != wanted:
                raise ValueError(f"{name} is {found}, expected {wanted}")
        return dict(item["state"]), item["data"]
