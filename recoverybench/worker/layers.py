"""Parts that several families of transformers share, as functions of weights.

Weights of all layers are stacked along a first axis, so that a model of 80 layers has as many
arrays as one of two, and can be one compiled loop. Projections that read the same input are
one array, laid out so that splitting it among devices splits heads (or hidden units) and
nothing within them: queries, key and value of a key/value head lie side by side, and gate and
up of a hidden unit have the same last index.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

Weights = Mapping[str, Any]


def run(
    block: Callable[[jax.Array, Weights], tuple[jax.Array, Any]],
    x: jax.Array,
    weights: Weights,
    *,
    scan: bool,
    remat: bool,
) -> tuple[jax.Array, Any]:
    """Take `x` through a block once for each layer.

    Args:
        block: (x, weights of one layer) -> (x, something else, a pytree of arrays).
        x: the residual stream.
        weights: name -> array whose first axis is the layer.
        scan: trace and compile the block once, as the body of a loop.
        remat: keep only a layer's input for the backward pass, and compute it again there.

    Returns:
        The residual stream, and the rest of every layer, stacked.
    """
    body = jax.checkpoint(block) if remat else block
    if scan:
        return jax.lax.scan(body, x, dict(weights))
    rest = []
    for layer in range(len(next(iter(weights.values())))):
        x, other = body(x, {name: array[layer] for name, array in weights.items()})
        rest.append(other)
    return x, jax.tree.map(lambda *each: jnp.stack(each), *rest)


def rms_norm(x: jax.Array, scale: jax.Array, epsilon: float = 1e-5) -> jax.Array:
    """`x` divided by the root mean square of its last axis, times `scale`; inside in float32."""
    wide = x.astype(jnp.float32)
    mean = jnp.mean(wide * wide, axis=-1, keepdims=True)
    return (wide * jax.lax.rsqrt(mean + epsilon)).astype(x.dtype) * scale


def layer_norm(
    x: jax.Array, scale_and_bias: jax.Array | None = None, epsilon: float = 1e-6
) -> jax.Array:
    """`x` with mean 0 and variance 1 along its last axis, then scaled and shifted.

    Args:
        x: [..., dim].
        scale_and_bias: [2, dim]; None: neither.
        epsilon: added to the variance.
    """
    centred = x - jnp.mean(x, axis=-1, keepdims=True)
    variance = jnp.mean(centred * centred, axis=-1, keepdims=True)
    normed = centred * jax.lax.rsqrt(variance + epsilon)
    return normed if scale_and_bias is None else normed * scale_and_bias[0] + scale_and_bias[1]


def attention(
    qkv: jax.Array, kv_heads: int, head_dim: int, *, causal: bool, rope_theta: float = 0.0
) -> jax.Array:
    """Grouped-query attention within a row.

    Args:
        qkv: [rows, length, kv_heads * (g + 2) * head_dim]: for each key/value head its g query
            heads, its key, its value.
        kv_heads: key/value heads. head_dim: width of a head.
        causal: a position sees those before it and itself; else all.
        rope_theta: base of rotary positions; 0: none.

    Returns:
        [rows, length, kv_heads * g * head_dim], the heads in the order of their queries.
    """
    rows, length, _ = qkv.shape
    heads = qkv.reshape(rows, length, kv_heads, -1, head_dim)
    turned, value = heads[:, :, :, :-1], heads[:, :, :, -1]
    if rope_theta:
        turned = rotary(turned, rope_theta)
    # Query heads g * i … g * i + g - 1 share key/value head i, which is JAX's order too.
    query = turned[:, :, :, :-1].reshape(rows, length, -1, head_dim)
    mixed = jax.nn.dot_product_attention(query, turned[:, :, :, -1], value, is_causal=causal)
    return mixed.reshape(rows, length, -1)


def rotary(x: jax.Array, base: float) -> jax.Array:
    """Turn each pair (i, i + head_dim / 2) of a head by position * base**(-2 i / head_dim).

    Args:
        x: [rows, length, ..., head_dim]; positions count from 0.
        base: of the wavelengths.
    """
    length, half = x.shape[1], x.shape[-1] // 2
    angles = np.outer(np.arange(length), base ** (-np.arange(half) / half))
    angles = angles.reshape(length, *(1,) * (x.ndim - 3), half)
    cos, sin = np.cos(angles).astype(x.dtype), np.sin(angles).astype(x.dtype)
    first, second = x[..., :half], x[..., half:]
    return jnp.concatenate([first * cos - second * sin, second * cos + first * sin], axis=-1)


def llama_attention(
    x: jax.Array, weights: Weights, kv_heads: int, head_dim: int, rope_theta: float
) -> jax.Array:
    """The attention half of a block of Llama's: RMSNorm, rotary positions, no biases.

    Args:
        x: [rows, length, dim].
        weights: ``norms`` [2, dim], of which the first is used, ``qkv`` and ``out``.
        kv_heads, head_dim, rope_theta: see `attention`.
    """
    qkv = rms_norm(x, weights["norms"][0]) @ weights["qkv"]
    mixed = attention(qkv, kv_heads, head_dim, causal=True, rope_theta=rope_theta)
    added: jax.Array = mixed @ weights["out"]
    return x + added


def swiglu(x: jax.Array, gate_up: jax.Array, down: jax.Array) -> jax.Array:
    """SiLU of a gate times a projection, projected back.

    Args:
        x: [..., dim].
        gate_up: [dim, 2, hidden].
        down: [hidden, dim].
    """
    both = jnp.einsum("...d,dgh->...gh", x, gate_up)
    return (jax.nn.silu(both[..., 0, :]) * both[..., 1, :]) @ down


def gpt_attention(x: jax.Array, weights: Weights, heads: int, *, causal: bool) -> jax.Array:
    """Multi-head attention with biases, from a normed input to what is added to the stream.

    Args:
        x: [rows, length, dim].
        weights: ``qkv`` [dim, 3 dim], ``out`` [dim, dim], ``biases`` of `split_biases`.
        heads: they divide dim. causal: see `attention`.
    """
    qkv_bias, out_bias, _, _ = split_biases(weights["biases"], x.shape[-1])
    # A bias of the keys adds the same to every score of a query, which softmax takes away again:
    # its gradient is 0, but for rounding, which Adam would scale up to whole steps of noise.
    query, key, value = jnp.split(qkv_bias.reshape(heads, 3, -1), 3, axis=1)
    bias = jnp.concatenate([query, jax.lax.stop_gradient(key), value], axis=1).reshape(-1)
    qkv = x @ weights["qkv"] + bias
    mixed = attention(qkv, heads, x.shape[-1] // heads, causal=causal)
    added: jax.Array = mixed @ weights["out"] + out_bias
    return added


def gpt_feed_forward(x: jax.Array, weights: Weights, *, approximate: bool) -> jax.Array:
    """Two projections with biases around a GELU.

    Args:
        x: [..., dim].
        weights: ``up`` [dim, hidden], ``down`` [hidden, dim], ``biases`` of `split_biases`.
        approximate: GELU by tanh, as in GPT-2.
    """
    _, _, up_bias, down_bias = split_biases(weights["biases"], x.shape[-1])
    hidden = jax.nn.gelu(x @ weights["up"] + up_bias, approximate=approximate)
    added: jax.Array = hidden @ weights["down"] + down_bias
    return added


def split_biases(biases: jax.Array, dim: int) -> list[jax.Array]:
    """The four biases of a block, kept in one vector: qkv, out, up, down.

    Args:
        biases: [3 dim + dim + hidden + dim].
        dim: width of the stream.
    """
    return jnp.split(biases, [3 * dim, 4 * dim, biases.shape[-1] - dim], axis=-1)


def affine(x: jax.Array, weights: jax.Array) -> jax.Array:
    """A projection with a bias, which is the last row of `weights`.

    Args:
        x: [..., inputs].
        weights: [inputs + 1, outputs].
    """
    return x @ weights[:-1] + weights[-1]


def patches(pixels: jax.Array, size: int) -> jax.Array:
    """Square patches of images, row by row.

    Args:
        pixels: [rows, height, width, channels].
        size: height and width of a patch; divides those of the image.

    Returns:
        [rows, height / size * width / size, size * size * channels].
    """
    rows, height, width, channels = pixels.shape
    grid = pixels.reshape(rows, height // size, size, width // size, size, channels)
    return grid.swapaxes(2, 3).reshape(rows, -1, size * size * channels)


def with_bias(weights: jax.Array) -> jax.Array:
    """Weights [inputs, outputs] and a bias of zeros, as `affine` takes them."""
    return jnp.concatenate([weights, jnp.zeros((1, weights.shape[1]))])


def pixels(tokens: jax.Array, size: int, side: int) -> jax.Array:
    """The square images that `patches` of this size came from.

    Args:
        tokens: [rows, side * side, size * size * channels].
        size: height and width of a patch.
        side: patches along an edge of the image.

    Returns:
        [rows, side * size, side * size, channels].
    """
    rows = tokens.shape[0]
    grid = tokens.reshape(rows, side, side, size, size, -1)
    return grid.swapaxes(2, 3).reshape(rows, side * size, side * size, -1)
