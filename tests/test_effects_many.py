"""Samples of thousands of values: the same numbers as of few, without looking at every pair."""

from __future__ import annotations

import math
import random
import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recoverybench.effects import Sample, detectable, effect, power, ratio


@settings(max_examples=60)
@given(
    st.lists(st.floats(0.01, 100.0), max_size=12),
    st.lists(st.floats(0.01, 100.0), max_size=12),
    st.integers(0, 3),
    st.integers(0, 3),
    st.data(),
)
def test_a_ratio_far_from_either_end_is_the_one_that_sorting_finds(
    a: list[float], b: list[float], late_a: int, late_b: int, data: st.DataObject
) -> None:
    base = [*sorted(a), *[math.inf] * late_a]
    new = [*sorted(b), *[math.inf] * late_b]
    if not base or not new:
        return
    k = data.draw(st.integers(0, (len(base) * len(new) - 1) // 2))
    lows = sorted(0.0 if math.isinf(y) else x / y for y in base for x in new)
    highs = sorted(math.inf if math.isinf(x) else x / y for y in base for x in new)
    found = ratio._far_ratios(base, new, k)
    assert found == pytest.approx((lows[k], highs[len(highs) - 1 - k]), rel=1e-12)


@pytest.mark.parametrize(("n", "m", "alpha"), [(120, 150, 0.01), (60, 300, 0.001)])
def test_the_formula_for_many_is_what_is_simulated_for_fewer(n: int, m: int, alpha: float) -> None:
    assert power._shift_of_many(n, m, alpha) == pytest.approx(power._shift(n, m, alpha), rel=0.06)


def test_thousands_of_trials_need_little_memory() -> None:
    rng = random.Random(0)
    base = Sample(tuple(rng.lognormvariate(0, 0.2) for _ in range(3000)))
    new = Sample(tuple(rng.lognormvariate(0.1, 0.2) for _ in range(3000)))
    effect(Sample(base.times[:60]), Sample(new.times[:60]))  # what has to be imported, is
    tracemalloc.start()
    try:
        found = effect(base, new)
        shows = detectable(found, 1e-3)
        assert tracemalloc.get_traced_memory()[1] < 20_000_000
    finally:
        tracemalloc.stop()
    assert found.interval is not None
    assert found.interval.low < math.exp(0.1) < found.interval.high
    assert found.interval.high / found.interval.low < 1.03
    assert shows is not None
    assert 1.01 < shows < 1.04
