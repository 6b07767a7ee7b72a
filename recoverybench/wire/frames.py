"""Messages of one connection in frames that prove where they come from. Pure.

A frame is a line ``MAC NUMBER ACKNOWLEDGED BODY``: the message's number (0: it has none), the
number of the last one that was received from the other side, and the message as JSON, or nothing
where there is only something to acknowledge. The MAC is HMAC-SHA256 under the sender's key of this
connection over the count of the frames before it and the rest of the line, cut to its first 16
bytes (RFC 2104, section 5, allows half). So a frame that was changed, left out, sent twice, put in
another place, sent back or taken from another connection is not accepted; somebody on the way can
read, delay and cut off, and that is all.
"""

from __future__ import annotations

import hmac
import re
from dataclasses import dataclass
from typing import Final

from recoverybench.wire.lines import MAX_LINE

_MAC_DIGITS: Final = 32
_REST = re.compile(rb"(0|[1-9][0-9]{0,11}) (0|[1-9][0-9]{0,11}) (.*)")

LONGEST: Final = MAX_LINE + 64
"""Most bytes of a frame around a message of the greatest length."""


class BadFrame(Exception):
    """A line that is no frame of this connection, or not the one that is due."""


@dataclass(frozen=True, slots=True)
class Frame:
    """What a frame holds.

    Attributes:
        number: of the message, from 1; 0: it has none. acknowledged: the last number that the
            sender has received. body: the message as JSON; empty: there is none.
    """

    number: int
    acknowledged: int
    body: bytes


class Frames:
    """Both directions of one connection, as one side sees them.

    Args:
        ours, theirs: key of what is sent, and of what is received.
    """

    def __init__(self, ours: bytes, theirs: bytes) -> None:
        self._ours, self._theirs = ours, theirs
        self._sent = self._received = 0

    def seal(self, frame: Frame) -> bytes:
        """The next line to send, with its end."""
        rest = b"%d %d %b" % (frame.number, frame.acknowledged, frame.body)
        line = b"%b %b\n" % (_mac(self._ours, self._sent, rest), rest)
        self._sent += 1
        return line

    def open(self, line: bytes) -> Frame:
        """The frame in the next line that was received, given without its end.

        Raises:
            BadFrame: it is not the next frame of the other side.
        """
        mac, rest = line[:_MAC_DIGITS], line[_MAC_DIGITS + 1 :]
        expected = _mac(self._theirs, self._received, rest)
        if line[_MAC_DIGITS : _MAC_DIGITS + 1] != b" " or not hmac.compare_digest(mac, expected):
            raise BadFrame("a frame that is not the next one of the other side")
        found = _REST.fullmatch(rest)
        if found is None:
            raise BadFrame("a frame without its numbers")
        self._received += 1
        return Frame(int(found[1]), int(found[2]), found[3])


def _mac(key: bytes, count: int, rest: bytes) -> bytes:
    digest = hmac.digest(key, count.to_bytes(8, "big") + rest, "sha256")
    return digest.hex()[:_MAC_DIGITS].encode()
