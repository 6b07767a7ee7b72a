"""The statistics of comparisons, tried on data whose truth is known; writes docs/statistics.md's
tables as Markdown. Takes about five minutes: `python benchmarks/simulate.py`.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterable
from statistics import median

import numpy as np

from recoverybench.effects import holm, rank_test
from recoverybench.stats import median_interval, wilson

SIZES = (3, 5, 10, 20, 30)


def table(heads: Iterable[str], rows: Iterable[Iterable[object]]) -> str:
    lines = ["| " + " | ".join(heads) + " |"]
    lines.append("|" + "|".join("---" for _ in lines[0].split("|")[1:-1]) + "|")
    lines += ["| " + " | ".join(str(cell) for cell in row) + " |" for row in rows]
    return "\n".join(lines)


def intervals(count: int = 20_000) -> str:
    """Of a median, and of a rate (averaged over rates from 0 to 1)."""
    rng = random.Random(0)
    rows = []
    for n in SIZES:
        hits = stated = rates = 0.0
        for _ in range(count):
            found = median_interval(sorted(rng.expovariate(1) for _ in range(n)))
            hits += found.low <= math.log(2) <= found.high
            stated += found.confidence
            p = rng.random()
            rate = wilson(sum(rng.random() < p for _ in range(n)), n)
            rates += rate.low <= p <= rate.high
        rows.append([n, *(f"{100 * v / count:.1f}" for v in (stated, hits, rates))])
    return table(["n", "median: stated, %", "covered, %", "Wilson (95), covered, %"], rows)


def power(count: int = 1500) -> str:
    """Against a slowdown of 20 %, for one test and for a table of 30."""
    rows = []
    for spread in (0.03, 0.06, 0.12, 0.25):
        for n in (5, 10, 20, 30):
            rng = np.random.default_rng(n)
            single = many = 0
            for _ in range(count):
                base, new = (rng.lognormal(at, spread, n).tolist() for at in (0, math.log(1.2)))
                p = rank_test(base, new)
                assert p is not None
                single += p < 0.05
                many += p < 0.05 / 30
            rows.append(
                [f"{100 * spread:.0f} %", n, f"{single / count:.2f}", f"{many / count:.2f}"]
            )
    heads = ["spread", "n a side", "power, one test", "power, first of 30 tests"]
    return table(heads, rows)


def alarms(count: int = 2000) -> str:
    """False alarms of a whole table: 3 cells, 10 quantities each that hang together."""
    rows = []
    for n in SIZES:
        rng = np.random.default_rng(n)
        found = verdicts = 0
        for _ in range(count):
            ps, ratios = [], []
            for _ in range(3):
                common = rng.normal(0, 0.1, 2 * n)
                for _ in range(10):
                    values = np.exp(common + rng.normal(0, 0.1, 2 * n)).tolist()
                    p = rank_test(values[:n], values[n:])
                    assert p is not None
                    ps.append(p)
                    ratios.append(median(values[n:]) / median(values[:n]))
            wrong = [p < 0.05 for p in holm(ps)]
            found += any(wrong)
            verdicts += any(
                w and not 1 / 1.1 <= r <= 1.1 for w, r in zip(wrong, ratios, strict=True)
            )
        rows.append([n, f"{100 * found / count:.2f}", f"{100 * verdicts / count:.2f}"])
    return table(["n a side", "a significant test, %", "a worse or better, %"], rows)


def main() -> None:
    for make in (alarms, intervals, power):
        print(f"{(make.__doc__ or '').splitlines()[0]}\n\n{make()}\n", flush=True)


if __name__ == "__main__":
    main()
