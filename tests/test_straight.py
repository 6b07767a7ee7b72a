"""Arrays that are read straight from the files of their chunks, against the arrays themselves."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from recoverybench.worker import straight
from recoverybench.worker.straight import Plain, Read


def write(directory: Path, array: np.ndarray, chunks: tuple[int, ...], **other: Any) -> None:
    """An array as zarr (version 2) has it uncompressed: whole chunks, also at the edges."""
    directory.mkdir()
    told = {
        "zarr_format": 2,
        "shape": array.shape,
        "chunks": chunks,
        "dtype": array.dtype.str,
        "order": "C",
        "compressor": None,
        "filters": None,
        "fill_value": None,
    }
    (directory / ".zarray").write_text(json.dumps(told | other))
    counts = [-(-size // chunk) for size, chunk in zip(array.shape, chunks, strict=True)]
    padded = np.zeros([n * c for n, c in zip(counts, chunks, strict=True)], array.dtype)
    padded[tuple(slice(0, size) for size in array.shape)] = array
    for place in itertools.product(*map(range, counts)):
        piece = tuple(slice(i * c, (i + 1) * c) for i, c in zip(place, chunks, strict=True))
        name = other.get("dimension_separator", ".").join(map(str, place)) or "0"
        (directory / name).write_bytes(padded[piece].tobytes())


def read(plain: Plain, part: list[tuple[int, int]]) -> np.ndarray | None:
    reads = plain.reads(part)
    if reads is None:
        return None
    found = np.full([end - begin for begin, end in part], 77, plain.dtype)
    for one in reads:
        one.into(memoryview(found.data).cast("B"))
    return found


@st.composite
def cases(draw: st.DrawFn) -> tuple[tuple[int, ...], tuple[int, ...], list[tuple[int, int]]]:
    shape = tuple(draw(st.lists(st.integers(1, 7), max_size=3)))
    chunks = tuple(draw(st.integers(1, size)) for size in shape)
    part = []
    for size in shape:
        begin = draw(st.integers(0, size - 1))
        part.append((begin, draw(st.integers(begin + 1, size))))
    return shape, chunks, part


@given(cases())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_part_is_read_or_left_to_others(
    tmp_path_factory: pytest.TempPathFactory,
    case: tuple[tuple[int, ...], tuple[int, ...], list[tuple[int, int]]],
) -> None:
    shape, chunks, part = case
    directory = tmp_path_factory.mktemp("array") / "a"
    array = np.arange(int(np.prod(shape)), dtype=np.int32).reshape(shape)
    write(directory, array, chunks)
    plain = Plain.at(directory)
    assert plain is not None
    found = read(plain, part)
    wanted = array[tuple(slice(*bounds) for bounds in part)]
    whole_rows = all(
        begin % chunk == 0 and end - begin == chunk
        for (begin, end), chunk in zip(part[1:], chunks[1:], strict=True)
    )
    assert (found is not None) == whole_rows
    if found is not None:
        assert np.array_equal(found, wanted)


def test_a_large_chunk_is_read_in_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(straight, "BLOCK", 1000)
    array = np.random.default_rng(0).standard_normal((50, 30)).astype(np.float32)
    write(tmp_path / "a", array, (40, 30), dimension_separator="-")
    plain = Plain.at(tmp_path / "a")
    assert plain is not None
    reads = plain.reads([(5, 50), (0, 30)])
    assert reads is not None
    assert max(one.size for one in reads) == 1000
    assert sum(one.size for one in reads) == 45 * 30 * 4
    found = read(plain, [(5, 50), (0, 30)])
    assert found is not None and np.array_equal(found, array[5:50])


@pytest.mark.parametrize(
    "other",
    [
        {"compressor": {"id": "zstd", "level": 1}},
        {"filters": [{"id": "delta"}]},
        {"order": "F"},
        {"dtype": ">f4"},
        {"dtype": "|O"},
        {"dtype": [["r", "u1"]]},
        {"dtype": None},
    ],
)
def test_what_is_not_the_bytes_themselves_is_left_to_others(
    tmp_path: Path, other: dict[str, Any]
) -> None:
    write(tmp_path / "a", np.zeros((4, 4), np.float32), (4, 4), **other)
    assert Plain.at(tmp_path / "a") is None


def test_what_is_no_array_is_left_to_others(tmp_path: Path) -> None:
    assert Plain.at(tmp_path / "none") is None
    (tmp_path / ".zarray").write_text("{}")
    assert Plain.at(tmp_path) is None
    (tmp_path / ".zarray").write_text("no JSON")
    assert Plain.at(tmp_path) is None


def test_a_file_that_is_gone_or_cut_off_is_an_error(tmp_path: Path) -> None:
    array = np.ones((8, 8), np.float32)
    write(tmp_path / "a", array, (4, 8))
    plain = Plain.at(tmp_path / "a")
    assert plain is not None
    with (tmp_path / "a/1.0").open("r+b") as file:
        file.truncate(100)
    with pytest.raises(OSError, match=r"1\.0 ends 28 bytes early"):
        read(plain, [(0, 8), (0, 8)])
    (tmp_path / "a/0.0").unlink()
    with pytest.raises(FileNotFoundError):
        read(plain, [(0, 4), (0, 8)])


def test_nothing_is_read_where_nothing_is_wanted(tmp_path: Path) -> None:
    Read(tmp_path / "a", 0, 0, 0)
    write(tmp_path / "b", np.zeros((3,), np.float32), (3,))
    plain = Plain.at(tmp_path / "b")
    assert plain is not None and plain.reads([(1, 1)]) == []
