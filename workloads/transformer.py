"""Decoder-only language model in the style of Llama, over bytes.

RMSNorm before each block, rotary position embedding, grouped-query attention, SwiGLU, tied
input and output embedding; Flax NNX with Optax AdamW and a linear warm-up. Weights of all
layers are stacked along a first axis, query/key/value and gate/up projections are fused and
the optimizer's moments are vectors: few leaves, which is what checkpoints of small models cost.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from recoverybench.worker import joined, optimization, text
from recoverybench.worker.workload import folder

PRESETS: dict[str, dict[str, Any]] = {
    # Our own: the least that still has every part of the architecture (two layers, two query
    # heads a key/value head), so that a step is a few milliseconds on one core.
    "tiny": {
        "batch_size": 12,
        "seq_len": 32,
        "layers": 2,
        "dim": 64,
        "heads": 4,
        "kv_heads": 2,
        "hidden": 128,
        "learning_rate": 3e-3,
        "warmup_steps": 5,
        "joined_gradients": True,
    },
    # 9.8 M parameters: depth, width and heads of nanoGPT's character-level configuration
    # (config/train_shakespeare_char.py: 6 layers, 384, 6 heads, learning rate 1e-3, warm-up
    # 100), with Llama's hidden width of 8/3 x dim and half as many key/value heads.
    "small": {
        "batch_size": 12,
        "seq_len": 64,
        "layers": 6,
        "dim": 384,
        "heads": 6,
        "kv_heads": 3,
        "hidden": 1024,
        "learning_rate": 1e-3,
        "warmup_steps": 100,
        "joined_gradients": False,
    },
}


def create(preset: str, data: Path | None) -> Transformer:
    """The workload of a preset, on the user's file or on the text that ships with it."""
    config = Config(**PRESETS[preset])
    path = data or folder() / "data" / text.SHIPPED_TEXT
    return Transformer(config, text.TextWindows(path, config.seq_len, config.batch_size))


@dataclass(frozen=True, slots=True)
class Config:
    """Shape and optimizer of the model.

    Attributes:
        batch_size: windows in the global batch.
        seq_len: bytes predicted in a window.
        layers: blocks.
        dim: width of the residual stream.
        heads: query heads; each is `dim // heads` wide, an even number.
        kv_heads: key/value heads; divides `heads`.
        hidden: width inside the feed-forward block.
        learning_rate: after the warm-up, for good.
        warmup_steps: steps over which the learning rate grows from 0.
        joined_gradients: reduce gradients as one vector; see `joined.mean_gradients`.
    """

    batch_size: int
    seq_len: int
    layers: int
    dim: int
    heads: int
    kv_heads: int
    hidden: int
    learning_rate: float
    warmup_steps: int
    joined_gradients: bool

    @property
    def head_dim(self) -> int:
        """Width of a head."""
        return self.dim // self.heads


class Transformer:
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
        from flax import nnx

        model = decoder_class()(self.config, nnx.Rngs(key))
        params = nnx.to_pure_dict(nnx.state(model, nnx.Param))
        return optimization.first_state(params, _optimizer(self.config))

    def step(
        self, state: dict[str, Any], batch: dict[str, jax.Array]
    ) -> tuple[dict[str, Any], jax.Array]:
        """One AdamW update on the mean cross-entropy of the next byte."""
        import optax

        def loss_of(params: dict[str, Any], tokens: jax.Array) -> jax.Array:
            logits = self.logits(params, tokens[:, :-1])
            losses: jax.Array = optax.softmax_cross_entropy_with_integer_labels(
                logits, tokens[:, 1:]
            )
            return losses.mean()

        return optimization.advance(
            state,
            loss_of,
            batch["tokens"],
            _optimizer(self.config),
            joined_gradients=self.config.joined_gradients,
        )

    def logits(self, params: dict[str, Any], tokens: jax.Array) -> jax.Array:
        """Scores of the next byte.

        Args:
            params: as in the state.
            tokens: int32 [rows, length].

        Returns:
            float32 [rows, length, 256].
        """
        from flax import nnx

        graph, shapes = nnx.split(
            nnx.eval_shape(lambda: decoder_class()(self.config, nnx.Rngs(0))), nnx.Param
        )
        nnx.replace_by_pure_dict(shapes, params)
        scores: jax.Array = nnx.merge(graph, shapes)(tokens)
        return scores


