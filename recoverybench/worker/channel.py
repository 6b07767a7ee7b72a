"""The worker's end of the control channel: JSON lines over a Unix socket.

A thread of its own reads orders, so that a worker whose main thread is deep inside a
collective still answers a probe, and still ends when it is told to. Orders wait in a
queue for the main thread. Losing the supervisor ends the process: nothing of ours
outlives it.
"""

from __future__ import annotations

import json
import os
import queue
import socket
import threading
from collections.abc import Callable
from typing import Any

Message = dict[str, Any]

EXIT_SUPERVISOR_GONE = 74


class Channel:
    """Connects to the supervisor's socket and says who is calling.

    Args:
        path: address of the supervisor's Unix socket.
        slot: place in the launcher: a rank, or above the ranks for a standby.
        attempt: incarnation in that slot.

    Attributes:
        on_rejoin: called by the reading thread before a ``rejoin`` is put in the queue, to
            free a main thread that waits for a worker which will never come.
    """

    def __init__(self, path: str, slot: int, attempt: int) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.connect(path)
        self._orders: queue.SimpleQueue[Message] = queue.SimpleQueue()
        self.on_rejoin: Callable[[], None] = lambda: None
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
        return self._orders.get()

    def _read(self) -> None:
        with self._socket.makefile("rb") as lines:
            for line in lines:
                message = json.loads(line)
                if message["kind"] == "ping":
                    self.send("pong", id=message["id"])
                elif message["kind"] == "exit":
                    os._exit(0)
                else:
                    if message["kind"] == "rejoin":
                        self.on_rejoin()
                    self._orders.put(message)
        os._exit(EXIT_SUPERVISOR_GONE)
