"""Odd things among the runs and in the site's directory: what else is there is published."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import resource
import shutil
from pathlib import Path
from typing import Any

import pytest

from recoverybench import cli
from recoverybench.compare import build
from recoverybench.errors import UsageError
from recoverybench.results.store import Run
from recoverybench.site import comparisons, publish, sources
from recoverybench.site.scan import said
from tests.sample_run import make_cell, timed_out_trial
from tests.site_runs import files_of, put, release

PYTHONS = re.compile(r"Error|Exception|Traceback|Errno|<class")
"""What Python says of itself, and people should not have to read."""


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reports that take no time."""
    monkeypatch.setattr(sources, "report_of", lambda run: run.info.run_id.encode())


def published(results: Path, capsys: pytest.CaptureFixture[str]) -> tuple[int, list[str]]:
    """Exit code and what was said on stderr."""
    code = cli.call(["publish", str(results), "-o", str(results.parent / "site")])
    return code, capsys.readouterr().err.splitlines()


def test_links_that_lead_to_themselves_are_skipped(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    results = tmp_path / "r"
    put(results, release(0, "0.1", 1.0))
    (results / "a\u202eloop").symlink_to("a\u202eloop")
    inside = put(results, release(1, "0.2", 1.0))
    (inside / "run.json").unlink()
    (inside / "run.json").symlink_to("run.json")
    trials = put(results, release(2, "0.3", 1.0)) / "trials.jsonl"
    trials.unlink()
    trials.symlink_to(trials.name)
    code, lines = published(results, capsys)
    assert code == 0
    assert [line.partition(" is skipped: ")[0] for line in lines] == [
        r"recoverybench: a\u202eloop",
        "recoverybench: quick-001",
        "recoverybench: quick-002",
    ]
    assert not any(PYTHONS.search(line) for line in lines)


def test_what_may_not_be_read_is_skipped(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    results = tmp_path / "r"
    put(results, release(0, "0.1", 1.0))
    put(results, release(1, "0.2", 1.0))
    look = os.stat

    def stat(path: Any, *args: Any, **options: Any) -> os.stat_result:
        if "quick-001/" in str(path):
            raise PermissionError(13, "Permission denied", str(path))
        return look(path, *args, **options)

    monkeypatch.setattr(os, "stat", stat)
    code, lines = published(results, capsys)
    assert code == 0
    assert lines == [
        "recoverybench: quick-001 is skipped: run.json cannot be read: Permission denied"
    ]


ODD = (-1.0, 5e-324, 1e9, 0.0, 1e-320, -1e9)


@pytest.mark.parametrize("first", ODD)
@pytest.mark.parametrize("second", [1.0, *ODD])
def test_times_that_are_none_break_no_site(tmp_path: Path, first: float, second: float) -> None:
    for day, time in enumerate((first, second)):
        put(tmp_path / "r", odd(release(day, f"0.{day}", 1.0), time))
    done = publish(tmp_path / "r", tmp_path / "s")
    assert (done.comparisons, done.skipped, done.failed) == (1, (), ())


def test_a_time_that_cannot_be_read_skips_its_run(tmp_path: Path) -> None:
    put(tmp_path / "r", release(0, "0.0", 1.0))
    put(tmp_path / "r", odd(release(1, "0.1", 1.0), 1e308))
    put(tmp_path / "r", odd(release(2, "0.2", 1.0), 1.0, deadline_s=1e308))
    done = publish(tmp_path / "r", tmp_path / "s")
    assert [one.name for one in done.skipped] == ["quick-001", "quick-002"]
    assert done.runs == 1


def odd(run: Run, time_s: float, deadline_s: float = 60.0) -> Run:
    """The run with that for all its times but the first trial's."""
    first, *rest = run.trials
    trials = [
        dataclasses.replace(
            t,
            recovery_s=time_s,
            time_to_progress_s=time_s,
            phases=dict.fromkeys(t.phases, time_s),
        )
        for t in rest
    ]
    late = timed_out_trial(len(trials) + 1, cell=make_cell())
    suite = dataclasses.replace(run.info.suite, deadline_s=deadline_s)
    info = dataclasses.replace(run.info, suite=suite)
    return dataclasses.replace(run, info=info, trials=(first, *trials, late))


@pytest.mark.parametrize("deadline_s", [-1.0, 0.0, 1e9, 5e-324])
def test_a_deadline_that_is_none_breaks_no_site(tmp_path: Path, deadline_s: float) -> None:
    for day in range(2):
        put(tmp_path / "r", odd(release(day, f"0.{day}", 1.0), 1.0, deadline_s))
    done = publish(tmp_path / "r", tmp_path / "s")
    assert (done.comparisons, done.skipped, done.failed) == (1, (), ())


def test_a_comparison_that_fails_is_named_and_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def compare(base: Any, new: Any) -> Any:
        if new.name == "0.1":
            raise OverflowError("math range error")
        return build.compare(base, new)

    monkeypatch.setattr(comparisons, "compare", compare)
    for day in range(3):
        put(tmp_path / "r", release(day, f"0.{day}", 1.0))
    code, lines = published(tmp_path / "r", capsys)
    assert code == 0
    reason = "a number or a date in it is beyond what can be counted with"
    assert lines == [f"recoverybench: 0.0 and 0.1 is skipped: {reason}"]
    site = tmp_path / "site"
    assert "0.0 and 0.1" in (site / "index.html").read_text()
    index = json.loads((site / "index.json").read_text())
    assert index["failed"] == [{"comparison": "0.0 and 0.1", "reason": reason}]
    assert [one["page"] for one in index["comparisons"]] == ["compare/0.1..0.2.html"]


@pytest.mark.parametrize(
    "error",
    [OverflowError("date value out of range"), ValueError("x"), RecursionError(), KeyError("a"),
     RuntimeError("Symlink loop from 'x'"), OSError(40, "Too many levels"), MemoryError()],
)  # fmt: skip
def test_reasons_are_in_our_words(error: Exception) -> None:
    text = said(error, Path("results"))
    assert text and not PYTHONS.search(text)
    assert "range" not in text


def test_a_date_at_the_end_of_time_is_one(tmp_path: Path) -> None:
    for day in range(2):
        run = release(day, f"0.{day}", 1.0, created="9999-12-31T23:59:59-23:59")
        put(tmp_path / "r", run, f"run-{day}")
    assert publish(tmp_path / "r", tmp_path / "s").runs == 2


@pytest.mark.parametrize(
    "machine",
    [
        {"cgroup": {"memory_bytes": {"": ""}, "cpu_cores": [1]}},
        {"cpu": {"a": {"b": []}}, "platform": ["x"]},
        {"memory_total_bytes": "much", "cores_usable": None, "cgroup": 3},
    ],
)
def test_a_machine_may_be_described_by_anything(tmp_path: Path, machine: dict[str, Any]) -> None:
    for day in range(2):
        put(tmp_path / "r", release(day, f"0.{day}", 1.0, machine=machine))
    for _ in range(2):  # made, and taken over
        done = publish(tmp_path / "r", tmp_path / "s")
        assert (done.runs, done.comparisons, done.skipped) == (2, 1, ())
    put(tmp_path / "r", release(3, "0.3", 1.0, machine={"cpu": "other"}))
    assert publish(tmp_path / "r", tmp_path / "s").comparisons == 1


# Where the site goes


def refused(results: Path, out: Path, capsys: pytest.CaptureFixture[str]) -> str:
    assert cli.call(["publish", str(results), "-o", str(out)]) == 2
    said = capsys.readouterr().err
    assert said.startswith("recoverybench: error: ") and said.count("\n") == 1
    return said


def test_no_place_for_a_site_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    results = tmp_path / "r"
    put(results, release(0, "0.1", 1.0))
    (tmp_path / "loop").symlink_to("loop")
    assert "--out" in refused(results, tmp_path / "loop", capsys)
    assert "--out" in refused(results, tmp_path / "loop" / "below", capsys)
    assert "--out" in refused(results, tmp_path / ("x" * 300), capsys)
    assert "--out" in refused(results, tmp_path / "r" / "quick-000" / "run.json", capsys)
    (tmp_path / "shut").mkdir()
    reach = os.open

    def opened(path: Any, *args: Any, **options: Any) -> int:
        if str(path).endswith(".journal"):
            raise PermissionError(13, "Permission denied", str(path))
        return reach(path, *args, **options)

    monkeypatch.setattr(os, "open", opened)
    assert "can be written (Permission denied)" in refused(results, tmp_path / "shut", capsys)
    assert os.listdir(tmp_path / "shut") == []


@pytest.mark.parametrize("path", ["index.html", "feed.xml", "workloads/transformer__tiny.html"])
@pytest.mark.parametrize("how", ["edited", "link"])
def test_what_somebody_changed_is_not_replaced(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], path: str, how: str
) -> None:
    results, site = tmp_path / "r", tmp_path / "s"
    put(results, release(0, "0.1", 1.0))
    publish(results, site)
    target = site / path
    if how == "edited":
        target.write_text("mine")
    else:
        (tmp_path / "mine").write_text("mine")
        target.unlink()
        target.symlink_to(tmp_path / "mine")
    put(results, release(1, "0.2", 1.0))
    assert "not as publish wrote it" in refused(results, site, capsys)
    assert target.read_text() == "mine"
    target.rename(tmp_path / "kept")
    publish(results, site)
    publish(results, tmp_path / "new")
    assert files_of(site) == files_of(tmp_path / "new")


def test_what_somebody_changed_is_not_removed(tmp_path: Path) -> None:
    results, site = tmp_path / "r", tmp_path / "s"
    put(results, release(0, "0.1", 1.0))
    gone = put(results, release(1, "0.2", 1.0))
    publish(results, site)
    (site / "runs/quick-001.html").write_text("mine")
    gone.rename(tmp_path / "away")
    done = publish(results, site)
    assert "runs/quick-001.html" not in done.files.removed
    assert (site / "runs/quick-001.html").read_text() == "mine"
    assert "runs/quick-001.html" not in (site / ".recoverybench-site.json").read_text()


@pytest.mark.parametrize("name", [".recoverybench-site.json", ".recoverybench-site.journal"])
def test_books_that_are_links_are_refused(tmp_path: Path, name: str) -> None:
    put(tmp_path / "r", release(0, "0.1", 1.0))
    publish(tmp_path / "r", tmp_path / "s")
    (tmp_path / "mine").write_text("mine")
    (tmp_path / "s" / name).unlink(missing_ok=True)
    (tmp_path / "s" / name).symlink_to(tmp_path / "mine")
    with pytest.raises(UsageError, match="a link"):
        publish(tmp_path / "r", tmp_path / "s")
    assert (tmp_path / "mine").read_text() == "mine"


def test_a_site_without_room_is_one_line_and_goes_on_later(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    results, site = tmp_path / "r", tmp_path / "site"
    put(results, release(0, "0.1", 1.0))
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (3_000, hard))  # no larger file can be written
    try:
        code, lines = published(results, capsys)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert code == 2
    (line,) = lines
    assert line.startswith("recoverybench: error: --out = '")
    assert ": expected a place that can be written (" in line
    assert not list(site.rglob("*tmp*"))
    assert published(results, capsys)[0] == 0
    whole = files_of(site)
    shutil.rmtree(site)
    assert published(results, capsys)[0] == 0
    assert files_of(site) == whole


@pytest.mark.parametrize("below", [".", "site", "a/site"])
def test_no_site_is_written_into_a_run(
    below: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    results = tmp_path / "r"
    run = put(results, release(0, "0.1", 1.0))
    before = files_of(run)
    assert cli.call(["publish", str(results), "-o", str(run / below)]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("recoverybench: error: --out = '")
    assert line.endswith(f"': expected a directory outside of runs ({run} is one)") or (
        line.endswith(f"…: expected a directory outside of runs ({run} is one)")  # a long path
    )
    assert files_of(run) == before