@functools.cache
def decoder_class() -> Any:
    """The NNX module, defined on first use: a worker that does not trace never imports flax."""
    from flax import nnx

    class Decoder(nnx.Module):
        """Bytes in, scores of the next byte out."""

        def __init__(self, config: Config, rngs: nnx.Rngs) -> None:
            layers, dim, head_dim = config.layers, config.dim, config.head_dim
            self.config = config
            weights = joined.normals(
                rngs.params(),
                [
                    (text.VOCABULARY, dim),
                    (layers, dim, (config.heads + 2 * config.kv_heads) * head_dim),
                    (layers, config.heads * head_dim, dim),
                    (layers, dim, 2 * config.hidden),
                    (layers, config.hidden, dim),
                ],
            )
            self.embedding, self.qkv, self.out, self.gate_up, self.down = (
                nnx.Param(0.02 * each) for each in weights
            )
            # Two norms a layer, before attention and before the feed-forward, and the last one.
            self.norms = nnx.Param(jnp.ones((2 * layers + 1, dim)))

        def __call__(self, tokens: jax.Array) -> jax.Array:
            config, norms = self.config, self.norms[...]
            embedding = self.embedding[...]
            x = embedding[tokens]
            for layer in range(config.layers):
                heads = rms_norm(x, norms[2 * layer]) @ self.qkv[layer]
                x = x + attention(heads, config) @ self.out[layer]
                both = rms_norm(x, norms[2 * layer + 1]) @ self.gate_up[layer]
                gate, up = jnp.split(both, 2, axis=-1)
                x = x + (jax.nn.silu(gate) * up) @ self.down[layer]
            return rms_norm(x, norms[-1]) @ embedding.T

    return Decoder


def rms_norm(x: jax.Array, scale: jax.Array, epsilon: float = 1e-5) -> jax.Array:
    """`x` divided by the root mean square of its last axis, times `scale`."""
    return x * jax.lax.rsqrt(jnp.mean(x * x, axis=-1, keepdims=True) + epsilon) * scale


def attention(qkv: jax.Array, config: Config) -> jax.Array:
    """Causal grouped-query attention with rotary positions.

    Args:
        qkv: [rows, length, (heads + 2 * kv_heads) * head_dim]: queries, keys, values.
        config: gives the heads.

    Returns:
        [rows, length, heads * head_dim].
    """
    rows, length, _ = qkv.shape
    query_heads, kv_heads = config.heads, config.kv_heads
    heads = qkv.reshape(rows, length, query_heads + 2 * kv_heads, config.head_dim)
    turned = rotary(heads[:, :, : query_heads + kv_heads])
    # Query heads g * i … g * i + g - 1 share key/value head i.
    query = turned[:, :, :query_heads].reshape(rows, length, kv_heads, -1, config.head_dim)
    key, value = turned[:, :, query_heads:], heads[:, :, query_heads + kv_heads :]
    scores = jnp.einsum("rqkgd,rskd->rkgqs", query, key) * config.head_dim**-0.5
    seen = np.tril(np.ones((length, length), bool))
    weights = jax.nn.softmax(jnp.where(seen, scores, -jnp.inf), axis=-1)
    mixed = jnp.einsum("rkgqs,rskd->rqkgd", weights, value)
    return mixed.reshape(rows, length, query_heads * config.head_dim)


def rotary(x: jax.Array, base: float = 10_000.0) -> jax.Array:
    """Turn each pair (i, i + head_dim / 2) of a head by position * base**(-2 i / head_dim).

    Args:
        x: [rows, length, heads, head_dim]; positions count from 0.
        base: of the wavelengths.
    """
    length, half = x.shape[1], x.shape[3] // 2
    angles = np.outer(np.arange(length), base ** (-np.arange(half) / half))[:, None, :]
    cos, sin = np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)
    first, second = x[..., :half], x[..., half:]
    return jnp.concatenate([first * cos - second * sin, second * cos + first * sin], axis=-1)


def _optimizer(config: Config) -> Any:
    import optax

    warmup = optax.linear_schedule(0.0, config.learning_rate, config.warmup_steps)
    return optax.flatten(optax.adamw(warmup, b2=0.95, weight_decay=0.1))
