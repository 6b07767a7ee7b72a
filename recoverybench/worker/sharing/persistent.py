"""The storage behind a faster tier: Orbax on the persistent path, opened once it is needed.

To open it is to wait for every worker, which a recovery that reads nothing there can do
without. All workers come to a save, and to a step that is only there, at the same point.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jax

from recoverybench.protocol import JobSpec
from recoverybench.worker.checkpoint import Checkpoints
from recoverybench.worker.program import Shardings, Signature
from recoverybench.worker.states.base import Part

DRAIN_S = 3.0
"""How long a dying save's threads may take to end before they are reported."""


class PersistentTier:
    """See `tiers.Persistent`."""

    def __init__(self, part: Part) -> None:
        self._part = part
        self._checkpoints: Checkpoints | None = None

    def steps(self) -> list[int]:
        """Steps whose directories are there, newest first: what Orbax calls all steps."""
        names = (entry.name for entry in Path(self._part.spec.checkpoints).iterdir())
        return sorted((int(name) for name in names if name.isdecimal()), reverse=True)

    def save(self, step: int, state: Mapping[str, jax.Array], data: Mapping[str, Any]) -> None:
        """Begin an asynchronous save; every worker calls it."""
        self._opened().save(step, state, data)

    def load(
        self, step: int, signature: Signature, places: Shardings
    ) -> tuple[dict[str, jax.Array], dict[str, Any]]:
        """See `tiers.Persistent`."""
        return self._opened().restore(step, signature, places)

    def finish(self) -> None:
        """Wait until what was saved is durable."""
        if self._checkpoints is not None:
            self._checkpoints.finish()

    def abandon(self) -> list[str]:
        """Drain what is in flight; returns errors, which the failure explains."""
        return [] if self._checkpoints is None else self._checkpoints.abandon(DRAIN_S)

    def _opened(self) -> Checkpoints:
        if self._checkpoints is None:
            journal, spec = self._part.journal, self._part.spec
            with journal.span("open the checkpoint manager"):
                self._checkpoints = Checkpoints(
                    Path(spec.checkpoints),
                    spec.init_timeout_s,
                    lambda step: journal.log("committed", step=step, tier="storage"),
                    spec.checkpoint,
                )
        return self._checkpoints


def due(step: int, spec: JobSpec) -> bool:
    """Whether the save at that step goes to the persistent tier: every `persist_every`-th does."""
    return step % (spec.interval * spec.persist_every) == 0
