"""What the trials of a run say in numbers: medians, rates, their intervals, times cut off at a
deadline. Nothing here imports scipy before a number needs it.
"""

from recoverybench.stats.intervals import Interval, median_interval, quantile, wilson
from recoverybench.stats.summary import CENSORED, CellSummary, Spread, spread, summarise
from recoverybench.stats.survival import Survival, survival

__all__ = [
    "CENSORED",
    "CellSummary",
    "Interval",
    "Spread",
    "Survival",
    "median_interval",
    "quantile",
    "spread",
    "summarise",
    "survival",
    "wilson",
]
