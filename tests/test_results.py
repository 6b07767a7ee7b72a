"""The results store: what is written can be read, cut off anywhere, and never overwritten."""

from __future__ import annotations

import dataclasses
import json
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from recoverybench.plan.suite import Suite
from recoverybench.records import TrialRecord, Verification
from recoverybench.results import store as results
from recoverybench.results.reading import read_record
from recoverybench.results.store import RunDir, RunInfo, load
from recoverybench.vocabulary import SCHEMA_VERSION
from tests.kept_runs import CELL, INFO, LATER, SUITE, info, record, two_trials, usage_error
from tests.strategies import records, suites


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return two_trials(tmp_path / "results" / "mine-1")


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
