"""The standard workloads: that they are what they say, and keep the worker's contract."""

from __future__ import annotations

import ast
import functools
import subprocess
import sys
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from recoverybench.errors import UsageError
from recoverybench.worker import images, layers, workload
from recoverybench.worker.data import Pipeline

ROOT = Path(__file__).resolve().parents[1]
FAMILIES = ["diffusion", "dlrm", "mlp", "moe", "resnet", "transformer", "vit"]
SMALL = [*(f"{family}:tiny" for family in FAMILIES), "mlp:small", "transformer:small"]

PUBLISHED = {
    # 130,426,496 with the predicted variance, which is left out.
    "diffusion:dit-b4": 130_426_496 - 64 * 769,
    # 204,184,588 rows of 128 and the MLPs and cross network that they feed.
    "dlrm:dlrm-dcnv2-scaled,largest_table=40000000,rows_multiple=1": 26_151_671_809,
    "moe:mixtral-8x7b": 46_702_792_704,
    "resnet:resnet50": 25_557_032,
    "transformer:gpt2-124m": 124_439_808,
    "transformer:llama3-8b": 8_030_261_248,
    "transformer:llama3-70b": 70_553_706_496,
    "vit:vit-b16": 86_567_656,
}
"""Parameters of the models that presets are named after, as their authors count them."""

ALL = [*SMALL, *PUBLISHED]


@functools.cache
def tiny(family: str) -> tuple[workload.Workload, Any, Any]:
    """A tiny workload, its first state and its step; compiled once for all tests."""
    loaded = workload.load(f"{family}:tiny")
    return loaded, *compiled(loaded)


def compiled(loaded: workload.Workload) -> tuple[Any, Any]:
    """The first state and the step, compiled in half the time for being slow."""
    options = {"xla_backend_optimization_level": 0}
    init = jax.jit(loaded.init, compiler_options=options)
    return init(jax.random.key(0)), jax.jit(loaded.step, compiler_options=options)


FIRST_AND_FALL = {
    "diffusion": (1, 0.3),
    "dlrm": (np.log(2), 0.04),
    "mlp": (np.log(256), 1.5),
    "moe": (np.log(256) + 0.08, 1.5),
    "resnet": (np.log(10), 0.2),
    "transformer": (np.log(256), 1.5),
    "vit": (np.log(10), 0.15),
}
"""The loss of a model that knows nothing, and by how much thirty steps bring it down."""


@pytest.mark.parametrize("family", FAMILIES)
def test_thirty_steps_of_tiny_learn_something_and_the_same_again(family: str) -> None:
    first, fall = FIRST_AND_FALL[family]
    loaded, begin, step = tiny(family)
    structure = jax.tree.map(lambda leaf: (leaf.shape, leaf.dtype), begin)
    pipeline = Pipeline(loaded.source(), batch_size=loaded.batch_size, seed=0)
    batches = [pipeline.next().arrays for _ in range(30)]
    state, losses = begin, []
    for batch in batches:
        state, loss = step(state, batch)
        assert (loss.shape, loss.dtype) == ((), np.float32)
        losses.append(float(loss))
    assert abs(losses[0] - first) < 0.1, losses[0]
    assert np.isfinite(losses).all()
    again = [float(step(state, batch)[1]) for batch in batches[:5]]
    assert np.mean(again) < np.mean(losses[:5]) - fall, (losses, again)
    assert jax.tree.map(lambda leaf: (leaf.shape, leaf.dtype), state) == structure
    assert int(state["step"]) == 30

    second = begin
    for batch in batches:
        second, _ = step(second, batch)
    assert jax.tree.map(bits, second) == jax.tree.map(bits, state)


def bits(leaf: jax.Array) -> bytes:
    return np.asarray(leaf).tobytes()


