"""The worker's end of the control channel: JSON lines over a Unix socket.

A thread of its own reads orders, so that a worker whose main thread is deep inside a
collective still answers a probe, and still ends when it is told to. Orders wait in a
queue for the main thread. Losing the supervisor ends the process: nothing of ours
outlives it.
"""

from __future__ import annotations

import collections
import json
import os
import queue
import socket
import threading
import time
from collections.abc import Callable
from typing import Any

Message = dict[str, Any]

EXIT_SUPERVISOR_GONE = 74

_ASIDES = ("break", "leave")
_NUDGE: Message = {"kind": "nudge"}


class Channel:
    """Connects to the supervisor's socket and says who is calling.

    Args:
        path: address of the supervisor's Unix socket.
        slot: place in the launcher: a rank, or above the ranks for a standby.
        attempt: incarnation in that slot.

    Attributes:
        on_rejoin: called by the reading thread before a ``rejoin`` is put in the queue, to
            free a main thread that waits for a worker which will never come.
        healthy: asked by the reading thread before it answers a probe.
        asides: orders for a main thread that trains, which looks here between two steps.
    """

    def __init__(self, path: str, slot: int, attempt: int) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.connect(path)
        self._orders: queue.SimpleQueue[Message] = queue.SimpleQueue()
        self._put_back: Message | None = None
        self.on_rejoin: Callable[[], None] = lambda: None
        self.healthy: Callable[[], bool] = lambda: True
        self.asides: collections.deque[Message] = collections.deque()
        self.send("hello", slot=slot, attempt=attempt, pid=os.getpid())
        threading.Thread(target=self._read, name="rb-channel", daemon=True).start()

    def send(self, kind: str, **fields: Any) -> None:
        """Send one message; a supervisor that is gone ends this process."""
        try:
            self._socket.sendall(json.dumps({"kind": kind, **fields}).encode() + b"\n")
        except OSError:
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
        with self._socket.makefile("rb") as lines:
            for line in lines:
                message = json.loads(line)
                if message["kind"] == "ping":
                    if self.healthy():
                        self.send("pong", id=message["id"])
                elif message["kind"] == "clock":
                    self.send("clock", id=message["id"], t=time.monotonic_ns())
                elif message["kind"] == "exit":
                    os._exit(0)
                elif message["kind"] in _ASIDES:
                    self.asides.append(message)
                    self._orders.put(_NUDGE)
                else:
                    if message["kind"] == "rejoin":
                        self.on_rejoin()
                    self._orders.put(message)
        os._exit(EXIT_SUPERVISOR_GONE)
