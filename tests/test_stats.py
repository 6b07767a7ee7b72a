"""Summaries of cells, against tables and against scipy."""

from __future__ import annotations

import dataclasses
import math
import statistics

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom, binomtest

from recoverybench.records import TrialRecord
from recoverybench.stats import median_interval, quantile, spread, summarise, wilson
from recoverybench.vocabulary import PHASES
from tests.sample_run import default_trials, failed_trial, make_cell, make_trial, timed_out_trial

NUMBERS = st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=60)


def test_one_summary_a_cell_in_the_order_of_the_trials() -> None:
    summaries = summarise(default_trials(reps=5))
    assert [s.cell.strategy for s in summaries] == ["restart", "elastic", "hot-spare"]
    for summary in summaries:
        assert (summary.n, summary.judged, summary.recovered, summary.censored) == (5, 5, 5, 0)
        assert summary.outcomes == {"recovered": 5}
        assert list(summary.phases) == list(PHASES)
        assert summary.recovery_s is not None and summary.recovery_s.n == 5


def test_times_are_of_recovered_trials_and_the_rate_of_all() -> None:
    trials = [
        make_trial(0),
        make_trial(1, rep=1),
        failed_trial(2, rep=2),
        timed_out_trial(3, rep=3),
        failed_trial(4, rep=4, outcome="undetected"),
        failed_trial(5, rep=5, outcome="invalid"),
        # It has a time, and is none that counts.
        dataclasses.replace(make_trial(6, rep=6), outcome="diverged", recovery_s=99.0),
    ]
    (summary,) = summarise(trials)
    assert summary.outcomes == {
        "recovered": 2,
        "diverged": 1,
        "not_recovered": 1,
        "undetected": 1,
        "timeout": 1,
        "invalid": 1,
    }
    assert (summary.n, summary.judged, summary.recovered, summary.censored) == (7, 6, 2, 2)
    assert summary.rate == wilson(2, 6)
    assert summary.recovery_s is not None
    assert summary.recovery_s.values == tuple(t.recovery_s for t in trials[:2])


def test_a_cell_that_never_recovered_is_there() -> None:
    (summary,) = summarise([failed_trial(0), timed_out_trial(1)])
    assert (summary.recovered, summary.judged) == (0, 2)
    assert summary.recovery_s is summary.time_to_progress_s is summary.lost_steps is None
    assert summary.phases == {}


def test_a_cell_with_nothing_to_judge_has_no_rate() -> None:
    (summary,) = summarise([failed_trial(0, outcome="invalid")])
    assert (summary.n, summary.judged, summary.rate) == (1, 0, None)


def test_no_cell_is_dropped_because_a_factor_is_null() -> None:
    cells = [make_cell(watchdog_s=None), make_cell(watchdog_s=2.0), make_cell(victim=1)]
    trials = [make_trial(i, cell=cell) for i, cell in enumerate(cells)]
    assert [s.cell for s in summarise(trials)] == cells


def test_no_trials_no_summaries() -> None:
    assert summarise([]) == []
    assert spread([None]) is None


@pytest.mark.parametrize(
    ("k", "n", "low", "high"),
    # From Brown, Cai and DasGupta's formula, to the digits that are shown.
    [(0, 3, 0.0, 0.561497), (3, 3, 0.438503, 1.0), (9, 10, 0.595850, 0.982124)],
)
def test_wilson(k: int, n: int, low: float, high: float) -> None:
    interval = wilson(k, n)
    assert interval.low == pytest.approx(low, abs=1e-6)
    assert interval.high == pytest.approx(high, abs=1e-6)


@settings(max_examples=30)  # scipy computes a p-value as well
@given(st.integers(1, 200), st.data())
def test_wilson_agrees_with_scipy(n: int, data: st.DataObject) -> None:
    k = data.draw(st.integers(0, n))
    theirs = binomtest(k, n).proportion_ci(method="wilson")
    ours = wilson(k, n)
    assert ours.low == pytest.approx(theirs.low, abs=1e-12)
    assert ours.high == pytest.approx(theirs.high, abs=1e-12)
    assert 0 <= ours.low <= k / n <= ours.high <= 1


@pytest.mark.parametrize(
    ("n", "ends", "covers"),
    # Order statistics k and n+1-k of the sign test's tables.
    [
        (1, (0, 0), 0.0),
        (2, (0, 1), 0.5),
        (3, (0, 2), 0.75),
        (5, (0, 4), 0.9375),
        (6, (0, 5), 0.96875),
        (8, (0, 7), 0.9921875),
        (9, (1, 7), 0.9609375),
        (20, (5, 14), 0.958610534667969),
    ],
)
def test_interval_of_the_median(n: int, ends: tuple[int, int], covers: float) -> None:
    interval = median_interval([float(i) for i in range(n)])
    assert [interval.low, interval.high] == [float(end) for end in ends]
    assert interval.confidence == pytest.approx(covers, abs=1e-12)


@given(st.integers(6, 400))
def test_interval_of_the_median_agrees_with_the_binomial_distribution(n: int) -> None:
    interval = median_interval([float(i) for i in range(n)])
    k = int(interval.low)  # rank of the lower end, from 0
    assert interval.high == n - 1 - k
    assert interval.confidence == pytest.approx(1 - 2 * binom.cdf(k, n, 0.5), abs=1e-12)
    assert interval.confidence >= 0.95
    assert 1 - 2 * binom.cdf(k + 1, n, 0.5) < 0.95


def test_ten_thousand_trials_of_one_cell() -> None:
    interval = median_interval([float(i) for i in range(10_000)])
    assert interval.confidence == pytest.approx(0.95, abs=0.01)


@given(NUMBERS)
def test_a_spread_is_in_order(values: list[float]) -> None:
    found = spread(values)
    assert found is not None
    order = [found.minimum, found.lower, found.median, found.upper, found.maximum]
    assert order == sorted(order)
    assert found.interval.low <= found.median <= found.interval.high
    assert found.median == pytest.approx(statistics.median(values))
    assert found.values == tuple(values)


@given(NUMBERS, st.floats(0, 1))
def test_quantiles_agree_with_numpy(values: list[float], q: float) -> None:
    assert quantile(sorted(values), q) == pytest.approx(float(np.quantile(values, q)), abs=1e-6)


def test_a_phase_that_some_trials_lack() -> None:
    def cut(trial: TrialRecord) -> TrialRecord:
        phases = {name: s for name, s in trial.phases.items() if name != "catch_up"}
        return dataclasses.replace(trial, phases=phases, time_to_progress_s=None)

    (summary,) = summarise([make_trial(0), cut(make_trial(1, rep=1))])
    assert summary.phases["catch_up"].n == 1
    assert summary.phases["detect"].n == 2
    assert summary.time_to_progress_s is not None and summary.time_to_progress_s.n == 1
    assert math.isfinite(summary.time_to_progress_s.median)
