"""Harm that comes from outside a trial: to the cache, and to the harness itself."""

from __future__ import annotations

import dataclasses
import shutil
import signal
import time
from pathlib import Path

import pytest

from recoverybench.results import store as results
from tests.real_support import Command, await_line, finish, only, suite_text

pytestmark = [pytest.mark.real, pytest.mark.timeout(400)]


def test_a_damaged_cache_is_made_again(command: Command, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    there = Path(command.environment["RECOVERYBENCH_CACHE"])
    command.measure(tmp_path, suite_text(), name="first")  # so that there is something to damage
    shutil.copytree(there, cache)
    references = sorted((cache / "references").iterdir())
    stored = sorted((cache / "executables").rglob("step.*.bin"))
    assert references and stored
    for path in references:
        path.write_bytes(path.read_bytes().replace(b"1", b"2"))
    for number, path in enumerate(stored):
        whole = bytearray(path.read_bytes())
        if number % 2:
            whole[len(whole) // 2] ^= 1
        path.write_bytes(whole if number % 2 else whole[: len(whole) // 2])
    other = dataclasses.replace(
        command, environment={**command.environment, "RECOVERYBENCH_CACHE": str(cache)}
    )
    trial = only(other.measure(tmp_path, suite_text(), name="second"))
    assert trial.outcome == "recovered"
    assert set(trial.compile_cache.values()) == {"executable"}


def test_a_harness_that_was_stopped_does_not_tell_a_time(command: Command, tmp_path: Path) -> None:
    arguments = command.arguments(tmp_path, suite_text({"fault": ["hang"], "watchdog": ["3s"]}))
    process = command.start(*arguments, output=tmp_path / "said")
    try:
        journal = tmp_path / "run" / "journal" / "0000" / "supervisor.0.jsonl"
        await_line(process, journal, "inject")
        process.send_signal(signal.SIGSTOP)
        time.sleep(1.5)  # how long it stands still, not something that is waited for
    finally:
        process.send_signal(signal.SIGCONT)
    assert finish(process) == 0, (tmp_path / "said").read_text()
    trial = only(results.load(tmp_path / "run"))
    assert trial.outcome == "invalid"
    assert trial.error is not None and "stood still" in trial.error
    assert trial.recovery_s is None
