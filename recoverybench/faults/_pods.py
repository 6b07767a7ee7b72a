"""What the faults of pods share: the launcher that has some, and a job of processes."""

from __future__ import annotations

import time
from typing import Protocol, cast

from recoverybench.cells import Cell
from recoverybench.faults.base import Fault, log_injection
from recoverybench.job.job import Job
from recoverybench.job.member import Member
from recoverybench.launchers.base import Process


class HasPods(Protocol):
    """A launcher whose workers are pods; see `launchers._kubernetes.pods.Pods`."""

    def delete_pod(self, process: Process, grace_s: int | None) -> None:
        """Delete its pod, with its own grace period (None) or that many seconds."""

    def evict_pod(self, process: Process) -> None:
        """Have its pod evicted."""

    def drain_node(self, process: Process) -> int:
        """Close its node, and have all pods of the job on it evicted."""

    def on_node_of(self, process: Process) -> list[Process]:
        """The processes on the same node, itself included."""

    def release_nodes(self) -> None:
        """Open every node that was closed."""


class PodFault(Fault):
    """Takes away the pod of one worker, or of all on its node.

    The instant of the injection is that of the request: what the kubelet makes of it, and when,
    is part of what is measured. What notices first may be the worker itself, by its SIGTERM.
    """

    def unsupported(self, cell: Cell) -> str | None:
        """A pod has one worker; slices under one controller share a pod."""
        if cell.strategy == "pathways":
            return f"fault {self.name}: under one controller all slices are in one pod"
        return None

    def take(self, launcher: HasPods, victim: Member) -> None:
        """Ask the cluster for it."""
        raise NotImplementedError

    def hit(self, job: Job, victim: Member) -> list[Member]:
        """The workers that lose their pod by it."""
        return [victim]

    def inject(self, job: Job, victim: Member) -> None:
        """Take it away, and let the worker go on for as long as it lives."""
        for member in self.hit(job, victim):
            member.why = "inject"
        t = time.monotonic_ns()
        self.take(pods_of(job), victim)
        log_injection(job, self.name, victim, t)
        victim.tell({"kind": "release"})


def pods_of(job: Job) -> HasPods:
    """The job's launcher: without pods no cell has such a fault (``NEEDS``)."""
    return cast(HasPods, job.launcher)
