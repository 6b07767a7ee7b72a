"""A worker's connection over the Unix socket: whoever can open it is this user."""

from __future__ import annotations

import socket
from contextlib import suppress

from recoverybench.protocol import FROM_WORKER, Message
from recoverybench.wire.lines import Lines, decode, encode


class Near:
    """See the module.

    Args:
        connection: does not block.
    """

    def __init__(self, connection: socket.socket) -> None:
        self.socket = connection
        self._lines = Lines()

    def send(self, message: Message) -> None:
        """Send one message; a peer that is gone is no error, its end is seen elsewhere.

        One that reads so little that the kernel takes no more is hung up on: what would follow a
        part of a line is no message.
        """
        try:
            self.socket.sendall(encode(message) + b"\n")
        except BlockingIOError:
            with suppress(OSError):
                self.socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass

    def receive(self) -> list[Message] | None:
        """Messages that have arrived; None once the peer has closed.

        Raises:
            BadMessage: one is not in the protocol.
        """
        try:
            data = self.socket.recv(1 << 16)
        except BlockingIOError:
            return []
        except OSError:
            return None
        if not data:
            return None
        return [decode(line, FROM_WORKER) for line in self._lines.feed(data)]

    def close(self) -> None:
        """Hang up."""
        self.socket.close()
