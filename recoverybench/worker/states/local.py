"""A directory of its own on every worker's node, and storage behind it: two tiers.

At every checkpoint interval each worker alone writes the whole state (the workers are
data-parallel replicas) into ``worker-RANK/`` on its own node, asynchronously and with nobody to
wait for; every `persist_every`-th save goes to persistent storage as well, by all workers
together. The newest two are kept on a node, all on storage.

A worker that is replaced has lost its directory with its node. Its replacement gets the state
over the network from a worker whose node is still there, so every node is a replica of every
other, and no save is sent anywhere. Where no node has anything that can be used, the state
comes from storage, older.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jax
from jax._src.distributed import global_state

from recoverybench.worker.node_checkpoint import NodeCheckpoints
from recoverybench.worker.program import Shardings, Signature
from recoverybench.worker.sharing.exchange import Exchange
from recoverybench.worker.sharing.persistent import DRAIN_S, PersistentTier, due
from recoverybench.worker.sharing.tiers import Recovery
from recoverybench.worker.sharing.transfer import HostState
from recoverybench.worker.states.base import Part, Restored

SURVIVES = "storage"
"""What has to be left after a failure: the storage; a node that is left has something newer."""

NEWEST = 2
"""Saves that are kept on a node: the last one that is whole, and one before it, should it not
be readable."""


class NodeTier:
    """What lies on this worker's node. See `tiers.Tier`."""

    name = "local"

    def __init__(self, part: Part) -> None:
        self._journal = part.journal
        directory = Path(part.spec.local) / f"worker-{part.place.rank}"
        directory.mkdir(parents=True, exist_ok=True)
        with self._journal.span("open the node's checkpoint manager"):
            self._checkpoints = NodeCheckpoints(
                directory,
                part.place.index,
                part.spec.init_timeout_s,
                lambda step: part.journal.log("committed", step=step, tier="local"),
                NEWEST,
                part.spec.checkpoint,
            )

    def save(self, step: int, state: Mapping[str, jax.Array], data: Mapping[str, Any]) -> None:
        """Begin an asynchronous save of this process's own copy."""
        self._checkpoints.save(step, state, data)

    def steps(self) -> list[int]:
        """See `tiers.Tier`."""
        return self._checkpoints.steps()

    def load(self, step: int, signature: Signature) -> HostState:
        """See `tiers.Tier`."""
        arrays, data = self._checkpoints.read(step, signature)
        return HostState(step, arrays, data)

    def take(self, state: HostState) -> None:
        """What another node gave is not written here: the next save is."""

    def finish(self) -> None:
        """Wait until what was saved is durable."""
        self._checkpoints.finish()

    def abandon(self) -> list[str]:
        """Drain what is in flight; returns errors, which the failure explains."""
        return self._checkpoints.abandon(DRAIN_S)


class Local:
    """See `states.base.StateSource`."""

    def __init__(self, part: Part) -> None:
        self._part = part
        self._journal = part.journal
        self._node = NodeTier(part)
        self._persistent = PersistentTier(part)

    def save(
        self,
        step: int,
        state: Mapping[str, jax.Array],
        data: Mapping[str, Any],
        *,
        durable: bool = False,
    ) -> None:
        """Begin a save on the node; every so often one to storage as well."""
        with self._journal.span("save"):
            self._node.save(step, state, data)
        if durable or due(step, self._part.spec):
            with self._journal.span("save to storage"):
                self._persistent.save(step, state, data)
        self._journal.log("save", step=step)

    def restore(self, signature: Signature, places: Shardings) -> Restored:
        """The newest step that a node has, or that is on storage."""
        exchange = Exchange.of(self._part, global_state.client)
        recovery = Recovery(self._part, self._node, self._persistent, exchange)
        return recovery.restore(signature, places)

    def completed(
        self, step: int, names: list[str], leaves: list[jax.Array], data: Mapping[str, Any]
    ) -> None:
        """Nothing: what counts is what was saved."""

    def finish(self) -> None:
        """Wait for the last saves."""
        with self._journal.span("wait for the last save"):
            self._node.finish()
            self._persistent.finish()

    def abandon(self) -> list[str]:
        """Drain what is in flight."""
        with self._journal.span("drain the checkpoint manager"):
            return [*self._persistent.abandon(), *self._node.abandon()]


def create(part: Part) -> Local:
    """Open the node's directory for one generation."""
    return Local(part)
