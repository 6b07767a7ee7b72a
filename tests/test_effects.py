"""Two samples compared: properties, agreement with scipy, coverage and false alarms."""

from __future__ import annotations

import dataclasses
import itertools
import math
import random
import time
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import mannwhitneyu, permutation_test, rankdata

from recoverybench.effects import (
    Effect,
    Sample,
    bimodal,
    detectable,
    effect,
    holm,
    modes,
    rank_test,
    rate_test,
    ratio_interval,
    verdict,
)

times = st.lists(st.floats(0.01, 100.0), min_size=1, max_size=12)


def of(base: Sequence[float], new: Sequence[float]) -> Effect:
    return effect(Sample(tuple(base)), Sample(tuple(new)))


# Laws


@given(times, times)
@settings(max_examples=80, deadline=None)
def test_swapping_the_sides_turns_the_answer_round(base: list[float], new: list[float]) -> None:
    there, back = of(base, new), of(new, base)
    assert there.p == pytest.approx(back.p, abs=1e-12)
    assert there.ratio == pytest.approx(1 / back.ratio) if back.ratio else True
    assert there.interval is not None and back.interval is not None
    assert there.interval.low == pytest.approx(1 / back.interval.high)
    assert there.interval.high == pytest.approx(1 / back.interval.low)
    assert there.interval.low <= there.interval.high


@given(times, times, st.floats(0.01, 100.0), st.randoms(use_true_random=False))
@settings(max_examples=60, deadline=None)
def test_units_and_order_change_nothing(
    base: list[float], new: list[float], scale: float, rng: random.Random
) -> None:
    shuffled = rng.sample(base, len(base))
    plain, moved = of(base, new), of([v * 2.0**3 for v in shuffled], [v * 2.0**3 for v in new])
    assert (plain.p, plain.ratio, plain.interval) == (moved.p, moved.ratio, moved.interval)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=30))
def test_holm(ps: list[float]) -> None:
    found = holm(ps)
    assert all(p <= q <= 1 for p, q in zip(ps, found, strict=True))
    assert min(found) == min(1.0, len(ps) * min(ps))
    order = sorted(range(len(ps)), key=ps.__getitem__)
    assert [found[i] for i in order] == sorted(found)


def test_holm_as_published() -> None:
    # Aickin and Gensler 1996, table 1.
    assert holm([0.01, 0.02, 0.03, 0.04, 0.05]) == pytest.approx([0.05, 0.08, 0.09, 0.09, 0.09])


# As scipy has it


@pytest.mark.parametrize("sizes", list(itertools.product(range(2, 6), repeat=2)))
def test_the_test_is_exact_for_the_smallest_samples(sizes: tuple[int, int]) -> None:
    rng = random.Random(str(sizes))
    base, new = ([rng.random() for _ in range(n)] for n in sizes)
    expected = mannwhitneyu(base, new, method="exact").pvalue
    assert rank_test(base, new) == pytest.approx(expected, abs=1e-12)


def test_ties_are_counted_out_where_they_can_be() -> None:
    base, new = [1.0, 1.0, 2.0, 2.0], [2.0, 3.0, 3.0, 3.0]
    ranks = [1.5, 1.5, 4.0, 4.0, 4.0, 7.0, 7.0, 7.0]
    sums = [sum(c) for c in itertools.combinations(ranks, 4)]
    extreme = sum(abs(s - 18) >= abs(11.0 - 18) for s in sums) / len(sums)
    assert rank_test(base, new) == pytest.approx(extreme, abs=1e-12)
    assert rank_test([1.0] * 3, [1.0] * 4) == 1.0
    rng = random.Random(4)
    for n, m in ((2, 5), (5, 5), (6, 4)):
        x, y = ([float(rng.randrange(4)) for _ in range(size)] for size in (n, m))
        expected = permutation_test(
            (rankdata([*x, *y])[:n], rankdata([*x, *y])[n:]),
            lambda a, b, axis: abs(a.mean(axis) - b.mean(axis)),
            vectorized=True,
            n_resamples=math.inf,
            alternative="greater",
        ).pvalue
        assert rank_test(x, y) == pytest.approx(expected, abs=1e-12)


def test_many_ties_are_counted_out_as_whole_numbers_would_be() -> None:
    rng = random.Random(7)
    for n, m in ((12, 15), (20, 9)):
        values = [float(rng.randrange(6)) for _ in range(n + m)]
        doubled = [round(2 * rank) for rank in rankdata(values)]
        ways: dict[tuple[int, int], int] = {(0, 0): 1}
        for rank in doubled:
            for (chosen, total), count in list(ways.items()):
                into = chosen + 1, total + rank
                ways[into] = ways.get(into, 0) + count
        middle = n * (n + m + 1)
        far = abs(sum(doubled[:n]) - middle)
        extreme = sum(c for (k, s), c in ways.items() if k == n and abs(s - middle) >= far)
        expected = extreme / math.comb(n + m, n)
        assert rank_test(values[:n], values[n:]) == pytest.approx(expected, rel=1e-12)


