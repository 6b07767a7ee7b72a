"""A process that profiles as workers do: ``python -m tests.profiled_worker DIRECTORY``.

It writes ``profile/0002`` and ``journal/0002`` there, and prints as JSON what a workload saw that
made traces of its own.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import jax
import jax._src.profiler as internal
import jax.numpy as jnp

from recoverybench.journal_writer import Journal
from recoverybench.protocol import Place
from recoverybench.worker.profiling import Profiler

TRIAL = "0002"
POINTS = (
    "begins",  # the profiler does not start
    "ends",  # it does not write its file, as when hosts share a directory
    "writes nothing",  # it ends, and there is no file
    "is killed",  # the process ends in the middle
)
"""What goes wrong in the trace of worker 3, 4, 5 and 6."""


def place(rank: int, attempt: int = 0, generation: int = 1) -> Place:
    return Place(generation, rank, attempt, "127.0.0.1:1", 3, rank, "3x1")


def journal_of(root: Path, rank: int) -> Journal:
    journal = Journal(root / "journal" / TRIAL / f"{rank}.0.jsonl", rank, 0)
    journal.become(rank, 0, 1)
    return journal


def step() -> float:
    """Something with a compiled function in it."""
    return float(jax.jit(lambda x: jnp.tanh(x @ x).sum())(jnp.ones((64, 64))))


def recover(profiler: Profiler, journal: Journal, where: Place) -> None:
    """What a generation does between its rendezvous and its second step."""
    profiler.begin(where)
    with journal.span("read the checkpoint"):
        jnp.ones(8).block_until_ready()
    profiler.turn("compile")
    profiler.turn("first_step")
    profiler.named("input", lambda: 3)()
    step()
    profiler.turn(None)
    profiler.end()


def main(root: Path) -> None:
    """Profile as worker 0, as worker 1 with a workload that does so too, and in vain."""
    (root / "journal" / TRIAL).mkdir(parents=True)
    start, stop = internal.start_trace, internal.stop_trace
    with real(start, stop):
        journal = journal_of(root, 0)
        profiler = Profiler(root / "profile" / TRIAL, journal)
        healthy = place(0, generation=0)
        profiler.begin(healthy)  # the first generation restores nothing
        assert not profiler.active
        recover(profiler, journal, place(0))
        journal.become(0, 0, 2)
        recover(profiler, journal, place(0, generation=2))  # in the same second
    with real(start, stop):
        told = beside_a_workload(root)
    for rank, point in enumerate(POINTS, start=3):
        with real(start, stop):
            fail(root, rank, point)
    print(json.dumps(told))


@contextmanager
def real(start: Any, stop: Any) -> Iterator[None]:
    """What JAX has, restored at the end: a process has one worker otherwise."""
    try:
        yield
    finally:
        for module in (internal, jax.profiler):
            module.start_trace, module.stop_trace = start, stop  # type: ignore[attr-defined]


def beside_a_workload(root: Path) -> dict[str, Any]:
    """As worker 1, whose workload traces its own steps."""
    journal = journal_of(root, 1)
    profiler = Profiler(root / "profile" / TRIAL, journal)
    from jax.profiler import start_trace, stop_trace

    profiler.begin(place(1))
    profiler.turn("first_step")
    start_trace(str(root / "own-1"))
    with jax.profiler.trace(str(root / "own-2")):
        step()
    profiler.end()
    stop_trace()  # of the one that it was not given
    start_trace(str(root / "own-3"))
    step()
    journal.become(1, 0, 2)
    profiler.begin(place(1, generation=2))  # while the workload's goes on
    active = profiler.active
    stop_trace()
    return {
        "own": [len(list((root / f"own-{i}").rglob("*.xplane.pb"))) for i in (1, 2, 3)],
        "active": active,
    }


def fail(root: Path, rank: int, point: str) -> None:
    journal = journal_of(root, rank)
    boom = mock.Mock(side_effect=ValueError("Invalid trace folder: x\nand more"))
    with mock.patch.object(internal, "start_trace", boom if point == "begins" else mock.Mock()):
        stop = boom if point == "ends" else mock.Mock()
        with mock.patch.object(internal, "stop_trace", stop):
            profiler = Profiler(root / "profile" / TRIAL, journal)
            if point == "is killed":
                profiler.begin(place(rank))
            else:
                recover(profiler, journal, place(rank))
            assert profiler.active == (point == "is killed")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
