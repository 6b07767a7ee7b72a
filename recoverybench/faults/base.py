"""What a fault is: it breaks one thing at one moment, says when, and undoes what it can."""

from __future__ import annotations

import dataclasses
import signal
import time
from typing import ClassVar

from recoverybench.cells import Cell
from recoverybench.job.job import Job
from recoverybench.job.member import Member
from recoverybench.protocol import JobSpec


class Fault:
    """Base of every fault; a fault overrides what it needs and always `inject`.

    A fault's module says in a literal ``NEEDS`` which capabilities of the machine it uses (see
    `capabilities`); a cell whose fault needs one that is missing is refused. ``OUTSIDE = True``:
    it is a signal to a process, and can be given to anybody's command as well.

    Attributes:
        name: as a suite spells it, without an argument.
        harmless: nothing is lost by it, so whatever alarms is a false alarm.
    """

    name: ClassVar[str]
    harmless: ClassVar[bool] = False

    def unsupported(self, cell: Cell) -> str | None:
        """Why this cell cannot be asked for; None: it can. Asked before anything starts."""
        return None

    def spec(self, spec: JobSpec) -> JobSpec:
        """What the job must be prepared with."""
        return spec

    def prepare(self, job: Job) -> None:
        """Before any worker starts."""

    def inject(self, job: Job, victim: Member) -> None:
        """Break it. The instant goes into the journal as ``inject`` (`strike`, `order` and
        `log_injection` do so), unless the job was over before the fault could take effect.
        """
        raise NotImplementedError

    def undo(self, job: Job) -> None:
        """After the trial, whatever became of it; also when `prepare` or `inject` failed."""


def strike(job: Job, victim: Member, name: str, number: signal.Signals, /, **more: object) -> None:
    """Send a signal that takes effect at once, and log it as the injection.

    The clock is read just before the system call: after it, the supervisor may be
    off the processor while the effect is already there.
    """
    strike_all(job, [victim], name, number, **more)


def strike_all(
    job: Job, victims: list[Member], name: str, number: signal.Signals, /, **more: object
) -> None:
    """As `strike`, for several at the same instant; the first one is the trial's victim."""
    for victim in victims:
        if number in _ENDING:
            victim.why = "inject"
    t = time.monotonic_ns()
    for victim in victims:
        job.signal(victim, number)
    log_injection(job, name, victims[0], t, **more)


def order(job: Job, victim: Member, name: str, argument: str | None = None) -> None:
    """Have the worker break itself from the inside (`worker.breakages`), and log the injection.

    A worker that holds does it there, else before its next step.
    """
    t = time.monotonic_ns()
    victim.tell({"kind": "break", "what": name, "argument": argument})
    log_injection(job, name, victim, t)


def log_injection(
    job: Job, name: str, victim: Member, t: int | None = None, **more: object
) -> None:
    """The injection took effect at `t` (CLOCK_MONOTONIC ns; default: now); `more` is kept with it.

    A fault that strikes again in the recovery of the first one is another event: the recovery
    time counts from the first.
    """
    if job.injected is not None:
        job.journal.log("again", t, fault=name, worker=victim.rank)
        return
    job.injected = job.journal.log(
        "inject", t, fault=name, worker=victim.rank, generation=job.generation, **more
    )


def with_changes(spec: JobSpec, **changes: object) -> JobSpec:
    """`dataclasses.replace` for a `Fault.spec`."""
    return dataclasses.replace(spec, **changes)  # type: ignore[arg-type]


_ENDING = (signal.SIGKILL, signal.SIGSEGV, signal.SIGABRT)
"""Signals that end a worker, so that its end is our doing."""
