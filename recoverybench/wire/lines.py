"""Messages as lines of bytes, within bounds. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping

from recoverybench.protocol import BadMessage, Fields, Message, check

MAX_LINE = 1 << 20
"""Longest line, bytes; the longest message by far is a ``spec``, of some kilobytes."""


class Lines:
    """Bytes as they arrive to whole lines.

    Args:
        longest: bytes of a line, its end not counted.
    """

    def __init__(self, longest: int = MAX_LINE) -> None:
        self._longest = longest
        self._rest = bytearray()

    def feed(self, data: bytes) -> list[bytes]:
        """The lines that are whole now, without their ends.

        Raises:
            BadMessage: one is too long.
        """
        if b"\n" not in data:  # a long line is not searched again with each of its parts
            self._rest += data
            lines = []
        else:
            *lines, rest = (bytes(self._rest) + data).split(b"\n")
            self._rest = bytearray(rest)
        if len(self._rest) > self._longest or any(len(line) > self._longest for line in lines):
            raise BadMessage(f"a line of more than {self._longest} bytes")
        return lines

    @property
    def waiting(self) -> int:
        """Bytes of the line that is not whole yet."""
        return len(self._rest)


def encode(message: Message) -> bytes:
    """A message as a line, without its end."""
    return json.dumps(message).encode()


def decode(line: bytes, kinds: Mapping[str, Fields]) -> Message:
    """The message in a line.

    Args:
        kinds: what may be said in that direction, see `protocol.FROM_WORKER`.

    Raises:
        BadMessage: it is none of these.
    """
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        raise BadMessage("a line that is no JSON") from None
    return check(found, kinds)
