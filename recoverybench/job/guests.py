"""Connections over TCP that have not proved yet whose they are: few, short, and soon gone.

Anybody can open one. Until the handshake is done, a connection costs a descriptor and a line of at
most `handshake.LONGEST` bytes; there are at most `MOST` of them, the oldest of which makes room
for a new one, and none lasts longer than `handshake.HANDSHAKE_S`. So a crowd of strangers delays a
worker, which tries again, and keeps out none; a worker that is in is not touched by it.
"""

from __future__ import annotations

import secrets
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from recoverybench.job.loop import Loop
from recoverybench.journal_writer import Journal
from recoverybench.protocol import FROM_WORKER, BadMessage, Message
from recoverybench.wire import handshake
from recoverybench.wire.frames import BadFrame, Frame, Frames
from recoverybench.wire.lines import Lines, decode, encode
from recoverybench.wire.sockets import tune

MOST: Final = 128
"""Connections in the middle of a handshake: as many as may wait to be accepted, and far below the
1024 descriptors that a process may have by default."""

MOST_LINES: Final = 16
"""Lines of the journal that strangers can cause in one trial; more of them are counted."""

_HELLO: Final = 1024
"""Most bytes of the frame with a ``hello``."""

_SWEEP_S: Final = 1.0


class Guest:
    """One such connection.

    Attributes:
        frames: of the connection, once the other side has proved itself.
    """

    def __init__(self, connection: socket.socket, where: str, secret: bytes) -> None:
        self.socket = connection
        self.where = where
        self.until = time.monotonic() + handshake.HANDSHAKE_S
        self.here = True
        self.frames: Frames | None = None
        self._secret = secret
        self._nonce = secrets.token_bytes(handshake.NONCE_BYTES)
        self._lines = Lines(handshake.LONGEST)
        self._send(handshake.challenge(self._nonce) + b"\n")

    def receive(self) -> Message | None:
        """The ``hello``, once it has come.

        Raises:
            handshake.NotOurs, BadFrame, BadMessage: the other side is none of ours.
            OSError: it is gone.
        """
        try:
            data = self.socket.recv(_HELLO)
        except BlockingIOError:
            return None
        if not data:
            raise ConnectionError("hung up")
        lines = self._lines.feed(data)
        if len(lines) + (self._lines.waiting > 0) > 1:
            raise handshake.NotOurs("more than an answer")
        if not lines:
            return None
        if self.frames is None:
            welcome, keys = handshake.admit(self._secret, self._nonce, lines[0])
            self._send(welcome + b"\n")
            self.frames = Frames(keys.supervisor, keys.worker)
            self._lines = Lines(_HELLO)
            return None
        message = decode(self.frames.open(lines[0]).body, FROM_WORKER)
        if message["kind"] != "hello":
            raise BadMessage(f"{message['kind']} before hello")
        return message

    def refuse(self, reason: str) -> None:
        """Say that there is no place for it."""
        assert self.frames is not None
        body = encode({"kind": "refused", "reason": reason})
        with suppress(OSError):
            self._send(self.frames.seal(Frame(0, 0, body)))

    def _send(self, line: bytes) -> None:
        if self.socket.send(line) != len(line):
            raise ConnectionError("takes nothing")


class Strangers:
    """What the supervisor's journal says of those who were turned away: not more than a little.

    Args:
        journal: the supervisor's.
    """

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._count = 0

    def note(self, where: str, why: str) -> None:
        """Write one down."""
        self._count += 1
        if self._count <= MOST_LINES:
            self._journal.log("stranger", address=where, reason=why)

    def close(self) -> None:
        """Write down how many there were, where that is not to be seen."""
        if self._count > MOST_LINES:
            self._journal.log("strangers", count=self._count)


class Guests:
    """All of them.

    Args:
        secret: of the job. loop: of the job. strangers: gets those who are none of ours.
        enter: called with one that has proved itself and its ``hello``; its connection is no
            longer on the loop and is the callee's.
    """

    def __init__(
        self,
        secret: bytes,
        loop: Loop,
        strangers: Strangers,
        enter: Callable[[Guest, Message], None],
    ) -> None:
        self._secret = secret
        self._loop = loop
        self._strangers = strangers
        self._enter = enter
        self._here: dict[Guest, None] = {}

    def accept(self, listener: socket.socket) -> None:
        """Let one in that is waiting."""
        try:
            connection, where = listener.accept()
        except OSError as error:
            self._make_room(str(error))  # no descriptor left, or it is gone again
            return
        if len(self._here) >= MOST:
            self._make_room("too many at once")
        try:
            connection.setblocking(False)
            tune(connection)
            guest = Guest(connection, f"{where[0]}:{where[1]}", self._secret)
        except OSError:
            connection.close()
            return
        if not self._here:
            self._loop.after(_SWEEP_S, self._sweep)
        self._here[guest] = None
        self._loop.register(connection, lambda: self._heard(guest))

    def close(self) -> None:
        """Hang up on all of them."""
        for guest in list(self._here):
            self._take_off(guest)
            guest.socket.close()

    def _heard(self, guest: Guest) -> None:
        if not guest.here:
            return  # made room for another in this very turn
        try:
            message = guest.receive()
        except (handshake.NotOurs, BadFrame, BadMessage, OSError) as error:
            self._turn_away(guest, str(error))
            return
        if message is not None:
            self._take_off(guest)
            self._enter(guest, message)

    def _turn_away(self, guest: Guest, why: str) -> None:
        self._take_off(guest)
        guest.socket.close()
        self._strangers.note(guest.where, why)

    def _take_off(self, guest: Guest) -> None:
        guest.here = False
        del self._here[guest]
        self._loop.unregister(guest.socket)

    def _make_room(self, why: str) -> None:
        oldest = next(iter(self._here), None)
        if oldest is not None:
            self._turn_away(oldest, why)

    def _sweep(self) -> None:
        now = time.monotonic()
        for guest in [each for each in self._here if each.until <= now]:
            self._turn_away(guest, f"no answer within {handshake.HANDSHAKE_S:g} s")
        if self._here:
            self._loop.after(_SWEEP_S, self._sweep)
