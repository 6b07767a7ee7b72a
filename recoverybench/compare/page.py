"""A comparison as one HTML page, which runs no script and fetches nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from markupsafe import Markup

from recoverybench.compare import words
from recoverybench.compare.forest import forest
from recoverybench.compare.model import CellComparison, Comparison
from recoverybench.compare.order import GROUPS, gravest_first, grouped, worst_first
from recoverybench.compare.strip import strip, thinned_words
from recoverybench.web.policy import policy
from recoverybench.web.templating import asset, render

OPEN: Final = 12
"""Cells that are open from the start; of more, each is a line that opens."""

CHANGES: Final = 8
"""New outcomes that are listed at once; the others are folded."""

LINES: Final = 40
"""Lines of the first drawing that are shown at once; the others are folded."""


@dataclass(frozen=True, slots=True)
class Shown:
    """A cell on the page.

    Attributes:
        cell: what is shown. id: of its place. opened: from the start.
        strip: both distributions. thinned: what is left out of it, in words.
    """

    cell: CellComparison
    id: str
    opened: bool
    strip: Markup
    thinned: str


def to_html(comparison: Comparison, *, home: str | None = None) -> str:
    """The page. Every string of a run is text in it, wherever it stands.

    Args:
        comparison: what is shown. home: address of the first page of the site that it is on.
    """
    groups = grouped(worst_first(comparison))
    ordered = [cell for cells in groups.values() for cell in cells]
    shown = iter(_shown(comparison, ordered))
    drawn = forest(ordered, comparison.margin)
    return render(
        "compare/compare.html.j2",
        policy=policy(),
        title=f"{comparison.base.name} and {comparison.new.name}, compared",
        compare_css=Markup(asset("compare", "style", "compare.css")),
        home=home,
        c=comparison,
        w=words,
        answer=words.answer(comparison),
        busy=words.busy_lines(comparison),
        changes=gravest_first(comparison.changes),
        listed=CHANGES,
        worst=_worst(ordered),
        sides=(
            words.side_line("Base", comparison.base),
            words.side_line("New", comparison.new),
        ),
        versions=", ".join(words.version_lines(comparison)),
        forest=drawn,
        lines=LINES,
        headings=GROUPS,
        groups={group: [next(shown) for _ in cells] for group, cells in groups.items()},
        many=len(ordered) > OPEN,
        most=OPEN,
        level=f"{100 * comparison.confidence:.0f}",
        basis=words.basis(comparison),
        skipped=(*comparison.base.skipped, *comparison.new.skipped),
    )


def _shown(comparison: Comparison, ordered: Sequence[CellComparison]) -> list[Shown]:
    names = comparison.base.name, comparison.new.name
    return [
        Shown(
            cell,
            f"cell-{number}",
            number <= OPEN,
            strip(cell.label, names, cell.samples, comparison.confidence),
            thinned_words(cell.samples),
        )
        for number, cell in enumerate(ordered, start=1)
    ]


def _worst(ordered: Sequence[CellComparison]) -> tuple[str, str] | None:
    """The cell whose recovery got worst and what became of it; None: none got worse."""
    for cell in ordered:
        if said := words.worst_line(cell):
            return cell.label, said
    return None
