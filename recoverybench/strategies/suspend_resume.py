"""A preemption notice saves within the grace period, and the job resumes at that very step.

JAX's preemption notifier turns SIGTERM into an agreement of all workers on one step
(`multihost_utils.reached_preemption_sync_point`): there each of them saves and stops. Then the
job is started anew, as by warm-restart. The recovery time counts from the moment training
stopped, so the save is part of it. Without a notice, or where the grace period is too short for
the save, it is a warm restart from the last checkpoint.
"""

from __future__ import annotations

from typing import ClassVar

from recoverybench.errors import bad_value
from recoverybench.strategies.warm_restart import WarmRestart


class SuspendResume(WarmRestart):
    """See `strategies.base.Strategy`."""

    name: ClassVar[str] = "suspend-resume"
    suspends: ClassVar[bool] = True


def create(argument: str | None) -> SuspendResume:
    """``suspend-resume`` takes no argument."""
    if argument is not None:
        raise bad_value("strategy", f"suspend-resume:{argument}", "no argument")
    return SuspendResume()
