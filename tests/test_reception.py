"""Supervisor and workers over the control channel: what is said, and the door itself."""

from __future__ import annotations

import itertools
import os
import socket
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest

from recoverybench.errors import HarnessError
from recoverybench.job.hub import Hub
from recoverybench.job.member import Member
from recoverybench.job.reported import Reported
from recoverybench.launchers.base import Launcher, Process
from recoverybench.protocol import Message
from recoverybench.wire.handshake import SECRET_VARIABLE
from recoverybench.wire.lines import encode
from recoverybench.worker import reports
from tests.desk import PATIENCE_S, RANKS, SECRET, Desk, Worker, desk_at, launcher

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
