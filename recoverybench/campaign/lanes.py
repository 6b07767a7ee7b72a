"""Trials side by side: as many as the launcher has room for, each in a process of its own (`lane`).

This process decides and writes: it hands out places in the order of the design, gives numbers, and
appends every record. It times nothing, so that no trial waits for it.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from recoverybench import leftovers, machine
from recoverybench.campaign.bench import Bench
from recoverybench.campaign.design import Place
from recoverybench.campaign.lane import Answer, Done, Failed, HasMade, Opened, Setup, Task, Told
from recoverybench.campaign.measuring import Made, records_of
from recoverybench.campaign.plans import ReferenceKey, fault_free, plan_of, reference_key
from recoverybench.campaign.trial import Plan
from recoverybench.campaign.turns import Turns
from recoverybench.errors import HarnessError
from recoverybench.launchers import base
from recoverybench.plan.suite import Suite
from recoverybench.protocol import OWNER_VARIABLE
from recoverybench.records import TrialRecord

END_S: Final = 60.0
"""How long a lane may take to end its job and everything else of its own."""

Keep = Callable[[Plan, Sequence[TrialRecord], int], None]
"""Takes what came of a trial, and how many neighbours it had at the most."""


@dataclass(slots=True, eq=False)
class _Lane:
    """One process.

    Attributes:
        number: names its files. share: of the launcher's room. line: to it. log: what it prints.
        plan: what it runs; None: nothing. began_s: when that began (time.monotonic).
        before: load and memory at that time. phase: what it said last. open: it can run trials.
    """

    number: int
    share: base.Share
    process: subprocess.Popen[bytes]
    line: Connection
    log: Path
    plan: Plan | None = None
    began_s: float = 0.0
    before: tuple[float, int] = (0.0, 0)
    phase: str = ""
    open: bool = False


@dataclass(slots=True)
class Lanes:
    """Runs trials side by side; a context manager that leaves nothing running.

    Attributes:
        suite: whose trials they are.
        launcher: ``NAME`` or ``NAME:ARGUMENT``. wanted: what was asked of it.
        room: what it has. run: the run's directory.
        bench: what all lanes share; none of its launchers is opened.
        told: receives words for the progress display. note: a line that stays. keep: see `Keep`.
    """

    suite: Suite
    launcher: str
    wanted: base.Wanted
    room: base.Room
    run: Path
    bench: Bench
    told: Callable[[str], None]
    note: Callable[[str], None]
    keep: Keep
    _lanes: list[_Lane] = field(default_factory=list)
    _turns: Turns = field(default_factory=Turns)
    _references: dict[ReferenceKey, Made] = field(default_factory=dict)
    _why: str = ""
    _keeping: bool = False

    def measure(
        self, places: Sequence[Place], begin: Callable[[Place], Plan], over: Callable[[], bool]
    ) -> None:
        """Run what stands at these places, and return when all that was begun has ended.

        Args:
            places: in the order in which trials begin.
            begin: what is to be run there; asked for when it begins.
            over: whether no more is to begin.

        Raises:
            HarnessError: a reference cannot be made, or no lane can be opened.
        """
        waiting = deque(places)
        needed: list[ReferenceKey] | None = None
        soon = frozenset(place.cell.environment for place in places)
        while waiting or len(self._turns):
            if waiting and over():
                waiting.clear()
                continue
            self._open(len(waiting))
            # A lane that opens has work to do on this machine: whoever begins waits for that.
            free = [lane for lane in self._lanes if lane.plan is None]
            if waiting and free and all(lane.open for lane in free):
                needed = needed or self._needed(waiting[0])
                if self._turns.may_begin(needed):
                    self._begin(free[0], begin(waiting.popleft()), needed, soon)
                    needed = None
                    continue
            self._hear()

    def _needed(self, place: Place) -> list[ReferenceKey]:
        """The references that the trial at a place wants."""
        return [
            reference_key(*job) for job in fault_free(plan_of(self.suite, place, ""), self.bench)
        ]

    def _open(self, waiting: int) -> None:
        """Have a lane for each of so many trials, as far as there is room."""
        free = sum(lane.plan is None for lane in self._lanes)
        while free < waiting and (share := self.room.take()) is not None:
            self._lanes.append(self._start(share))
            free += 1
        if not self._lanes:
            raise HarnessError(self._why or "no node is left for a trial")

    def _start(self, share: base.Share) -> _Lane:
        taken = {lane.number for lane in self._lanes}
        number = next(n for n in range(len(taken) + 1) if n not in taken)
        log = self.run / "logs" / f"lane-{number}.log"
        ours, theirs = socket.socketpair()
        with theirs, log.open("ab") as output:
            command = (sys.executable, "-P", "-m", "recoverybench.campaign.lane")
            process = subprocess.Popen(
                [*command, str(theirs.fileno()), str(os.getpid())],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                pass_fds=[theirs.fileno()],
                env={**os.environ, OWNER_VARIABLE: leftovers.owner_mark()},
                start_new_session=True,  # a terminal's Ctrl-C comes to us, who pass it on
            )
        lane = _Lane(number, share, process, Connection(ours.detach()), log)
        setup = Setup(self.launcher, self.wanted, share, self.run, self.bench.apart(number))
        with suppress(OSError):  # it has ended, which is heard of
            lane.line.send(setup)
        return lane

    def _begin(
        self, lane: _Lane, plan: Plan, needed: Sequence[ReferenceKey], soon: frozenset[str | None]
    ) -> None:
        self._turns.begin(lane, needed)
        lane.plan, lane.phase, lane.began_s = plan, "starting", time.monotonic()
        lane.before = machine.load_average(), machine.memory_available_bytes()
        made = {which: self._references[which] for which in needed if which in self._references}
        with suppress(OSError):
            lane.line.send(Task(plan, made, soon))

    def _hear(self) -> None:
        """Wait until a lane says something, or ends, and do what follows from it."""
        ready = wait([lane.line for lane in self._lanes])
        for lane in [lane for lane in self._lanes if lane.line in ready]:
            try:
                answer: Answer = lane.line.recv()
            except (EOFError, OSError):
                self._ended(lane)
            else:
                self._heard(lane, answer)

    def _heard(self, lane: _Lane, answer: Answer) -> None:
        match answer:
            case Opened():
                lane.open = True
            case Told(text):
                lane.phase = text
                running = (each for each in self._lanes if each.plan is not None)
                self.told(", ".join(f"{e.plan.trial} {e.phase}" for e in running if e.plan))
            case HasMade(which, made):
                self._references[which] = made
                self._turns.has_made(lane, which)
            case Done(records, lost):
                self._done(lane, records)
                if lost:  # the launcher divides what is left anew, and a lane has what it has
                    self._drop(lane, lost)
            case Failed(why):
                if lane.open:
                    raise HarnessError(why)
                self._unopened(lane, why)

    def _done(self, lane: _Lane, records: Sequence[TrialRecord]) -> None:
        assert lane.plan is not None
        plan, lane.plan = lane.plan, None
        self._keeping = True
        self.keep(plan, records, self._turns.end(lane))
        self._keeping = False

    def _ended(self, lane: _Lane) -> None:
        """A lane is gone that nobody has asked to go; so is its trial, and no other."""
        code = _await(lane.process)
        why = f"the process of lane {lane.number} ended with code {code} (see {lane.log})"
        if not lane.open:
            self._unopened(lane, why)
            return
        if lane.plan is not None:
            self._done(lane, self._cut_off(lane, lane.plan, why))
        self._drop(lane, frozenset())

    def _cut_off(self, lane: _Lane, plan: Plan, why: str) -> list[TrialRecord]:
        journals = self.run / "journal" / plan.trial
        journals.mkdir(parents=True, exist_ok=True)
        own = reference_key(*fault_free(plan, self.bench)[-1])
        load, memory = lane.before
        return records_of(
            plan,
            journals,
            self._references.get(own),
            why,
            load=(load, machine.load_average()),
            memory_available_bytes=(memory, machine.memory_available_bytes()),
            wall_s=time.monotonic() - lane.began_s,
        )

    def _unopened(self, lane: _Lane, why: str) -> None:
        """Where a lane cannot be opened its share is not given back: nobody would be better off."""
        self._why = why
        self.note(f"one trial fewer side by side: {why}")
        self._end(lane)

    def _drop(self, lane: _Lane, lost: frozenset[str]) -> None:
        self._end(lane)
        self.room.give_back(lane.share, lost)

    def _end(self, lane: _Lane) -> None:
        """Have a lane end that runs nothing, and wait for it: it holds what the next one gets."""
        self._lanes.remove(lane)
        lane.line.close()
        _await(lane.process)
        shutil.rmtree(self.bench.directory / f"lane-{lane.number}", ignore_errors=True)

    def close(self) -> None:
        """End every lane, and keep what had been measured by then."""
        for lane in self._lanes:
            if lane.plan is None and lane.open:
                lane.line.close()
            else:
                lane.process.send_signal(signal.SIGTERM)
        for lane in self._lanes:
            _await(lane.process)
        for lane in self._lanes:
            # Behind a soak that was cut off between two of its records there can be no other.
            if lane.plan is not None and not self._keeping:
                with suppress(EOFError, OSError):
                    while lane.plan is not None:
                        if isinstance(answer := lane.line.recv(), Done):
                            self._done(lane, answer.records)
            lane.line.close()
        self._lanes.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def _await(process: subprocess.Popen[bytes]) -> int:
    """The exit code of a lane that is ending; killed where it does not end."""
    try:
        return process.wait(END_S)
    except subprocess.TimeoutExpired:
        process.kill()
        return process.wait()
