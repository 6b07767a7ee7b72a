"""The worker's end of the control channel: the order in which orders are carried out."""

from __future__ import annotations

import json
import socket
from pathlib import Path

from recoverybench.protocol import Message, Place
from recoverybench.worker.channel import Channel


def place(kind: str, generation: int) -> Message:
    return Place(generation, 0, 0, "127.0.0.1:1", 1, 0, "1x1").as_message(kind)


def channel(directory: Path, *orders: dict[str, object]) -> Channel:
    """A channel whose supervisor has sent these orders, and stays connected."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(str(directory / "s"))
    listener.listen(1)
    made = Channel(str(directory / "s"), 0, 0)
    peer, _ = listener.accept()
    _KEPT.extend((listener, peer))  # closing one would end this process
    peer.sendall(b"".join(json.dumps(order).encode() + b"\n" for order in orders))
    return made


_KEPT: list[socket.socket] = []


def test_a_place_that_is_put_back_comes_before_later_ones(tmp_path: Path) -> None:
    """A job that is lost twice while a worker starts calls it back twice."""
    orders = channel(
        tmp_path,
        place("start", 1),
        place("rejoin", 2),
        place("rejoin", 3),
        {"kind": "go"},
    )
    assert orders.order()["generation"] == 1
    assert not orders.everybody_is_there()
    assert orders.order()["generation"] == 2
    assert not orders.everybody_is_there()
    assert orders.order()["generation"] == 3
    assert orders.everybody_is_there()


def test_what_is_for_a_training_thread_waits_aside(tmp_path: Path) -> None:
    orders = channel(
        tmp_path,
        {"kind": "break", "what": "nan", "argument": None},
        {"kind": "release"},
        {"kind": "go"},
    )
    assert not orders.released() and orders.asides.popleft()["what"] == "nan"
    assert orders.released()
    assert orders.everybody_is_there()
