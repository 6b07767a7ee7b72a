"""Where a supervisor listens over TCP, and for which job. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

TCP: Final = "tcp://"
"""What the address of a control channel over a network begins with; any other is a path."""

JOB_BYTES: Final = 8

_HOST = r"(?:\[([^\[\]]*:[^\[\]]*)\]|([^\[\]:]+))"
_FORM = re.compile(rf"{TCP}{_HOST}:([1-9][0-9]{{0,4}})/([0-9a-f]{{{2 * JOB_BYTES}}})")


@dataclass(frozen=True, slots=True)
class Address:
    """``tcp://HOST:PORT/JOB``; a host that is an IPv6 address stands in brackets.

    Attributes:
        job: of random digits, and part of every proof (see `handshake.secret_of_job`): a port may
            be that of an earlier job of the same run, one of whose workers still calls there.
    """

    host: str
    port: int
    job: str

    @classmethod
    def of(cls, text: str) -> Address:
        """The address that is written so.

        Raises:
            ValueError: it is none.
        """
        found = _FORM.fullmatch(text)
        if found is None:
            expected = f"tcp://HOST:PORT/JOB, JOB of {2 * JOB_BYTES} hexadecimal digits"
            raise ValueError(f"address {text!r}: expected {expected}")
        if int(found[3]) >= 1 << 16:
            raise ValueError(f"address {text!r}: expected a port from 1 to 65535")
        return cls(found[1] or found[2], int(found[3]), found[4])

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{TCP}{host}:{self.port}/{self.job}"

    @property
    def where(self) -> tuple[str, int]:
        """Host and port, as sockets take them."""
        return self.host, self.port
