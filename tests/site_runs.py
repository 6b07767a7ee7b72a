"""Runs on a disk, for tests of sites: quickly made, with times that were asked for."""

from __future__ import annotations

import dataclasses
import json
import random
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

from recoverybench.cells import Cell
from recoverybench.records import TrialRecord
from recoverybench.results.store import Run, record_line
from tests.sample_run import make_cell, make_run, make_trial


def timed(cell: Cell, median_s: float, count: int = 8, *, seed: int = 0) -> list[TrialRecord]:
    """Recovered trials of a cell, within 5 % of a time."""
    rng = random.Random(f"{cell.key}{median_s}{seed}")
    trials = []
    for rep in range(count):
        trial = make_trial(rep, rep=rep, cell=cell)
        factor = median_s * rng.uniform(0.95, 1.05) / (trial.recovery_s or 1.0)
        trials.append(
            dataclasses.replace(
                trial,
                phases={name: value * factor for name, value in trial.phases.items()},
                recovery_s=(trial.recovery_s or 0.0) * factor,
                time_to_progress_s=(trial.time_to_progress_s or 0.0) * factor,
                spans=trial.spans[:2],
            )
        )
    return trials


def release(
    day: int, label: str | None, *medians_s: float, cells: Sequence[Cell] = (), **changes: Any
) -> Run:
    """A run of so many cells, made on that day of 2026."""
    cells = cells or [make_cell(strategy=s) for s in ("elastic", "restart", "hot-spare")]
    trials = [
        trial
        for cell, median_s in zip(cells, medians_s, strict=False)
        for trial in timed(cell, median_s, seed=day)
    ]
    trials = [dataclasses.replace(t, trial=f"{at:04d}") for at, t in enumerate(trials)]
    created = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(days=day)
    return make_run(
        trials,
        **{
            "run_id": f"quick-{day:03d}",
            "label": label,
            "created": created.isoformat(timespec="seconds"),
            **changes,
        },
    )


def put(results: Path, run: Run, name: str | None = None) -> Path:
    """Write a run as the store does, without its care for a cut."""
    path = results / (name or run.info.run_id)
    path.mkdir(parents=True)
    text = json.dumps(run.info.as_dict())
    (path / "run.json").write_text(text, encoding="utf-8")
    (path / "trials.jsonl").write_bytes(b"".join(map(record_line, run.trials)))
    return path


def files_of(site: Path) -> dict[str, bytes]:
    """Every file of a site, by its path in it."""
    return {
        path.relative_to(site).as_posix(): path.read_bytes()
        for path in sorted(site.rglob("*"))
        if path.is_file()
    }


class Seen(HTMLParser):
    """What a page consists of."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.links: list[str] = []
        self.ids: list[str] = []
        self.handlers: list[str] = []
        self.policy = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        named = dict(attrs)
        self.links += [str(named[n]) for n in ("href", "src") if n in named]
        self.ids += [str(named["id"])] if "id" in named else []
        self.handlers += [name for name, _ in attrs if name.startswith("on")]
        if named.get("http-equiv") == "Content-Security-Policy":
            self.policy = str(named["content"])
