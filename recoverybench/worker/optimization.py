"""The state and the step of any workload that minimises a mean loss with an Optax optimizer."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp

from recoverybench.worker import joined

if TYPE_CHECKING:
    import optax


def adamw(
    learning_rate: float, warmup_steps: int, *, b2: float, weight_decay: float, flat: bool
) -> optax.GradientTransformation:
    """AdamW whose learning rate grows from 0 in a line, and then stays.

    Args:
        learning_rate: after the warm-up. warmup_steps: 0: none.
        b2: decay of the second moment. weight_decay: of every parameter.
        flat: see `shaped`.
    """
    import optax

    rate = optax.linear_schedule(0.0, learning_rate, warmup_steps)
    return shaped(
        optax.adamw(rate if warmup_steps else learning_rate, b2=b2, weight_decay=weight_decay),
        flat=flat,
    )


def shaped(optimizer: optax.GradientTransformation, *, flat: bool) -> optax.GradientTransformation:
    """An optimizer whose moments have one of two shapes.

    Args:
        optimizer: one whose moments have the shapes of their parameters.
        flat: each kind of moment is one vector: a small state's checkpoint costs by the array.
            Else moments keep shape and name of their parameter, and a mesh splits them alike.
    """
    import optax

    return optax.flatten(optimizer) if flat else optimizer


def first_state(params: Any, optimizer: optax.GradientTransformation) -> dict[str, Any]:
    """The state before step 1: ``params``, ``optimizer`` and ``step``, an int32 scalar."""
    return {
        "params": params,
        "optimizer": optimizer.init(params),
        "step": jnp.zeros((), jnp.int32),
    }


def advance(
    state: dict[str, Any],
    loss_of: Callable[[Any, Any], jax.Array],
    rows: Any,
    optimizer: optax.GradientTransformation,
    *,
    joined_gradients: bool,
) -> tuple[dict[str, Any], jax.Array]:
    """One update: (the new state, the loss before it).

    Args:
        state: of `first_state`.
        loss_of: (params, rows) -> float32 scalar, the mean over the rows.
        rows: the global batch, a pytree of arrays with the same first axis.
        optimizer: the one that made the state.
        joined_gradients: reduce everything at once, see `joined.mean_gradients`.
    """
    differentiate = joined.mean_gradients if joined_gradients else joined.plain_gradients
    loss, gradients = differentiate(loss_of, state["params"], rows)
    return updated(state, gradients, optimizer), loss


def updated(
    state: dict[str, Any], gradients: Any, optimizer: optax.GradientTransformation
) -> dict[str, Any]:
    """The state after `gradients`, of the structure of its parameters; nothing else is in it."""
    import optax

    updates, moments = optimizer.update(gradients, state["optimizer"], state["params"])
    return {
        "params": optax.apply_updates(state["params"], updates),
        "optimizer": moments,
        "step": state["step"] + 1,
    }
