"""What intervals cover: bootstraps of a ratio of medians beside the one that is used, medians with
a deadline, rates; and what the tests of a comparison do where the sides differ in shape alone.

Prints Markdown, for docs/statistics.md. Takes about five minutes: `python benchmarks/intervals.py`.
"""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from statistics import NormalDist, fmean, median

import numpy as np

from recoverybench.effects import bimodal, rank_test, ratio_interval, two_groups
from recoverybench.stats import survival, wilson

Array = np.ndarray
SIZES = (5, 10, 20, 30)
NORMAL = NormalDist()
Z = NORMAL.inv_cdf(0.975)
DRAWS = 500
"""Resamples of a bootstrap."""

SHAPES: dict[str, Callable[[np.random.Generator, tuple[int, ...]], Array]] = {
    "log-normal, 25 %": lambda rng, size: rng.normal(0, 0.25, size),
    "1 + exponential": lambda rng, size: np.log(1 + rng.exponential(0.5, size)),
    "two groups": lambda rng, size: (
        rng.normal(0, 0.05, size) + np.where(rng.random(size) < 0.7, 0.0, math.log(1.5))
    ),
}
"""Logarithms of times."""


def table(heads: Iterable[str], rows: Iterable[Iterable[object]]) -> str:
    lines = ["| " + " | ".join(heads) + " |"]
    lines.append("|" + "---|" * (lines[0].count("|") - 1))
    lines += ["| " + " | ".join(str(cell) for cell in row) + " |" for row in rows]
    return "\n".join(lines)


def percent(part: float) -> str:
    return f"{100 * part:.1f}"


def drawn(rng: np.random.Generator, logs: Array, draws: int = DRAWS) -> Array:
    """Resamples with replacement, the last axis being the sample."""
    return logs[rng.integers(0, len(logs), (draws, len(logs)))]


def error_of(logs: Array) -> Array:
    """Standard error of medians by order statistics (McKean and Schrader 1984), last axis."""
    ordered = np.sort(logs, axis=-1)
    n = logs.shape[-1]
    c = max(1, round((n + 1) / 2 - Z * math.sqrt(n / 4)))
    return (ordered[..., n - c] - ordered[..., c - 1]) / (2 * Z)


def corrected(found: Array, there: float, base: Array, new: Array) -> tuple[float, float]:
    """BCa (Efron 1987), the acceleration from the jackknife of both sides."""
    below = np.mean(found < there) + np.mean(found == there) / 2
    bias = NORMAL.inv_cdf(min(max(float(below), 1e-3), 1 - 1e-3))
    left = [
        (1 if side is new else -1) * np.median(np.delete(side, i))
        for side in (base, new)
        for i in range(len(side))
    ]
    parts = [np.array(left[: len(base)]), np.array(left[len(base) :])]
    gaps = np.concatenate([part.mean() - part for part in parts])
    scale = float((gaps**2).sum())
    speed = float((gaps**3).sum()) / (6 * scale**1.5) if scale > 0 else 0.0

    def level(z: float) -> float:
        return NORMAL.cdf(bias + (bias + z) / (1 - speed * (bias + z)))

    low, high = np.quantile(found, [level(-Z), level(Z)])
    return float(low), float(high)


def bootstraps(
    base: Array, new: Array, rng: np.random.Generator
) -> Iterator[tuple[str, float, float]]:
    """Each bootstrap's interval of the difference of the medians of logarithms."""
    there = float(np.median(new) - np.median(base))
    a, b = drawn(rng, base), drawn(rng, new)
    found = np.median(b, axis=1) - np.median(a, axis=1)
    low, high = np.quantile(found, (0.025, 0.975))
    yield "percentile", low, high
    yield "basic", 2 * there - high, 2 * there - low
    yield "BCa", *corrected(found, there, base, new)
    widths = [0.9 * side.std(ddof=1) * len(side) ** -0.2 for side in (base, new)]
    smooth = np.median(b + rng.normal(0, 1, b.shape) * widths[1], axis=1) - np.median(
        a + rng.normal(0, 1, a.shape) * widths[0], axis=1
    )
    yield "smoothed", *np.quantile(smooth, (0.025, 0.975))
    error = math.hypot(float(error_of(base)), float(error_of(new)))
    errors = np.hypot(error_of(a), error_of(b))
    ts = (found - there) / np.where(errors > 0, errors, np.inf)
    t_low, t_high = np.quantile(ts, (0.025, 0.975))
    yield "studentised", there - t_high * error, there - t_low * error


def ratios(count: int = 2000) -> str:
    """Coverage, %, of 95 % intervals of the ratio of medians; sides differ in scale alone."""
    rows = []
    for shape, draw in SHAPES.items():
        for n in SIZES:
            rng = np.random.default_rng(n)
            hits: dict[str, int] = defaultdict(int)
            stated = 0.0
            for _ in range(count):
                base, new = draw(rng, (n,)), draw(rng, (n,))
                for name, low, high in bootstraps(base, new, rng):
                    hits[name] += low <= 0 <= high
                used = ratio_interval(sorted(np.exp(base).tolist()), sorted(np.exp(new).tolist()))
                assert used is not None
                hits["used"] += used.low <= 1 <= used.high
                stated += used.confidence / count
            kinds = ("percentile", "basic", "BCa", "smoothed", "studentised")
            rows.append(
                [shape, n, percent(stated), percent(hits["used"] / count)]
                + [percent(hits[kind] / count) for kind in kinds]
            )
    heads = ["data", "n a side", "used: stated", "used: covered", "percentile", "basic", "BCa"]
    return table([*heads, "smoothed", "studentised"], rows)


