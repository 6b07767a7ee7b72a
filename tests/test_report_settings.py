"""What the report says of settings, of failures and of strange names."""

from __future__ import annotations

import dataclasses

import pytest

from recoverybench.report import render
from recoverybench.report.figures import phases_figure, recovery_figure
from recoverybench.report.rows import rows_of
from recoverybench.report.settings import Difference, differences, settings_of
from recoverybench.results.store import Run
from tests.sample_run import (
    default_trials,
    failed_trial,
    make_run,
    make_trial,
    timed_out_trial,
)


def on(run: Run, run_id: str, **machine: object) -> Run:
    info = dataclasses.replace(run.info, run_id=run_id, machine={**run.info.machine, **machine})
    return dataclasses.replace(run, info=info)


def found(*runs: Run) -> list[Difference]:
    return differences([settings_of(run) for run in runs])


def test_one_run_and_the_same_run_under_another_name_differ_in_nothing() -> None:
    run = make_run()
    assert found(run) == found(run, on(run, "another")) == []
    page = render([run, on(run, "another")])
    assert "In these runs they are." in page and "<mark>" not in page


def test_what_differs_is_said_once_and_marked() -> None:
    run = make_run()
    runs = [on(run, "a", cores_usable=31), on(run, "b", cores_usable=47), on(run, "c")]
    (one,) = [d for d in found(*runs) if d.name == "cores usable"]
    assert one.group == "Machine" and one.values[:2] == ("31", "47")
    page = render(runs)
    assert page.count("<mark>31</mark>") == page.count("<mark>47</mark>") == 1
    assert page.index('id="differences"') < page.index("<mark>")


def test_a_run_that_does_not_say_has_a_dash() -> None:
    run = make_run()
    (one,) = found(run, on(run, "b", accelerator="v5e"))
    assert one == Difference("Machine", "accelerator", ("–", "v5e"))


def test_a_name_with_several_values_keeps_all_of_them() -> None:
    groups = [{"name": "Suite", "rows": [("design", "x"), ("design", "y")]}]
    other = [{"name": "Suite", "rows": [("design", "x")]}]
    (one,) = differences([{"groups": groups}, {"groups": other}])
    assert one.values == ("x; y", "x")


def test_labels_and_the_answer_hold_no_character_that_acts() -> None:
    trials = default_trials(2)
    acting = [
        dataclasses.replace(t, cell=dataclasses.replace(t.cell, strategy="ela\u202estic\x1b[31m"))
        for t in trials
        if t.cell.strategy == "elastic"
    ]
    page = render([make_run([*acting, *(t for t in trials if t.cell.strategy != "elastic")])])
    assert "\u202e" not in page and "\x1b" not in page
    answer = page[page.index('class="answer"') : page.index('class="basis"')]
    assert "ela\\u202estic\\x1b[31m" in answer


def test_bars_of_phases_are_a_real_recovery() -> None:
    """So that their length is the recovery time beside them."""
    run = make_run(default_trials(3))
    for row in rows_of([run]):
        assert row.middle is not None and row.middle.recovery_s == row.median_s
    figure = phases_figure(rows_of([run]))
    for y, row in enumerate(rows_of([run])):
        shown = {t["legendgroup"]: t["x"][y] for t in figure["data"]}
        assert row.middle is not None and row.median_s is not None
        parts = [x for phase, x in shown.items() if phase != "catch_up" and x is not None]
        assert sum(parts) == pytest.approx(row.median_s, abs=1e-6)


def test_a_trial_that_was_not_back_counts_as_longer_than_any() -> None:
    trials = [make_trial(i, rep=i) for i in range(2)]
    trials = [dataclasses.replace(t, recovery_s=1.0 + i) for i, t in enumerate(trials)]
    (row,) = rows_of([make_run([*trials, timed_out_trial(2, rep=2)])])
    assert row.middle == trials[1]
    (row,) = rows_of([make_run([timed_out_trial(0)])])
    assert row.middle is None


def test_where_nothing_recovered_the_reason_stands_first_and_no_empty_chart() -> None:
    error = "worker 0 is lost"
    page = render([make_run([dataclasses.replace(failed_trial(0), error=error)])])
    assert f"The reason: {error}." in page and 'data-figure="phases"' not in page


def test_a_date_beyond_the_calendar_is_shown_as_it_is() -> None:
    run = make_run()
    info = dataclasses.replace(run.info, created="9999-12-31T23:59:59-23:59")
    assert "9999-12-31T23:59:59-23:59" in render([dataclasses.replace(run, info=info)])


def test_times_beyond_all_measure_are_drawn_somewhere() -> None:
    trials = [
        dataclasses.replace(
            t, recovery_s=5e-324, spans=[dataclasses.replace(t.spans[0], end_s=1e308)]
        )
        for t in default_trials(1)
    ]
    figure = recovery_figure(rows_of([make_run(trials)]))
    assert figure["layout"]["xaxis"]["range"] == [0, 1e-6]
    assert render([make_run(trials)])
