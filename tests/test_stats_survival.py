"""Medians of times that were cut off at a deadline, and rates of every outcome: laws, agreement
with scipy and statsmodels, coverage.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import CensoredData, binom, binomtest, ecdf
from statsmodels.duration.survfunc import SurvfuncRight
from statsmodels.stats.multitest import multipletests
from statsmodels.stats.proportion import proportion_confint

from recoverybench.effects import holm
from recoverybench.stats import median_interval, quantile, summarise, survival, wilson
from tests.sample_run import failed_trial, make_trial, timed_out_trial

TIMES = st.lists(st.floats(0.01, 100.0), max_size=30)
TRIALS = st.lists(st.tuples(st.floats(0.01, 100.0), st.booleans()), min_size=1, max_size=30)


def split(trials: list[tuple[float, bool]]) -> tuple[list[float], list[float]]:
    return [t for t, back in trials if back], [t for t, back in trials if not back]


# Laws


@given(st.lists(st.floats(0.01, 100.0), min_size=1, max_size=30))
def test_with_nothing_censored_it_is_the_plain_median(times: list[float]) -> None:
    found = survival(times)
    assert found is not None
    assert found.median == quantile(sorted(times), 0.5)
    assert found.interval == median_interval(sorted(times))
    assert (found.n, found.censored, found.bound) == (len(times), 0, None)


@given(TRIALS, st.randoms(use_true_random=False), st.integers(-4, 4))
@settings(deadline=None)
def test_order_and_unit_change_nothing(
    trials: list[tuple[float, bool]], rng: object, power: int
) -> None:
    there = survival(*split(trials))
    moved = survival(*split([(t * 2.0**power, back) for t, back in reversed(trials)]))
    assert there is not None and moved is not None
    assert there.interval.confidence == moved.interval.confidence
    for a, b in (
        (there.median, moved.median),
        (there.bound, moved.bound),
        (there.interval.low, moved.interval.low),
        (there.interval.high, moved.interval.high),
    ):
        assert (a is None) == (b is None)
        assert a is None or a * 2.0**power == b


@given(TRIALS)
@settings(deadline=None)
def test_median_or_bound_lie_inside_the_interval(trials: list[tuple[float, bool]]) -> None:
    found = survival(*split(trials))
    assert found is not None
    assert (found.median is None) != (found.bound is None)
    shown = found.bound if found.median is None else found.median
    assert shown is not None
    assert found.interval.low - 1e-9 <= shown <= found.interval.high + 1e-9
    assert not math.isnan(found.interval.high)


@given(TRIALS, st.floats(0, 50))
@settings(deadline=None)
def test_the_bound_holds_whatever_the_censored_times_were(
    trials: list[tuple[float, bool]], longer: float
) -> None:
    times, late = split(trials)
    found = survival(times, late)
    assert found is not None
    whole = quantile(sorted([*times, *(t + longer for t in late)]), 0.5)
    if found.bound is not None:
        assert found.bound <= whole + 1e-9
    assert found.interval.low <= whole + 1e-9


# As others have it


@given(TRIALS)
@settings(max_examples=200, deadline=None)
def test_the_median_is_that_of_the_curves_of_scipy_and_statsmodels(
    trials: list[tuple[float, bool]],
) -> None:
    times, late = split(trials)
    found = survival(times, late)
    assert found is not None
    if not times:
        assert found.median is None
        return
    scipy = ecdf(CensoredData(uncensored=times, right=late)).sf
    theirs = SurvfuncRight([t for t, _ in trials], [int(back) for _, back in trials])
    for at, curve in (
        (scipy.quantiles, scipy.probabilities),
        (theirs.surv_times, theirs.surv_prob),
    ):
        reached = at[curve <= 0.5 + 1e-9]
        passed = at[curve < 0.5 - 1e-9]
        if not len(passed):
            assert found.median is None
        else:
            assert found.median == pytest.approx((reached[0] + passed[0]) / 2, rel=1e-12)


@given(st.integers(1, 200), st.data())
@settings(max_examples=30, deadline=None)
def test_wilson_as_scipy_and_statsmodels_have_it(n: int, data: st.DataObject) -> None:
    k = data.draw(st.integers(0, n))
    ours = wilson(k, n)
    scipy = binomtest(k, n).proportion_ci(method="wilson")
    for low, high in (
        (scipy.low, scipy.high),
        proportion_confint(k, n, method="wilson"),
    ):
        assert ours.low == pytest.approx(low, abs=1e-12)
        assert ours.high == pytest.approx(high, abs=1e-12)


@pytest.mark.parametrize("n", [1, 2, 7, 40])
def test_holm_as_statsmodels_has_it(n: int) -> None:
    rng = np.random.default_rng(n)
    for scale in (1.0, 0.01):
        ps = [*(scale * rng.random(n)).tolist(), 0.02, 0.02]  # two are equal
        theirs = multipletests(ps, method="holm")[1]
        assert holm(ps) == pytest.approx(list(theirs), abs=1e-12)


# Known answers


def test_a_median_that_was_not_reached_is_a_bound() -> None:
    found = survival([1.0, 2.0], [60.0, 60.0, 60.0])
    assert found is not None
    assert (found.median, found.bound) == (None, 60.0)
    assert (found.interval.low, found.interval.high) == (1.0, math.inf)
    assert found.interval.confidence == 0.9375
    half = survival([1.0, 2.0], [60.0, 60.0])
    assert half is not None
    assert (half.median, half.bound) == (None, 31.0)
    most = survival([1.0, 2.0, 3.0], [60.0, 60.0])
    assert most is not None
    assert (most.median, most.bound) == (3.0, None)


def test_kaplan_and_meier_as_published() -> None:
    # Remission in weeks, 6-MP, of Freireich et al. 1963: the median is 23 in every textbook.
    back = [6, 6, 6, 7, 10, 13, 16, 22, 23]
    late = [6, 9, 10, 11, 17, 19, 20, 25, 32, 32, 34, 35]
    found = survival(map(float, back), map(float, late))
    assert found is not None
    assert (found.n, found.censored, found.median) == (21, 12, 23.0)


def test_nothing_is_nothing() -> None:
    assert survival([], []) is None


# Cells


def test_a_trial_that_was_not_back_counts_in_the_median_of_its_cell() -> None:
    trials = [make_trial(i, rep=i) for i in range(3)] + [timed_out_trial(3, rep=3)]
    (summary,) = summarise(trials, deadline_s=60.0)
    times = sorted(t.recovery_s for t in trials if t.recovery_s is not None)
    assert summary.recovery is not None and summary.progress is not None
    assert summary.recovery.median == pytest.approx((times[1] + times[2]) / 2)
    assert (summary.recovery.n, summary.recovery.censored) == (4, 1)
    assert summary.recovery.interval.high == math.inf
    assert summary.progress.n == 4
    assert summary.recovery_s is not None and summary.recovery_s.n == 3


def test_without_a_deadline_only_what_was_seen_is_claimed() -> None:
    trials = [make_trial(0), *(timed_out_trial(i, rep=i) for i in (1, 2))]
    (summary,) = summarise(trials)
    assert summary.recovery is not None
    assert summary.recovery.bound == trials[0].recovery_s
    (known,) = summarise(trials, deadline_s=60.0)
    assert known.recovery is not None and known.recovery.bound == 60.0
    (never,) = summarise(trials[1:], deadline_s=60.0)
    assert never.recovery is not None and never.recovery.bound == 60.0
    (broken,) = summarise([failed_trial(0)], deadline_s=60.0)
    assert broken.recovery is None


def test_one_of_three_failed_is_two_of_three_and_every_outcome_has_its_interval() -> None:
    trials = [make_trial(0), make_trial(1, rep=1), failed_trial(2, rep=2)]
    (summary,) = summarise([*trials, failed_trial(3, rep=3, outcome="invalid")])
    assert (summary.recovered, summary.judged) == (2, 3)
    assert summary.rate == wilson(2, 3)
    assert summary.rates == {
        "recovered": wilson(2, 3),
        "not_recovered": wilson(1, 3),
        "invalid": wilson(1, 4),
    }


# What intervals cover

COUNT = 4000
ERROR = 3.3 * math.sqrt(0.05 * 0.95 / COUNT)
"""Of a simulated share near 95 %: beyond it once in 1,000."""

SHAPES: dict[str, Callable[[np.random.Generator, tuple[int, int]], np.ndarray]] = {
    "log-normal": lambda rng, size: rng.lognormal(0, 0.3, size),
    "exponential tail": lambda rng, size: 1 + rng.exponential(0.5, size),
}
MEDIANS = {"log-normal": 1.0, "exponential tail": 1 + 0.5 * math.log(2)}


@pytest.mark.parametrize("late", [0.3, 0.6], ids=["median before", "median beyond the deadline"])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("n", [5, 10, 20, 30])
def test_with_one_deadline_the_interval_covers_what_it_says(
    n: int, shape: str, late: float
) -> None:
    rng = np.random.default_rng(n)
    drawn = SHAPES[shape](rng, (COUNT, n))
    deadline = float(np.quantile(SHAPES[shape](rng, (1, 100_000)), 1 - late))
    hits, said = 0, 0.0
    for row in drawn.tolist():
        found = survival((t for t in row if t <= deadline), [deadline for t in row if t > deadline])
        assert found is not None
        # The end that is a deadline says: longer than that.
        hits += found.interval.low <= MEDIANS[shape] <= found.interval.high
        said += found.interval.confidence / COUNT
    assert hits / COUNT > said - 0.01 - ERROR
    if late < 0.5:  # else no upper end can be too low: where there is one, it is infinite
        assert hits / COUNT < said + 0.01 + ERROR
    assert 0.93 < said < 0.98


def test_with_deadlines_of_their_own_it_covers_at_least_what_it_says() -> None:
    rng = np.random.default_rng(1)
    hits, said, count = 0, 0.0, 500  # scipy's curve takes half a millisecond
    for _ in range(count):
        times, waited = rng.lognormal(0, 0.3, 10), rng.uniform(0.5, 3.0, 10)
        found = survival(times[times <= waited].tolist(), waited[times > waited].tolist())
        assert found is not None
        hits += found.interval.low <= 1.0 <= found.interval.high
        said += found.interval.confidence / count
    assert hits / count > said - 3.3 * math.sqrt(0.05 * 0.95 / count)


@pytest.mark.parametrize("n", [5, 10, 20, 30])
def test_wilson_covers_95_percent_of_rates_on_average(n: int) -> None:
    """Exactly, by the binomial distribution; not at every rate, see docs/statistics.md."""
    rates = (np.arange(2000) + 0.5) / 2000
    ends = [wilson(k, n) for k in range(n + 1)]
    held = sum(
        binom.pmf(k, n, rates) * ((end.low <= rates) & (rates <= end.high))
        for k, end in enumerate(ends)
    )
    assert abs(float(np.mean(held)) - 0.95) < 0.01
