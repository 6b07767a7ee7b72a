"""The results store while it is written: locks, full disks, links, and what goes on."""

from __future__ import annotations

import dataclasses
import errno
import fcntl
import os
import shutil
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from recoverybench.errors import HarnessError
from recoverybench.results import store as results
from recoverybench.results.store import RunDir, default_run_id, load
from tests.kept_runs import CELL, SUITE, info, record, two_trials, usage_error


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return two_trials(tmp_path / "results" / "mine-1")


def test_only_one_process_writes_a_run(run: Path) -> None:
    resumed, _ = RunDir.resume(run, SUITE)
    message = usage_error(lambda: RunDir.resume(run, SUITE))
    assert message == f"--out = {str(run)!r}: expected a run that no other process is writing"
    resumed.close()
    resumed.close()
    RunDir.resume(run, SUITE)[0].close()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"trials": 5}, "--resume: trials = 5: expected 2 that "),
        ({"deadline_s": 9.0}, "--resume: deadline_s = 9.0: expected 60.0 that "),
        ({"cells": (dataclasses.replace(CELL, interval=3),)}, "/3/-/10.0/-/worker0/"),
        ({"cells": (CELL, dataclasses.replace(CELL, interval=3))}, "expected the 1 cells that "),
        ({"cells": ()}, "--resume: cells = '0 cells': expected the 1 cells that "),
    ],
)
def test_a_run_goes_on_with_its_own_suite_only(
    run: Path, change: dict[str, Any], words: str
) -> None:
    other = dataclasses.replace(SUITE, **change)
    assert words in usage_error(lambda: RunDir.resume(run, other))
    moved = dataclasses.replace(SUITE, source="/elsewhere/mine.toml")
    RunDir.resume(run, moved)[0].close()


@pytest.mark.parametrize("fails", ["write", "short write", "fsync"])
def test_a_trial_that_cannot_be_written_leaves_the_file_as_it_was(
    run: Path, monkeypatch: pytest.MonkeyPatch, fails: str
) -> None:
    resumed, _ = RunDir.resume(run, SUITE)
    before = (run / "trials.jsonl").read_bytes()
    write = os.write

    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        if fails == "short write":
            patch.setattr(os, "write", lambda fd, line: write(fd, line[:10]))
        else:
            patch.setattr(os, fails, full)
        with pytest.raises(HarnessError, match=r"trials\.jsonl: trial 0002: "):
            resumed.append(record("0002"))
    assert (run / "trials.jsonl").read_bytes() == before
    resumed.append(record("0002"))
    resumed.close()
    assert len(load(run).trials) == 3


def test_a_number_that_json_does_not_know_is_no_record(run: Path) -> None:
    resumed, _ = RunDir.resume(run, SUITE)
    with resumed, pytest.raises(HarnessError, match="trial 0002: not a record to keep"):
        resumed.append(record("0002", wall_s=float("nan")))
    assert len(load(run).trials) == 2


def test_a_line_is_one_write_and_on_disk(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []
    write, fsync = os.write, os.fsync

    def noted_write(fd: int, line: bytes) -> int:
        calls.append("write")
        return write(fd, line)

    def noted_fsync(fd: int) -> None:
        calls.append("fsync")
        fsync(fd)

    resumed, _ = RunDir.resume(run, SUITE)
    with resumed, monkeypatch.context() as patch:
        patch.setattr(os, "write", noted_write)
        patch.setattr(os, "fsync", noted_fsync)
        resumed.append(record("0002"))
    assert calls == ["write", "fsync"]


def test_what_a_cut_off_trial_left_is_kept(tmp_path: Path) -> None:
    with RunDir.create(tmp_path / "run", info()) as made:
        for attempt in range(3):
            journals, logs = made.trial_dirs("0007")
            assert not list(journals.iterdir()) and not list(logs.iterdir())
            (journals / "0.0.jsonl").write_text(str(attempt))
    kept = sorted((tmp_path / "run" / "journal").glob("*/0.0.jsonl"))
    assert [(p.parent.name, p.read_text()) for p in kept] == [
        ("0007", "2"),
        ("0007.cut-1", "0"),
        ("0007.cut-2", "1"),
    ]


def test_the_lock_goes_with_the_descriptor(tmp_path: Path) -> None:
    made = RunDir.create(tmp_path / "run", info())
    with (tmp_path / "run" / "trials.jsonl").open() as other:
        with pytest.raises(OSError):
            fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
        made.close()
        fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)


