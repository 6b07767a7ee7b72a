"""A campaign: every trial of a suite, one after another, into a run's directory.

`run` is the public way in; the command line's verb is a few lines over it.
"""

from __future__ import annotations

import contextlib
import dataclasses
import gc
import json
import os
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

from recoverybench import leftovers, machine
from recoverybench.analysis.journal import Journal, read_trial
from recoverybench.analysis.record import analyse
from recoverybench.analysis.soak import analyse_soak
from recoverybench.analysis.verify import Reference
from recoverybench.campaign import cache, interrupts
from recoverybench.campaign.bench import Bench, worker_environment
from recoverybench.campaign.cache import Keys
from recoverybench.campaign.design import Place, ended, next_places, profile_places
from recoverybench.campaign.fingerprints import fingerprints
from recoverybench.campaign.fit import check_fit
from recoverybench.campaign.launching import check_launcher
from recoverybench.campaign.profiled import profilable
from recoverybench.campaign.reference import reference_for
from recoverybench.campaign.trial import Directories, Plan, parts, run_job
from recoverybench.cells import Cell
from recoverybench.environments.prepare import Prepared, prepare
from recoverybench.errors import HarnessError, UsageError, bad_value
from recoverybench.external.measure import Commands
from recoverybench.external.warden import Warden
from recoverybench.faults._memory import sweep
from recoverybench.faults._soak import Soak
from recoverybench.labels import cell_label, varying_factors
from recoverybench.plan import launchers
from recoverybench.plan.suite import DEFAULT_SUITE, Overrides, Suite, load_suite
from recoverybench.profiles.summarise import summarise
from recoverybench.records import TrialRecord
from recoverybench.results import store as results
from recoverybench.results.store import Run, RunDir, replace_file
from recoverybench.workload_name import is_command, short_name

ROOM_BYTES = 200_000_000
"""Free space that a run wants for its checkpoints, which are removed after each trial."""

RESULTS_BYTES = 10_000_000
"""Free space that it wants for what it keeps."""


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


class Silent:
    """A `Listener` that says nothing."""

    def trial(self, cell_label: str, rep: int, index: int) -> None:
        """Nothing."""

    def phase(self, name: str) -> None:
        """Nothing."""

    def trial_done(self, record: TrialRecord) -> None:
        """Nothing."""

    def note(self, text: str) -> None:
        """Nothing."""


def run(
    suite: str | Suite = DEFAULT_SUITE,
    *,
    out: str | Path | None = None,
    resume: bool = False,
    overrides: Overrides | None = None,
    label: str | None = None,
    launcher: str = "local",
    listener: Listener | None = None,
    command: Sequence[str] | None = None,
    force: bool = False,
) -> Run:
    """Run a suite and return what was measured, as it also lies in the run's directory.

    Args:
        suite: a name, a path to a TOML file, or a suite that is resolved already.
        out: the run's directory; by default a new one under ``results/``.
        resume: go on with the run in `out`; its finished trials are not measured again.
        overrides: what a command line would say over the suite.
        label: a name for people, kept with the run.
        launcher: how workers are started, ``NAME`` or ``NAME:ARGUMENT``.
        listener: hears how it goes on.
        command: what was typed, kept with the run.
        force: begin also where a workload does not fit into memory.

    Raises:
        UsageError: something in the input cannot be used. Nothing was started or written.
        HarnessError: the harness itself failed; the run holds what was measured before.
        KeyboardInterrupt: likewise, after everything of ours has ended.
    """
    if isinstance(suite, str):
        suite = load_suite(suite, overrides, launcher=launcher)
    listener = listener or Silent()
    launchers.load(launcher)
    cache.check_root()
    check_space(Path(tempfile.gettempdir()), "TMPDIR", ROOM_BYTES)
    check_space(Path(out or "results"), "--out", RESULTS_BYTES)
    prepared = prepare(
        suite,
        cache.root() / "environments",
        worker_environment(machine.platform_name()),
        listener.phase,
    )
    suite = prepared.suite
    check_fit(suite, launcher, prepared.environments, force=force, told=listener.phase)
    check_launcher(launcher, suite, Path(out or "results"))
    directory, finished = _open(
        prepared, out, resume, label, launcher, list(command if command is not None else sys.argv)
    )
    for text in prepared.notes():
        listener.note(text)
    processes, directories = leftovers.reap()
    sweep()
    if processes or directories:
        listener.note(
            f"removed what an earlier run left behind: {processes} processes, "
            f"{directories} directories"
        )
    started, status = time.monotonic(), "failed"
    with directory:
        try:
            log = directory.path / "logs" / "fork-server.log"
            with interrupts.once(), Bench.open(launcher, log, prepared.environments) as bench:
                Campaign(suite, directory, bench, listener, list(finished)).execute()
            status = "complete"
        except KeyboardInterrupt:
            status = "interrupted"
            raise
        finally:
            directory.finish(status, time.monotonic() - started)
    return results.load(directory.path)


