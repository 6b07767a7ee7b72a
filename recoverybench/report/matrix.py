"""Writes the table of faults and ways back from real runs: `python -m recoverybench.report.matrix`.

``python -m recoverybench.report.matrix RUN... > docs/matrix.md``: a Markdown page with the
outcomes, median recovery time, first evidence and lost steps of every fault under every
strategy, and of every strategy with every state source; what could not be asked for stands
there with its reason.
"""

from __future__ import annotations

import statistics
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from recoverybench.cells import Cell
from recoverybench.labels import NONE, mechanism_name, outcome_name, seconds
from recoverybench.records import TrialRecord
from recoverybench.report.prose import day
from recoverybench.report.settings import machine_words
from recoverybench.results.store import Run, load

HEAD = """\
# What every fault comes to

Made from runs by `python -m recoverybench.report.matrix RUN...`; it is not written by hand.

Each entry: what became of the trials (recovered of all; other outcomes are named), then, of those
that recovered, the median recovery time, what noticed first and when, and the steps whose work
was lost. What the words mean is in [method.md](method.md). A number says how cells of this run
compare on this machine; it says nothing about another one.
"""

NAMED = ("jax", "jaxlib", "orbax-checkpoint", "pathwaysutils", "numpy")
"""Packages whose versions are named; Python always is."""


@dataclass(slots=True)
class Entry:
    """One field of a table: trials of it, and why cells of it could not be measured."""

    trials: list[TrialRecord] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)


class Notes:
    """Footnotes: each reason once, numbered as they come."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def mark(self, reason: str) -> str:
        """The footnote's mark."""
        return f"[^{self._numbers.setdefault(reason, len(self._numbers) + 1)}]"

    def lines(self) -> list[str]:
        """All of them."""
        return [f"[^{number}]: {_plain(text)}" for text, number in self._numbers.items()]


def markdown(runs: Sequence[Run]) -> str:
    """The whole page.

    A run of more faults than strategies is about faults, which stand against strategies; any
    other is about strategies, which stand against state sources where the fault is the run's
    first and the victim the seed's. What else it has stands by itself.
    """
    many = [run for run in runs if len(_values(run, "fault")) > len(_values(run, "strategy"))]
    one = [run for run in runs if run not in many]
    notes = Notes()
    parts = [HEAD]
    if many:
        table = _table("fault", many, lambda cell: cell.fault, lambda cell: cell.strategy, notes)
        parts.append("## Fault × strategy\n\n" + table)
    if one:
        faults = ", ".join(f"`{f}`" for f in dict.fromkeys(_values(r, "fault")[0] for r in one))
        head = f"## Strategy × state source\n\nThe fault is {faults}.\n\n"
        usual = _table(
            "strategy", one, lambda c: c.strategy, lambda c: c.state_source, notes, only=_usual
        )
        parts.append(head + usual)
        if any(not _usual(run, cell) for run in one for cell in run.info.suite.cells):
            head = "## Other cells of these runs\n\nThe state comes from storage.\n\n"
            rest = _table(
                "cell",
                one,
                _special,
                lambda c: c.strategy,
                notes,
                only=lambda r, c: not _usual(r, c),
            )
            parts.append(head + rest)
    parts.append("## Runs\n\n" + _runs(runs))
    if found := notes.lines():
        parts.append("\n".join(found) + "\n")
    return "\n".join(parts)


def _values(run: Run, factor: str) -> list[str]:
    """What a factor holds in a run, measured or refused, in the order of the suite."""
    suite = run.info.suite
    cells = [*suite.cells, *(t.cell for t in run.trials), *(c for c, _ in suite.unsupported)]
    return list(dict.fromkeys(str(getattr(cell, factor)) for cell in cells))


def _usual(run: Run, cell: Cell) -> bool:
    """The run's first fault, on a worker that the seed chooses."""
    return cell.fault == _values(run, "fault")[0] and cell.victim is None


def _special(cell: Cell) -> str:
    """What tells a cell from the usual ones: ``kill, worker 0, coordinator external``."""
    victim = [] if cell.victim is None else [f"worker {cell.victim}"]
    return ", ".join([cell.fault, *victim, f"coordinator {cell.coordinator}"])


