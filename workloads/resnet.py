"""Residual network on images, with batch normalisation over the global batch.

He et al. (arXiv:1512.03385) with bottleneck blocks whose stride lies in the 3×3 convolution
("v1.5"); Flax NNX with Optax SGD, momentum and weight decay. The running mean and variance of
every normalisation are part of the state; nothing in training reads them, and an evaluation
would, so a recovery that loses them is found by the digest alone. Images are real digits (see
`workloads/data/README.md`), made as large as the preset wants them by repeating pixels; of the
classes of a preset the first ten occur.
"""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass
from itertools import accumulate
from math import prod
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp

from recoverybench.worker import images, joined, layers, modules, optimization, presets
from recoverybench.worker.layout import Layout
from recoverybench.worker.workload import folder

PRESETS: dict[str, dict[str, Any]] = {
    # Our own: two stages, the second of which halves the image, over the digits as they are.
    "tiny": {
        "batch_size": 12,
        "image_size": 8,
        "channels": 1,
        "stem": 3,
        "width": 8,
        "blocks": "1-1",
        "classes": 10,
        "learning_rate": 0.05,
        "momentum": 0.9,
        "weight_decay": 1e-4,
        "flat_moments": True,
    },
    # 25,557,032 parameters: ResNet-50 (table 1) with the head of ImageNet's 1000 classes, as
    # torchvision counts its resnet50. Momentum and weight decay as published (section 3.4);
    # the learning rate is the published 0.1 for 256 images, scaled to 48 (arXiv:1706.02677).
    "resnet50": {
        "batch_size": 48,
        "image_size": 224,
        "channels": 3,
        "stem": 7,
        "width": 64,
        "blocks": "3-4-6-3",
        "classes": 1000,
        "learning_rate": 0.01875,
        "momentum": 0.9,
        "weight_decay": 1e-4,
        "flat_moments": False,
    },
}

AXES: dict[str, tuple[str, ...]] = {"data": (), "fsdp": ("width",)}

EXPANSION = 4
"""Channels out of a block over those inside it."""


def create(preset: str, data: Path | None, **changes: Any) -> Resnet:
    """The workload of a preset, on the user's images or on the digits that ship with it."""
    config = Config(**(PRESETS[preset] | changes))
    path = data or folder() / "data" / images.SHIPPED_IMAGES
    source = images.Images(
        path, config.image_size, config.channels, config.classes, config.batch_size
    )
    return Resnet(config, source)


@dataclass(frozen=True, slots=True)
class Config:
    """Shape and optimizer of the model.

    Attributes:
        batch_size: images in the global batch.
        image_size: height and width, pixels.
        channels: of an image.
        stem: 7: a 7×7 convolution of stride 2 and a max pool; 3: a 3×3 one, for small images.
        width: channels out of the stem and inside the first stage; each stage doubles them.
        blocks: of each stage, as in ``3-4-6-3``.
        classes: labels lie below it.
        learning_rate, momentum: of SGD, fixed.
        weight_decay: of every parameter.
        flat_moments: see `optimization.shaped`.
    """

    batch_size: int
    image_size: int
    channels: int
    stem: int
    width: int
    blocks: str
    classes: int
    learning_rate: float
    momentum: float
    weight_decay: float
    flat_moments: bool

    def __post_init__(self) -> None:
        """Raises `UsageError` for what makes no model."""
        presets.positive(self, or_zero=("momentum", "weight_decay"))
        presets.one_of(self, "stem", (3, 7))
        presets.require(
            "blocks",
            self.blocks,
            re.fullmatch(r"[1-9][0-9]{0,2}(-[1-9][0-9]{0,2}){0,7}", self.blocks) is not None,
            "numbers of blocks, as in 3-4-6-3",
        )

    @property
    def stages(self) -> tuple[int, ...]:
        """Blocks of each stage."""
        return tuple(int(number) for number in self.blocks.split("-"))


