"""One generation of the job: join, get the state, get the step function, train.

Everything that belongs to a generation lives in local variables of `Generation.run`, so
that leaving the function lets go of every array of the old backend.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jax._src.distributed import global_state
from jax.sharding import Mesh

from recoverybench.journal_writer import Journal
from recoverybench.protocol import JobSpec, Place, StepsTold
from recoverybench.topology import Topology
from recoverybench.worker import accelerators, runtime
from recoverybench.worker.agreement import Agreement
from recoverybench.worker.channel import Channel
from recoverybench.worker.data import Pipeline
from recoverybench.worker.executables import Executables
from recoverybench.worker.held import Held
from recoverybench.worker.profiling import Profiler
from recoverybench.worker.program import Program, Shardings
from recoverybench.worker.states.base import Agree, Part, StateSource, open_source
from recoverybench.worker.steps import End, Loop, hold_at
from recoverybench.worker.workload import Workload


@dataclass(slots=True)
class Equipment:
    """What a worker keeps from one generation to the next: nothing that holds an array.

    Attributes:
        spec, channel, journal, board, workload: see their types.
        executables: (process index, topology) -> its functions.
        retired: coordination services of earlier generations that this process still hosts.
        keep: what a state source keeps in this process, on the host.
        profiler: of this process. watch: looks at its devices.
    """

    spec: JobSpec
    channel: Channel
    journal: Journal
    board: StepsTold
    workload: Workload
    profiler: Profiler
    executables: dict[tuple[int, Topology], Executables] = field(default_factory=dict)
    retired: list[Any] = field(default_factory=list)
    keep: dict[str, Any] = field(default_factory=dict)
    watch: accelerators.Watch = field(init=False)

    def __post_init__(self) -> None:
        """Whoever trains looks at its devices."""
        self.watch = accelerators.Watch(self.journal, accelerators.here)

    def executables_of(self, index: int, topology: Topology) -> Executables:
        """The functions of process `index` of that topology."""
        key = index, topology
        if key not in self.executables:
            self.executables[key] = Executables(
                self.spec.compile_cache, Path(self.spec.executables), *key, self._program
            )
            with self.journal.span("read the executable store"):
                self.executables[key].preload(("init", self.step_function))
        return self.executables[key]

    @property
    def step_function(self) -> str:
        """Which of the compiled steps the job trains with (see `Program.lower`)."""
        return "step" if self.spec.donate else "step-kept"

    def part(self, place: Place, agree: Agree) -> Part:
        """What a state source gets of one generation."""
        return Part(self.spec, place, self.journal, self.keep, agree)

    def pipeline(self, index: int, topology: Topology) -> Pipeline:
        """The input of process `index` of that topology, at step 1."""
        share, shares, counts = topology.share(index)
        return Pipeline(
            self.workload.source(),
            batch_size=self.workload.batch_size,
            seed=self.spec.seed,
            rank=share,
            world=shares,
            counts=counts,
        )

    def _program(self) -> Program:
        with self.journal.span("trace the shapes"):
            topology = Topology.of(self.spec.topology)
            return Program(self.workload, self.pipeline(0, topology).next().arrays)


class Generation:
    """The worker's part in one generation.

    Args:
        equipment: what outlives it.
        place: who this worker is in it, and where the others are.
    """

    def __init__(self, equipment: Equipment, place: Place) -> None:
        self._equipment = equipment
        self._place = place
        self._journal = equipment.journal
        self.source: StateSource | None = None
        self.agreement: Agreement | None = None

    def run(self) -> End:
        """Train until the loop ends. Raises whatever a collective or the storage raises."""
        equipment, journal, spec = self._equipment, self._journal, self._equipment.spec
        place, profiler = self._place, equipment.profiler
        topology = Topology.of(place.topology)
        with journal.span("open the input"):
            pipeline = equipment.pipeline(place.index, topology)
        executables = equipment.executables_of(place.index, topology)
        self._hold("rendezvous")
        self._await_everybody()
        places = Shardings.of(self._join())
        journal.log("rendezvous")
        profiler.begin(place)
        if spec.agreement:
            self.agreement = Agreement(place, equipment.channel, journal)
        self.source = self._open_source()
        leaves, start, copy = self._state(executables, places, pipeline)
        self._hold("compile")
        loop = Loop(
            spec=spec,
            place=place,
            journal=journal,
            channel=equipment.channel,
            board=equipment.board,
            step_fn=self._step_function(executables, places),
            leaves=leaves,
            names=[leaf.name for leaf in executables.signature.leaves],
            pipeline=pipeline,
            places=places,
            start=start,
            source=self.source,
            agree=self._agree,
            running=self._running,
            next_batch=profiler.named("input", pipeline.next),
            first_step_done=lambda: profiler.turn(None),
        )
        profiler.turn("first_step")
        end = loop.run()
        if copy is not None:
            # Hashed only now: the copy was all that had to be made while the clock ran.
            journal.log("digest", what="restored", step=start, **copy.described(), of=place.world)
        return end

    def _join(self) -> Mesh:
        """Meet the others; returns the mesh over everybody's devices."""
        spec = self._equipment.spec
        runtime.use_devices(Topology.of(self._place.topology).devices, spec.platform)
        return runtime.join(
            self._place,
            spec.heartbeat_s,
            spec.init_timeout_s,
            self._journal,
            serve=spec.coordinator == "worker0",
        )

    def _open_source(self) -> StateSource:
        """This generation's access to the state source."""
        part = self._equipment.part(self._place, self._agree)
        return open_source(self._equipment.spec.state_source, part)

    def _state(
        self, executables: Executables, places: Shardings, pipeline: Pipeline
    ) -> tuple[list[jax.Array], int, Held | None]:
        """Leaves, the step they belong to, and a host copy of what was restored."""
        assert self.source is not None
        journal = self._journal
        names = [leaf.name for leaf in executables.signature.leaves]
        step, leaves = 0, []
        if self._place.generation > 0:
            self._hold("restore")
            restored = self.source.restore(executables.signature, places)
            leaves = [restored.state[name] for name in names] if restored.state else []
            journal.log(
                "restore",
                step=restored.step,
                bytes=sum(leaf.nbytes for leaf in leaves),
                tried=[{"step": s, "error": e} for s, e in restored.tried],
                tier=restored.tier,
                received=restored.received,
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
        self._equipment.profiler.turn("verify")
        if step == 0:
            return leaves, 0, None
        with journal.span("verify"):
            # A real copy: on CPU a plain conversion may be a view of a buffer that the
            # first step is about to overwrite.
            return leaves, step, Held.of(names, leaves, copy=True)

    def _step_function(self, executables: Executables, places: Shardings) -> Any:
        self._equipment.profiler.turn("compile")
        with self._journal.span("get the step function"):
            step_fn, status = executables.get(self._equipment.step_function, places)
        self._journal.log("compile_cache", function="step", status=status)
        self._journal.log("compiled")
        return step_fn

    def _running(self) -> None:
        equipment = self._equipment
        equipment.profiler.end()  # before anybody counts on this worker's steps
        if self._place.generation == 0:
            # Nothing is timed yet, and no watchdog looks until every worker has said `running`.
            equipment.watch.look("before")
        equipment.channel.send("running", generation=self._place.generation)
        while equipment.retired:  # everybody is in the new generation now
            runtime.retire(equipment.retired.pop())
        if self._place.generation > 0:
            runtime.trim()

    def _await_everybody(self) -> None:
        """Join a new generation only once all its workers are there to join it.

        Inside JAX's connection nothing but its timeout ends the wait for a worker that died
        on the way; here the supervisor does.
        """
        place, channel = self._place, self._equipment.channel
        if place.generation == 0 or not self._equipment.spec.rejoin:
            return
        with self._journal.span("wait for everybody"):
            channel.send("arrived", generation=place.generation)
            if not channel.everybody_is_there():
                raise RuntimeError("peer lost: another worker ended before everybody was there")

    def _hold(self, point: str) -> None:
        hold_at(self._equipment.channel, self._place, point, 0, None)

    def _agree(self, what: str, mine: bool) -> bool:
        """Whether every worker of this generation says True; through the coordination service."""
        client, place = global_state.client, self._place
        if client is None:
            raise RuntimeError("the coordination service is left: this generation is over")
        key = f"recoverybench/{what}"
        client.key_value_set(f"{key}/{place.index}", "1" if mine else "0")
        timeout_ms = round(self._equipment.spec.init_timeout_s * 1000)
        return all(
            client.blocking_key_value_get(f"{key}/{index}", timeout_ms) == "1"
            for index in range(place.world)
        )
