"""Recommender of clicks, whose embedding tables are nearly all of its state.

DLRM (Naumov et al., arXiv:1906.00091) with the low-rank cross network of DCNv2 (Wang et al.,
arXiv:2008.13535), as MLPerf trains it: a bottom MLP over numbers, a table of embeddings for each
kind of id, summed where a record has several, the cross network over all of them, a top MLP;
Flax NNX with Optax Adagrad. All tables lie one below the other in one array. The clicks are
made up by a law that `recoverybench/worker/clicks.py` states: a log of real ones that could be
passed on does not exist at this size.
"""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from recoverybench.errors import bad_value
from recoverybench.worker import clicks, joined, layers, modules, optimization, presets
from recoverybench.worker.layout import Layout

PRESETS: dict[str, dict[str, Any]] = {
    # Our own: five tables, 89 % of the parameters.
    "tiny": {
        "batch_size": 12,
        "records": 100_000,
        "table_rows": "1200-400-150-40-10",
        "largest_table": 1200,
        "rows_multiple": 8,
        "lookups": "4-1-2-1-1",
        "embedding_dim": 16,
        "bottom": "16-16",
        "top": "16-1",
        "cross_layers": 1,
        "cross_rank": 8,
        "learning_rate": 0.1,
        "flat_moments": True,
        "joined_gradients": True,
    },
    # MLPerf Training's DLRM-DCNv2 (mlcommons/training, recommendation_v2/torchrec_dlrm: tables
    # and lookups of the multi-hot Criteo data, MLPs, cross network, Adagrad with 0.005), scaled
    # down 1:1000 where it is large: no table has more than 40,000 rows instead of 40,000,000,
    # so that 441 thousand rows are left of 204 million. `largest_table=40000000` is the published
    # model. The published batch is 65,536 records.
    "dlrm-dcnv2-scaled": {
        "batch_size": 768,
        "records": 10_000_000,
        "table_rows": "40000000-39060-17295-7424-20265-3-7122-1543-63-40000000-3067956-405282-10"
        "-2209-11938-155-4-976-14-40000000-40000000-40000000-590152-12973-108-36",
        "largest_table": 40_000,
        "rows_multiple": 64,
        "lookups": "3-2-1-2-6-1-1-1-1-7-3-8-1-6-9-5-1-1-1-12-100-27-10-3-1-1",
        "embedding_dim": 128,
        "bottom": "512-256-128",
        "top": "1024-1024-512-256-1",
        "cross_layers": 3,
        "cross_rank": 512,
        "learning_rate": 0.005,
        "flat_moments": False,
        "joined_gradients": False,
    },
}

AXES: dict[str, tuple[str, ...]] = {
    "data": (),
    "fsdp": ("embedding_dim",),
    "tensor": ("rows_multiple", "cross_rank"),
}

LAYOUT = Layout(
    axes={
        "tables": ("rows", "columns"),
        "cross_down": (None, None, "rank"),
        "cross_up": (None, "rank", None),
    },
    rules={"rows": "tensor", "columns": "fsdp", "rank": "tensor"},
)


def create(preset: str, data: Path | None, **changes: Any) -> Dlrm:
    """The workload of a preset; there is no file that it could read."""
    if data is not None:
        raise bad_value("data", str(data), "no file with dlrm, whose clicks are made up")
    return Dlrm(Config(**(PRESETS[preset] | changes)))


