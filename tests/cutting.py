"""A TCP proxy that cuts connections in the middle of what is being said."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import suppress

from recoverybench.wire.address import Address

Cut = tuple[int | None, int | None]
"""After how many bytes to the supervisor, and to the worker, it is cut; None: not by these."""


class Cutter:
    """Listens on loopback, and passes on to an address until a connection has had its bytes.

    Args:
        address: what it stands for.
        cuts: of one connection after the other; once there are no more, none is cut.
        flip: it does not cut there, but passes on another byte, and whatever follows.

    Attributes:
        address: its own. cut: connections that were cut.
        said: what came to the supervisor on the first connection on which anything did.
    """

    def __init__(self, address: str, cuts: Iterator[Cut], *, flip: bool = False) -> None:
        self._flip = flip
        behind = Address.of(address)
        self._where = behind.where
        self._cuts = cuts
        self.cut = 0
        self.said = bytearray()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = str(Address("127.0.0.1", self._listener.getsockname()[1], behind.job))
        self._open: list[socket.socket] = []
        threading.Thread(target=self._serve, daemon=True).start()

    def close(self) -> None:
        """Cut everything, and take nothing more."""
        _end(self._listener)
        for connection in self._open:
            _end(connection)

    def _serve(self) -> None:
        with suppress(OSError):
            while True:
                worker, _ = self._listener.accept()
                first = not self.said  # one that was turned away by a crowd has said nothing
                try:
                    supervisor = socket.create_connection(self._where)
                except OSError:
                    worker.close()
                    continue
                self._open = [*self._open[-4:], worker, supervisor]
                pair = (worker, supervisor)
                up, down = next(self._cuts, (None, None))
                for source, sink, most in ((worker, supervisor, up), (supervisor, worker, down)):
                    record = first and sink is supervisor
                    arguments = (source, sink, most, pair, record)
                    threading.Thread(target=self._pass, args=arguments, daemon=True).start()

    def _pass(
        self,
        source: socket.socket,
        sink: socket.socket,
        most: int | None,
        pair: tuple[socket.socket, socket.socket],
        record: bool,
    ) -> None:
        left = most
        with suppress(OSError):
            while data := source.recv(1 << 16):
                if record:
                    self.said += data
                if left is not None and 0 < left <= len(data):
                    self.cut += 1
                    if not self._flip:
                        sink.sendall(data[:left])
                        break
                    data = data[: left - 1] + bytes([data[left - 1] ^ 1]) + data[left:]
                sink.sendall(data)
                left = None if left is None else left - len(data)
        for connection in pair:
            _end(connection)


def _end(connection: socket.socket) -> None:
    with suppress(OSError):  # a reset, so that not even what is under way arrives
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    with suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
    connection.close()
