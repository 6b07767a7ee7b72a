"""The storage gate: what policies decide, and what becomes of real file operations."""

from __future__ import annotations

import errno
import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from recoverybench import capabilities
from recoverybench.gate.gate import Gate
from recoverybench.gate.policies import (
    CONTINUE,
    Bandwidth,
    Broken,
    Delay,
    Fail,
    Hold,
    HoldAfter,
    Kind,
    Moment,
    Nth,
    Operation,
    Tear,
    save_of,
)


def op(
    kind: Kind = "write",
    *,
    worker: int | None = 1,
    size: int = 100,
    time_s: float = 0.0,
    save: int | None = 20,
) -> Operation:
    return Operation(worker, kind, "/c/20/x", size if kind == "write" else 0, 1, time_s, save)


# Policies


def test_a_broken_disk_fails_some_kinds_for_a_time() -> None:
    full = Broken(errno.ENOSPC, frozenset({"write", "create"}), until_s=10.0)
    assert full.decide(op("write", time_s=9.9)) == Fail(errno.ENOSPC)
    assert full.decide(op("create", time_s=9.9)) == Fail(errno.ENOSPC)
    assert full.decide(op("unlink", time_s=9.9)) == CONTINUE
    assert full.decide(op("write", time_s=10.0)) == CONTINUE
    assert full.hits == 2


def test_a_broken_disk_without_an_end_stays_broken() -> None:
    assert Broken(errno.EIO, frozenset({"write"})).decide(op(time_s=1e9)) == Fail(errno.EIO)


def test_workers_stand_in_line_for_one_slow_disk() -> None:
    disk = Bandwidth(100.0)
    assert disk.decide(op(worker=0, size=100, time_s=5.0)) == Delay(1.0)
    assert disk.decide(op(worker=1, size=50, time_s=5.5)) == Delay(1.0)  # free at 6.0, then 0.5
    assert disk.decide(op("mkdir", time_s=5.5)) == CONTINUE
    assert disk.decide(op(size=100, time_s=99.0)) == Delay(1.0)  # it was idle meanwhile
    assert disk.hits == 3


@pytest.mark.parametrize(
    ("moment", "kind", "decision"),
    [
        ("before", "write", Hold()),
        ("before", "rename", Hold()),
        ("torn", "write", Tear()),
        ("torn", "rename", Hold()),
        ("after", "write", HoldAfter()),
        ("after", "rename", HoldAfter()),
    ],
)
def test_the_nth_operation_of_a_save(moment: Moment, kind: Kind, decision: object) -> None:
    nth = Nth(1, 3, moment)
    assert nth.decide(op("rename", save=None)) == CONTINUE  # no checkpoint's
    assert nth.decide(op(worker=0)) == CONTINUE
    assert nth.decide(op("mkdir")) == CONTINUE
    assert nth.decide(op("read")) == CONTINUE
    assert nth.decide(op(save=30)) == CONTINUE  # the first one chose step 20
    assert nth.decide(op("create")) == CONTINUE
    assert nth.decide(op(kind)) == decision
    assert nth.decide(op(kind)) == CONTINUE
    assert (nth.seen, nth.step) == (3, 20)
    assert nth.torn == (moment == "torn" and kind == "write")


def test_the_nth_operation_of_a_chosen_save() -> None:
    nth = Nth(1, 1, "before", step=30)
    assert nth.decide(op(save=20)) == CONTINUE
    assert nth.decide(op(save=30)) == Hold()


@pytest.mark.parametrize(
    ("path", "step"),
    [
        ("/c/20/state/d/x", 20),
        ("/c/20.orbax-checkpoint-tmp", 20),
        ("/c/20.orbax-checkpoint-tmp/state.orbax-checkpoint-tmp/0001", 20),
        ("/c/worker-1/15/x", 15),
        ("/c/worker-1", None),
        ("/c", None),
        ("/cc/20/x", None),
        ("/c/20x/y", None),
    ],
)
def test_which_save_a_path_belongs_to(path: str, step: int | None) -> None:
    assert save_of(path, ("/c",)) == step


# The real thing

