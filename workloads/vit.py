"""Vision transformer: an image as a row of patches, classified by an encoder.

Dosovitskiy et al. (arXiv:2010.11929): patches projected to tokens, a class token, learned
positions, pre-norm blocks of attention and GELU, a linear head on the class token; Flax NNX
with Optax AdamW. Images are real digits (see `workloads/data/README.md`), made as large as the
preset wants them by repeating pixels; of the classes of a preset the first ten occur.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp

from recoverybench.worker import images, joined, layers, modules, optimization, presets
from recoverybench.worker.layout import Layout
from recoverybench.worker.workload import folder

PRESETS: dict[str, dict[str, Any]] = {
    # Our own: the digits as they are, in 16 patches.
    "tiny": {
        "batch_size": 12,
        "image_size": 8,
        "channels": 1,
        "patch": 2,
        "layers": 2,
        "dim": 32,
        "heads": 4,
        "hidden": 64,
        "classes": 10,
        "learning_rate": 3e-3,
        "warmup_steps": 5,
        "weight_decay": 0.1,
        "scan_layers": False,
        "remat": False,
        "flat_moments": True,
        "joined_gradients": True,
    },
    # 86,567,656 parameters: ViT-B/16 (table 1) with the head of ImageNet's 1000 classes, which
    # is torchvision's vit_b_16 and its count. Learning rate, warm-up and weight decay as for
    # training on ImageNet (table 3, section B.1); dropout and the decay of the learning rate
    # are left out. The published batch is 4096 images.
    "vit-b16": {
        "batch_size": 48,
        "image_size": 224,
        "channels": 3,
        "patch": 16,
        "layers": 12,
        "dim": 768,
        "heads": 12,
        "hidden": 3072,
        "classes": 1000,
        "learning_rate": 3e-3,
        "warmup_steps": 10_000,
        "weight_decay": 0.3,
        "scan_layers": True,
        "remat": False,
        "flat_moments": False,
        "joined_gradients": False,
    },
}

AXES: dict[str, tuple[str, ...]] = {
    "data": (),
    "fsdp": ("dim",),
    "tensor": ("heads", "hidden"),
}

LAYOUT = Layout(
    axes={
        "patches": (None, "embed"),
        "positions": (None, "embed"),
        "qkv": (None, "embed", "heads"),
        "out": (None, "heads", "embed"),
        "up": (None, "embed", "mlp"),
        "down": (None, "mlp", "embed"),
    },
    rules={"embed": "fsdp", "heads": "tensor", "mlp": "tensor"},
)


def create(preset: str, data: Path | None, **changes: Any) -> Vit:
    """The workload of a preset, on the user's images or on the digits that ship with it."""
    config = Config(**(PRESETS[preset] | changes))
    path = data or folder() / "data" / images.SHIPPED_IMAGES
    source = images.Images(
        path, config.image_size, config.channels, config.classes, config.batch_size
    )
    return Vit(config, source)


@dataclass(frozen=True, slots=True)
class Config:
    """Shape and optimizer of the model.

    Attributes:
        batch_size: images in the global batch.
        image_size: height and width, pixels.
        channels: of an image.
        patch: height and width of a patch; divides `image_size`.
        layers: blocks.
        dim: width of the residual stream.
        heads: they divide `dim`.
        hidden: width inside the feed-forward block.
        classes: labels lie below it.
        learning_rate: after the warm-up, for good.
        warmup_steps: steps over which the learning rate grows from 0.
        weight_decay: of every parameter.
        scan_layers, remat: see `layers.run`.
        flat_moments: see `optimization.shaped`.
        joined_gradients: reduce gradients as one vector; see `joined.mean_gradients`.
    """

    batch_size: int
    image_size: int
    channels: int
    patch: int
    layers: int
    dim: int
    heads: int
    hidden: int
    classes: int
    learning_rate: float
    warmup_steps: int
    weight_decay: float
    scan_layers: bool
    remat: bool
    flat_moments: bool
    joined_gradients: bool

    def __post_init__(self) -> None:
        """Raises `UsageError` for what makes no model."""
        presets.positive(self, or_zero=("warmup_steps", "weight_decay"))
        presets.divides(self, "patch", "image_size")
        presets.divides(self, "heads", "dim")


