"""One trial of a command: a healthy job, one injection, and what it makes of that."""

from __future__ import annotations

import random
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, cast

from recoverybench.cells import Cell
from recoverybench.errors import UsageError, bad_value
from recoverybench.external.job import CommandJob
from recoverybench.external.spec import Command
from recoverybench.external.start import Settings
from recoverybench.job.ports import Ports
from recoverybench.journal_writer import Journal
from recoverybench.plan.triggers import Trigger, parse_trigger

if TYPE_CHECKING:
    from recoverybench.faults.base import Fault
    from recoverybench.job.job import Job
    from recoverybench.job.member import Member

END_S = 2.0
"""How long a command that has done its last step may take to end by itself."""


class Unfit(Exception):
    """The command did not come to the moment of the fault; the message says why."""


def run_command_job(
    command: Command,
    cell: Cell,
    directory: Path,
    journals: Path,
    logs: Path,
    told: Callable[[str], None],
    *,
    fault: Fault | None,
    victim: int,
    seed: int,
    job_seed: int,
    steps: int,
    last: int | None,
    deadline_s: float,
) -> str | None:
    """Run the command of a trial to its end; what happened is in the journal.

    Args:
        command: what is run. cell: the combination.
        directory: private, made here, removed in the end. journals, logs: where it writes.
        told: receives words for the progress display.
        fault: None: none is injected (a reference). victim: the rank that is broken.
        seed: of the trial. job_seed: of parameters and data. steps: length of the job.
        last: the step after which it is done; None: it has to end by itself, or do `steps`.
        deadline_s: from the injection on.

    Returns:
        Why the fault was never injected, or None.

    Raises:
        UsageError: without a fault: the command cannot be used as it is.
    """
    directory.mkdir()
    checkpoints = directory / "checkpoints"
    checkpoints.mkdir()
    journal = Journal(journals / "supervisor.0.jsonl", None, 0)
    ports = Ports()
    mesh = cell.mesh
    settings = Settings(
        world=mesh.workers,
        devices=mesh.devices,
        steps=steps,
        interval=cell.interval,
        seed=job_seed,
        port=ports.take(),
        directory=checkpoints,
        marks=directory / "marks",
    )
    try:
        job = CommandJob(command, settings, logs, journal, seed, last)
        try:
            _live_through(job, cell, told, fault, victim, deadline_s)
        finally:
            told("end")
            job.close()
    except Unfit as reason:
        if fault is None:
            raise UsageError(str(reason)) from None
        return str(reason)
    finally:
        journal.log("end")
        journal.close()
        ports.close()
        shutil.rmtree(directory, ignore_errors=True)
    return None


def _live_through(
    job: CommandJob,
    cell: Cell,
    told: Callable[[str], None],
    fault: Fault | None,
    victim: int,
    deadline_s: float,
) -> None:
    told("start")
    job.start()
    _to_the_first_step(job)
    told("train")
    if fault is None:
        _to_the_end(job)
        return
    _to_the_moment(job, parse_trigger(cell.trigger), cell.interval, victim)
    told("inject")
    job.drain()
    member = next((m for m in job.ranks() if m.rank == victim), None)
    if member is None or not member.alive:
        raise Unfit(f"worker {victim} ended before the fault; {_said(job)}")
    job.begin_deadline(deadline_s)
    fault.inject(cast("Job", job), cast("Member", member))
    told("recover")
    job.pump(job.finished)
    job.pump(job.ended, END_S)


def _to_the_first_step(job: CommandJob) -> None:
    """Wait for a step, and for a process of every rank.

    Raises:
        Unfit: neither comes within the warm-up, or the command ends before.
    """
    limit_s = job.command.warm_up_s
    ranks = set(range(job.world))

    def there() -> bool:
        return job.first is not None and job.found() >= ranks

    job.pump(lambda: there() or job.ended(), limit_s)
    if job.first is None:
        raise Unfit(_no_step(job))
    if not there() and job.ended() and not job.found():
        return  # it was over before anybody looked at its processes
    if not there():
        missing = ", ".join(str(rank) for rank in sorted(ranks - job.found()))
        names = ", ".join(job.command.ranks.environment)
        raise Unfit(
            f"{job.command.name}: ranks: no process says that it is worker {missing} within "
            f"{limit_s:g} s: expected its rank in one of the variables {names}, or "
            f"ranks.arguments; {_said(job)}"
        )
    job.settle()


