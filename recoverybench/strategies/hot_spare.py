"""As elastic; a standby that is already started, imports done, takes the broken rank."""

from __future__ import annotations

from typing import ClassVar

from recoverybench.errors import bad_value
from recoverybench.job.job import Job
from recoverybench.job.member import Member
from recoverybench.strategies.elastic import Elastic


class HotSpare(Elastic):
    """See `strategies.base.Strategy`."""

    standbys: ClassVar[int] = 1
    name: ClassVar[str] = "hot-spare"

    def replacement(self, job: Job, rank: int) -> Member:
        """The standby, or a new process when there is none left."""
        standbys = [m for m in job.standbys() if m.ready]
        return standbys[0] if standbys else super().replacement(job, rank)

    def replenish(self, job: Job) -> None:
        """Start a standby in the place of the one that was used up; nobody waits for it."""
        if not job.standbys():
            job.spawn_standby("warm")


def create(argument: str | None) -> HotSpare:
    """``hot-spare`` takes no argument."""
    if argument is not None:
        raise bad_value("strategy", f"hot-spare:{argument}", "no argument")
    return HotSpare()
