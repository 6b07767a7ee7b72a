"""How a TCP connection of the control channel is set."""

from __future__ import annotations

import socket
from typing import Final

_IDLE_S: Final = 5
_BETWEEN_S: Final = 2
_UNANSWERED: Final = 3
_UNACKNOWLEDGED_MS: Final = 10_000


def tune(connection: socket.socket) -> None:
    """Send messages at once, and notice within about ten seconds that the other end is gone.

    A machine that dies or a route that ends sends nothing, so TCP alone would wait for a quarter
    of an hour (tcp(7): TCP_KEEPIDLE, TCP_KEEPINTVL, TCP_KEEPCNT, TCP_USER_TIMEOUT). A process that
    was stopped is no such case: its kernel goes on answering.
    """
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, _IDLE_S)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, _BETWEEN_S)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, _UNANSWERED)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, _UNACKNOWLEDGED_MS)
