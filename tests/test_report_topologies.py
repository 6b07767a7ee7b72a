"""The heat map of topologies, and restores by size."""

from __future__ import annotations

import dataclasses

from hypothesis import given
from hypothesis import strategies as st

from recoverybench.records import TrialRecord
from recoverybench.report import render
from recoverybench.report.restore_sizes import restored, size_figure
from recoverybench.report.rows import rows_of
from recoverybench.report.topologies import MOST, cividis, maps
from tests.sample_run import failed_trial, make_cell, make_run, make_trial, timed_out_trial

HOSTILE = "<img src=x onerror=alert(1)>"


def grid() -> list[TrialRecord]:
    cells = [
        make_cell(topology=t, strategy=s)
        for t in ("10x1", "2x1", "2x2")
        for s in ("elastic", "restart")
    ]
    return [make_trial(i, cell=cell) for i, cell in enumerate(cells)]


def test_topologies_stand_down_by_size_and_strategies_across() -> None:
    (one,) = maps(rows_of([make_run(grid())]))
    assert [name for name, _ in one.lines] == ["2x1", "2x2", "10x1"]
    assert (one.across, one.columns, one.label) == ("strategy", ("elastic", "restart"), "")
    assert one.count == 6


def test_the_factor_with_most_values_stands_across() -> None:
    cells = [
        make_cell(topology=t, fault=f) for t in ("2x1", "3x1") for f in ("kill", "hang", "nan")
    ]
    (one,) = maps(rows_of([make_run([make_trial(i, cell=c) for i, c in enumerate(cells)])]))
    assert one.across == "fault" and len(one.columns) == 3


def test_one_topology_has_no_map() -> None:
    assert maps(rows_of([make_run()])) == []
    assert 'id="topologies"' not in render([make_run()])


def test_what_a_job_comes_back_on_is_a_topology_of_its_own() -> None:
    cells = [make_cell(restore_topology=t) for t in (None, "2x1", "3x1")]
    (one,) = maps(rows_of([make_run([make_trial(i, cell=c) for i, c in enumerate(cells)])]))
    assert [name for name, _ in one.lines] == ["3x1", "3x1 → 2x1"]


def test_fields_say_what_was_not_measured_and_what_did_not_recover() -> None:
    trials = [*grid()[:3], failed_trial(9, cell=make_cell(topology="2x1", strategy="restart"))]
    page = render([make_run(trials)])
    assert "none recovered" in page and "1 not recovered" in page
    page = render([make_run(grid()[:3])])
    assert "not measured" in page


def test_a_median_beyond_the_deadline_is_said_to_be_more() -> None:
    cell = make_cell(topology="2x1")
    trials = [
        make_trial(0, cell=cell),
        timed_out_trial(1, cell=cell),
        timed_out_trial(2, cell=cell),
    ]
    ((_, (field,)), _) = maps(rows_of([make_run([*trials, make_trial(3)])]))[0].lines
    assert field is not None and field.median.startswith("more than ")


def test_other_factors_make_maps_of_their_own_and_runs_too() -> None:
    cells = [
        make_cell(topology=t, watchdog_s=w, strategy=s)
        for t in ("2x1", "3x1")
        for w in (1.0, 2.0, 3.0, 4.0, 5.0, 6.0)
        for s in ("elastic", "restart")
    ]
    run = make_run([make_trial(i, cell=c) for i, c in enumerate(cells)])
    found = maps(rows_of([run]))
    assert sorted(one.label for one in found) == [f"watchdog {w} s" for w in range(1, 7)]
    page = render([run])
    assert f"Shown are the {MOST} maps with most fields; 2 more are" in page
    assert len(maps(rows_of([run, make_run(grid(), run_id="other")]))) == 7


def test_texts_of_a_run_are_text() -> None:
    cells = [make_cell(topology=t, strategy=s) for t in ("2x1", HOSTILE) for s in ("a", HOSTILE)]
    page = render([make_run([make_trial(i, cell=c) for i, c in enumerate(cells)])])
    assert "<img" not in page


@given(st.floats(0, 1))
def test_colours_get_lighter(part: float) -> None:
    def light(at: float) -> float:
        red, green, blue = cividis(at)
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue

    assert light(part) <= light(min(part + 0.05, 1.0)) + 1


def test_restores_by_size_are_grouped_by_about_the_same_size() -> None:
    def sized(index: int, size: int, topology: str) -> TrialRecord:
        trial = make_trial(index, cell=make_cell(topology=topology))
        phases = trial.phases | {"restore": 0.1 * (index + 1)}
        return dataclasses.replace(trial, restore_bytes=size, phases=phases)

    trials = [sized(0, 10**6, "3x1"), sized(1, 1_050_000, "3x1"), sized(2, 10**8, "3x1")]
    rows = rows_of([make_run(trials)])
    small, large = restored(rows)
    assert (small.trials, small.size_text, large.size_text) == (2, "1.02 MB", "100 MB")
    assert (round(small.median_s, 6), large.median_s) == (0.15, trials[2].phases["restore"])
    figure = size_figure(rows)
    assert figure is not None
    assert figure["layout"]["yaxis"]["ticktext"] and "1 MB" in figure["layout"]["xaxis"]["ticktext"]
    assert "1.02 MB" in render([make_run(trials)])
