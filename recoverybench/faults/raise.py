"""An exception in a worker's training step, which keeps its process.

It stands for a defect in the program or its data. ``raise:NAME`` raises that built-in exception
(`RuntimeError` if nothing is said; ``raise:MemoryError`` is what a full host looks like). The
worker reports it; its peers wait in a collective for a worker that will not come. Needs nothing.
What it breaks is one generation of the training; the process lives.
"""

from __future__ import annotations

import builtins
from typing import ClassVar

from recoverybench.errors import bad_value
from recoverybench.faults._inside import InsideFault
from recoverybench.faults.base import order
from recoverybench.job.job import Job
from recoverybench.job.member import Member

NEEDS = ()


class Raise(InsideFault):
    """See `faults.base.Fault`.

    Args:
        error: name of a built-in exception.
    """

    name: ClassVar[str] = "raise"

    def __init__(self, error: str) -> None:
        self._error = error

    def inject(self, job: Job, victim: Member) -> None:
        """Have it raised."""
        order(job, victim, self.name, self._error)


def create(argument: str | None) -> Raise:
    """``raise`` or ``raise:NAME``."""
    name = argument or "RuntimeError"
    error = getattr(builtins, name, None)
    if isinstance(error, type) and issubclass(error, Exception):
        try:
            error("a text")
        except TypeError:  # UnicodeDecodeError wants more than a text
            pass
        else:
            return Raise(name)
    raise bad_value("fault", f"raise:{name}", "a built-in exception that takes a text")
