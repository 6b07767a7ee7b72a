"""A campaign: every trial of a suite, one after another, into a run's directory."""

from __future__ import annotations

import dataclasses
import gc
import json
import random
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from recoverybench import machine
from recoverybench.analysis import analyse
from recoverybench.bench import Bench
from recoverybench.cache import Keys
from recoverybench.cells import Cell
from recoverybench.errors import HarnessError
from recoverybench.journal import read_trial
from recoverybench.records import TrialRecord
from recoverybench.reference import reference_for
from recoverybench.results import RunDir, replace_file
from recoverybench.suite import Suite
from recoverybench.trial import Place, Plan, run_job
from recoverybench.verify import Reference


class Listener(Protocol):
    """Hears how a campaign goes on; the progress display is one."""

    def trial(self, cell_label: str, rep: int, index: int) -> None:
        """A trial begins."""

    def phase(self, name: str) -> None:
        """What it is doing now."""

    def trial_done(self, record: TrialRecord) -> None:
        """It ended."""

    def note(self, text: str) -> None:
        """Something worth a line."""


def plans(suite: Suite) -> list[Plan]:
    """Every trial of a suite in the order in which they are run.

    Repetition by repetition over all cells, so that a slow drift of the machine does not
    fall on one cell alone. A trial's seed and victim depend on the suite's seed, the cell
    and the repetition, and on nothing else.
    """
    found = []
    for rep in range(suite.trials):
        for cell in suite.cells:
            seed = random.Random(f"{suite.seed}/{cell.key}/{rep}").getrandbits(32)
            found.append(
                Plan(
                    trial=f"{len(found):04d}",
                    cell=cell,
                    rep=rep,
                    seed=seed,
                    victim=cell.victim if cell.victim is not None else _victim(cell, seed),
                    job_seed=suite.seed,
                    steps=suite.steps,
                    data=suite.data,
                    deadline_s=suite.deadline_s,
                )
            )
    return found


def _victim(cell: Cell, seed: int) -> int:
    """Any worker but 0, from the seed: worker 0 also holds the coordination service, which is
    another fault and is asked for with ``victim = 0``."""
    workers = int(cell.topology.partition("x")[0])
    return random.Random(seed).randrange(1, workers)


@dataclass(slots=True)
class Campaign:
    """One execution of a suite.

    Attributes:
        suite: what to run. run: where it goes. bench: on what. listener: who hears of it.
        finished: ids of trials that an earlier session has measured.
    """

    suite: Suite
    run: RunDir
    bench: Bench
    listener: Listener
    finished: frozenset[str] = frozenset()

    def execute(self) -> None:
        """Run every trial that is not finished. KeyboardInterrupt ends it between two lines of
        the record: the trial that was cut off is not in it.

        Raises:
            HarnessError: a reference cannot be made, or a record cannot be written.
        """
        references: dict[str, Reference] = {}
        gc.disable()  # a pause of ours would be somebody's phase; collected between trials
        try:
            for plan in self._open():
                keys = Keys.of(
                    plan.cell, plan.job_seed, plan.steps, plan.data, self.bench.environment
                )
                if keys.reference not in references:
                    self.listener.phase("reference")
                    references[keys.reference] = self._reference(plan, keys)
                self._one(plan, keys, references[keys.reference])
                gc.collect()
        finally:
            gc.enable()

    def _open(self) -> Iterator[Plan]:
        waiting = [plan for plan in plans(self.suite) if plan.trial not in self.finished]
        vary = varying_factors(self.suite.cells)
        for index, plan in enumerate(waiting):
            label = " ".join(str(plan.cell.as_dict()[name]) for name in vary)
            self.listener.trial(label or plan.cell.strategy, plan.rep, index)
            yield plan

    def _one(self, plan: Plan, keys: Keys, reference: Reference) -> None:
        journals, logs = self.run.trial_dirs(plan.trial)
        load, memory = machine.load_average(), machine.memory_available_bytes()
        started = time.monotonic()
        problem: str | None = None
        try:
            problem = run_job(plan, self.bench, keys, Place(journals, logs), self.listener.phase)
        except HarnessError as error:
            problem = str(error)
        record = analyse(
            read_trial(journals).all,
            trial=plan.trial,
            cell=plan.cell,
            rep=plan.rep,
            seed=plan.seed,
            reference=reference,
            load=(load, machine.load_average()),
            memory_available_bytes=(memory, machine.memory_available_bytes()),
            wall_s=time.monotonic() - started,
            problem=problem,
            harness={"problem": problem} if problem else {},
        )
        if record.victim is None:
            record = dataclasses.replace(record, victim=plan.victim)
        self.run.append(record)
        self.listener.trial_done(record)

    def _reference(self, plan: Plan, keys: Keys) -> Reference:
        name = f"reference-{keys.reference[:8]}"
        reference = reference_for(
            plan, self.bench, keys, lambda: Place(*self.run.trial_dirs(name)), self.listener.phase
        )
        directory = self.run.path / "reference"
        directory.mkdir(exist_ok=True)
        replace_file(
            directory / f"{keys.reference}.json", json.dumps(reference.as_dict()).encode()
        )
        return reference


def varying_factors(cells: Sequence[Cell]) -> list[str]:
    """Names of the factors in which the cells differ."""
    if not cells:
        return []
    return [
        name
        for name in cells[0].as_dict()
        if len({json.dumps(cell.as_dict()[name]) for cell in cells}) > 1
    ]


