"""What a state source does: keep the state while the job is healthy, give it back after."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import Any, Protocol, cast

import jax

from recoverybench.journal_writer import Journal
from recoverybench.protocol import JobSpec, Place
from recoverybench.worker.program import Shardings, Signature

Agree = Callable[[str, bool], bool]
"""(what, mine) -> whether every worker of the generation said True."""


@dataclass(frozen=True, slots=True)
class Restored:
    """A state that came back.

    Attributes:
        step: the step it belongs to; None: nothing could be restored.
        state: leaf name -> array, on every device of the mesh. Empty where `step` is None.
        data: the input pipeline's position.
        tried: steps that were tried in vain, each with the first line of its error.
        tier: where it came from: ``storage`` | ``local`` | ``memory`` | ``peer``; None: nowhere.
        received: bytes that this worker got from another one.
    """

    step: int | None
    state: dict[str, jax.Array]
    data: dict[str, Any]
    tried: tuple[tuple[int, str], ...]
    tier: str | None = None
    received: int = 0


@dataclass(frozen=True, slots=True)
class Part:
    """What a state source works with in one generation.

    Attributes:
        spec: the job. place: of this worker. journal: its journal.
        keep: what outlives the generation in this process: data on the host, no arrays of JAX.
        agree: see `Agree`.
    """

    spec: JobSpec
    place: Place
    journal: Journal
    keep: dict[str, Any]
    agree: Agree


class StateSource(Protocol):
    """One generation's access to a state source."""

    def save(
        self,
        step: int,
        state: Mapping[str, jax.Array],
        data: Mapping[str, Any],
        *,
        durable: bool = False,
    ) -> None:
        """Keep the state after `step`; may go on in the background.

        Args:
            durable: every process is about to end: whatever tiers there are, the state has to
                be on storage once `finish` returns.
        """

    def restore(self, signature: Signature, places: Shardings) -> Restored:
        """The newest state that every worker can have."""

    def completed(
        self, step: int, names: list[str], leaves: list[jax.Array], data: Mapping[str, Any]
    ) -> None:
        """A step is completed, and this is the state after it; called in every step.

        Args:
            names: of the leaves. leaves: what the next step is given, and may overwrite unless
                the source has `KEEPS_OLD_STATE`. data: as in `save`.
        """

    def finish(self) -> None:
        """Wait until everything that was saved is durable; raises what went wrong."""

    def abandon(self) -> list[str]:
        """Let go of everything after a failure; returns errors, which the failure explains."""


def load_source(name: str) -> ModuleType:
    """Import the state source of that name (``recoverybench/worker/states/NAME.py``)."""
    return importlib.import_module(f"{__package__}.{name.replace('-', '_')}")


def open_source(name: str, part: Part) -> StateSource:
    """One generation's access to the state source of that name (after the rendezvous)."""
    return cast(StateSource, load_source(name).create(part))
