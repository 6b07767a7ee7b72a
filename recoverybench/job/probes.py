"""Health probes: does a worker's process answer, and its machine where that has a network?"""

from __future__ import annotations

from collections.abc import Iterable

from recoverybench.job.member import Member
from recoverybench.network import Network

PROBE_S = 0.5
"""A healthy worker answers a probe within microseconds, also deep inside a collective; half
a second is what a loaded machine may take to schedule it."""


class Probes:
    """The probes of one job; each asks everybody at once."""

    def __init__(self) -> None:
        self._number = 0
        self._reached: set[tuple[str, int]] = set()

    def ask(self, members: Iterable[Member], network: Network | None) -> None:
        """Send one to each of them."""
        self._number += 1
        for member in members:
            member.tell({"kind": "ping", "id": self._number})
            if network is not None and member.machine is not None:
                network.echo.ask(member.machine.address, self._number)

    def hear(self, network: Network) -> None:
        """Note which machines have answered."""
        self._reached.update(network.echo.answers())

    def answered(self, member: Member) -> bool:
        """The last one was answered, by its process and by its machine."""
        reached = member.machine is None or (member.machine.address, self._number) in self._reached
        return reached and self._number in member.pongs
