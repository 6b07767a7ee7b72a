"""The page cache, and files that are read as fast as files can be read."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from recoverybench import page_cache
from recoverybench.analysis.journal import read_trial
from recoverybench.campaign import storage
from recoverybench.journal_writer import Journal

MB = 1_000_000


@pytest.fixture
def droppable(tmp_path: Path) -> Path:
    """A directory whose files can be dropped from the page cache."""
    if why := page_cache.why_not(str(tmp_path)):
        pytest.skip(why)
    return tmp_path


def put(path: Path, size: int) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(os.urandom(size))
    return path


def test_what_was_dropped_is_not_in_memory(droppable: Path) -> None:
    file = put(droppable / "a", 3 * MB + 17)
    assert page_cache.resident(file) == 3 * MB + 17
    assert page_cache.drop([file, put(droppable / "empty", 0)]) == (3 * MB + 17, 0)
    assert page_cache.resident(file) == 0
    content = file.read_bytes()
    assert page_cache.resident(file) == len(content) == 3 * MB + 17


def test_a_part_that_is_read_is_in_memory(droppable: Path) -> None:
    file = put(droppable / "a", 64 * MB)
    page_cache.drop([file])
    with file.open("rb", buffering=0) as opened:
        opened.read(4096)
    assert 0 < page_cache.resident(file) < 64 * MB


def test_files_of_a_tmpfs_cannot_be_dropped() -> None:
    memory = Path("/dev/shm")
    if not memory.is_dir() or not os.access(memory, os.W_OK):
        pytest.skip("there is no tmpfs at /dev/shm")
    why = page_cache.why_not(str(memory))
    assert why is not None and "stay in memory" in why


def test_why_not_names_a_directory_that_is_not_there(tmp_path: Path) -> None:
    assert (
        page_cache.why_not(str(tmp_path / "none")) == f"{tmp_path}/none: No such file or directory"
    )


@pytest.mark.parametrize("sizes", [[0], [1], [5, 0, 4096], [3 * MB, 100_001, 64]])
def test_a_raw_read_reads_every_byte_once(
    tmp_path: Path, sizes: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    files = [put(tmp_path / str(i), size) for i, size in enumerate(sizes)]
    read: list[int] = []
    preadv = os.preadv

    def counted(descriptor: int, buffers: Any, offset: int) -> int:
        # Short reads are continued: the system may give less than it was asked for.
        got = preadv(descriptor, [buffers[0][: max(1, len(buffers[0]) // 2)]], offset)
        read.append(got)
        return got

    monkeypatch.setattr(os, "preadv", counted)
    assert storage.raw_read(files, threads=3, block=65_536) > 0
    assert sum(read) == sum(sizes)


def test_a_file_that_shrinks_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "preadv", lambda *_: 0)
    with pytest.raises(OSError, match="ended 4096 bytes early"):
        storage.raw_read([put(tmp_path / "a", 4096)])


def test_steps_of_storage_and_of_nodes(tmp_path: Path) -> None:
    for name in ("10/state/d/x", "10/data/y", "20/z", "30.orbax-checkpoint-tmp/state/w"):
        put(tmp_path / name, 1)
    for name in ("worker-0/10/a", "worker-1/10/b", "worker-1/15.orbax-checkpoint-tmp/c"):
        put(tmp_path / "local" / name, 1)
    found = storage.steps_in(tmp_path)
    assert {step: len(files) for step, files in found.items()} == {10: 2, 20: 1}
    local = storage.steps_in(tmp_path / "local")
    assert {step: [f.name for f in files] for step, files in local.items()} == {10: ["a", "b"]}


def lines_of(directory: Path, event: str) -> list[dict[str, Any]]:
    return [line for line in read_trial(directory).lines if line["event"] == event]


def worker(directory: Path, *lines: dict[str, Any]) -> None:
    journal = Journal(directory / "0.0.jsonl", 0, 0)
    for line in lines:
        journal.log(line.pop("event"), **line)
    journal.close()


@pytest.mark.parametrize("tier", ["storage", "peer", None])
def test_only_what_came_from_storage_is_read_again(tmp_path: Path, tier: str | None) -> None:
    journals, checkpoints = tmp_path / "journals", tmp_path / "checkpoints"
    journals.mkdir()
    put(checkpoints / "10/state/x", 3 * MB)
    put(checkpoints / "20/state/x", MB)
    worker(journals, {"event": "restore", "step": 10, "tier": tier, "tried": []})
    journal = Journal(journals / "supervisor.0.jsonl", None, 0)
    storage.measure_raw_read(journal, journals, checkpoints)
    journal.close()
    raw = lines_of(journals, "raw_read")
    assert len(raw) == (tier == "storage")
    for line in raw:
        assert (line["step"], line["bytes"]) == (10, 3 * MB)
        assert line["warm_s"] > 0
        cold = page_cache.why_not(str(tmp_path)) is None
        assert (line["cold_s"] is not None) == cold


def test_files_that_cannot_be_read_are_no_measurement(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(tmp_path / "checkpoints/10/x", 10)
    (tmp_path / "journals").mkdir()
    worker(tmp_path / "journals", {"event": "restore", "step": 10, "tier": "storage", "tried": []})

    def broken(*_: object) -> float:
        raise OSError("it is broken")

    monkeypatch.setattr(storage, "raw_read", broken)
    journal = Journal(tmp_path / "journals/supervisor.0.jsonl", None, 0)
    storage.measure_raw_read(journal, tmp_path / "journals", tmp_path / "checkpoints")
    journal.close()
    (line,) = lines_of(tmp_path / "journals", "raw_read")
    assert line["error"] == "it is broken" and "cold_s" not in line


class Held:
    """A job that is held, as far as `make_cold` asks; its save ends at the third look."""

    def __init__(self, directory: Path) -> None:
        self.spec = SimpleNamespace(
            journals=str(directory / "journals"),
            checkpoints=str(directory / "checkpoints"),
            local=str(directory / "local"),
        )
        for name in ("journals", "local"):
            (directory / name).mkdir()
        self.journal = Journal(directory / "journals/supervisor.0.jsonl", None, 0)
        self.worker = Journal(directory / "journals/0.0.jsonl", 0, 0)
        self.looks = self.discounts = 0

    def lost(self) -> bool:
        return False

    def held_up(self) -> None:
        self.discounts += 1

    def pump(self, *_: object) -> bool:
        self.looks += 1
        if self.looks == 3:
            put(Path(self.spec.checkpoints) / "20/x", MB)
            self.worker.log("committed", step=20)
        return False


@pytest.mark.parametrize("in_flight", [False, True])
def test_a_save_in_flight_is_waited_for_unless_it_is_to_be_met(
    droppable: Path, in_flight: bool
) -> None:
    old = put(droppable / "checkpoints/10/x", MB)
    job: Any = Held(droppable)
    job.worker.log("save", step=10)
    job.worker.log("committed", step=10)
    job.worker.log("save", step=20)
    assert storage.make_cold(job, in_flight=in_flight) is None
    (line,) = lines_of(droppable / "journals", "dropped")
    assert line["steps"] == ([10] if in_flight else [10, 20])
    assert (line["bytes"], line["left"]) == (MB * len(line["steps"]), 0)
    assert page_cache.resident(old) == 0
    assert job.looks == (0 if in_flight else 3)
    assert job.discounts > 0


def test_what_stays_in_memory_is_a_problem(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(tmp_path / "checkpoints/10/x", 10)
    monkeypatch.setattr(page_cache, "drop", lambda files: (10, 4))
    job: Any = Held(tmp_path)
    said = storage.make_cold(job, in_flight=False)
    assert said == "4 of 10 bytes of the checkpoints could not be dropped from memory"
