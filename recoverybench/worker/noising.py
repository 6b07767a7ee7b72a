"""What a diffusion model sees of an image: noise, timesteps and positions, as pure functions."""

from __future__ import annotations

from typing import Final

import jax
import jax.numpy as jnp
import numpy as np

NOISE_SEED: Final = 20_221_219
"""Of the noise of every step; a constant, so that a step's noise depends on its number alone."""


def noised(
    batch: dict[str, jax.Array],
    step: jax.Array,
    *,
    timesteps: int,
    label_dropout: float,
    dropped: int,
) -> dict[str, jax.Array]:
    """What a step trains on, of which all randomness comes from its number.

    Args:
        batch: ``images`` and ``labels``.
        step: int32 scalar, the number of steps before it.
        timesteps: of the diffusion.
        label_dropout: share of labels that are dropped. dropped: the label they get.

    Returns:
        ``noised``: sqrt(a) × image + sqrt(1 - a) × noise (Ho et al., equation 4), where a is
        the product of 1 - β up to the row's timestep and β grows in a line from 1e-4 to 0.02;
        ``noise``, ``times`` and ``labels``, some of them dropped.
    """
    pixels, labels = batch["images"], batch["labels"]
    keys = jax.random.split(jax.random.fold_in(jax.random.key(NOISE_SEED), step), 3)
    noise = jax.random.normal(keys[0], pixels.shape)
    times = jax.random.randint(keys[1], labels.shape, 0, timesteps)
    drop = jax.random.uniform(keys[2], labels.shape) < label_dropout
    # In float64 beforehand, and as a constant of the program.
    kept = np.cumprod(1 - np.linspace(1e-4, 0.02, timesteps))
    signal = jnp.asarray(np.sqrt(kept), jnp.float32)[times][:, None, None, None]
    spread = jnp.asarray(np.sqrt(1 - kept), jnp.float32)[times][:, None, None, None]
    return {
        "noised": signal * pixels + spread * noise,
        "noise": noise,
        "times": times,
        "labels": jnp.where(drop, dropped, labels),
    }


def spelled(times: jax.Array, count: int) -> jax.Array:
    """Timesteps as cosines and sines of `count` / 2 frequencies from 1 down to 1/10000.

    Args:
        times: int32 [rows]. count: even.

    Returns:
        float32 [rows, count].
    """
    half = count // 2
    frequencies = (10_000.0 ** (-np.arange(half) / half)).astype(np.float32)
    angles = times[:, None].astype(jnp.float32) * frequencies
    return jnp.concatenate([jnp.cos(angles), jnp.sin(angles)], axis=-1)


def positions(side: int, dim: int) -> np.ndarray:
    """Fixed positions of a square of patches: sines and cosines of column, then of row.

    Returns:
        float32 [side * side, dim].
    """
    quarter = dim // 4
    angles = np.outer(np.arange(side), 10_000.0 ** (-np.arange(quarter) / quarter))
    one = np.concatenate([np.sin(angles), np.cos(angles)], axis=1)
    of_column, of_row = np.tile(one, (side, 1)), np.repeat(one, side, axis=0)
    return np.concatenate([of_column, of_row], axis=1).astype(np.float32)
