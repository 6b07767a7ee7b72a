"""One trial: a healthy job, one injection, one recovery, and a job that is done or is not."""

from __future__ import annotations

import functools
import math
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from recoverybench.campaign import cache
from recoverybench.campaign.approach import BOOT_S, Approach
from recoverybench.campaign.bench import Bench
from recoverybench.campaign.soak import endure
from recoverybench.campaign.storage import make_cold, measure_raw_read
from recoverybench.cells import Cell
from recoverybench.faults._soak import Soak
from recoverybench.faults.base import Fault
from recoverybench.job.clocks import measure_clocks
from recoverybench.job.job import Job
from recoverybench.job.watchdog import Limit
from recoverybench.journal_writer import Journal
from recoverybench.launchers.base import Informed
from recoverybench.plan import catalogue, checkpoints
from recoverybench.plan.triggers import parse_trigger
from recoverybench.protocol import JobSpec
from recoverybench.strategies.base import CannotRecover, Strategy

INIT_TIMEOUT_S = 60.0
"""How long workers wait for one another at a rendezvous or at a checkpoint."""

END_S = 5.0
"""How long a job that cannot come back is watched, so that its workers' ends are recorded."""

MOST_RECOVERIES = 4
"""How often a strategy may try before the job counts as lost: a fault that stays makes every
recovery fail, and would be paid for without end."""

