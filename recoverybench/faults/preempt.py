"""SIGTERM, a grace period, then SIGKILL: a preemption that announces itself.

It stands for a spot machine that is taken back, and for planned maintenance. Needs nothing. What
it breaks is the process, which is replaced.

``preempt:GRACE`` sets the grace period (``preempt:30s``; 250ms if nothing is said, which
is ten steps of the tiny workloads). The notice reaches a job that goes on training, and
the injection is the moment of the SIGKILL. JAX's preemption notifier swallows SIGTERM, so
a strategy that does not listen for the notice loses what was not saved. A job that ends
within the grace period had nothing to recover from.

``preempt:unhandled`` is a preemption that nobody has prepared for: JAX's preemption service is
off, so SIGTERM ends the process at once, and that is the injection.
"""

from __future__ import annotations

import signal
from collections.abc import Iterable
from typing import ClassVar

from recoverybench.cells import Cell
from recoverybench.clocks import Moved
from recoverybench.faults.base import Fault, log_injection, strike, with_changes
from recoverybench.job.job import Job
from recoverybench.job.member import Member
from recoverybench.plan.units import parse_duration
from recoverybench.protocol import JobSpec

NEEDS = ()
OUTSIDE = True

DEFAULT_GRACE = "250ms"


class Preempt(Fault):
    """See `faults.base.Fault`.

    Args:
        grace_s: from SIGTERM to SIGKILL; None: the notice is not handled.
    """

    name: ClassVar[str] = "preempt"

    def __init__(self, grace_s: float | None) -> None:
        self._grace_s = grace_s

    def unsupported(self, cell: Cell) -> str | None:
        """A strategy that lives from the notice cannot do without it."""
        if self._grace_s is None and cell.strategy == "suspend-resume":
            return "suspend-resume needs the preemption service, which preempt:unhandled turns off"
        return None

    def spec(self, spec: JobSpec) -> JobSpec:
        """Turn JAX's preemption service off where the notice is not handled."""
        return spec if self._grace_s is not None else with_changes(spec, preemption_service=False)

    def inject(self, job: Job, victim: Member) -> None:
        """Give notice, let it go on, and kill it when the grace period is over."""
        if self._grace_s is None:
            victim.why = "inject"
            strike(job, victim, self.name, signal.SIGTERM)
            return
        notice = job.journal.log("notice", fault="preempt", worker=victim.rank)
        victim.why = "inject"
        job.signal(victim, signal.SIGTERM)
        victim.tell({"kind": "release"})
        with job.span("grace period"):
            job.pump(lambda: job.suspended() or job.finished() or not victim.alive, self._grace_s)
        if job.suspended():
            # The machine may go now; training ended when the last worker stopped to save.
            stopped = max(m.suspended[1] for m in job.ranks() if m.suspended is not None)
            known = _of_clocks(job.ranks())
            log_injection(job, self.name, victim, stopped, **known)
            step = min(m.suspended[0] for m in job.ranks() if m.suspended is not None)
            job.note_evidence(
                "preemption_notice", None, f"every worker has saved step {step}", stopped, **known
            )
        elif job.finished() or not victim.alive:  # all that was needed was the notice
            log_injection(job, self.name, victim, notice)
        else:
            strike(job, victim, self.name, signal.SIGKILL)


def _of_clocks(members: Iterable[Member]) -> Moved:
    """How far instants of these workers may be wrong: fields of a line; none on one clock."""
    offsets = [member.offset for member in members if member.offset is not None]
    if not offsets:
        return {}
    return {"clock_offset_ns": 0, "clock_bound_ns": max(bound for _, bound in offsets)}


def create(argument: str | None) -> Preempt:
    """``preempt``, ``preempt:GRACE`` or ``preempt:unhandled``."""
    if argument == "unhandled":
        return Preempt(None)
    return Preempt(parse_duration(argument or DEFAULT_GRACE, "fault preempt: grace period"))
