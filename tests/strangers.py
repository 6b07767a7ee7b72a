"""Strangers at the door of a control channel, until this process is ended: HOST PORT FILE.

FILE holds what a worker once said to it, once that is there. Nothing of what the supervisor sends
them is worth anything; what there is beside a challenge is printed.
"""

from __future__ import annotations

import re
import secrets
import socket
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

CHALLENGE = re.compile(rb"recoverybench/1 challenge [0-9a-f]{64}\n")
CROWD = 1000
MOST = 1 << 30
"""Bytes that one of them would send."""


def garbage(link: socket.socket) -> None:
    link.sendall(secrets.token_bytes(4096))


def gigabytes(link: socket.socket) -> None:
    for _ in range(MOST >> 16):
        link.sendall(bytes(1 << 16))


def lines(link: socket.socket) -> None:
    link.sendall(b"\n" * 4096)


def orders(link: socket.socket) -> None:
    link.sendall(b'{"kind": "hello", "slot": 0, "attempt": 0, "pid": 1}\n{"kind": "done"}\n')


def guess(link: socket.socket) -> None:
    link.sendall(b"answer " + b"0" * 64 + b" " + b"1" * 64 + b"\n")


def replay(link: socket.socket) -> None:
    with suppress(FileNotFoundError):
        link.sendall(Path(sys.argv[3]).read_bytes())


def silence(link: socket.socket) -> None:
    link.shutdown(socket.SHUT_WR)


WAYS: tuple[Callable[[socket.socket], None], ...] = (
    garbage,
    gigabytes,
    lines,
    orders,
    guess,
    replay,
    silence,
)


def visit(where: tuple[str, int], way: Callable[[socket.socket], None]) -> None:
    """One stranger, to the end of its connection."""
    answered = b""
    with suppress(OSError), socket.create_connection(where, 5) as link:
        link.settimeout(5)
        with suppress(OSError):
            way(link)
        with suppress(OSError):
            while data := link.recv(4096):
                answered += data
    if answered and not CHALLENGE.fullmatch(answered):
        print(f"{way.__name__} got {answered!r}", flush=True)


def main() -> None:
    where = sys.argv[1], int(sys.argv[2])
    crowd: list[socket.socket] = []
    for _ in range(CROWD):
        link = socket.socket()
        link.setblocking(False)  # a supervisor that is busy lets the crowd wait, and it does
        with suppress(BlockingIOError):
            link.connect(where)
        crowd.append(link)
    print(f"{len(crowd)} at once", flush=True)
    while True:
        for way in WAYS:
            visit(where, way)
        print("round", flush=True)
        time.sleep(0.2)  # so that a trial on two cores is still about recovery


if __name__ == "__main__":
    main()
