"""A worker's connection to the coordination service is reset, and so is every new one.

It stands for a proxy or a firewall that forgets its connections. One failed call is fatal: JAX
ends the worker with UNAVAILABLE at its next one, a save's or a heartbeat, of which there are
two in each heartbeat timeout; the worker itself is sound. Needs network namespaces and nftables;
every worker of the trial lives in a namespace of its own. ``coordinator-reset:DURATION`` undoes
it after that time. All of it is gone with the trial.
"""

from __future__ import annotations

from typing import ClassVar

from recoverybench.cells import Cell
from recoverybench.faults import _network
from recoverybench.network import rules

NEEDS = ("network-namespaces", "nftables")


class CoordinatorReset(_network.NetworkFault):
    """See `faults.base.Fault`."""

    name: ClassVar[str] = "coordinator-reset"

    def unsupported(self, cell: Cell) -> str | None:
        """Whoever runs the service cannot be cut from it."""
        if cell.victim == 0 and cell.coordinator == "worker0":
            return f"fault {self.name}: worker 0 runs the coordination service itself"
        return super().unsupported(cell)

    def rules(self, coordinator: str) -> str:
        """Every packet to the service is answered with a reset."""
        return rules.coordinator_reset(coordinator)


def create(argument: str | None) -> CoordinatorReset:
    """``coordinator-reset`` or ``coordinator-reset:DURATION``."""
    return CoordinatorReset(_network.duration(CoordinatorReset.name, argument))
