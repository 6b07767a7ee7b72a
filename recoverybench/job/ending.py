"""How the processes of a job are ended, and waited for."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterable

from recoverybench.errors import HarnessError
from recoverybench.job.loop import Loop
from recoverybench.job.member import Member
from recoverybench.launchers.base import Announced, Launcher

EXIT_S = 5.0
"""How long ended processes may take to be gone."""

DISMISS_S = 2.0
"""How long a worker may take to end by itself at the end of a job, before it is killed."""


class Ending:
    """See the module.

    Args:
        launcher: of the job, which may need longer than `EXIT_S` to see an end. loop: of it.
    """

    def __init__(self, launcher: Launcher, loop: Loop) -> None:
        self._launcher = launcher
        self._loop = loop
        self._exit_s = launcher.exit_s if isinstance(launcher, Announced) else EXIT_S

    def end(self, members: Iterable[Member], why: str) -> list[Member]:
        """SIGKILL; returns those that were alive."""
        hit = [m for m in members if m.alive]
        for member in hit:
            member.why = member.why or why
            self._launcher.signal(member.process, signal.SIGKILL)
        return hit

    def await_ended(self, members: Iterable[Member]) -> None:
        """Wait until these are gone.

        Raises:
            HarnessError: one is still there after that time: it cannot be killed.
        """
        waited = list(members)
        end = time.monotonic() + self._exit_s
        while any(m.alive for m in waited):
            left = end - time.monotonic()
            if left <= 0:
                stuck = [m for m in waited if m.alive]
                raise HarnessError(
                    f"{stuck[0].name} (pid {stuck[0].process.pid}) does not end after SIGKILL"
                )
            self._loop.turn(left)

    def dismiss(self, members: Iterable[Member]) -> None:
        """Have these end by themselves at the end of the job, and kill those that do not.

        Some may still be there then: the others are to be ended all the same.
        """
        leaving = list(members)
        for member in leaving:
            member.why = "end"
            member.tell({"kind": "exit"})
        quick = [m for m in leaving if m.connection is not None and m.failed is None]
        self._loop.turn_while(lambda: any(m.alive for m in quick), DISMISS_S)
        killed = self.end(leaving, "end")
        self._loop.turn_while(lambda: any(m.alive for m in killed), self._exit_s)
