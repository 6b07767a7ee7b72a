"""The control channel over connections that are lost, and machines that fall silent."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from recoverybench.job import far, reception
from recoverybench.job.near import Near
from recoverybench.launchers.base import Ended
from recoverybench.network import Network, rules
from recoverybench.wire import handshake, sockets
from recoverybench.wire.frames import Frame, Frames
from recoverybench.worker import distant, reports
from recoverybench.worker.distant import Refused
from tests.cutting import Cut, Cutter
from tests.desk import RANKS, Desk, Worker, desk_at
from tests.machines import needs_rights, on

CUTS = st.lists(
    st.tuples(st.none() | st.integers(1, 3000), st.none() | st.integers(1, 3000)), max_size=8
)


COUNT = 40


def talk(directory: Path, cuts: list[Cut], *, flip: bool) -> dict[str, Any]:
    """A conversation both ways at once, and all that is left of it but instants."""
    with desk_at(directory) as desk:
        member = desk.expect(1)
        cutter = Cutter(desk.address, iter(cuts), flip=flip)
        worker = desk.after(lambda: Worker(cutter.address, 1))
        board = reports.Reports(worker.way.send_report, RANKS)
        worker.way.report = board.latest
        for number in range(COUNT):
            member.tell({"kind": "ping", "id": number})
            board.begin(1, number)
            board.complete(1, number)
            worker.way.send({"kind": "pong", "id": number})
            desk.loop.turn(0.0)
        desk.until(lambda: len(desk.heard) == len(worker.told) == COUNT)
        cutter.close()
        return {
            "heard": list(desk.heard),
            "told": list(worker.told),
            "steps": (desk.reception.steps.begun(), desk.reception.steps.steps()),
            "lost": (list(desk.lost), worker.ended),
            "journal": [
                line["event"]
                for line in desk.lines()
                if line["event"] not in ("channel_resumed", "stranger", "strangers")
            ],
        }


@given(CUTS, st.booleans())
@example([(30, None), (None, 120), (170, None), (400, 400), (401, 399)], False)
@example([(900, None), (None, 900), (1500, 1400)], True)
@settings(
    max_examples=12, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None
)
def test_everything_is_as_without_a_cut_whatever_is_cut(
    tmp_path_factory: pytest.TempPathFactory, cuts: list[Cut], flip: bool
) -> None:
    found = talk(tmp_path_factory.mktemp("cut") / "d", cuts, flip=flip)
    assert found == {
        "heard": [{"kind": "pong", "id": number} for number in range(COUNT)],
        "told": [{"kind": "ping", "id": number} for number in range(COUNT)],
        "steps": ((0, COUNT - 1, 0), (0, COUNT - 1, 0)),
        "lost": ([], None),
        "journal": ["journal"],
    }


def test_a_worker_that_does_not_come_back_is_lost(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reception, "RECONNECT_S", 0.1)
    monkeypatch.setattr(distant, "RECONNECT_S", 0.1)
    member = desk.expect()
    cutter = Cutter(desk.address, iter(()))
    worker = desk.after(lambda: Worker(cutter.address))
    cutter.close()
    desk.until(lambda: bool(desk.lost and worker.ended))
    assert desk.lost == ["hung up, and did not come back for 0.1 s"]
    assert worker.ended is not None and worker.ended.startswith("no supervisor at")
    with pytest.raises(Refused):
        desk.after(lambda: Worker(desk.address))  # too late for anybody in that slot
    member.ended = Ended(0, None)


def test_one_that_reads_nothing_costs_no_more_memory(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(far, "MOST_WAITING", 1 << 18)
    ours, theirs = socket.socketpair()
    with theirs:
        ours.setblocking(False)
        asked: list[bool] = []
        line = far.Line(ours, Frames(b"s", b"w"), lambda _, wanted: asked.append(wanted))
        spoken = far.Far("x")
        spoken.attach(line, 0)
        for _ in range(2000):
            spoken.send({"kind": "serve", "address": "x" * 1000, "world": 1})
        assert asked == [True]
        spoken.receive()
        assert spoken.receive() is None and not spoken.over
        while theirs.recv(1 << 20):  # what had been taken, and the end
            pass
    ours.close()


def test_one_on_the_same_host_that_reads_nothing_is_hung_up_on() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.setblocking(False)
        spoken = Near(ours)
        for _ in range(2000):
            spoken.send({"kind": "serve", "address": "x" * 1000, "world": 1})
        assert spoken.receive() is None
        got = bytearray()
        while data := theirs.recv(1 << 20):
            got += data
    whole = got.splitlines(keepends=True)[:-1]
    assert len(whole) > 1 and all(len(line) == len(whole[0]) for line in whole)


def test_one_that_comes_back_with_numbers_that_cannot_be_is_lost(desk: Desk) -> None:
    desk.expect()
    worker = desk.after(lambda: Worker(desk.address))
    worker.way._ledger.received = 99
    worker.way._socket.shutdown(socket.SHUT_RDWR)
    desk.until(lambda: bool(desk.lost and worker.ended))
    assert desk.lost == ["said what is not in the protocol: 99 acknowledged, of 0 to 0"]
    assert worker.ended == "99 acknowledged, of 0 to 0"


def test_what_the_kernel_does_not_take_at_once_follows(desk: Desk) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.setblocking(False)
        desk.loop.register(ours, lambda: line.flush())
        line = far.Line(ours, Frames(b"s", b"w"), desk.loop.await_writing)
        bodies = [b"%06d" % n + b"x" * 1000 for n in range(2000)]
        for body in bodies:
            line.put(Frame(0, 0, body))
        got = bytearray()

        def read() -> None:
            while got.count(b"\n") < len(bodies):
                got.extend(theirs.recv(1 << 16))

        desk.after(read)
        assert [part.split(b" ", 3)[3] for part in bytes(got).splitlines()] == bodies
        desk.loop.unregister(ours)


@needs_rights
def test_a_machine_that_falls_silent_is_noticed_on_both_sides(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Packets are dropped: nobody hangs up, so no end of a connection is ever heard of."""
    for name, value in (("_IDLE_S", 1), ("_BETWEEN_S", 1), ("_UNANSWERED", 1)):
        monkeypatch.setattr(sockets, name, value)
    monkeypatch.setattr(sockets, "_UNACKNOWLEDGED_MS", 1000)
    monkeypatch.setattr(handshake, "HANDSHAKE_S", 0.5)
    network = Network(2)
    here, there = network.machine(0), network.machine(1)
    try:
        with desk_at(tmp_path / "d", machine=here) as desk:
            member = desk.expect()
            worker = desk.after(lambda: on(there, lambda: Worker(desk.address)))
            there.drop(rules.partition())
            member.tell({"kind": "ping", "id": 1})
            worker.way.send({"kind": "pong", "id": 1})
            spoken = member.connection
            assert isinstance(spoken, far.Far)
            desk.until(lambda: spoken.lost > 0)
            there.mend()
            desk.until(lambda: bool(desk.heard and worker.told))
            assert [m["id"] for m in (*desk.heard, *worker.told)] == [1, 1] and not desk.lost
    finally:
        network.close()
