"""A worker's pod is evicted through the API: a preemption, as a cluster does it.

``evict`` asks for one pod (policy/v1 Eviction), which a scheduler that preempts, an autoscaler that
scales down and ``kubectl drain`` all do: SIGTERM, the pod's own grace period, SIGKILL. A disruption
budget may forbid it, and the trial is then invalid. ``evict:node`` is a drain of the worker's node:
it takes no more pods, and every pod of the job on it is evicted; replacements go elsewhere, so
another node is needed. It takes pods again when the trial is over. The injection is the moment of
the request. Needs pods. What it breaks are pods, which are replaced by others.
"""

from __future__ import annotations

from typing import ClassVar

from recoverybench.errors import bad_value
from recoverybench.faults import _pods
from recoverybench.job.job import Job
from recoverybench.job.member import Member

NEEDS = ("pods",)


class Evict(_pods.PodFault):
    """See `faults.base.Fault`.

    Args:
        node: all of the job on the victim's node.
    """

    name: ClassVar[str] = "evict"

    def __init__(self, node: bool) -> None:
        self.node = node

    def hit(self, job: Job, victim: Member) -> list[Member]:
        """The worker, or all on its node."""
        if not self.node:
            return [victim]
        there = _pods.pods_of(job).on_node_of(victim.process)
        return [m for m in job.members if m.alive and m.process in there]

    def take(self, launcher: _pods.HasPods, victim: Member) -> None:
        """Ask for it."""
        if self.node:
            launcher.drain_node(victim.process)
        else:
            launcher.evict_pod(victim.process)

    def undo(self, job: Job) -> None:
        """Have the node take pods again."""
        if self.node:
            _pods.pods_of(job).release_nodes()


def create(argument: str | None) -> Evict:
    """``evict`` or ``evict:node``."""
    if argument not in (None, "node"):
        raise bad_value("fault", f"evict:{argument}", "'evict' or 'evict:node'")
    return Evict(argument is not None)
