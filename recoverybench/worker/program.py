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

if TYPE_CHECKING:
    from recoverybench.worker.workload import Workload


@dataclass(frozen=True, slots=True)
class Leaf:
    """Name, shape and dtype of one array of the state."""

    name: str
    shape: tuple[int, ...]
    dtype: str


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
    """Where things live on a mesh with the axis ``data``."""

    replicated: NamedSharding
    rows: NamedSharding

    @classmethod
    def of(cls, mesh: Mesh) -> Shardings:
        """State on every device, the rows of a batch split over them."""
        return cls(NamedSharding(mesh, P()), NamedSharding(mesh, P("data")))


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
        leaves = tuple(
            Leaf(
                jax.tree_util.keystr(path, simple=True, separator="."),
                tuple(leaf.shape),
                str(leaf.dtype),
            )
            for path, leaf in paths
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
        if function == "init":
            jitted = jax.jit(self._init, in_shardings=None, out_shardings=places.replicated)
            return jitted.lower(jax.ShapeDtypeStruct((), np.uint32, sharding=places.replicated))
        state = [
            jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=places.replicated)
            for leaf in self.signature.leaves
        ]
        batch = {
            name: jax.ShapeDtypeStruct(shape, dtype, sharding=places.rows)
            for name, shape, dtype in self.signature.batch
        }
        jitted = jax.jit(
            self._step,
            donate_argnums=0 if function == "step" else (),
            out_shardings=(places.replicated, places.replicated),
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
