"""The results store: what is written can be read, cut off anywhere, and never overwritten."""

from __future__ import annotations

import dataclasses
import errno
import fcntl
import json
import os
import shutil
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from recoverybench.cells import FACTORS, Cell
from recoverybench.errors import EXIT_USAGE, HarnessError, UsageError
from recoverybench.plan.suite import Suite
from recoverybench.records import TrialRecord, Verification
from recoverybench.results import store as results
from recoverybench.results.columns import row, table
from recoverybench.results.reading import read_record
from recoverybench.results.store import Run, RunDir, RunInfo, default_run_id, describe_run, load
from recoverybench.vocabulary import MILESTONES, OUTCOMES, PHASES, SCHEMA_VERSION
from tests.strategies import cells, records, suites

CELL = Cell(
    workload="transformer:tiny",
    topology="3x1",
    strategy="elastic",
    state_source="storage",
    fault="kill",
    trigger="step:25",
    interval=10,
    victim=None,
    heartbeat_s=10.0,
    watchdog_s=None,
    coordinator="worker0",
    compile_cache="executable",
)
SUITE = Suite("mine", "a suite", 2, 0, 60.0, 45, (CELL,), source="mine.toml")


LATER = {
    "workers",
    "recoveries",
    "transitions",
    "restore_tier",
    "restore_received_bytes",
    "harmless",
    "false_alarms",
    "preemption_save",
    "stopped",
    "soak",
    "profiled",
    "clock_bound_s",
}
"""Fields that records of 0.1.0 do not have."""


def record(trial: str = "0000", **changes: Any) -> TrialRecord:
    """A record of a trial that went nowhere, with some fields changed."""
    fields: dict[str, Any] = {
        **{f.name: None for f in dataclasses.fields(TrialRecord) if f.name not in LATER},
        **{"trial": trial, "cell": CELL, "rep": 0, "seed": 1, "outcome": "invalid"},
        **{"milestones": {}, "phases": {}, "detection_evidence": (), "compile_cache": {}},
        **{"restore_tried": (), "exits": (), "spans": (), "pids": {}, "load": (0.5, 0.25)},
        **{"memory_available_bytes": (1, 2), "wall_s": 1.0, "simulated": False, "harness": {}},
    }
    return TrialRecord(**{**fields, **changes})


def info(suite: Suite = SUITE) -> RunInfo:
    return describe_run(suite, "mine-1", command=["recoverybench", "run"], launcher="local")


def usage_error(call: Callable[[], object]) -> str:
    with pytest.raises(UsageError) as caught:
        call()
    assert caught.value.exit_code == EXIT_USAGE
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_records_of_an_older_release_are_read(run: Path) -> None:
    path = run / "trials.jsonl"
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    verify = {"passed": True, "reference": "r", "losses_compared": 1, "digests_compared": 2}
    verify |= {"samples_checked": 3, "samples_ok": True, "first_difference": None}
    old = [
        {k: v for k, v in one.items() if k not in {*LATER, "schema"}} | {"verify": verify}
        for one in lines
    ]
    path.write_text("".join(json.dumps(one) + "\n" for one in old))
    document = json.loads((run / "run.json").read_text())
    del document["suite"]["unsupported"]
    document["schema"] = 1
    (run / "run.json").write_text(json.dumps(document))
    loaded = load(run)
    assert loaded.info.suite.unsupported == ()
    assert [(t.recoveries, t.transitions, t.workers) for t in loaded.trials] == [(0, (), None)] * 2
    assert loaded.trials[0].verify == Verification(True, "r", 1, 2, 3, True, None)


