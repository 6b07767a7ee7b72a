"""Work on many arrays done as on one: fewer kernels to compile, fewer collectives a step.

Small models are made of such overheads. XLA on CPU takes half a second to compile one random
draw and three for five, and each array that Gloo reduces among three workers on two cores
costs up to 3 ms, whatever its size.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

ONE_DRAW: Final = 2**24
"""So many numbers at most come from one draw. More are drawn array by array, so that none of
them has to lie in one vector with the others, on whatever device that would be."""


def normals(key: jax.Array, shapes: Sequence[tuple[int, ...]]) -> list[jax.Array]:
    """Independent standard normals of several shapes (float32); from one draw if they are few."""
    sizes = [int(np.prod(shape)) for shape in shapes]
    if sum(sizes) > ONE_DRAW:
        keys = jax.random.split(key, len(shapes))
        return [jax.random.normal(k, shape) for k, shape in zip(keys, shapes, strict=True)]
    parts = jnp.split(jax.random.normal(key, (sum(sizes),)), np.cumsum(sizes)[:-1])
    return [part.reshape(shape) for part, shape in zip(parts, shapes, strict=True)]


def weights(
    key: jax.Array, wanted: Mapping[str, tuple[tuple[int, ...], float]]
) -> dict[str, jax.Array]:
    """Normal weights by name: each has a shape and a standard deviation."""
    drawn = normals(key, [shape for shape, _ in wanted.values()])
    return {
        name: scale * each for (name, (_, scale)), each in zip(wanted.items(), drawn, strict=True)
    }


def plain_gradients(
    loss_of: Callable[[Any, Any], jax.Array], params: Any, rows: Any
) -> tuple[jax.Array, Any]:
    """Loss and gradients of a batch; on several workers each array is reduced by itself."""
    loss, gradients = jax.value_and_grad(loss_of)(params, rows)
    return loss, gradients


def mean_gradients(
    loss_of: Callable[[Any, Any], jax.Array], params: Any, rows: Any
) -> tuple[jax.Array, Any]:
    """Loss and gradients of a batch, as `plain_gradients` gives them but for rounding.

    The gradients of each row are joined with its loss into one vector, and these vectors are
    averaged. Where the rows lie on several workers, that average is the only collective of
    the step. The price is memory for ``rows × parameters`` floats, divided by the workers, so
    this is for small models.

    Args:
        loss_of: (params, rows) -> float32 scalar, the mean over the rows.
        params: pytree of float32 arrays.
        rows: the batch, a pytree of arrays with the same first axis; every row weighs the same.
    """

    def of_row(row: Any) -> jax.Array:
        one = jax.tree.map(lambda array: array[None], row)
        vector: jax.Array = ravel_pytree(jax.value_and_grad(loss_of)(params, one))[0]
        return vector

    _, unravel = ravel_pytree((jnp.zeros((), jnp.float32), params))
    loss, gradients = unravel(jax.vmap(of_row)(rows).mean(axis=0))
    return loss, gradients
