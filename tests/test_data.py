"""The data pipeline: one global order, whatever the number of workers."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recoverybench.errors import UsageError
from recoverybench.worker.data import Batch, Pipeline
from recoverybench.worker.text import TextWindows

BATCH = 12


class Numbers:
    """Record `i` holds `i`, twice."""

    def __init__(self, length: int) -> None:
        self._length = length

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, index: int) -> dict[str, np.ndarray]:
        return {"x": np.full(2, index, np.int32)}


def one(length: int, seed: int, rank: int = 0, world: int = 1) -> Pipeline:
    return Pipeline(Numbers(length), batch_size=BATCH, seed=seed, rank=rank, world=world)


def gathered(pipelines: list[Pipeline]) -> Batch:
    parts = [pipeline.next() for pipeline in pipelines]
    return Batch(
        {"x": np.concatenate([part.arrays["x"] for part in parts])},
        [sample for part in parts for sample in part.samples],
    )


@settings(deadline=None, max_examples=15)
@given(
    length=st.integers(1, 60),
    seed=st.integers(0, 2**32 - 1),
    world=st.sampled_from([2, 3, 4, 6, 12]),
)
def test_the_global_batch_does_not_depend_on_the_number_of_workers(
    length: int, seed: int, world: int
) -> None:
    alone = one(length, seed)
    together = [one(length, seed, rank, world) for rank in range(world)]
    for _ in range(8):
        expected, found = alone.next(), gathered(together)
        assert found.samples == expected.samples
        np.testing.assert_array_equal(found.arrays["x"], expected.arrays["x"])


@settings(deadline=None, max_examples=15)
@given(length=st.integers(1, 60), seed=st.integers(0, 2**32 - 1))
def test_every_record_comes_once_an_epoch_and_ids_say_which(length: int, seed: int) -> None:
    pipeline, samples, values = one(length, seed), list[int](), list[int]()
    for _ in range(length):  # BATCH epochs
        batch = pipeline.next()
        samples += batch.samples
        values += batch.arrays["x"][:, 0].tolist()
    assert [sample % length for sample in samples] == values
    for epoch in range(BATCH):
        ids = samples[epoch * length : (epoch + 1) * length]
        assert sorted(ids) == list(range(epoch * length, (epoch + 1) * length))


@settings(deadline=None, max_examples=15)
@given(
    steps=st.integers(0, 20),
    before=st.sampled_from([1, 2, 3, 4, 6]),
    after=st.sampled_from([1, 2, 3, 4, 6]),
)
def test_a_restored_pipeline_goes_on_as_if_nothing_had_happened(
    steps: int, before: int, after: int
) -> None:
    old = [one(100, 7, rank, before) for rank in range(before)]
    for _ in range(steps):
        gathered(old)
    states = [json.dumps(pipeline.state()) for pipeline in old]
    assert len(set(states)) == 1, states
    new = [one(100, 7, rank, after) for rank in range(after)]
    for pipeline in new:
        pipeline.restore(json.loads(states[0]))
        assert pipeline.position == steps
    for _ in range(3):
        expected, found = gathered(old), gathered(new)
        assert found.samples == expected.samples
        np.testing.assert_array_equal(found.arrays["x"], expected.arrays["x"])


def test_the_seed_and_the_epoch_change_the_order() -> None:
    def epochs(seed: int) -> list[list[int]]:
        pipeline = one(24, seed)
        taken = [sample % 24 for _ in range(4) for sample in pipeline.next().samples]
        return [taken[:24], taken[24:]]

    first, second = epochs(0)
    assert first != second
    assert epochs(1)[0] != first
    assert epochs(0) == [first, second]


@pytest.mark.parametrize(("rank", "world"), [(0, 5), (0, 0), (3, 3), (-1, 3)])
def test_a_share_that_does_not_exist_is_refused(rank: int, world: int) -> None:
    with pytest.raises(ValueError, match=f"{world} workers"):
        one(24, 0, rank, world)


def test_an_empty_source_is_refused() -> None:
    with pytest.raises(ValueError, match="no record"):
        one(0, 0)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"seed": 1}, "seed"),
        ({"batch_size": 6}, "batch_size"),
        ({"records": 23}, "records"),
        ({"position": -1}, "position"),
        ({"position": "3"}, "position"),
        ({"position": None}, "position"),
    ],
)
def test_a_state_of_another_order_is_refused(change: dict[str, object], named: str) -> None:
    pipeline = one(24, 0)
    pipeline.next()
    state = pipeline.state() | change
    with pytest.raises(ValueError, match=named):
        pipeline.restore(state)
    assert pipeline.position == 1


def test_windows_share_their_edge_and_cover_the_text(tmp_path: Path) -> None:
    content = bytes(range(50))
    (tmp_path / "text").write_bytes(content)
    windows = TextWindows(tmp_path / "text", 8)
    assert len(windows) == 6
    predicted = np.concatenate([windows[i]["tokens"][1:] for i in range(len(windows))])
    assert predicted.tolist() == list(content[1:49])
    first, second = windows[0]["tokens"], windows[1]["tokens"]
    assert first.dtype == np.int32
    assert first.shape == (9,)
    assert first[-1] == second[0]
    with pytest.raises(IndexError):
        windows[6]


def test_a_text_too_short_is_refused_with_its_size_and_the_least(tmp_path: Path) -> None:
    path = tmp_path / "short.txt"
    path.write_bytes(b"x" * 96)
    with pytest.raises(UsageError, match=r"short\.txt.*at least 97 bytes; it has 96"):
        TextWindows(path, 8, minimum=12)
    path.write_bytes(b"x" * 97)
    assert len(TextWindows(path, 8, minimum=12)) == 12


def test_a_text_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"absent.*No such file"):
        TextWindows(tmp_path / "absent", 8)
    with pytest.raises(UsageError, match="directory"):
        TextWindows(tmp_path, 8)
