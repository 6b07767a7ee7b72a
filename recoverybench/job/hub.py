"""The supervisor's end of the control channel: a Unix socket and its connections."""

from __future__ import annotations

import json
import os
import socket
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from recoverybench.protocol import Message

MAX_LINE = 1 << 20
"""Longest message, bytes; a peer that sends more is cut off."""


@dataclass(slots=True, eq=False)
class Connection:
    """One worker's connection; `slot` is known after its ``hello``."""

    socket: socket.socket
    slot: int | None = None
    attempt: int | None = None
    pid: int | None = None
    _rest: bytearray = field(default_factory=bytearray)

    def send(self, message: Message) -> None:
        """Send one message; a peer that is gone is no error, its end is seen elsewhere."""
        with suppress(OSError):
            self.socket.sendall(json.dumps(message).encode() + b"\n")

    def receive(self) -> list[Message] | None:
        """Messages that have arrived; None once the peer has closed."""
        try:
            data = self.socket.recv(1 << 16)
        except BlockingIOError:
            return []
        except OSError:
            return None
        if not data:
            return None
        self._rest += data
        if len(self._rest) > MAX_LINE:
            return None
        *lines, rest = self._rest.split(b"\n")
        self._rest = bytearray(rest)
        try:
            messages = [json.loads(line) for line in lines]
        except ValueError:
            return None
        return messages if all(isinstance(m, dict) and "kind" in m for m in messages) else None


class Hub:
    """Listens at a path that only this user can reach.

    Args:
        path: of the Unix socket; its directory must be private.
    """

    def __init__(self, path: Path) -> None:
        self.address = str(path)
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.socket.bind(self.address)
        os.chmod(path, 0o600)
        self.socket.listen(64)
        self.socket.setblocking(False)

    def accept(self) -> Connection:
        """The connection that is waiting."""
        peer, _ = self.socket.accept()
        peer.setblocking(False)
        return Connection(peer)

    def close(self) -> None:
        """Stop listening and remove the socket."""
        self.socket.close()
        Path(self.address).unlink(missing_ok=True)
