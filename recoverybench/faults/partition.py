"""A worker is cut from all others and from the coordinator: it lives, and no packet passes.

It stands for a dead switch port, a network interface that hangs, a wrong firewall rule. Nothing
is closed, so nobody gets an error: the others wait for data that does not come, as TCP does
without sending anything itself. What notices is the watchdog, or the heartbeat where survivors
do not rejoin. Needs network namespaces and nftables; every worker of the trial lives in a
namespace of its own. ``partition:DURATION`` lets every packet pass again after that time, and
TCP then sends what was lost. All of it is gone with the trial.
"""

from __future__ import annotations

from typing import ClassVar

from recoverybench.faults import _network
from recoverybench.network import rules

NEEDS = ("network-namespaces", "nftables")


class Partition(_network.NetworkFault):
    """See `faults.base.Fault`."""

    name: ClassVar[str] = "partition"

    def rules(self, coordinator: str) -> str:
        """Every packet."""
        return rules.partition()


def create(argument: str | None) -> Partition:
    """``partition`` or ``partition:DURATION``."""
    return Partition(_network.duration(Partition.name, argument))
