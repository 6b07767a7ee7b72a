"""The worker's end of the control channel: over a Unix socket, or over TCP (see `distant`).

A thread of its own reads orders, so that a worker whose main thread is deep inside a
collective still answers a probe, and still ends when it is told to. Orders wait in a
queue for the main thread. Losing the supervisor ends the process: nothing of ours
outlives it.
"""

from __future__ import annotations

import collections
import os
import queue
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NoReturn, Protocol

from recoverybench.protocol import (
    TO_WORKER,
    BadMessage,
    Board,
    JobSpec,
    Message,
    StepsTold,
)
from recoverybench.wire.address import TCP
from recoverybench.wire.lines import MAX_LINE, decode, encode

EXIT_SUPERVISOR_GONE = 74

_ASIDES = ("break", "leave")
_NUDGE: Message = {"kind": "nudge"}


class Way(Protocol):
    """How messages get to the supervisor and back.

    Both methods raise when it is gone for good: OSError, or what the channel knows of `distant`.
    """

    def send(self, message: Message) -> None:
        """Send one message."""

    def messages(self) -> Iterator[Message]:
        """What the supervisor says; ends, or raises, with the connection."""


class Near:
    """A Unix socket, which is lost with the supervisor and never before.

    Args:
        path: its address.
    """

    def __init__(self, path: str, slot: int, attempt: int, pid: int) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.connect(path)
        hello = {"slot": slot, "attempt": attempt, "pid": pid, "session": "", "received": 0}
        self.send({"kind": "hello", **hello})

    def send(self, message: Message) -> None:
        """See `Way`."""
        self._socket.sendall(encode(message) + b"\n")

    def messages(self) -> Iterator[Message]:
        """See `Way`."""
        with self._socket.makefile("rb") as lines:
            while line := lines.readline(MAX_LINE):
                yield decode(line, TO_WORKER)


class Channel:
    """Connects to the supervisor and says who is calling. Ends this process when it cannot.

    Args:
        address: path of the supervisor's Unix socket, or ``tcp://HOST:PORT/JOB``.
        slot: place in the launcher: a rank, or above the ranks for a standby.
        attempt: incarnation in that slot.

    Attributes:
        on_rejoin: called by the reading thread before a ``rejoin`` is put in the queue, to
            free a main thread that waits for a worker which will never come.
        healthy: asked by the reading thread before it answers a probe.
        asides: orders for a main thread that trains, which looks here between two steps.
    """

    def __init__(self, address: str, slot: int, attempt: int) -> None:
        self._gone: tuple[type[Exception], ...] = (OSError,)
        self._way: Way = self._open(address, slot, attempt)
        self._orders: queue.SimpleQueue[Message] = queue.SimpleQueue()
        self._put_back: Message | None = None
        self.on_rejoin: Callable[[], None] = lambda: None
        self.healthy: Callable[[], bool] = lambda: True
        self.asides: collections.deque[Message] = collections.deque()
        threading.Thread(target=self._read, name="rb-channel", daemon=True).start()

    def _open(self, address: str, slot: int, attempt: int) -> Way:
        if not address.startswith(TCP):
            return Near(address, slot, attempt, os.getpid())
        # Its own modules are loaded only here: on one host nobody pays for them.
        from recoverybench.wire.handshake import SECRET_VARIABLE, secret_of
        from recoverybench.worker.distant import Distant, Refused

        self._gone = (OSError, Refused)
        try:
            # Nothing that this process starts or prints is to have it.
            secret = secret_of(os.environ.pop(SECRET_VARIABLE, ""))
            return Distant(address, secret, slot, attempt, os.getpid())
        except (ValueError, Refused) as error:
            _end(str(error))

    def board(self, spec: JobSpec) -> StepsTold:
        """Where this worker says how far it is."""
        if isinstance(self._way, Near):
            return Board(Path(spec.board), spec.most_workers)
        from recoverybench.worker.distant import Distant
        from recoverybench.worker.reports import Reports

        way = self._way
        assert isinstance(way, Distant)
        reports = Reports(way.send_report, spec.most_workers)
        way.report = reports.latest
        return reports

    def send(self, kind: str, **fields: Any) -> None:
        """Send one message; a supervisor that is gone ends this process."""
        try:
            self._way.send({"kind": kind, **fields})
        except self._gone:
            os._exit(EXIT_SUPERVISOR_GONE)

    def order(self) -> Message:
        """The next order for the main thread; blocks until there is one."""
        if self._put_back is not None:
            message, self._put_back = self._put_back, None
            return message
        while (message := self._orders.get()) is _NUDGE:
            pass
        return message

    def everybody_is_there(self) -> bool:
        """Block until the generation can be joined; False: another one is to be joined instead,
        and that order is the next one.
        """
        while True:
            message = self._orders.get()
            if message["kind"] == "go":
                return True
            if message["kind"] == "rejoin":
                self._put_back = message  # before those that have come after it
                return False

    def released(self) -> bool:
        """Block a main thread that holds; False: there is an aside, True: it may go on."""
        while not self.asides:
            message = self._orders.get()
            if message["kind"] == "release":
                return True
        return False

    def _read(self) -> None:
        try:
            for message in self._way.messages():
                self._heed(message)
        except BadMessage as error:
            _end(f"the supervisor said what is not in the protocol: {error}")
        except self._gone as error:
            _end(str(error))
        os._exit(EXIT_SUPERVISOR_GONE)

    def _heed(self, message: Message) -> None:
        kind = message["kind"]
        if kind == "ping":
            if self.healthy():
                self.send("pong", id=message["id"])
        elif kind == "clock":
            self.send("clock", id=message["id"], t=time.monotonic_ns())
        elif kind == "exit":
            os._exit(0)
        elif kind in _ASIDES:
            self.asides.append(message)
            self._orders.put(_NUDGE)
        else:
            if kind == "rejoin":
                self.on_rejoin()
            self._orders.put(message)


def _end(why: str) -> NoReturn:
    print(f"recoverybench: {why}", flush=True)
    os._exit(EXIT_SUPERVISOR_GONE)
