"""A worker ends by itself, with an exit code that is not 0.

It stands for a program that gives up, and for native code that does.

``exit:CODE`` ends it at once (code 1 if nothing is said), as ``os._exit`` and native libraries
do: nothing is flushed, no handler runs, the operating system closes the sockets.
``exit:clean`` and ``exit:clean-CODE`` end it as ``sys.exit`` does, which is how a framework
gives up: JAX's own handler runs, and waits at the shutdown barrier for workers that wait for
this one. Needs nothing. What it breaks is the process, which is replaced.
"""

from __future__ import annotations

from typing import ClassVar

from recoverybench.faults import _arguments
from recoverybench.faults._inside import InsideFault
from recoverybench.faults.base import order
from recoverybench.job.job import Job
from recoverybench.job.member import Member

NEEDS = ()


class Exit(InsideFault):
    """See `faults.base.Fault`.

    Args:
        how: ``CODE`` or ``clean-CODE``.
    """

    name: ClassVar[str] = "exit"

    def __init__(self, how: str) -> None:
        self._how = how

    def inject(self, job: Job, victim: Member) -> None:
        """Have it end."""
        order(job, victim, self.name, self._how)


def create(argument: str | None) -> Exit:
    """``exit``, ``exit:CODE``, ``exit:clean`` or ``exit:clean-CODE``."""
    text = argument or "1"
    if text == "clean":
        return Exit("clean-1")
    code = _arguments.whole(Exit.name, text.removeprefix("clean-"), 1, 255, "an exit code")
    return Exit(f"clean-{code}" if text.startswith("clean-") else str(code))
