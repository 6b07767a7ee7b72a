"""Decoder-only language model over bytes, in the style of Llama or of GPT-2.

Llama: RMSNorm before each block, rotary positions, grouped-query attention, SwiGLU. GPT-2:
LayerNorm, learned positions, multi-head attention, GELU, biases, tied embeddings. Flax NNX
with Optax AdamW and a linear warm-up. Weights of all layers are stacked along a first axis and
projections of the same input are fused: few leaves, which is what checkpoints of small models
cost.

Tokens are the bytes of a text, whatever the vocabulary of a preset: of a published one the ids
below 256 occur, and the rest of the embedding is there, is saved and restored, and is trained
as an output only.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax

from recoverybench.worker import decoders, modules, optimization, presets, text
from recoverybench.worker.layout import Layout
from recoverybench.worker.workload import folder

PRESETS: dict[str, dict[str, Any]] = {
    # Our own: the least that still has every part of the architecture (two layers, two query
    # heads a key/value head), so that a step is a few milliseconds on one core.
    "tiny": {
        "batch_size": 12,
        "seq_len": 32,
        "style": "llama",
        "layers": 2,
        "dim": 64,
        "heads": 4,
        "kv_heads": 2,
        "hidden": 128,
        "vocabulary": 256,
        "context": 1024,
        "rope_theta": 10_000.0,
        "tied": True,
        "learning_rate": 3e-3,
        "warmup_steps": 5,
        "compute_dtype": "float32",
        "scan_layers": False,
        "remat": False,
        "flat_moments": True,
        "joined_gradients": True,
    },
    # 9.8 M parameters: depth, width and heads of nanoGPT's character-level configuration
    # (config/train_shakespeare_char.py: 6 layers, 384, 6 heads, learning rate 1e-3, warm-up
    # 100), with Llama's hidden width of 8/3 x dim and half as many key/value heads.
    "small": {
        "batch_size": 12,
        "seq_len": 64,
        "style": "llama",
        "layers": 6,
        "dim": 384,
        "heads": 6,
        "kv_heads": 3,
        "hidden": 1024,
        "vocabulary": 256,
        "context": 1024,
        "rope_theta": 10_000.0,
        "tied": True,
        "learning_rate": 1e-3,
        "warmup_steps": 100,
        "compute_dtype": "float32",
        "scan_layers": False,
        "remat": False,
        "flat_moments": True,
        "joined_gradients": False,
    },
    # 124,439,808 parameters: GPT-2 small (Radford et al. 2019, table 2; the sizes and the
    # count are those of the released model, Hugging Face openai-community/gpt2, config.json).
    # Optimizer and micro-batch of 12 rows as nanoGPT's reproduction (config/train_gpt2.py:
    # learning rate 6e-4, warm-up 2000; batches of 0.5 M tokens by accumulation, which is left
    # out here, as are dropout and the decay of the learning rate).
    "gpt2-124m": {
        "batch_size": 12,
        "seq_len": 1024,
        "style": "gpt2",
        "layers": 12,
        "dim": 768,
        "heads": 12,
        "kv_heads": 12,
        "hidden": 3072,
        "vocabulary": 50257,
        "context": 1024,
        "rope_theta": 0.0,
        "tied": True,
        "learning_rate": 6e-4,
        "warmup_steps": 2000,
        "compute_dtype": "float32",
        "scan_layers": True,
        "remat": False,
        "flat_moments": False,
        "joined_gradients": False,
    },
    # 8.03 B parameters: The Llama 3 Herd of Models (arXiv:2407.21783), table 3; vocabulary,
    # context and rotary base as in config.json of meta-llama/Meta-Llama-3-8B. Computed in
    # bfloat16 over parameters and moments in float32, as MaxText trains it (base.yml: dtype,
    # weight_dtype). The warm-up of 8000 steps is the paper's for 405B. The published batch is
    # 4 M tokens and more; 48 rows is what the text that ships holds.
    "llama3-8b": {
        "batch_size": 48,
        "seq_len": 8192,
        "style": "llama",
        "layers": 32,
        "dim": 4096,
        "heads": 32,
        "kv_heads": 8,
        "hidden": 14336,
        "vocabulary": 128256,
        "context": 8192,
        "rope_theta": 500_000.0,
        "tied": False,
        "learning_rate": 3e-4,
        "warmup_steps": 8000,
        "compute_dtype": "bfloat16",
        "scan_layers": True,
        "remat": True,
        "flat_moments": False,
        "joined_gradients": False,
    },
    # 70.55 B parameters: the same sources, and config.json of meta-llama/Meta-Llama-3-70B.
    "llama3-70b": {
        "batch_size": 48,
        "seq_len": 8192,
        "style": "llama",
        "layers": 80,
        "dim": 8192,
        "heads": 64,
        "kv_heads": 8,
        "hidden": 28672,
        "vocabulary": 128256,
        "context": 8192,
        "rope_theta": 500_000.0,
        "tied": False,
        "learning_rate": 1.5e-4,
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
    "tensor": ("heads", "kv_heads", "hidden"),
}


def create(preset: str, data: Path | None, **changes: Any) -> Transformer:
    """The workload of a preset, on the user's file or on the text that ships with it."""
    config = Config(**(PRESETS[preset] | changes))
    path = data or folder() / "data" / text.SHIPPED_TEXT
    return Transformer(config, text.TextWindows(path, config.seq_len, config.batch_size))