@dataclass(frozen=True, slots=True)
class Config:
    """Shape and optimizer of the model; a list of numbers is written ``512-256-128``.

    Attributes:
        batch_size: records in the global batch.
        records: length of an epoch.
        table_rows: rows of each table, before the cut.
        largest_table: a table with more rows is cut to so many.
        rows_multiple: the rows of all tables together are filled up to a multiple of it, with
            rows that nobody looks up, so that a mesh can split them.
        lookups: ids that a record has in each table.
        embedding_dim: columns of every table.
        bottom: widths of the MLP over numbers; the last is `embedding_dim`.
        top: widths of the MLP over everything; the last is 1.
        cross_layers, cross_rank: layers of the cross network, and their rank.
        learning_rate: of Adagrad, fixed.
        flat_moments: see `optimization.shaped`.
        joined_gradients: reduce gradients as one vector; see `joined.mean_gradients`.
    """

    batch_size: int
    records: int
    table_rows: str
    largest_table: int
    rows_multiple: int
    lookups: str
    embedding_dim: int
    bottom: str
    top: str
    cross_layers: int
    cross_rank: int
    learning_rate: float
    flat_moments: bool
    joined_gradients: bool

    def __post_init__(self) -> None:
        """Raises `UsageError` for what makes no model."""
        presets.positive(self)
        for key in ("table_rows", "lookups", "bottom", "top"):
            value = getattr(self, key)
            listed = re.fullmatch(r"[1-9][0-9]{0,9}(-[1-9][0-9]{0,9}){0,99}", value) is not None
            presets.require(key, value, listed, "numbers above 0, as in 512-256-128")
        tables = len(self.tables)
        same = len(numbers(self.lookups)) == tables
        presets.require("lookups", self.lookups, same, f"{tables} numbers, one a table")
        ends = numbers(self.bottom)[-1] == self.embedding_dim
        allowed = f"a list that ends in embedding_dim = {self.embedding_dim}"
        presets.require("bottom", self.bottom, ends, allowed)
        presets.require("top", self.top, numbers(self.top)[-1] == 1, "a list that ends in 1")
        few = self.records >= self.batch_size
        allowed = f"at least batch_size = {self.batch_size}"
        presets.require("records", self.records, few, allowed)
        fits = sum(self.tables) < 2**31
        presets.require("largest_table", self.largest_table, fits, "fewer than 2**31 rows in all")

    @property
    def tables(self) -> list[int]:
        """Rows of each table."""
        return [min(rows, self.largest_table) for rows in numbers(self.table_rows)]

    @property
    def rows(self) -> int:
        """Rows of all tables, filled up."""
        return -(-sum(self.tables) // self.rows_multiple) * self.rows_multiple

    @property
    def width(self) -> int:
        """Inputs of the cross network: an embedding for each table and one of the numbers."""
        return (len(self.tables) + 1) * self.embedding_dim


def numbers(listed: str) -> list[int]:
    """``512-256-128`` as whole numbers."""
    return [int(each) for each in listed.split("-")]


class Dlrm:
    """The workload; see `recoverybench.worker.workload.Workload`."""

    def __init__(self, config: Config) -> None:
        """Take the model's shape."""
        self.config = config
        self.batch_size = config.batch_size
        self.layout = LAYOUT

    def source(self) -> clicks.Clicks:
        """Made-up clicks."""
        config = self.config
        return clicks.Clicks(config.tables, numbers(config.lookups), config.records)

    def init(self, key: jax.Array) -> dict[str, Any]:
        """Parameters, optimizer state and step counter before step 1."""
        from flax import nnx

        params = modules.parameters(model_class()(self.config, nnx.Rngs(key)))
        return optimization.first_state(params, _optimizer(self.config))

    def step(
        self, state: dict[str, Any], batch: dict[str, jax.Array]
    ) -> tuple[dict[str, Any], jax.Array]:
        """One Adagrad update on the mean cross-entropy of the click."""
        import optax

        def loss_of(params: dict[str, Any], rows: dict[str, jax.Array]) -> jax.Array:
            losses: jax.Array = optax.sigmoid_binary_cross_entropy(
                self.logits(params, rows["dense"], rows["ids"]), rows["labels"]
            )
            return losses.mean()

        return optimization.advance(
            state,
            loss_of,
            batch,
            _optimizer(self.config),
            joined_gradients=self.config.joined_gradients,
        )

    def logits(self, params: dict[str, Any], dense: jax.Array, ids: jax.Array) -> jax.Array:
        """Log-odds of a click.

        Args:
            params: as in the state.
            dense: float32 [rows, 13].
            ids: int32 [rows, lookups], rows of the joined tables.

        Returns:
            float32 [rows].
        """
        scores: jax.Array = modules.call(
            lambda rngs: model_class()(self.config, rngs), params, dense, ids
        )
        return scores


@functools.cache
def model_class() -> Any:
    """The NNX module, defined on first use: a worker that does not trace never imports flax."""
    from flax import nnx

    class Model(nnx.Module):
        """Numbers and ids in, log-odds out. The last row of an MLP's weights is the bias."""

        tables: Any
        cross_down: Any
        cross_up: Any

        def __init__(self, config: Config, rngs: nnx.Rngs) -> None:
            self.config = config
            deep, width, rank = config.cross_layers, config.width, config.cross_rank
            bottom = [clicks.DENSE, *numbers(config.bottom)]
            top = [width, *numbers(config.top)]
            mlps = {
                # Small for the last: a model that knows nothing says so.
                f"{name}{i}": ((inputs, outputs), (2 / inputs) ** (0.5 if outputs > 1 else 1))
                for name, widths in (("bottom", bottom), ("top", top))
                for i, (inputs, outputs) in enumerate(pairwise(widths))
            }
            wanted = {
                "tables": ((config.rows, config.embedding_dim), 0.05),
                "cross_down": ((deep, width, rank), width**-0.5),
                "cross_up": ((deep, rank, width), rank**-0.5),
                **mlps,
            }
            weights = joined.weights(rngs.params(), wanted)
            biased = {name: layers.with_bias(weights[name]) for name in mlps}
            modules.hold(self, weights | biased)
            self.cross_bias = nnx.Param(jnp.zeros((deep, width)))

        def __call__(self, dense: jax.Array, ids: jax.Array) -> jax.Array:
            config = self.config
            number = self._mlp("bottom", len(numbers(config.bottom)), dense)
            looked_up = self.tables[...][ids]
            table_of = np.repeat(np.arange(len(config.tables)), numbers(config.lookups))
            member = jax.nn.one_hot(table_of, len(config.tables))
            pooled = jnp.einsum("rld,lt->rtd", looked_up, member)
            first = jnp.concatenate([jax.nn.relu(number)[:, None], pooled], axis=1)
            first = first.reshape(len(dense), config.width)
            x = first
            for down, up, bias in zip(
                self.cross_down[...], self.cross_up[...], self.cross_bias[...], strict=True
            ):
                x = first * (x @ down @ up + bias) + x
            return self._mlp("top", len(numbers(config.top)), x)[:, 0]

        def _mlp(self, name: str, depth: int, x: jax.Array) -> jax.Array:
            """ReLU between its layers, not after the last."""
            for i in range(depth):
                x = layers.affine(jax.nn.relu(x) if i else x, getattr(self, f"{name}{i}")[...])
            return x

    return Model


def _optimizer(config: Config) -> Any:
    import optax

    # Sums of squares begin at 0.1, which is Optax's default: from 0 the first step moves every
    # weight by the whole learning rate.
    adagrad = optax.adagrad(config.learning_rate, eps=1e-8)
    return optimization.shaped(adagrad, flat=config.flat_moments)
