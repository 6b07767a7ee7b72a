"""A worker's conversation over TCP, which outlives its connections.

A connection that has proved itself (see `guests`) is a `Line`; a `Far` has one at a time, or none
for a while. What is said meanwhile is kept, and sent once the worker is back.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from recoverybench.protocol import FROM_WORKER, BadMessage, Message
from recoverybench.wire.frames import LONGEST, BadFrame, Frame, Frames
from recoverybench.wire.ledger import BadNumber, Ledger, Overrun
from recoverybench.wire.lines import Lines, decode, encode

MOST_WAITING: Final = 4 << 20
"""Most bytes that the kernel has not taken yet; a worker that reads nothing is cut off."""


class Line:
    """One connection that has proved itself.

    Args:
        connection: does not block. frames: of it.
        await_writing: called with whether there are bytes that the kernel did not take; as long as
            there are, `flush` is to be called when it takes more.
    """

    def __init__(
        self,
        connection: socket.socket,
        frames: Frames,
        await_writing: Callable[[socket.socket, bool], None],
    ) -> None:
        self.socket = connection
        self._frames = frames
        self._lines = Lines(LONGEST)
        self._waiting = bytearray()
        self._await_writing = await_writing

    def put(self, frame: Frame) -> None:
        """Send a frame. Errors show when the connection is read from."""
        line = self._frames.seal(frame)
        if self._waiting:
            self._waiting += line
            if len(self._waiting) > MOST_WAITING:
                with suppress(OSError):
                    self.socket.shutdown(socket.SHUT_RDWR)
            return
        rest = line[self._take(line) :]
        if rest:
            self._waiting += rest
            self._await_writing(self.socket, True)

    def flush(self) -> None:
        """Send what is waiting."""
        if self._waiting:
            del self._waiting[: self._take(self._waiting)]
            if not self._waiting:
                self._await_writing(self.socket, False)

    def take(self) -> list[Frame] | None:
        """Frames that have arrived; None once the other side has closed.

        Raises:
            BadFrame: one is not of this connection. BadMessage: one is too long.
        """
        try:
            data = self.socket.recv(1 << 16)
        except BlockingIOError:
            return []
        except OSError:
            return None
        return [self._frames.open(line) for line in self._lines.feed(data)] if data else None

    def _take(self, data: bytes | bytearray) -> int:
        try:
            return self.socket.send(data)
        except BlockingIOError:
            return 0
        except OSError:
            return len(data)  # nobody is there to get it


class Far:
    """See the module.

    Args:
        session: the worker's name for this conversation.

    Attributes:
        line: the present connection; None: it is lost. over: it will not be taken up again.
        lost: how often a connection was lost. lost_at: when it last was (time.monotonic, s).
    """

    def __init__(self, session: str) -> None:
        self.session = session
        self.line: Line | None = None
        self.over = False
        self.lost = 0
        self.lost_at = 0.0
        self._ledger = Ledger()

    def attach(self, line: Line, received: int) -> None:
        """Go on over a new connection, whose other side has received that many messages.

        Raises:
            BadNumber: it cannot have.
        """
        self._ledger.acknowledged(received)
        self.line = line
        welcome: Message = {"kind": "welcome", "received": self._ledger.received}
        line.put(Frame(0, self._ledger.telling(), encode(welcome)))
        for number, body in self._ledger.kept():
            line.put(Frame(number, self._ledger.received, body))

    def detach(self) -> None:
        """The connection is lost."""
        self.lost += 1
        self.lost_at = time.monotonic()
        if self.line is not None:
            self.line.socket.close()
        self.line = None

    def send(self, message: Message) -> None:
        """Send one message, now or once the worker is back."""
        body = encode(message)
        try:
            number = self._ledger.number(body)
        except Overrun:
            self.over = True  # and its end is seen where the connection is read from
            if self.line is not None:
                with suppress(OSError):
                    self.line.socket.shutdown(socket.SHUT_RDWR)
            return
        if self.line is not None:
            self.line.put(Frame(number, self._ledger.telling(), body))

    def receive(self) -> list[Message] | None:
        """Messages that have arrived; None once the connection is lost.

        Raises:
            BadMessage: one is not in the protocol.
        """
        line = self.line
        if line is None:
            return None
        try:
            frames = line.take()
        except BadFrame:
            return None  # somebody on the way: the worker comes back and says it again
        if frames is None:
            return None
        try:
            return [decode(body, FROM_WORKER) for body in map(self._enter, frames) if body]
        except BadNumber as error:
            raise BadMessage(str(error)) from None

    def close(self) -> None:
        """Hang up for good."""
        self.over = True
        self.detach()

    def _enter(self, frame: Frame) -> bytes:
        self._ledger.acknowledged(frame.acknowledged)
        if frame.number:
            self._ledger.accept(frame.number)
            if self._ledger.owes and self.line is not None:
                self.line.put(Frame(0, self._ledger.telling(), b""))
        return frame.body
