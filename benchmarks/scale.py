"""What the supervisor costs by the number of workers.

    python benchmarks/scale.py [--over tcp] [WORKERS...]

One recovery of a job of so many workers whose steps do nothing (8, 16, 32, 64 by default): one is
killed, and `elastic` brings the job back. Of the supervisor's own time, CPU seconds of its thread,
it says how much a worker costs and how much an event: a message, a connection or an end of a
process. ``--over tcp``: workers speak to it as from another machine, and say their steps by
messages.
"""

from __future__ import annotations

import argparse
import secrets
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from recoverybench.campaign.bench import worker_environment
from recoverybench.faults.kill import Kill
from recoverybench.job.job import Job
from recoverybench.job.watchdog import Limit
from recoverybench.journal_writer import Journal
from recoverybench.launchers.base import Reach
from recoverybench.launchers.local import Local
from recoverybench.protocol import JobSpec
from recoverybench.strategies.elastic import Elastic
from recoverybench.wire.handshake import SECRET_BYTES, SECRET_VARIABLE

WORKERS = (8, 16, 32, 64)
MOST = 10_000
STEPS = 100
LONGEST_S = 240


@dataclass(frozen=True, slots=True)
class Cost:
    """Of one job.

    Attributes:
        workers: of it. events: that the supervisor's loop handled, from the injection until every
            worker trains again. cpu_s: of the supervisor's thread meanwhile. wall_s: meanwhile.
        whole_events, whole_cpu_s: the same of the whole job.
        journal_bytes: that the supervisor wrote.
    """

    workers: int
    events: int
    cpu_s: float
    wall_s: float
    whole_events: int
    whole_cpu_s: float
    journal_bytes: int


class Idle(Local):
    """Starts workers that do nothing."""

    module = Path(__file__).with_name("noop_worker.py")

    def __init__(self, reach: Reach, log: Path) -> None:
        secret = secrets.token_hex(SECRET_BYTES)
        super().__init__({**worker_environment("cpu"), SECRET_VARIABLE: secret}, log)
        self.reach = reach

    def command(self) -> list[str]:
        """What runs a worker, before its own arguments."""
        return [self.python, str(self.module)]


def measured(workers: int, reach: Reach = "host") -> Cost:
    """One job of so many workers.

    Args:
        reach: ``network``: over TCP.

    Raises:
        RuntimeError: it did not come back.
    """
    with tempfile.TemporaryDirectory() as place:
        return _measured(workers, Path(place), reach)


def _measured(workers: int, place: Path, reach: Reach) -> Cost:
    for name in ("logs", "journals", "checkpoints", "local"):
        (place / name).mkdir()
    launcher = Idle(reach, place / "launcher.log")
    written = place / "journals" / "supervisor.0.jsonl"
    journal = Journal(written, None, 0)
    began = time.thread_time()
    job = Job(
        spec_of(workers, place),
        launcher,
        place,
        place / "logs",
        journal,
        Limit(60.0, None),
        time.monotonic_ns() + LONGEST_S * 10**9,
    )
    counted = Counted(job)
    try:
        address = job.begin()
        for rank in range(workers):
            job.place(job.spawn(rank, "cold", rank), rank, address)
        _expect(job.pump(job.running), "the job did not begin")
        events, cpu, wall = counted.events, time.thread_time(), time.monotonic()
        Kill().inject(job, job.ranks()[workers // 2])
        _expect(job.pump(job.noticed), "nobody noticed")
        Elastic().recover(job)
        _expect(job.pump(job.running) and job.generation == 1, "the job did not come back")
        events, cpu = counted.events - events, time.thread_time() - cpu
        wall = time.monotonic() - wall
        _expect(job.pump(job.finished), "the job did not end")
    finally:
        job.close()
        launcher.close()
        journal.close()
    return Cost(
        workers,
        events,
        cpu,
        wall,
        counted.events,
        time.thread_time() - began,
        written.stat().st_size,
    )


class Counted:
    """Counts what a job's loop handles."""

    def __init__(self, job: Job) -> None:
        self.events = 0
        selector = job._loop._selector
        select = selector.select

        def counting(timeout: float | None = None) -> list[tuple[object, int]]:
            found = select(timeout)
            self.events += len(found)
            return found

        selector.select = counting  # type: ignore[method-assign, assignment]


def _expect(holds: bool, what: str) -> None:
    if not holds:
        raise RuntimeError(what)


def spec_of(workers: int, place: Path) -> JobSpec:
    """A job whose workers look at next to nothing of it."""
    return JobSpec(
        workload="mlp:tiny",
        data=None,
        seed=0,
        steps=STEPS,
        interval=10,
        topology=f"{workers}x1",
        workers=workers,
        devices=1,
        restore_topology=None,
        platform="cpu",
        state_source="storage",
        persist_every=1,
        rejoin=True,
        suspend=False,
        donate=True,
        preemption_service=False,
        agreement=False,
        replica_check=False,
        gate=False,
        coordinator="worker0",
        heartbeat_s=10.0,
        init_timeout_s=60.0,
        compile_cache="off",
        executables=str(place),
        jax_cache=str(place),
        checkpoints=str(place / "checkpoints"),
        local=str(place / "local"),
        journals=str(place / "journals"),
        board=str(place / "board"),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("workers", nargs="*", type=int, default=WORKERS)
    parser.add_argument("--over", choices=("unix", "tcp"), default="unix")
    asked = parser.parse_args()
    if any(not 2 <= workers <= MOST for workers in asked.workers):
        parser.error(f"WORKERS: expected 2 to {MOST}: one is killed, and one is left")
    print("workers  events   CPU ms   per worker per event  wall s  whole: events, CPU ms, journal")
    for workers in asked.workers:
        cost = measured(workers, "network" if asked.over == "tcp" else "host")
        print(
            f"{cost.workers:7d} {cost.events:7d} {1e3 * cost.cpu_s:8.1f} "
            f"{1e3 * cost.cpu_s / cost.workers:8.3f} ms {1e6 * cost.cpu_s / cost.events:7.0f} us "
            f"{cost.wall_s:8.2f}  {cost.whole_events:6d} {1e3 * cost.whole_cpu_s:8.1f} "
            f"{cost.journal_bytes / 1e3:8.1f} kB"
        )


if __name__ == "__main__":
    main()