def _table(
    corner: str,
    runs: Sequence[Run],
    down: Callable[[Cell], str],
    across: Callable[[Cell], str],
    notes: Notes,
    only: Callable[[Run, Cell], bool] = lambda *_: True,
) -> str:
    entries: dict[tuple[str, str], Entry] = defaultdict(Entry)
    for run in runs:
        for trial in run.trials:
            if only(run, trial.cell):
                entries[down(trial.cell), across(trial.cell)].trials.append(trial)
        for cell, reason in run.info.suite.unsupported:
            if only(run, cell):
                entries[down(cell), across(cell)].refused.append(reason)
        for cell in run.info.suite.cells:
            if only(run, cell):
                entries[down(cell), across(cell)]  # one that has no trial yet is not run
    rows = dict.fromkeys(row for row, _ in entries)
    columns = dict.fromkeys(column for _, column in entries)
    lines = [f"| {corner} | " + " | ".join(f"`{c}`" for c in columns) + " |"]
    lines.append("|---" * (len(columns) + 1) + "|")
    for row in rows:
        fields = (_entry(entries.get((row, column)), notes) for column in columns)
        lines.append(f"| `{_plain(row)}` | " + " | ".join(fields) + " |")
    return "\n".join(lines) + "\n"


def _entry(entry: Entry | None, notes: Notes) -> str:
    """A field of the table on one line."""
    if entry is None:
        return NONE
    marks = "".join(notes.mark(reason) for reason in dict.fromkeys(entry.refused))
    if not entry.trials:
        return f"unsupported{marks}" if marks else "not run"
    said = [_outcomes(entry.trials)]
    back = [t for t in entry.trials if t.outcome == "recovered"]
    if times := [t.recovery_s for t in back if t.recovery_s is not None]:
        said.append(f"**{seconds(statistics.median(times))}**")
    if noticed := _noticed(back):
        said.append(noticed)
    if lost := [t.lost_steps for t in back if t.lost_steps is not None]:
        said.append(f"lost {_range(lost)}")
    if alarms := sum(t.false_alarms for t in entry.trials):
        said.append(f"false alarms {alarms}")
    simulated = ", simulated" if any(t.simulated for t in entry.trials) else ""
    return "<br>".join(said) + simulated + marks


def _outcomes(trials: Sequence[TrialRecord]) -> str:
    counts = Counter(t.outcome for t in trials)
    recovered = counts.pop("recovered", 0)
    others = [f"{n} {outcome_name(o)}" for o, n in counts.most_common()]
    if not recovered and len(counts) == 1:
        return outcome_name(next(iter(counts)))
    return ", ".join([f"{recovered}/{len(trials)} recovered", *others])


def _noticed(trials: Sequence[TrialRecord]) -> str:
    """What noticed first, and the median of when."""
    firsts = [min(t.detection_evidence, key=lambda e: e.after_s) for t in trials if t.detected_by]
    if not firsts:
        return ""
    name = Counter(e.mechanism for e in firsts).most_common(1)[0][0]
    return f"{mechanism_name(name)} {seconds(statistics.median(e.after_s for e in firsts))}"


def _range(values: Iterable[int]) -> str:
    low, high = min(values), max(values)
    return str(low) if low == high else f"{low} to {high}"


def _runs(runs: Sequence[Run]) -> str:
    lines = ["| run | day | machine | versions | trials | invalid |", "|---|---|---|---|---|---|"]
    for run in runs:
        info = run.info
        versions = [f"Python {info.environment.get('python') or '?'}"]
        versions += [f"{n} {info.environment[n]}" for n in NAMED if info.environment.get(n)]
        invalid = sum(t.outcome == "invalid" for t in run.trials)
        fields = (
            f"`{_plain(info.run_id)}`",
            day(info.created),
            machine_words(run),
            ", ".join(versions),
            str(len(run.trials)),
            str(invalid),
        )
        lines.append("| " + " | ".join(map(_plain, fields)) + " |")
    return "\n".join(lines) + "\n"


def _plain(text: str) -> str:
    """Text that stays inside a field of a Markdown table."""
    return " ".join(text.split()).replace("|", "\\|")


if __name__ == "__main__":
    sys.stdout.write(markdown([load(Path(name)) for name in sys.argv[1:]]))