def test_an_interval_leaves_out_1_exactly_where_the_test_rejects() -> None:
    rng = random.Random(5)
    for _ in range(200):
        base = [rng.lognormvariate(0, 0.3) for _ in range(6)]
        new = [rng.lognormvariate(0.5, 0.3) for _ in range(7)]
        interval, p = ratio_interval(sorted(base), sorted(new)), rank_test(base, new)
        assert interval is not None and p is not None
        rejected = not interval.low <= 1 <= interval.high
        assert rejected == (p <= 1 - interval.confidence + 1e-12)


# What is covered, and how often there is a false alarm


@pytest.mark.parametrize("n", [5, 10, 20, 30])
@pytest.mark.parametrize("shape", ["log-normal", "exponential", "two groups"])
def test_the_interval_covers_what_it_says(n: int, shape: str) -> None:
    rng = random.Random(f"{n}{shape}")

    def draw() -> float:
        if shape == "log-normal":
            return rng.lognormvariate(0, 0.25)
        if shape == "exponential":
            return 1 + rng.expovariate(2)
        return rng.lognormvariate(0, 0.05) * (1 if rng.random() < 0.7 else 1.5)

    hits, said, count = 0, 0.0, 3000
    for _ in range(count):
        base, new = (sorted(draw() for _ in range(n)) for _ in range(2))
        interval = ratio_interval(base, [v * 1.3 for v in new])
        assert interval is not None
        hits += interval.low <= 1.3 <= interval.high
        said += interval.confidence / count
    error = 3.3 * math.sqrt(0.05 * 0.95 / count)  # of the simulation itself
    assert abs(hits / count - said) < 0.01 + error
    assert 0.94 < said < 0.97


def test_false_alarms_of_a_whole_table_stay_at_the_level() -> None:
    """2,000 comparisons of 3 cells with 10 correlated quantities each, in which nothing changed."""
    rng = random.Random(1)
    tables = alarms = 0
    memory: dict[tuple[int, ...], float] = {}
    for _ in range(2000):
        ps = []
        for _ in range(3):
            machine = [rng.gauss(0, 0.1) for _ in range(20)]
            for _ in range(10):
                values = [math.exp(m + rng.gauss(0, 0.1)) for m in machine]
                order = sorted(range(20), key=values.__getitem__)
                key = tuple(i for i, at in enumerate(order) if at < 10)
                u = sum(key)
                if (u,) not in memory:  # the test sees nothing but the sum of the ranks
                    found = rank_test(values[:10], values[10:])
                    assert found is not None
                    memory[(u,)] = found
                ps.append(memory[(u,)])
        tables += 1
        alarms += min(holm(ps)) < 0.05
    assert alarms / tables <= 0.05 + 2 * math.sqrt(0.05 * 0.95 / tables)


# Verdicts


def judged(base: Sequence[float], new: Sequence[float], tests: int = 1) -> str:
    found = of(base, new)
    assert found.p is not None
    return verdict(found, min(1.0, found.p * tests), 0.05, 0.10)


def near(value: float, n: int, spread: float = 0.01) -> list[float]:
    rng = random.Random(f"{value}{n}")
    return [value * math.exp(rng.gauss(0, spread)) for _ in range(n)]


def test_three_trials_twice_as_slow_are_inconclusive_and_say_so() -> None:
    assert judged([1.0, 1.1, 1.2], [2.0, 2.1, 2.2]) == "inconclusive"
    found = of([1.0, 1.1, 1.2], [2.0, 2.1, 2.2])
    assert found.least_p == 0.1
    assert detectable(found, 0.05) is None


@pytest.mark.parametrize(("factor", "said"), [(1.5, "worse"), (0.6, "better"), (1.001, "same")])
def test_verdicts(factor: float, said: str) -> None:
    assert judged(near(1.0, 10), near(factor, 10)) == said


def test_a_difference_about_as_large_as_the_spread_is_inconclusive() -> None:
    assert judged(near(1.0, 10, 0.2), near(1.05, 10, 0.2)) == "inconclusive"


def test_a_significant_difference_within_the_margin_is_no_regression() -> None:
    found = of(near(1.0, 20), near(1.05, 20))
    assert found.p is not None and found.p < 0.001
    assert judged(near(1.0, 20), near(1.05, 20)) in ("same", "inconclusive")


