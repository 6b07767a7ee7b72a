"""A campaign: every trial of a suite into a run's directory, one after another or side by side.

`run` is the public way in; the command line's verb is a few lines over it.
"""

from __future__ import annotations

import contextlib
import dataclasses
import gc
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol

from recoverybench import leftovers, machine
from recoverybench.campaign import cache, interrupts
from recoverybench.campaign.bench import Bench, worker_environment
from recoverybench.campaign.design import Place, ended, next_places, profile_places
from recoverybench.campaign.fingerprints import fingerprints
from recoverybench.campaign.fit import check_fit
from recoverybench.campaign.lanes import Keep, Lanes
from recoverybench.campaign.launching import check_launcher, nodes_note
from recoverybench.campaign.measuring import Measuring
from recoverybench.campaign.plans import keys_of, next_trial, plan_of
from recoverybench.campaign.profiled import profilable
from recoverybench.campaign.trial import Plan
from recoverybench.environments.prepare import Prepared, prepare
from recoverybench.errors import UsageError, bad_value
from recoverybench.external.measure import Commands
from recoverybench.external.warden import Warden
from recoverybench.faults._memory import sweep
from recoverybench.labels import cell_label, varying_factors
from recoverybench.launchers.base import Room, Wanted
from recoverybench.plan import launchers
from recoverybench.plan.suite import DEFAULT_SUITE, Overrides, Suite, load_suite
from recoverybench.records import TrialRecord
from recoverybench.results import store as results
from recoverybench.results.store import Run, RunDir
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
    asked = check_launcher(launcher, suite, Path(out or "results"))
    directory, finished = _open(
        prepared, out, resume, label, launcher, list(command if command is not None else sys.argv)
    )
    for text in (*prepared.notes(), nodes_note(launcher, suite, finished)):
        if text is not None:
            listener.note(text)
    processes, directories = leftovers.reap()
    sweep()
    if processes or directories:
        listener.note(
            f"removed what an earlier run left behind: {processes} processes, "
            f"{directories} directories"
        )
    beside = None
    if asked is not None and asked.shared:
        beside = launcher, asked, launchers.load(launcher)[0].room()
    started, status = time.monotonic(), "failed"
    with directory:
        try:
            log = directory.path.absolute() / "logs" / "fork-server.log"
            with (
                interrupts.once(),
                Bench.open(launcher, log, prepared.environments, started=beside is None) as bench,
            ):
                campaign = Campaign(suite, directory, bench, listener, list(finished))
                campaign.beside = beside
                campaign.execute()
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
        return RunDir.resume(Path(out), suite, launcher)
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


class Runner(Protocol):
    """Runs the trials of a block; see `Lanes.measure`."""

    def measure(
        self, places: Sequence[Place], begin: Callable[[Place], Plan], over: Callable[[], bool]
    ) -> None:
        """Run what stands at these places, and return when all that was begun has ended."""


@dataclass(frozen=True, slots=True)
class Alone:
    """Runs one trial after another, in this process.

    Attributes:
        measuring: trials of jobs. commands: those of commands. keep: see `lanes.Keep`.
    """

    measuring: Measuring
    commands: Commands
    keep: Keep

    def measure(
        self, places: Sequence[Place], begin: Callable[[Place], Plan], over: Callable[[], bool]
    ) -> None:
        """See `Lanes.measure`."""
        self.measuring.bench.keep({place.cell.environment for place in places})
        for place in places:
            if over():
                return
            plan = begin(place)
            if is_command(plan.cell.workload):
                records = [self.commands.measure(plan, self.measuring.told)]
            else:
                records = self.measuring.records(plan)
            self.keep(plan, records, 0)
            gc.collect()


