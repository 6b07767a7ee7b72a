"""A rank of a command as faults see it: a process that was found, and is not ours."""

from __future__ import annotations

from dataclasses import dataclass

from recoverybench.protocol import Message


@dataclass(slots=True, eq=False)
class RankProcess:
    """One incarnation of a rank; has what faults use of `job.member.Member`.

    Attributes:
        rank: which one. attempt: incarnation, from 0.
        pid, start: the process, for all time since boot. fd: its pidfd. program: what it runs.
        ended: when it ended, CLOCK_MONOTONIC ns; None: it lives.
        why: who ended it: ``inject`` | ``end``; None: nobody of ours.
        struck: the last signal that we sent it.
        suspended: always None: a command does not say that it saved after a notice.
    """

    rank: int
    attempt: int
    pid: int
    start: int
    fd: int
    program: str
    ended: int | None = None
    why: str | None = None
    struck: str | None = None
    suspended: tuple[int, int] | None = None

    @property
    def alive(self) -> bool:
        """Whether its process has not ended."""
        return self.ended is None

    @property
    def name(self) -> str:
        """For people."""
        return f"worker {self.rank}"

    def tell(self, message: Message) -> None:
        """Nothing: a command takes no orders, and is held nowhere."""
