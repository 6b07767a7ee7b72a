"""A run in the terminal: a line a cell, then the median of each phase."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from recoverybench.blocks import design_lines, open_ended
from recoverybench.busy import busy_words
from recoverybench.cells import Cell
from recoverybench.labels import (
    FACTOR_NAMES,
    NONE,
    cell_label,
    constant_factors,
    fixed,
    not_verified,
    one_controller,
    outcome_name,
    processes_words,
    seconds,
    short_digests,
    struck_words,
    unmeasured,
    varying_factors,
)
from recoverybench.reads import Read, reads_of
from recoverybench.records import TrialRecord
from recoverybench.results.store import Run
from recoverybench.soaks import soaks_of
from recoverybench.stats import CellSummary, Spread, summarise
from recoverybench.terminal.text import plain
from recoverybench.visible import clean
from recoverybench.vocabulary import SHOWN_PHASES, UNNAMED

_SHORT = {
    "unnamed": "unnam",
    "teardown": "tear",
    "replace": "repl",
    "rendezvous": "rdv",
    "restore": "rest",
    "compile": "comp",
    "first_step": "first",
    "catch_up": "catch",
}
"""Phase names for a column of five characters."""

_LEGEND = "tear teardown, repl replace, rdv rendezvous, rest restore, comp compile"

_BEYOND = "trials that were not back at the deadline count in the medians; >: at least that"

_MOST_IDS = 6
"""Ids of trials that a line names."""

_WIDE = 100
"""From this width on, columns have their full names."""


def run_table(run: Run, console: Console) -> None:
    """Print a run: what is the same in all cells, a line a cell, and the phases' medians.

    Only factors that differ between cells are in the cells' names. Fits 80 columns.
    """
    # As the suite has them: the first trials of a run come in a random order.
    place = {cell: at for at, cell in enumerate(run.info.suite.cells)}
    trials = sorted(run.trials, key=lambda t: place.get(t.cell, len(place)))
    summaries = summarise(trials, deadline_s=run.info.suite.deadline_s)
    cells = [s.cell for s in summaries]
    names = [cell_label(cell, varying_factors(cells)) for cell in cells]
    console.print(_heading(run))
    if not summaries:
        console.print(plain("No trial has finished yet."))
        _print_unmeasured(run, console)
        _print_profiled(run, console)
        return
    console.print(_constants(cells))
    console.print()
    wide = console.width >= _WIDE
    console.print(_results(names, summaries, console.width))
    if any(summary.censored and summary.recovered for summary in summaries):
        console.print(plain(_BEYOND, "dim"))
    for several in _several(run.trials):
        console.print(plain(several, "dim"))
    for line in (*_simulated(run.trials), *_unverified(names, summaries, run), *_soaks(run)):
        console.print(line)
    for said in design_lines(run.info, run.trials):
        console.print(plain(said, "dim"))
    if busy := busy_words(run):
        console.print(plain(busy, "yellow"))
    console.print()
    console.print(plain("median seconds of each phase", "dim"))
    console.print(_phases(names, summaries, console.width))
    if not wide:
        some = any(UNNAMED in summary.phases for summary in summaries)
        console.print(plain(("unnam unnamed, " if some else "") + _LEGEND, "dim"))
    _print_reads(run, console)
    if failures := _failures(names, summaries, run.trials):
        console.print()
        console.print(
            plain("what became of the trials, and how often it does (95 % intervals)", "dim")
        )
    for line in failures:
        console.print(line)
    _print_unmeasured(run, console)
    _print_profiled(run, console)


def _print_reads(run: Run, console: Console) -> None:
    """Restores against a raw read of the same files, where that says something."""
    reads = reads_of(run.trials)
    if not reads:
        return
    varying = varying_factors(t.cell for t in run.trials)
    heads = ["stall", "save", "GB", "read", "GB/s", "of raw"]
    rows = [[plain(text) for text in _read_texts(read)] for read in reads]
    console.print()
    console.print(plain("checkpoints: median seconds, and speed as a part of a raw read", "dim"))
    labels = [cell_label(read.cell, varying) for read in reads]
    console.print(_table(labels, heads, rows, console.width))
    if any(read.small for read in reads):
        console.print(plain("below 50 MB the part of a raw read says little", "dim"))


def _read_texts(read: Read) -> tuple[str, ...]:
    part = read.fraction
    return (
        fixed(read.stall_s),
        fixed(read.save_s),
        f"{read.size / 1e9:.3f}",
        fixed(read.read_s),
        f"{read.size / read.read_s / 1e9:.2f}",
        NONE if part is None else f"{part:.2f} {read.cell.page_cache}",
    )


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


def _print_profiled(run: Run, console: Console) -> None:
    """How many trials ran under a profiler, and where their traces are."""
    if not run.profiled:
        return
    ids = [record.trial for record in run.profiled]
    several = "trial" if len(ids) == 1 else "trials"
    shown = ", ".join(ids[:_MOST_IDS]) + (" and more" if len(ids) > _MOST_IDS else "")
    line = plain(f"{len(ids)} profiled {several}, in no number above ({shown}): ", "dim")
    line.append(clean(str(run.path / "profile")))
    console.print()
    console.print(line, soft_wrap=True)


def _heading(run: Run) -> Text:
    info = run.info
    planned = 0 if open_ended(info.suite) else info.suite.trials * len(info.suite.cells)
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


def _several(trials: Sequence[TrialRecord]) -> Iterator[str]:
    """Trials that were lost again, of whose recoveries the columns show different things."""
    ids = [t.trial for t in trials if t.recoveries > 1]
    if ids:
        shown = ", ".join(ids[:_MOST_IDS]) + (" and more" if len(ids) > _MOST_IDS else "")
        trial = "1 trial" if len(ids) == 1 else f"{len(ids)} trials"
        said = "lost steps are of all (before format 6: of one)"
        yield f"more than one recovery in {trial} ({shown}): {said}"


def _simulated(trials: Sequence[TrialRecord]) -> list[Text]:
    """What was not really done, and to what, a line for each kind."""
    simulated = [(t.cell, t.cell.strategy.partition(":")[0]) for t in trials if t.simulated]
    said = (
        f"{strategy}: {struck_words(cell)}, {processes_words(cell)}"
        if one_controller(cell)
        else f"{strategy}: the fault was simulated"
        for cell, strategy in simulated
    )
    return [plain(text, "yellow") for text in dict.fromkeys(said)]


def _unverified(names: Sequence[str], summaries: Sequence[CellSummary], run: Run) -> Iterator[Text]:
    """Cells whose recoveries were compared with nothing, as their command's file asked for."""
    for name, summary in zip(names, summaries, strict=True):
        if any(t.cell == summary.cell and not_verified(t) for t in run.trials):
            yield plain(
                f"{name}: not verified, nothing was compared with a run without a fault", "yellow"
            )


