"""Which cells get a trial under a profiler, where a suite asks for it."""

from __future__ import annotations

from collections.abc import Callable

from recoverybench.campaign.trial import parts
from recoverybench.cells import Cell
from recoverybench.faults._soak import Soak
from recoverybench.labels import cell_label, varying_factors
from recoverybench.plan.suite import Suite
from recoverybench.workload_name import is_command


def profilable(suite: Suite, told: Callable[[str], None]) -> list[Cell]:
    """The cells of which a trial under a profiler is run; `told` hears why others get none."""
    if not suite.profile:
        return []
    vary, found = varying_factors(suite.cells), []
    for cell in suite.cells:
        if (reason := why_no_profile(cell)) is None:
            found.append(cell)
        else:
            told(f"no profile of {cell_label(cell, vary)}: {reason}")
    return found


def why_no_profile(cell: Cell) -> str | None:
    """Why no trial of a cell can run under a profiler, in one line; None: it can."""
    if is_command(cell.workload):
        return "a command's processes are its own, and so is what profiles them"
    if isinstance(parts(cell)[0], Soak):
        return "a soak recovers again and again; profile its fault in a trial with one injection"
    return None
