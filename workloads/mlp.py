"""Next byte from a window of embedded bytes, by an MLP.

The neural language model of Bengio et al. (2003) over bytes: the embeddings of the last
`context` bytes are put side by side and go through two hidden layers. Few matrices and no
attention, so its state is small and its step is short; Flax NNX with Optax Adam.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from recoverybench.worker import text
from recoverybench.worker.workload import folder, from_named_leaves, named_leaves

PRESETS: dict[str, dict[str, Any]] = {
    # Our own: a step of a few milliseconds on one core.
    "tiny": {
        "batch_size": 12,
        "seq_len": 32,
        "context": 8,
        "embedding_dim": 16,
        "hidden": 128,
        "learning_rate": 3e-3,
    },
    # Our own: 10.0 M parameters, as many as `transformer:small`, nearly all of them in two
    # matrices, which makes the other extreme of a checkpoint's layout.
    "small": {
        "batch_size": 12,
        "seq_len": 64,
        "context": 32,
        "embedding_dim": 64,
        "hidden": 2176,
        "learning_rate": 1e-3,
    },
}


def create(preset: str, data: Path | None) -> Mlp:
    """The workload of a preset, on the user's file or on the text that ships with it."""
    config = Config(**PRESETS[preset])
    path = data or folder() / "data" / text.SHIPPED_TEXT
    return Mlp(config, text.TextWindows(path, config.seq_len, config.batch_size))


@dataclass(frozen=True, slots=True)
class Config:
    """Shape and optimizer of the model.

    Attributes:
        batch_size: windows of text in the global batch.
        seq_len: bytes of a window of text after its first.
        context: bytes that a prediction sees; at most `seq_len`.
        embedding_dim: width of a byte's embedding.
        hidden: width of both hidden layers.
        learning_rate: of Adam, fixed.
    """

    batch_size: int
    seq_len: int
    context: int
    embedding_dim: int
    hidden: int
    learning_rate: float


class Mlp:
    """The workload; see `recoverybench.worker.workload.Workload`."""

    def __init__(self, config: Config, windows: text.TextWindows) -> None:
        """Take the model's shape and its data."""
        self.config = config
        self.batch_size = config.batch_size
        self._windows = windows

    def source(self) -> text.TextWindows:
        """Windows of the text, as int32 tokens."""
        return self._windows

    def init(self, key: jax.Array) -> dict[str, Any]:
        """Parameters, optimizer state and step counter before step 1."""
        import optax
        from flax import nnx

        model = model_class()(self.config, nnx.Rngs(key))
        params = nnx.to_pure_dict(nnx.state(model, nnx.Param))
        return {
            "params": params,
            "optimizer": named_leaves(optax.adam(self.config.learning_rate).init(params)),
            "step": jnp.zeros((), jnp.int32),
        }

    def step(
        self, state: dict[str, Any], batch: dict[str, jax.Array]
    ) -> tuple[dict[str, Any], jax.Array]:
        """One Adam update on the mean cross-entropy of the next byte.

        Every byte of the window that has `context` bytes before it is predicted.
        """
        import optax

        config = self.config
        optimizer = optax.adam(config.learning_rate)
        places = np.arange(config.seq_len + 1 - config.context)[:, None]
        contexts = batch["tokens"][:, places + np.arange(config.context)]
        targets = batch["tokens"][:, config.context :]

        def loss_of(params: dict[str, Any]) -> jax.Array:
            scores = self.logits(params, contexts)
            losses: jax.Array = optax.softmax_cross_entropy_with_integer_labels(scores, targets)
            return losses.mean()

        params = state["params"]
        loss, gradients = jax.value_and_grad(loss_of)(params)
        before = from_named_leaves(jax.eval_shape(optimizer.init, params), state["optimizer"])
        updates, after = optimizer.update(gradients, before)
        new = {
            "params": optax.apply_updates(params, updates),
            "optimizer": named_leaves(after),
            "step": state["step"] + 1,
        }
        return new, loss

    def logits(self, params: dict[str, Any], contexts: jax.Array) -> jax.Array:
        """Scores of the next byte.

        Args:
            params: as in the state.
            contexts: int32 [..., context].

        Returns:
            float32 [..., 256].
        """
        from flax import nnx

        graph, shapes = nnx.split(
            nnx.eval_shape(lambda: model_class()(self.config, nnx.Rngs(0))), nnx.Param
        )
        nnx.replace_by_pure_dict(shapes, params)
        scores: jax.Array = nnx.merge(graph, shapes)(contexts)
        return scores


@functools.cache
def model_class() -> Any:
    """The NNX module, defined on first use: a worker that does not trace never imports flax."""
    from flax import nnx

    class Model(nnx.Module):
        """Contexts in, scores of the next byte out."""

        def __init__(self, config: Config, rngs: nnx.Rngs) -> None:
            def matrix(rows: int, columns: int) -> nnx.Param[jax.Array]:
                # Scaled by hand: a truncated normal takes XLA on CPU far longer to compile.
                normal = nnx.initializers.normal(rows**-0.5)
                return nnx.Param(normal(rngs.params(), (rows, columns)))

            self.embedding = matrix(text.VOCABULARY, config.embedding_dim)
            self.input = matrix(config.context * config.embedding_dim, config.hidden)
            self.hidden = matrix(config.hidden, config.hidden)
            self.output = matrix(config.hidden, text.VOCABULARY)

        def __call__(self, contexts: jax.Array) -> jax.Array:
            x = self.embedding[...][contexts].reshape(*contexts.shape[:-1], -1)
            x = jax.nn.gelu(x @ self.input[...])
            x = jax.nn.gelu(x @ self.hidden[...])
            return x @ self.output[...]

    return Model