def calibrated(count: int = 300, outer: int = 200, inner: int = 100) -> str:
    """Coverage, %, of a percentile bootstrap whose level is calibrated by a second bootstrap."""
    rows = []
    levels = np.linspace(0.5, 1.0, 51)
    for shape, draw in SHAPES.items():
        for n in (5, 10, 20):
            rng = np.random.default_rng(n)
            hits = 0
            for _ in range(count):
                base, new = draw(rng, (n,)), draw(rng, (n,))
                there = np.median(new) - np.median(base)
                firsts = [drawn(rng, side, outer) for side in (base, new)]
                seconds = [
                    np.take_along_axis(
                        first[:, None, :], rng.integers(0, n, (outer, inner, n)), axis=2
                    )
                    for first in firsts
                ]
                again = np.median(seconds[1], axis=2) - np.median(seconds[0], axis=2)
                again.sort(axis=1)
                held = [
                    np.mean(
                        (np.quantile(again, (1 - level) / 2, axis=1) <= there)
                        & (there <= np.quantile(again, (1 + level) / 2, axis=1))
                    )
                    for level in levels
                ]
                enough = [level for level, part in zip(levels, held, strict=True) if part >= 0.95]
                level = enough[0] if enough else 1.0
                found = np.median(firsts[1], axis=1) - np.median(firsts[0], axis=1)
                low, high = np.quantile(found, ((1 - level) / 2, (1 + level) / 2))
                hits += low <= 0 <= high
            rows.append([shape, n, percent(hits / count)])
    return table(["data", "n a side", "calibrated"], rows)


def deadlines(count: int = 1000) -> str:
    """Coverage, %, of intervals of a median with 30 % of the trials cut off at one deadline (A) or
    each at one of its own (B): the one that is used, and Brookmeyer and Crowley's (1982) with the
    log-log transformation, as statsmodels has it.
    """
    from statsmodels.duration.survfunc import SurvfuncRight

    rows = []
    for shape, draw in SHAPES.items():
        truth = float(np.median(np.exp(draw(np.random.default_rng(0), (1_000_001,)))))
        for n in SIZES:
            row: list[object] = [shape, n]
            for own in (False, True):
                rng = np.random.default_rng(n)
                hits = stated = theirs = 0.0
                for _ in range(count):
                    times = np.exp(draw(rng, (n,)))
                    limit = float(np.quantile(np.exp(draw(rng, (999,))), 0.7))
                    waited = rng.uniform(0.8, 2.5, n) if own else np.full(n, limit)
                    back = times <= waited
                    used = survival(times[back].tolist(), waited[~back].tolist())
                    assert used is not None
                    hits += used.interval.low <= truth <= used.interval.high
                    stated += used.interval.confidence
                    theirs += published(SurvfuncRight, np.minimum(times, waited), back, truth)
                row += [percent(v / count) for v in (stated, hits, theirs)]
            rows.append(row)
    heads = [f"{case}: {what}" for case in "AB" for what in ("stated", "used", "log-log")]
    return table(["data", "n", *heads], rows)


def published(curve: Callable[..., object], seen: Array, back: Array, truth: float) -> bool:
    """Whether Brookmeyer and Crowley's interval holds; one that has no end there is infinite."""
    if not back.any():
        return True
    with np.errstate(all="ignore"):
        low, high = curve(seen, back.astype(int)).quantile_ci(0.5)  # type: ignore[attr-defined]
    low = 0.0 if not np.isfinite(low) else low
    return bool(low <= truth and (not np.isfinite(high) or truth <= high))


def rates() -> str:
    """Coverage, %, of Wilson's 95 % interval, exactly: over all rates alike, and the worst."""
    rows = []
    grid = (np.arange(20_000) + 0.5) / 20_000
    for n in (3, 5, 10, 20, 30, 100):
        held = np.zeros_like(grid)
        for k in range(n + 1):
            end = wilson(k, n)
            inside = (end.low <= grid) & (grid <= end.high)
            held += math.comb(n, k) * grid**k * (1 - grid) ** (n - k) * inside
        middle = (grid > 0.05) & (grid < 0.95)
        worst = [percent(float(h.min())) for h in (held, held[middle])]
        rows.append([n, percent(float(held.mean())), *worst])
    return table(["n", "average", "worst rate", "worst from 5 to 95 %"], rows)


