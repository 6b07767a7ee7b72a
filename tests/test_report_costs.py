"""What checkpoints cost: the formulas, what is taken from the records, and what is shown of it."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recoverybench.records import TrialRecord
from recoverybench.report import render
from recoverybench.report.costs import BETWEEN, Group, groups, interval_words, percent
from recoverybench.report.costs_figure import MOST, cost_figure, drawn
from recoverybench.report.costs_section import LISTED
from recoverybench.report.rows import rows_of
from recoverybench.stats.optimum import daly, overhead, young
from tests.sample_run import failed_trial, make_cell, make_run, make_trial

seconds = st.floats(1e-3, 1e5)
HOSTILE = "<img src=x onerror=alert(1)>"


def saving(index: int, interval: int, stall_s: float = 0.1, **factors: Any) -> TrialRecord:
    trial = make_trial(index, cell=make_cell(interval=interval, **factors))
    return dataclasses.replace(
        trial, save_stall_s=stall_s, save_s=0.3, steady_step_s=0.02, recovery_s=1.5, lost_steps=5
    )


def found(*trials: TrialRecord) -> list[Group]:
    return groups(rows_of([make_run(trials)]))


# ---- formulas ------------------------------------------------------------------------------


def test_youngs_and_dalys_optimum_of_a_known_case() -> None:
    # C = 5 min, M = 24 h, counted by hand: sqrt(2 * 300 * 86400) = 7200.
    assert young(300, 86400) == 7200
    x = 300 / (2 * 86400)
    assert daly(300, 86400) == pytest.approx(7200 * (1 + math.sqrt(x) / 3 + x / 9) - 300)
    assert daly(300, 100) == 100  # a save takes longer than two failures are apart


@given(seconds, seconds, seconds, st.floats(0.01, 100))
def test_no_interval_costs_less_than_youngs(
    save_s: float, failure_s: float, between_s: float, factor: float
) -> None:
    best = young(save_s, between_s)
    least = overhead(best, save_s, failure_s, between_s)
    assert overhead(best * factor, save_s, failure_s, between_s) >= least * (1 - 1e-12)


@given(st.floats(1e-3, 1.0), st.floats(1e4, 1e6))
def test_dalys_optimum_is_youngs_where_a_save_is_short(save_s: float, between_s: float) -> None:
    assert daly(save_s, between_s) == pytest.approx(young(save_s, between_s), rel=0.01)


def test_dalys_optimum_is_the_least_of_his_whole_model() -> None:
    save_s, between_s = 30.0, 1800.0

    def whole(interval_s: float) -> float:
        """Expected time for each second of training (Daly, 2006), without the restart's factor."""
        return between_s * math.expm1((interval_s + save_s) / between_s) / interval_s

    exact = min((whole(float(tau)), tau) for tau in range(60, 1200))[1]
    assert daly(save_s, between_s) == pytest.approx(exact, rel=0.02)
    assert abs(daly(save_s, between_s) - exact) < abs(young(save_s, between_s) - exact)


# ---- what is measured ----------------------------------------------------------------------


def test_cells_that_differ_in_the_interval_alone_are_a_group() -> None:
    trials = [
        saving(i, n, strategy=s) for i, (n, s) in enumerate([(5, "elastic"), (20, "elastic")])
    ]
    one, other = sorted(found(*trials, saving(2, 10, strategy="restart")), key=lambda g: g.label)
    assert (one.label, other.label) == ("elastic", "restart")
    assert [cost.steps for cost in one.costs] == [5, 20] and one.varied and not other.varied
    assert one.costs[0].interval_s == pytest.approx(0.1)
    assert one.costs[0].lost_s == pytest.approx(0.1)
    assert one.failure_s == pytest.approx(1.8)
    # 0.1 / 0.4 + (0.2 + 1.8) / 3600
    assert one.costs[1].overhead(3600) == pytest.approx(0.25 + 2.0 / 3600)
    assert one.best(3600).measured is one.costs[1]


