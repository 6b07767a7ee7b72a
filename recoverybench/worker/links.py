"""A worker's links to the others: which network it is in, its address there, and an end to them.

Nothing here knows jax: a worker enters its network before it opens or imports anything.
"""

from __future__ import annotations

import ctypes
import os
import socket
from contextlib import suppress

_CLONE_NEWNET = 0x40000000
_ANY_PORT = 9
_REACH_S = 0.3
"""Within a supervisor's probe; between two machines of one network it takes a millisecond."""


def enter(path: str) -> None:
    """Enter the network namespace at `path`. A namespace belongs to a thread and to those that
    it starts, so this comes before any other.

    Raises:
        OSError: it is not there, or may not be entered.
    """
    descriptor = os.open(path, os.O_RDONLY)
    try:
        if ctypes.CDLL(None, use_errno=True).setns(descriptor, _CLONE_NEWNET) != 0:
            raise OSError(ctypes.get_errno(), f"setns to the network {path}")
    finally:
        os.close(descriptor)


def own_address(coordinator: str) -> str | None:
    """This machine's address as the host of ``host:port`` sees it. Nothing is sent.

    Returns:
        IPv4; None: that is loopback, where there is nothing to choose, or there is no way there.
    """
    host, _ = coordinator.rsplit(":", 1)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect((host, _ANY_PORT))
        except OSError:
            return None
        found: str = probe.getsockname()[0]
    return None if found.startswith("127.") else found


def reaches(coordinator: str) -> bool:
    """Whether something answers at ``host:port``; a refusal is an answer. On loopback always."""
    if own_address(coordinator) is None:
        return True
    host, port = coordinator.rsplit(":", 1)
    try:
        socket.create_connection((host, int(port)), timeout=_REACH_S).close()
    except ConnectionRefusedError:
        return True
    except OSError:
        return False
    return True


def cut(coordinator: str) -> int:
    """Shut every TCP connection of this process down, but those of the coordination service.

    When a worker's packets are lost, those that wait for it in a collective get no error, now
    or ever: TCP has nothing to send, so it misses no answer. With the connection down the
    wait ends in an exception. On loopback an end is heard of, and yet a survivor was seen that
    stayed in its collective; there the connections of this machine to itself are meant.

    Args:
        coordinator: ``host:port`` of the service, whose connections stay: its clients end
            their process when they lose it.

    Returns:
        How many connections there were.
    """
    address = own_address(coordinator)
    port = int(coordinator.rsplit(":", 1)[1])
    return sum(_shut(int(name), address, port) for name in os.listdir("/proc/self/fd"))


def _shut(descriptor: int, address: str | None, spared: int) -> bool:
    """Shut down what is a TCP connection from `address` (None: of a machine to itself), unless
    one end has the spared port.
    """
    with suppress(OSError):
        if os.readlink(f"/proc/self/fd/{descriptor}").startswith("socket:"):
            with socket.socket(fileno=os.dup(descriptor)) as link:
                if link.family in (socket.AF_INET, socket.AF_INET6):
                    here, there = link.getsockname(), link.getpeername()
                    mine = here[0].removeprefix("::ffff:") == address
                    if address is None:
                        mine = here[0] == there[0]
                    if (
                        link.type == socket.SOCK_STREAM
                        and mine
                        and spared not in (here[1], there[1])
                    ):
                        link.shutdown(socket.SHUT_RDWR)
                        return True
    return False
