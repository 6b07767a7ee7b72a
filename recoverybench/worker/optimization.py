"""The state and the step of any workload that minimises a mean loss with an Optax optimizer."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp

from recoverybench.worker import joined

if TYPE_CHECKING:
    import optax


def first_state(params: Any, optimizer: optax.GradientTransformation) -> dict[str, Any]:
    """The state before step 1: ``params``, ``optimizer`` and ``step``, an int32 scalar."""
    return {
        "params": params,
        "optimizer": optimizer.init(params),
        "step": jnp.zeros((), jnp.int32),
    }


def advance(
    state: dict[str, Any],
    loss_of: Callable[[Any, jax.Array], jax.Array],
    rows: jax.Array,
    optimizer: optax.GradientTransformation,
    *,
    joined_gradients: bool,
) -> tuple[dict[str, Any], jax.Array]:
    """One update: (the new state, the loss before it).

    Args:
        state: of `first_state`.
        loss_of: (params, rows) -> float32 scalar, the mean over the rows.
        rows: the global batch.
        optimizer: the one that made the state.
        joined_gradients: reduce everything at once, see `joined.mean_gradients`.
    """
    import optax

    differentiate = joined.mean_gradients if joined_gradients else joined.plain_gradients
    loss, gradients = differentiate(loss_of, state["params"], rows)
    updates, moments = optimizer.update(gradients, state["optimizer"], state["params"])
    new = {
        "params": optax.apply_updates(state["params"], updates),
        "optimizer": moments,
        "step": state["step"] + 1,
    }
    return new, loss
