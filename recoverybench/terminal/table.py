"""A run in the terminal: a line a cell, then the median of each phase."""

from __future__ import annotations

from collections.abc import Sequence

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from recoverybench.cells import Cell
from recoverybench.labels import (
    FACTOR_NAMES,
    NONE,
    cell_label,
    constant_factors,
    fixed,
    outcome_name,
    seconds,
    unmeasured,
    varying_factors,
)
from recoverybench.records import TrialRecord
from recoverybench.results.store import Run
from recoverybench.stats import CellSummary, Spread, summarise
from recoverybench.terminal.text import clean, plain
from recoverybench.vocabulary import PHASES

_SHORT = {
    "teardown": "tear",
    "replace": "repl",
    "rendezvous": "rdv",
    "restore": "rest",
    "compile": "comp",
    "first_step": "first",
    "catch_up": "catch",
}
"""Phase names for a column of five characters."""

_WIDE = 100
"""From this width on, columns have their full names."""


def run_table(run: Run, console: Console) -> None:
    """Print a run: what is the same in all cells, a line a cell, and the phases' medians.

    Only factors that differ between cells are in the cells' names. Fits 80 columns.
    """
    summaries = summarise(run.trials)
    cells = [s.cell for s in summaries]
    names = [cell_label(cell, varying_factors(cells)) for cell in cells]
    console.print(_heading(run))
    if not summaries:
        console.print(plain("No trial has finished yet."))
        _print_unmeasured(run, console)
        return
    console.print(_constants(cells))
    console.print()
    console.print(_results(names, summaries, console.width >= _WIDE))
    console.print()
    console.print(plain("median seconds of each phase", "dim"))
    console.print(_phases(names, summaries, console.width >= _WIDE))
    if failures := _failures(names, summaries, run.trials):
        console.print()
        console.print(Text("what became of the trials", style="dim"))
    for line in failures:
        console.print(line)
    _print_unmeasured(run, console)


def _print_unmeasured(run: Run, console: Console) -> None:
    """The cells that could not be measured, under the reason."""
    suite = run.info.suite
    if not suite.unsupported:
        return
    console.print()
    count = len(suite.unsupported)
    console.print(plain(f"not measured: {count} {'cell' if count == 1 else 'cells'}", "dim"))
    for reason, names in unmeasured(suite.cells, suite.unsupported).items():
        console.print(plain(", ".join(names), "bold"))
        console.print(plain(f"  unsupported: {reason}", "dim"))


def _heading(run: Run) -> Text:
    info = run.info
    planned = info.suite.trials * len(info.suite.cells)
    count = f"{run.jobs} of {planned} trials" if planned else f"{run.jobs} trials"
    if run.jobs != len(run.trials):
        count += f" with {len(run.trials)} injections"
    line = plain(info.run_id, "bold")
    line.append(f"  {clean(info.status)}, {count}, took {seconds(info.wall_s)}")
    if run.dropped:
        line.append(f", {run.dropped} half-written line(s) dropped", "yellow")
    return line


def _constants(cells: Sequence[Cell]) -> Text:
    pairs = constant_factors(cells)
    text = Text(style="dim")
    text.append(", ".join(f"{FACTOR_NAMES[f]} {clean(value)}" for f, value in pairs.items()))
    return text


def _results(names: Sequence[str], summaries: Sequence[CellSummary], wide: bool) -> Table:
    table = _table()
    table.add_column("cell", overflow="fold")
    table.add_column("recovered", justify="right")
    table.add_column("recovery, s\n(min to max)", justify="right", no_wrap=True)
    table.add_column("to progress" if wide else "progress", justify="right", no_wrap=True)
    table.add_column("lost steps" if wide else "lost", justify="right", no_wrap=True)
    if wide:
        table.add_column("unattributed", justify="right", no_wrap=True)
    for name, summary in zip(names, summaries, strict=True):
        cells = [
            plain(name, "bold"),
            _rate(summary),
            _times(summary.recovery_s),
            Text(_median(summary.time_to_progress_s)),
            Text(_whole(summary.lost_steps)),
        ]
        if wide:
            cells.append(Text(_share(summary)))
        table.add_row(*cells)
    return table


def _phases(names: Sequence[str], summaries: Sequence[CellSummary], wide: bool) -> Table:
    table = _table()
    table.add_column("cell", overflow="fold")
    for phase in PHASES:
        name = phase.replace("_", " ") if wide else _SHORT.get(phase, phase)
        table.add_column(name, justify="right", no_wrap=True)
    for name, summary in zip(names, summaries, strict=True):
        values = (_median(summary.phases.get(phase)) for phase in PHASES)
        table.add_row(plain(name, "bold"), *(Text(v) for v in values))
    return table


def _table() -> Table:
    return Table(box=SIMPLE_HEAD, show_edge=False, padding=(0, 1, 0, 0), header_style="dim")


def _failures(
    names: Sequence[str], summaries: Sequence[CellSummary], trials: Sequence[TrialRecord]
) -> list[Text]:
    """For each cell in which not every trial recovered: what became of its trials, and why the
    first of them did not.
    """
    lines = []
    for name, summary in zip(names, summaries, strict=True):
        if summary.recovered == summary.n:
            continue
        line = plain(name, "bold")
        counts = (f"{count} {outcome_name(o)}" for o, count in summary.outcomes.items())
        line.append(": " + ", ".join(counts))
        lines.append(line)
        said = [t for t in trials if t.cell == summary.cell and t.error]
        if said:
            lines.append(plain(f"  trial {said[0].trial}: {said[0].error}", "dim"))
    return lines


def _rate(summary: CellSummary) -> Text:
    whole = summary.judged > 0 and summary.recovered == summary.judged
    text = f"{summary.recovered}/{summary.judged}"
    return Text(text, style="green" if whole else "bold red")


def _times(values: Spread | None) -> Text:
    if values is None:
        return Text(NONE)
    text = Text(fixed(values.median), style="bold")
    if values.n > 1:
        text.append(f" ({fixed(values.minimum)} to {fixed(values.maximum)})", "not bold")
    return text


def _median(values: Spread | None) -> str:
    return fixed(values.median if values else None)


def _whole(values: Spread | None) -> str:
    return f"{values.median:g}" if values else NONE


def _share(summary: CellSummary) -> str:
    """Median unattributed time as a part of the median recovery."""
    lost, whole = summary.unattributed_s, summary.recovery_s
    if lost is None or whole is None or whole.median <= 0:
        return NONE
    return f"{100 * lost.median / whole.median:.1f} %"
