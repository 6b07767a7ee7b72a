"""Supervisor and workers over the control channel, both ends for real, without a job."""

from __future__ import annotations

import itertools
import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from recoverybench.errors import HarnessError
from recoverybench.job import far, guests, loop, reception
from recoverybench.job.guests import Guest
from recoverybench.job.hub import Hub
from recoverybench.job.loop import Loop
from recoverybench.job.member import Member
from recoverybench.job.reception import Reception
from recoverybench.job.reported import Reported
from recoverybench.journal_writer import Journal
from recoverybench.launchers.base import Ended, Launcher, Process
from recoverybench.protocol import BadMessage, JobSpec, Message
from recoverybench.wire import handshake
from recoverybench.wire.address import Address
from recoverybench.wire.frames import BadFrame, Frame, Frames
from recoverybench.wire.handshake import SECRET_VARIABLE, NotOurs
from recoverybench.wire.ledger import Ledger
from recoverybench.wire.lines import encode
from recoverybench.worker import distant, reports
from recoverybench.worker.distant import Distant, Refused
from tests.cutting import Cut, Cutter
from tests.strangers import WAYS

SECRET = "5e" * 32
PATIENCE_S = 30.0
RANKS = 3
JOB = "0123456789abcdef"


@pytest.fixture(autouse=True)
def _ticks(monkeypatch: pytest.MonkeyPatch) -> None:
    """What other threads have done is seen soon: nothing wakes the loop for that."""
    monkeypatch.setattr(loop, "TICK_S", 0.005)


class Desk:
    """A reception on its loop, and what it tells its job."""

    def __init__(self, directory: Path, reach: str) -> None:
        directory.mkdir()
        self.path = directory / "supervisor.0.jsonl"
        self.journal = Journal(self.path, None, 0)
        self.loop = Loop(self.journal, time.monotonic_ns() + 10**12, lambda: None)
        self.heard: list[Message] = []
        self.lost: list[str] = []
        spec = SimpleNamespace(most_workers=RANKS, board=str(directory / "board"))
        self.reception = Reception(
            directory,
            launcher(reach),
            self.loop,
            self.journal,
            self,
            cast(JobSpec, spec),
        )

    @property
    def address(self) -> str:
        return self.reception.address

    def hear(self, member: Member, message: Message) -> None:
        self.heard.append(message)

    def lose(self, member: Member, why: str) -> None:
        self.lost.append(why)

    def expect(self, slot: int = 0, attempt: int = 0, pid: int = 1) -> Member:
        member = Member(slot, slot, attempt, Process(pid, -1, "cold", Path()))
        self.reception.expect(member)
        return member

    def until(self, holds: Callable[[], bool]) -> None:
        assert self.loop.pump(holds, PATIENCE_S), (self.heard[-3:], self.lost, self.lines())

    def lines(self, event: str = "") -> list[dict[str, Any]]:
        found = [json.loads(line) for line in self.path.read_text().splitlines()]
        return [line for line in found if line["event"] == event or not event]

    def last_is(self, reason: str) -> bool:
        return self.lines()[-1].get("reason") == reason

    def after(self, call: Callable[[], Any]) -> Any:
        """What it returns, called while the loop turns."""
        with ThreadPoolExecutor(1) as pool:
            future: Future[Any] = pool.submit(call)
            self.until(future.done)
            return future.result()

    def close(self) -> None:
        self.reception.close()
        self.loop.close()
        self.journal.close()


def launcher(reach: str, bind: str = "127.0.0.1", secret: str = SECRET) -> Launcher:
    made = SimpleNamespace(reach=reach, bind=bind, environment={SECRET_VARIABLE: secret})
    return cast(Launcher, made)


@contextmanager
def desk_at(directory: Path, reach: str = "network") -> Iterator[Desk]:
    desk = Desk(directory, reach)
    try:
        yield desk
    finally:
        desk.close()


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    with desk_at(tmp_path / "d") as made:
        yield made


