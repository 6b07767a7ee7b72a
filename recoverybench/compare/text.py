"""A comparison in the terminal."""

from __future__ import annotations

from typing import Final

from rich.console import Console
from rich.table import Table
from rich.text import Text

from recoverybench.compare import words
from recoverybench.compare.model import CellComparison, Comparison
from recoverybench.terminal.text import plain

STYLES: Final = {"worse": "bold red", "better": "bold green", "same": "green"}
"""Verdict -> its style; the others are dim."""


def print_comparison(comparison: Comparison, console: Console) -> None:
    """Print it: what is new first, then a table a cell, then what was not compared."""
    console.print(plain(words.answer(comparison), "bold"))
    console.print(plain(words.side_line("base", comparison.base), "dim"))
    console.print(plain(words.side_line("new ", comparison.new), "dim"))
    if versions := words.version_lines(comparison):
        console.print(plain("versions: " + ", ".join(versions), "dim"))
    for change in comparison.changes:
        style = "bold red" if change.kind != "lost" else "yellow"
        console.print(plain(words.change_line(change), style))
    for cell in comparison.cells:
        console.print()
        _print_cell(cell, console)
    _print_rest(comparison, console)
    if comparison.cells:
        console.print()
        console.print(plain(words.basis(comparison), "dim"))


def _print_cell(cell: CellComparison, console: Console) -> None:
    head = plain(cell.label, "bold")
    head.append(f"  recovered {words.rate_text(cell.rate)}, ")
    head.append(cell.verdict, STYLES.get(cell.verdict, "dim"))
    console.print(head)
    table = Table(box=None, pad_edge=False, header_style="dim")
    for name in ("", "base", "new", "ratio", "interval", "p", "verdict", "would show"):
        table.add_column(name, justify="left" if name in ("", "verdict") else "right", no_wrap=True)
    for row in words.shown_rows(cell):
        table.add_row(
            plain(words.quantity_name(row.quantity)),
            words.median_text(row, 0),
            words.median_text(row, 1),
            words.ratio_text(row),
            words.interval_text(row),
            words.p_text(row.p_adjusted),
            Text(row.verdict, STYLES.get(row.verdict, "dim")),
            words.detectable_text(row),
        )
    console.print(table)
    for note in cell.notes:
        console.print(plain(note, "yellow"))


def _print_rest(comparison: Comparison, console: Console) -> None:
    if comparison.not_compared:
        console.print()
        console.print(plain("not compared", "bold"))
    for one in comparison.not_compared:
        console.print(plain(f"{one.label}: {one.reason}"))
    for side in (comparison.base, comparison.new):
        for path, reason in side.skipped:
            console.print(plain(f"skipped {path}: {reason}", "yellow"))
