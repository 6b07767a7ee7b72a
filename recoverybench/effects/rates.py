"""Two rates of recovery, compared. Pure; scipy is imported when a test is made."""

from __future__ import annotations


def rate_test(base: tuple[int, int], new: tuple[int, int]) -> float | None:
    """Two-sided p of Fisher's exact test of two rates, each as successes and trials; None: a side
    has no trial.
    """
    if not base[1] or not new[1]:
        return None
    from scipy.stats import fisher_exact

    table = [[base[0], base[1] - base[0]], [new[0], new[1] - new[0]]]
    return float(fisher_exact(table).pvalue)
