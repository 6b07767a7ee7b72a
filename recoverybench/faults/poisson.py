"""SIGKILL again and again: a soak with exponential gaps, and each kill a trial of its own.

``poisson:MTBF`` (``poisson:5s``) goes on until the job is done, ``poisson:MTBF:DURATION``
(``poisson:5s:60s``) for that long. MTBF is the mean time between failures of the whole job, in
wall time: it runs on while the job comes back, as it does for the machines that it stands for,
and a kill that falls into a recovery belongs to that trial. Gaps and victims come from the
trial's seed; any worker but 0, or any at all where the coordination service is external. It
needs nothing, and leaves nothing to undo.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Sequence
from typing import ClassVar

from recoverybench.errors import bad_value
from recoverybench.faults._soak import Soak, Strike
from recoverybench.plan.units import parse_duration

NEEDS = ()

SHORTEST_S = 0.1
"""Below it no worker lives long enough to be worth a record."""


class Poisson(Soak):
    """See `faults._soak.Soak`.

    Args:
        mtbf_s: mean gap. duration_s: of the soak; infinite: until the job is done.
    """

    name: ClassVar[str] = "poisson"

    def __init__(self, mtbf_s: float, duration_s: float = math.inf) -> None:
        super().__init__()
        self._mtbf_s = mtbf_s
        self._duration_s = duration_s

    def schedule(self, seed: int, ranks: Sequence[int]) -> Iterator[Strike]:
        """See `Soak.schedule`."""
        chance = random.Random(f"{seed}/poisson")
        after_s = chance.expovariate(1 / self._mtbf_s)
        while after_s < self._duration_s:
            yield Strike(after_s, chance.choice(ranks))
            after_s += chance.expovariate(1 / self._mtbf_s)


def create(argument: str | None) -> Poisson:
    """``poisson:MTBF`` or ``poisson:MTBF:DURATION``."""
    if argument is None:
        raise bad_value("fault", "poisson", 'a mean time between failures, as in "poisson:5s"')
    mtbf, colon, duration = argument.partition(":")
    mtbf_s = parse_duration(mtbf, "fault poisson: mean time between failures")
    if mtbf_s < SHORTEST_S:
        raise bad_value("fault", f"poisson:{argument}", f"a mean time of at least {SHORTEST_S:g} s")
    if not colon:
        return Poisson(mtbf_s)
    return Poisson(mtbf_s, parse_duration(duration, "fault poisson: duration"))
