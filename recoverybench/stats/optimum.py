"""The checkpoint interval that costs least, by the formulas of Young and of Daly. Pure.

All times are seconds. ``save_s`` is what one save holds the training up, ``between_s`` the mean
time between failures of the job, and an interval is the training between two saves, without them.
"""

from __future__ import annotations

import math


def overhead(interval_s: float, save_s: float, failure_s: float, between_s: float) -> float:
    """Time lost for each second of training, to first order in ``1 / between_s``.

    ``save / interval + (interval / 2 + failure) / between``: every interval pays one save, and
    every failure pays `failure_s` and, as it strikes at any moment alike, half an interval of lost
    training on average. Young, "A first order approximation to the optimum checkpoint interval",
    CACM 17(9), 1974. It holds where all three times are short against `between_s`: failures in a
    recovery, or in work that is done again, are not in it.

    Args:
        failure_s: what a failure costs whatever the interval is.
    """
    return save_s / interval_s + (interval_s / 2 + failure_s) / between_s


def young(save_s: float, between_s: float) -> float:
    """The interval that minimises `overhead`: ``sqrt(2 * save * between)`` (Young, 1974)."""
    return math.sqrt(2 * save_s * between_s)


def daly(save_s: float, between_s: float) -> float:
    """The higher-order estimate of Daly, for failures that are exponentially distributed.

    ``sqrt(2 * save * between) * (1 + sqrt(x) / 3 + x / 9) - save`` with
    ``x = save / (2 * between) < 1``, else ``between``. Daly, "A higher order estimate of the
    optimum checkpoint interval for restart dumps", Future Generation Computer Systems 22(3), 2006.
    What a restart costs is in his model, and falls out of its minimum.
    """
    x = save_s / (2 * between_s)
    if x >= 1:
        return between_s
    return young(save_s, between_s) * (1 + math.sqrt(x) / 3 + x / 9) - save_s
