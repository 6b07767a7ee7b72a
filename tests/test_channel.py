"""The worker's end of the control channel: the order in which orders are carried out."""

from __future__ import annotations

import json
import os
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from recoverybench.protocol import Message, Place
from recoverybench.worker.channel import EXIT_SUPERVISOR_GONE, Channel, Near

Open = Callable[..., Channel]


def place(kind: str, generation: int) -> Message:
    return Place(generation, 0, 0, "127.0.0.1:1", 1, 0, "1x1").as_message(kind)


@pytest.fixture
def channel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Open]:
    """Opens a channel whose supervisor has sent some orders, and stays connected for the test.

    In the end the supervisor is gone, which is said to end this process.
    """
    ended: list[int] = []
    monkeypatch.setattr(os, "_exit", ended.append)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener, ExitStack() as supervisor:
        listener.bind(str(tmp_path / "s"))
        listener.listen(1)
        opened: list[Channel] = []

        def connected(*orders: dict[str, object]) -> Channel:
            opened.append(Channel(str(tmp_path / "s"), 0, 0))
            peer = supervisor.enter_context(listener.accept()[0])
            peer.sendall(b"".join(json.dumps(order).encode() + b"\n" for order in orders))
            return opened[-1]

        yield connected
        supervisor.close()
        for reader in threading.enumerate():
            if reader.name == "rb-channel":
                reader.join(20)
        assert set(ended) == {EXIT_SUPERVISOR_GONE}
        for one in opened:
            assert isinstance(one._way, Near)
            one._way._socket.close()


def test_a_place_that_is_put_back_comes_before_later_ones(channel: Open) -> None:
    """A job that is lost twice while a worker starts calls it back twice."""
    orders = channel(
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


def test_what_is_for_a_training_thread_waits_aside(channel: Open) -> None:
    orders = channel(
        {"kind": "break", "what": "nan", "argument": None},
        {"kind": "release"},
        {"kind": "go"},
    )
    assert not orders.released() and orders.asides.popleft()["what"] == "nan"
    assert orders.released()
    assert orders.everybody_is_there()
