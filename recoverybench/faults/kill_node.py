"""SIGKILL of a whole node: its raylet and everything below it, every worker there among them.

It stands for the loss of a machine of a cluster: nothing is flushed, nothing says goodbye, and
the cluster's own control plane is not told but has to notice. What else runs on that node under
the same raylet is lost as well, also what is not this run's. The job comes back on another node;
the lost one stays lost until somebody starts it again, so each trial takes a node from the
cluster. Needs a launcher with nodes (``ray``), and one node more than the job has workers.
"""

from __future__ import annotations

import time
from typing import ClassVar, cast

from recoverybench.faults import _arguments
from recoverybench.faults.base import Fault, log_injection
from recoverybench.job.job import Job
from recoverybench.job.member import Member
from recoverybench.launchers.base import Nodes

NEEDS = ("nodes",)


class KillNode(Fault):
    """See `faults.base.Fault`."""

    name: ClassVar[str] = "kill-node"

    def inject(self, job: Job, victim: Member) -> None:
        """Kill the victim's node; whoever else is on it is a victim, too."""
        launcher = cast(Nodes, job.launcher)
        slots = launcher.beside(victim.process)
        for member in job.members:
            if member.alive and member.slot in slots:
                member.why = "inject"
        t = time.monotonic_ns()
        node = launcher.lose_node(victim.process)
        log_injection(job, self.name, victim, t, node=node, slots=slots)


def create(argument: str | None) -> KillNode:
    """``kill-node`` takes no argument."""
    _arguments.none(KillNode.name, argument)
    return KillNode()
