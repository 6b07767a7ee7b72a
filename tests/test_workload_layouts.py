"""The standard workloads on meshes, without one: their shapes, layouts and what is refused."""

from __future__ import annotations

import ast
import functools
from math import gcd
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

from recoverybench.errors import UsageError
from recoverybench.topology import AXES
from recoverybench.worker import clicks, images, layers, noising, workload
from recoverybench.worker.data import Pipeline

ROOT = Path(__file__).resolve().parents[1]


def literal(family: str, name: str) -> Any:
    tree = ast.parse((ROOT / "workloads" / f"{family}.py").read_text())
    found = [
        node.value
        for node in tree.body
        if isinstance(node, ast.AnnAssign)
        and isinstance(node.target, ast.Name)
        and node.target.id == name
        and node.value is not None
    ]
    assert len(found) == 1, f"{family} has no {name}"
    return ast.literal_eval(found[0])


FAMILIES = sorted(workload.families())
ALL = [f"{family}:{preset}" for family in FAMILIES for preset in literal(family, "PRESETS")]


@functools.cache
def leaves(name: str) -> dict[str, Any]:
    state = jax.eval_shape(workload.load(name).init, jax.random.key(0))
    paths = jax.tree_util.tree_flatten_with_path(state)[0]
    return {jax.tree_util.keystr(p, simple=True, separator="."): leaf for p, leaf in paths}


@pytest.mark.parametrize("name", ALL)
def test_a_step_keeps_the_state_s_structure(name: str) -> None:
    loaded = workload.load(name)
    record = loaded.source()[0]
    batch = {
        key: jax.ShapeDtypeStruct((loaded.batch_size, *array.shape), array.dtype)
        for key, array in record.items()
    }
    state = jax.eval_shape(loaded.init, jax.random.key(0))
    found, loss = jax.eval_shape(loaded.step, state, batch)
    shape = functools.partial(jax.tree.map, lambda leaf: (leaf.shape, leaf.dtype))
    assert shape(found) == shape(state)
    assert (loss.shape, loss.dtype) == ((), np.float32)


@pytest.mark.parametrize("name", ALL)
def test_what_a_layout_names_is_there_and_is_divided_by_what_its_axes_say(name: str) -> None:
    family, _, preset = name.partition(":")
    entries, axes = literal(family, "PRESETS")[preset], literal(family, "AXES")
    layout = workload.load(name).layout  # type: ignore[attr-defined]
    assert set(axes) <= set(AXES) and set(layout.rules.values()) <= set(axes)
    split: set[str] = set()
    for leaf, shape in ((leaf, array.shape) for leaf, array in leaves(name).items()):
        logical = layout.axes.get(leaf.rpartition(".")[2])
        assert logical is None or len(logical) == len(shape), f"{leaf} {shape}: {logical}"
        for size, axis in zip(shape, layout.split(leaf, shape), strict=True):
            if axis is not None:
                split.add(axis)
                # The largest axis that is let through divides every other one.
                largest = gcd(*(entries[entry] for entry in axes[axis]))
                assert size % largest == 0, f"{axis} = {largest} does not divide {leaf} {shape}"
    assert split == set(axes) - {"data"}


@pytest.mark.parametrize("name", [name for name in ALL if name.split(":")[1] not in ("tiny",)])
def test_moments_lie_like_their_parameters_unless_they_are_vectors(name: str) -> None:
    family, _, preset = name.partition(":")
    found, layout = leaves(name), workload.load(name).layout  # type: ignore[attr-defined]
    if literal(family, "PRESETS")[preset]["flat_moments"]:
        return
    params = {leaf for leaf in found if leaf.startswith("params.")}
    for leaf in params:
        last, shape = leaf.rpartition(".")[2], found[leaf].shape
        moments = [n for n in found if n.startswith("optimizer.") and n.endswith(f".{last}")]
        assert moments, f"{leaf} has no moment of its name"
        for moment in moments:
            assert found[moment].shape == shape
            assert layout.split(moment, shape) == layout.split(leaf, shape)


