"""A comparison as one HTML page, which runs no script and fetches nothing."""

from __future__ import annotations

from recoverybench.compare import words
from recoverybench.compare.forest import forest
from recoverybench.compare.model import Comparison
from recoverybench.web.templating import render


def to_html(comparison: Comparison, *, home: str | None = None) -> str:
    """The page. Every string of a run is text in it, wherever it stands.

    Args:
        comparison: what is shown. home: address of the first page of the site that it is on.
    """
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
