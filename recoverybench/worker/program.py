"""The two compiled functions of a workload, over a flat list of leaves.

`init` makes the first state, `step` advances it. Working on leaves rather than on the
workload's own tree has a reason: a worker that loads both functions from the executable
store needs neither the tree nor the libraries that define its nodes, so a replacement
skips their import, which is half of its start.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from recoverybench.topology import ROW_AXES
from recoverybench.worker.layout import Layout

if TYPE_CHECKING:
    from recoverybench.worker.workload import Workload


@dataclass(frozen=True, slots=True)
class Leaf:
    """One array of the state.

    Attributes:
        name: dotted path. shape, dtype: of the whole array.
        split: the mesh axis along which each dimension may be split; None, or no entry: none.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    split: tuple[str | None, ...] = ()

    @property
    def kind(self) -> tuple[str, tuple[int, ...], str]:
        """What two workers' leaves have in common: name, shape and dtype."""
        return self.name, self.shape, self.dtype


@dataclass(frozen=True, slots=True)
class Signature:
    """What a caller must know of a program: its state's leaves and its batch.

    Attributes:
        leaves: the state, in order.
        batch: name -> (global shape, dtype) of each array of a batch.
    """

    leaves: tuple[Leaf, ...]
    batch: tuple[tuple[str, tuple[int, ...], str], ...]


@dataclass(frozen=True, slots=True)
class Shardings:
    """Where things live on a mesh."""

    replicated: NamedSharding
    rows: NamedSharding

    @classmethod
    def of(cls, mesh: Mesh) -> Shardings:
        """What is whole on every device, and the rows of a batch, split over `ROW_AXES`."""
        axes = tuple(name for name in mesh.axis_names if name in ROW_AXES)
        return cls(
            NamedSharding(mesh, P()), NamedSharding(mesh, P(axes[0] if len(axes) == 1 else axes))
        )

    def of_leaf(self, leaf: Leaf) -> NamedSharding:
        """Where a leaf of the state lives: whole on every device where the mesh splits nothing."""
        mesh = self.replicated.mesh
        split = [axis if axis in mesh.axis_names else None for axis in leaf.split]
        return NamedSharding(mesh, P(*split)) if any(split) else self.replicated


class Program:
    """The traceable functions of a workload, and their signature (needs the workload).

    Args:
        workload: see `workload.Workload`.
        batch: one local batch: name -> array, only its row shape and dtype are used.
    """

    def __init__(self, workload: Workload, batch: dict[str, np.ndarray]) -> None:
        self._workload = workload
        key = jax.eval_shape(lambda: jax.random.key(0))
        state = jax.eval_shape(workload.init, key)
        paths, self._tree = jax.tree_util.tree_flatten_with_path(state)
        layout = getattr(workload, "layout", Layout())
        names = [jax.tree_util.keystr(path, simple=True, separator=".") for path, _ in paths]
        leaves = tuple(
            Leaf(name, tuple(leaf.shape), str(leaf.dtype), layout.split(name, tuple(leaf.shape)))
            for name, (_, leaf) in zip(names, paths, strict=True)
        )
        if len({leaf.name for leaf in leaves}) != len(leaves):
            raise ValueError("two leaves of the workload's state have the same name")
        rows = workload.batch_size
        self.signature = Signature(
            leaves,
            tuple((k, (rows, *a.shape[1:]), str(a.dtype)) for k, a in sorted(batch.items())),
        )

    def lower(self, function: str, places: Shardings) -> Any:
        """Trace and lower a function for a mesh (`jax.stages.Lowered`).

        Args:
            function: ``init``, ``step``, or ``step-kept``: a step that leaves the state it was
                given as it is, at the price of memory for both.
            places: shardings on the mesh.
        """
        homes = [places.of_leaf(leaf) for leaf in self.signature.leaves]
        if function == "init":
            jitted = jax.jit(self._init, in_shardings=None, out_shardings=homes)
            return jitted.lower(jax.ShapeDtypeStruct((), np.uint32, sharding=places.replicated))
        state = [
            jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=home)
            for leaf, home in zip(self.signature.leaves, homes, strict=True)
        ]
        batch = {
            name: jax.ShapeDtypeStruct(shape, dtype, sharding=places.rows)
            for name, shape, dtype in self.signature.batch
        }
        jitted = jax.jit(
            self._step,
            donate_argnums=0 if function == "step" else (),
            out_shardings=(homes, places.replicated),
        )
        return jitted.lower(state, batch)

    def _init(self, seed: jax.Array) -> list[jax.Array]:
        return jax.tree_util.tree_leaves(self._workload.init(jax.random.key(seed)))

    def _step(
        self, leaves: Sequence[jax.Array], batch: dict[str, jax.Array]
    ) -> tuple[list[jax.Array], jax.Array]:
        state = jax.tree_util.tree_unflatten(self._tree, leaves)
        state, loss = self._workload.step(state, batch)
        return jax.tree_util.tree_leaves(state), loss


InitFn = Callable[[jax.Array], list[jax.Array]]
StepFn = Callable[[list[jax.Array], dict[str, jax.Array]], tuple[list[jax.Array], jax.Array]]
