"""Jobs that were struck many times: what each came to as a whole."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from recoverybench.labels import NONE, cell_label, seconds, struck_again, varying_factors
from recoverybench.records import TrialRecord
from recoverybench.results.store import Run
from recoverybench.stats import spread


@dataclass(frozen=True, slots=True)
class SoakRow:
    """One job with many injections, as it is shown.

    Attributes:
        job: id of the job. label: its cell. injections, recovered: trials it yielded, and how
            many of them recovered. again: further kills, which fell into recoveries. median:
            recovery time of those that recovered. goodput, wall, steps: of the whole job.
    """

    job: str
    label: str
    injections: int
    recovered: int
    again: int
    median: str
    goodput: str
    wall: str
    steps: int


def soaks_of(runs: Sequence[Run]) -> list[SoakRow]:
    """Every soak of these runs, in the order in which they ended."""
    cells = [t.cell for run in runs for t in run.trials]
    varying = varying_factors(cells)
    jobs: dict[tuple[int, str], list[TrialRecord]] = defaultdict(list)
    for position, run in enumerate(runs):
        for trial in run.trials:
            if trial.soak is not None:
                jobs[position, trial.trial.rpartition(".")[0]].append(trial)
    return [_row(job, trials, varying) for (_, job), trials in jobs.items()]


def _row(job: str, trials: Sequence[TrialRecord], varying: Sequence[str]) -> SoakRow:
    whole = trials[-1].soak or {}
    back = [t for t in trials if t.outcome == "recovered"]
    times = spread(t.recovery_s for t in back)
    goodput = whole.get("goodput")
    return SoakRow(
        job=job,
        label=cell_label(trials[0].cell, varying),
        injections=int(whole.get("injections", len(trials))),
        recovered=len(back),
        again=sum(map(struck_again, trials)),
        median=seconds(times.median if times else None),
        goodput=NONE if goodput is None else f"{100 * goodput:.1f} %",
        wall=seconds(whole.get("wall_s")),
        steps=int(whole.get("steps", 0)),
    )
