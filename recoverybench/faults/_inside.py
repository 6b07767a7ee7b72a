"""Faults by which a worker breaks itself from the inside, in its training loop."""

from __future__ import annotations

from recoverybench.cells import Cell
from recoverybench.faults.base import Fault
from recoverybench.plan.triggers import SETTING_UP, parse_trigger


class InsideFault(Fault):
    """Base of these faults (see `faults.base.order`): they need a worker that trains."""

    def unsupported(self, cell: Cell) -> str | None:
        """A worker that sets itself up has no training loop yet."""
        if parse_trigger(cell.trigger).kind in SETTING_UP:
            return f"{self.name} breaks the training loop, and at {cell.trigger} there is none yet"
        return None
