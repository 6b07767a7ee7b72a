"""A worker as the supervisor knows it: its process, its connection, what it last said."""

from __future__ import annotations

from dataclasses import dataclass, field

from recoverybench.job.hub import Connection
from recoverybench.launchers.base import Ended, Process
from recoverybench.protocol import Message, Place


@dataclass(slots=True, eq=False)
class Member:
    """One started worker process.

    Attributes:
        slot: its place in the launcher: a rank, or above the ranks for a standby.
        rank: the rank it has; None for a standby without one.
        attempt: incarnation of its rank (of its slot while it has no rank).
        process: the launcher's handle. connection: None until its ``hello``.
        generation: the one it has a place in; -1: none.
        outbox: messages for when it connects.
        ready: a standby has its imports done. held: the step before which it waits.
        running: the last generation whose first step it completed. done: the job is done.
        failed: mechanism and detail of what ended its generation.
        pongs: ids of the probes it answered.
        ended: how its process ended. why: who ended it: ``inject`` | ``teardown`` | ``end``,
            None: nobody of ours.
    """

    slot: int
    rank: int | None
    attempt: int
    process: Process
    connection: Connection | None = None
    generation: int = -1
    outbox: list[Message] = field(default_factory=list)
    ready: bool = False
    held: int | None = None
    running: int = -1
    done: bool = False
    failed: tuple[str, str] | None = None
    pongs: set[int] = field(default_factory=set)
    ended: Ended | None = None
    why: str | None = None

    @property
    def alive(self) -> bool:
        """Whether its process has not ended."""
        return self.ended is None

    @property
    def name(self) -> str:
        """For people."""
        return f"standby {self.slot}" if self.rank is None else f"worker {self.rank}"

    def tell(self, message: Message) -> None:
        """Send now, or as soon as it has connected."""
        if self.connection is None:
            self.outbox.append(message)
        else:
            self.connection.send(message)

    def take(self, place: Place, kind: str) -> None:
        """Give it a place in a generation."""
        self.rank, self.attempt, self.generation = place.rank, place.attempt, place.generation
        self.failed = None
        self.tell(place.as_message(kind))

    def hear(self, message: Message) -> None:
        """Note what it said."""
        match message["kind"]:
            case "ready":
                self.ready = True
            case "hold":
                self.held = int(message["step"])
            case "running":
                self.running = int(message["generation"])
            case "done":
                self.done = True
            case "failed":
                # A survivor may report the old generation's end after it was given a place
                # in the new one.
                if int(message["generation"]) == self.generation:
                    self.failed = (str(message["mechanism"]), str(message["detail"]))
            case "pong":
                self.pongs.add(int(message["id"]))