def shapes(count: int = 2000) -> str:
    """Sides with equal medians and different shapes: how often the test calls them different at
    5 %, how often the interval holds a ratio of 1, and how often the ratio of the medians found
    lies outside its own interval.
    """
    pairs: dict[str, tuple[Callable[[np.random.Generator, int], Array], ...]] = {
        "spread 10 % and 10 %": (
            lambda r, n: r.normal(0, 0.1, n),
            lambda r, n: r.normal(0, 0.1, n),
        ),
        "spread 10 % and 30 %": (
            lambda r, n: r.normal(0, 0.1, n),
            lambda r, n: r.normal(0, 0.3, n),
        ),
        "new: 30 % of trials take half as long again": (
            lambda r, n: r.normal(0, 0.05, n),
            lambda r, n: r.normal(0, 0.05, n) + np.where(r.random(n) < 0.7, 0, math.log(1.5)),
        ),
    }
    rows = []
    for name, (one, other) in pairs.items():
        middle = [float(np.median(f(np.random.default_rng(0), 1_000_001))) for f in (one, other)]
        for n in (10, 20, 30):
            rng = np.random.default_rng(n)
            alarms = holds = outside = 0
            for _ in range(count):
                base, new = (
                    sorted(np.exp(f(rng, n) - m).tolist())
                    for f, m in zip((one, other), middle, strict=True)
                )
                p, used = rank_test(base, new), ratio_interval(base, new)
                assert p is not None and used is not None
                alarms += p < 0.05
                holds += used.low <= 1 <= used.high
                outside += not used.low <= median(new) / median(base) <= used.high
            rows.append([name, n, *(percent(v / count) for v in (alarms, holds, outside))])
    heads = ["sides", "n a side", "test says different, %", "interval holds 1, %"]
    return table([*heads, "ratio outside its interval, %"], rows)


def groups(count: int = 2000) -> str:
    """How often times are said to come in two groups, %."""
    cases: dict[str, Callable[[np.random.Generator, int], Array]] = {
        "log-normal": lambda r, n: r.normal(0, 0.25, n),
        "1 + exponential": lambda r, n: np.log(1 + r.exponential(0.5, n)),
        "uniform": lambda r, n: np.log(1 + r.random(n)),
        "log-normal, 5 % outliers of 3x": lambda r, n: (
            r.normal(0, 0.1, n) + np.where(r.random(n) < 0.05, math.log(3), 0)
        ),
        "two groups, 1 and 1.5, 70 : 30, spread 5 %": lambda r, n: (
            r.normal(0, 0.05, n) + np.where(r.random(n) < 0.7, 0, math.log(1.5))
        ),
        "two groups, 1 and 2, 50 : 50, spread 10 %": lambda r, n: (
            r.normal(0, 0.1, n) + np.where(r.random(n) < 0.5, 0, math.log(2))
        ),
    }
    rows = []
    for name, draw in cases.items():
        rng = np.random.default_rng(1)
        row: list[object] = [name]
        for n in (10, 20, 30, 100):
            found = sum(bimodal(np.exp(draw(rng, n)).tolist()) for _ in range(count))
            row.append(percent(found / count))
        rows.append(row)
    return table(["data", "n = 10", "20", "30", "100"], rows)


def limits(count: int = 20_000) -> str:
    """Share of the variance that the best cut in two leaves of data in one group: 1 % quantile.
    `effects.groups._GROUPS` has the least of each line.
    """
    kinds: dict[str, Callable[[np.random.Generator, int], Array]] = {
        "normal": lambda r, n: r.normal(size=n),
        "uniform": lambda r, n: r.random(n),
        "exponential": lambda r, n: r.exponential(size=n),
        "Laplace": lambda r, n: r.laplace(size=n),
    }
    rows = []
    for n in (8, 10, 12, 15, 20, 30, 50, 100):
        row: list[object] = [n]
        for draw in kinds.values():
            rng = np.random.default_rng(n)
            found = [two_groups(sorted(draw(rng, n).tolist())) for _ in range(count)]
            row.append(f"{np.quantile([f for f in found if f is not None], 0.01):.3f}")
        rows.append(row)
    return table(["n", *kinds], rows)


def spreads(folder: Path = Path("results")) -> str:
    """Standard deviation of the logarithm of recovery times within a cell, of runs kept here."""
    rows = []
    for path in sorted(folder.glob("*/trials.jsonl")):
        cells: dict[str, list[float]] = defaultdict(list)
        for line in path.read_text(encoding="utf-8").splitlines():
            trial = json.loads(line)
            if trial["outcome"] == "recovered" and trial["recovery_s"]:
                cells[trial["cell"]["strategy"]].append(math.log(trial["recovery_s"]))
        for strategy, logs in cells.items():
            if len(logs) > 2:
                total = sum((v - fmean(logs)) ** 2 for v in logs)
                spread = math.sqrt(total / (len(logs) - 1))
                rows.append([path.parent.name, strategy, len(logs), f"{100 * spread:.1f} %"])
    return table(["run", "strategy", "trials", "spread"], rows)


def main() -> None:
    for make in (spreads, rates, limits, groups, shapes, deadlines, ratios, calibrated):
        said = " ".join((make.__doc__ or "").split())
        print(f"{said}\n\n{make()}\n", flush=True)


if __name__ == "__main__":
    main()
