"""The control channel and those who are none of ours."""

from __future__ import annotations

import socket
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from recoverybench.job import guests
from recoverybench.job.guests import Guest
from recoverybench.protocol import BadMessage
from recoverybench.wire import handshake
from recoverybench.wire.address import Address
from recoverybench.wire.frames import BadFrame
from recoverybench.wire.handshake import NotOurs
from recoverybench.wire.ledger import Ledger
from recoverybench.worker import distant
from recoverybench.worker.distant import Distant, Refused
from tests.cutting import Cutter
from tests.desk import JOB, SECRET, Desk, Worker
from tests.strangers import WAYS


def test_strangers_get_a_challenge_and_no_more_and_workers_are_not_touched(
    desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "recorded").write_bytes(b"answer " + b"a" * 64 + b" " + b"b" * 64 + b"\n")
    monkeypatch.setattr(sys, "argv", ["", "", "", str(tmp_path / "recorded")])
    member = desk.expect()
    worker = desk.after(lambda: Worker(desk.address))
    where = Address.of(desk.address).where
    got: list[bytes] = []

    def visit(way: Callable[[socket.socket], None]) -> None:
        with socket.create_connection(where) as link:
            with suppress(OSError):
                way(link)
            answered = bytearray()
            with suppress(OSError):
                while data := link.recv(4096):
                    answered += data
            got.append(bytes(answered))

    for way in WAYS:
        desk.after(partial(visit, way))
    assert all(len(each) in (0, 91) for each in got) and any(got)
    reasons = {line["reason"] for line in desk.lines("stranger")}
    assert {
        "a line of more than 256 bytes",
        "more than an answer",
        "a proof that does not hold",
        "hung up",
    } <= reasons
    worker.way.send({"kind": "ready"})
    member.tell({"kind": "go"})
    desk.until(lambda: bool(desk.heard and worker.told))
    assert not desk.lost


def test_a_crowd_delays_a_worker_and_does_not_keep_it_out(desk: Desk) -> None:
    where = Address.of(desk.address).where
    desk.expect()
    crowd = desk.after(lambda: [socket.create_connection(where) for _ in range(300)])
    worker = desk.after(lambda: Worker(desk.address))
    worker.way.send({"kind": "ready"})
    desk.until(lambda: bool(desk.heard))
    found = desk.reception._guests
    assert found is not None and len(found._here) <= guests.MOST
    assert len(desk.lines("stranger")) == guests.MOST_LINES
    for link in crowd:
        link.close()
    desk.until(lambda: not found._here)
    found.close()
    desk.reception._strangers.close()
    assert desk.lines("strangers")[0]["count"] == 300


def test_who_says_nothing_is_turned_away(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handshake, "HANDSHAKE_S", 0.02)
    monkeypatch.setattr(guests, "_SWEEP_S", 0.01)
    with socket.create_connection(Address.of(desk.address).where) as link:
        link.sendall(b"answer ")
        desk.until(lambda: bool(desk.lines("stranger")))
        assert desk.lines("stranger")[0]["reason"] == "no answer within 0.02 s"
        assert len(link.recv(4096)) == 91 and link.recv(1) == b""


def test_a_handshake_that_was_recorded_lets_nobody_in(desk: Desk) -> None:
    desk.expect()
    cutter = Cutter(desk.address, iter(()))
    worker = desk.after(lambda: Worker(cutter.address))
    worker.way.send({"kind": "ready"})
    desk.until(lambda: bool(desk.heard))
    with socket.create_connection(Address.of(desk.address).where) as link:
        link.sendall(bytes(cutter.said).split(b"\n")[0] + b"\n")
        desk.until(lambda: bool(desk.lines("stranger")))
        assert desk.lines("stranger")[0]["reason"] == "a proof that does not hold"
    with socket.create_connection(Address.of(desk.address).where) as link:
        link.sendall(cutter.said)
        desk.until(lambda: len(desk.lines("stranger")) == 2)
    assert len(desk.heard) == 1 and not desk.lost
    cutter.close()


