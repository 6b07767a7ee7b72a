"""Where each generation's coordination service is: in worker 0, or in a process of its own.

A coordination service refuses a second incarnation of a worker, so each generation has its
own, at a new address. In worker 0 it dies with worker 0, and takes the other workers along.
"""

from __future__ import annotations

from collections.abc import Callable

from recoverybench.errors import HarnessError
from recoverybench.job.member import Member

_SLOTS = 1000
"""Slots from here on are services outside worker 0, one for each generation."""


class Services:
    """The coordination services of one job.

    Args:
        external: they are processes of their own.
        address: makes a new address. spawn: starts a process in a slot, with its imports done.
        await_: runs the job's loop until a condition holds.
    """

    def __init__(
        self,
        external: bool,
        address: Callable[[], str],
        spawn: Callable[[int], Member],
        await_: Callable[[Callable[[], bool]], bool],
    ) -> None:
        self.external = external
        self.members: list[Member] = []
        self._address = address
        self._spawn = spawn
        self._await = await_

    def begin(self, generation: int, world: int) -> str:
        """Have the service of a generation; returns its address.

        Raises:
            HarnessError: an external one did not come up.
        """
        address = self._address()
        if not self.external:
            return address
        member = self._spawn(self.slot(generation))
        self.members.append(member)
        member.tell({"kind": "serve", "address": address, "world": world})
        self._await(lambda: member.serving is not None or not member.alive)
        if member.serving is None:
            raise HarnessError(f"the coordination service did not come up: {member.process.log}")
        return address

    def slot(self, generation: int) -> int:
        """Where the launcher has the external service of that generation."""
        return _SLOTS + generation

    def current(self) -> Member | None:
        """The external service of the current generation; None: gone, or there is none."""
        return self.members[-1] if self.members and self.members[-1].alive else None
