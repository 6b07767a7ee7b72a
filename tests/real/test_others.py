"""Two runs at once, and workers that somebody else kills or stops."""

from __future__ import annotations

import os
import signal
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from recoverybench.results import store as results
from recoverybench.stats import summarise
from tests.real_support import (
    Command,
    await_line,
    finish,
    only,
    story,
    suite_text,
)

pytestmark = [pytest.mark.real, pytest.mark.timeout(400)]


def _ports(process: subprocess.Popen[bytes]) -> set[str]:
    """Ports that a running command holds."""
    held = set()
    with suppress(OSError):
        for link in Path(f"/proc/{process.pid}/fd").iterdir():
            with suppress(OSError):
                target = os.readlink(link)
                if "recoverybench-ports-" in target:
                    held.add(target)
    return held


def test_two_runs_at_once(command: Command, tmp_path: Path) -> None:
    both = []
    for name in ("one", "two"):
        directory = tmp_path / name
        directory.mkdir()
        arguments = command.arguments(directory, suite_text())
        both.append(command.start(*arguments, "--strict", output=directory / "said"))
    shared, at_once = set(), 0
    while any(process.poll() is None for process in both):
        first, second = (_ports(process) for process in both)
        shared |= first & second
        at_once += bool(first and second)
        for process in both:
            with suppress(subprocess.TimeoutExpired):
                process.wait(0.01)
    codes = [process.returncode for process in both]
    assert codes == [0, 0], [(tmp_path / name / "said").read_text() for name in ("one", "two")]
    assert at_once > 0, "they were never at work at the same time"
    assert shared == set()
    for name in ("one", "two"):
        (record,) = results.load(tmp_path / name / "run").trials
        assert record.outcome == "recovered"


def test_a_worker_that_somebody_else_kills_makes_the_trial_invalid(
    command: Command, tmp_path: Path
) -> None:
    suite = suite_text({"strategy": ["elastic"], "trigger": ["step:29"]}, trials=3)
    process = command.start(*command.arguments(tmp_path, suite), output=tmp_path / "said")
    journals = tmp_path / "run" / "journal" / "0001"
    pid = await_line(process, journals / "supervisor.0.jsonl", "spawn", worker=1)["pid"]
    await_line(process, journals / "1.0.jsonl", "step")
    os.kill(pid, signal.SIGKILL)
    assert finish(process) == 0, (tmp_path / "said").read_text()
    run = results.load(tmp_path / "run")
    print(*(story(run, record) for record in run.trials))
    assert [r.outcome for r in run.trials] == ["recovered", "invalid", "recovered"]
    spoilt = run.trials[1]
    assert spoilt.error is not None and "worker 1" in spoilt.error and "SIGKILL" in spoilt.error
    assert spoilt.recovery_s is None and spoilt.phases == {}
    killed = [e for e in spoilt.exits if e.pid == pid]
    assert [(e.signal, e.ours, e.reason) for e in killed] == [("SIGKILL", False, "own")]
    (summary,) = summarise(run.trials)
    assert (summary.n, summary.judged, summary.recovered) == (3, 2, 2)
    assert summary.recovery_s is not None and summary.recovery_s.n == 2


def test_a_stopped_survivor_does_not_hold_up_the_teardown(command: Command, tmp_path: Path) -> None:
    """One worker dies while another is stopped by somebody else: both are ended and replaced."""
    matrix: dict[str, list[Any]] = {
        "strategy": ["restart"],
        "fault": ["preempt:1500ms"],
        "trigger": ["step:5"],
        "interval": [2],
        "watchdog": ["off"],
        "victim": [1],
    }
    suite = suite_text(matrix)
    process = command.start(*command.arguments(tmp_path, suite), output=tmp_path / "said")
    journal = tmp_path / "run" / "journal" / "0000" / "supervisor.0.jsonl"
    pid = await_line(process, journal, "spawn", worker=2)["pid"]
    await_line(process, journal, "notice")
    os.kill(pid, signal.SIGSTOP)
    assert finish(process) == 0, (tmp_path / "said").read_text()
    record = only(results.load(tmp_path / "run"), strategy="restart")
    assert record.outcome == "recovered"
    ended = {(e.worker, e.attempt): e for e in record.exits}
    assert ended[2, 0].pid == pid
    assert (ended[2, 0].signal, ended[2, 0].reason) == ("SIGKILL", "teardown")
    assert (ended[1, 0].signal, ended[1, 0].reason) == ("SIGKILL", "inject")
