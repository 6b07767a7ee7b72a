"""What a workload is, and how one is found by name.

A workload is a model, its optimizer and its data, with no word on workers, meshes or
checkpoints. A family is one file of `workloads/`, with a literal ``PRESETS`` and
``create(preset, data)``. Neither this module nor a family's file imports flax or optax at
module level: a replacement worker loads a compiled step, never traces one, and would pay for
those imports in the middle of the recovery that is being timed.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import os
import re
import sys
from importlib.metadata import entry_points
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from recoverybench import errors
from recoverybench.workload_name import WorkloadName, short_name

if TYPE_CHECKING:
    import jax

    from recoverybench.worker.data import Source

_PACKAGE = Path(__file__).resolve().parents[1]


@runtime_checkable
class Workload(Protocol):
    """A training that recoverybench can run, break and verify.

    `init` and `step` are pure and are traced under `jax.jit`; the training loop chooses the
    shardings (the state as `layout` says, a batch by its rows), so both are written as for one
    device and the whole batch. Given the same arguments they return the same
    bits; randomness that a step needs is derived from the state.
    """

    batch_size: int
    """Rows of the global batch. Every number of workers that is to be used has to divide it.

    A workload that a mesh may split also has ``layout``, a `layout.Layout`; without one its
    state is whole on every device.
    """

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
        name: ``family:preset``, perhaps with changes to the preset, or a user's
            ``path/to/file.py:factory`` (see `workload_name.WorkloadName`).
        data: the user's data file, in place of what ships with the workloads.

    Raises:
        UsageError: there is no such workload, what makes it raises or returns something else,
            or the data file cannot be used.
    """
    try:
        parts = WorkloadName.of(name)
    except ValueError as error:
        raise errors.bad_value("workload", name, str(error)) from None
    if parts.own:
        return _own(name, parts)
    module = _family(parts.family)
    if parts.preset not in module.PRESETS:
        names = [f"{parts.family}:{each}" for each in module.PRESETS]
        raise errors.unknown_name("workload", f"{parts.family}:{parts.preset}", names)
    try:
        changes = parts.typed_changes(module.PRESETS[parts.preset])
    except ValueError as error:
        raise errors.bad_value("workload", name, str(error)) from None
    path = None if data is None else Path(data)
    workload: Workload = module.create(parts.preset, path, **changes)
    return workload


def _family(family: str) -> ModuleType:
    """The module of a standard family, or of one that an installed package adds."""
    known = families()
    if family in known:
        return _import(f"recoverybench_workloads_{family}", known[family])
    added = {point.name: point for point in entry_points(group="recoverybench.workloads")}
    if family not in added:
        raise errors.unknown_name("workload", family, [*known, *added])
    return importlib.import_module(added[family].module)


def _own(name: str, parts: WorkloadName) -> Workload:
    """A workload from a user's file; whatever it raises is one line, and the file's fault.

    Modules beside the file can be imported, as they can when Python runs it as a script.
    """
    path = Path(parts.family).absolute()
    if str(path.parent) not in sys.path:
        sys.path.append(str(path.parent))  # last: a neighbour hides no installed module
    short = short_name(name)
    try:
        place = hashlib.sha256(os.fsencode(path)).hexdigest()[:8]  # another's may be called alike
        module = _import(f"recoverybench_own_{path.stem}_{place}", path)
        factory: Any = getattr(module, parts.preset, None)
        made: Any = factory() if callable(factory) else None
    except (Exception, SystemExit) as error:
        from recoverybench.worker.own import raised_at, short_error

        raises = f"{short_error(error)}{raised_at(error, path)}"
        allowed = f"a factory that makes one ({raises})"
        raise errors.bad_value("workload", short, allowed) from error
    if not callable(factory):
        raise errors.bad_value("workload", short, f"a function of {path.name}, to be called alone")
    lacking = [each for each in _PROTOCOL if not hasattr(made, each)]
    if lacking:
        allowed = f"a factory of a workload; {type(made).__name__} has no {lacking[0]}"
        raise errors.bad_value("workload", short, allowed)
    workload: Workload = made
    return workload


_PROTOCOL = ("batch_size", "init", "step", "source")


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


def _import(name: str, path: Path) -> ModuleType:
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
