"""Getting the state back where not every worker has it: agree on a step, and share it.

Every worker says which steps it has and all see the same list, so all go through the same
candidates, newest first, without a word more. Of a candidate that some workers hold, each of
these gives it to its share of the others. A candidate that one worker cannot use is given up
by all, and the next is tried; each is tried once.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

import jax

from recoverybench.worker.program import Shardings, Signature
from recoverybench.worker.sharing.exchange import Exchange, own_host
from recoverybench.worker.sharing.host import to_devices
from recoverybench.worker.sharing.transfer import (
    Donor,
    HostState,
    TransferError,
    receive,
)
from recoverybench.worker.states.base import Part, Restored

_STORAGE = "storage"


class Tier(Protocol):
    """What this worker has at hand, in its memory or on its node.

    Attributes:
        name: ``memory`` or ``local``: how a state from there is called in the results.
    """

    @property
    def name(self) -> str:
        """Of the tier."""

    def steps(self) -> list[int]:
        """Steps that it has."""

    def load(self, step: int, signature: Signature) -> HostState:
        """One of them; raises where it cannot be used."""

    def take(self, state: HostState) -> None:
        """Another worker gave this state, and all use it."""


class Memory:
    """One state in this process's memory, which outlives the generation (see `Part.keep`).

    Args:
        keep: of this process. key: under which the state lies there.
    """

    name = "memory"

    def __init__(self, keep: dict[str, Any], key: str) -> None:
        self._keep = keep
        self._key = key

    def take(self, state: HostState) -> None:
        """Keep this state, in the place of the one before."""
        self._keep[self._key] = state

    def clear(self) -> None:
        """Keep nothing."""
        self._keep.pop(self._key, None)

    def steps(self) -> list[int]:
        """See `Tier`."""
        return [self._keep[self._key].step] if self._key in self._keep else []

    def load(self, step: int, signature: Signature) -> HostState:
        """See `Tier`."""
        state: HostState = self._keep[self._key]
        assert state.step == step
        return state


class Persistent(Protocol):
    """The storage behind it, which every worker sees."""

    def steps(self) -> list[int]:
        """Steps that seem to be there."""

    def load(
        self, step: int, signature: Signature, places: Shardings
    ) -> tuple[dict[str, jax.Array], dict[str, Any]]:
        """All workers together: (state on the devices, data). Raises where it cannot be used."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A step that may come back.

    Attributes:
        step: the step. holders: workers that have it at hand, by index; empty: it is on storage.
    """

    step: int
    holders: tuple[int, ...]


def candidates(held: Sequence[Sequence[int]], stored: Sequence[int]) -> list[Candidate]:
    """What to try in turn: newest first, and of one step what is at hand before storage.

    Args:
        held: the steps of each worker, by index. stored: the steps on storage.
    """
    steps = sorted({step for steps in held for step in steps}, reverse=True)
    shared = [
        Candidate(step, tuple(i for i, steps in enumerate(held) if step in steps)) for step in steps
    ]
    found = [*shared, *(Candidate(step, ()) for step in stored)]
    return sorted(found, key=lambda c: (-c.step, not c.holders))


def donor_of(receiver: int, holders: Sequence[int], world: int) -> int:
    """Which holder gives to a worker that has nothing: they take turns."""
    without = [index for index in range(world) if index not in holders]
    return holders[without.index(receiver) % len(holders)]


class Recovery:
    """One worker's part in getting the state back in one generation.

    Args:
        part: see `Part`. tier: what this worker has. persistent: what is behind it, or None.
        exchange: to the other workers.
    """

    def __init__(
        self, part: Part, tier: Tier, persistent: Persistent | None, exchange: Exchange
    ) -> None:
        self._part = part
        self._journal = part.journal
        self._tier = tier
        self._persistent = persistent
        self._exchange = exchange

    def restore(self, signature: Signature, places: Shardings) -> Restored:
        """The newest state that every worker can have."""
        tried: list[tuple[int, str]] = []
        for candidate in self._candidates():
            name = self._tier.name if candidate.holders else _STORAGE
            problem, found = None, None
            try:
                found = self._try(candidate, signature, places)
                if found.data.get("step") != candidate.step:
                    problem = f"it holds the data position of step {found.data.get('step')}"
            except Exception as error:  # whatever is wrong with it, an older one may do
                line = (str(error).splitlines() or [""])[0][:200]
                problem = f"{type(error).__name__}: {line}"
            with self._journal.span("agree on the state"):
                all_well = self._part.agree(f"{name}/{candidate.step}", problem is None)
            if all_well and found is not None:
                if found.given is not None:
                    self._tier.take(found.given)
                received = found.given.nbytes if found.given is not None else 0
                return Restored(
                    candidate.step, found.state, found.data, tuple(tried), found.tier, received
                )
            tried.append((candidate.step, f"{name}: {problem or 'another worker failed'}"))
        return Restored(None, {}, {}, tuple(tried))

    def _candidates(self) -> list[Candidate]:
        with self._journal.span("list what is there"):
            mine = {"held": self._tier.steps(), "stored": []}
            if self._persistent is not None and self._exchange.index == 0:
                mine["stored"] = self._persistent.steps()
        with self._journal.span("agree on what there is"):
            said = [json.loads(text) for text in self._exchange.gather("held", json.dumps(mine))]
        # One worker's list of the storage, so that all have the same.
        return candidates([each["held"] for each in said], said[0]["stored"])

    def _try(self, candidate: Candidate, signature: Signature, places: Shardings) -> _Found:
        step, me = candidate.step, self._exchange.index
        if not candidate.holders:
            assert self._persistent is not None
            with self._journal.span("read the checkpoint"):
                state, data = self._persistent.load(step, signature, places)
                jax.block_until_ready(state)
            return _Found(_STORAGE, state, data, None)
        if me in candidate.holders:
            with self._given(candidate, signature) as held:
                state = self._placed(held, signature, places)
            return _Found(self._tier.name, state, held.data, None)
        given = self._fetched(candidate, signature)
        return _Found("peer", self._placed(given, signature, places), given.data, given)

    def _placed(
        self, state: HostState, signature: Signature, places: Shardings
    ) -> dict[str, jax.Array]:
        with self._journal.span("put the state onto the devices"):
            return to_devices(state.arrays, signature, places)

    @contextmanager
    def _given(self, candidate: Candidate, signature: Signature) -> Iterator[HostState]:
        """This worker's own copy; while the caller uses it, it is given to others."""
        exchange, key = self._exchange, f"donor/{candidate.step}"
        receivers = sum(
            donor_of(index, candidate.holders, exchange.world) == exchange.index
            for index in range(exchange.world)
            if index not in candidate.holders
        )
        donor: Donor | None = None
        try:
            with self._journal.span(f"read the state ({self._tier.name})"):
                held = self._tier.load(candidate.step, signature)
            if receivers:
                donor = Donor(held, own_host(self._part.place.coordinator), receivers)
        finally:
            if receivers:
                offer = {"address": donor.address, "token": donor.token} if donor else None
                exchange.put(key, json.dumps(offer))
        try:
            yield held
            if donor is not None:
                with self._journal.span("give the state to others"):
                    problems = donor.wait(self._part.spec.init_timeout_s)
                if problems:
                    raise TransferError(problems[0])
        finally:
            if donor is not None:
                donor.close()

    def _fetched(self, candidate: Candidate, signature: Signature) -> HostState:
        donor = donor_of(self._exchange.index, candidate.holders, self._exchange.world)
        with self._journal.span("wait for a donor"):
            offer = json.loads(self._exchange.get(f"donor/{candidate.step}", donor))
        if offer is None:
            raise TransferError(f"worker {donor} cannot use its own copy")
        with self._journal.span("receive the state"):
            given = receive(offer["address"], offer["token"], signature.leaves)
        if given.step != candidate.step:
            raise TransferError(f"worker {donor} gave step {given.step}")
        return given


@dataclass(frozen=True, slots=True)
class _Found:
    """A state on the devices, where it came from, and what another worker gave for it."""

    tier: str
    state: dict[str, jax.Array]
    data: dict[str, Any]
    given: HostState | None
