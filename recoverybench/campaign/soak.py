"""A soak: one job that is struck and mended again and again, until it is done or lost for good."""

from __future__ import annotations

from collections.abc import Callable

from recoverybench.faults._soak import Soak
from recoverybench.job.clocks import measure_clocks
from recoverybench.job.job import Job
from recoverybench.strategies.base import Strategy

Mend = Callable[[Callable[[], bool]], bool]
"""Mends the job until the condition holds; returns whether there is a job left."""


def endure(
    job: Job,
    soak: Soak,
    strategy: Strategy,
    deadline_s: float,
    told: Callable[[str], None],
    mend: Mend,
) -> None:
    """Live through a soak that has begun.

    Args:
        deadline_s: from each injection on; while the job trains, from its last step on.
        told: receives words for the progress display.
        mend: see `Mend`.
    """
    soak.on_injection = lambda: job.begin_deadline(deadline_s)
    steps = job.progress()

    def broken_or_done() -> bool:
        nonlocal steps
        if job.progress() != steps:
            steps = job.progress()
            job.begin_deadline(deadline_s)
        return soak.injected(job) or job.noticed() or job.finished()

    try:
        while True:
            told("train")
            if not job.pump(broken_or_done) or job.finished():
                return
            if not mend(lambda: soak.mended(job)) or job.finished() or job.overdue:
                return
            strategy.replenish(job)
            measure_clocks(job)
    finally:
        soak.over = True