def _soaks(run: Run) -> list[Text]:
    """What each job that was struck again and again came to as a whole."""
    return [
        plain(
            f"job {one.job}, {one.label}: goodput {one.goodput}, {one.recovered} of "
            f"{one.injections} injections recovered, further kills in recoveries: {one.again}"
        )
        for one in soaks_of([run])
    ]


def _results(names: Sequence[str], summaries: Sequence[CellSummary], width: int) -> Table:
    wide = width >= _WIDE
    heads = ["recovered", "recovery, s\n(min to max)"]
    heads += ["to progress", "lost steps", "unattributed"] if wide else ["progress", "lost"]
    rows = [
        [
            _rate(summary),
            _times(summary),
            Text(_whole_median(summary, "time_to_progress_s")),
            Text(_whole(summary.lost_steps)),
            *([Text(_share(summary))] if wide else []),
        ]
        for summary in summaries
    ]
    return _table(names, heads, rows, width)


def _phases(names: Sequence[str], summaries: Sequence[CellSummary], width: int) -> Table:
    wide = width >= _WIDE
    some = any(UNNAMED in summary.phases for summary in summaries)
    shown = [phase for phase in SHOWN_PHASES if some or phase != UNNAMED]
    heads = [p.replace("_", " ") if wide else _SHORT.get(p, p) for p in shown]
    rows = [
        [Text(_median(s.phases.get(phase), s.bounds.get(phase, 0.0))) for phase in shown]
        for s in summaries
    ]
    return _table(names, heads, rows, width)


