"""A reception and its workers, both ends for real, without a job."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from recoverybench.job import loop
from recoverybench.job.loop import Loop
from recoverybench.job.member import Member
from recoverybench.job.reception import Reception
from recoverybench.journal_writer import Journal
from recoverybench.launchers.base import Launcher, Process
from recoverybench.network import Machine
from recoverybench.protocol import BadMessage, JobSpec, Message
from recoverybench.wire.handshake import SECRET_VARIABLE
from recoverybench.worker.distant import Distant, Refused
from tests.machines import on

SECRET = "5e" * 32
PATIENCE_S = 30.0
RANKS = 3
JOB = "0123456789abcdef"


class Desk:
    """A reception on its loop, and what it tells its job."""

    def __init__(self, directory: Path, reach: str, bind: str) -> None:
        directory.mkdir()
        self.path = directory / "supervisor.0.jsonl"
        self.journal = Journal(self.path, None, 0)
        self.loop = Loop(self.journal, time.monotonic_ns() + 10**12, lambda: None)
        self.heard: list[Message] = []
        self.lost: list[str] = []
        spec = SimpleNamespace(most_workers=RANKS, board=str(directory / "board"))
        self.reception = Reception(
            directory,
            launcher(reach, bind),
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
def desk_at(
    directory: Path, reach: str = "network", machine: Machine | None = None
) -> Iterator[Desk]:
    """A desk; it listens on that machine of a network (None: on loopback)."""
    with pytest.MonkeyPatch.context() as patch:
        # What other threads have done is seen soon: nothing wakes the loop for that.
        patch.setattr(loop, "TICK_S", 0.005)
        if machine is None:
            desk = Desk(directory, reach, "127.0.0.1")
        else:
            desk = on(machine, lambda: Desk(directory, reach, machine.address))
        try:
            yield desk
        finally:
            desk.close()


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
