"""However a run ends: no process of it is left, what was measured is kept, and it can go on."""

from __future__ import annotations

import json
import shlex
import signal
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from recoverybench.leftovers import owner_mark
from recoverybench.protocol import OWNER_VARIABLE
from recoverybench.results import store as results
from tests.real_support import (
    PATIENCE_S,
    Command,
    await_gone,
    await_line,
    await_state,
    finish,
    started_by,
    story,
    suite_text,
)

pytestmark = [pytest.mark.real, pytest.mark.timeout(400)]


@dataclass(frozen=True, slots=True)
class Ended:
    """A run that was ended in the middle of its second trial, while a worker was stopped.

    Attributes:
        how: the signal. code: the command's exit code. said: what it printed.
        status: of the run. workers: processes that it had, with their command lines.
        stopped: the worker that was stopped. left: those that outlived the command.
        directories: working directories that it left. finished: `trials.jsonl` as it was.
        siblings: other people's processes. stray: one of its own that hides from its end.
        resumed: code of the run that went on. said_then: what that printed.
        run: after that. directories_then: working directories left after that.
    """

    how: signal.Signals
    code: int
    said: str
    status: str
    workers: dict[int, str]
    stopped: int
    left: list[int]
    directories: list[str]
    finished: bytes
    siblings: list[subprocess.Popen[bytes]]
    stray: subprocess.Popen[bytes]
    resumed: int
    said_then: str
    run: results.Run
    directories_then: list[str]


@pytest.fixture(scope="module", params=["SIGINT", "SIGTERM", "SIGKILL"])
def ended(
    request: pytest.FixtureRequest, command: Command, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Ended]:
    how = signal.Signals[request.param]
    directory = tmp_path_factory.mktemp(request.param)
    siblings = [_sleeper(None), _sleeper(owner_mark())]
    arguments = command.arguments(
        directory,
        # With this seed the first block is in this order: the run is ended in the second trial.
        suite_text({"fault": ["kill", "hang"], "watchdog": ["3s"]}, seed=1),
    )
    process = command.start(*arguments, output=directory / "said")
    stray = None
    try:
        journal = directory / "run" / "journal" / "0001" / "supervisor.0.jsonl"
        victim = await_line(process, journal, "inject", fault="hang")["worker"]
        stopped = await_line(process, journal, "spawn", worker=victim)["pid"]
        await_state(stopped, "T")  # a signal takes effect when its process next runs
        workers = started_by(process.pid)
        mark = f"{process.pid}-{_start_time(process.pid)}"
        process.send_signal(how)
        code = finish(process)
        left = await_gone(workers) if how == signal.SIGKILL else list(started_by(process.pid))
        said = (directory / "said").read_text()
        status = json.loads((directory / "run" / "run.json").read_text())["status"]
        finished = (directory / "run" / "trials.jsonl").read_bytes()
        directories = _working_directories(command)
        stray = _sleeper(mark)
        arguments = [*arguments[: arguments.index("--report")], "--resume"]
        if how != signal.SIGKILL:  # what it said itself
            (line,) = (x for x in said.splitlines() if x.startswith("Interrupted. To go on: "))
            arguments = shlex.split(line.partition("recoverybench ")[2])
        report = ["--report", str(directory / "resumed.html")]
        again = command.start(*arguments, *report, output=directory / "resumed")
        yield Ended(
            how,
            code,
            said,
            status,
            workers,
            stopped,
            left,
            directories,
            finished,
            siblings,
            stray,
            finish(again),
            (directory / "resumed").read_text(),
            results.load(directory / "run"),
            _working_directories(command),
        )
    finally:
        for each in (process, *siblings, *([stray] if stray else [])):
            each.kill()
            each.wait()


def _sleeper(mark: str | None) -> subprocess.Popen[bytes]:
    """A process that does nothing for a long time, with the mark of a supervisor or without."""
    environment = {} if mark is None else {OWNER_VARIABLE: mark}
    return subprocess.Popen(["/bin/sleep", "600"], env=environment)


def _start_time(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]


def _working_directories(command: Command) -> list[str]:
    return [path.name for path in command.temporary.glob("recoverybench-[0-9]*-*")]


def test_no_process_is_left(ended: Ended) -> None:
    assert len(ended.workers) == 5  # three workers, a standby, the fork server
    assert ended.left == [], f"{ended.workers} were there, and these were left: {ended.left}"


def test_a_stopped_worker_is_gone_too(ended: Ended) -> None:
    assert ended.stopped in ended.workers
    assert not Path(f"/proc/{ended.stopped}/exe").exists()


def test_processes_of_others_are_left_alone(ended: Ended) -> None:
    assert [sibling.poll() for sibling in ended.siblings] == [None, None]


def test_how_it_says_that_it_was_ended(ended: Ended) -> None:
    if ended.how == signal.SIGKILL:
        assert (ended.code, ended.status) == (-signal.SIGKILL, "running")
    else:
        assert (ended.code, ended.status) == (130, "interrupted"), ended.said
        assert "Traceback" not in ended.said
        assert "--resume" in ended.said and "1/1" in ended.said, ended.said


def test_what_was_measured_is_kept_and_not_measured_again(ended: Ended) -> None:
    assert ended.resumed == 0, ended.said_then
    (line,) = ended.finished.splitlines()
    assert json.loads(line)["trial"] == "0000"
    lines = (ended.run.path / "trials.jsonl").read_bytes().splitlines()
    assert lines[0] == line
    print(*(story(ended.run, record) for record in ended.run.trials))
    assert [(r.trial, r.outcome) for r in ended.run.trials] == [
        ("0000", "recovered"),
        ("0001", "recovered"),
    ]
    assert ended.run.info.status == "complete"


def test_nothing_is_left_in_the_end(ended: Ended) -> None:
    """After SIGKILL a directory stays, and whatever escaped; the next run removes both."""
    assert len(ended.directories) == (1 if ended.how == signal.SIGKILL else 0)
    assert ended.directories_then == []
    assert ended.stray.wait(PATIENCE_S) == -signal.SIGKILL