@pytest.mark.parametrize("name", ALL)
def test_the_state_is_arrays_with_names_of_their_own(name: str) -> None:
    state = jax.eval_shape(workload.load(name).init, jax.random.key(0))
    leaves = jax.tree_util.tree_flatten_with_path(state)[0]
    names = [jax.tree_util.keystr(path, simple=True, separator=".") for path, _ in leaves]
    assert len(set(names)) == len(names), names
    assert len(names) <= 64, names
    assert {str(leaf.dtype) for _, leaf in leaves} == {"float32", "int32"}


@pytest.mark.parametrize("name", ALL)
def test_every_usual_number_of_workers_divides_the_batch(name: str) -> None:
    loaded = workload.load(name)
    assert isinstance(loaded, workload.Workload)
    assert [loaded.batch_size % world for world in (1, 2, 3, 4, 6)] == [0] * 5
    assert len(loaded.source()) >= loaded.batch_size


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_published_model_has_as_many_parameters(name: str) -> None:
    state = jax.eval_shape(workload.load(name).init, jax.random.key(0))
    assert sum(leaf.size for leaf in jax.tree.leaves(state["params"])) == PUBLISHED[name]


@pytest.mark.parametrize("family", ["mlp", "transformer"])
def test_small_has_about_ten_million_parameters(family: str) -> None:
    state = jax.eval_shape(workload.load(f"{family}:small").init, jax.random.key(0))
    count = sum(leaf.size for leaf in jax.tree.leaves(state["params"]))
    assert 9.5e6 < count < 10.5e6, count


@pytest.mark.parametrize("family", ["diffusion", "dlrm", "mlp", "moe"])
def test_joined_gradients_are_the_plain_ones(family: str) -> None:
    loaded, state, step = tiny(family)
    plain = workload.load(f"{family}:tiny,joined_gradients=false")
    batch = Pipeline(loaded.source(), batch_size=12, seed=0).next().arrays
    found, loss = step(state, batch)
    expected, expected_loss = compiled(plain)[1](state, batch)
    np.testing.assert_allclose(loss, expected_loss, rtol=1e-6)
    moments, expected_moments = map(jax.tree.leaves, (found["optimizer"], expected["optimizer"]))
    assert max(np.abs(moment).max() for moment in moments) > 0
    for moment, expected_moment in zip(moments, expected_moments, strict=True):
        np.testing.assert_allclose(moment, expected_moment, rtol=1e-3, atol=1e-7)


def test_a_byte_is_not_predicted_from_itself_or_what_follows() -> None:
    loaded: Any = workload.load("transformer:tiny")
    params = jax.jit(loaded.init)(jax.random.key(0))["params"]
    logits = jax.jit(loaded.logits)
    tokens = loaded.source()[0]["tokens"][None, :-1]
    changed = tokens.copy()
    changed[0, 20:] = 7
    before, after = logits(params, tokens), logits(params, changed)
    np.testing.assert_array_equal(before[:, :20], after[:, :20])
    assert np.abs(before[:, 20:] - after[:, 20:]).max() > 1e-4


def test_rotary_positions_as_plain_rotations() -> None:
    x = np.random.default_rng(0).normal(size=(1, 9, 2, 6)).astype(np.float32)
    expected = np.zeros(x.shape)
    for position in range(9):
        for i in range(3):
            turn = np.exp(1j * position * 10_000 ** (-2 * i / 6))
            pair = (x[0, position, :, i] + 1j * x[0, position, :, i + 3]) * turn
            expected[0, position, :, i] = pair.real
            expected[0, position, :, i + 3] = pair.imag
    np.testing.assert_allclose(layers.rotary(jnp.asarray(x), 10_000.0), expected, atol=1e-5)


@pytest.mark.parametrize("causal", [True, False])
def test_grouped_query_attention_as_a_plain_computation(causal: bool) -> None:
    kv_heads, group, width, rows, length = 2, 3, 4, 2, 7
    shape = (rows, length, kv_heads, group + 2, width)
    heads = np.random.default_rng(1).normal(size=shape).astype(np.float32)
    expected = np.zeros((rows, length, kv_heads, group, width))
    for row, kv_head, member, at in np.ndindex(rows, kv_heads, group, length):
        seen = at + 1 if causal else length
        key, value = heads[row, :seen, kv_head, -2], heads[row, :seen, kv_head, -1]
        weights = np.exp(key @ heads[row, at, kv_head, member] / np.sqrt(width))
        expected[row, at, kv_head, member] = weights @ value / weights.sum()
    qkv = jnp.asarray(heads.reshape(rows, length, -1))
    found = layers.attention(qkv, kv_heads, width, causal=causal)
    np.testing.assert_allclose(found, expected.reshape(rows, length, -1), atol=1e-5)


