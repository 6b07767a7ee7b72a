"""Two runs, or two releases, compared: what got slower, what no longer recovers."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from recoverybench.compare.model import Comparison

__all__ = ["compare"]


def compare(
    base: str | Path,
    new: str | Path,
    *,
    alpha: float = 0.05,
    margin: float = 0.10,
    results: str | Path = "results",
) -> Comparison:
    """Compare two sides, cell by cell and phase by phase.

    Args:
        base, new: a run's directory or id, a directory of runs, or the label of runs;
            ``NAME@ENVIRONMENT`` takes one environment of its runs.
        alpha: probability of any false alarm where nothing has changed, over the whole table.
        margin: medians whose ratio is within 1/(1 + margin) to 1 + margin count as the same.
        results: where ids and labels are looked up.

    Raises:
        UsageError: a side is not there or cannot be read, or both are the same trials.
    """
    from recoverybench.compare.build import compare as build
    from recoverybench.compare.sides import read_side
    from recoverybench.errors import bad_value

    folder = Path(results)
    sides = read_side(str(base), "BASE", folder), read_side(str(new), "NEW", folder)
    if sides[0].same_trials(sides[1]):
        raise bad_value("NEW", str(new), "other trials than those of BASE")
    return build(*sides, alpha=alpha, margin=margin)
