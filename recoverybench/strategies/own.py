"""The training command brings itself back: a shell loop, torchrun, torchft, whatever it is.

For workloads of kind ``command`` (``external/NAME`` or a ``.toml`` file), which are run as their
users run them; see docs/external.md. Nothing of ours helps them, so there is nothing to do here.
The state source ``storage`` of such a cell says nothing: where the state comes back from is the
command's own affair.
"""

from __future__ import annotations

from typing import ClassVar

from recoverybench.errors import bad_value
from recoverybench.job.job import Job
from recoverybench.strategies.base import CannotRecover, Strategy


class Own(Strategy):
    """See `strategies.base.Strategy`."""

    name: ClassVar[str] = "own"

    def recover(self, job: Job) -> None:
        """A job of ours does not bring itself back."""
        raise CannotRecover("own is for commands, which bring themselves back")


def create(argument: str | None) -> Own:
    """``own`` takes no argument."""
    if argument is not None:
        raise bad_value("strategy", f"own:{argument}", "'own' without an argument")
    return Own()
