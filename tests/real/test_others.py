"""Two runs at once, a kill from outside, a text of one's own, and JAX's own compilation cache."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import recoverybench
from recoverybench.analysis.journal import read_trial
from recoverybench.results import store as results
from recoverybench.results.store import Run
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


@pytest.fixture(scope="module")
def caches(command: Command, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A transformer on a text of one's own, two workers with two devices each."""
    directory = tmp_path_factory.mktemp("caches")
    text = directory / "text"
    shutil.copyfile(recoverybench.__file__, text)
    with text.open("a") as file:
        file.write("A text of one's own.\n" * 200)
    matrix: dict[str, list[Any]] = {
        "workload": ["transformer:tiny"],
        "topology": ["2x2"],
        "strategy": ["restart"],
        "trigger": ["step:7"],
        "interval": [3],
        "compile_cache": ["persistent", "off"],
    }
    suite = suite_text(matrix, steps=12, data="text")
    return command.measure(directory, suite, "--strict")


@pytest.mark.parametrize("cache", ["persistent", "off"])
def test_a_text_of_one_s_own_and_two_devices_a_worker(caches: Run, cache: str) -> None:
    record = only(caches, compile_cache=cache)
    assert record.outcome == "recovered"
    assert caches.info.suite.data is not None and caches.info.suite.data.endswith("/text")
    assert record.verify is not None and record.verify.losses_compared == 12
    # A worker's rows are its devices' rows.
    lines = read_trial(caches.path / "journal" / record.trial).lines
    rows = {len(line["samples"]) for line in lines if line["event"] == "step"}
    assert len(rows) == 1


def test_where_a_step_function_came_from_is_what_jax_said(caches: Run) -> None:
    assert only(caches, compile_cache="off").compile_cache == {"0": "off", "1": "off"}
    # Only worker 0 writes JAX's cache, and others have keys of their own: no hit for them.
    persistent = only(caches, compile_cache="persistent").compile_cache
    assert persistent["0"] in ("hit", "miss", "below_threshold")
    assert persistent["1"] in ("compiled", "below_threshold")
    lines = read_trial(caches.path / "journal" / "0000").lines
    first = [
        (line["worker"], line["status"])
        for line in lines
        if line["event"] == "compile_cache" and line["generation"] == 0
    ]
    assert first and not [status for _, status in first if status in ("hit", "executable")]
