"""A comparison as one HTML page, which runs no script and fetches nothing."""

from __future__ import annotations

import dataclasses
import math

from recoverybench.compare import words
from recoverybench.compare.forest import forest
from recoverybench.compare.model import CellComparison, Comparison
from recoverybench.compare.words import VERDICTS
from recoverybench.web.templating import render


def to_html(comparison: Comparison, *, home: str | None = None) -> str:
    """The page. Every string of a run is text in it, wherever it stands.

    Args:
        comparison: what is shown. home: address of the first page of the site that it is on.
    """
    ordered = sorted(comparison.cells, key=_worst_first)
    comparison = dataclasses.replace(comparison, cells=tuple(ordered))
    return render(
        "compare/compare.html.j2",
        home=home,
        c=comparison,
        w=words,
        answer=words.answer(comparison),
        sides=(
            words.side_line("Base", comparison.base),
            words.side_line("New", comparison.new),
        ),
        versions=", ".join(words.version_lines(comparison)),
        forest=forest(comparison),
        level=f"{100 * comparison.confidence:.0f}",
        basis=words.basis(comparison),
        skipped=(*comparison.base.skipped, *comparison.new.skipped),
    )


def _worst_first(cell: CellComparison) -> tuple[int, float]:
    """What is worse comes first, and of that what grew most."""
    found = cell.rows[0].effect
    ratio = found.ratio if found is not None and found.ratio is not None else math.inf
    return VERDICTS.index(cell.verdict), -ratio