class Worker:
    """A worker's end, with a thread that notes what it is told."""

    def __init__(self, address: str, slot: int = 0, attempt: int = 0) -> None:
        self.way = Distant(address, bytes.fromhex(SECRET), slot, attempt, 1)
        self.told: list[Message] = []
        self.ended: str | None = None
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        try:
            for message in self.way.messages():
                self.told.append(message)
        except (Refused, BadMessage) as error:
            self.ended = str(error)


# --- what is said -----------------------------------------------------------------------------


def test_what_waited_for_a_worker_is_told_first(desk: Desk) -> None:
    member = desk.expect()
    member.tell({"kind": "ping", "id": 1})
    worker = desk.after(lambda: Worker(desk.address))
    member.tell({"kind": "ping", "id": 2})
    worker.way.send({"kind": "ready"})
    worker.way.send({"kind": "pong", "id": 1})
    desk.until(lambda: len(desk.heard) == 2 and len(worker.told) == 2)
    assert [m["kind"] for m in desk.heard] == ["ready", "pong"]
    assert [m["id"] for m in worker.told] == [1, 2]
    assert not desk.lost and not desk.lines("stranger")


def test_steps_are_seen_as_on_a_board(desk: Desk) -> None:
    desk.expect(1)
    worker = desk.after(lambda: Worker(desk.address, 1))
    board = reports.Reports(worker.way.send_report, RANKS)
    worker.way.report = board.latest
    seen = desk.reception.steps
    assert (seen.begun(), seen.steps()) == ((0, 0, 0), (0, 0, 0))
    board.begin(1, 5)
    desk.until(lambda: seen.begun() == (0, 5, 0))
    assert seen.steps() == (0, 0, 0)
    for step in range(5, 300):
        board.begin(1, step)
        board.complete(1, step)
    worker.way.send({"kind": "done", "step": 299})
    desk.until(lambda: bool(desk.heard))
    assert (seen.begun(), seen.steps()) == ((0, 299, 0), (0, 299, 0))  # said before anything else


def test_reports_of_others_than_the_last_attempt_are_not_heard() -> None:
    seen = Reported(2)
    old, new = (Member(0, 0, attempt, Process(1, -1, "cold", Path())) for attempt in (0, 1))

    def progress(rank: int, begun: int | None, completed: int | None) -> Message:
        return {"kind": "progress", "rank": rank, "begun": begun, "completed": completed}

    seen.hear(old, progress(0, 9, 8))
    seen.hear(new, progress(0, 6, None))
    assert (seen.begun(), seen.steps()) == ((6, 0), (8, 0))
    seen.hear(old, progress(0, 10, 9))
    seen.hear(new, progress(1, 10, 9))
    seen.hear(new, progress(7, 10, 9))
    seen.hear(new, progress(-1, 10, 9))
    assert (seen.begun(), seen.steps()) == ((6, 0), (8, 0))


def test_reports_are_few() -> None:
    sent: list[float] = []
    board = reports.Reports(lambda: sent.append(time.monotonic()), workers=1)
    end = time.monotonic() + 0.3
    while time.monotonic() < end:
        board.begin(0, len(sent))
        time.sleep(0.001)
    assert 2 <= len(sent) <= 0.3 / reports.REPORT_S + 2
    assert all(b - a >= reports.REPORT_S * 0.99 for a, b in itertools.pairwise(sent))
    assert board.latest(False) is not None and board.latest(False) is None
    assert board.latest(True) is not None


def test_who_says_what_is_not_in_the_protocol_is_cut_off_for_good(desk: Desk) -> None:
    desk.expect()
    worker = desk.after(lambda: Worker(desk.address))
    worker.way.send({"kind": "hold", "at": "step:1", "step": "1"})
    desk.until(lambda: worker.ended is not None)
    assert desk.lost == ["said what is not in the protocol: hold: step is a str"]
    assert worker.ended == "slot 0 is not expected" and not desk.heard


