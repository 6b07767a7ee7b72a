"""The section on what saves and failures cost."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from recoverybench.labels import seconds
from recoverybench.report.costs import BETWEEN, DEFAULT, Group, groups, interval_words, percent
from recoverybench.report.costs_figure import cost_figure, drawn
from recoverybench.report.section import Material, Section

LISTED: Final = 100
"""Groups in the tables: those with most intervals. A page of thousands of cells stays small."""


def _missing(material: Material, found: Sequence[Group]) -> int:
    """How many cells are in no group."""
    return len(material.rows) - sum(len(group.costs) for group in found)


def costs_section(material: Material) -> Section | None:
    """The section; None where no cell has both a save and a recovery that were timed.

    Where no cell was measured at several intervals it has no figure.
    """
    found = groups(material.rows)
    if not found:
        return None
    shown, varied = drawn(found), [group for group in found if group.varied]
    told = varied or found
    most = sorted(range(len(told)), key=lambda i: -len(told[i].costs))[:LISTED]
    listed = [told[i] for i in sorted(most)]
    ids = {between_s: f"costs-{between_s:.0f}" for between_s, _ in BETWEEN}
    return Section(
        "costs",
        "Checkpoint interval",
        {
            "groups": listed,
            "varied": listed if varied else [],
            "shown": shown,
            "left_out": len(varied) - len(shown),
            "missing": _missing(material, found),
            "unlisted": len(told) - len(listed),
            "between": BETWEEN,
            "choices": [(ids[between_s], words) for between_s, words in BETWEEN],
            "default": ids[DEFAULT],
            "formulas": ("measured", "Young", "Daly") if varied else ("Daly",),
            "seconds": seconds,
            "percent": percent,
            "interval_words": interval_words,
        },
        {ids[m]: cost_figure(shown, m) for m, _ in BETWEEN} if shown else {},
    )
