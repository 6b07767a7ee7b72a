"""A plain JAX training script, as one writes it: data-parallel, saved with NumPy, dies of errors.

A decoder of the size of recoverybench's `transformer:tiny`: two layers, width 64, 4 heads, SwiGLU
of 128, bytes in and out, a batch of 12 windows of 32 bytes over all processes; AdamW by hand. It
knows nothing of recoverybench but its marks, which cost it two microseconds each.
"""

from __future__ import annotations

import argparse
import os
import traceback
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

import recoverybench.mark as mark

VOCABULARY, LAYERS, DIM, HEADS, HIDDEN, BATCH, LENGTH = 256, 2, 64, 4, 128, 12, 32
RATE = 3e-3
TEXT = np.frombuffer(Path(__file__).read_bytes(), np.uint8)


def init(seed: int) -> dict[str, np.ndarray]:
    """Parameters: matrices of normal numbers, divided by the root of their inputs."""
    shapes = {
        "embed": (VOCABULARY, DIM),
        "qkv": (LAYERS, DIM, 3 * DIM),
        "out": (LAYERS, DIM, DIM),
        "gate_up": (LAYERS, DIM, 2 * HIDDEN),
        "down": (LAYERS, HIDDEN, DIM),
    }
    random = np.random.default_rng(seed)
    return {
        name: (random.standard_normal(shape) * shape[-2] ** -0.5).astype(np.float32)
        for name, shape in shapes.items()
    }


def normed(x: jax.Array) -> jax.Array:
    return x * jax.lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-6)


def loss_of(p: dict[str, jax.Array], windows: jax.Array) -> jax.Array:
    """Mean cross-entropy of the next byte."""
    inputs, targets = windows[:, :-1], windows[:, 1:]
    x = p["embed"][inputs]
    hidden = jnp.tril(jnp.ones((LENGTH, LENGTH), bool))
    for layer in range(LAYERS):
        q, k, v = jnp.split(normed(x) @ p["qkv"][layer], 3, -1)
        q, k, v = (y.reshape(*y.shape[:2], HEADS, -1) for y in (q, k, v))
        scores = jnp.einsum("bihd,bjhd->bhij", q, k) * (DIM // HEADS) ** -0.5
        weights = jax.nn.softmax(jnp.where(hidden, scores, -1e30), -1)
        x += jnp.einsum("bhij,bjhd->bihd", weights, v).reshape(x.shape) @ p["out"][layer]
        gate, up = jnp.split(normed(x) @ p["gate_up"][layer], 2, -1)
        x += (jax.nn.silu(gate) * up) @ p["down"][layer]
    logits = normed(x) @ p["embed"].T
    picked = jnp.take_along_axis(jax.nn.log_softmax(logits), targets[..., None], -1)
    return -picked.mean()


def step(state: Any, windows: jax.Array) -> tuple[Any, jax.Array]:
    """AdamW, without a schedule."""
    p, m, v, count = state
    loss, grads = jax.value_and_grad(loss_of)(p, windows)
    count += 1
    m = jax.tree.map(lambda a, g: 0.9 * a + 0.1 * g, m, grads)
    v = jax.tree.map(lambda a, g: 0.999 * a + 0.001 * g * g, v, grads)
    scale = RATE * jnp.sqrt(1 - 0.999**count) / (1 - 0.9**count)
    p = jax.tree.map(lambda w, a, b: w * (1 - 1e-4) - scale * a / (jnp.sqrt(b) + 1e-8), p, m, v)
    return (p, m, v, count), loss


def batch(seed: int, number: int) -> np.ndarray:
    """The windows of one step, the same for every process."""
    starts = np.random.default_rng([seed, number]).integers(0, len(TEXT) - LENGTH - 1, BATCH)
    return np.stack([TEXT[i : i + LENGTH + 1] for i in starts]).astype(np.int32)


def train(args: argparse.Namespace) -> None:
    jax.distributed.initialize(
        f"127.0.0.1:{args.port}", args.world, args.rank, heartbeat_timeout_seconds=10
    )
    mark.event("rendezvous")
    mesh = Mesh(np.array(jax.devices()), ("data",))
    rows, copied = (NamedSharding(mesh, PartitionSpec(*a)) for a in (("data",), ()))
    path, done = Path(args.directory) / "state.npz", 0
    parameters = init(args.seed)
    moments = (jax.tree.map(np.zeros_like, parameters) for _ in range(2))
    state: Any = (parameters, *moments, np.zeros((), np.float32))
    leaves, tree = jax.tree.flatten(state)
    mark.restore_begin()
    if path.exists():
        with np.load(path) as kept:
            done, leaves = int(kept["step"]), [kept[str(i)] for i in range(len(leaves))]
    state = jax.device_put(jax.tree.unflatten(tree, leaves), copied)
    jax.block_until_ready(state)
    mark.restore_end(done)
    mine = slice(args.rank * BATCH // args.world, (args.rank + 1) * BATCH // args.world)
    run = jax.jit(step, out_shardings=(copied, copied), donate_argnums=0)
    for number in range(done + 1, args.steps + 1):
        local = batch(args.seed, number)[mine]
        windows = jax.make_array_from_process_local_data(rows, local, (BATCH, LENGTH + 1))
        state, loss = run(state, windows)
        value = float(loss)
        mark.step(number, loss=value)
        if args.rank == 0:
            print(f"step {number} loss {value:.6f}", flush=True)
        if args.rank == 0 and number % args.interval == 0:
            kept = {str(i): np.asarray(x) for i, x in enumerate(jax.tree.leaves(state))}
            np.savez(path.with_suffix(".new.npz"), step=number, **kept)
            path.with_suffix(".new.npz").replace(path)
            mark.saved(number)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--directory", required=True)
    for name in ("rank", "world", "port", "steps", "interval", "seed"):
        parser.add_argument(f"--{name}", type=int, required=True)
    mark.event("up")
    try:
        train(parser.parse_args())
    except Exception:
        mark.event("error")
        traceback.print_exc()
        # Not sys.exit: JAX's own handler would wait for workers that are no more.
        os._exit(1)


if __name__ == "__main__":
    main()