def check_space(directory: Path, where: str, needed: int) -> None:
    """Refuse to begin on a disk that is full: a save that fails half-way leaves workers waiting.

    Raises:
        UsageError: there are fewer than `needed` bytes free.
    """
    there = next(p for p in (directory.absolute(), *directory.absolute().parents) if p.exists())
    free = shutil.disk_usage(there).free
    if free < needed:
        allowed = f"a disk with {needed / 1e6:.0f} MB free (it has {free / 1e6:.1f})"
        raise bad_value(where, str(directory), allowed)


def _open(
    prepared: Prepared,
    out: str | Path | None,
    resume: bool,
    label: str | None,
    launcher: str,
    command: list[str],
) -> tuple[RunDir, tuple[TrialRecord, ...]]:
    """The run's directory, new or resumed, and the trials that it already holds."""
    suite = prepared.suite
    if resume:
        if out is None:
            raise UsageError(
                "--resume needs --out: expected the directory of the run to go on with"
            )
        return RunDir.resume(Path(out), suite)
    if out is None:
        base = Path("results")
        out = base / results.default_run_id(suite, datetime.now(UTC), base)
    info = results.describe_run(
        suite,
        Path(os.path.abspath(out)).name,
        command=command,
        launcher=launcher,
        label=label,
        workloads=fingerprints(suite),
        environments=prepared.as_dict(),
    )
    return RunDir.create(Path(out), info), ()


def plan_of(suite: Suite, place: Place, trial: str) -> Plan:
    """What a trial is to be. Its seed and victim depend on the suite's seed, the cell and the
    repetition, and on nothing else.
    """
    cell = place.cell
    # The same in every environment: what is compared shall differ in nothing else.
    key = dataclasses.replace(cell, environment=None).key
    seed = random.Random(f"{suite.seed}/{key}/{place.rep}").getrandbits(32)
    return Plan(
        trial=trial,
        cell=cell,
        rep=place.rep,
        seed=seed,
        victim=cell.victim if cell.victim is not None else _victim(cell, seed),
        job_seed=suite.seed,
        steps=suite.steps,
        data=suite.data,
        deadline_s=suite.deadline_s,
        block=place.block,
        position=place.position,
        profiled=place.profiled,
    )


def _victim(cell: Cell, seed: int) -> int:
    """Any worker but 0, from the seed: worker 0 also holds the coordination service, which is
    another fault and is asked for with ``victim = 0``.
    """
    return random.Random(seed).randrange(1, cell.mesh.workers)


def keys_of(plan: Plan, cell: Cell, bench: Bench) -> Keys:
    """The cache's keys of a plan's job, run in `cell`."""
    _, strategy = parts(cell)
    controller = None
    if strategy.processes is not None:
        # One process compiles for all devices, and where it shrinks for fewer as well.
        controller = f"{cell.topology}{' or less' if strategy.shrinks else ''}"
    return Keys.of(
        cell,
        plan.job_seed,
        plan.steps,
        plan.data,
        bench.environment,
        controller,
        bench.software_of(cell.environment),
    )


def _analyse_one(journals: Iterable[Journal], **arguments: Any) -> list[TrialRecord]:
    """The one record of a trial with one injection; arguments as of `analysis.record.analyse`."""
    return [analyse(journals, **arguments)]


