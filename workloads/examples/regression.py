"""A workload of one's own, in full: a network of two layers learns a function of noise."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

from recoverybench.worker.layout import Layout

ADAM = optax.adam(1e-2)
SPLIT = Layout({"inner": (None, "width"), "outer": ("width", None)}, {"width": "fsdp"})


class Regression:
    batch_size, layout = 12, SPLIT

    def source(self) -> Any:
        points = np.random.default_rng(0).normal(size=(600, 16)).astype(np.float32)
        return [{"x": x, "y": np.sin(x.sum(keepdims=True))} for x in points]

    def init(self, key: jax.Array) -> Any:
        inner, outer = jax.random.normal(key, (2, 16, 64)) / 8
        params = {"inner": inner, "outer": outer[0, :, None]}
        return {"params": params, "adam": ADAM.init(params)}

    def step(self, state: Any, batch: dict[str, jax.Array]) -> tuple[Any, jax.Array]:
        def loss_of(params: Any) -> jax.Array:
            found = jnp.tanh(batch["x"] @ params["inner"]) @ params["outer"]
            return jnp.mean((found - batch["y"]) ** 2)

        loss, gradients = jax.value_and_grad(loss_of)(state["params"])
        updates, adam = ADAM.update(gradients, state["adam"])
        return {"params": optax.apply_updates(state["params"], updates), "adam": adam}, loss


def make() -> Regression:
    return Regression()
