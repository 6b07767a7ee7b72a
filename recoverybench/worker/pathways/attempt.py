"""One attempt of the controller: a generation whose mesh is made of the slices that are there."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh
from orbax.checkpoint.experimental.v1._src.training.pathways.snapshotter import Snapshotter
from pathwaysutils.elastic.manager import ScaleUpSignalError

from recoverybench.protocol import Place
from recoverybench.topology import Topology
from recoverybench.worker.executables import Executables
from recoverybench.worker.pathways.slices import Loss
from recoverybench.worker.pathways.snapshots import Snapshots
from recoverybench.worker.program import Program, Shardings
from recoverybench.worker.states.base import StateSource
from recoverybench.worker.training import Equipment, Generation


@dataclass(slots=True)
class SliceEquipment(Equipment):
    """What the controller keeps from one attempt to the next.

    Attributes:
        slices: those of the attempt, in order; empty: all of the job.
        snapshots: Orbax's Snapshotter, made when it is first used. It holds arrays: those
            that lay on a slice which is lost are lost with it.
    """

    slices: tuple[int, ...] = ()
    snapshots: list[Snapshotter] = field(default_factory=list)
    _partial: dict[tuple[int, ...], Executables] = field(default_factory=dict)
    _programs: list[Program] = field(default_factory=list)

    def executables_of(self, index: int, topology: Topology) -> Executables:
        """The functions for the mesh of this attempt; an executable is bound to its devices."""
        if not self.slices:
            # Not `super()`: a dataclass with slots is another class than its methods know.
            return Equipment.executables_of(self, index, topology)
        if self.slices not in self._partial:
            store = Path(self.spec.executables, "slices-" + "-".join(map(str, self.slices)))
            store.mkdir(parents=True, exist_ok=True)
            made = Executables(self.spec.compile_cache, store, index, topology, self._program)
            with self.journal.span("read the executable store"):
                made.preload()
            self._partial[self.slices] = made
        return self._partial[self.slices]

    def _program(self) -> Program:
        """The same for every mesh, so traced once."""
        if not self._programs:
            self._programs.append(Equipment._program(self))
        return self._programs[0]


def mesh_of(devices: Sequence[jax.Device]) -> Mesh:
    """The mesh over these devices (one axis, ``data``)."""
    return Mesh(np.array(devices), ("data",))


class SliceGeneration(Generation):
    """See `training.Generation`.

    Args:
        equipment: what outlives it. place: of the controller.
        devices: of the slices that are there. loss: what loses slices.
        more: whether there is a slice that this attempt does without.
    """

    def __init__(
        self,
        equipment: SliceEquipment,
        place: Place,
        devices: Sequence[jax.Device],
        loss: Loss,
        more: Callable[[], bool],
    ) -> None:
        super().__init__(equipment, place)
        self._snapshots = equipment.snapshots
        self._devices = devices
        self._loss = loss
        self._more = more

    def _join(self) -> Mesh:
        """As every generation, but without anybody to meet."""
        with self._journal.span("make the mesh"):
            return mesh_of(self._devices)

    def _open_source(self) -> StateSource:
        """As every generation, but for snapshots: those are Orbax's for Pathways."""
        if self._equipment.spec.state_source != "snapshot":
            return Growing(super()._open_source(), self._more)
        if not self._snapshots:
            self._snapshots.append(Snapshotter())
        return Growing(Snapshots(self._snapshots[0], self._journal), self._more)

    def _step_function(self, executables: Executables, places: Shardings) -> Any:
        """The step, with its arrays known to the simulator."""
        self._loss.over()
        return Step(super()._step_function(executables, places), self._loss)

    def _agree(self, what: str, mine: bool) -> bool:
        """There is nobody to agree with."""
        return mine


class Growing:
    """A state source at whose saves an attempt makes room for a larger one, as MaxText's does.

    See `states.base.StateSource`.

    Args:
        source: the real one. more: whether there are slices that the attempt does without.
    """

    def __init__(self, source: StateSource, more: Callable[[], bool]) -> None:
        self._source = source
        self._more = more
        self.restore = source.restore
        self.completed = source.completed
        self.finish = source.finish
        self.abandon = source.abandon

    def save(
        self,
        step: int,
        state: Mapping[str, jax.Array],
        data: Mapping[str, Any],
        *,
        durable: bool = False,
    ) -> None:
        """Begin a save.

        Raises:
            ScaleUpSignalError: the save is done, and there are more slices than are used.
        """
        self._source.save(step, state, data, durable=durable)
        if self._more():
            self._source.finish()
            raise ScaleUpSignalError(f"the state after step {step} is saved")


class Step:
    """A compiled step, and what can be lost under it.

    Attributes:
        loss: for the breakage that loses a slice.
    """

    def __init__(self, compiled: Any, loss: Loss) -> None:
        self._compiled = compiled
        self.loss = loss

    def __call__(self, leaves: list[jax.Array], batch: dict[str, jax.Array]) -> Any:
        """One step: (leaves, loss)."""
        return self.loss.computes(self._compiled, leaves, batch)