def test_loading_imports_neither_flax_nor_optax() -> None:
    code = (
        "import sys\n"
        "from recoverybench.worker import workload\n"
        "print('jax' in sys.modules)\n"
        "for name in ('transformer:tiny', 'mlp:tiny'):\n"
        "    len(workload.load(name).source())\n"
        "print([n for n in sorted(sys.modules) if n.split('.')[0] in ('flax', 'optax', 'orbax')])\n"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert ran.stdout.split("\n")[:2] == ["False", "[]"], ran.stdout + ran.stderr


@pytest.mark.parametrize("family", FAMILIES)
def test_presets_can_be_read_without_importing(family: str) -> None:
    tree = ast.parse((ROOT / "workloads" / f"{family}.py").read_text())
    assert (ast.get_docstring(tree) or "").split("\n")[0].endswith(".")
    found = [
        ast.literal_eval(node.value)
        for node in tree.body
        if isinstance(node, ast.AnnAssign)
        and isinstance(node.target, ast.Name)
        and node.target.id == "PRESETS"
        and node.value is not None
    ]
    assert len(found) == 1 and "tiny" in found[0]
    assert all("batch_size" in preset for preset in found[0].values())
    assert len({tuple(preset) for preset in found[0].values()}) == 1, "entries differ"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("transfomer:tiny", "did you mean 'transformer'"),
        ("transformer:tny", "did you mean 'transformer:tiny'"),
        ("transformer", "known: transformer:gpt2-124m, transformer:llama3-70b"),
        ("../transformer:tiny", "known: .*mlp, .*transformer"),
        ("", "known: .*mlp, .*transformer"),
    ],
)
def test_an_unknown_name_is_refused_with_the_known_ones(name: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        workload.load(name)


def test_the_users_file_takes_the_place_of_the_text(tmp_path: Path) -> None:
    path = tmp_path / "bytes.bin"
    path.write_bytes(bytes([0, 255]) * 300)
    tokens = workload.load("mlp:tiny", str(path)).source()[3]["tokens"]
    assert sorted(set(tokens.tolist())) == [0, 255]
    with pytest.raises(UsageError, match=r"bytes\.bin.*at least 769 bytes; it has 600"):
        workload.load("transformer:small", str(path))
    with pytest.raises(UsageError, match=r"data = .*absent"):
        workload.load("mlp:tiny", str(tmp_path / "absent"))


def test_the_text_is_the_one_its_note_describes() -> None:
    import hashlib

    text = (workload.folder() / "data" / "paradise-lost.txt").read_bytes()
    note = (workload.folder() / "data" / "README.md").read_text()
    assert hashlib.sha256(text).hexdigest() in note
    assert f"{len(text):,} bytes" in note
    assert len(text) <= 1_000_000
    assert b"gutenberg" not in text.lower()


def test_the_digits_are_the_ones_their_note_describes() -> None:
    import hashlib

    path = workload.folder() / "data" / images.SHIPPED_IMAGES
    note = (workload.folder() / "data" / "README.md").read_text()
    assert hashlib.sha256(path.read_bytes()).hexdigest() in note
    assert f"{path.stat().st_size:,} bytes" in note
    with np.load(path) as file:
        pixels, labels = file["images"], file["labels"]
    assert (pixels.shape, pixels.dtype, pixels.max()) == ((1797, 8, 8), np.uint8, 16)
    assert np.bincount(labels).tolist() == [178, 182, 177, 183, 181, 182, 181, 179, 174, 180]
