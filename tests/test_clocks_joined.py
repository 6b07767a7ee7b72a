"""Trials whose workers have clocks of their own: what is made of them is right within the bound."""

from __future__ import annotations

import copy
import dataclasses
import io
import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

from recoverybench import labels
from recoverybench.analysis.journal import Journal, joined, read_journal, read_trial
from recoverybench.analysis.record import reanalyse
from recoverybench.analysis.reference import Reference
from recoverybench.compare.build import compare
from recoverybench.compare.model import Row
from recoverybench.compare.sides import Side
from recoverybench.compare.words import median_text
from recoverybench.records import TrialRecord
from recoverybench.report.rows import rows_of
from recoverybench.results.reading import Run, load, read_object
from recoverybench.stats import summarise
from recoverybench.terminal.table import run_table
from recoverybench.terminal.timeline import trial_timeline
from tests.histories import INJECT, MS, START, Files, journals, recovery
from tests.test_analysis import record_of
from tests.time_spaces import SECONDS

SAMPLE = Path(__file__).parent / "samples" / "v5"
"""A trial in which each worker lived in a time namespace of its own (`tests.time_spaces`)."""

SECOND = 10**9
OFFSETS = st.integers(-6_000 * SECOND, 10**6 * SECOND)
BOUNDS = st.integers(0, 400_000)


def shifted(files: Files, offsets: dict[tuple[int | None, int], int]) -> Files:
    """A copy in which each worker wrote down what a clock that is so far off shows."""
    files = copy.deepcopy(files)
    for lines in files.values():
        lines[0]["time_namespace"] = "time:[0]"
    for key, offset in offsets.items():
        for line in files[key]:
            line["t"] += offset
            if "t0" in line:
                line["t0"] += offset
        files[key][0]["time_namespace"] = _space(key)
    return files


def measured(files: Files, key: tuple[int | None, int], at: int, offset: int, bound: int) -> None:
    """Let the supervisor have measured the clock of a file."""
    head = files[key][0]
    where = {"boot_id": head["boot_id"], "time_namespace": _space(key)}
    line = {"t": at, "event": "clock", "worker": key[0], "attempt": key[1], "at": at}
    files[None, 0].append(line | where | {"offset_ns": offset, "bound_ns": bound})


def _space(key: tuple[int | None, int]) -> str:
    return f"time:[{key[0]}{key[1]}]"


def record_joined(files: Files) -> TrialRecord:
    """The record of the journals as they are read from files."""
    parts = {
        (journal.worker_slot, journal.attempt): list(journal.lines)
        for journal in joined(journals(files))
    }
    return record_of(parts)


def workers_of(files: Files) -> list[tuple[int | None, int]]:
    return [key for key in files if key[0] is not None]


def numbers(record: TrialRecord) -> dict[str, float]:
    """Every duration of a record by its name."""
    whole = {name: getattr(record, name) for name in ("recovery_s", "time_to_progress_s")}
    return record.phases | {name: value for name, value in whole.items() if value is not None}


@settings(max_examples=60)
@given(st.sampled_from(["restart", "elastic", "hot-spare"]), st.data())
def test_every_duration_is_right_within_its_bound(strategy: str, data: st.DataObject) -> None:
    files = recovery(strategy)
    truth = record_of(files)
    offsets = {key: data.draw(OFFSETS) for key in workers_of(files)}
    others = shifted(files, offsets)
    for key, offset in offsets.items():
        for at in (START - 5 * MS, INJECT + 500 * MS):
            bound = data.draw(BOUNDS)
            wrong = data.draw(st.integers(-bound, bound))
            measured(others, key, at, offset + wrong, bound)
    record = record_joined(others)
    assert (record.outcome, record.error) == (truth.outcome, truth.error) == ("recovered", None)
    assert record.step_before == truth.step_before
    expected = numbers(truth)
    for name, value in numbers(record).items():
        bound_s = record.clock_bound_s.get(name, 0.0)
        assert abs(value - expected[name]) <= bound_s + 2e-9, name
    assert set(record.clock_bound_s) - {"detect", "react"} >= {"recovery_s", "restore"}
    for mine, theirs in zip(_noticed(record), _noticed(truth), strict=True):
        assert abs(mine.after_s - theirs.after_s) <= mine.bound_s + 2e-9


def _noticed(record: TrialRecord) -> list[Any]:
    return sorted(record.detection_evidence, key=lambda e: (e.mechanism, str(e.observer)))


