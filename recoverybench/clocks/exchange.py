"""From exchanges of messages to the offset of a clock, and how far it may be wrong.

Whoever asks notes when it sent and when the answer was there; who answers says what its clock
showed in between. The answer was given at some moment of the round trip, and nobody knows at
which: so the offset to the middle of the round trip is wrong by at most half of it, whatever the
two ways took (F. Cristian, "Probabilistic clock synchronization", Distributed Computing 3, 1989;
the same in RFC 5905, section 8, for a server that answers at once). The shortest round trip of
several therefore says the most.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Exchange:
    """One question and its answer, ns.

    Attributes:
        sent, received: by the clock of who asked. remote: by the clock of who answered.
    """

    sent: int
    remote: int
    received: int

    @property
    def round_trip(self) -> int:
        """How long it took, ns."""
        return self.received - self.sent


@dataclass(frozen=True, slots=True)
class Offset:
    """The offset of a clock at one moment, ns.

    Attributes:
        at: the moment, by the clock of who asked.
        offset: the other clock minus that one. bound: it is wrong by at most so much.
    """

    at: int
    offset: int
    bound: int


def offset_of(exchanges: Iterable[Exchange]) -> Offset:
    """What a series of exchanges says, by its shortest round trip.

    Raises:
        ValueError: there is none, or an answer came before its question.
    """
    best = min(exchanges, key=lambda exchange: exchange.round_trip, default=None)
    if best is None:
        raise ValueError("a clock's offset needs an exchange")
    if best.round_trip < 0:
        raise ValueError(f"an answer came {-best.round_trip} ns before its question")
    middle = (best.sent + best.received) // 2
    # Half of an odd round trip is rounded up, so that the bound holds to the nanosecond.
    return Offset(middle, best.remote - middle, (best.round_trip + 1) // 2)
