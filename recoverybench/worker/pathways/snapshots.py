"""Orbax's Snapshotter as a state source: copies of the state in each slice's pinned host memory.

A copy of the state lies with every device that has one, in the memory of that device's host.
After the loss of a slice, the copies of the other slices are put together on the new mesh.
A copy in memory is not durable, so nothing is ever committed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import jax
from orbax.checkpoint.experimental.v1._src.training.pathways.snapshotter import Snapshotter

from recoverybench.journal_writer import Journal
from recoverybench.worker.checkpoint import in_short
from recoverybench.worker.program import Shardings, Signature
from recoverybench.worker.states.base import Restored


class Snapshots:
    """See `states.base.StateSource`.

    Args:
        snapshotter: outlives the attempts, and the copies with it.
        journal: receives what happens.
    """

    def __init__(self, snapshotter: Snapshotter, journal: Journal) -> None:
        self._snapshotter = snapshotter
        self._journal = journal

    def save(
        self,
        step: int,
        state: Mapping[str, jax.Array],
        data: Mapping[str, Any],
        *,
        durable: bool = False,
    ) -> None:
        """Begin a copy; the Snapshotter leaves it out while the last one is not done."""
        with self._journal.span("save"):
            self._snapshotter.save(step, {"state": dict(state), "data": json.dumps(dict(data))})
        self._journal.log("save", step=step)

    def restore(self, signature: Signature, places: Shardings) -> Restored:
        """Put the copies that are left together."""
        latest = self._snapshotter.latest
        if latest is None:
            return Restored(None, {}, {}, ())
        target = {
            leaf.name: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=places.replicated)
            for leaf in signature.leaves
        }
        try:
            with self._journal.span("put the snapshot together"):
                found = self._snapshotter.load({"state": target, "data": ""})
                jax.block_until_ready(found["state"])
        except (RuntimeError, ValueError) as error:
            return Restored(None, {}, {}, ((latest.step, in_short(error)),))
        return Restored(latest.step, found["state"], json.loads(found["data"]), (), "memory")

    def completed(
        self, step: int, names: list[str], leaves: list[jax.Array], data: Mapping[str, Any]
    ) -> None:
        """Nothing: what counts is what was saved."""

    def finish(self) -> None:
        """Wait for the last copy."""
        with self._journal.span("wait for the last save"):
            self._snapshotter.join()

    def abandon(self) -> list[str]:
        """Nothing is in flight that could not go on."""
        return []
