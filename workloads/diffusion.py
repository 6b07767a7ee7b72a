"""Class-conditional diffusion by a transformer over patches (DiT), with a moving average.

Peebles & Xie (arXiv:2212.09748): patches of a noised image go through blocks whose norms are
shifted, scaled and gated by the timestep and the label (adaLN-Zero), and the noise is predicted
(Ho et al., arXiv:2006.11239: linear schedule, mean squared error); Flax NNX with Optax AdamW.
The exponential moving average of the parameters, from which images would be drawn, is part of
the state.

Noise, timesteps and dropped labels of a step are derived from its number alone, so they are
the same after a recovery and on any mesh. Images are real digits (see
`workloads/data/README.md`) made as large as the preset wants them by repeating pixels; where
the published model works on latents of an autoencoder, this one takes pixels of that shape. Of
the classes of a preset the first ten occur.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree

from recoverybench.worker import images, joined, layers, modules, noising, optimization, presets
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
        "frequencies": 32,
        "classes": 10,
        "label_dropout": 0.1,
        "timesteps": 1000,
        "learning_rate": 3e-3,
        "average_decay": 0.99,
        "scan_layers": False,
        "remat": False,
        "flat_moments": True,
        "joined_gradients": True,
    },
    # 130.4 M parameters: DiT-B/4 (table 1 and section 4; facebookresearch/DiT, models.py and
    # train.py) on latents of 32 x 32 x 4, i.e. images of 256 x 256: learning rate 1e-4 without
    # decay, average 0.9999, a tenth of the labels dropped. The published model predicts the
    # variance too, which is 64 x 769 = 49,216 of its 130,426,496 parameters; here it is fixed.
    # The published batch is 256.
    "dit-b4": {
        "batch_size": 48,
        "image_size": 32,
        "channels": 4,
        "patch": 4,
        "layers": 12,
        "dim": 768,
        "heads": 12,
        "hidden": 3072,
        "frequencies": 256,
        "classes": 1000,
        "label_dropout": 0.1,
        "timesteps": 1000,
        "learning_rate": 1e-4,
        "average_decay": 0.9999,
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
        "labels": (None, "embed"),
        "qkv": (None, "embed", "heads"),
        "out": (None, "heads", "embed"),
        "up": (None, "embed", "mlp"),
        "down": (None, "mlp", "embed"),
        "modulation": (None, "embed", None),
    },
    rules={"embed": "fsdp", "heads": "tensor", "mlp": "tensor"},
)


def create(preset: str, data: Path | None, **changes: Any) -> Diffusion:
    """The workload of a preset, on the user's images or on the digits that ship with it."""
    config = Config(**(PRESETS[preset] | changes))
    path = data or folder() / "data" / images.SHIPPED_IMAGES
    source = images.Images(
        path, config.image_size, config.channels, config.classes, config.batch_size
    )
    return Diffusion(config, source)