@given(OFFSETS)
def test_one_clock_for_all_is_no_matter(offset: int) -> None:
    files = recovery()
    plain = record_of(files)
    assert plain.clock_bound_s == {}
    assert all(evidence.bound_s == 0 for evidence in plain.detection_evidence)
    assert record_joined(files) == plain


def test_clocks_that_were_not_measured_make_a_trial_invalid() -> None:
    files = shifted(recovery(), {(2, 0): 5 * SECOND})
    record = record_joined(files)
    why = "worker 2, attempt 0 has the clock of another time namespace, and its offset was not"
    assert record.outcome == "invalid" and record.error is not None
    assert record.error.startswith(why) and record.phases == {} and record.clock_bound_s == {}


def test_lines_that_were_not_joined_are_never_counted_with() -> None:
    """Whoever forgets to join is told so, and gets no wrong number."""
    files = shifted(recovery(), {(2, 0): 5 * SECOND})
    measured(files, (2, 0), INJECT, 5 * SECOND, 10)
    assert record_of(files).outcome == "invalid"
    assert record_joined(files).outcome == "recovered"


def test_without_the_correction_the_numbers_would_be_wrong() -> None:
    """Clocks that are half a second apart, taken for one: the numbers are not those of the trial,
    and nothing that the lines say among themselves gives it away.
    """
    files = shifted(recovery(), {(2, 0): SECOND // 2, (1, 1): SECOND // 4})
    for lines in files.values():
        lines[0].pop("time_namespace", None)
    record = record_of(files)
    assert record.recovery_s is not None and abs(record.recovery_s - 0.17) > 0.4


def test_an_effect_within_the_bound_before_its_cause_is_no_disorder() -> None:
    """A survivor's exception 0.1 ms after the injection, by a clock of which 2 ms are not known."""
    files = recovery()
    for line in files[0, 0]:
        if line["event"] == "error" or (line["event"] == "span" and line["name"] == "step"):
            line["t"] = INJECT + 100_000
    others = shifted(files, {(0, 0): 7 * SECOND})
    for at in (START, INJECT + SECOND):
        measured(others, (0, 0), at, 7 * SECOND + MS, 2 * MS)
    record = record_joined(others)
    assert record.outcome == "recovered"
    first = record.detection_evidence[0]
    assert first.after_s == pytest.approx(-0.0009) and first.bound_s == pytest.approx(0.002)
    assert record.phases["detect"] == 0 and record.clock_bound_s["detect"] >= 0.002


# A real trial


def _reference() -> Reference:
    (path,) = (SAMPLE / "reference").iterdir()
    return Reference.from_dict(read_object(path, "reference", within=SAMPLE))


def _true(journal: Journal) -> Journal:
    """The journal by the machine's clock: namespaces differ from it by exactly `SECONDS`."""
    if journal.worker_slot is None:
        return journal
    offset = round(SECONDS[f"{journal.worker_slot}.{journal.attempt}"] * SECOND)
    lines = []
    for line in journal.lines:
        moved = {**line, "t": line["t"] - offset}
        if "t0" in line and "t0_of" not in line:
            moved["t0"] = line["t0"] - offset
        lines.append({k: v for k, v in moved.items() if k not in ("boot_id", "time_namespace")})
    return dataclasses.replace(journal, lines=tuple(lines))


def compare_with_the_truth(run: Path, record: TrialRecord, reference: Reference) -> None:
    """What a record says is what the same journals say by the one clock behind all of them."""
    files = [read_journal(path) for path in (run / "journal" / record.trial).glob("*.jsonl")]
    heads = {journal.lines[0]["time_namespace"] for journal in files}
    assert len(heads) == len(files), "a clock for each"
    truth = reanalyse(record, [_true(journal) for journal in files], reference)
    assert (record.outcome, truth.outcome) == ("recovered", "recovered")
    expected, found = numbers(truth), numbers(record)
    assert found.keys() == expected.keys()
    for name, value in found.items():
        assert abs(value - expected[name]) <= record.clock_bound_s.get(name, 0.0) + 2e-9, name
    assert 0 < record.clock_bound_s["recovery_s"] < 0.05, "it is known well"
    assert truth.clock_bound_s == {}


def test_a_real_trial_is_right_within_its_bounds() -> None:
    (record,) = load(SAMPLE).trials
    compare_with_the_truth(SAMPLE, record, _reference())
    again = reanalyse(record, read_trial(SAMPLE / "journal" / record.trial).all, _reference())
    assert numbers(again) == numbers(record) and again.clock_bound_s == record.clock_bound_s


def test_a_real_trial_with_the_correction_turned_off_is_none() -> None:
    (record,) = load(SAMPLE).trials
    paths = (SAMPLE / "journal" / record.trial).glob("*.jsonl")
    raw = [read_journal(path) for path in paths]
    assert reanalyse(record, raw, _reference()).outcome == "invalid"
    blind = [
        dataclasses.replace(
            journal,
            lines=tuple(
                {k: v for k, v in line.items() if k != "time_namespace"} for line in journal.lines
            ),
        )
        for journal in raw
    ]
    wrong = reanalyse(record, blind, _reference())
    assert wrong.recovery_s is None or abs(wrong.recovery_s - record.recovery_s) > 1  # type: ignore[operator]


def test_the_sample_says_what_was_exchanged() -> None:
    path = SAMPLE / "journal" / "0000" / "supervisor.0.jsonl"
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    series = [line for line in lines if line["event"] == "clock"]
    by = [(line["worker"], line["attempt"]) for line in series]
    assert sorted(by) == [(0, 0), (0, 0), (1, 0), (1, 1), (2, 0), (2, 0)]
    injected = next(line["t"] for line in lines if line["event"] == "inject")
    last = max(line["t"] for line in read_trial(path.parent).lines if line["event"] == "done")
    for line in series:
        offset = round(SECONDS["{worker}.{attempt}".format(**line)] * SECOND)
        assert abs(line["offset_ns"] - offset) <= line["bound_ns"]
        assert line["bound_ns"] == (min(line["round_trips_ns"]) + 1) // 2
        assert not injected < line["t"] < last, "never while something is measured"


# What is shown of it


def test_what_is_shorter_than_its_bound_is_shown_as_below_it() -> None:
    assert labels.seconds(0.002, 0.003) == "< 3 ms"
    assert labels.seconds(0.003, 0.003) == labels.seconds(0.003) == "3 ms"
    assert labels.seconds(-0.0009, 0.002) == "< 2 ms"
    assert labels.seconds(None, 1.0) == labels.fixed(None, 1.0) == labels.NONE
    assert (labels.fixed(0.001, 0.0031), labels.fixed(0.5, 0.0031)) == ("< 0.01", "0.50")


@given(st.floats(1e-9, 1000), st.floats(0, 0.999))
def test_the_bound_that_is_shown_is_never_below_the_bound(bound_s: float, part: float) -> None:
    assert labels._above(bound_s) >= bound_s * (1 - 1e-6)
    assert labels._above(bound_s) <= bound_s * 1.11
    assert labels.seconds(part * bound_s, bound_s).startswith("< ")


def _run(phase_s: float, *bounds_s: float) -> Run:
    """The sample, a trial for each bound, with this time and bound of its phase `react`."""
    run = load(SAMPLE)
    (record,) = run.trials
    trials = tuple(
        dataclasses.replace(
            record,
            trial=f"{i:04d}",
            phases=record.phases | {"react": phase_s},
            clock_bound_s=record.clock_bound_s | {"react": bound_s},
        )
        for i, bound_s in enumerate(bounds_s)
    )
    return dataclasses.replace(run, trials=trials)


def _react(base: Run, new: Run) -> Row:
    (cell,) = compare(Side("base", (base,), None, True), Side("new", (new,), None, True)).cells
    return next(row for row in cell.rows if row.quantity == "react")


def test_a_cell_has_the_largest_bound_of_its_trials() -> None:
    run = _run(0.06, 0.01, 0.07, 0.02)
    (summary,) = summarise(run.trials)
    assert summary.bounds["react"] == 0.07
    (row,) = rows_of([run])
    assert row.bounds == summary.bounds
    console = Console(width=120, record=True, file=io.StringIO())
    run_table(run, console)
    assert "< 0.07" in console.export_text()
    show_trial = Console(width=120, record=True, file=io.StringIO())
    trial_timeline(run.trials[1], show_trial)
    assert re.search(r"react +< 70 ms", show_trial.export_text())


def test_a_verdict_needs_a_median_that_is_above_its_bound() -> None:
    """Twelve times as long, and both shorter than the clocks can tell."""
    below = _react(_run(0.05, *[1.0] * 9), _run(0.6, *[1.0] * 9))
    assert below.verdict == "negligible" and below.p_adjusted is None
    assert [median_text(below, side) for side in (0, 1)] == ["< 1.0 s", "< 1.0 s"]
    above = _react(_run(0.05, *[0.1] * 9), _run(0.6, *[0.1] * 9))
    assert above.verdict == "worse"
    assert [median_text(above, side) for side in (0, 1)] == ["< 0.10 s", "0.60 s"]
