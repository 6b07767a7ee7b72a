"""The trials of command workloads in a campaign: reference, trial, record."""

from __future__ import annotations

import dataclasses
import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from recoverybench import machine
from recoverybench.analysis.journal import read_trial
from recoverybench.cells import Cell
from recoverybench.errors import HarnessError
from recoverybench.external import spec
from recoverybench.external.kept import KeptCommand
from recoverybench.external.losses import CommandReference
from recoverybench.external.record import Terms, analyse_command
from recoverybench.external.reference import reference_for, versions_of
from recoverybench.external.spec import Command
from recoverybench.external.trial import check_reached, run_command_job
from recoverybench.plan import catalogue
from recoverybench.records import TrialRecord
from recoverybench.results.store import RunDir, replace_file
from recoverybench.vocabulary import SCHEMA_VERSION


class Trial(Protocol):
    """What is needed of a campaign's plan of one trial; see `campaign.trial.Plan`."""

    @property
    def trial(self) -> str: ...  # noqa: D102
    @property
    def cell(self) -> Cell: ...  # noqa: D102
    @property
    def rep(self) -> int: ...  # noqa: D102
    @property
    def seed(self) -> int: ...  # noqa: D102
    @property
    def victim(self) -> int | None: ...  # noqa: D102
    @property
    def job_seed(self) -> int: ...  # noqa: D102
    @property
    def steps(self) -> int: ...  # noqa: D102
    @property
    def deadline_s(self) -> float: ...  # noqa: D102


@dataclass(slots=True)
class Commands:
    """The commands of one campaign.

    Attributes:
        run: where results go. directory: private, for jobs. kept: references in the cache.
        references: those that are made, by the command and what it is given.
    """

    run: RunDir
    directory: Path
    kept: Path
    references: dict[tuple[object, ...], CommandReference] = field(default_factory=dict)

    def measure(self, plan: Trial, told: Callable[[str], None]) -> TrialRecord:
        """Run one trial and make its record.

        Raises:
            UsageError: the command cannot be used as it is; found when it is run without a fault.
        """
        command = spec.load(plan.cell.workload)
        reference = self._reference(command, plan, told)
        assert plan.victim is not None
        name, _, argument = plan.cell.fault.partition(":")
        journals, logs = self.run.trial_dirs(plan.trial)
        load, memory = machine.load_average(), machine.memory_available_bytes()
        started = time.monotonic()
        try:
            problem = run_command_job(
                command,
                plan.cell,
                self.directory / plan.trial,
                journals,
                logs,
                told,
                fault=catalogue.load("faults", name).create(argument or None),
                victim=plan.victim,
                seed=plan.seed,
                job_seed=plan.job_seed,
                steps=plan.steps,
                last=reference.last,
                deadline_s=plan.deadline_s,
            )
        except HarnessError as error:
            problem = str(error)
        return analyse_command(
            read_trial(journals).all,
            trial=plan.trial,
            cell=plan.cell,
            rep=plan.rep,
            seed=plan.seed,
            victim=plan.victim,
            terms=Terms(
                verify=command.verify,
                tolerance=command.tolerance,
                back=command.back,
                whole=not command.patterns.repeats,
                starts=plan.cell.mesh.workers if command.each else 1,
            ),
            reference=reference,
            load=(load, machine.load_average()),
            memory_available_bytes=(memory, machine.memory_available_bytes()),
            wall_s=time.monotonic() - started,
            problem=problem,
            harness={"command": command.content(), **({"problem": problem} if problem else {})},
        )

    def _reference(
        self, command: Command, plan: Trial, told: Callable[[str], None]
    ) -> CommandReference:
        cell = plan.cell
        wanted = (command.name, cell.topology, cell.interval, plan.job_seed, plan.steps)
        if wanted not in self.references:
            name = f"reference-{command.content()[:8]}"
            reference = reference_for(
                command,
                cell,
                job_seed=plan.job_seed,
                steps=plan.steps,
                kept=self.kept,
                directory=self.directory / name,
                place=lambda: self.run.trial_dirs(name),
                told=told,
            )
            self._keep(command, reference)
            self.references[wanted] = reference
        found = self.references[wanted]
        check_reached(command, cell, found.first, found.last)
        return found

    def _keep(self, command: Command, reference: CommandReference) -> None:
        """With the run: what was compared with, and the command's file as it was."""
        stem = command.path.stem
        settings = KeptCommand(
            schema=SCHEMA_VERSION,
            name=command.name,
            start=command.start,
            environment=dict(command.environment),
            python=command.python,
            versions=versions_of(command),
        )
        for folder, name, content in (
            ("reference", f"{reference.id}.json", json.dumps(reference.as_dict()).encode()),
            ("commands", f"{stem}.toml", command.path.read_bytes()),
            (
                "commands",
                f"{stem}.json",
                json.dumps(dataclasses.asdict(settings), indent=1).encode(),
            ),
        ):
            directory = self.run.path / folder
            directory.mkdir(exist_ok=True)
            replace_file(directory / name, content)
