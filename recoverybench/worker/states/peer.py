"""The live state of a surviving worker: nothing is saved, and at most one step is lost.

Every worker has the whole state on its devices (the workers are data-parallel replicas). While
the job is healthy nothing is copied. When a generation fails, each survivor copies its state
as of the last step that it completed to host memory, before the dead runtime is closed, and the
newest such state is streamed to whoever lacks it: the replacement, and survivors that failed
in an earlier step.

The price is paid in every step: it is compiled so that it does not overwrite the state that it
is given, since a failed step would leave a survivor with nothing. The devices hold the state
twice while a step runs. Nothing is left when no worker survives.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax
from jax._src.distributed import global_state

from recoverybench.worker.digest import digest
from recoverybench.worker.program import Shardings, Signature
from recoverybench.worker.sharing.exchange import Exchange
from recoverybench.worker.sharing.host import to_host
from recoverybench.worker.sharing.tiers import Memory, Recovery
from recoverybench.worker.sharing.transfer import HostState
from recoverybench.worker.states.base import Part, Restored

SURVIVES = "process"
"""What has to be left after a failure: a process that trained."""

KEEPS_OLD_STATE = True
"""A step must not overwrite the state that it is given."""

_KEPT = "peer"


class Peer:
    """See `states.base.StateSource`."""

    def __init__(self, part: Part) -> None:
        self._part = part
        self._journal = part.journal
        self._memory = Memory(part.keep, _KEPT)
        self._names: list[str] = []
        self._live: tuple[int, list[jax.Array], dict[str, Any]] | None = None

    def save(
        self,
        step: int,
        state: Mapping[str, jax.Array],
        data: Mapping[str, Any],
        *,
        durable: bool = False,
    ) -> None:
        """Nothing: the state is where it is."""

    def restore(self, signature: Signature, places: Shardings) -> Restored:
        """The newest state that a worker left the last generation with."""
        exchange = Exchange.of(self._part, global_state.client)
        return Recovery(self._part, self._memory, None, exchange).restore(signature, places)

    def completed(
        self, step: int, names: list[str], leaves: list[jax.Array], data: Mapping[str, Any]
    ) -> None:
        """Hold on to this state until the next step is completed."""
        if self._live is None:
            # The others have the restored state, too: its copy on the host has done its work.
            self._memory.clear()
        self._names, self._live = names, (step, leaves, dict(data))

    def finish(self) -> None:
        """Nothing to wait for."""

    def abandon(self) -> list[str]:
        """Copy the state to the host, before its backend is gone."""
        if self._live is None:  # no step was completed: what was restored is still there
            return []
        (step, leaves, data), self._live = self._live, None
        try:
            with self._journal.span("copy the state to the host"):
                arrays = to_host(dict(zip(self._names, leaves, strict=True)))
        except Exception as error:  # this worker has nothing to give; another one may
            return [f"the state after step {step} is lost: {type(error).__name__}: {error}"]
        self._memory.take(HostState(step, arrays, data))
        with self._journal.span("verify"):
            self._journal.log(
                "digest", what="saved", step=step, digest=digest(arrays), leaves=len(arrays)
            )
        return []


def create(part: Part) -> Peer:
    """Open this worker's part for one generation."""
    return Peer(part)
