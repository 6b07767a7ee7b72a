"""Which workers are asked what their clock shows, and what the supervisor writes down of it."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from recoverybench.analysis.journal import read_journal
from recoverybench.clocks import clock_problem
from recoverybench.faults.preempt import _of_clocks
from recoverybench.job.clocks import EXCHANGES, MOST_SILENT, measure_clocks
from recoverybench.job.job import Job
from recoverybench.job.member import Member
from recoverybench.journal_writer import Journal, boot_id, time_namespace
from recoverybench.launchers.base import Ended, Process

SECOND = 10**9


class Peer:
    """A worker's end of the channel: it answers at once, by a clock that is so far off, or never.

    Attributes:
        member: who answers. asked: how often it was.
    """

    def __init__(self, offset: int | None) -> None:
        self.offset = offset
        self.asked = 0
        self.member: Member | None = None

    def send(self, message: dict[str, Any]) -> None:
        assert self.member is not None and message["kind"] == "clock"
        self.asked += 1
        if self.offset is not None:
            shown = time.monotonic_ns() + self.offset
            self.member.hear({"kind": "clock", "id": message["id"], "t": shown})


class Fixture:
    """A job of workers that are not there, each with a journal of its own."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.members: list[Member] = []
        self.path = directory / "supervisor.0.jsonl"
        self.journal = Journal(self.path, None, 0)
        self.waited: list[float] = []
        self.reach = "host"

    def worker(self, offset: int | None, space: str | None = None, boot: str = "") -> Peer:
        rank = len(self.members)
        head = {"event": "journal", "boot_id": boot or boot_id(), "time_namespace": space}
        (self.directory / f"{rank}.0.jsonl").write_text(json.dumps(head) + "\n")
        peer = Peer(offset)
        process = Process(100 + rank, -1, "cold", self.directory / f"{rank}.0.log")
        peer.member = Member(rank, rank, 0, process, connection=cast(Any, peer))
        self.members.append(peer.member)
        return peer

    def measure(self) -> list[dict[str, Any]]:
        """The `clock` lines that it makes."""

        def turn_while(holds: Callable[[], bool], timeout_s: float) -> None:
            if holds():
                self.waited.append(timeout_s)

        job = SimpleNamespace(
            members=self.members,
            launcher=SimpleNamespace(reach=self.reach),
            spec=SimpleNamespace(journals=str(self.directory)),
            journal=self.journal,
            turn_while=turn_while,
        )
        measure_clocks(cast(Job, job))
        return [line for line in read_journal(self.path).lines if line["event"] == "clock"]


@pytest.fixture
def job(tmp_path: Path) -> Fixture:
    return Fixture(tmp_path)


def test_workers_with_our_clock_are_not_asked(job: Fixture) -> None:
    peers = [job.worker(0, time_namespace()) for _ in range(3)]
    assert job.measure() == [] and [peer.asked for peer in peers] == [0, 0, 0]
    assert all(member.offset is None for member in job.members)
    assert _of_clocks(job.members) == {}


def test_one_worker_answers_for_all_that_have_its_clock(job: Fixture) -> None:
    peers = [job.worker(7 * SECOND, "time:[1] 7 0") for _ in range(2)]
    peers.append(job.worker(-9 * SECOND, boot="another"))
    lines = job.measure()
    assert [peer.asked for peer in peers] == [EXCHANGES, 0, EXCHANGES]
    assert [line["worker"] for line in lines] == [0, 2]
    for line, offset in zip(lines, (7 * SECOND, -9 * SECOND), strict=True):
        assert abs(line["offset_ns"] - offset) <= line["bound_ns"] < SECOND
        assert len(line["round_trips_ns"]) == EXCHANGES
        assert line["bound_ns"] == (min(line["round_trips_ns"]) + 1) // 2
    assert [(line["boot_id"], line["time_namespace"]) for line in lines] == [
        (boot_id(), "time:[1] 7 0"),
        ("another", None),
    ]
    first, second, third = (member.offset for member in job.members)
    assert first == second == (lines[0]["offset_ns"], lines[0]["bound_ns"]) and third != first
    bounds = {line["bound_ns"] for line in lines}
    assert _of_clocks(job.members) == {"clock_offset_ns": 0, "clock_bound_ns": max(bounds)}


def test_over_a_network_each_worker_is_asked_whether_its_clock_can_be_that(job: Fixture) -> None:
    job.reach = "network"
    peers = [job.worker(0, time_namespace()) for _ in range(2)]
    peers += [job.worker(7 * SECOND, "time:[1] 7 0") for _ in range(2)]
    lines = job.measure()
    assert [peer.asked for peer in peers] == [1, 1, EXCHANGES, 1]
    assert [(line["worker"], line["differs"]) for line in lines] == [(2, False)]
    ours, _, first, second = (member.offset for member in job.members)
    assert ours is None and first == second is not None


def test_machines_resumed_from_one_snapshot_are_told_apart(job: Fixture) -> None:
    """They say the same boot and the same namespace."""
    job.reach = "network"
    for offset, boot in ((3 * SECOND, ""), (5 * SECOND, "another"), (6 * SECOND, "another")):
        job.worker(offset, time_namespace(), boot)
    lines = job.measure()
    assert [(line["worker"], line["differs"]) for line in lines] == [
        (0, True),
        (1, False),
        (2, True),
    ]
    found = [member.offset[0] / SECOND for member in job.members if member.offset is not None]
    assert found == pytest.approx([3, 5, 6], abs=0.1)
    problem = clock_problem([read_journal(job.path).lines])
    assert problem is not None and problem.startswith("worker 0, attempt 0 says what others say")


def test_who_does_not_answer_leaves_it_to_the_next(job: Fixture) -> None:
    silent, ended, sound = (job.worker(o, "time:[1] 7 0") for o in (None, 0, 7 * SECOND))
    assert ended.member is not None
    ended.member.ended = Ended(0, None)
    lines = job.measure()
    assert (silent.asked, ended.asked, sound.asked) == (1, 0, EXCHANGES)
    assert [line["worker"] for line in lines] == [2] and len(job.waited) == 1


def test_a_job_that_hangs_as_a_whole_is_not_waited_for_worker_by_worker(job: Fixture) -> None:
    peers = [job.worker(None, f"time:[{i}] {i} 0") for i in range(1, 30)]
    assert job.measure() == [] and sum(peer.asked for peer in peers) == MOST_SILENT


@pytest.mark.parametrize("content", ["", '{"event": "journal", "boot_'])
def test_who_has_no_journal_yet_is_not_asked(job: Fixture, content: str) -> None:
    first, second = job.worker(0, boot="another"), job.worker(0, boot="another")
    (job.directory / "0.0.jsonl").write_text(content)
    os.unlink(job.directory / "1.0.jsonl")
    assert job.measure() == [] and (first.asked, second.asked) == (0, 0)


def test_what_a_worker_says_of_its_stop_is_moved_to_our_clock(job: Fixture) -> None:
    (member,) = (job.worker(5 * SECOND, "time:[1] 5 0").member,)
    assert member is not None
    job.measure()
    now = time.monotonic_ns()
    member.hear({"kind": "suspended", "step": 3, "stopped_ns": now + 5 * SECOND})
    assert member.suspended is not None and member.suspended[0] == 3
    assert abs(member.suspended[1] - now) < SECOND // 10


def test_the_time_namespace_of_this_process_has_its_offset() -> None:
    found = time_namespace()
    if found is None:
        pytest.skip("a kernel without time namespaces")
    number, seconds, nanoseconds = found.split()
    assert number.startswith("time:[") and int(seconds) * int(nanoseconds) >= 0
