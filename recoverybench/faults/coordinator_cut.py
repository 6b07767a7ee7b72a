"""A worker does not reach the coordination service any more; its links to the others are sound.

It stands for a control network that fails while the data network works. Training itself goes
on. The packets are dropped, nothing is closed: JAX bears that for less than the heartbeat
timeout, after which the worker's own client ends its process. A save that needs the service
waits meanwhile. Needs network namespaces and nftables; every worker of the trial lives in a
namespace of its own. ``coordinator-cut:DURATION`` undoes it after that time. A recovery has a
new service at a new address, which is not cut. All of it is gone with the trial.
"""

from __future__ import annotations

from typing import ClassVar

from recoverybench.cells import Cell
from recoverybench.faults import _network
from recoverybench.network import rules

NEEDS = ("network-namespaces", "nftables")


class CoordinatorCut(_network.NetworkFault):
    """See `faults.base.Fault`."""

    name: ClassVar[str] = "coordinator-cut"

    def unsupported(self, cell: Cell) -> str | None:
        """Whoever runs the service cannot be cut from it."""
        if cell.victim == 0 and cell.coordinator == "worker0":
            return f"fault {self.name}: worker 0 runs the coordination service itself"
        return super().unsupported(cell)

    def rules(self, coordinator: str) -> str:
        """Every packet from or to the service."""
        return rules.coordinator_cut(coordinator)


def create(argument: str | None) -> CoordinatorCut:
    """``coordinator-cut`` or ``coordinator-cut:DURATION``."""
    return CoordinatorCut(_network.duration(CoordinatorCut.name, argument))
