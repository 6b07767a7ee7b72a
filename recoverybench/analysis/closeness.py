"""How close is close enough, where bits cannot be equal: after steps on another topology.

Other workers, fewer or more or on another mesh, sum the same numbers in another order. Each such
step rounds otherwise, by a few units in the last place of a float32 (a relative difference of
`EPSILON` each), and what it leaves is carried on. At first these differences add up as a random
walk does, with the root of the number of steps. The tolerance is `UNITS` times `EPSILON` times the
root of the steps since the last one of the job's own topology, and never less than for `FEWEST`
steps, as a leaf whose gradient nearly cancels out can be off by more than one step's share at once.

Later the training itself enlarges them, as it would any other grain of sand, and no tolerance
tells rounding from a fault any more. So nothing is compared with the reference beyond
`HORIZON` steps; what the workers have of one another's is, bit for bit.

Measured, 3 workers that went on as 2 from step 20, largest relative difference over all steps
and leaves: `mlp:tiny` 2.3e-7 after 25 steps and 2.6e-7 after 360; `transformer:tiny` 1.2e-6 after
25 steps, and of its losses 1.5e-7 after 40. The tolerance after 25 steps is 3.8e-5, 30 times the
largest of them. Two runs of `transformer:tiny` without any fault, by 3 workers and by 2, differ
in their losses by 1.5e-7 after 60 steps, by 1.1e-4 after 85, by 5e-3 after 120, and by up to
2e-2 from there on. Training that is another one is far beyond the tolerance: a batch that is
skipped or seen twice moves the loss by 1e-3 and more. A difference that is smaller than the
tolerance cannot be found; where the number of workers does not change, there is none.
"""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass
from typing import Final

EPSILON: Final = 2.0**-23
"""Relative distance of neighbouring float32 numbers."""

UNITS: Final = 64
"""Units in the last place that one step may be off."""

FEWEST: Final = 10
"""Steps that are always granted."""

HORIZON: Final = 40
"""Steps after which rounding may have grown to anything, and nothing is compared any more."""


def tolerance(steps: int) -> float:
    """The relative difference that is allowed that many steps after the last equal one."""
    return UNITS * EPSILON * math.sqrt(max(FEWEST, steps))


@dataclass(slots=True)
class Closeness:
    """What is compared within a tolerance, and the largest difference found so far.

    Attributes:
        since: the last step that all workers computed.
        largest: relative difference; None: nothing was compared yet.
    """

    since: int
    largest: float | None = None

    def reaches(self, step: int) -> bool:
        """Whether that step is near enough to be compared."""
        return step - self.since <= HORIZON

    def differs(self, found: float, wanted: float, step: int) -> float | None:
        """The relative difference, where it is too large for that step; None: close enough.

        Not a number is never close to anything.
        """
        difference = relative(found, wanted)
        if difference <= tolerance(step - self.since):
            self.largest = max(self.largest or 0.0, difference)
            return None
        return difference


def relative(found: float, wanted: float) -> float:
    """The difference as a part of what is wanted; infinite where that is zero, and it is not."""
    if found == wanted:
        return 0.0
    return abs(found - wanted) / abs(wanted) if wanted else float("inf")


def number_of(bits: str) -> float:
    """The float32 of a bit pattern in hex; not a number for what is none."""
    try:
        return float(struct.unpack(">f", bytes.fromhex(bits))[0])
    except (ValueError, struct.error):
        return float("nan")