def test_an_interval_that_never_recovered_has_no_price() -> None:
    lost = dataclasses.replace(
        saving(1, 20), outcome="no_usable_checkpoint", restored_step=None, lost_steps=None
    )
    (group,) = found(saving(0, 5), lost)
    assert group.costs[1].overhead(600) is None and group.best(600).measured is group.costs[0]
    figure = cost_figure([group], 600)
    assert len(figure["data"][3]["x"]) == 1


def test_a_group_without_its_numbers_is_left_out() -> None:
    assert found(make_trial()) == []  # no save was timed
    assert found(failed_trial(0)) == []
    assert found(saving(0, 5, stall_s=0.0)) == []
    assert found(saving(0, 5, stall_s=1e300)) == []
    assert found(dataclasses.replace(saving(0, 5), steady_step_s=None)) == []
    page = render([make_run([make_trial()])])
    assert 'id="costs"' not in page


def test_intervals_of_two_runs_are_two_groups() -> None:
    runs = [make_run([saving(0, 5)]), make_run([saving(0, 10)], run_id="other")]
    assert [len(g.costs) for g in groups(rows_of(runs))] == [1, 1]


# ---- what is shown -------------------------------------------------------------------------


def test_the_section_has_a_figure_for_each_time_between_failures() -> None:
    page = render([make_run([saving(0, 5), saving(1, 20)])])
    assert 'data-figure="costs-3600"' in page and 'data-chooses="cost-curves"' in page
    for _, words in BETWEEN:
        assert f">{words}</option>" in page
    assert "5 steps (0.10 s)" in page


def test_one_interval_has_the_best_one_and_no_figure() -> None:
    page = render([make_run([saving(0, 10)])])
    assert 'id="costs"' in page and "The interval that costs least" in page
    assert 'data-figure="costs-3600"' not in page


def test_a_figure_has_the_groups_with_most_intervals() -> None:
    trials = [
        saving(2 * i + n, 5 * (n + 1), watchdog_s=float(i + 1)) for i in range(7) for n in (0, 1)
    ]
    made = found(*trials, saving(90, 50, watchdog_s=7.0))
    shown = drawn(made)
    assert len(shown) == MOST and max(len(g.costs) for g in shown) == 3
    assert "Drawn are the 5 with most intervals; the tables have all 7." in render(
        [make_run([*trials, saving(90, 50, watchdog_s=7.0)])]
    )


def test_texts_of_a_run_are_no_markup_in_the_figure() -> None:
    trials = [
        saving(i, 5 * (i + 1), strategy=s) for i, s in enumerate((HOSTILE, HOSTILE, "elastic"))
    ]
    figure = cost_figure(found(*trials), 600)
    assert "<img" not in str(figure)


@given(st.floats(1e-9, 1e9), st.floats(1e-9, 1e9), st.integers(1, 2**62))
def test_any_times_make_a_figure(stall_s: float, step_s: float, interval: int) -> None:
    trials = [
        dataclasses.replace(saving(i, n, stall_s=stall_s), steady_step_s=step_s)
        for i, n in enumerate((1, interval + 1))
    ]
    for group in found(*trials):
        for between_s, _ in BETWEEN:
            figure = cost_figure([group], between_s)
            assert all(math.isfinite(v) for t in figure["data"] for v in (*t["x"], *t["y"]))
            interval_words(group.in_steps(group.best(between_s).young_s), 1.0)


def test_percentages_have_digits_that_count() -> None:
    said = [percent(v) for v in (None, 0.0034, 0.0214, 0.441, 13.0)]
    assert said == ["–", "0.34 %", "2.1 %", "44.1 %", "1,300 %"]
    assert interval_words(1, 0.02) == "1 step (20 ms)"


def test_a_page_of_very_many_cells_lists_some_and_says_so() -> None:
    trials = [saving(i, 10, watchdog_s=float(i + 1)) for i in range(LISTED + 3)]
    assert f"Listed are {LISTED} of {LISTED + 3};" in render([make_run(trials)])