class Resnet:
    """The workload; see `recoverybench.worker.workload.Workload`."""

    def __init__(self, config: Config, source: images.Images) -> None:
        """Take the model's shape and its data."""
        self.config = config
        self.batch_size = config.batch_size
        kernels = weight_shapes(config)
        self.layout = Layout(
            # The head has one row more than it has inputs, and classes are not channels.
            axes={
                name: (*[None] * (len(shape) - 1), "channels") for name, shape in kernels.items()
            },
            rules={"channels": "fsdp"},
        )
        self._source = source

    def source(self) -> images.Images:
        """Images as float32, labels as int32."""
        return self._source

    def init(self, key: jax.Array) -> dict[str, Any]:
        """Parameters, optimizer state, running statistics and step counter before step 1."""
        from flax import nnx

        params = modules.parameters(model_class()(self.config, nnx.Rngs(key)))
        zeros = jnp.zeros_like(params["norms"][0])
        running = jnp.stack([zeros, zeros + 1])
        return optimization.first_state(params, _optimizer(self.config)) | {"running": running}

    def step(
        self, state: dict[str, Any], batch: dict[str, jax.Array]
    ) -> tuple[dict[str, Any], jax.Array]:
        """One SGD update on the mean cross-entropy of the label."""
        import optax

        def loss_of(params: dict[str, Any]) -> tuple[jax.Array, jax.Array]:
            scores, statistics = self.logits(params, batch["images"])
            losses: jax.Array = optax.softmax_cross_entropy_with_integer_labels(
                scores, batch["labels"]
            )
            return losses.mean(), statistics

        differentiate = jax.value_and_grad(loss_of, has_aux=True)
        (loss, statistics), gradients = differentiate(state["params"])
        new = optimization.updated(state, gradients, _optimizer(self.config))
        # As PyTorch's momentum of 0.1.
        return new | {"running": 0.9 * state["running"] + 0.1 * statistics}, loss

    def logits(self, params: dict[str, Any], pixels: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Scores of the classes, normalised by this batch.

        Args:
            params: as in the state.
            pixels: float32 [rows, image_size, image_size, channels].

        Returns:
            float32 [rows, classes], and the mean and the variance of every normalised channel,
            float32 [2, channels of all normalisations].
        """
        found: tuple[jax.Array, jax.Array] = modules.call(
            lambda rngs: model_class()(self.config, rngs), params, pixels
        )
        return found


def weight_shapes(config: Config) -> dict[str, tuple[int, ...]]:
    """Kernels by name, the output channels last; 1×1 convolutions are matrices.

    The first block of a stage has shapes of its own; those of its other blocks are stacked.
    """
    shapes: dict[str, tuple[int, ...]] = {
        "stem": (config.stem, config.stem, config.channels, config.width)
    }
    inputs = config.width
    for stage, blocks in enumerate(config.stages):
        inner = config.width * 2**stage
        outputs = EXPANSION * inner
        shapes |= {
            f"first{stage}_reduce": (inputs, inner),
            f"first{stage}_spatial": (3, 3, inner, inner),
            f"first{stage}_expand": (inner, outputs),
            f"first{stage}_shortcut": (inputs, outputs),
        }
        if blocks > 1:
            shapes |= {
                f"rest{stage}_reduce": (blocks - 1, outputs, inner),
                f"rest{stage}_spatial": (blocks - 1, 3, 3, inner, inner),
                f"rest{stage}_expand": (blocks - 1, inner, outputs),
            }
        inputs = outputs
    return shapes


def norm_widths(config: Config) -> list[int]:
    """Channels of each normalisation, in the order in which an image meets them."""
    widths = [config.width]
    for stage, blocks in enumerate(config.stages):
        inner = config.width * 2**stage
        block = [inner, inner, EXPANSION * inner]
        widths += [*block, EXPANSION * inner, *block * (blocks - 1)]
    return widths


@functools.cache
def model_class() -> Any:
    """The NNX module, defined on first use: a worker that does not trace never imports flax."""
    from flax import nnx

    class Model(nnx.Module):
        """Images in, scores of the classes and statistics of the batch out.

        ``norms`` holds scale and bias of all normalisations, the last row of ``head`` its bias.
        """

        stem: Any

        def __init__(self, config: Config, rngs: nnx.Rngs) -> None:
            self.config = config
            shapes = weight_shapes(config)
            # He et al. (arXiv:1502.01852): variance 2 / numbers that an output is made from.
            inputs = {
                name: prod(shape[1:-1] if name.startswith("rest") else shape[:-1])
                for name, shape in shapes.items()
            }
            wanted = {name: (shape, (2 / inputs[name]) ** 0.5) for name, shape in shapes.items()}
            modules.hold(self, joined.weights(rngs.params(), wanted))
            total = sum(norm_widths(config))
            self.norms = nnx.Param(jnp.stack([jnp.ones(total), jnp.zeros(total)]))
            outputs = EXPANSION * config.width * 2 ** (len(config.stages) - 1)
            self.head = nnx.Param(jnp.zeros((outputs + 1, config.classes)))

        def __call__(self, pixels: jax.Array) -> tuple[jax.Array, jax.Array]:
            config = self.config
            norms = Norms(self.norms[...], norm_widths(config))
            strided = config.stem == 7
            x = convolution(pixels, self.stem[...], 2 if strided else 1)
            x = jax.nn.relu(norms(x))
            if strided:
                x = nnx.max_pool(x, (3, 3), (2, 2), ((1, 1), (1, 1)))
            for stage, blocks in enumerate(config.stages):
                stride = 2 if stage else 1
                first = f"first{stage}_"
                shortcut = self._weight(first + "shortcut")
                x = self._block(x, first, None, norms, stride, shortcut)
                for block in range(blocks - 1):
                    x = self._block(x, f"rest{stage}_", block, norms, 1, None)
            return layers.affine(x.mean(axis=(1, 2)), self.head[...]), norms.statistics()

        def _block(
            self,
            x: jax.Array,
            prefix: str,
            at: int | None,
            norms: Norms,
            stride: int,
            shortcut: jax.Array | None,
        ) -> jax.Array:
            inner = jax.nn.relu(norms(x @ self._weight(prefix + "reduce", at)))
            spatial = self._weight(prefix + "spatial", at)
            inner = jax.nn.relu(norms(convolution(inner, spatial, stride)))
            inner = norms(inner @ self._weight(prefix + "expand", at))
            if shortcut is not None:
                x = norms(x[:, ::stride, ::stride] @ shortcut)
            return jax.nn.relu(x + inner)

        def _weight(self, name: str, at: int | None = None) -> jax.Array:
            stacked: jax.Array = getattr(self, name)[...]
            return stacked if at is None else stacked[at]

    return Model


class Norms:
    """Batch normalisations that take their scales and biases one after the other.

    Args:
        scales_and_biases: [2, channels of all].
        widths: channels of each.
    """

    def __init__(self, scales_and_biases: jax.Array, widths: list[int]) -> None:
        ends = list(accumulate(widths))[:-1]
        self._left = iter(jnp.split(scales_and_biases, ends, axis=1))
        self._found: list[jax.Array] = []

    def __call__(self, x: jax.Array) -> jax.Array:
        """`x` [rows, height, width, channels], each channel with mean 0 and variance 1 over the
        batch before it is scaled and shifted.
        """
        scale, bias = next(self._left)
        # Both means as one array, which is one collective where the rows lie on several workers.
        means = jnp.concatenate([x, x * x], axis=-1).mean(axis=(0, 1, 2))
        mean, of_squares = jnp.split(means, 2)
        variance = jnp.maximum(of_squares - mean * mean, 0)
        self._found.append(jnp.stack([mean, variance]))
        normed: jax.Array = (x - mean) * (jax.lax.rsqrt(variance + 1e-5) * scale) + bias
        return normed

    def statistics(self) -> jax.Array:
        """Mean and variance of every channel so far: [2, channels of all]."""
        return jnp.concatenate(self._found, axis=1)


def convolution(x: jax.Array, kernel: jax.Array, stride: int) -> jax.Array:
    """A convolution whose output at stride 1 is as large as its input.

    Args:
        x: [rows, height, width, inputs].
        kernel: [size, size, inputs, outputs], size odd.
        stride: of height and width.
    """
    edge = kernel.shape[0] // 2
    return jax.lax.conv_general_dilated(
        x, kernel, (stride, stride), [(edge, edge)] * 2, dimension_numbers=("NHWC", "HWIO", "NHWC")
    )


def _optimizer(config: Config) -> Any:
    import optax

    sgd = optax.chain(
        optax.add_decayed_weights(config.weight_decay),
        optax.sgd(config.learning_rate, momentum=config.momentum),
    )
    return optimization.shaped(sgd, flat=config.flat_moments)