def _no_step(job: CommandJob) -> str:
    """No step was seen: the command is over, or its lines are others than the pattern's."""
    command = job.command
    said = _said(job)
    if job.failed():
        how = job.how_it_ended()
        return f"{command.name}: workload.start: it ended ({how}) before any step; {said}"
    patterns = command.patterns.expressions.get("step", ())
    when = f"within the warm-up of {command.warm_up_s:g} s"
    if job.ended():
        when = f"before it ended ({job.how_it_ended()})"
    if not patterns:
        return (
            f"{command.name}: patterns.step is missing (beside --command it is --patterns that "
            f"says what is printed), and no mark.step came {when}; {said}"
        )
    shown = " or ".join(repr(p.text) for p in patterns)
    where = f"{command.name}: patterns.step"
    used = f" (of use = {command.patterns.name!r})" if command.patterns.name else ""
    return f"{where} = {shown}{used}: never matched {when}; {said}"


def _said(job: CommandJob) -> str:
    return f"its last lines: {job.last_words()}"


def _to_the_end(job: CommandJob) -> None:
    """Wait for a command without a fault: until it ends, or has done its steps.

    Raises:
        Unfit: it fails, or does no step for the time of a warm-up.
    """
    steps = job.settings.steps

    def done() -> bool:
        enough = any if job.command.back == "any" else all
        return job.ended() or enough(step >= steps for step in job.steps.values())

    while not done():
        at = dict(job.steps)
        job.pump(lambda at=at: done() or job.steps != at, job.command.warm_up_s)  # type: ignore[misc]
        if not done() and job.steps == at:
            raise Unfit(
                f"{job.command.name}: no step after {_at(job)} for {job.command.warm_up_s:g} s, "
                f"without any fault; {_said(job)}"
            )
    job.pump(job.ended, END_S)
    if job.failed():
        raise Unfit(
            f"{job.command.name}: it ended ({job.how_it_ended()}) at {_at(job)}, without any "
            f"fault; {_said(job)}"
        )


def _at(job: CommandJob) -> str:
    return f"step {max(job.steps.values(), default=0)}"


def _to_the_moment(job: CommandJob, trigger: Trigger, interval: int, victim: int) -> None:
    """Wait for the moment of the trigger, which nobody holds the command at.

    Raises:
        Unfit: the command ends, or does no step for the time of a warm-up.
    """
    chance = random.Random(f"{job.seed}/moment").random()
    wanted = _step_of(trigger, interval, chance)
    if wanted is not None:
        while not (job.reached(wanted, victim) or job.ended()):
            at = dict(job.steps)
            job.pump(
                lambda at=at: job.reached(wanted, victim) or job.ended() or job.steps != at,  # type: ignore[misc]
                job.command.warm_up_s,
            )
            if job.steps == at and not job.ended():
                raise Unfit(
                    f"no step after {_at(job)} for {job.command.warm_up_s:g} s; {_said(job)}"
                )
    wait_s = trigger.time_s
    if trigger.kind == "random" and job.first is not None:
        done = max(1, max(job.steps.values()))
        pace_s = (time.monotonic_ns() - job.first) / 1e9 / done
        wait_s = chance * interval % 1.0 * pace_s
    if wait_s is not None and not job.ended():
        job.pump(job.ended, wait_s)
    if job.ended() and victim not in job.found():
        names = ", ".join(job.command.ranks.environment)
        raise Unfit(
            f"no process was found for worker {victim}, so nothing could be broken: expected its "
            f"rank in one of the variables {names or '(none is named)'}, or ranks.arguments; "
            f"{_said(job)}"
        )
    if job.ended():
        raise Unfit(
            f"the command ended ({job.how_it_ended()}) before the fault ({trigger}): {_at(job)} "
            f"was its last; {_said(job)}"
        )


def _step_of(trigger: Trigger, interval: int, chance: float) -> int | None:
    """The step after whose completion the fault strikes; None: none is waited for."""
    if trigger.kind == "step" and trigger.step is not None:
        return trigger.step - 1
    if trigger.kind == "random":
        return 2 * interval + int(chance * interval)
    return None


def check_reached(command: Command, cell: Cell, first: int, last: int) -> None:
    """That a command, as it ran without a fault, comes to the moment of the trigger.

    Args:
        first, last: numbers of the first and the last step that it did.

    Raises:
        UsageError: it does not.
    """
    wanted = _step_of(parse_trigger(cell.trigger), cell.interval, 0.999)
    if wanted is not None and wanted >= last:
        raise bad_value(
            "trigger",
            cell.trigger,
            f"a step that {command.name} comes to: without a fault it did steps {first} to {last} "
            "and ended",
        )
