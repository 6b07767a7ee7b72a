"""Digests of states in parts: they add up, and every bit counts."""

from __future__ import annotations

import itertools

import hypothesis.extra.numpy as hnp
import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recoverybench.analysis.parts import joined
from recoverybench.worker.digest import Piece, add, digest, digest_of_pieces

KINDS = [np.float32, np.float16, np.int32, np.uint8, np.bool_, np.int64, ml_dtypes.bfloat16]


@st.composite
def arrays(draw: st.DrawFn) -> np.ndarray:
    """Arrays of any kind that states have; their bits are anything."""
    kind = np.dtype(draw(st.sampled_from(KINDS)))
    shape = draw(hnp.array_shapes(min_dims=0, max_dims=3, min_side=1, max_side=5))
    if kind == np.bool_:
        return draw(hnp.arrays(np.bool_, shape))
    size = int(np.prod(shape)) * kind.itemsize
    return np.frombuffer(draw(st.binary(min_size=size, max_size=size)), kind).reshape(shape).copy()


@given(arrays(), st.data())
def test_parts_add_up_to_the_whole(array: np.ndarray, data: st.DataObject) -> None:
    cuts = [sorted({0, n, data.draw(st.integers(0, n))}) for n in array.shape]
    ranges = [list(itertools.pairwise(c)) for c in cuts]
    pieces = [Piece("x", array.shape, (), array)] if array.ndim == 0 else []
    for corner in np.ndindex(*(len(r) for r in ranges)) if array.ndim else ():
        spans = [ranges[axis][i] for axis, i in enumerate(corner)]
        index = tuple(slice(a, b) for a, b in spans)
        pieces.append(Piece("x", array.shape, tuple(a for a, _ in spans), array[index]))
    assert add(digest_of_pieces([piece]) for piece in pieces) == digest({"x": array})
    assert digest_of_pieces(pieces) == digest({"x": array})


@given(arrays(), st.data())
def test_every_bit_counts(array: np.ndarray, data: st.DataObject) -> None:
    raw = bytearray(array.tobytes())
    bits = 1 if array.dtype == np.bool_ else 8
    at, bit = data.draw(st.integers(0, len(raw) - 1)), data.draw(st.integers(0, bits - 1))
    raw[at] ^= 1 << bit
    other = np.frombuffer(bytes(raw), array.dtype).reshape(array.shape)
    assert digest({"x": other}) != digest({"x": array})


def test_name_shape_and_dtype_count() -> None:
    zeros = np.zeros((2, 3), np.float32)
    same = [
        digest({"x": zeros}),
        digest({"y": zeros}),
        digest({"x": zeros.reshape(3, 2)}),
        digest({"x": zeros.view(np.int32)}),
        digest({"x": zeros, "y": zeros}),
        digest({}),
    ]
    assert len(set(same)) == len(same)


def test_places_count() -> None:
    array = np.arange(6, dtype=np.float32).reshape(2, 3)
    assert digest({"x": array[::-1]}) != digest({"x": array})
    assert digest({"x": array[:, ::-1]}) != digest({"x": array})
    assert digest({"x": array, "y": 2 * array}) != digest({"x": 2 * array, "y": array})


@settings(max_examples=20)
@given(st.integers(1, 3), st.integers(1, 700_000))
def test_blocks_do_not_show(rows: int, columns: int) -> None:
    """Larger than what is worked on at once, in both directions."""
    array = np.arange(rows * columns, dtype=np.uint32).reshape(rows, columns)
    half = columns // 2
    parts = [Piece("x", array.shape, (0, 0), array[:, :half])] if half else []
    parts.append(Piece("x", array.shape, (0, half), array[:, half:]))
    assert digest_of_pieces(parts) == digest({"x": array})


# What the analysis makes of them


def line(worker: int, holds: str, digest: str, owned: str, **more: object) -> dict[str, object]:
    made = {"what": "saved", "step": 10, "generation": 0, "worker": worker, "of": 2}
    return {**made, "holds": holds, "digest": digest, "owned": owned, **more}


def test_parts_of_all_workers_make_lines_of_the_whole() -> None:
    lines = [line(0, "a", "1", "f0"), line(1, "b", "2", "0f")]
    assert [each["digest"] for each in joined(lines)] == ["00000000000000ff"] * 2


def test_a_state_of_which_a_part_is_missing_is_unknown() -> None:
    whole = {"what": "saved", "step": 20, "generation": 0, "worker": 0, "digest": "7"}
    assert joined([line(0, "a", "1", "f0"), whole]) == (whole,)


def test_a_copy_of_a_part_that_is_another_one_is_no_copy_of_the_whole() -> None:
    lines = [line(0, "a", "1", "ff"), line(1, "a", "2", "0")]
    good, bad = (str(each["digest"]) for each in joined(lines))
    assert good == "00000000000000ff" and bad.startswith(good) and bad != good


def test_norms_of_parts_are_those_of_the_whole() -> None:
    lines = [
        line(0, "a", "1", "f0", squares=[9.0, 1.0]),
        line(1, "b", "2", "0f", squares=[16.0, 0.0]),
    ]
    assert [each["norms"] for each in joined(lines)] == [pytest.approx([5.0, 1.0])] * 2
