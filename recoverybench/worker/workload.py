"""What a workload is, and how one is found by name.

A workload is a model, its optimizer and its data, with no word on workers, meshes or
checkpoints. A family is one file of `workloads/`, with a literal ``PRESETS`` and
``create(preset, data)``. Neither this module nor a family's file imports flax or optax at
module level: a replacement worker loads a compiled step, never traces one, and would pay for
those imports in the middle of the recovery that is being timed.
"""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from recoverybench import errors

if TYPE_CHECKING:
    import jax

    from recoverybench.worker.data import Source

_PACKAGE = Path(__file__).resolve().parents[1]


@runtime_checkable
class Workload(Protocol):
    """A training that recoverybench can run, break and verify.

    `init` and `step` are pure and are traced under `jax.jit`; the training loop chooses the
    shardings (state replicated, batch split by rows over the mesh axis ``"data"``), so both are
    written as for one device and the whole batch. Given the same arguments they return the same
    bits; randomness that a step needs is derived from the state.
    """

    batch_size: int
    """Rows of the global batch. Every number of workers that is to be used has to divide it."""

    def init(self, key: jax.Array) -> Any:
        """The state before step 1: parameters, optimizer state, step counter.

        Args:
            key: a JAX PRNG key.

        Returns:
            A pytree of arrays and nothing else (no RNG objects, no static values). The path of
            a leaf is its name in checkpoints and digests, so no two may print alike. Fewer
            leaves recover faster.
        """
        ...

    def step(self, state: Any, batch: dict[str, jax.Array]) -> tuple[Any, jax.Array]:
        """One update.

        Args:
            state: as `init` or the step before returned it.
            batch: the records of `source`, stacked: the first axis has `batch_size` rows.

        Returns:
            The new state, of the same structure, shapes and dtypes, and the loss before the
            update: a float32 scalar, the mean over the global batch.
        """
        ...

    def source(self) -> Source:
        """The training data: records by index, each a dict of NumPy arrays of fixed shape."""
        ...


def load(name: str, data: str | None = None) -> Workload:
    """The workload called `name`.

    Args:
        name: ``family:preset``, as in ``transformer:tiny``.
        data: the user's data file, in place of the text that ships with the workloads.

    Raises:
        UsageError: there is no such family or preset, or the data file cannot be used.
    """
    family, _, preset = name.partition(":")
    known = families()
    if family not in known:
        raise errors.unknown_name("workload", family, known)
    module = _import(family, known[family])
    if preset not in module.PRESETS:
        names = [f"{family}:{each}" for each in module.PRESETS]
        raise errors.unknown_name("workload", name, names)
    workload: Workload = module.create(preset, None if data is None else Path(data))
    return workload


def folder() -> Path:
    """Where the standard workloads lie: inside the package in a wheel, beside it in a checkout."""
    inside = _PACKAGE / "workloads"
    return inside if inside.is_dir() else _PACKAGE.parent / "workloads"


def families() -> dict[str, Path]:
    """The files that hold a family, by name."""
    return {
        path.stem: path
        for path in sorted(folder().glob("*.py"))
        if re.fullmatch(r"[a-z][a-z0-9_]*", path.stem)
    }


def _import(family: str, path: Path) -> ModuleType:
    name = f"recoverybench_workloads_{family}"
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise errors.HarnessError(f"{path} cannot be imported")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses of the file look their module up here
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module
