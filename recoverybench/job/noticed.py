"""What the supervisor knows of a failure, and what may lie in wait for the next one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from recoverybench.job.member import Member


@dataclass(frozen=True, slots=True)
class Noticed:
    """One piece of evidence: what noticed, in its words, and of which generation's failure."""

    mechanism: str
    detail: str
    generation: int


@dataclass(frozen=True, slots=True)
class Ambush:
    """What waits for the next incarnation of a rank: where it holds, and what then happens."""

    rank: int
    point: str
    strike: Callable[[Member], None]
