"""How many trials a suite asks for: a number, or as many as an answer of some precision needs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from recoverybench.errors import UsageError, bad_value
from recoverybench.plan.factors import read_integer
from recoverybench.plan.units import parse_duration

AUTO: Final = "auto"
"""As many trials as it takes."""

AUTO_MOST: Final = 50
"""Trials of a cell at which ``auto`` gives up on its precision: the interval of a median of 50
values spans 29 % of the distribution, and another 50 would only bring that to 20 %.
"""

AUTO_PRECISION: Final = 0.10
"""Width of the interval of a median, as a part of the median, that ``auto`` asks for."""

MOST_TRIALS: Final = 10_000
"""Of each cell; more is a slip: at a few seconds a trial it would run for weeks."""


@dataclass(frozen=True, slots=True)
class Amount:
    """How long a campaign goes on.

    Attributes:
        trials: of each cell, the most where there is a precision.
        precision: see `plan.suite.Suite`. budget_s: likewise.
    """

    trials: int
    precision: float | None
    budget_s: float | None


def read_amount(
    trials: tuple[object, str],
    precision: tuple[object, str],
    budget: tuple[object, str],
) -> Amount:
    """Three settings of a suite, each with the place where it stands; None: not said.

    Raises:
        UsageError: one of them cannot be used, or a precision stands beside no ``auto``.
    """
    asked, where = trials
    wanted = None if precision[0] is None else read_precision(*precision)
    budget_s = None if budget[0] is None else parse_duration(*budget)
    if isinstance(asked, str) and asked.strip() == AUTO:
        return Amount(AUTO_MOST, wanted or AUTO_PRECISION, budget_s)
    try:
        number = read_integer(asked, where, 1, MOST_TRIALS)
    except UsageError:
        allowed = f'a whole number from 1 to {MOST_TRIALS}, or "{AUTO}"'
        raise bad_value(where, asked, allowed) from None
    if wanted is not None:
        raise bad_value(precision[1], precision[0], f'trials = "{AUTO}" beside it')
    return Amount(number, None, budget_s)


def read_precision(value: object, where: str) -> float:
    """A part of the median: ``"10%"``, ``"0.1"`` or 0.1.

    Raises:
        UsageError: it is no number, or not from 0.1 % to 100 %.
    """
    number = _part(value)
    if number is None or not 0.001 <= number <= 1:
        raise bad_value(where, value, 'a part of the median from "0.1%" to "100%", such as "10%"')
    return number


def _part(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        if isinstance(value, str) and value.strip().endswith("%"):
            return float(value.strip()[:-1]) / 100
        return float(value)
    except (ValueError, OverflowError):
        return None
