"""A user's own workload, tried before a job is made of it: each fault in it is one line.

Everything is looked at through shapes (`jax.eval_shape`), so nothing of the model's size is
made, and nothing is compiled.
"""

from __future__ import annotations

import functools
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from recoverybench.errors import UsageError, bad_value, shorten
from recoverybench.topology import AXES
from recoverybench.worker.layout import Layout
from recoverybench.workload_name import WorkloadName, short_name

if TYPE_CHECKING:
    from recoverybench.worker.workload import Workload

_RECORDS: Final = 16
"""So many records, evenly spread, have to agree in their shapes; reading all may take hours."""

_Shapes = dict[str, tuple[tuple[int, ...], str]]

T = TypeVar("T")


def check(workload: Workload, name: str) -> None:
    """Try everything that a job asks of a workload, but for its numbers.

    Args:
        workload: what the user's factory returned. name: as it was asked for.

    Raises:
        UsageError: the first thing that a job would stumble over, with the line of the user's
            file where it raised.
    """
    _Check(workload, name).run()


class _Check:
    def __init__(self, workload: Workload, name: str) -> None:
        self.workload, self.name = workload, name
        parts = WorkloadName.of(name)
        self.file = Path(parts.family) if parts.own else None

    def run(self) -> None:
        """The checks, each building on what the one before it found."""
        batch = self._batch()
        state = self._state()
        self._layout(state)
        self._step(state, batch)

    def refused(self, allowed: str) -> UsageError:
        return bad_value("workload", short_name(self.name), allowed)

    def call(self, what: str, function: Callable[[], T]) -> T:
        """Calls a part of the workload; what it raises is said with its place."""
        try:
            return function()
        except (Exception, SystemExit) as error:
            place = raised_at(error, self.file)
            raise self.refused(f"{what} that works ({short_error(error)}{place})") from error

    def _batch(self) -> dict[str, jax.ShapeDtypeStruct]:
        rows = self.workload.batch_size
        if not isinstance(rows, int) or isinstance(rows, bool) or rows < 1:
            raise self.refused(f"a batch_size that is a whole number above 0, not {rows!r}")
        source = self.call("source()", self.workload.source)
        length = self.call("a source with a length, so len(source())", lambda: len(source))
        if length < 1:
            raise self.refused("a source that holds at least one record")
        shapes: _Shapes = {}
        for index in sorted({round(n * (length - 1) / _RECORDS) for n in range(_RECORDS + 1)}):
            record = self.call(f"record {index}", functools.partial(source.__getitem__, index))
            found = self._record(index, record)
            shapes = shapes or found
            if found != shapes:
                raise self.refused(
                    f"records of one shape: the first is {_spell(shapes)}, "
                    f"record {index} is {_spell(found)}"
                )
        return {
            key: jax.ShapeDtypeStruct((rows, *shape), jax.dtypes.canonicalize_dtype(dtype))
            for key, (shape, dtype) in shapes.items()
        }

    def _record(self, index: int, record: Any) -> _Shapes:
        if not isinstance(record, Mapping) or not record:
            raise self.refused(
                f"records that are dicts of NumPy arrays; record {index} is {shorten(record, 40)}"
            )
        arrays = {str(key): np.asarray(value) for key, value in record.items()}
        for key, value in arrays.items():
            if value.dtype.kind in "OUSMm":
                raise self.refused(
                    f"records of numbers; {key!r} of record {index} has dtype {value.dtype}"
                )
        return {key: (value.shape, value.dtype.name) for key, value in arrays.items()}

    def _state(self) -> Any:
        key = jax.eval_shape(lambda: jax.random.key(0))
        state = self.call("init(key)", lambda: jax.eval_shape(self.workload.init, key))
        leaves = named(state)
        if not leaves:
            raise self.refused("an init(key) that returns a tree with at least one array")
        if len(leaves) != len(jax.tree_util.tree_leaves(state)):
            raise self.refused("a state in which no two leaves have the same dotted name")
        for name, leaf in leaves.items():
            if jnp.issubdtype(leaf.dtype, jax.dtypes.extended):
                raise self.refused(
                    f"a state of plain arrays; {name} has dtype {leaf.dtype} "
                    "(jax.random.key_data makes an array of a key)"
                )
        return state

    def _layout(self, state: Any) -> None:
        layout = getattr(self.workload, "layout", Layout())
        if not isinstance(layout, Layout):
            raise self.refused(f"a layout of type Layout, not {type(layout).__name__}")
        for logical, axis in layout.rules.items():
            if axis not in AXES:
                known = ", ".join(AXES)
                raise self.refused(f"layout.rules[{logical!r}] to be one of {known}, not {axis!r}")
        ranks: dict[str, set[int]] = {}
        for name, leaf in named(state).items():
            ranks.setdefault(name.rpartition(".")[2], set()).add(len(leaf.shape))
        for name, logicals in layout.axes.items():
            if name not in ranks and self.file is None:
                continue  # a family's presets may share one layout
            if name not in ranks:
                raise self.refused(
                    f"layout.axes to name parameters; no leaf of the state ends in {name!r}"
                )
            if len(logicals) not in ranks[name]:
                has = " or ".join(str(rank) for rank in sorted(ranks[name]))
                raise self.refused(
                    f"layout.axes[{name!r}] to have {has} entries, one a dimension, "
                    f"not {len(logicals)}"
                )

    def _step(self, state: Any, batch: dict[str, jax.ShapeDtypeStruct]) -> None:
        made = self.call(
            "step(state, batch)", lambda: jax.eval_shape(self.workload.step, state, batch)
        )
        if not isinstance(made, tuple) or len(made) != 2:
            raise self.refused("a step that returns two things, the state and the loss")
        after, loss = made
        if getattr(loss, "shape", None) != () or loss.dtype != jnp.float32:
            raise self.refused(f"a step whose loss is a float32 scalar, not {_said(loss)}")
        old, new = named(state), named(after)
        for name in (*old, *new):
            was, is_ = _said(old.get(name)), _said(new.get(name))
            if was != is_:
                raise self.refused(
                    f"a step that keeps shapes and dtypes: {name} of the state was {was}, "
                    f"after the step it is {is_}"
                )
        # A structure's type has no `__eq__` that a type checker could see.
        trees: list[Any] = [jax.tree_util.tree_structure(each) for each in (state, after)]
        if trees[0] != trees[1]:
            raise self.refused("a step that returns a state of the same structure as init")


