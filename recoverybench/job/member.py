"""A worker as the supervisor knows it: its process, its connection, what it last said."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Protocol

from recoverybench.launchers.base import Ended, Process
from recoverybench.network import Machine
from recoverybench.protocol import Message, Place


class Connection(Protocol):
    """Over which a member is spoken to."""

    def send(self, message: Message) -> None:
        """Send one message; a worker that is gone is no error."""

    def close(self) -> None:
        """Hang up for good."""


@dataclass(slots=True, eq=False)
class Member:
    """One started worker process.

    Attributes:
        slot: its place in the launcher: a rank, or above the ranks for a standby.
        rank: the rank it has; None for a standby without one. index: its process index.
        attempt: incarnation of its rank (of its slot while it has no rank).
        process: the launcher's handle. machine: where it lives; None: on this host's network.
        connection: None until its ``hello``.
        generation: the one it has a place in; -1: none.
        outbox: messages for when it connects.
        ready: a standby has its imports done.
        serving: address of the coordination service that it is; None: it is none.
        arrived: the last generation that it is about to join.
        held: the point at which it waits, and the step; None: it does not wait.
        running: the last generation whose first step it completed. running_at: when it said
            so (time.monotonic, s). done: the job is done.
        suspended: the step it saved after a notice, and when it stopped training (ns, by our
            clock).
        failed: mechanism and detail of what ended its generation.
        stuck: it was called back and does not come: its process is of no more use.
        left: it has left its generation at the end of a step.
        pongs: ids of the probes it answered.
        clock: the last exchange of clocks: its id, what its clock showed, and when the answer was
            here, ns. offset: of its clock to ours, and the bound, ns; None: it is ours.
        ended: how its process ended. why: who ended it: ``inject`` | ``teardown`` |
            ``resume`` | ``end``, None: nobody of ours.
    """

    slot: int
    rank: int | None
    attempt: int
    process: Process
    machine: Machine | None = None
    connection: Connection | None = None
    generation: int = -1
    index: int = -1
    outbox: list[Message] = field(default_factory=list)
    ready: bool = False
    serving: str | None = None
    arrived: int = -1
    held: tuple[str, int] | None = None
    running: int = -1
    running_at: float | None = None
    done: bool = False
    suspended: tuple[int, int] | None = None
    failed: tuple[str, str] | None = None
    stuck: bool = False
    left: bool = False
    pongs: set[int] = field(default_factory=set)
    clock: tuple[int, int, int] | None = None
    offset: tuple[int, int] | None = None
    ended: Ended | None = None
    why: str | None = None

    @property
    def alive(self) -> bool:
        """Whether its process has not ended."""
        return self.ended is None

    @property
    def name(self) -> str:
        """For people."""
        if self.rank is not None:
            return f"worker {self.rank}"
        return f"standby {self.slot}" if self.serving is None else "coordination service"

    def tell(self, message: Message) -> None:
        """Send now, or as soon as it has connected."""
        if message["kind"] in ("release", "break"):
            self.held = None
        if self.connection is None:
            self.outbox.append(message)
        else:
            self.connection.send(message)

    def meet(self, connection: Connection) -> None:
        """It has connected, and gets what has been waiting for that."""
        self.connection = connection
        for message in self.outbox:
            connection.send(message)
        self.outbox.clear()

    def take(self, place: Place, kind: str) -> None:
        """Give it a place in a generation."""
        self.rank, self.attempt, self.generation = place.rank, place.attempt, place.generation
        self.index = place.index
        self.failed, self.left, self.held = None, False, None
        self.tell(place.as_message(kind))

    def hear(self, message: Message) -> None:
        """Note what it said."""
        match message["kind"]:
            case "ready":
                self.ready = True
            case "serving":
                self.serving = str(message["address"])
            case "hold":
                self.held = str(message["at"]), int(message["step"])
            case "arrived":
                self.arrived = int(message["generation"])
            case "suspended":
                offset_ns = 0 if self.offset is None else self.offset[0]
                self.suspended = int(message["step"]), int(message["stopped_ns"]) - offset_ns
            case "left":
                self.left = int(message["generation"]) == self.generation
            case "running":
                self.running = int(message["generation"])
                self.running_at = time.monotonic()
            case "done":
                self.done = True
            case "failed":
                # A survivor may report the old generation's end after it was given a place
                # in the new one.
                if int(message["generation"]) == self.generation:
                    self.failed = (str(message["mechanism"]), str(message["detail"]))
            case "pong":
                self.pongs.add(int(message["id"]))
            case "clock":
                self.clock = int(message["id"]), int(message["t"]), time.monotonic_ns()