@dataclass(frozen=True, slots=True)
class Config:
    """Shape and optimizer of the model.

    Attributes:
        batch_size: images in the global batch.
        image_size: height and width, pixels.
        channels: of an image.
        patch: height and width of a patch; divides `image_size`.
        layers: blocks.
        dim: width of the residual stream, a multiple of 4.
        heads: they divide `dim`.
        hidden: width inside the feed-forward block.
        frequencies: numbers that a timestep is first spelled in, even.
        classes: labels lie below it; a dropped label is this number.
        label_dropout: share of labels that are dropped.
        timesteps: of the diffusion.
        learning_rate: of AdamW (without weight decay), fixed.
        average_decay: of the moving average of the parameters.
        scan_layers, remat: see `layers.run`.
        flat_moments: moments and average are vectors; see `optimization.shaped`.
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
    frequencies: int
    classes: int
    label_dropout: float
    timesteps: int
    learning_rate: float
    average_decay: float
    scan_layers: bool
    remat: bool
    flat_moments: bool
    joined_gradients: bool

    def __post_init__(self) -> None:
        """Raises `UsageError` for what makes no model."""
        presets.positive(self, or_zero=("label_dropout", "average_decay"))
        presets.divides(self, "patch", "image_size")
        presets.divides(self, "heads", "dim")
        presets.require("dim", self.dim, self.dim % 4 == 0, "a multiple of 4")
        even = self.frequencies % 2 == 0
        presets.require("frequencies", self.frequencies, even, "an even number")
        for key in ("label_dropout", "average_decay"):
            share = getattr(self, key)
            presets.require(key, share, share < 1, "a number below 1")


class Diffusion:
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
        """Parameters, their average, optimizer state and step counter before step 1."""
        from flax import nnx

        params = modules.parameters(model_class()(self.config, nnx.Rngs(key)))
        state = optimization.first_state(params, _optimizer(self.config))
        return state | {"average": self._as_kept(params)}

    def step(
        self, state: dict[str, Any], batch: dict[str, jax.Array]
    ) -> tuple[dict[str, Any], jax.Array]:
        """One AdamW update on the mean squared error of the predicted noise."""
        config = self.config

        def loss_of(params: dict[str, Any], rows: dict[str, jax.Array]) -> jax.Array:
            found = self.noise(params, rows["noised"], rows["times"], rows["labels"])
            error = found - rows["noise"]
            return jnp.mean(error * error)

        new, loss = optimization.advance(
            state,
            loss_of,
            noising.noised(
                batch,
                state["step"],
                timesteps=config.timesteps,
                label_dropout=config.label_dropout,
                dropped=config.classes,
            ),
            _optimizer(config),
            joined_gradients=config.joined_gradients,
        )
        average = jax.tree.map(
            lambda old, now: config.average_decay * old + (1 - config.average_decay) * now,
            state["average"],
            self._as_kept(new["params"]),
        )
        return new | {"average": average}, loss

    def noise(
        self, params: dict[str, Any], pixels: jax.Array, times: jax.Array, labels: jax.Array
    ) -> jax.Array:
        """The noise in noised images.

        Args:
            params: as in the state.
            pixels: float32 [rows, image_size, image_size, channels].
            times: int32 [rows], timesteps from 0.
            labels: int32 [rows]; the number of classes for a dropped one.

        Returns:
            float32, shaped like `pixels`.
        """
        found: jax.Array = modules.call(
            lambda rngs: model_class()(self.config, rngs), params, pixels, times, labels
        )
        return found

    def _as_kept(self, params: dict[str, Any]) -> Any:
        """Parameters in the shape in which their average is kept."""
        return ravel_pytree(params)[0] if self.config.flat_moments else params


@functools.cache
def model_class() -> Any:
    """The NNX module, defined on first use: a worker that does not trace never imports flax."""
    from flax import nnx

    class Model(nnx.Module):
        """Noised images, timesteps and labels in, noise out.

        The last row of ``patches``, ``time_in``, ``time_out``, ``last_modulation`` and ``last``
        is a bias; ``biases`` are those of a block: qkv, out, up, down, modulation.
        """

        patches: Any
        labels: Any
        time_in: Any
        time_out: Any
        last_modulation: Any
        last: Any

        def __init__(self, config: Config, rngs: nnx.Rngs) -> None:
            deep, dim, hidden = config.layers, config.dim, config.hidden
            self.config = config
            pixels = config.patch**2 * config.channels
            wanted = {
                "patches": ((pixels, dim), pixels**-0.5),
                "time_in": ((config.frequencies, dim), 0.02),
                "time_out": ((dim, dim), 0.02),
                "labels": ((config.classes + 1, dim), 0.02),
                "qkv": ((deep, dim, 3 * dim), dim**-0.5),
                "out": ((deep, dim, dim), dim**-0.5),
                "up": ((deep, dim, hidden), dim**-0.5),
                "down": ((deep, hidden, dim), hidden**-0.5),
            }
            weights = joined.weights(rngs.params(), wanted)
            for name in ("patches", "time_in", "time_out"):
                weights[name] = layers.with_bias(weights[name])
            modules.hold(self, weights)
            # The zeros of adaLN-Zero: at first every block adds nothing, and no noise is found.
            zeros = {
                "modulation": (deep, dim, 6 * dim),
                "biases": (deep, 5 * dim + hidden + 6 * dim),
                "last_modulation": (dim + 1, 2 * dim),
                "last": (dim + 1, pixels),
            }
            modules.hold(self, {name: jnp.zeros(shape) for name, shape in zeros.items()})

        def __call__(self, pixels: jax.Array, times: jax.Array, labels: jax.Array) -> jax.Array:
            config = self.config
            time = layers.affine(noising.spelled(times, config.frequencies), self.time_in[...])
            time = layers.affine(jax.nn.silu(time), self.time_out[...])
            condition = jax.nn.silu(time + self.labels[...][labels])

            def block(x: jax.Array, weights: layers.Weights) -> tuple[jax.Array, None]:
                biases, last = jnp.split(weights["biases"], [5 * config.dim + config.hidden])
                mine = {**weights, "biases": biases}
                modulation = condition @ weights["modulation"] + last
                shift, scale, gate, shift_2, scale_2, gate_2 = jnp.split(
                    modulation[:, None], 6, axis=-1
                )
                inner = layers.layer_norm(x) * (1 + scale) + shift
                x = x + gate * layers.gpt_attention(inner, mine, config.heads, causal=False)
                inner = layers.layer_norm(x) * (1 + scale_2) + shift_2
                return x + gate_2 * layers.gpt_feed_forward(inner, mine, approximate=True), None

            names = ("qkv", "out", "up", "down", "modulation", "biases")
            stacked = {name: getattr(self, name)[...] for name in names}
            side = config.image_size // config.patch
            x = layers.affine(layers.patches(pixels, config.patch), self.patches[...])
            x = x + noising.positions(side, config.dim)
            x, _ = layers.run(block, x, stacked, scan=config.scan_layers, remat=config.remat)
            ends = layers.affine(condition, self.last_modulation[...])[:, None]
            shift, scale = jnp.split(ends, 2, axis=-1)
            x = layers.affine(layers.layer_norm(x) * (1 + scale) + shift, self.last[...])
            return layers.pixels(x, config.patch, side)

    return Model


def _optimizer(config: Config) -> Any:
    return optimization.adamw(
        config.learning_rate, 0, b2=0.999, weight_decay=0.0, flat=config.flat_moments
    )
