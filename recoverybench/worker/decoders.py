"""The decoders of the family `transformer`, as Flax NNX modules.

A class is defined on first use: a worker that does not trace never imports flax.
"""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp

from recoverybench.worker import joined, layers, modules


@functools.cache
def llama_class() -> Any:
    """A decoder in the style of Llama; made of a `transformer.Config`."""
    from flax import nnx

    class Llama(nnx.Module):
        """Bytes in, scores of the next byte out."""

        embedding: Any
        output: Any

        def __init__(self, config: Any, rngs: nnx.Rngs) -> None:
            deep, dim = config.layers, config.dim
            self.config = config
            shapes = {
                "embedding": (config.vocabulary, dim),
                "qkv": (deep, dim, (config.heads + 2 * config.kv_heads) * config.head_dim),
                "out": (deep, dim, dim),
                "gate_up": (deep, dim, 2, config.hidden),
                "down": (deep, config.hidden, dim),
            }
            if not config.tied:
                shapes["output"] = (dim, config.vocabulary)
            wanted = {name: (shape, 0.02) for name, shape in shapes.items()}
            modules.hold(self, joined.weights(rngs.params(), wanted))
            # Two norms a layer, before attention and before the feed-forward, and the last one.
            self.norms = nnx.Param(jnp.ones((2 * deep + 1, dim)))

        def __call__(self, tokens: jax.Array) -> jax.Array:
            config, norms = self.config, self.norms[...]

            def block(x: jax.Array, weights: layers.Weights) -> tuple[jax.Array, None]:
                weights = modules.cast(weights, config.compute_dtype)
                x = layers.llama_attention(
                    x, weights, config.kv_heads, config.head_dim, config.rope_theta
                )
                inner = layers.rms_norm(x, weights["norms"][1])
                return x + layers.swiglu(inner, weights["gate_up"], weights["down"]), None

            stacked = {name: getattr(self, name)[...] for name in ("qkv", "out", "gate_up", "down")}
            stacked["norms"] = norms[:-1].reshape(config.layers, 2, config.dim)
            embedding = self.embedding[...]
            x = embedding[tokens].astype(config.compute_dtype)
            x, _ = layers.run(block, x, stacked, scan=config.scan_layers, remat=config.remat)
            output = embedding.T if config.tied else self.output[...]
            last, output = modules.cast((norms[-1], output), config.compute_dtype)
            return jnp.matmul(layers.rms_norm(x, last), output, preferred_element_type=jnp.float32)

    return Llama


@functools.cache
def gpt2_class() -> Any:
    """A decoder in the style of GPT-2; made of a `transformer.Config`."""
    from flax import nnx

    class Gpt2(nnx.Module):
        """Bytes in, scores of the next byte out."""

        embedding: Any
        positions: Any

        def __init__(self, config: Any, rngs: nnx.Rngs) -> None:
            deep, dim, hidden = config.layers, config.dim, config.hidden
            self.config = config
            shapes = {
                "embedding": (config.vocabulary, dim),
                "positions": (config.context, dim),
                "qkv": (deep, dim, 3 * dim),
                "out": (deep, dim, dim),
                "up": (deep, dim, hidden),
                "down": (deep, hidden, dim),
            }
            wanted = {name: (shape, 0.02) for name, shape in shapes.items()}
            modules.hold(self, joined.weights(rngs.params(), wanted))
            self.biases = nnx.Param(jnp.zeros((deep, 5 * dim + hidden)))
            # Scale and bias of two norms a layer and of the last one.
            ones = jnp.ones((2 * deep + 1, 1, dim))
            self.norms = nnx.Param(jnp.concatenate([ones, 0 * ones], axis=1))

        def __call__(self, tokens: jax.Array) -> jax.Array:
            config, norms = self.config, self.norms[...]

            def block(x: jax.Array, weights: layers.Weights) -> tuple[jax.Array, None]:
                weights = modules.cast(weights, config.compute_dtype)
                inner = layers.layer_norm(x, weights["norms"][0], 1e-5)
                x = x + layers.gpt_attention(inner, weights, config.heads, causal=True)
                inner = layers.layer_norm(x, weights["norms"][1], 1e-5)
                return x + layers.gpt_feed_forward(inner, weights, approximate=True), None

            names = ("qkv", "out", "up", "down", "biases")
            stacked = {name: getattr(self, name)[...] for name in names}
            stacked["norms"] = norms[:-1].reshape(config.layers, 2, 2, config.dim)
            embedding = self.embedding[...]
            x = embedding[tokens] + self.positions[: tokens.shape[1]]
            x, _ = layers.run(
                block,
                x.astype(config.compute_dtype),
                stacked,
                scan=config.scan_layers,
                remat=config.remat,
            )
            last, output = modules.cast((norms[-1], embedding.T), config.compute_dtype)
            x = layers.layer_norm(x, last, 1e-5)
            return jnp.matmul(x, output, preferred_element_type=jnp.float32)

    return Gpt2