def named(tree: Any) -> dict[str, Any]:
    """Leaves by their dotted path, as checkpoints name them."""
    paths, _ = jax.tree_util.tree_flatten_with_path(tree)
    return {jax.tree_util.keystr(path, simple=True, separator="."): leaf for path, leaf in paths}


def _said(leaf: Any) -> str:
    if leaf is None:
        return "not there"
    shape = getattr(leaf, "shape", None)
    return shorten(leaf, 40) if shape is None else f"{leaf.dtype}{list(shape)}"


def _spell(shapes: _Shapes) -> str:
    return ", ".join(f"{name} {dtype}{list(shape)}" for name, (shape, dtype) in shapes.items())


def short_error(error: BaseException) -> str:
    """Type and first line of an error."""
    # The place of a syntax error is said by `raised_at`.
    text = error.msg if isinstance(error, SyntaxError) else str(error)
    lines = text.splitlines() or [""]
    return f"{type(error).__name__}: {lines[0][:200]}".removesuffix(": ")


def raised_at(error: BaseException, file: Path | None) -> str:
    """Where in a user's file an error came up: `` at w.py:12``; empty where none of it is in it.

    A module beside the file counts as his, too.
    """
    if file is None:
        return ""
    if isinstance(error, SyntaxError) and error.filename and error.lineno:
        return f" at {Path(error.filename).name}:{error.lineno}"
    folder = file.parent.resolve()
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        path = Path(frame.filename)
        if path.parent == folder or path == file:
            return f" at {path.name}:{frame.lineno}"
    return ""
