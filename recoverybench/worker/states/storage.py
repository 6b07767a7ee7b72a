"""Orbax on a persistent path that every worker sees: asynchronous saves, newest step first."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jax

from recoverybench.worker.checkpoint import Checkpoints, in_short
from recoverybench.worker.program import Shardings, Signature
from recoverybench.worker.states.base import Part, Restored

SURVIVES = "storage"
"""What has to be left after a failure: the storage alone."""

DRAIN_S = 3.0
"""How long a dying save's threads may take to end before they are reported."""


class Storage:
    """See `states.base.StateSource`."""

    def __init__(self, part: Part) -> None:
        spec, self._journal, self._agree = part.spec, part.journal, part.agree
        journal = part.journal
        with journal.span("open the checkpoint manager"):
            self._checkpoints = Checkpoints(
                Path(spec.checkpoints),
                spec.init_timeout_s,
                lambda step: journal.log("committed", step=step),
                spec.checkpoint,
            )

    def save(
        self,
        step: int,
        state: Mapping[str, jax.Array],
        data: Mapping[str, Any],
        *,
        durable: bool = False,
    ) -> None:
        """Begin an asynchronous save."""
        with self._journal.span("save"):
            begun = self._checkpoints.save(step, state, data)
        if begun:
            self._journal.log("save", step=step)

    def restore(self, signature: Signature, places: Shardings) -> Restored:
        """Try the steps on the disk, newest first, until one works for every worker."""
        tried: list[tuple[int, str]] = []
        with self._journal.span("list the checkpoints"):
            steps = self._checkpoints.steps()
        for step in steps:
            problem: str | None = None
            state: dict[str, jax.Array] = {}
            data: dict[str, Any] = {}
            try:
                with self._journal.span("read the checkpoint"):
                    state, data = self._checkpoints.restore(step, signature, places)
                    jax.block_until_ready(state)
                if data.get("step") != step:
                    problem = f"it holds the data position of step {data.get('step')}"
            except Exception as error:  # whatever is wrong with a checkpoint, an older one may do
                problem = in_short(error)
            with self._journal.span("agree on the checkpoint"):
                all_well = self._agree(f"restore/{step}", problem is None)
            if all_well:
                return Restored(step, state, data, tuple(tried), "storage")
            tried.append((step, problem or "another worker could not read it"))
        return Restored(None, {}, {}, tuple(tried))

    def completed(
        self, step: int, names: list[str], leaves: list[jax.Array], data: Mapping[str, Any]
    ) -> None:
        """Nothing: what counts is what was saved."""

    def finish(self) -> None:
        """Wait for the last save."""
        with self._journal.span("wait for the last save"):
            self._checkpoints.finish()

    def abandon(self) -> list[str]:
        """Drain what is in flight."""
        with self._journal.span("drain the checkpoint manager"):
            return self._checkpoints.abandon(DRAIN_S)


def create(part: Part) -> Storage:
    """Open the storage of one generation (after the rendezvous: opening synchronises)."""
    return Storage(part)