class Vit:
    """The workload; see `recoverybench.worker.workload.Workload`."""

    def __init__(self, config: Config, source: images.Images) -> None:
        """Take the model's shape and its data."""
        self.config = config
        self.batch_size = config.batch_size
        self.layout = LAYOUT
        self._source = source

    def source(self) -> images.Images:
        """Images as float32, labels as int32."""
        return self._source

    def init(self, key: jax.Array) -> dict[str, Any]:
        """Parameters, optimizer state and step counter before step 1."""
        from flax import nnx

        params = modules.parameters(model_class()(self.config, nnx.Rngs(key)))
        return optimization.first_state(params, _optimizer(self.config))

    def step(
        self, state: dict[str, Any], batch: dict[str, jax.Array]
    ) -> tuple[dict[str, Any], jax.Array]:
        """One AdamW update on the mean cross-entropy of the label."""
        import optax

        def loss_of(params: dict[str, Any], rows: dict[str, jax.Array]) -> jax.Array:
            losses: jax.Array = optax.softmax_cross_entropy_with_integer_labels(
                self.logits(params, rows["images"]), rows["labels"]
            )
            return losses.mean()

        return optimization.advance(
            state,
            loss_of,
            batch,
            _optimizer(self.config),
            joined_gradients=self.config.joined_gradients,
        )

    def logits(self, params: dict[str, Any], pixels: jax.Array) -> jax.Array:
        """Scores of the classes.

        Args:
            params: as in the state.
            pixels: float32 [rows, image_size, image_size, channels].

        Returns:
            float32 [rows, classes].
        """
        scores: jax.Array = modules.call(
            lambda rngs: model_class()(self.config, rngs), params, pixels
        )
        return scores


@functools.cache
def model_class() -> Any:
    """The NNX module, defined on first use: a worker that does not trace never imports flax."""
    from flax import nnx

    class Model(nnx.Module):
        """Images in, scores of the classes out.

        The last row of ``patches`` and of ``head`` is the bias; the first of ``positions`` is
        the class token, which has no bias, the others are the positions.
        """

        patches: Any
        positions: Any

        def __init__(self, config: Config, rngs: nnx.Rngs) -> None:
            deep, dim, hidden = config.layers, config.dim, config.hidden
            self.config = config
            inputs = config.patch**2 * config.channels
            places = (config.image_size // config.patch) ** 2
            wanted = {
                "patches": ((inputs, dim), inputs**-0.5),
                "positions": ((places + 2, dim), 0.02),
                "qkv": ((deep, dim, 3 * dim), dim**-0.5),
                "out": ((deep, dim, dim), dim**-0.5),
                "up": ((deep, dim, hidden), dim**-0.5),
                "down": ((deep, hidden, dim), hidden**-0.5),
            }
            weights = joined.weights(rngs.params(), wanted)
            weights["patches"] = layers.with_bias(weights["patches"])
            modules.hold(self, weights)
            self.biases = nnx.Param(jnp.zeros((deep, 5 * dim + hidden)))
            # Scale and bias of two norms a layer and of the last one.
            ones = jnp.ones((2 * deep + 1, 1, dim))
            self.norms = nnx.Param(jnp.concatenate([ones, 0 * ones], axis=1))
            self.head = nnx.Param(jnp.zeros((dim + 1, config.classes)))

        def __call__(self, pixels: jax.Array) -> jax.Array:
            config, norms = self.config, self.norms[...]

            def block(x: jax.Array, weights: layers.Weights) -> tuple[jax.Array, None]:
                inner = layers.layer_norm(x, weights["norms"][0])
                x = x + layers.gpt_attention(inner, weights, config.heads, causal=False)
                inner = layers.layer_norm(x, weights["norms"][1])
                return x + layers.gpt_feed_forward(inner, weights, approximate=False), None

            names = ("qkv", "out", "up", "down", "biases")
            stacked = {name: getattr(self, name)[...] for name in names}
            stacked["norms"] = norms[:-1].reshape(config.layers, 2, 2, config.dim)
            positions = self.positions[...]
            x = layers.affine(layers.patches(pixels, config.patch), self.patches[...])
            token = jnp.broadcast_to(positions[0], (len(pixels), 1, config.dim))
            x = jnp.concatenate([token, x], axis=1) + positions[1:]
            x, _ = layers.run(block, x, stacked, scan=config.scan_layers, remat=config.remat)
            return layers.affine(layers.layer_norm(x[:, 0], norms[-1]), self.head[...])

    return Model


def _optimizer(config: Config) -> Any:
    return optimization.adamw(
        config.learning_rate,
        config.warmup_steps,
        b2=0.999,
        weight_decay=config.weight_decay,
        flat=config.flat_moments,
    )
