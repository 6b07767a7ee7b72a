"""The numbers of messages, so that each arrives once though connections are lost. Pure.

Both sides number what they send and keep it until the other side has acknowledged it. When a
connection is taken up again, each side says what it has received, and the other one sends what
comes after that, in its order. Nothing is sent again that has arrived, so a number that is not
the next one is a defect or an attack, never a repetition.
"""

from __future__ import annotations

from collections import deque
from typing import Final

RECONNECT_S: Final = 30.0
"""How long a worker tries to come back, and the supervisor waits for it. A switch that restarts
or a route that moves takes seconds to half a minute; a job whose channel is away for longer does
not notice anything else any more either."""

ACKNOWLEDGE_EVERY: Final = 16
"""Messages after which an acknowledgement is sent on its own; what is sent anyway carries one."""

MOST_KEPT: Final = 4096
"""Messages without an acknowledgement; a trial has some tens of them a worker."""


class BadNumber(Exception):
    """A number that cannot be: of a message that is not the next, or was never sent."""


class Overrun(Exception):
    """The other side does not acknowledge any more."""


class Ledger:
    """What one side has sent to the other and received from it, over all their connections.

    Attributes:
        sent: number of the last message that was sent. received: of the last one that came.
    """

    def __init__(self) -> None:
        self.sent = self.received = 0
        self._kept: deque[bytes] = deque()
        self._told = 0

    def number(self, body: bytes) -> int:
        """The number of a message that is to be sent; it is kept.

        Raises:
            Overrun: too many are kept already.
        """
        if len(self._kept) >= MOST_KEPT:
            raise Overrun(f"{MOST_KEPT} messages without an acknowledgement")
        self._kept.append(body)
        self.sent += 1
        return self.sent

    def acknowledged(self, number: int) -> None:
        """The other side has received everything up to that number.

        Raises:
            BadNumber: that was never sent, or was given up already.
        """
        first = self.sent - len(self._kept)
        if not first <= number <= self.sent:
            raise BadNumber(f"{number} acknowledged, of {first} to {self.sent}")
        for _ in range(number - first):
            self._kept.popleft()

    def kept(self) -> list[tuple[int, bytes]]:
        """What is to be sent again, after `acknowledged`, on a connection that is taken up."""
        first = self.sent - len(self._kept) + 1
        return list(enumerate(self._kept, first))

    def accept(self, number: int) -> None:
        """A message of that number has come.

        Raises:
            BadNumber: it is not the next.
        """
        if number != self.received + 1:
            raise BadNumber(f"message {number} after {self.received}")
        self.received = number

    def telling(self) -> int:
        """The number to acknowledge in a frame that is sent now."""
        self._told = self.received
        return self.received

    @property
    def owes(self) -> bool:
        """An acknowledgement has to be sent on its own."""
        return self.received - self._told >= ACKNOWLEDGE_EVERY