def test_the_same_over_a_unix_socket(tmp_path: Path) -> None:
    with desk_at(tmp_path / "d", "host") as desk:
        member = desk.expect(pid=77)
        hello = {"slot": 0, "attempt": 0, "pid": 77, "session": "", "received": 0}
        good = encode({"kind": "hello", **hello}) + b"\n"
        for said, why in (
            (encode({"kind": "ready"}), "ready before hello"),
            (encode({"kind": "hello", **hello, "pid": 5}), "process 5 is not expected"),
            (b"[" * 9999, "a line that is no JSON"),
            (bytes(1 << 21), "a line of more than 1048576 bytes"),
        ):
            with socket.socket(socket.AF_UNIX) as link:
                link.connect(desk.address)
                with ThreadPoolExecutor(1) as pool:
                    pool.submit(link.sendall, said + b"\n")
                    desk.until(partial(desk.last_is, why))
        with socket.socket(socket.AF_UNIX) as link:
            link.connect(desk.address)
            link.sendall(good + encode({"kind": "ready"}) + b"\n" + good)
            desk.until(lambda: bool(desk.lost))
        assert desk.lost == ["said what is not in the protocol: hello out of its place"]
        assert desk.heard == [{"kind": "ready"}] and member.connection is not None


# --- strangers --------------------------------------------------------------------------------


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


# --- connections that are lost ----------------------------------------------------------------

CUTS = st.lists(
    st.tuples(st.none() | st.integers(1, 3000), st.none() | st.integers(1, 3000)), max_size=8
)


@given(CUTS, st.booleans())
@example([(30, None), (None, 120), (170, None), (400, 400), (401, 399)], False)
@example([(900, None), (None, 900), (1500, 1400)], True)
@settings(
    max_examples=12, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None
)
def test_everything_arrives_once_and_in_order_whatever_is_cut(
    tmp_path_factory: pytest.TempPathFactory, cuts: list[Cut], flip: bool
) -> None:
    count = 40
    with desk_at(tmp_path_factory.mktemp("cut") / "d") as desk:
        member = desk.expect()
        cutter = Cutter(desk.address, iter(cuts), flip=flip)
        worker = desk.after(lambda: Worker(cutter.address))
        for number in range(count):
            member.tell({"kind": "ping", "id": number})
            worker.way.send({"kind": "pong", "id": number})
            desk.loop.turn(0.0)
        desk.until(lambda: len(desk.heard) == len(worker.told) == count)
        assert [m["id"] for m in desk.heard] == list(range(count))
        assert [m["id"] for m in worker.told] == list(range(count))
        assert not desk.lost and worker.ended is None
        cutter.close()


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


# --- the door itself --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("made", "words"),
    [
        (launcher("network", secret=""), "has no secret"),
        (launcher("network", secret="zz" * 32), "expected 64 hexadecimal digits"),
        (launcher("network", bind="192.0.2.1"), "cannot listen on 192.0.2.1"),
        (launcher("network", bind="no such host."), "cannot listen on no such host."),
    ],
)
def test_what_keeps_it_from_listening_is_said(tmp_path: Path, made: Launcher, words: str) -> None:
    with pytest.raises(HarnessError, match=words) as caught:
        Hub(tmp_path / "s", made)
    assert "zz" * 32 not in str(caught.value)


SPEAKER = """
import os, sys
from recoverybench.worker.channel import Channel
channel = Channel(sys.argv[1], 0, 0)
print("RECOVERYBENCH_SECRET" in os.environ, flush=True)
channel.send("done", step=1)
channel.order()
"""


def speak(address: str, secret: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-c", SPEAKER, address],
        env={**os.environ, SECRET_VARIABLE: secret},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )


def test_a_worker_keeps_the_secret_to_itself_and_ends_when_told(desk: Desk) -> None:
    member = desk.expect()
    with speak(desk.address, SECRET) as process:
        desk.until(lambda: bool(desk.heard))
        member.tell({"kind": "exit"})
        desk.until(lambda: process.poll() is not None)
        said, _ = process.communicate()
    assert (process.returncode, said) == (0, b"False\n")


def test_a_worker_without_the_secret_says_so_and_not_what_it_had(desk: Desk) -> None:
    with speak(desk.address, "5f" * 31) as process:
        said, _ = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 74
    assert b"expected 64 hexadecimal digits" in said and b"5f5f" not in said
