"""Asking a machine whether it is there: an echo request over the network, and its answer."""

from __future__ import annotations

import os
import socket
import struct
from contextlib import suppress

_REQUEST, _REPLY = 8, 0
_HEADER = struct.Struct("!BBHHH")  # type, code, checksum, identifier, sequence number
_LARGEST = 1 << 16


class Echo:
    """Sends requests and receives answers; `socket` is readable when one is there.

    Make it inside the namespace from which it is to ask.
    """

    def __init__(self) -> None:
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP)
        self.socket.setblocking(False)
        self._identifier = os.getpid() & 0xFFFF

    def ask(self, address: str, number: int) -> None:
        """Send one request. That nobody can be reached there is no error: nobody answers."""
        with suppress(OSError):
            self.socket.sendto(request(self._identifier, number), (address, 0))

    def answers(self) -> list[tuple[str, int]]:
        """(address, number) of each answer that has arrived."""
        found: list[tuple[str, int]] = []
        while True:
            try:
                packet, (address, _) = self.socket.recvfrom(_LARGEST)
            except OSError:
                return found
            number = reply_to(self._identifier, packet)
            if number is not None:
                found.append((address, number))

    def close(self) -> None:
        """Stop asking."""
        self.socket.close()


def request(identifier: int, number: int) -> bytes:
    """An echo request; `number` counts modulo 65536."""
    empty = _HEADER.pack(_REQUEST, 0, 0, identifier, number & 0xFFFF)
    return _HEADER.pack(_REQUEST, 0, checksum(empty), identifier, number & 0xFFFF)


def reply_to(identifier: int, packet: bytes) -> int | None:
    """The number of the request that this IPv4 packet answers, or None if it is another's."""
    start = (packet[0] & 0x0F) * 4 if packet else 0
    if len(packet) < start + _HEADER.size or not start:
        return None
    number: int
    kind, _, _, to, number = _HEADER.unpack_from(packet, start)
    return number if (kind, to) == (_REPLY, identifier) else None


def checksum(data: bytes) -> int:
    """The internet checksum (RFC 1071) of an even number of bytes."""
    total: int = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF
