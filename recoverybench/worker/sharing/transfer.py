"""A state, streamed from the worker that has it to those that lack it: host arrays over TCP.

The donor listens on its own address and hands that address and a random token to the others
by whatever way it has (see `tiers`). What goes over a connection, integers being unsigned and
big-endian:

=================  ======================================================================
receiver → donor   the token, 32 bytes
donor → receiver   length of the header (8 bytes), and the header as JSON: ``step``,
                   ``data``, ``leaves`` (name, shape and dtype of each, in order)
donor → receiver   the bytes of every leaf, in C order, one leaf after the other
=================  ======================================================================

A connection without the token gets nothing. There is no code in what is sent (no pickle), and
a receiver allocates nothing that it did not expect.
"""

from __future__ import annotations

import hmac
import json
import secrets
import socket
import struct
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeVar

import ml_dtypes  # noqa: F401  so that NumPy knows bfloat16 and its like by name
import numpy as np

from recoverybench.worker.program import Leaf

STALL_S = 10.0
"""No byte for that long ends a transfer: a donor that was stopped keeps its sockets open."""

PIECE = 1 << 20
"""Bytes handed to the kernel at once. Python's timeout is for a whole `sendall`, so what is
sent in one call must be small enough to be through within `STALL_S` on any network."""

_LENGTH = struct.Struct(">Q")
_LONGEST_HEADER = 1 << 26

_Buffer = TypeVar("_Buffer", bytearray, memoryview)


class TransferError(RuntimeError):
    """A state did not come through."""


@dataclass(frozen=True, slots=True)
class HostState:
    """A state in host memory.

    Attributes:
        step: the step it belongs to.
        arrays: leaf name -> array. data: the input pipeline's position.
    """

    step: int
    arrays: dict[str, np.ndarray]
    data: dict[str, Any]

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        return sum(array.nbytes for array in self.arrays.values())


class Donor:
    """Gives one state to a number of receivers, from threads of its own.

    Args:
        state: what it gives; must not change meanwhile.
        host: address to listen on, which the receivers can reach.
        receivers: how many will ask.

    Attributes:
        address: ``host:port``. token: what a receiver must show.
        sent: bytes of arrays, so far, to all receivers.
    """

    def __init__(self, state: HostState, host: str, receivers: int) -> None:
        self.token = secrets.token_hex(16)
        self.sent = 0
        self._state = state
        self._left = receivers
        self._problems: list[str] = []
        self._changed = threading.Condition()
        self._connections: list[socket.socket] = []
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._listener = socket.create_server((host, 0), family=family, backlog=max(8, receivers))
        self.address = f"{host}:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._accept, name="rb-donor", daemon=True).start()

    def wait(self, stall_s: float) -> list[str]:
        """Wait until every receiver has everything; returns what went wrong.

        Args:
            stall_s: how long nothing may happen (a receiver may be busy before it asks).
        """
        with self._changed:
            while self._left > 0 and not self._problems:
                before = self.sent
                if not self._changed.wait(stall_s) and self.sent == before:
                    return [f"{self._left} workers have not fetched the state"]
            return list(self._problems)

    def close(self) -> None:
        """Stop listening and cut what is still being sent."""
        with self._changed:
            connections = [self._listener, *self._connections]
        for connection in connections:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)  # wakes the thread that waits in it
            connection.close()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:  # closed
                return
            with self._changed:
                self._connections.append(connection)
            threading.Thread(
                target=self._serve, args=(connection,), name="rb-donor-send", daemon=True
            ).start()

    def _serve(self, connection: socket.socket) -> None:
        with connection:
            connection.settimeout(STALL_S)
            try:
                token = bytes(_receive(connection, bytearray(len(self.token))))
            except (OSError, TransferError):
                token = b""
            if not hmac.compare_digest(token, self.token.encode()):
                return  # a stranger: no word, and no receiver less
            try:
                self._send(connection)
            except OSError as error:
                with self._changed:
                    self._problems.append(f"while sending the state: {error}")
                    self._changed.notify_all()
                return
        with self._changed:
            self._left -= 1
            self._changed.notify_all()

    def _send(self, connection: socket.socket) -> None:
        state = self._state
        leaves = [(name, a.shape, str(a.dtype)) for name, a in state.arrays.items()]
        header = json.dumps({"step": state.step, "data": state.data, "leaves": leaves}).encode()
        connection.sendall(_LENGTH.pack(len(header)) + header)
        for array in state.arrays.values():
            view = _bytes_of(np.ascontiguousarray(array))
            for start in range(0, len(view), PIECE):
                piece = view[start : start + PIECE]
                connection.sendall(piece)
                with self._changed:
                    self.sent += len(piece)
                    self._changed.notify_all()


def receive(address: str, token: str, expected: Sequence[Leaf]) -> HostState:
    """Fetch a state from a `Donor`.

    Args:
        address: ``host:port``. token: the donor's.
        expected: what the state must consist of, in any order.

    Raises:
        TransferError: the donor refused, ended or stalled, or what it has is something else.
    """
    host, _, port = address.rpartition(":")
    try:
        with socket.create_connection((host, int(port)), timeout=STALL_S) as connection:
            connection.settimeout(STALL_S)
            connection.sendall(token.encode())
            return _read(connection, expected)
    except OSError as error:
        raise TransferError(f"no state from {address}: {error or type(error).__name__}") from error


def _read(connection: socket.socket, expected: Sequence[Leaf]) -> HostState:
    (length,) = _LENGTH.unpack(_receive(connection, bytearray(_LENGTH.size)))
    if length > _LONGEST_HEADER:
        raise TransferError(f"a header of {length} bytes")
    header: Mapping[str, Any] = json.loads(bytes(_receive(connection, bytearray(length))))
    leaves = [Leaf(name, tuple(shape), dtype) for name, shape, dtype in header["leaves"]]
    wanted = {leaf.name: leaf.kind for leaf in expected}
    if {leaf.name: leaf.kind for leaf in leaves} != wanted or len(leaves) != len(wanted):
        odd = next((leaf for leaf in leaves if wanted.get(leaf.name) != leaf.kind), None)
        raise TransferError(f"the donor has another state: {odd or 'a leaf is missing'}")
    arrays = {leaf.name: np.empty(leaf.shape, np.dtype(leaf.dtype)) for leaf in leaves}
    for array in arrays.values():
        _receive(connection, _bytes_of(array))
    return HostState(header["step"], arrays, header["data"])


def _bytes_of(array: np.ndarray) -> memoryview:
    """A contiguous array's memory; whatever is written into it is in the array."""
    return array.reshape(-1).view(np.uint8).data if array.size else memoryview(b"")


def _receive(connection: socket.socket, into: _Buffer) -> _Buffer:
    """Fill a buffer from a connection.

    Raises:
        TransferError: the other side ended before it was full.
        OSError: also TimeoutError.
    """
    view = memoryview(into)
    done = 0
    while done < len(view):
        got = connection.recv_into(view[done:])
        if got == 0:
            raise TransferError(f"the other side ended after {done} of {len(view)} bytes")
        done += got
    return into
