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
import numpy as np

from recoverybench.worker import joined, modules, optimization, presets, text
from recoverybench.worker.layout import Layout
from recoverybench.worker.workload import folder

PRESETS: dict[str, dict[str, Any]] = {
    # Our own: a step of a few milliseconds on one core.
    "tiny": {
        "batch_size": 12,
        "seq_len": 32,
        "context": 8,
        "embedding_dim": 16,
        "hidden": 128,
        "learning_rate": 3e-3,
        "flat_moments": True,
        "joined_gradients": True,
    },
    # Our own: 9.8 M parameters, as many as `transformer:small`, nearly all of them in two
    # matrices, which makes the other extreme of a checkpoint's layout.
    "small": {
        "batch_size": 12,
        "seq_len": 64,
        "context": 32,
        "embedding_dim": 64,
        "hidden": 2176,
        "learning_rate": 1e-3,
        "flat_moments": True,
        "joined_gradients": False,
    },
}


AXES: dict[str, tuple[str, ...]] = {
    "data": (),
    "fsdp": ("embedding_dim", "hidden"),
    "tensor": ("hidden",),
}

LAYOUT = Layout(
    axes={"input": ("embed", "mlp"), "hidden": ("mlp", "embed"), "output": ("embed", None)},
    rules={"embed": "fsdp", "mlp": "tensor"},
)


def create(preset: str, data: Path | None, **changes: Any) -> Mlp:
    """The workload of a preset, on the user's file or on the text that ships with it."""
    config = Config(**{**PRESETS[preset], **changes})
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
        flat_moments: see `optimization.shaped`.
        joined_gradients: reduce gradients as one vector; see `joined.mean_gradients`.
    """

    batch_size: int
    seq_len: int
    context: int
    embedding_dim: int
    hidden: int
    learning_rate: float
    flat_moments: bool
    joined_gradients: bool

    def __post_init__(self) -> None:
        """Raises `UsageError` for what makes no model."""
        presets.positive(self)
        presets.require(
            "context",
            self.context,
            self.context <= self.seq_len,
            f"at most seq_len = {self.seq_len}",
        )


class Mlp:
    """The workload; see `recoverybench.worker.workload.Workload`."""

    def __init__(self, config: Config, windows: text.TextWindows) -> None:
        """Take the model's shape and its data."""
        self.config = config
        self.batch_size = config.batch_size
        self.layout = LAYOUT
        self._windows = windows

    def source(self) -> text.TextWindows:
        """Windows of the text, as int32 tokens."""
        return self._windows

    def init(self, key: jax.Array) -> dict[str, Any]:
        """Parameters, optimizer state and step counter before step 1."""
        from flax import nnx

        params = modules.parameters(model_class()(self.config, nnx.Rngs(key)))
        return optimization.first_state(params, _optimizer(self.config))

    def step(
        self, state: dict[str, Any], batch: dict[str, jax.Array]
    ) -> tuple[dict[str, Any], jax.Array]:
        """One Adam update on the mean cross-entropy of the next byte.

        Every byte of the window that has `context` bytes before it is predicted.
        """
        import optax

        config = self.config
        places = np.arange(config.seq_len + 1 - config.context)[:, None]

        def loss_of(params: dict[str, Any], tokens: jax.Array) -> jax.Array:
            scores = self.logits(params, tokens[:, places + np.arange(config.context)])
            losses: jax.Array = optax.softmax_cross_entropy_with_integer_labels(
                scores, tokens[:, config.context :]
            )
            return losses.mean()

        return optimization.advance(
            state,
            loss_of,
            batch["tokens"],
            _optimizer(config),
            joined_gradients=config.joined_gradients,
        )

    def logits(self, params: dict[str, Any], contexts: jax.Array) -> jax.Array:
        """Scores of the next byte.

        Args:
            params: as in the state.
            contexts: int32 [..., context].

        Returns:
            float32 [..., 256].
        """
        scores: jax.Array = modules.call(
            lambda rngs: model_class()(self.config, rngs), params, contexts
        )
        return scores


@functools.cache
def model_class() -> Any:
    """The NNX module, defined on first use: a worker that does not trace never imports flax."""
    from flax import nnx

    class Model(nnx.Module):
        """Contexts in, scores of the next byte out."""

        def __init__(self, config: Config, rngs: nnx.Rngs) -> None:
            shapes = [
                (text.VOCABULARY, config.embedding_dim),
                (config.context * config.embedding_dim, config.hidden),
                (config.hidden, config.hidden),
                (config.hidden, text.VOCABULARY),
            ]
            weights = joined.normals(rngs.params(), shapes)
            self.embedding, self.input, self.hidden, self.output = (
                nnx.Param(each * each.shape[0] ** -0.5) for each in weights
            )

        def __call__(self, contexts: jax.Array) -> jax.Array:
            x = self.embedding[...][contexts].reshape(*contexts.shape[:-1], -1)
            x = jax.nn.gelu(x @ self.input[...])
            x = jax.nn.gelu(x @ self.hidden[...])
            return x @ self.output[...]

    return Model


def _optimizer(config: Config) -> Any:
    import optax

    return optimization.shaped(optax.adam(config.learning_rate), flat=config.flat_moments)
