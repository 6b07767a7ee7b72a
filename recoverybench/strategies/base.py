"""What a strategy does: bring a job back that has lost something."""

from __future__ import annotations

from typing import ClassVar, Protocol

from recoverybench.job.job import Job


class CannotRecover(Exception):
    """This strategy has no way back from here; the message says why."""


class Strategy(Protocol):
    """Brings the job back, once there is evidence of a failure.

    Attributes:
        rejoin: survivors keep their process and wait for a new place after a failure.
        standbys: processes that are started with the job and have no rank.
    """

    rejoin: ClassVar[bool]
    standbys: ClassVar[int]

    def recover(self, job: Job) -> None:
        """Act. It logs ``act`` when it begins to change something, starts the next generation
        and gives every rank a place in it; it does not wait for the job to run.

        Raises:
            CannotRecover: there is no way.
        """


def act(job: Job, name: str) -> str:
    """Begin the next generation and log ``act``; returns its coordinator's address."""
    address = job.begin_generation()
    job.journal.log("act", strategy=name, generation=job.generation)
    return address
