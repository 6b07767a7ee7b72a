"""Between Flax NNX modules and plain dictionaries of arrays, for the standard workloads.

flax is imported on first use: a worker that loads a compiled step never imports it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import jax


def parameters(model: Any) -> dict[str, Any]:
    """The parameters of an NNX module as a dictionary of arrays, named as its attributes."""
    from flax import nnx

    found: dict[str, Any] = nnx.to_pure_dict(nnx.state(model, nnx.Param))
    return found


def hold(model: Any, weights: Mapping[str, jax.Array]) -> None:
    """Makes each of the weights a parameter of an NNX module, under its name."""
    from flax import nnx

    for name, each in weights.items():
        setattr(model, name, nnx.Param(each))


def call(make: Callable[[Any], Any], params: dict[str, Any], *inputs: Any) -> Any:
    """What a module with these parameters returns.

    Args:
        make: `nnx.Rngs` -> the module; only traced, to learn its shape.
        params: of `parameters`.
        inputs: arguments of the module.
    """
    from flax import nnx

    graph, shapes = nnx.split(nnx.eval_shape(lambda: make(nnx.Rngs(0))), nnx.Param)
    nnx.replace_by_pure_dict(shapes, params)
    return nnx.merge(graph, shapes)(*inputs)


def cast(weights: Any, dtype: str) -> Any:
    """The weights as they are computed with (a dtype's name); those of that dtype as they are."""
    return jax.tree.map(lambda array: array.astype(dtype), weights)