CHILD = """
import json, os, sys, threading, time
from recoverybench.worker import gate
above = threading.Event()
def elsewhere():
    above.wait()
    try:
        write(sys.argv[2] + "/thread")
    except OSError as error:
        print(json.dumps([error.errno]), flush=True)
def write(path, data=b"0123456789", how=os.write):
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    try:
        return how(fd, data), fd
    finally:
        os.close(fd)
before = threading.Thread(target=elsewhere)
before.start()
gate.install(sys.argv[1])
print(json.dumps("installed"), flush=True)
for line in sys.stdin:
    t = time.monotonic()
    try:
        result = eval(line)
    except OSError as error:
        result = [error.errno]
    print(json.dumps([result, time.monotonic() - t]), flush=True)
"""


@dataclass
class Worker:
    process: subprocess.Popen[bytes]
    directory: Path
    gate: Gate

    def say(self, code: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(code.encode() + b"\n")

    def hear(self, timeout_s: float = 20.0) -> Any:
        assert self.process.stdout is not None
        assert select.select([self.process.stdout], [], [], timeout_s)[0], "it says nothing"
        return json.loads(self.process.stdout.readline())

    def do(self, code: str) -> Any:
        self.say(code)
        return self.hear()[0]

    def await_reached(self) -> None:
        assert select.select([self.gate.wakes], [], [], 20.0)[0], "nothing was reached"
        self.gate.deliver()


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    (tmp_path / "c" / "20").mkdir(parents=True)
    (tmp_path / "outside").mkdir()
    return tmp_path / "c" / "20"


@pytest.fixture
def start(directory: Path, tmp_path: Path) -> Iterator[Callable[..., Worker]]:
    if (why := capabilities.MISSING["user-notification"]()) is not None:
        pytest.skip(why)
    started: list[Worker] = []

    def begin(reads: bool = False) -> Worker:
        gate = Gate(tmp_path / "g", [directory.parent], lambda _: 1)
        if reads:
            gate.watch_reads()
        process = subprocess.Popen(
            [sys.executable, "-c", CHILD, gate.address, str(directory)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,  # `select` sees nothing of what a buffer holds
            cwd=directory.parent,
        )
        worker = Worker(process, directory, gate)
        started.append(worker)
        assert worker.hear() == "installed"
        return worker

    yield begin
    for worker in started:
        worker.process.kill()
        worker.process.communicate()
        worker.gate.close()


def test_what_is_allowed_happens(start: Callable[..., Worker], tmp_path: Path) -> None:
    worker = start()
    worker.gate.begin_counting()
    assert worker.do("write('20/a')[0]") == 10
    assert worker.do(f"write({str(tmp_path / 'outside' / 'a')!r})[0]") == 10
    assert worker.gate.operations == {1: 2}  # create, write; nothing of the one outside
    assert worker.do("os.rename('20/a', '20/b')") is None
    assert worker.do("os.mkdir('20/d')") is None
    assert worker.do("os.rmdir('20/d')") is None
    assert worker.do("write('20/v', [b'ab', b'cde'], os.writev)[0]") == 5
    assert worker.do("os.symlink('b', '20/s')") is None
    assert worker.do("os.unlink('20/v')") is None
    assert worker.gate.operations == {1: 9}
    assert (worker.directory / "b").read_bytes() == b"0123456789"
    assert sorted(p.name for p in worker.directory.iterdir()) == ["b", "s"]


def test_an_error_reaches_the_worker_and_nothing_the_disk(start: Callable[..., Worker]) -> None:
    worker = start()
    full = Broken(errno.ENOSPC, frozenset({"write", "mkdir"}))
    worker.gate.impose(full)
    assert worker.do("write('20/a')") == [errno.ENOSPC]
    assert worker.do("os.mkdir('20/d')") == [errno.ENOSPC]
    assert (worker.directory / "a").read_bytes() == b""
    worker.gate.lift(full)
    assert worker.do("write('20/a')[0]") == 10
    assert full.hits == 2


def test_every_thread_is_under_the_filter(start: Callable[..., Worker]) -> None:
    worker = start()
    worker.gate.impose(Broken(errno.EROFS, frozenset({"create"})))
    worker.say("above.set() or before.join()")
    heard = [worker.hear()[0], worker.hear()[0]]
    assert errno.EROFS in heard


def test_reads_are_watched_where_that_is_asked_for(start: Callable[..., Worker]) -> None:
    worker = start(reads=True)
    (worker.directory / "a").write_bytes(b"x" * 100)
    assert worker.do("len(open('20/a').read())") == 100
    worker.gate.impose(Broken(errno.EIO, frozenset({"read"})))
    assert worker.do("open('20/a').read()") == [errno.EIO]
    assert worker.do("len(open('/proc/self/status').read()) > 0") is True
    assert worker.gate.operations == {}


def test_a_delay_takes_its_time(start: Callable[..., Worker]) -> None:
    worker = start()
    worker.gate.impose(Bandwidth(50.0))
    worker.say("write('20/a')[0]")
    written, took_s = worker.hear()
    assert written == 10
    assert took_s >= 0.2


@pytest.mark.parametrize(
    ("moment", "content"), [("before", b""), ("torn", b"01234"), ("after", b"0123456789")]
)
def test_a_held_write_dies_with_its_process(
    start: Callable[..., Worker], moment: Moment, content: bytes
) -> None:
    worker = start()
    reached: list[str] = []
    arm = worker.gate.arm(1, 2, moment, lambda: reached.append("now"))
    worker.say("write('20/a')")
    worker.await_reached()
    assert reached == ["now"]
    assert arm.operation is not None
    assert (arm.operation.kind, arm.operation.bytes) == ("write", 10)
    worker.process.send_signal(signal.SIGKILL)
    assert worker.process.wait(20) == -signal.SIGKILL
    assert (worker.directory / "a").read_bytes() == content


@pytest.mark.parametrize("moment", ["before", "torn", "after"])
@pytest.mark.parametrize("k", [1, 2, 3])
def test_a_held_operation_can_go_on(start: Callable[..., Worker], moment: Moment, k: int) -> None:
    worker = start()
    arm = worker.gate.arm(1, k, moment, lambda: None, step=20)
    worker.say("write('20/a')[0], os.rename('20/a', '20/b')")
    worker.await_reached()
    renamed = moment == "after" and k == 3
    assert (worker.directory / "b").exists() == renamed
    arm.release()
    assert worker.hear()[0] == [10, None]
    assert (worker.directory / "b").read_bytes() == b"0123456789"


def test_an_executed_operation_keeps_its_error(start: Callable[..., Worker]) -> None:
    worker = start()
    arm = worker.gate.arm(1, 1, "after", lambda: None)
    worker.say("os.rmdir('20/nothing')")
    worker.await_reached()
    arm.release()
    assert worker.hear()[0] == [errno.ENOENT]


def test_many_files_are_open_at_once(start: Callable[..., Worker]) -> None:
    worker = start()
    opened = "[os.open(f'20/{i}', os.O_CREAT | os.O_WRONLY) for i in range(300)]"
    assert worker.do(f"min({opened})") >= 512
    assert worker.do(opened) == [errno.EMFILE]  # an honest error, and no file unwatched
    assert worker.do("os.closerange(512, 1024)") is None
    assert worker.do("write('20/a')[0]") == 10


def test_a_plainer_call_takes_the_place_of_one_that_cannot_be_judged(
    start: Callable[..., Worker],
) -> None:
    worker = start()
    worker.gate.impose(Broken(errno.ENOSPC, frozenset({"write"})))
    code = "__import__('shutil').copyfile('/proc/self/exe', '20/copy')"
    assert worker.do(code) == [errno.ENOSPC]


def test_nothing_is_left_of_workers_that_ended(start: Callable[..., Worker]) -> None:
    worker = start()

    def files() -> int:
        return len(os.listdir("/proc/self/fd"))

    worker.gate.arm(1, 1, "after", lambda: None)  # its thread has done with the greeting
    there = files()
    worker.say("write('20/a')")
    worker.await_reached()
    worker.process.kill()
    worker.process.wait(20)
    end = time.monotonic() + 20
    while files() != there - 1 and time.monotonic() < end:
        select.select([], [], [], 0.01)
    assert files() == there - 1  # its filter; the file that was opened for it is closed, too
