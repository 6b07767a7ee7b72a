"""Two sides to compare: trials of known times, in runs of one name each."""

from __future__ import annotations

import dataclasses
import io
import json
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from recoverybench.cells import Cell
from recoverybench.compare.build import compare
from recoverybench.compare.markdown import to_markdown
from recoverybench.compare.model import Comparison
from recoverybench.compare.page import to_html
from recoverybench.compare.sides import Side
from recoverybench.compare.text import print_comparison
from recoverybench.records import TrialRecord
from recoverybench.results.store import Run, RunDir
from tests.sample_run import make_cell, make_run, make_trial

CELLS = tuple(make_cell(strategy=s) for s in ("restart", "elastic", "hot-spare"))


def trials(
    n: int = 10, factor: float = 1.0, *, cells: Sequence[Cell] = CELLS, seed: int = 0
) -> list[TrialRecord]:
    """Recovered trials, everything `factor` times as long, with a spread of 4 %."""
    rng = random.Random(seed)
    made = []
    for rep in range(n):
        for at, cell in enumerate(cells):
            one = make_trial(rep * len(cells) + at, rep=0, cell=cell)
            scale = factor * rng.lognormvariate(0, 0.04)
            phases = {name: value * scale for name, value in one.phases.items()}
            made.append(
                dataclasses.replace(
                    one,
                    rep=rep,
                    phases=phases,
                    recovery_s=scale * (one.recovery_s or 0),
                    time_to_progress_s=scale * (one.time_to_progress_s or 0),
                )
            )
    return made


def side(records: Sequence[TrialRecord], name: str = "base", **changes: Any) -> Side:
    return Side(name, (make_run(records, name=name, **changes),), None, True)


def compared(base: Side, new: Side) -> Comparison:
    return compare(base, new)


def all_forms(found: Comparison) -> str:
    """What is printed, Markdown, the page and JSON, one behind the other."""
    console = Console(width=200, record=True, file=io.StringIO())
    print_comparison(found, console)
    text = console.export_text()
    return "\n".join([text, to_markdown(found), to_html(found), json.dumps(found.as_dict())])


def written(folder: Path, records: Sequence[TrialRecord], name: str, **changes: Any) -> Run:
    run = make_run(records, name="quick", **changes)
    info = dataclasses.replace(run.info, run_id=name)
    with RunDir.create(folder / name, info) as out:
        for record in records:
            out.append(record)
    return run


def in_terminal(found: Comparison, width: int) -> str:
    into = io.StringIO()
    print_comparison(found, Console(file=into, width=width))
    return into.getvalue()


def with_outcome(records: Sequence[TrialRecord], outcome: str, count: int) -> list[TrialRecord]:
    return [
        dataclasses.replace(t, outcome=outcome, recovery_s=None) if i < count else t
        for i, t in enumerate(records)
    ]
