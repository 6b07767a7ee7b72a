"""One trial: a healthy job, one injection, one recovery, and a job that is done or is not."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from recoverybench.campaign import cache
from recoverybench.campaign.bench import Bench
from recoverybench.cells import Cell
from recoverybench.faults.base import Fault
from recoverybench.job.job import Job
from recoverybench.job.member import Member
from recoverybench.journal_writer import Journal
from recoverybench.plan import catalogue
from recoverybench.plan.triggers import parse_trigger
from recoverybench.protocol import JobSpec
from recoverybench.strategies.base import CannotRecover, Strategy

BOOT_S = 180.0
"""How long a healthy job may take to reach its trigger, compiling included."""

INIT_TIMEOUT_S = 60.0
"""How long workers wait for one another at a rendezvous or at a checkpoint."""

END_S = 5.0
"""How long a job that cannot come back is watched, so that its workers' ends are recorded."""


EXPLANATION_S = 0.5
"""How long the end of a process is waited for that would explain what the others report."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What one trial is to be.

    Attributes:
        trial: id. cell: the combination. rep: repetition in that cell.
        seed: of this trial. victim: the worker that is broken; None: no fault (a reference).
        job_seed: of the parameters and the data. steps: length of the job.
        data: the text, or None. deadline_s: from the injection on.
    """

    trial: str
    cell: Cell
    rep: int
    seed: int
    victim: int | None
    job_seed: int
    steps: int
    data: str | None
    deadline_s: float


@dataclass(frozen=True, slots=True)
class Directories:
    """Where a trial writes: directories that exist."""

    journals: Path
    logs: Path


def run_job(
    plan: Plan, bench: Bench, keys: cache.Keys, place: Directories, told: Callable[[str], None]
) -> str | None:
    """Run the job of a trial to its end; what happened is in the journals.

    Returns:
        What the harness itself knows to be wrong with the measurement, or None.
    """
    cell = plan.cell
    directory = bench.directory / plan.trial
    directory.mkdir()
    (directory / "checkpoints").mkdir()
    journal = Journal(place.journals / "supervisor.0.jsonl", None, 0)
    fault, strategy = _parts(cell)
    job = Job(
        _spec(plan, bench, keys, directory, place, strategy),
        bench.launcher,
        directory,
        place.logs,
        journal,
        cell.watchdog_s,
        time.monotonic_ns() + round(BOOT_S * 1e9),
    )
    try:
        try:
            problem = _boot(job, strategy if plan.victim is not None else None, plan, told)
            if problem is None and plan.victim is not None:
                _break_and_mend(job, fault, strategy, plan, told)
            if job.stood_still_s:
                problem = f"the harness stood still for {job.stood_still_s:.1f} s"
        finally:
            told("end")
            job.close()
    finally:
        journal.log("end")
        journal.close()
        shutil.rmtree(directory, ignore_errors=True)
    return problem


def _parts(cell: Cell) -> tuple[Fault, Strategy]:
    name, _, argument = cell.fault.partition(":")
    fault: Fault = catalogue.load("faults", name).create(argument or None)
    strategy: Strategy = catalogue.load("strategies", cell.strategy).create(None)
    return fault, strategy


def _spec(
    plan: Plan,
    bench: Bench,
    keys: cache.Keys,
    directory: Path,
    place: Directories,
    strategy: Strategy,
) -> JobSpec:
    cell = plan.cell
    workers, devices = (int(n) for n in cell.topology.split("x"))
    return JobSpec(
        workload=cell.workload,
        data=plan.data,
        seed=plan.job_seed,
        steps=plan.steps,
        interval=cell.interval,
        workers=workers,
        devices=devices,
        platform=bench.platform,
        state_source=cell.state_source,
        hold_worker=plan.victim,
        hold_step=parse_trigger(cell.trigger).step if plan.victim is not None else None,
        rejoin=strategy.rejoin and plan.victim is not None,
        heartbeat_s=cell.heartbeat_s,
        init_timeout_s=INIT_TIMEOUT_S,
        compile_cache=cell.compile_cache,
        executables=str(keys.executables),
        jax_cache=str(cache.jax_cache()),
        checkpoints=str(directory / "checkpoints"),
        journals=str(place.journals),
        board=str(directory / "board"),
    )


def _boot(
    job: Job, strategy: Strategy | None, plan: Plan, told: Callable[[str], None]
) -> str | None:
    """Bring the job to its trigger, or to its end where no fault is planned."""
    told("start")
    workers = job.spec.workers
    coordinator = job.coordinator()
    for rank in range(workers):
        job.place(job.spawn(rank, "warm", rank), rank, coordinator)
    standbys = range(strategy.standbys if strategy is not None else 0)
    spare = [job.spawn(workers + index, "warm", None) for index in standbys]
    told("train")

    def there() -> bool:
        if job.lost() or any(not m.alive for m in spare):
            return True
        if plan.victim is None:
            return job.finished()
        return _victim(job, plan).held is not None and all(m.ready for m in spare)

    if not job.pump(there):
        return f"the healthy job did not get to its trigger within {BOOT_S:.0f} s"
    if job.lost() or any(not m.alive for m in spare):
        # An error in the others may be here before the exit that explains it.
        job.pump(lambda: bool(job.dead()), EXPLANATION_S)
        return f"the healthy job failed: {_cause(job.evidence)}"
    return None


def _cause(evidence: list[tuple[str, str]]) -> str:
    """What explains the most: the end of a process, else the first thing that was noticed."""
    ends = [detail for mechanism, detail in evidence if mechanism == "process_exit"]
    return (ends or [detail for _, detail in evidence] or ["a standby ended"])[0]


def _break_and_mend(
    job: Job, fault: Fault, strategy: Strategy, plan: Plan, told: Callable[[str], None]
) -> None:
    told("inject")
    job.begin_deadline(plan.deadline_s)
    fault.inject(job, _victim(job, plan))
    told("detect")
    with job.span("wait for evidence"):
        job.pump(lambda: bool(job.evidence) or job.finished())
    if job.finished() or not job.evidence:
        return
    told("recover")
    try:
        with job.span("strategy"):
            strategy.recover(job)
    except CannotRecover as reason:
        job.journal.log("given_up", reason=str(reason))
        job.pump(lambda: not any(m.alive for m in job.survivors()), END_S)
        return
    job.pump(lambda: job.lost() or job.running())
    told("verify")
    job.pump(lambda: job.lost() or job.finished())


def _victim(job: Job, plan: Plan) -> Member:
    return next(m for m in job.ranks() if m.rank == plan.victim)
