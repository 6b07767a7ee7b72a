"""What the supervisor does with a job's checkpoints: drop them from memory, and read them raw.

Both lie outside everything that is timed: before the injection, and after the job's end.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from recoverybench import page_cache
from recoverybench.analysis.journal import read_trial
from recoverybench.job.job import Job
from recoverybench.journal_writer import Journal

THREADS = 2
BLOCK = 4 << 20
"""A raw read is made by so many threads, with reads of so many bytes: of 1, 2 and 4 threads and
1, 4, 8 and 16 MiB the pair that was fastest, cold and warm (docs/checkpoints.md).
"""

RAW_READS = 2
"""Of so many the fastest counts: what is looked for is what the storage can give."""

SAVE_S = 60.0
"""How long a save that is in flight is waited for before its files are dropped."""

_LOOK_S = 0.02
"""How often its end is looked for."""

MOST_BYTES = 20_000_000_000
"""Larger checkpoints are not read raw: it would take minutes."""


def steps_in(directory: Path) -> dict[int, list[Path]]:
    """The files of every step that is committed, by step: below a directory, or below those of
    several workers.
    """
    found: dict[int, list[Path]] = {}
    for entry in sorted(directory.iterdir()):
        if entry.name.isdecimal():
            found.setdefault(int(entry.name), []).extend(_files(entry))
        elif entry.is_dir() and entry.name.startswith("worker-"):
            for step, files in steps_in(entry).items():
                found.setdefault(step, []).extend(files)
    return found


def make_cold(job: Job, *, in_flight: bool) -> str | None:
    """Drop every committed checkpoint of a job that is held from the page cache.

    Args:
        job: one of its workers holds. in_flight: a save is to be met in flight, so that it is
            not waited for.

    Returns:
        What went wrong, in one line, or None.
    """
    end = time.monotonic() + (0.0 if in_flight else SAVE_S)
    # The end of a save makes no event on the loop, so it is looked for.
    while time.monotonic() < end and not job.lost() and _saving(Path(job.spec.journals)):
        job.pump(job.lost, _LOOK_S)
        job.held_up()
    total = left = 0
    steps: set[int] = set()
    for directory in (Path(job.spec.checkpoints), Path(job.spec.local)):
        for step, files in steps_in(directory).items():
            steps.add(step)
            size, still = page_cache.drop(files)
            total, left = total + size, left + still
    job.held_up()
    job.journal.log("dropped", steps=sorted(steps), bytes=total, left=left)
    if left:
        return f"{left} of {total} bytes of the checkpoints could not be dropped from memory"
    return "the healthy job failed before the injection" if job.lost() else None


def _saving(journals: Path) -> bool:
    """Whether a save that a worker has begun is not durable yet, by what the workers wrote."""
    lines = read_trial(journals).lines
    done = {(c["step"], _where(c)) for c in lines if c["event"] == "committed"}
    return any(
        not {(line["step"], None), (line["step"], line["worker"])} & done
        for line in lines
        if line["event"] == "save"
    )


def _where(committed: dict[str, Any]) -> int | None:
    """The worker on whose node a save is durable; None: on storage, for all of them."""
    return int(committed["worker"]) if committed.get("tier") == "local" else None


def measure_raw_read(journal: Journal, journals: Path, checkpoints: Path) -> None:
    """Read the checkpoint that the job came back from as fast as files can be read, and log it.

    Nothing is read where the state did not come from storage. Where files cannot be dropped from
    the page cache there is a warm read only.
    """
    step = _restored(journals)
    if step is None:
        return
    try:
        files = steps_in(checkpoints).get(step, [])
        size = sum(path.stat().st_size for path in files)
        if not 0 < size <= MOST_BYTES:
            return
        cold: list[float] = []
        for _ in range(RAW_READS):
            dropped = page_cache.drop(files)[1] == 0
            taken_s = raw_read(files)
            cold += [taken_s] if dropped else []
        warm_s = min(raw_read(files) for _ in range(RAW_READS))
    except OSError as error:  # a fault may have left a disk on which nothing can be read
        journal.log("raw_read", step=step, error=str(error))
        return
    cold_s = min(cold, default=None)
    journal.log("raw_read", step=step, bytes=size, cold_s=cold_s, warm_s=warm_s)


def raw_read(files: Sequence[Path], threads: int = THREADS, block: int = BLOCK) -> float:
    """Read files whole into memory that is there already; returns the seconds that it took."""
    local = threading.local()
    with ExitStack() as stack:
        parts: list[tuple[int, int, int]] = []
        for path in files:
            file = stack.enter_context(path.open("rb", buffering=0))
            size = os.fstat(file.fileno()).st_size
            parts += [(file.fileno(), at, min(block, size - at)) for at in range(0, size, block)]
        parts.sort(key=lambda part: -part[2])  # whole blocks first, so that threads end together

        def prepare() -> None:
            local.buffer = memoryview(bytearray(b"\1") * block)

        def read(part: tuple[int, int, int]) -> None:
            descriptor, at, size = part
            done = 0
            while done < size:
                got = os.preadv(descriptor, [local.buffer[done:size]], at + done)
                if got == 0:
                    raise OSError(f"a file of the checkpoint ended {size - done} bytes early")
                done += got

        pool = stack.enter_context(ThreadPoolExecutor(threads, initializer=prepare))
        ready = threading.Barrier(threads + 1)
        for _ in range(threads):
            pool.submit(ready.wait)
        ready.wait()  # every thread is up, and has its buffer
        started = time.perf_counter()
        for _ in pool.map(read, parts):
            pass
        return time.perf_counter() - started


def _files(directory: Path) -> list[Path]:
    return [path for path in sorted(directory.rglob("*")) if path.is_file()]


def _restored(journals: Path) -> int | None:
    """The step that the job last came back from, if it came from storage."""
    lines = [line for line in read_trial(journals).lines if line["event"] == "restore"]
    if not lines or lines[-1].get("tier") != "storage":
        return None
    step = lines[-1].get("step")
    return step if isinstance(step, int) else None
