"""The training loop of one generation: steps, saves, and whatever interrupts them.

A loop ends in one of three ways: the last step is done; everybody was led out at the end of
a step, because the job is set up anew with another number of workers; or a preemption notice
came, and everybody has saved the same step and stopped.
"""

from __future__ import annotations

import math
import struct
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import jax
from jax._src.distributed import global_state

from recoverybench.journal_writer import Journal
from recoverybench.protocol import JobSpec, Place, StepsTold
from recoverybench.worker.breakages import base as breakages
from recoverybench.worker.channel import Channel
from recoverybench.worker.data import Batch, Pipeline
from recoverybench.worker.held import Held
from recoverybench.worker.program import Shardings
from recoverybench.worker.states.base import Agree, StateSource

End = Literal["done", "left", "suspended"]

_LEAVE = "recoverybench/leave"


class NonFinite(FloatingPointError):
    """The loss is not a number, or infinite."""


class ReplicasDiffer(RuntimeError):
    """The workers' copies of the state are not equal."""


@dataclass(slots=True)
class Loop:
    """What one worker trains with in one generation; also what a breakage gets hold of.

    Attributes:
        spec, place, journal, channel, board: of the job and this worker.
        step_fn: the compiled step. leaves: the state, replaced by every step.
        names: of the leaves. pipeline: the input, behind the last step. places: shardings.
        start: the step that the state belonged to at first.
        source: keeps the state. agree: see `states.base.Agree`.
        running: called once the first step is completed.
        before_step: called before each step; a breakage may set it.
        next_batch: gives the next batch. first_step_done: called when the first loss is there.
    """

    spec: JobSpec
    place: Place
    journal: Journal
    channel: Channel
    board: StepsTold
    step_fn: Any
    leaves: list[jax.Array]
    names: list[str]
    pipeline: Pipeline
    places: Shardings
    start: int
    source: StateSource
    agree: Agree
    running: Callable[[], None]
    next_batch: Callable[[], Batch]
    first_step_done: Callable[[], None]
    before_step: Callable[[], None] = lambda: None
    _saves: int = 0
    _leaving: int | None = None

    def run(self) -> End:
        """Train. Raises whatever a collective or the storage raises."""
        for step in range(self.start + 1, self.spec.steps + 1):
            if step == self.start + 1:
                self.hold("first_step", step)
            self.hold(f"step:{step}", step)
            self._heed(step)
            self._one(step)
            if step == self.start + 1:
                self.running()
            if self._noticed(step):
                return self._suspend(step)
            if step == self.spec.steps:
                break
            if self._led_out(step):
                return self._leave(step)
            if step % self.spec.interval == 0:
                self._save(step)
        self._final()
        return "done"

    def state(self) -> dict[str, jax.Array]:
        """The state by name."""
        return dict(zip(self.names, self.leaves, strict=True))

    def hold(self, point: str, step: int) -> None:
        """Stop here, if this is where the supervisor wants it, until it says otherwise."""
        hold_at(self.channel, self.place, point, step, self)

    def strike(self, order: Mapping[str, Any]) -> None:
        """Carry out a ``break`` order."""
        breakages.load(str(order["what"])).strike(self, order.get("argument"))

    # One step

    def _one(self, step: int) -> None:
        t0 = time.monotonic_ns()
        try:
            self.before_step()
            self.board.begin(self.place.rank, step)
            loss, samples = self._advance()
            if not math.isfinite(loss):
                raise NonFinite(f"the loss of step {step} is {loss}")
        except Exception:
            self.journal.log("span", name="step, in vain", t0=t0)
            raise
        t = time.monotonic_ns()
        if step == self.start + 1:
            self.journal.log("first_step", t)
            self.first_step_done()
        bits = struct.pack(">f", loss).hex()
        self.journal.log("step", t, step=step, loss=loss, loss_bits=bits, samples=samples, t0=t0)
        self.board.complete(self.place.rank, step)
        self.source.completed(step, self.names, self.leaves, self._data(step))

    def _advance(self) -> tuple[float, list[int]]:
        """One update; returns once the loss is on the host: (loss, this worker's sample ids)."""
        batch = self.next_batch()
        arrays = {
            name: jax.make_array_from_process_local_data(
                self.places.rows, array, (self.pipeline.batch_size, *array.shape[1:])
            )
            for name, array in batch.arrays.items()
        }
        self.leaves, loss = self.step_fn(self.leaves, arrays)
        return float(loss), batch.samples

    def _data(self, step: int) -> dict[str, Any]:
        """Where the data stands after that step, the last one that was completed."""
        return {"step": step, "pipeline": self.pipeline.state()}

    # Saving

    def _save(self, step: int, *, wait: bool = False, durable: bool = False) -> None:
        with self.journal.span("verify"):
            saved = self._held().described()
            self.journal.log("digest", what="saved", step=step, **saved, of=self.place.world)
        if self.spec.replica_check:
            self._compare(step, saved)
        self.source.save(step, self.state(), self._data(step), durable=durable)
        self._saves += 1
        if self._saves == 2:  # so that there is a checkpoint to come back from
            self.hold("save", step)
        if wait:
            self.source.finish()

    def _held(self) -> Held:
        """What this worker has of the state, without copying it where that can be helped."""
        return Held.of(self.names, self.leaves, copy=False)

    def _compare(self, step: int, mine: Mapping[str, Any]) -> None:
        """Raise, on every worker, when copies of the same part of the state are not equal."""
        with self.journal.span("compare the replicas"):
            client, place = _client(), self.place
            key = f"recoverybench/replica/{step}"
            client.key_value_set(
                f"{key}/{place.index}", f"{mine.get('holds', '')}={mine['digest']}"
            )
            timeout_ms = round(self.spec.init_timeout_s * 1000)
            found = [
                client.blocking_key_value_get(f"{key}/{index}", timeout_ms)
                for index in range(place.world)
            ]
        if len(set(found)) > len({each.partition("=")[0] for each in found}):
            odd = odd_ones(found)
            raise ReplicasDiffer(
                f"the state after step {step} differs between workers: {odd or 'no majority'}"
            )

    def _final(self) -> None:
        self.source.finish()
        with self.journal.span("verify"):
            held = self._held()
            fields = held.described() | {"of": self.place.world}
            if held.whole:
                fields["norms"] = [math.sqrt(each) for each in held.squares()]
            else:
                fields["squares"] = held.squares()
            self.journal.log("digest", what="final", step=self.spec.steps, **fields)

    # Interruptions

    def _heed(self, step: int) -> None:
        """Carry out what the supervisor has ordered meanwhile."""
        while self.channel.asides:
            order = self.channel.asides.popleft()
            if order["kind"] == "break":
                self.strike(order)
            elif self.place.index == 0 and self._leaving is None:
                # Before this step begins, so before anybody can have completed it.
                _client().key_value_set(_LEAVE, str(step))
                self._leaving = step

    def _led_out(self, step: int) -> bool:
        """Whether everybody leaves at the end of this step (a generation that is to grow)."""
        if self.place.world == self.spec.workers or self.spec.restore_topology is not None:
            return False
        if self.place.index == 0:
            return self._leaving == step
        return _kept(_LEAVE) == str(step)

    def _leave(self, step: int) -> End:
        self._save(step, wait=True)
        return "left"

    def _noticed(self, step: int) -> bool:
        """Whether this is the step at which everybody stops after a preemption notice."""
        if not self.spec.suspend or global_state.preemption_sync_manager is None:
            return False
        return bool(global_state.preemption_sync_manager.reached_sync_point(step))

    def _suspend(self, step: int) -> End:
        stopped = time.monotonic_ns()
        with self.journal.span("save on notice"):
            self._save(step, wait=True, durable=True)
        self.journal.log("suspended", step=step)
        self.channel.send("suspended", step=step, stopped_ns=stopped)
        return "suspended"


def hold_at(channel: Channel, place: Place, point: str, step: int, loop: Loop | None) -> None:
    """Stop at `point` if the place says so; a ``break`` order meanwhile is carried out.

    Args:
        loop: what a breakage gets; None where there is nothing to break yet.
    """
    if place.hold != point:
        return
    channel.send("hold", at=point, step=step)
    while not channel.released():
        order = channel.asides.popleft()
        if order["kind"] == "break" and loop is not None:
            loop.strike(order)
            return


def odd_ones(found: Sequence[str]) -> list[int]:
    """Workers whose copy is not that of most who hold the same part; empty: there is no majority.

    Args:
        found: for each worker ``part=digest``.
    """
    holders = Counter(each.partition("=")[0] for each in found)
    return [
        index
        for index, each in enumerate(found)
        if found.count(each) <= holders[each.partition("=")[0]] // 2
    ]


def _client() -> Any:
    client = global_state.client
    if client is None:
        raise RuntimeError("the coordination service is left: this generation is over")
    return client


def _kept(key: str) -> str | None:
    """A value of the coordination service, if it is there."""
    try:
        return str(_client().key_value_try_get(key))
    except jax.errors.JaxRuntimeError as error:
        if "NOT_FOUND" in str(error):
            return None
        raise
