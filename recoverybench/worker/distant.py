"""A worker's connection to a supervisor on another machine: TCP, proved, and taken up again.

What is said while there is no connection is kept and follows. The thread that reads is the one
that reconnects; whoever sends meets a lost connection by leaving its message in the ledger.
"""

from __future__ import annotations

import secrets
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Final

from recoverybench.protocol import TO_WORKER, BadMessage, Message
from recoverybench.wire import handshake
from recoverybench.wire.address import Address
from recoverybench.wire.frames import LONGEST, BadFrame, Frame, Frames
from recoverybench.wire.ledger import RECONNECT_S, BadNumber, Ledger, Overrun
from recoverybench.wire.lines import Lines, decode, encode
from recoverybench.wire.sockets import tune

_PAUSES_S: Final = (0.02, 1.0)
"""Shortest and longest pause between two tries to connect."""


class Refused(Exception):
    """The supervisor has no place for this worker, or cannot be reached for too long."""


class Distant:
    """See the module. Connects at once.

    Args:
        address: ``tcp://HOST:PORT/JOB``. secret: of the run. slot, attempt, pid: see `Channel`.

    Attributes:
        report: gives the body of a message that is only worth its latest state, and whether that
            is to be sent; asked before each message and after each reconnection.

    Raises:
        ValueError: that is no address.
        Refused: there is nobody, or nobody who knows the secret and has a place for this worker.
    """

    def __init__(self, address: str, secret: bytes, slot: int, attempt: int, pid: int) -> None:
        found = Address.of(address)
        self._where = found.where
        self._secret = handshake.secret_of_job(secret, found.job)
        self._hello: Message = {
            "kind": "hello",
            "slot": slot,
            "attempt": attempt,
            "pid": pid,
            "session": secrets.token_hex(16),
        }
        self._lock = threading.Lock()
        self._ledger = Ledger()
        self._socket: socket.socket | None = None
        self._frames = Frames(b"", b"")
        self._lines = Lines(LONGEST)
        self.report: Callable[[bool], bytes | None] = lambda _: None
        self._reconnect()

    def send(self, message: Message) -> None:
        """Send one message, now or once there is a connection again.

        Raises:
            Refused: the supervisor has not acknowledged anything for too long.
        """
        with self._lock:
            body = encode(message)
            try:
                number = self._ledger.number(body)
            except Overrun as error:
                raise Refused(str(error)) from None
            self._put_report()
            self._put(number, body)

    def send_report(self) -> None:
        """Send the latest report, if it is new."""
        with self._lock:
            self._put_report()

    def messages(self) -> Iterator[Message]:
        """What the supervisor says, to the end.

        Raises:
            BadMessage: that is not in the protocol.
            Refused: it cannot be reached any more.
        """
        while True:
            yield from self._read()
            self._reconnect()

    def _read(self) -> Iterator[Message]:
        connection = self._socket
        assert connection is not None
        with suppress(OSError, BadFrame, BadNumber):
            while data := connection.recv(1 << 16):
                for line in self._lines.feed(data):
                    with self._lock:
                        body = self._open(line)
                    if body:
                        yield decode(body, TO_WORKER)

    def _open(self, line: bytes) -> bytes:
        frame = self._frames.open(line)
        self._ledger.acknowledged(frame.acknowledged)
        if frame.number:
            self._ledger.accept(frame.number)
            if self._ledger.owes:
                self._put(0, b"")
        return frame.body

    # With the lock held

    def _put(self, number: int, body: bytes) -> None:
        """Send a frame; a lost connection is the reader's business."""
        if self._socket is None:
            return
        line = self._frames.seal(Frame(number, self._ledger.telling(), body))
        try:
            self._socket.sendall(line)
        except OSError:
            _shut(self._socket)  # which ends the reader's wait, too

    def _put_report(self, *, again: bool = False) -> None:
        body = self.report(again)
        if body is not None:
            self._put(0, body)

    def _reconnect(self) -> None:
        """Connect, and send what was kept; raises `Refused` after `RECONNECT_S`."""
        with self._lock:
            if self._socket is not None:
                self._socket.close()
                self._socket = None
        end = time.monotonic() + RECONNECT_S
        pause_s, longest_s = _PAUSES_S
        while True:
            try:
                return self._connect()
            except (OSError, BadFrame, BadNumber, BadMessage, handshake.NotOurs) as error:
                if time.monotonic() + pause_s >= end:
                    raise Refused(f"no supervisor at {self._where}: {error}") from None
            time.sleep(pause_s)
            pause_s = min(2 * pause_s, longest_s)

    def _connect(self) -> None:
        connection = socket.create_connection(self._where, handshake.HANDSHAKE_S)
        try:
            tune(connection)
            end = time.monotonic() + handshake.HANDSHAKE_S
            frames = self._shake(connection, end)
            with self._lock:
                lines = Lines(LONGEST)
                welcome = self._call(connection, frames, lines, end)
                self._ledger.acknowledged(welcome["received"])
                connection.settimeout(None)
                self._socket, self._frames, self._lines = connection, frames, lines
                for number, body in self._ledger.kept():
                    self._put(number, body)
                self._put_report(again=True)
        except BaseException:
            connection.close()
            raise

    def _shake(self, connection: socket.socket, end: float) -> Frames:
        nonce = secrets.token_bytes(handshake.NONCE_BYTES)
        lines = Lines(handshake.LONGEST)
        challenged = _line(connection, lines, end)
        connection.sendall(handshake.answer(self._secret, challenged, nonce) + b"\n")
        keys = handshake.confirm(self._secret, challenged, nonce, _line(connection, lines, end))
        return Frames(keys.worker, keys.supervisor)

    def _call(self, connection: socket.socket, frames: Frames, lines: Lines, end: float) -> Message:
        """Say who is calling; returns the supervisor's ``welcome``."""
        body = encode({**self._hello, "received": self._ledger.telling()})
        connection.sendall(frames.seal(Frame(0, 0, body)))
        answered = decode(frames.open(_line(connection, lines, end)).body, TO_WORKER)
        if answered["kind"] == "refused":
            raise Refused(answered["reason"])
        if answered["kind"] != "welcome":
            raise BadMessage(f"{answered['kind']} where a welcome was due")
        return answered


def _line(connection: socket.socket, lines: Lines, end: float) -> bytes:
    """The next line, of a side that sends no other before it has an answer.

    A byte at a time: what follows a welcome at once is for whoever reads after it.

    Args:
        end: when it has to be there (time.monotonic, s), however slowly it comes.
    """
    while (left_s := end - time.monotonic()) > 0:
        connection.settimeout(left_s)
        data = connection.recv(1)
        if not data:
            raise ConnectionError("hung up")
        found = lines.feed(data)
        if found:
            return found[0]
    raise TimeoutError("says too little")


def _shut(connection: socket.socket) -> None:
    with suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
