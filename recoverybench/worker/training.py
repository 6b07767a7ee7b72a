"""One generation of the job: join, get the state, get the step function, train.

Everything that belongs to a generation lives in local variables of `Generation.run`, so
that leaving the function lets go of every array of the old backend.
"""

from __future__ import annotations

import struct
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jax._src.distributed import global_state

from recoverybench.journal_writer import Journal
from recoverybench.protocol import Board, JobSpec, Place
from recoverybench.worker import runtime
from recoverybench.worker.channel import Channel
from recoverybench.worker.data import Pipeline
from recoverybench.worker.digest import digest
from recoverybench.worker.executables import Executables
from recoverybench.worker.program import Program, Shardings
from recoverybench.worker.states.base import StateSource, open_source
from recoverybench.worker.workload import Workload


@dataclass(slots=True)
class Equipment:
    """What a worker keeps from one generation to the next: nothing that holds an array.

    Attributes:
        spec, channel, journal, board, workload: see their types.
        executables: made once the rank is known.
        retired: coordination services of earlier generations that this process still hosts.
    """

    spec: JobSpec
    channel: Channel
    journal: Journal
    board: Board
    workload: Workload
    executables: Executables | None = None
    retired: list[Any] = field(default_factory=list)

    def executables_of(self, rank: int) -> Executables:
        """The functions of that rank (a worker keeps its rank once it has one)."""
        if self.executables is None:
            self.executables = Executables(
                self.spec.compile_cache, Path(self.spec.executables), rank, self._program
            )
            with self.journal.span("read the executable store"):
                self.executables.preload()
        return self.executables

    def pipeline(self, rank: int) -> Pipeline:
        """The input of that rank, at step 1."""
        return Pipeline(
            self.workload.source(),
            batch_size=self.workload.batch_size,
            seed=self.spec.seed,
            rank=rank,
            world=self.spec.workers,
        )

    def _program(self) -> Program:
        with self.journal.span("trace the shapes"):
            return Program(self.workload, self.pipeline(0).next().arrays)