def test_trials_that_never_came_back_count_as_longest() -> None:
    base = Sample(tuple(near(1.0, 6)))
    late = Sample((), (60.0,) * 6)
    found = effect(base, late)
    assert (found.new_median, found.new_bound, found.ratio) == (None, 60.0, None)
    assert found.p == pytest.approx(2 / math.comb(12, 6))
    assert verdict(found, found.p, 0.05, 0.1) == "worse"
    assert verdict(effect(late, base), found.p, 0.05, 0.1) == "better"
    assert effect(late, late).p == 1.0
    assert Sample((1.0, 2.0), (60.0, 60.0)).bound == 31.0  # the median is between 2 and > 60
    some = effect(base, Sample(tuple(near(1.0, 4)), (60.0, 60.0)))
    assert some.new_median is not None and some.interval is not None


def test_nothing_and_zero_have_no_ratio_and_no_crash() -> None:
    empty, zero = Sample(()), Sample((0.0, 0.0, 0.0))
    for base, new in itertools.product((empty, zero, Sample((1.0, 2.0))), repeat=2):
        found = effect(base, new)
        assert found.ratio is None or math.isfinite(found.ratio)
        if base is not new:
            assert verdict(found, found.p, 0.05, 0.1) == "inconclusive"
    assert effect(empty, Sample((1.0,))).p is None
    assert effect(zero, Sample((1.0,))).ratio is None


@pytest.mark.parametrize("n", [5, 10, 20])
@pytest.mark.parametrize("tests", [1, 30])
def test_power_is_what_is_promised(n: int, tests: int) -> None:
    rng = random.Random(2)
    spread, alpha = 0.15, 0.05 / tests
    sides = [Sample(tuple(near(1.0, n, spread)))] * 2
    plain = dataclasses.replace(effect(*sides), spread=spread)
    shows = detectable(plain, alpha)
    if n == 5 and tests == 30:
        assert shows is None  # the smallest p is 0.008
        return
    assert shows is not None
    count, hits = 600, 0
    for _ in range(count):
        base = [rng.lognormvariate(0, spread) for _ in range(n)]
        new = [shows * rng.lognormvariate(0, spread) for _ in range(n)]
        p = rank_test(base, new)
        assert p is not None
        hits += p < alpha
    assert abs(hits / count - 0.8) < 3.3 * math.sqrt(0.8 * 0.2 / count)


def test_a_slowdown_that_shows_shrinks_with_more_trials_and_less_spread() -> None:
    def of_size(n: int, m: int, spread: float) -> float:
        sides = Sample(tuple(near(1.0, n))), Sample(tuple(near(1.0, m)))
        found = detectable(dataclasses.replace(effect(*sides), spread=spread), 0.05)
        assert found is not None
        return found

    assert of_size(5, 5, 0.1) > of_size(10, 10, 0.1) > of_size(20, 20, 0.1) > 1
    assert of_size(10, 10, 0.2) == pytest.approx(of_size(10, 10, 0.1) ** 2)
    assert of_size(5, 20, 0.1) == pytest.approx(of_size(20, 5, 0.1), rel=0.03)
    assert 1 < of_size(60, 60, 0.1) < of_size(50, 50, 0.1)  # beyond what is counted out


def test_a_table_of_300_rows_takes_less_than_2_seconds() -> None:
    rng = random.Random(6)
    sides = [
        [Sample(tuple(rng.lognormvariate(0, 0.2) for _ in range(30))) for _ in range(300)]
        for _ in range(2)
    ]
    started = time.process_time()
    for base, new in zip(*sides, strict=True):
        detectable(effect(base, new), 0.05 / 300)
    assert time.process_time() - started < 2


def test_two_groups_are_told_from_one() -> None:
    rng = random.Random(3)
    plain = sum(bimodal([rng.lognormvariate(0, 0.2) for _ in range(20)]) for _ in range(2000))
    assert plain / 2000 < 0.02
    apart = [bimodal([*near(1.0, 6, 0.05), *near(2.0 + i, 6, 0.05)]) for i in range(5)]
    assert all(apart)
    assert modes([*near(1.0, 6, 0.05), *near(2.0, 6, 0.05)]) == pytest.approx((1, 2), rel=0.05)
    for draw in (rng.random, lambda: rng.expovariate(1)):  # flat, or with a long tail
        said = sum(bimodal([math.exp(draw()) for _ in range(20)]) for _ in range(2000))
        assert said / 2000 < 0.02
    assert not bimodal([*near(1.0, 11, 0.02), 3.0])  # an outlier is no group
    assert not bimodal([1.0, 1.0, 2.0, 2.0])  # so few say nothing
    assert not bimodal([1.0] * 20)


def test_rates() -> None:
    assert rate_test((5, 5), (0, 5)) == pytest.approx(2 / math.comb(10, 5))
    assert rate_test((3, 3), (3, 3)) == 1.0
    assert rate_test((0, 0), (3, 3)) is None