PERSIST_EVERY = 2
"""With a node-local tier, persistent storage takes every second save."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What one trial is to be.

    Attributes:
        trial: id. cell: the combination. rep: repetition in that cell.
        seed: of this trial. victim: the worker that is broken; None: no fault (a reference).
        job_seed: of the parameters and the data. steps: length of the job.
        data: the text, or None. deadline_s: from the injection on.
        block, position: where it stands in the design, see `TrialRecord`.
        profiled: its restores and first steps run under a profiler.
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
    block: int = 0
    position: int = 0
    profiled: bool = False


@dataclass(frozen=True, slots=True)
class Directories:
    """Where a trial writes: directories that exist.

    Attributes:
        journals, logs: of its processes. profiles: of a profiled trial.
    """

    journals: Path
    logs: Path
    profiles: Path | None = None


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
    for name in ("checkpoints", "local"):
        (directory / name).mkdir()
    journal = Journal(place.journals / "supervisor.0.jsonl", None, 0)
    fault, strategy = parts(cell)
    spec = strategy.spec(_spec(plan, bench, keys, directory, place, strategy))
    if plan.victim is not None:
        spec = fault.spec(spec)
    launcher = bench.launcher_of(cell.environment)
    if isinstance(launcher, Informed):
        launcher.measures(cell.key if plan.victim is not None else f"{cell.key}, without a fault")
    job = Job(
        spec,
        launcher,
        directory,
        place.logs,
        journal,
        Limit(cell.watchdog_s if cell.watchdog_factor is None else None, cell.watchdog_factor),
        time.monotonic_ns() + round(BOOT_S * 1e9),
        plan.seed,
    )
    try:
        try:
            problem = _live_through(job, fault, strategy, plan, told)
        finally:
            told("end")
            _end(job, fault, plan)
        if plan.victim is not None:
            told("raw read")
            measure_raw_read(journal, place.journals, directory / "checkpoints")
    finally:
        journal.log("end")
        journal.close()
        shutil.rmtree(directory, ignore_errors=True)
    return problem


def parts(cell: Cell) -> tuple[Fault, Strategy]:
    """The fault and the strategy of a cell."""
    name, _, argument = cell.fault.partition(":")
    fault: Fault = catalogue.load("faults", name).create(argument or None)
    name, _, argument = cell.strategy.partition(":")
    strategy: Strategy = catalogue.load("strategies", name).create(argument or None)
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
    topology = cell.mesh
    broken = plan.victim is not None
    return JobSpec(
        workload=cell.workload,
        data=plan.data,
        seed=plan.job_seed,
        steps=plan.steps,
        interval=cell.interval,
        topology=cell.topology,
        workers=topology.workers,
        devices=topology.devices,
        restore_topology=cell.restore_topology if broken else None,
        platform=bench.platform,
        state_source=cell.state_source,
        persist_every=PERSIST_EVERY,
        rejoin=strategy.rejoin and broken,
        suspend=strategy.suspends and broken,
        donate=not catalogue.literal("state-sources", cell.state_source, "KEEPS_OLD_STATE"),
        preemption_service=True,
        agreement=strategy.rejoin and broken and cell.agreement == "on",
        replica_check=cell.replica_check == "save",
        gate=broken and parse_trigger(cell.trigger).operation is not None,
        coordinator=cell.coordinator if broken else "worker0",
        heartbeat_s=cell.heartbeat_s,
        init_timeout_s=INIT_TIMEOUT_S,
        compile_cache=cell.compile_cache,
        executables=str(keys.executables),
        jax_cache=str(cache.jax_cache()),
        checkpoints=str(directory / "checkpoints"),
        local=str(directory / "local"),
        journals=str(place.journals),
        board=str(directory / "board"),
        checkpoint=checkpoints.resolved(cell.checkpoint),
        profile=None if place.profiles is None else str(place.profiles),
    )


def _live_through(
    job: Job, fault: Fault, strategy: Strategy, plan: Plan, told: Callable[[str], None]
) -> str | None:
    """Begin, break and mend the job; returns what is wrong with the measurement, or None."""
    broken = plan.victim is not None
    if broken:
        fault.prepare(job)
    approach = Approach(
        job=job,
        # Where a job is one process, that is the one to be met, whatever part of it breaks.
        victim=0 if broken and strategy.processes == 1 else plan.victim,
        trigger=parse_trigger(plan.cell.trigger),
        interval=plan.cell.interval,
        seed=plan.seed,
        standbys=strategy.standbys if broken else 0,
        told=told,
    )
    problem = approach.go()
    if problem is None and broken and plan.cell.page_cache == "cold":
        told("drop the page cache")
        problem = make_cold(job, in_flight=parse_trigger(plan.cell.trigger).kind == "save")
    if problem is None and plan.victim is not None:
        told("inject")
        job.begin_deadline(plan.deadline_s)
        strategy.strike(job, fault, plan.victim)
        for do in approach.at_last:
            do()
        if isinstance(fault, Soak):
            again = functools.partial(mend, job, strategy, told, most=math.inf)
            endure(job, fault, strategy, plan.deadline_s, told, again)
        else:
            mend(job, strategy, told, job.finished)
    return problem


def mend(
    job: Job,
    strategy: Strategy,
    told: Callable[[str], None],
    enough: Callable[[], bool],
    *,
    most: float = MOST_RECOVERIES,
) -> bool:
    """Let the strategy bring the job back, as often as it is lost, until that is enough or
    the job is done; returns whether there is a job left.
    """
    tries = 0
    while tries < most:
        told("detect")
        with job.span("wait for evidence"):
            job.pump(lambda: job.noticed() or enough() or job.finished())
        if enough() or job.finished() or not job.noticed():
            return True
        told("recover")
        try:
            with job.span("strategy"):
                strategy.recover(job)
        except CannotRecover as reason:
            job.journal.log("given_up", reason=str(reason))
            break
        tries += 1
        job.pump(lambda: job.noticed() or job.running())
        if job.running() and not job.noticed():
            told("settle")
            strategy.settle(job)
        told("verify")
        job.pump(lambda: job.noticed() or enough() or job.finished())
    else:
        job.journal.log("given_up", reason=f"lost again after {most} recoveries")
    job.pump(lambda: not any(m.alive for m in job.survivors()), END_S)
    return False


def _end(job: Job, fault: Fault, plan: Plan) -> None:
    try:
        if plan.victim is not None:
            fault.undo(job)
        measure_clocks(job)
    finally:
        job.close()
