"""A copy of the state in every worker's host memory, and storage behind it.

At every checkpoint interval each worker copies the state from its devices into its own memory,
while training waits; survivors keep the copy when they leave a failed generation. After a
failure the workers agree on the newest step that one of them holds, and who lacks it (a
replacement, or a survivor that failed before its own copy was made) gets it from one that does.

Every `persist_every`-th copy also goes to storage, asynchronously. Where no survivor is left
(the strategy ends every process, or all were killed), the state comes from there, older.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax
from jax._src.distributed import global_state

from recoverybench.worker.program import Shardings, Signature
from recoverybench.worker.sharing.exchange import Exchange
from recoverybench.worker.sharing.host import to_host
from recoverybench.worker.sharing.persistent import PersistentTier, due
from recoverybench.worker.sharing.tiers import Memory, Recovery
from recoverybench.worker.sharing.transfer import HostState
from recoverybench.worker.states.base import Part, Restored

SURVIVES = "storage"
"""What has to be left after a failure: the storage; a survivor has something newer."""

_KEPT = "snapshot"


class Snapshot:
    """See `states.base.StateSource`."""

    def __init__(self, part: Part) -> None:
        self._part = part
        self._journal = part.journal
        self._memory = Memory(part.keep, _KEPT)
        self._persistent = PersistentTier(part)

    def save(
        self,
        step: int,
        state: Mapping[str, jax.Array],
        data: Mapping[str, Any],
        *,
        durable: bool = False,
    ) -> None:
        """Copy the state to the host; every so often begin a save to storage as well."""
        with self._journal.span("save"):
            self._memory.take(HostState(step, to_host(state), dict(data)))
        if durable or due(step, self._part.spec):
            with self._journal.span("save to storage"):
                self._persistent.save(step, state, data)
        self._journal.log("save", step=step)

    def restore(self, signature: Signature, places: Shardings) -> Restored:
        """The newest step that a worker holds, or that is on storage."""
        exchange = Exchange.of(self._part, global_state.client)
        recovery = Recovery(self._part, self._memory, self._persistent, exchange)
        return recovery.restore(signature, places)

    def completed(
        self, step: int, names: list[str], leaves: list[jax.Array], data: Mapping[str, Any]
    ) -> None:
        """Nothing: what counts is what was saved."""

    def finish(self) -> None:
        """Wait for the last save to storage."""
        with self._journal.span("wait for the last save"):
            self._persistent.finish()

    def abandon(self) -> list[str]:
        """Drain what is in flight; the copy in memory stays."""
        with self._journal.span("drain the checkpoint manager"):
            return self._persistent.abandon()


def create(part: Part) -> Snapshot:
    """Open this worker's memory for one generation."""
    return Snapshot(part)
