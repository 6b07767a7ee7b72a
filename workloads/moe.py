"""Mixture of experts: a decoder over bytes whose feed-forward is routed, in the style of Mixtral.

The attention of Llama, and in each layer a router that sends every byte to its two best
experts (SwiGLU each) and mixes what they return. Experts take a fixed number of bytes of each
row (GShard's capacity, a row being a group), so shapes do not depend on the routing and a row's
loss on no other row; Flax NNX with Optax AdamW. Tokens are bytes whatever the vocabulary, as in
the family `transformer`.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp

from recoverybench.worker import joined, layers, modules, optimization, presets, text
from recoverybench.worker.layout import Layout
from recoverybench.worker.workload import folder

PRESETS: dict[str, dict[str, Any]] = {
    # Our own: four experts of which two are taken, and room for every byte in its experts, so
    # that nothing is left out, as in Mixtral.
    "tiny": {
        "batch_size": 12,
        "seq_len": 32,
        "layers": 2,
        "dim": 32,
        "heads": 4,
        "kv_heads": 2,
        "hidden": 64,
        "experts": 4,
        "experts_per_token": 2,
        "capacity_factor": 2.0,
        "balance_weight": 0.02,
        "vocabulary": 256,
        "rope_theta": 10_000.0,
        "learning_rate": 3e-3,
        "warmup_steps": 5,
        "compute_dtype": "float32",
        "scan_layers": False,
        "remat": False,
        "flat_moments": True,
        "joined_gradients": True,
    },
    # 46.7 B parameters: Mixtral of Experts (arXiv:2401.04088), table 1; rotary base and weight
    # of the balance loss as in config.json of mistralai/Mixtral-8x7B-v0.1. How it was trained
    # is not published: the optimizer is that of `transformer:llama3-8b`, and a capacity factor
    # of 1.25 (GShard) leaves out bytes where Mixtral leaves out none; 4.0 would not. The
    # published window is 32768; 4096 is what leaves 48 rows of the text that ships.
    "mixtral-8x7b": {
        "batch_size": 48,
        "seq_len": 4096,
        "layers": 32,
        "dim": 4096,
        "heads": 32,
        "kv_heads": 8,
        "hidden": 14336,
        "experts": 8,
        "experts_per_token": 2,
        "capacity_factor": 1.25,
        "balance_weight": 0.02,
        "vocabulary": 32000,
        "rope_theta": 1_000_000.0,
        "learning_rate": 3e-4,
        "warmup_steps": 8000,
        "compute_dtype": "bfloat16",
        "scan_layers": True,
        "remat": True,
        "flat_moments": False,
        "joined_gradients": False,
    },
}

AXES: dict[str, tuple[str, ...]] = {
    "data": (),
    "fsdp": ("dim",),
    "expert": ("experts",),
    "tensor": ("heads", "kv_heads", "hidden"),
}


def create(preset: str, data: Path | None, **changes: Any) -> Moe:
    """The workload of a preset, on the user's file or on the text that ships with it."""
    config = Config(**(PRESETS[preset] | changes))
    path = data or folder() / "data" / text.SHIPPED_TEXT
    return Moe(config, text.TextWindows(path, config.seq_len, config.batch_size))


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
        hidden: width inside an expert.
        experts: of each layer.
        experts_per_token: that a byte goes to.
        capacity_factor: bytes of a row that an expert takes, over what it would get if all
            got the same; `experts / experts_per_token` is room for every byte.
        balance_weight: of the auxiliary loss that has experts used evenly.
        vocabulary: rows of the embedding; bytes are the first 256.
        rope_theta: base of the rotary positions.
        learning_rate: after the warm-up, for good.
        warmup_steps: steps over which the learning rate grows from 0.
        compute_dtype: ``float32`` or ``bfloat16``; parameters and moments are float32.
        scan_layers, remat: see `layers.run`.
        flat_moments: see `optimization.shaped`.
        joined_gradients: reduce gradients as one vector; see `joined.mean_gradients`.
    """

    batch_size: int
    seq_len: int
    layers: int
    dim: int
    heads: int
    kv_heads: int
    hidden: int
    experts: int
    experts_per_token: int
    capacity_factor: float
    balance_weight: float
    vocabulary: int
    rope_theta: float
    learning_rate: float
    warmup_steps: int
    compute_dtype: str
    scan_layers: bool
    remat: bool
    flat_moments: bool
    joined_gradients: bool

    def __post_init__(self) -> None:
        """Raises `UsageError` for what makes no model."""
        presets.positive(self, or_zero=("warmup_steps", "balance_weight"))
        presets.one_of(self, "compute_dtype", ("float32", "bfloat16"))
        presets.divides(self, "heads", "dim")
        presets.divides(self, "kv_heads", "heads")
        presets.require(
            "heads", self.heads, self.head_dim % 2 == 0, f"heads of an even width; dim = {self.dim}"
        )
        presets.require(
            "experts_per_token",
            self.experts_per_token,
            self.experts_per_token <= self.experts,
            f"at most experts = {self.experts}",
        )
        presets.require(
            "vocabulary",
            self.vocabulary,
            self.vocabulary >= text.VOCABULARY,
            f"at least {text.VOCABULARY}, for tokens are bytes",
        )

    @property
    def head_dim(self) -> int:
        """Width of a head."""
        return self.dim // self.heads

    def capacity(self, length: int) -> int:
        """Bytes of a row of that length that an expert takes."""
        even = self.experts_per_token * length / self.experts
        return min(length, math.ceil(self.capacity_factor * even))


class Moe:
    """The workload; see `recoverybench.worker.workload.Workload`."""

    def __init__(self, config: Config, windows: text.TextWindows) -> None:
        """Take the model's shape and its data."""
        self.config = config
        self.batch_size = config.batch_size
        self.layout = layout_of(config)
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
        """One AdamW update on the mean cross-entropy of the next byte and the balance loss."""
        import optax

        def loss_of(params: dict[str, Any], tokens: jax.Array) -> jax.Array:
            logits, balance = self.logits(params, tokens[:, :-1])
            losses: jax.Array = optax.softmax_cross_entropy_with_integer_labels(
                logits, tokens[:, 1:]
            )
            return losses.mean() + self.config.balance_weight * balance.mean()

        return optimization.advance(
            state,
            loss_of,
            batch["tokens"],
            _optimizer(self.config),
            joined_gradients=self.config.joined_gradients,
        )

    def logits(self, params: dict[str, Any], tokens: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Scores of the next byte, and how unevenly experts are used.

        Args:
            params: as in the state.
            tokens: int32 [rows, length].

        Returns:
            float32 [rows, length, vocabulary] and float32 [layers, rows], see `route`.
        """
        found: tuple[jax.Array, jax.Array] = modules.call(
            lambda rngs: model_class()(self.config, rngs), params, tokens
        )
        return found


@functools.cache
def model_class() -> Any:
    """The NNX module, defined on first use: a worker that does not trace never imports flax."""
    from flax import nnx

    class Model(nnx.Module):
        """Bytes in, scores of the next byte out."""

        embedding: Any
        output: Any

        def __init__(self, config: Config, rngs: nnx.Rngs) -> None:
            deep, dim, experts = config.layers, config.dim, config.experts
            self.config = config
            shapes = {
                "embedding": (config.vocabulary, dim),
                "qkv": (deep, dim, (config.heads + 2 * config.kv_heads) * config.head_dim),
                "out": (deep, dim, dim),
                "router": (deep, dim, experts),
                "gate_up": (deep, experts, dim, 2, config.hidden),
                "down": (deep, experts, config.hidden, dim),
                "output": (dim, config.vocabulary),
            }
            wanted = {name: (shape, 0.02) for name, shape in shapes.items()}
            modules.hold(self, joined.weights(rngs.params(), wanted))
            # Two norms a layer, before attention and before the experts, and the last one.
            self.norms = nnx.Param(jnp.ones((2 * deep + 1, dim)))

        def __call__(self, tokens: jax.Array) -> tuple[jax.Array, jax.Array]:
            config, norms = self.config, self.norms[...]

            def block(x: jax.Array, weights: layers.Weights) -> tuple[jax.Array, jax.Array]:
                weights = modules.cast(weights, config.compute_dtype)
                x = layers.llama_attention(
                    x, weights, config.kv_heads, config.head_dim, config.rope_theta
                )
                inner = layers.rms_norm(x, weights["norms"][1])
                added, balance = feed_forward(inner, weights, config)
                return x + added, balance

            names = ("qkv", "out", "router", "gate_up", "down")
            stacked = {name: getattr(self, name)[...] for name in names}
            stacked["norms"] = norms[:-1].reshape(config.layers, 2, config.dim)
            x = self.embedding[...][tokens].astype(config.compute_dtype)
            x, balance = layers.run(block, x, stacked, scan=config.scan_layers, remat=config.remat)
            last, output = modules.cast((norms[-1], self.output[...]), config.compute_dtype)
            x = layers.rms_norm(x, last)
            return jnp.matmul(x, output, preferred_element_type=jnp.float32), balance

    return Model


def feed_forward(
    x: jax.Array, weights: layers.Weights, config: Config
) -> tuple[jax.Array, jax.Array]:
    """Send each position to its experts and mix what they return.

    Args:
        x: [rows, length, dim].
        weights: ``router`` [dim, experts], ``gate_up`` [experts, dim, 2, hidden], ``down``
            [experts, hidden, dim].
        config: gives the routing.

    Returns:
        [rows, length, dim], and the balance of `route`.
    """
    scores = jnp.matmul(x, weights["router"], preferred_element_type=jnp.float32)
    shares, balance = route(scores, config.experts_per_token, config.capacity(x.shape[1]))
    shares = shares.astype(x.dtype)
    taken = (shares > 0).astype(x.dtype)
    inputs = jnp.einsum("rlec,rld->recd", taken, x)
    both = jnp.einsum("recd,edgh->recgh", inputs, weights["gate_up"])
    hidden = jax.nn.silu(both[..., 0, :]) * both[..., 1, :]
    outputs = jnp.einsum("rech,ehd->recd", hidden, weights["down"])
    return jnp.einsum("rlec,recd->rld", shares, outputs), balance


def route(scores: jax.Array, chosen: int, capacity: int) -> tuple[jax.Array, jax.Array]:
    """Which slot of which expert a position takes, and with what share of its output.

    The best `chosen` experts of a position share it by the softmax of their scores (Mixtral,
    section 2.1). An expert's slots go to first choices before second ones, and to earlier
    positions before later ones; who finds none is left out there (GShard, arXiv:2006.16668,
    algorithm 1).

    Args:
        scores: float32 [rows, length, experts].
        chosen: experts of a position.
        capacity: slots of an expert for each row.

    Returns:
        shares: float32 [rows, length, experts, capacity], not 0 where a position has a slot.
        balance: float32 [rows], experts × Σ (share of choices × mean probability): `chosen`
            if experts are used evenly, more if not (Switch Transformer, arXiv:2101.03961,
            equation 4, over all choices, as in the published model's code).
    """
    rows, length, experts = scores.shape
    best, which = jax.lax.top_k(scores, chosen)
    asked = jax.nn.one_hot(which, experts, dtype=jnp.float32)  # [rows, length, chosen, experts]
    queue = asked.swapaxes(1, 2).reshape(rows, chosen * length, experts)
    before = jnp.cumsum(queue, axis=1) - queue
    # A number from the capacity on is nobody's slot: its one-hot row is all zeros.
    slots = jax.nn.one_hot(before.astype(jnp.int32), capacity, dtype=jnp.float32)
    slots = (slots * queue[..., None]).reshape(rows, chosen, length, experts, capacity)
    shares = jnp.einsum("rlk,rklec->rlec", jax.nn.softmax(best, axis=-1), slots)
    probabilities = jax.nn.softmax(scores, axis=-1).mean(axis=1)
    balance = experts * (asked.sum(axis=2).mean(axis=1) * probabilities).sum(axis=-1)
    return shares, balance


def layout_of(config: Config) -> Layout:
    """Experts over ``expert``; heads and hidden units over ``tensor``, the rest over ``fsdp``."""
    rules = {"embed": "fsdp", "heads": "tensor", "mlp": "tensor", "expert": "expert"}
    # Whatever splits the key/value heads then splits the vocabulary too.
    if config.vocabulary % config.kv_heads == 0:
        rules["vocab"] = "tensor"
    return Layout(
        axes={
            "embedding": ("vocab", "embed"),
            "output": ("embed", "vocab"),
            "qkv": (None, "embed", "heads"),
            "out": (None, "heads", "embed"),
            "gate_up": (None, "expert", "embed", None, "mlp"),
            "down": (None, "expert", "mlp", "embed"),
        },
        rules=rules,
    )


def _optimizer(config: Config) -> Any:
    return optimization.adamw(
        config.learning_rate,
        config.warmup_steps,
        b2=0.95,
        weight_decay=0.1,
        flat=config.flat_moments,
    )
