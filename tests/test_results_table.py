"""The table of all trials."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recoverybench.cells import FACTORS, Cell
from recoverybench.records import TrialRecord
from recoverybench.results.columns import row, table
from recoverybench.results.store import Run, RunDir, load
from recoverybench.vocabulary import MILESTONES, OUTCOMES, PHASES
from tests.kept_runs import INFO, SUITE, record, two_trials
from tests.strategies import cells, records


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return two_trials(tmp_path / "results" / "mine-1")


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