@pytest.mark.parametrize("name", ALL)
def test_records_have_fixed_shapes(name: str) -> None:
    source = workload.load(name).source()
    first, last = source[0], source[len(source) - 1]
    assert {k: (a.shape, a.dtype) for k, a in first.items()} == {
        k: (a.shape, a.dtype) for k, a in last.items()
    }
    with pytest.raises(IndexError):
        source[len(source)]
    batch = Pipeline(source, batch_size=2, seed=0).next().arrays
    assert {key: array.shape[1:] for key, array in batch.items()} == {
        key: array.shape for key, array in first.items()
    }


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("transformer:tiny,heads=5", r"workload: heads = 5: expected a divisor of dim = 64"),
        ("transformer:tiny,kv_heads=3", r"kv_heads = 3: expected a divisor of heads = 4"),
        ("transformer:tiny,style=gpt3", r"style = 'gpt3': expected llama or gpt2"),
        ("transformer:tiny,seq_len=2000", r"seq_len = 2000: expected at most context = 1024"),
        ("transformer:tiny,layers=0", r"expected layers to be a whole number above 0"),
        ("transformer:gpt2-124m,tied=false", r"tied = False: expected true in style gpt2"),
        ("moe:tiny,experts_per_token=5", r"experts_per_token = 5: expected at most experts = 4"),
        ("vit:tiny,patch=3", r"patch = 3: expected a divisor of image_size = 8"),
        ("vit:tiny,classes=9", r"data = '.*digits.npz': expected labels from 0 to 8; it has one"),
        ("vit:tiny,batch_size=1800", r"expected at least 1800 images; it has 1797"),
        ("resnet:tiny,blocks=1-0", r"blocks = '1-0': expected numbers of blocks"),
        ("resnet:tiny,stem=5", r"stem = 5: expected 3 or 7"),
        ("dlrm:tiny,bottom=16-8", r"bottom = '16-8': expected a list that ends in embedding_dim"),
        ("dlrm:tiny,lookups=1-1", r"lookups = '1-1': expected 5 numbers, one a table"),
        ("diffusion:tiny,average_decay=1.5", r"average_decay = 1.5: expected a number below 1"),
        ("mlp:tiny,context=40", r"context = 40: expected at most seq_len = 32"),
    ],
)
def test_a_change_that_makes_no_model_is_one_line(name: str, message: str) -> None:
    with pytest.raises(UsageError, match=message) as raised:
        workload.load(name)
    assert "\n" not in str(raised.value)


def test_a_users_images(tmp_path: Path) -> None:
    path = tmp_path / "mine.npz"
    pixels = np.random.default_rng(0).integers(0, 256, (20, 6, 4, 3), dtype=np.uint8)
    pixels[0, 0, 0] = 255
    np.savez(path, images=pixels, labels=np.arange(20) % 3)
    source = images.Images(path, 12, 3, 10)
    record = source[5]
    assert (record["images"].shape, int(record["labels"])) == ((12, 12, 3), 2)
    np.testing.assert_allclose(record["images"][::2, ::3], pixels[5] / 127.5 - 1, atol=1e-6)
    with pytest.raises(UsageError, match="images whose channels divide 1; they have 3"):
        images.Images(path, 12, 1, 10)
    np.savez(path, pictures=pixels)
    with pytest.raises(UsageError, match=r"data = '.*mine.npz': expected an .npz file with"):
        images.Images(path, 12, 3, 10)
    path.write_bytes(b"no archive")
    with pytest.raises(UsageError, match=r"data = '.*mine.npz': expected an .npz file with"):
        images.Images(path, 12, 3, 10)
    with pytest.raises(UsageError, match="no file with dlrm"):
        workload.load("dlrm:tiny", str(path))