@dataclass(slots=True)
class Campaign:
    """One execution of a suite.

    Attributes:
        suite: what to run. run: where it goes. bench: on what. listener: who hears of it.
        records: of the trials that are finished, those of earlier sessions included.
        began_s: when this session began (time.monotonic).
        references: those that are made, by their key and what the state source asks of the step;
            of another release also why there is none.
    """

    suite: Suite
    run: RunDir
    bench: Bench
    listener: Listener
    records: list[TrialRecord] = field(default_factory=list)
    began_s: float = field(default_factory=time.monotonic)
    references: dict[tuple[str, str], Reference | HarnessError] = field(default_factory=dict)

    def execute(self) -> None:
        """Run what `design` asks for. KeyboardInterrupt ends it between two lines of the
        record: the trial that was cut off is not in it.

        Raises:
            HarnessError: a reference cannot be made, or a record cannot be written.
        """
        gc.disable()  # a pause of ours would be somebody's phase; collected between trials
        with contextlib.ExitStack() as stack:
            stack.callback(gc.enable)
            if any(is_command(cell.workload) for cell in self.suite.cells):
                stack.enter_context(Warden())
            self._note_changes()
            commands = Commands(self.run, self.bench.directory, cache.root() / "references")
            for plan in self._open():
                if is_command(plan.cell.workload):
                    self._keep(commands.measure(plan, self.listener.phase), plan)
                    continue
                keys = keys_of(plan, plan.cell, self.bench)
                self._one(plan, keys, self._reference_of(plan, keys))
                gc.collect()

    def _note_changes(self) -> None:
        """A run that goes on with other sources, data, versions or flags has other references."""
        kept = {path.stem for path in (self.run.path / "reference").glob("*.json")}
        done = [self._plan(Place(r.cell, r.rep, 0, 0)) for r in self.records]
        for plan in {plan.cell.workload: plan for plan in done}.values():
            if is_command(plan.cell.workload):
                continue
            if keys_of(plan, plan.cell, self.bench).reference not in kept:
                self.listener.note(
                    f"something changed since the run was begun (the files of "
                    f"{short_name(plan.cell.workload)}, the data, a version or a flag): trials "
                    "from here on are compared with another fault-free run"
                )
                return

    def _open(self) -> Iterator[Plan]:
        """The trials to run, each decided when those before it are known."""
        vary = varying_factors(self.suite.cells)
        index = 0
        while places := next_places(self.suite, self.records):
            self.bench.keep({place.cell.environment for place in places})
            for place in places:
                if self._over():
                    break
                plan = self._plan(place)
                self.listener.trial(cell_label(plan.cell, vary), plan.rep, index)
                yield plan
                index += 1
            if self._over():
                break
        ends = ended(self.suite, self.records, over=self.suite.budget_s is not None)
        self.run.info = dataclasses.replace(self.run.info, ended=ends)
        cells = profilable(self.suite, self.listener.note)
        for place in profile_places(self.suite, self.records, cells):
            plan = self._plan(place)
            self.listener.trial(f"{cell_label(plan.cell, vary)}, profiled", plan.rep, index)
            yield plan
            index += 1

    def _over(self) -> bool:
        """Whether the time that the suite has is used up; that of earlier sessions counts."""
        if self.suite.budget_s is None:
            return False
        spent_s = self.run.info.wall_s + time.monotonic() - self.began_s
        return spent_s >= self.suite.budget_s

    def _plan(self, place: Place) -> Plan:
        numbers = [int(r.trial.partition(".")[0]) for r in self.records]
        return plan_of(self.suite, place, f"{max(numbers, default=-1) + 1:04d}")

    def _one(self, plan: Plan, keys: Keys, made: Reference | HarnessError) -> None:
        journals, logs = self.run.trial_dirs(plan.trial)
        profiles = self.run.profile_dir(plan.trial).absolute() if plan.profiled else None
        load, memory = machine.load_average(), machine.memory_available_bytes()
        started = time.monotonic()
        reference = made if isinstance(made, Reference) else None
        try:
            if isinstance(made, HarnessError):
                raise made
            where = Directories(journals, logs, profiles)
            problem = run_job(plan, self.bench, keys, where, self.listener.phase)
        except HarnessError as error:
            problem = str(error)
        fault, strategy = parts(plan.cell)
        # A soak yields a record for each of its injections.
        analysis = analyse_soak if isinstance(fault, Soak) else _analyse_one
        records = analysis(
            read_trial(journals).all,
            trial=plan.trial,
            cell=plan.cell,
            rep=plan.rep,
            seed=plan.seed,
            workers=strategy.processes or plan.cell.mesh.workers,
            reference=reference,
            load=(load, machine.load_average()),
            memory_available_bytes=(memory, machine.memory_available_bytes()),
            wall_s=time.monotonic() - started,
            problem=problem,
            harmless=fault.harmless,
            harness={"problem": problem} if problem else {},
        )
        if profiles is not None:
            self.listener.phase("summarise the profiles")
            summarise(self.run.path, plan.trial)
        for record in records:
            self._keep(record, plan)

    def _keep(self, record: TrialRecord, plan: Plan) -> None:
        victim = plan.victim if record.victim is None else record.victim
        record = dataclasses.replace(
            record,
            victim=victim,
            block=plan.block,
            position=plan.position,
            profiled=plan.profiled,
        )
        self.run.append(record)
        self.records.append(record)
        self.listener.trial_done(record)

    def _reference_of(self, plan: Plan, keys: Keys) -> Reference | HarnessError:
        """The reference of a trial's job, made when it is wanted for the first time; of another
        release also why it cannot be made.

        What another mesh runs after the recovery is compiled by a fault-free run, too.
        """
        _, strategy = parts(plan.cell)
        other: object = plan.cell.restore_topology
        if strategy.shrinks and strategy.processes is None:
            other = plan.cell.mesh.resized(plan.cell.mesh.workers - 1)
        if other is not None:
            cell = dataclasses.replace(plan.cell, topology=str(other), restore_topology=None)
            self._made(dataclasses.replace(plan, cell=cell), keys_of(plan, cell, self.bench))
        return self._made(plan, keys)

    def _made(self, plan: Plan, keys: Keys) -> Reference | HarnessError:
        wanted = keys.reference, plan.cell.state_source
        if wanted not in self.references:
            self.listener.phase("reference")
            try:
                self.references[wanted] = self._reference(plan, keys)
            except HarnessError as error:
                if plan.cell.environment is None:
                    raise
                # Of a release that is being tried that is a finding, not the campaign's end.
                self.references[wanted] = error
        return self.references[wanted]

    def _reference(self, plan: Plan, keys: Keys) -> Reference:
        name = f"reference-{keys.reference[:8]}"
        reference = reference_for(
            plan,
            self.bench,
            keys,
            lambda: Directories(*self.run.trial_dirs(name)),
            self.listener.phase,
        )
        directory = self.run.path / "reference"
        directory.mkdir(exist_ok=True)
        replace_file(directory / f"{keys.reference}.json", json.dumps(reference.as_dict()).encode())
        return reference