def test_a_run_s_name_is_its_suite_and_the_time_and_is_never_taken(tmp_path: Path) -> None:
    now = datetime(2026, 12, 1, 15, 30, 5, tzinfo=timezone(timedelta(hours=1)))
    assert default_run_id(SUITE, now, tmp_path) == "mine-20261201-143005"
    (tmp_path / "mine-20261201-143005").mkdir()
    assert default_run_id(SUITE, now, tmp_path) == "mine-20261201-143005-2"
    (tmp_path / "mine-20261201-143005-2").symlink_to("nowhere")
    assert default_run_id(SUITE, now.astimezone(UTC), tmp_path) == "mine-20261201-143005-3"


def test_no_temporary_file_is_left(run: Path) -> None:
    results.replace_file(run / "other", b"1")
    results.replace_file(run / "other", b"2")
    assert (run / "other").read_bytes() == b"2"
    assert not list(run.glob(".*"))


def full_disk(*_: object) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_on_a_full_disk_the_file_is_named_and_as_it_was(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    results.replace_file(run / "other", b"1")
    monkeypatch.setattr(os, "fsync", full_disk)
    with pytest.raises(OSError, match="No space left on device") as caught:
        results.replace_file(run / "other", b"2")
    assert caught.value.filename == str(run / "other")
    assert (run / "other").read_bytes() == b"1"
    assert not list(run.glob(".*"))


def test_what_is_cut_while_it_is_written_leaves_nothing(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", interrupted)
    with pytest.raises(KeyboardInterrupt):
        results.replace_file(run / "other", b"2")
    assert not list(run.glob(".*")) and not (run / "other").exists()


def test_a_temporary_file_is_written_through_no_link(run: Path, tmp_path: Path) -> None:
    (run / f".other.{os.getpid()}.tmp").symlink_to(tmp_path / "outside")
    results.replace_file(run / "other", b"1")
    assert not (tmp_path / "outside").exists()
    longest = run / ("é" * 127)
    results.replace_file(longest, b"1")
    assert longest.read_bytes() == b"1"


def test_a_run_that_cannot_be_begun_leaves_a_directory_that_can_be_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full_disk)
        with pytest.raises(OSError) as caught:
            RunDir.create(tmp_path / "new", info())
        assert caught.value.filename == str(tmp_path / "new" / "run.json")
    assert list((tmp_path / "new").iterdir()) == []
    RunDir.create(tmp_path / "new", info()).close()
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full_disk)
        with pytest.raises(OSError):
            RunDir.resume(tmp_path / "new", SUITE)
    RunDir.resume(tmp_path / "new", SUITE)[0].close()


# ---- what a resumed run would write to -----------------------------------------------------


@pytest.mark.parametrize("name", ["journal", "logs", "profile", "reference", "commands"])
@pytest.mark.parametrize("what", ["file", "link", "dangling link", "link to itself", "link below"])
def test_a_run_that_would_write_elsewhere_is_not_resumed(
    run: Path, tmp_path: Path, name: str, what: str
) -> None:
    (tmp_path / "elsewhere").mkdir()
    place = run / name
    if place.is_dir() and what != "link below":
        shutil.rmtree(place)
    if what == "file":
        place.write_text("mine")
    elif what == "link":
        place.symlink_to(tmp_path / "elsewhere")
    elif what == "dangling link":
        place.symlink_to(tmp_path / "nowhere")
    elif what == "link to itself":
        place.symlink_to(name)
    else:
        place.mkdir(exist_ok=True)
        place = place / "fork-server.log"
        place.symlink_to(tmp_path / "outside.log")
    before = (run / "run.json").read_bytes()
    message = usage_error(lambda: RunDir.resume(run, SUITE))
    assert message.startswith(f"{place}: ") and "\n" not in message
    assert (run / "run.json").read_bytes() == before
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_lines_are_set_aside_into_no_other_place(run: Path, tmp_path: Path) -> None:
    with (run / "trials.jsonl").open("ab") as file:
        file.write(b"half")
    (run / "trials.jsonl.dropped").symlink_to(tmp_path / "outside")
    assert "a link that leads out of" in usage_error(lambda: RunDir.resume(run, SUITE))
    assert not (tmp_path / "outside").exists()


def test_links_within_a_run_are_its_own(run: Path) -> None:
    (run / "kept").mkdir()
    (run / "profile").symlink_to("kept")
    RunDir.resume(run, SUITE)[0].close()