def test_clicks_keep_their_law() -> None:
    source = clicks.Clicks([1000, 10], [3, 1], 5000)
    records = [source[index] for index in range(5000)]
    ids = np.stack([record["ids"] for record in records])
    assert ids[:, :3].min() == 0 and ids[:, :3].max() < 1000
    assert ids[:, 3].min() == 1000 and ids[:, 3].max() == 1009
    # floor(1000 u**4) < 1 where u < 1000**-0.25, which is 0.178.
    assert abs((ids[:, :3] == 0).mean() - 0.178) < 0.01
    dense = np.stack([record["dense"] for record in records])
    assert abs(dense.mean() - 1) < 0.02 and dense.min() >= 0
    labels = np.array([record["labels"] for record in records])
    likely = dense[:, 0] > dense[:, 1] + 1
    assert labels[likely].mean() > 0.75 > 0.4 > labels[dense[:, 1] > dense[:, 0] + 1].mean()
    assert source[7]["ids"].tolist() == records[7]["ids"].tolist()


def test_the_noise_of_a_step_is_of_its_number() -> None:
    batch = {"images": np.zeros((64, 4, 4, 1), np.float32), "labels": np.zeros(64, np.int32)}
    make = functools.partial(noising.noised, timesteps=1000, label_dropout=0.5, dropped=10)
    one, same, other = (make(batch, np.int32(step)) for step in (3, 3, 4))  # type: ignore[arg-type]
    assert jax.tree.map(np.array_equal, one, same) == dict.fromkeys(one, True)
    assert not np.array_equal(one["noise"], other["noise"])
    assert one["times"].min() >= 0 and one["times"].max() < 1000
    assert 10 < (np.asarray(one["labels"]) == 10).sum() < 54
    # The image is black, so what is left is the noise, by the schedule's last factor at most.
    ratio = np.asarray(one["noised"] / one["noise"])
    assert ratio.max() <= 1 and ratio.min() > 0


def test_patches_are_taken_apart_and_put_together() -> None:
    pixels = jax.random.normal(jax.random.key(0), (2, 6, 6, 3))
    taken = layers.patches(pixels, 2)
    assert taken.shape == (2, 9, 12)
    np.testing.assert_array_equal(taken[1, 4], pixels[1, 2:4, 2:4].reshape(-1))
    np.testing.assert_array_equal(layers.pixels(taken, 2, 3), pixels)


def test_bytes_go_to_their_best_experts_until_these_are_full() -> None:
    module: Any = __import__("sys").modules[type(workload.load("moe:tiny")).__module__]
    # Three positions want expert 0 first and expert 1 second; the fourth the other way round.
    scores = np.array([[[2.0, 1, -9], [2, 1, -9], [2, 1, -9], [1, 2, -9]]], np.float32)
    room, balance = module.route(scores, 2, 4)
    first, second = np.exp(2) / (np.exp(2) + np.exp(1)), np.exp(1) / (np.exp(2) + np.exp(1))
    np.testing.assert_allclose(
        room.sum(axis=-1)[0, :, :2],
        [[first, second]] * 3 + [[second, first]],
        rtol=1e-6,
    )
    assert balance[0] > 2, "experts are used unevenly"
    tight, _ = module.route(scores, 2, 2)
    np.testing.assert_allclose(
        tight.sum(axis=-1)[0, :, :2],
        # Expert 0 is full after two first choices. In expert 1 the fourth's first choice comes
        # before anybody's second one, of which the first position's is the earliest.
        [[first, second], [first, 0], [0, 0], [0, first]],
        rtol=1e-6,
    )
    assert tight.sum(axis=1).max() <= 1, "two positions in one slot"


@pytest.mark.parametrize("remat", [False, True])
def test_a_loop_over_layers_is_the_layers_one_after_the_other(remat: bool) -> None:
    weights = {"scale": jax.random.normal(jax.random.key(1), (3, 5))}

    def block(x: jax.Array, layer: layers.Weights) -> tuple[jax.Array, jax.Array]:
        x = x * layer["scale"] + 1
        return x, x.sum()

    x = jax.random.normal(jax.random.key(2), (2, 5))
    found = layers.run(block, x, weights, scan=True, remat=remat)
    expected = layers.run(block, x, weights, scan=False, remat=remat)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6)
    assert found[1].shape == (3,)