def test_the_run_that_the_repository_keeps_is_read() -> None:
    kept = Path(__file__).parents[1] / "results" / "quick-0.1.0"
    assert {t.outcome for t in load(kept).trials} == {"recovered"}


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A complete run of two trials."""
    path = tmp_path / "results" / "mine-1"
    with RunDir.create(path, info()) as made:
        made.append(record("0000"))
        made.append(record("0001", outcome="timeout"))
        made.finish("complete", 12.5)
    return path


def test_a_run_is_read_back(run: Path) -> None:
    read = load(run)
    assert [trial.trial for trial in read.trials] == ["0000", "0001"]
    assert (read.dropped, read.path) == (0, run)
    assert (read.info.status, read.info.wall_s) == ("complete", 12.5)
    assert read.info.schema == SCHEMA_VERSION
    assert read.info.suite == SUITE
    assert read.info.environment["python"] and read.info.machine["cores_usable"]
    assert sorted(p.name for p in run.iterdir()) == ["journal", "logs", "run.json", "trials.jsonl"]
    assert load(str(run)) == read
    assert datetime.fromisoformat(read.info.created).utcoffset() == timedelta(0)


@given(records())
def test_records_are_read_back(one: TrialRecord) -> None:
    line = json.dumps(one.as_dict()).encode()
    assert b"\n" not in line
    assert read_record(results.record_line(one)[:-1], "trials.jsonl:1") == one
    assert read_record(line, "trials.jsonl:1") == one


@given(suites())
def test_information_on_a_run_is_read_back(suite: Suite) -> None:
    written = dataclasses.replace(INFO, suite=suite)
    assert RunInfo.from_dict(json.loads(json.dumps(written.as_dict()))) == written


INFO = info()


@settings(max_examples=5, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(records(), max_size=2, unique_by=lambda r: r.trial), st.integers(1, 60))
def test_a_run_cut_at_any_byte_keeps_every_finished_trial(
    run: Path, trials: list[TrialRecord], stride: int
) -> None:
    whole = b"".join(json.dumps(t.as_dict()).encode() + b"\n" for t in trials)
    ends = [i for i in range(len(whole)) if whole[i : i + 1] == b"\n"]
    near = {end + d for end in ends for d in (-1, 0, 1)}
    for cut in sorted({0, len(whole), *range(0, len(whole), 20 * stride), *near}):
        (run / "trials.jsonl").write_bytes(whole[:cut])
        read = load(run)
        finished = whole[:cut].count(b"\n")
        assert list(read.trials) == trials[:finished]
        assert read.dropped == (cut > 0 and whole[cut - 1 : cut] != b"\n")


def test_a_half_written_line_is_set_aside_before_a_run_goes_on(run: Path) -> None:
    path = run / "trials.jsonl"
    whole = path.read_bytes()
    half = b'{"trial": "0002", "cel'
    path.write_bytes(whole + half)
    resumed, finished = RunDir.resume(run, SUITE)
    assert [trial.trial for trial in finished] == ["0000", "0001"]
    assert path.read_bytes() == whole
    assert (run / "trials.jsonl.dropped").read_bytes() == half + b"\n"
    assert load(run).info.status == "running"
    resumed.append(record("0002"))
    resumed.finish("complete", 2.5)
    resumed.close()
    read = load(run)
    assert [trial.trial for trial in read.trials] == ["0000", "0001", "0002"]
    assert (read.dropped, read.info.wall_s, read.info.status) == (1, 15.0, "complete")
    assert read.info.created == load(run).info.created


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (b"{", "'{': expected a trial record as one line of JSON"),
        (b"", "'': expected a trial record as one line of JSON"),
        (b"\xff\xfe", "expected a trial record as one line of JSON"),
        (b"\x00" * 200, "expected a trial record as one line of JSON"),
        (b"[" * 100_000, "expected a trial record as one line of JSON"),
        (b"3", "not a trial record: it = 3: expected an object"),
        (b"{}", "not a trial record: cell is missing"),
    ],
)
def test_a_corrupt_line_names_file_and_line(run: Path, line: bytes, words: str) -> None:
    path = run / "trials.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(lines[0] + line + b"\n" + lines[1])
    before = path.read_bytes()
    message = usage_error(lambda: load(run))
    assert message.startswith(f"{path}:2: ")
    assert words in message
    assert usage_error(lambda: RunDir.resume(run, SUITE)) == message
    assert path.read_bytes() == before, "a damaged file is not touched"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"outcome": "fine"}, "outcome = 'fine': expected one of recovered, "),
        ({"rep": "1"}, "rep = '1': expected a whole number"),
        ({"rep": True}, "rep = True: expected a whole number"),
        ({"rep": 1.0}, "rep = 1.0: expected a whole number"),
        ({"recovery_s": "fast"}, "recovery_s = 'fast': expected a number or null"),
        ({"milestones": {"inject": 1.5}}, "milestones.inject = 1.5: expected a whole number"),
        ({"milestones": []}, "milestones = []: expected an object"),
        ({"load": [1.0]}, "load = [1.0]: expected a list of 2"),
        ({"exits": {}}, "exits = {}: expected a list"),
        ({"pids": {"0": [None]}}, "pids.0[0] = None: expected a whole number"),
        ({"spans": [{"worker": 0}]}, "spans[0].attempt is missing"),
        ({"verify": 3}, "verify = 3: expected an object"),
        ({"cell": {**CELL.as_dict(), "interval": "10"}}, "cell.interval = '10': expected"),
        ({"cell": {**CELL.as_dict(), "phase": 1}}, "cell.phase = 1: no such field"),
        ({"later_field": 1}, "later_field = 1: no such field"),
        ({"trial": "0000"}, "trial = '0000': expected each trial once"),
    ],
)
def test_json_that_is_no_record_says_what_is_wrong(
    run: Path, change: dict[str, Any], words: str
) -> None:
    with (run / "trials.jsonl").open("a") as file:
        file.write(json.dumps({**record("0002").as_dict(), **change}) + "\n")
    message = usage_error(lambda: load(run))
    assert message.startswith(f"{run / 'trials.jsonl'}:3: ")
    assert words in message


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999", "9" * 400, "9" * 9999])
def test_a_number_that_nobody_can_count_with(run: Path, number: str) -> None:
    path = run / "trials.jsonl"
    line = json.dumps({**record("0002").as_dict(), "recovery_s": "HERE"})
    path.write_text(path.read_text() + line.replace('"HERE"', number) + "\n")
    assert usage_error(lambda: load(run)).startswith(f"{path}:3: ")
    info = json.loads((run / "run.json").read_text())
    text = json.dumps({**info, "wall_s": "HERE"}).replace('"HERE"', number)
    (run / "run.json").write_text(text)
    message = usage_error(lambda: load(run))
    assert message.startswith(f"{run / 'run.json'}: not JSON: ") and number[:20] in message


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"schema": SCHEMA_VERSION + 1}, f"schema = {SCHEMA_VERSION + 1}: expected a version from"),
        ({"schema": "1"}, "schema = '1': expected a version from 1 to"),
        ({"schema": True}, "schema = True: expected a version from 1 to"),
        ({"status": "fine"}, "status = 'fine': expected one of running, complete"),
        ({"suite": 3}, "suite = 3: expected an object"),
        ({"wall_s": None}, "wall_s = None: expected a number"),
        ({"extra": 1}, "extra = 1: no such field"),
    ],
)
def test_a_run_json_that_is_not_ours(run: Path, change: dict[str, Any], words: str) -> None:
    path = run / "run.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    message = usage_error(lambda: load(run))
    assert message.startswith(f"{path}: ")
    assert words in message


@pytest.mark.parametrize("content", [b"", b"{", b"\xff", b"[]", b"3", b"[" * 100_000])
def test_a_run_json_that_is_damaged(run: Path, content: bytes) -> None:
    (run / "run.json").write_bytes(content)
    assert usage_error(lambda: load(run)).startswith(f"{run / 'run.json'}: ")


def test_what_is_no_run(tmp_path: Path, run: Path) -> None:
    file = tmp_path / "file"
    file.write_text("")
    for path in (tmp_path, file, tmp_path / "none"):
        message = usage_error(lambda path=path: load(path))  # type: ignore[misc]
        assert message == f"RUN = {str(path)!r}: expected a run's directory, with run.json in it"
        again = usage_error(lambda path=path: RunDir.resume(path, SUITE))  # type: ignore[misc]
        assert again.startswith(f"--out = {str(path)!r}: expected a run to resume")
    (run / "trials.jsonl").unlink()
    assert usage_error(lambda: load(run)).startswith(f"{run / 'trials.jsonl'}: cannot be read")


def test_nothing_is_overwritten(tmp_path: Path, run: Path) -> None:
    file = tmp_path / "file"
    file.write_text("mine")
    full = tmp_path / "full"
    full.mkdir()
    (full / "thesis.tex").write_text("mine")
    dangling = tmp_path / "dangling"
    dangling.symlink_to(tmp_path / "nowhere")
    before = (run / "run.json").read_bytes()
    for path, words in [
        (file, "(it is a file)"),
        (dangling, "(it is a file)"),
        (full, "(it holds 'thesis.tex')"),
        (run, "(it holds another run: use --resume to go on)"),
        (file / "below", "a place that can be written"),
    ]:
        message = usage_error(lambda path=path: RunDir.create(path, info()))  # type: ignore[misc]
        assert message.startswith(f"--out = {str(path)!r}: expected a ")
        assert words in message
    assert file.read_text() == "mine" and (full / "thesis.tex").read_text() == "mine"
    assert [p.name for p in full.iterdir()] == ["thesis.tex"]
    assert (run / "run.json").read_bytes() == before


def test_an_empty_directory_will_do_and_so_will_a_relative_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("empty").mkdir()
    for path in (Path("empty"), Path("./a/b")):
        RunDir.create(path, info()).close()
        assert load(path).trials == ()
        assert load(path).info.status == "running"


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


@settings(max_examples=15)
@given(st.lists(records(), max_size=4))
def test_a_table_has_a_row_for_every_trial(trials: list[TrialRecord]) -> None:
    found = table([Run(INFO, tuple(trials), 0, Path("results/mine-1"))])
    assert len(found) == len(trials)
    assert list(found["trial"]) == [trial.trial for trial in trials]
    wanted = {*FACTORS, "outcome", "recovery_s", *(f"phase_{name}_s" for name in PHASES)}
    assert wanted <= set(found.columns)
    for name in MILESTONES:
        column = found[f"milestone_{name}_ns"]
        assert str(column.dtype) == "Int64", "a float would lose nanoseconds"
        instants = [None if pd.isna(value) else int(value) for value in column]
        assert instants == [trial.milestones.get(name) for trial in trials]


@given(records(), cells())
def test_flat_columns_do_not_depend_on_the_record(one: TrialRecord, cell: Cell) -> None:
    other = dataclasses.replace(record(), cell=cell)
    assert list(row(one)) == list(row(other))
    assert row(other)["victim"] == cell.victim
    assert row(one)["broken"] == one.victim


def test_null_factors_and_every_outcome_stay_in_the_table(run: Path) -> None:
    resumed, _ = RunDir.resume(run, SUITE)
    with resumed:
        for number, outcome in enumerate(OUTCOMES, start=2):
            resumed.append(record(f"{number:04d}", outcome=outcome))
    table = load(run).frame()
    assert len(table) == 2 + len(OUTCOMES)
    assert table["victim"].isna().all() and table["watchdog_s"].isna().all()
    assert str(table["victim"].dtype) == "Int64"
    assert str(table["recovery_s"].dtype) == "float64"
