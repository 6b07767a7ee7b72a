"""What a worker sends is lost, and what is sent to it arrives.

It stands for a broken transmitter, a one-sided route, a link that fails in one direction. The
worker hears the others and they do not hear it, not even that their own packets arrived. Needs
network namespaces and nftables; every worker of the trial lives in a namespace of its own.
``one-way:DURATION`` undoes it after that time. All of it is gone with the trial.
"""

from __future__ import annotations

from typing import ClassVar

from recoverybench.faults import _network
from recoverybench.network import rules

NEEDS = ("network-namespaces", "nftables")


class OneWay(_network.NetworkFault):
    """See `faults.base.Fault`."""

    name: ClassVar[str] = "one-way"

    def rules(self, coordinator: str) -> str:
        """Every packet that it sends."""
        return rules.one_way()


def create(argument: str | None) -> OneWay:
    """``one-way`` or ``one-way:DURATION``."""
    return OneWay(_network.duration(OneWay.name, argument))