@given(st.lists(st.binary(min_size=1, max_size=300), max_size=6))
@example([b"answer " + b"0" * 64 + b" " + b"0" * 64 + b"\n"])
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_bytes_of_a_stranger_make_him_a_worker(pieces: list[bytes]) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.setblocking(False)
        guest = Guest(ours, "", bytes.fromhex(SECRET))
        try:
            for piece in pieces:
                theirs.sendall(piece)
                assert guest.receive() is None
        except (NotOurs, BadFrame, BadMessage, OSError):
            pass
        assert guest.frames is None


@pytest.mark.parametrize(
    ("slot", "received", "why"),
    [(1, 0, "slot 1 is not expected"), (0, 3, "slot 0 is not expected")],
)
def test_who_knows_the_secret_and_is_not_expected_is_refused(
    desk: Desk, slot: int, received: int, why: str
) -> None:
    desk.expect()

    def call() -> str:
        way = Distant.__new__(Distant)
        ledger = Ledger()
        ledger.received = received
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(distant, "Ledger", lambda: ledger)
            with pytest.raises(Refused) as caught:
                way.__init__(desk.address, bytes.fromhex(SECRET), slot, 0, 1)  # type: ignore[misc]
        return str(caught.value)

    assert desk.after(call) == why
    assert desk.lines("stranger")[0]["reason"] == why


def test_a_worker_of_an_earlier_job_on_the_same_port_is_a_stranger(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It knows the run's secret, and its slot is expected: the job is another one."""
    monkeypatch.setattr(distant, "RECONNECT_S", 0.05)
    member = desk.expect()
    here = Address.of(desk.address)
    with pytest.raises(Refused, match="no supervisor at"):
        desk.after(lambda: Worker(str(Address(here.host, here.port, JOB))))
    assert {line["reason"] for line in desk.lines("stranger")} == {"a proof that does not hold"}
    assert member.connection is None
    worker = desk.after(lambda: Worker(desk.address))
    worker.way.send({"kind": "ready"})
    desk.until(lambda: bool(desk.heard))


def test_a_second_worker_in_the_same_slot_is_refused(desk: Desk) -> None:
    desk.expect()
    first = desk.after(lambda: Worker(desk.address))
    with pytest.raises(Refused, match="slot 0 is not expected"):
        desk.after(lambda: Worker(desk.address))
    first.way.send({"kind": "ready"})
    desk.until(lambda: bool(desk.heard))


def test_a_supervisor_without_the_secret_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(distant, "RECONNECT_S", 0.05)
    monkeypatch.setattr(handshake, "HANDSHAKE_S", 1.0)

    def pretend(listener: socket.socket) -> None:
        link, _ = listener.accept()
        with link:
            link.sendall(handshake.challenge(bytes(32)) + b"\n")
            link.recv(256)
            link.sendall(b"welcome " + b"0" * 64 + b"\n")

    with socket.create_server(("127.0.0.1", 0)) as listener, ThreadPoolExecutor(1) as pool:
        pool.submit(pretend, listener)
        port = listener.getsockname()[1]
        with pytest.raises(Refused, match="no supervisor at"):
            Distant(f"tcp://127.0.0.1:{port}/{JOB}", bytes.fromhex(SECRET), 0, 0, 1)


def test_a_supervisor_that_trickles_is_left_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(distant, "RECONNECT_S", 0.0)
    monkeypatch.setattr(handshake, "HANDSHAKE_S", 0.2)
    enough = threading.Event()

    def trickle(listener: socket.socket) -> None:
        link, _ = listener.accept()
        with link, suppress(OSError):
            for byte in handshake.challenge(bytes(32)):
                link.sendall(bytes([byte]))
                if enough.wait(0.05):
                    return

    with socket.create_server(("127.0.0.1", 0)) as listener, ThreadPoolExecutor(1) as pool:
        pool.submit(trickle, listener)
        port = listener.getsockname()[1]
        began = time.monotonic()
        try:
            with pytest.raises(Refused, match="no supervisor at"):
                Distant(f"tcp://127.0.0.1:{port}/{JOB}", bytes.fromhex(SECRET), 0, 0, 1)
            assert time.monotonic() - began < 2.0  # the whole line would take 4 s
        finally:
            enough.set()
