"""A comparison as Markdown, for a comment on a pull request."""

from __future__ import annotations

import html
import re
from typing import Final

from recoverybench.compare import words
from recoverybench.compare.model import CellComparison, Comparison
from recoverybench.visible import clean

MARKER: Final = "<!-- recoverybench compare -->"
"""Its first line, by which a later comment finds the one that it replaces."""

_MARKS: Final = {"worse": "🔴 worse", "better": "🟢 better", "same": "same"}
_SPECIAL: Final = re.compile(r"([\\`*_\[\]#|~])")


def to_markdown(comparison: Comparison) -> str:
    """The whole comparison; every string of a run is escaped, so that none is markup."""
    lines = [MARKER, f"### {_safe(words.answer(comparison))}", ""]
    for change in comparison.changes:
        mark = "⚠️" if change.kind == "lost" else "🔴"
        lines.append(f"- {mark} **{_safe(words.change_line(change))}**")
    if comparison.changes:
        lines.append("")
    lines += [
        f"- {_safe(words.side_line('base', comparison.base))}",
        f"- {_safe(words.side_line('new', comparison.new))}",
        *(f"- **{_safe(line)}**" for line in words.busy_lines(comparison)),
    ]
    if versions := words.version_lines(comparison):
        lines.append(f"- versions: {_safe(', '.join(versions))}")
    if comparison.cells:
        lines += ["", *_summary(comparison)]
    for cell in comparison.cells:
        lines += ["", *_details(cell, comparison)]
    if comparison.not_compared:
        lines += ["", "**Not compared**", ""]
        lines += [f"- {_safe(one.label)}: {_safe(one.reason)}" for one in comparison.not_compared]
    for side in (comparison.base, comparison.new):
        lines += [f"- skipped {_safe(path)}: {_safe(reason)}" for path, reason in side.skipped]
    if comparison.tests:
        lines += ["", f"<sub>{_safe(words.basis(comparison))}</sub>"]
    return "\n".join(lines) + "\n"


def _summary(comparison: Comparison) -> list[str]:
    lines = [
        "| cell | recovered | base | new | ratio | interval | verdict |",
        "|---|---|--:|--:|--:|--:|---|",
    ]
    for cell in comparison.cells:
        row = cell.rows[0]
        columns = [
            cell.label,
            words.rate_text(cell.rate),
            words.median_text(row, 0),
            words.median_text(row, 1),
            words.ratio_text(row),
            words.interval_text(row),
        ]
        verdict = _MARKS.get(cell.verdict, cell.verdict)
        lines.append(f"| {' | '.join(map(_safe, columns))} | {verdict} |")
    return lines


def _details(cell: CellComparison, comparison: Comparison) -> list[str]:
    lines = [
        f"<details><summary>{_html(cell.label)}: every phase</summary>",
        "",
        "| | base | new | ratio | interval | p | verdict | would show |",
        "|---|--:|--:|--:|--:|--:|---|--:|",
    ]
    for row in words.shown_rows(cell):
        columns = [
            words.quantity_name(row.quantity),
            words.median_text(row, 0),
            words.median_text(row, 1),
            words.ratio_text(row),
            words.interval_text(row),
            words.p_text(row.p_adjusted),
        ]
        verdict = _MARKS.get(row.verdict, row.verdict)
        shown = words.detectable_text(row)
        lines.append(f"| {' | '.join(map(_safe, columns))} | {verdict} | {_safe(shown)} |")
    notes = filter(None, (words.undecided(cell, comparison), *cell.notes))
    lines += ["", *(f"- {_safe(note)}" for note in notes), "", "</details>"]
    return lines


def _safe(text: str) -> str:
    """Text in which nothing is markup, a mention or a link; on one line."""
    return _SPECIAL.sub(r"\\\1", _html(text))


def _html(text: str) -> str:
    """The same where only HTML is read, as in the head of what folds out."""
    return html.escape(clean(text), quote=False).replace("@", "@<!-- -->")
