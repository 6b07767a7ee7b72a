"""A comparison in the terminal."""

from __future__ import annotations

from typing import Final

from rich.console import Console
from rich.table import Table
from rich.text import Text

from recoverybench.compare import words
from recoverybench.compare.model import CellComparison, Comparison, Row
from recoverybench.labels import NONE
from recoverybench.terminal.text import plain

STYLES: Final = {"worse": "bold red", "better": "bold green", "same": "green"}
"""Verdict -> its style; the others are dim."""


COLUMNS: Final = ("", "base", "new", "ratio", "interval", "p", "verdict", "would show")


def print_comparison(comparison: Comparison, console: Console) -> None:
    """Print it: what is new first, then a table a cell, then what was not compared.

    No number is ever cut: where a table is wider than the console, all of them go without their
    last column, and where that is not enough, each row is a line of words.
    """
    console.print(plain(words.answer(comparison), "bold"))
    console.print(plain(words.side_line("base", comparison.base), "dim"))
    console.print(plain(words.side_line("new ", comparison.new), "dim"))
    for line in words.busy_lines(comparison):
        console.print(plain(line, "yellow"))
    if versions := words.version_lines(comparison):
        console.print(plain("versions: " + ", ".join(versions), "dim"))
    for change in comparison.changes:
        style = "bold red" if change.kind != "lost" else "yellow"
        console.print(plain(words.change_line(change), style))
    columns = _fitting(comparison, console)
    for cell in comparison.cells:
        console.print()
        _print_cell(cell, comparison, columns, console)
    _print_rest(comparison, console)
    if comparison.tests:
        console.print()
        console.print(plain(words.basis(comparison), "dim"))
        if columns not in (0, len(COLUMNS)):
            said = f"{COLUMNS[-1].capitalize()} is left out of so narrow a window."
            console.print(plain(said, "dim"))


def _fitting(comparison: Comparison, console: Console) -> int:
    """How many columns of every table fit beside one another; 0: too few."""
    for count in (len(COLUMNS), len(COLUMNS) - 1):
        tables = (_table(cell, count) for cell in comparison.cells)
        wide = max((console.measure(table).maximum for table in tables), default=0)
        if wide < console.width:
            return count
    return 0


def _print_cell(
    cell: CellComparison, comparison: Comparison, columns: int, console: Console
) -> None:
    head = plain(cell.label, "bold")
    head.append(f"  recovered {words.rate_text(cell.rate)}, ")
    head.append(cell.verdict, STYLES.get(cell.verdict, "dim"))
    console.print(head)
    if columns:
        console.print(_table(cell, columns))
    else:
        for row in words.shown_rows(cell):
            console.print(_in_words(row))
    for note in (words.undecided(cell, comparison), *cell.notes):
        if note:
            console.print(plain(note, "yellow"))


def _table(cell: CellComparison, columns: int) -> Table:
    """The rows of a cell, with the first so many columns."""
    table = Table(box=None, pad_edge=False, header_style="dim")
    for name in COLUMNS[:columns]:
        table.add_column(name, justify="left" if name in ("", "verdict") else "right", no_wrap=True)
    for row in words.shown_rows(cell):
        table.add_row(*_texts(row)[:columns])
    return table


def _texts(row: Row) -> list[Text]:
    """What stands in each of `COLUMNS`."""
    return [
        plain(words.quantity_name(row.quantity)),
        Text(words.median_text(row, 0)),
        Text(words.median_text(row, 1)),
        Text(words.ratio_text(row)),
        Text(words.interval_text(row)),
        Text(words.p_text(row.p_adjusted)),
        Text(row.verdict, STYLES.get(row.verdict, "dim")),
        Text(words.detectable_text(row)),
    ]


def _in_words(row: Row) -> Text:
    """A row that is wrapped between words, where there is no room for a table."""
    name, *texts = _texts(row)
    line = Text("  ") + name
    for number, (column, text) in enumerate(zip(COLUMNS[1:], texts, strict=True)):
        if text.plain == NONE:
            continue
        line.append(": " if number == 0 else ", ")
        line.append("" if column == "verdict" else f"{column} ")
        line.append_text(text)
    return line


def _print_rest(comparison: Comparison, console: Console) -> None:
    if comparison.not_compared:
        console.print()
        console.print(plain("not compared", "bold"))
    for one in comparison.not_compared:
        console.print(plain(f"{one.label}: {one.reason}"))
    for side in (comparison.base, comparison.new):
        for path, reason in side.skipped:
            console.print(plain(f"skipped {path}: {reason}", "yellow"))