@dataclass(slots=True)
class Campaign:
    """One execution of a suite.

    Attributes:
        suite: what to run. run: where it goes. bench: on what. listener: who hears of it.
        records: of the trials that are finished, those of earlier sessions included.
        began_s: when this session began (time.monotonic).
        beside: the launcher, what it was asked and its room, where trials run side by side.
    """

    suite: Suite
    run: RunDir
    bench: Bench
    listener: Listener
    records: list[TrialRecord] = field(default_factory=list)
    began_s: float = field(default_factory=time.monotonic)
    beside: tuple[str, Wanted, Room] | None = None
    _begun: set[int] = field(default_factory=set)
    _vary: tuple[str, ...] = field(init=False)
    _profiling: bool = False

    def __post_init__(self) -> None:
        """What names a cell is the same for every trial."""
        self._vary = varying_factors(self.suite.cells)

    def execute(self) -> None:
        """Run what `design` asks for. KeyboardInterrupt ends it between two lines of the
        record: a trial that was cut off is not in it.

        Raises:
            HarnessError: a reference cannot be made, or a record cannot be written.
        """
        with contextlib.ExitStack() as stack:
            runner = self._runner(stack)
            self._note_changes()
            for places in self._blocks():
                runner.measure(places, self._begin, self._over)

    def _runner(self, stack: contextlib.ExitStack) -> Runner:
        """Who runs the trials; what it needs ends with the stack."""
        suite, told = self.suite, self.listener.phase
        if self.beside is not None:
            launcher, wanted, room = self.beside
            lanes = Lanes(
                *(suite, launcher, wanted, room, self.run.path.absolute(), self.bench),
                told,
                self.listener.note,
                self._keep,
            )
            return stack.enter_context(lanes)
        gc.disable()  # a pause of ours would be somebody's phase; collected between trials
        stack.callback(gc.enable)
        if any(is_command(cell.workload) for cell in suite.cells):
            stack.enter_context(Warden())
        return Alone(
            Measuring(self.run.path, self.bench, told),
            Commands(self.run, self.bench.directory, cache.root() / "references"),
            self._keep,
        )

    def _note_changes(self) -> None:
        """A run that goes on with other sources, data, versions or flags has other references."""
        kept = {path.stem for path in (self.run.path / "reference").glob("*.json")}
        done = [plan_of(self.suite, Place(r.cell, r.rep, 0, 0), r.trial) for r in self.records]
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

    def _blocks(self) -> Iterator[list[Place]]:
        """The places of trials to run, each block decided when those before it are known."""
        while not self._over() and (places := next_places(self.suite, self.records)):
            yield places
        self._profiling = True
        ends = ended(self.suite, self.records, over=self.suite.budget_s is not None)
        self.run.info = dataclasses.replace(self.run.info, ended=ends)
        cells = profilable(self.suite, self.listener.note)
        if places := profile_places(self.suite, self.records, cells):
            yield places

    def _over(self) -> bool:
        """Whether the time that the suite has is used up; that of earlier sessions counts. It is
        not for trials under a profiler.
        """
        if self.suite.budget_s is None or self._profiling:
            return False
        spent_s = self.run.info.wall_s + time.monotonic() - self.began_s
        return spent_s >= self.suite.budget_s

    def _begin(self, place: Place) -> Plan:
        """The trial at a place, which begins now."""
        numbers = {int(r.trial.partition(".")[0]) for r in self.records} | self._begun
        plan = plan_of(self.suite, place, next_trial(numbers))
        self._begun.add(int(plan.trial))
        label = cell_label(plan.cell, self._vary)
        if place.profiled:
            label += ", profiled"
        self.listener.trial(label, plan.rep, len(self._begun) - 1)
        return plan

    def _keep(self, plan: Plan, records: Sequence[TrialRecord], neighbours: int) -> None:
        """What came of a trial: all of its records, with none of another's between them."""
        for record in records:
            record = dataclasses.replace(
                record,
                victim=plan.victim if record.victim is None else record.victim,
                block=plan.block,
                position=plan.position,
                profiled=plan.profiled,
                neighbours=neighbours,
            )
            self.run.append(record)
            self.records.append(record)
            self.listener.trial_done(record)