def _table(
    names: Sequence[str], heads: Sequence[str], rows: Sequence[Sequence[Text]], width: int
) -> Table:
    """A line a cell; its name has the room that the numbers leave."""
    table = Table(box=SIMPLE_HEAD, show_edge=False, padding=(0, 1, 0, 0), header_style="dim")
    table.add_column("cell", overflow="fold")
    free = width - 1
    for i, head in enumerate(heads):
        table.add_column(head, justify="right", no_wrap=True)
        lines = [*head.split("\n"), *(row[i].plain for row in rows)]
        free -= 2 + max(map(len, lines))  # a blank before and after each
    for name, row in zip(names, rows, strict=True):
        table.add_row(Text(_fitted(name, free), "bold"), *row)
    return table


def _fitted(name: str, width: int) -> str:
    """A name on lines of at most `width` characters, broken between words.

    A word that is too long by itself is broken after a comma, a colon or a hyphen.
    """
    lines = [""]
    for word in re.findall(r"\S+(?: ·)?", clean(name)):
        parts = [word] if len(word) <= width else re.findall(r"[^,:-]*[,:-]|[^,:-]+", word)
        joint = " "
        for part in parts:
            if lines[-1] and len(lines[-1] + joint + part) <= width:
                lines[-1] += joint + part
            else:
                lines.append(part)
            joint = ""
    return "\n".join(lines[1:])


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
        counts = (
            f"{count} {outcome_name(o)} ({100 * r.low:.0f} to {100 * r.high:.0f} %)"
            for (o, count), r in zip(summary.outcomes.items(), summary.rates.values(), strict=True)
        )
        line.append(": " + ", ".join(counts))
        lines.append(line)
        said = ((t.trial, t.error) for t in trials if t.cell == summary.cell and t.error)
        for trial, error in list(said)[:1]:
            lines.append(plain(f"  trial {trial}: {short_digests(error)}", "dim"))
    return lines


def _rate(summary: CellSummary) -> Text:
    whole = summary.judged > 0 and summary.recovered == summary.judged
    text = f"{summary.recovered}/{summary.judged}"
    return Text(text, style="green" if whole else "bold red")


def _times(summary: CellSummary) -> Text:
    values = summary.recovery_s
    if values is None:
        return Text(NONE)
    text = Text(_whole_median(summary, "recovery_s"), style="bold")
    if values.n > 1:
        text.append(f" ({fixed(values.minimum)} to {fixed(values.maximum)})", "not bold")
    return text


def _median(values: Spread | None, bound_s: float) -> str:
    return fixed(values.median if values else None, bound_s)


def _whole_median(summary: CellSummary, name: str) -> str:
    """Of the trials that recovered and of those that were not back at the deadline; nothing where
    none recovered.
    """
    values, whole = {
        "recovery_s": (summary.recovery_s, summary.recovery),
        "time_to_progress_s": (summary.time_to_progress_s, summary.progress),
    }[name]
    if values is None or whole is None:
        return NONE
    bound_s = summary.bounds.get(name, 0.0)
    return fixed(whole.median, bound_s) if whole.median is not None else f"> {fixed(whole.bound)}"


def _whole(values: Spread | None) -> str:
    return f"{values.median:g}" if values else NONE


def _share(summary: CellSummary) -> str:
    """Median unattributed time as a part of the median recovery."""
    lost, whole = summary.unattributed_s, summary.recovery_s
    if lost is None or whole is None or whole.median <= 0:
        return NONE
    return f"{100 * lost.median / whole.median:.1f} %"
