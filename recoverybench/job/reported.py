"""The last steps of every rank, where workers do not share the supervisor's memory."""

from __future__ import annotations

from recoverybench.job.member import Member
from recoverybench.protocol import Message


class Reported:
    """Has the form of `protocol.StepsSeen`, and is fed from what workers report.

    Args:
        ranks: how many there may be.
    """

    def __init__(self, ranks: int) -> None:
        self._completed = [0] * ranks
        self._begun = [0] * ranks
        self._attempts = [0] * ranks

    def hear(self, member: Member, message: Message) -> None:
        """Note a ``progress``. One of a worker that has been replaced, or had another rank when it
        sent this, says nothing about the rank.
        """
        rank = message["rank"]
        if rank != member.rank or not 0 <= rank < len(self._attempts):
            return
        if member.attempt < self._attempts[rank]:
            return
        self._attempts[rank] = member.attempt
        if message["begun"] is not None:
            self._begun[rank] = message["begun"]
        if message["completed"] is not None:
            self._completed[rank] = message["completed"]

    def steps(self) -> tuple[int, ...]:
        """The last completed step of every rank."""
        return tuple(self._completed)

    def begun(self) -> tuple[int, ...]:
        """The last step that every rank has begun."""
        return tuple(self._begun)
