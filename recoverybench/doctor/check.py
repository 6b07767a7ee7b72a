"""The result of one check."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

Status = Literal["ok", "warning", "missing"]


@dataclass(frozen=True, slots=True)
class Check:
    """What was found about one thing.

    Attributes:
        name: what was looked at.
        status: ``ok``; ``warning``: it works, and numbers may suffer; ``missing``.
        found: one line.
        advice: one line on what to do; None where there is nothing to do.
        needed: whether nothing can be measured without it.
    """

    name: str
    status: Status
    found: str
    advice: str | None = None
    needed: bool = False


Examine = Callable[[str], Check]
"""A check: takes its own name, and returns what it found."""