class Generation:
    """The worker's part in one generation.

    Args:
        equipment: what outlives it.
        place: rank, attempt and coordinator.
    """

    def __init__(self, equipment: Equipment, place: Place) -> None:
        self._equipment = equipment
        self._place = place
        self._journal = equipment.journal
        self.source: StateSource | None = None

    def run(self) -> None:
        """Train to the end. Raises whatever a collective or the storage raises."""
        equipment, journal, spec = self._equipment, self._journal, self._equipment.spec
        rank = self._place.rank
        with journal.span("open the input"):
            pipeline = equipment.pipeline(rank)
        executables = equipment.executables_of(rank)
        mesh = runtime.join(
            self._place, spec.workers, spec.heartbeat_s, spec.init_timeout_s, journal
        )
        places = Shardings.of(mesh)
        journal.log("rendezvous")
        self.source = open_source(spec.state_source, spec, journal)
        leaves, start, copy = self._state(executables, places, pipeline)
        step_fn = self._step_function(executables, places)
        self._train(_Loop(step_fn, leaves, pipeline, places, start, executables))
        self.source.finish()
        if copy is not None:
            # Hashed only now: the copy was all that had to be made while the clock ran.
            journal.log(
                "digest", what="restored", step=start, digest=digest(copy), leaves=len(copy)
            )

    def _state(
        self, executables: Executables, places: Shardings, pipeline: Pipeline
    ) -> tuple[list[jax.Array], int, dict[str, np.ndarray] | None]:
        """Leaves, the step they belong to, and a host copy of what was restored."""
        assert self.source is not None
        journal = self._journal
        names = [leaf.name for leaf in executables.signature.leaves]
        step, leaves = 0, []
        if self._place.generation > 0:
            restored = self.source.restore(executables.signature, places, self._agree)
            leaves = [restored.state[name] for name in names] if restored.state else []
            journal.log(
                "restore",
                step=restored.step,
                bytes=sum(leaf.nbytes for leaf in leaves),
                tried=[{"step": s, "error": e} for s, e in restored.tried],
            )
            if restored.step is not None:
                step = restored.step
                pipeline.restore(restored.data["pipeline"])
        if not leaves:
            with journal.span("make the first state"):
                init, status = executables.get("init", places)
                journal.log("compile_cache", function="init", status=status)
                seed = jax.make_array_from_process_local_data(
                    places.replicated, np.asarray(self._equipment.spec.seed, np.uint32)
                )
                leaves = jax.block_until_ready(init(seed))
        journal.log("restored")
        if step == 0:
            return leaves, 0, None
        with journal.span("verify"):
            # A real copy: on CPU a plain conversion may be a view of a buffer that the
            # first step is about to overwrite.
            copy = {n: np.array(a, copy=True) for n, a in zip(names, leaves, strict=True)}
        return leaves, step, copy

    def _step_function(self, executables: Executables, places: Shardings) -> Any:
        with self._journal.span("get the step function"):
            step_fn, status = executables.get("step", places)
        self._journal.log("compile_cache", function="step", status=status)
        self._journal.log("compiled")
        return step_fn

    def _train(self, loop: _Loop) -> None:
        """Run the steps after `loop.start`, saving and reporting as the job asks for."""
        equipment, journal, spec = self._equipment, self._journal, self._equipment.spec
        assert self.source is not None
        place, board = self._place, equipment.board
        hold = spec.hold_step if place.generation == 0 and place.rank == spec.hold_worker else None
        names = [leaf.name for leaf in loop.executables.signature.leaves]
        for step in range(loop.start + 1, spec.steps + 1):
            if step == hold:
                self._hold(step)
            t0 = time.monotonic_ns()
            try:
                loss, samples = loop.step()
            except Exception:
                journal.log("span", name="step, in vain", t0=t0)
                raise
            t = time.monotonic_ns()
            if step == loop.start + 1:
                journal.log("first_step", t)
                equipment.channel.send("running", generation=place.generation)
                while equipment.retired:  # everybody is in the new generation now
                    runtime.retire(equipment.retired.pop())
            bits = struct.pack(">f", loss).hex()
            journal.log("step", t, step=step, loss=loss, loss_bits=bits, samples=samples, t0=t0)
            board.set(place.rank, step)
            if step % spec.interval == 0 and step < spec.steps:
                self._save(step, dict(zip(names, loop.leaves, strict=True)), loop.pipeline)
        with journal.span("verify"):
            state = {n: np.asarray(a) for n, a in zip(names, loop.leaves, strict=True)}
            journal.log(
                "digest", what="final", step=spec.steps, digest=digest(state), leaves=len(state)
            )

    def _save(self, step: int, state: dict[str, jax.Array], pipeline: Pipeline) -> None:
        assert self.source is not None
        with self._journal.span("verify"):
            saved = digest({name: np.asarray(array) for name, array in state.items()})
            self._journal.log("digest", what="saved", step=step, digest=saved, leaves=len(state))
        self.source.save(step, state, {"step": step, "pipeline": pipeline.state()})

    def _hold(self, step: int) -> None:
        channel = self._equipment.channel
        channel.send("hold", step=step)
        while channel.order()["kind"] != "release":
            pass

    def _agree(self, what: str, mine: bool) -> bool:
        """Whether every worker of this generation says True; through the coordination service."""
        client, world = global_state.client, self._equipment.spec.workers
        assert client is not None
        key = f"recoverybench/{what}"
        client.key_value_set(f"{key}/{self._place.rank}", "1" if mine else "0")
        timeout_ms = round(self._equipment.spec.init_timeout_s * 1000)
        return all(
            client.blocking_key_value_get(f"{key}/{rank}", timeout_ms) == "1"
            for rank in range(world)
        )


@dataclass(slots=True)
class _Loop:
    """The state that a step takes and gives."""

    step_fn: Any
    leaves: list[jax.Array]
    pipeline: Pipeline
    places: Shardings
    start: int
    executables: Executables

    def step(self) -> tuple[float, list[int]]:
        """One step; returns once the loss is on the host: (loss, sample ids of this worker)."""
        batch = self.pipeline.next()
        arrays = {
            name: jax.make_array_from_process_local_data(self.places.rows, array)
            for name, array in batch.arrays.items()
        }
        self.leaves, loss = self.step_fn(self.leaves, arrays)
        return float(loss), batch.samples