@dataclass(frozen=True, slots=True)
class Config:
    """Shape and optimizer of the model.

    Attributes:
        batch_size: windows in the global batch.
        seq_len: bytes predicted in a window; at most `context`.
        style: ``llama`` or ``gpt2``.
        layers: blocks.
        dim: width of the residual stream.
        heads: query heads; each is `dim // heads` wide, an even number.
        kv_heads: key/value heads; divides `heads`.
        hidden: width inside the feed-forward block.
        vocabulary: rows of the embedding; bytes are the first 256.
        context: the longest window; in GPT-2's style rows of the learned positions.
        rope_theta: base of the rotary positions, in Llama's style.
        tied: the output uses the embedding too (always so in GPT-2's style).
        learning_rate: after the warm-up, for good.
        warmup_steps: steps over which the learning rate grows from 0.
        compute_dtype: ``float32`` or ``bfloat16``; parameters and moments are float32.
        scan_layers, remat: see `layers.run`.
        flat_moments: see `optimization.shaped`.
        joined_gradients: reduce gradients as one vector; see `joined.mean_gradients`.
    """

    batch_size: int
    seq_len: int
    style: str
    layers: int
    dim: int
    heads: int
    kv_heads: int
    hidden: int
    vocabulary: int
    context: int
    rope_theta: float
    tied: bool
    learning_rate: float
    warmup_steps: int
    compute_dtype: str
    scan_layers: bool
    remat: bool
    flat_moments: bool
    joined_gradients: bool

    def __post_init__(self) -> None:
        """Raises `UsageError` for what makes no model."""
        gpt2 = self.style == "gpt2"
        presets.one_of(self, "style", ("llama", "gpt2"))
        presets.one_of(self, "compute_dtype", ("float32", "bfloat16"))
        presets.positive(self, or_zero=("warmup_steps", *(("rope_theta",) if gpt2 else ())))
        presets.divides(self, "heads", "dim")
        presets.divides(self, "kv_heads", "heads")
        presets.require(
            "seq_len",
            self.seq_len,
            self.seq_len <= self.context,
            f"at most context = {self.context}",
        )
        presets.require(
            "vocabulary",
            self.vocabulary,
            self.vocabulary >= text.VOCABULARY,
            f"at least {text.VOCABULARY}, for tokens are bytes",
        )
        if gpt2:
            presets.require(
                "kv_heads",
                self.kv_heads,
                self.kv_heads == self.heads,
                f"heads = {self.heads} in style gpt2",
            )
            presets.require("tied", self.tied, self.tied, "true in style gpt2")
        else:
            presets.require(
                "heads",
                self.heads,
                self.head_dim % 2 == 0,
                f"heads of an even width; dim = {self.dim}",
            )

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
        self.layout = layout_of(config)
        self._windows = windows

    def source(self) -> text.TextWindows:
        """Windows of the text, as int32 tokens."""
        return self._windows

    def init(self, key: jax.Array) -> dict[str, Any]:
        """Parameters, optimizer state and step counter before step 1."""
        from flax import nnx

        params = modules.parameters(self._model(nnx.Rngs(key)))
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
            float32 [rows, length, vocabulary].
        """
        scores: jax.Array = modules.call(self._model, params, tokens)
        return scores

    def _model(self, rngs: Any) -> Any:
        make = decoders.gpt2_class() if self.config.style == "gpt2" else decoders.llama_class()
        return make(self.config, rngs)


def layout_of(config: Config) -> Layout:
    """Heads and hidden units over ``tensor``, the other side of each matrix over ``fsdp``."""
    rules = {"embed": "fsdp", "heads": "tensor", "mlp": "tensor"}
    # Whatever splits the key/value heads then splits the vocabulary too; GPT-2's 50257 is
    # 29 x 1733, which nothing splits.
    if config.vocabulary % config.kv_heads == 0:
        rules["vocab"] = "tensor"
    return Layout(
        axes={
            "embedding": ("vocab", "embed"),
            "output": ("embed", "vocab"),
            "positions": (None, "embed"),
            "qkv": (None, "embed", "heads"),
            "out": (None, "heads", "embed"),
            "gate_up": (None, "embed", None, "mlp"),
            "up": (None, "embed", "mlp"),
            "down": (None, "mlp", "embed"),
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
