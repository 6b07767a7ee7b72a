"""Trials on one bench, one at a time: each with its reference, and made into records."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from recoverybench import machine
from recoverybench.analysis.journal import Journal, read_trial
from recoverybench.analysis.record import analyse
from recoverybench.analysis.soak import analyse_soak
from recoverybench.analysis.verify import Reference
from recoverybench.campaign.bench import Bench
from recoverybench.campaign.cache import Keys
from recoverybench.campaign.plans import ReferenceKey, fault_free, reference_key
from recoverybench.campaign.reference import reference_for
from recoverybench.campaign.trial import Directories, Plan, parts, run_job
from recoverybench.errors import HarnessError, NothingLeft
from recoverybench.faults._soak import Soak
from recoverybench.profiles.summarise import summarise
from recoverybench.records import TrialRecord
from recoverybench.results.store import new_directory, replace_file

Made = Reference | HarnessError
"""A reference, or why there is none."""


def _nothing(which: ReferenceKey, made: Made) -> None:
    """Nobody else wants it."""


@dataclass(slots=True)
class Measuring:
    """Runs trials and makes their records.

    Attributes:
        path: the run's directory. bench: on what. told: receives words for the progress display.
        references: those that are made; of another release also why there is none.
        made: hears of each that is made here.
    """

    path: Path
    bench: Bench
    told: Callable[[str], None]
    references: dict[ReferenceKey, Made] = field(default_factory=dict)
    made: Callable[[ReferenceKey, Made], None] = _nothing

    def records(self, plan: Plan) -> list[TrialRecord]:
        """Run a trial; what came of it, a record for each injection.

        Raises:
            HarnessError: its reference cannot be made, on the supervisor's own environment.
            NothingLeft: there is nothing any more that it could run on.
        """
        jobs = fault_free(plan, self.bench)
        reference = [self.reference(each, keys) for each, keys in jobs][-1]
        return self._trial(plan, jobs[-1][1], reference)

    def reference(self, plan: Plan, keys: Keys) -> Made:
        """The reference of a plan's job, made when it is wanted for the first time; of another
        release also why it cannot be made.
        """
        which = reference_key(plan, keys)
        if which not in self.references:
            self.told("reference")
            try:
                made: Made = self._reference(plan, keys)
            except HarnessError as error:
                if plan.cell.environment is None or isinstance(error, NothingLeft):
                    raise
                # Of a release that is being tried that is a finding, not the campaign's end.
                made = error
            self.references[which] = made
            self.made(which, made)
        return self.references[which]

    def _reference(self, plan: Plan, keys: Keys) -> Reference:
        name = f"reference-{keys.reference[:8]}"
        reference = reference_for(
            plan, self.bench, keys, lambda: self._directories(name), self.told
        )
        directory = self.path / "reference"
        directory.mkdir(exist_ok=True)
        replace_file(directory / f"{keys.reference}.json", json.dumps(reference.as_dict()).encode())
        return reference

    def _directories(self, name: str, *, profiled: bool = False) -> Directories:
        """Where workers write; absolute, for on other machines they begin somewhere else."""
        run = self.path.absolute()
        profiles = new_directory(run, "profile", name) if profiled else None
        journals = new_directory(run, "journal", name)
        return Directories(journals, new_directory(run, "logs", name), profiles)

    def _trial(self, plan: Plan, keys: Keys, made: Made) -> list[TrialRecord]:
        place = self._directories(plan.trial, profiled=plan.profiled)
        load, memory = machine.load_average(), machine.memory_available_bytes()
        started = time.monotonic()
        try:
            if isinstance(made, HarnessError):
                raise made
            problem = run_job(plan, self.bench, keys, place, self.told)
        except NothingLeft:
            raise  # a record of it would say something of the cell, as would those of all others
        except HarnessError as error:
            problem = str(error)
        records = records_of(
            plan,
            place.journals,
            made,
            problem,
            load=(load, machine.load_average()),
            memory_available_bytes=(memory, machine.memory_available_bytes()),
            wall_s=time.monotonic() - started,
        )
        if plan.profiled:
            self.told("summarise the profiles")
            summarise(self.path, plan.trial)
        return records


def records_of(
    plan: Plan, journals: Path, made: Made | None, problem: str | None, **machine_then: Any
) -> list[TrialRecord]:
    """What a trial's journals say.

    Args:
        journals: their directory. made: its reference. problem: what the harness knows to be
            wrong with it. machine_then: load, memory and wall time, see `TrialRecord`.
    """
    fault, strategy = parts(plan.cell)
    # A soak yields a record for each of its injections.
    analysis = analyse_soak if isinstance(fault, Soak) else _analyse_one
    return analysis(
        read_trial(journals).all,
        trial=plan.trial,
        cell=plan.cell,
        rep=plan.rep,
        seed=plan.seed,
        workers=strategy.processes or plan.cell.mesh.workers,
        reference=made if isinstance(made, Reference) else None,
        problem=problem,
        harmless=fault.harmless,
        harness={"problem": problem} if problem else {},
        **machine_then,
    )


def _analyse_one(journals: Iterable[Journal], **arguments: Any) -> list[TrialRecord]:
    """The one record of a trial with one injection; arguments as of `analysis.record.analyse`."""
    return [analyse(journals, **arguments)]
