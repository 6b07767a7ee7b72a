"""A worker's pod is deleted: SIGTERM, its grace period, SIGKILL; or gone at once, as a dead host.

``pod-delete`` is what ``kubectl delete pod`` does: the kubelet sends SIGTERM, waits for the pod's
grace period (30 s unless the launcher's file says otherwise), then kills. Training may go on
meanwhile, so the recovery time has most of that in it unless the worker ends by itself: JAX's
preemption notifier takes the signal, and the worker stays. ``pod-delete:GRACE`` sets the period for
this deletion, in whole seconds. ``pod-delete:0s`` is as near as the API comes to a host that dies:
the pod is gone for the cluster at once, and its process is killed as soon as the kubelet hears of
it. The injection is the moment of the request. Needs pods. What it breaks is the pod, which is
replaced by another one.
"""

from __future__ import annotations

from typing import ClassVar

from recoverybench.errors import bad_value
from recoverybench.faults import _pods
from recoverybench.job.member import Member
from recoverybench.plan.units import parse_duration

NEEDS = ("pods",)

LONGEST_S = 3600


class PodDelete(_pods.PodFault):
    """See `faults.base.Fault`.

    Args:
        grace_s: seconds from SIGTERM to SIGKILL; None: the pod's own.
    """

    name: ClassVar[str] = "pod-delete"

    def __init__(self, grace_s: int | None) -> None:
        self.grace_s = grace_s

    def take(self, launcher: _pods.HasPods, victim: Member) -> None:
        """Delete it."""
        launcher.delete_pod(victim.process, self.grace_s)


def create(argument: str | None) -> PodDelete:
    """``pod-delete`` or ``pod-delete:GRACE``."""
    if argument is None:
        return PodDelete(None)
    if argument in ("0", "0s"):
        return PodDelete(0)
    seconds = parse_duration(argument, "fault pod-delete: grace period")
    if seconds != round(seconds) or seconds > LONGEST_S:
        allowed = f"a grace period in whole seconds, 0s to {LONGEST_S}s"
        raise bad_value("fault", f"pod-delete:{argument}", allowed)
    return PodDelete(round(seconds))
