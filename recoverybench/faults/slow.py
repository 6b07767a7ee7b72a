"""A straggler: each step of one worker takes K times as long, for a while.

It stands for a throttled chip, a noisy neighbour, a slow link or a busy disk. ``slow:K:DURATION``
(``slow:5:2s`` if nothing is said). Collectives make everybody wait for it, so the whole job is
that slow. Nothing is lost, so whatever alarms is a false alarm. Needs nothing. It ends by
itself, or with the worker's process.
"""

from __future__ import annotations

from typing import ClassVar

from recoverybench.errors import bad_value
from recoverybench.faults._inside import InsideFault
from recoverybench.faults.base import order
from recoverybench.job.job import Job
from recoverybench.job.member import Member
from recoverybench.plan.units import parse_duration

NEEDS = ()

DEFAULT_FACTOR, DEFAULT_DURATION = "5", "2s"


class Slow(InsideFault):
    """See `faults.base.Fault`.

    Args:
        factor: how many times slower. seconds: for how long.
    """

    name: ClassVar[str] = "slow"
    harmless: ClassVar[bool] = True

    def __init__(self, factor: float, seconds: float) -> None:
        self._factor = factor
        self._seconds = seconds

    def inject(self, job: Job, victim: Member) -> None:
        """Slow it down."""
        order(job, victim, self.name, f"{self._factor!r}:{self._seconds!r}")


def create(argument: str | None) -> Slow:
    """``slow``, ``slow:K`` or ``slow:K:DURATION``."""
    factor, _, duration = (argument or DEFAULT_FACTOR).partition(":")
    try:
        times = float(factor)
    except ValueError:
        times = 0.0
    if not 1 < times <= 1e6:
        raise bad_value("fault", f"slow:{argument}", "K:DURATION, K more than 1 and at most 10⁶")
    return Slow(times, parse_duration(duration or DEFAULT_DURATION, "fault slow: duration"))
