"""The job of a command, as faults and the trial see it: processes, output, marks, one loop."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

from recoverybench.errors import HarnessError
from recoverybench.external import processes
from recoverybench.external.lines import Reader, Seen
from recoverybench.external.output import Output
from recoverybench.external.processes import Found
from recoverybench.external.rank import RankProcess
from recoverybench.external.receiver import Receiver, Told
from recoverybench.external.spec import Command
from recoverybench.external.start import Settings, adopt_orphans, start
from recoverybench.job.loop import Loop
from recoverybench.journal_writer import Journal

SCAN_S: Final = 0.05
"""How often new processes are looked for while some are expected."""

CALM_S: Final = 0.5
"""How often they are looked for while the job trains."""

EXIT_S: Final = 5.0
"""How long ended processes may take to be gone."""

_WHOLE_TREE: Final = (signal.SIGKILL, signal.SIGSTOP)
"""Signals that stand for the loss of a machine, and so reach what a rank has started, too."""


def _read_status(status: int) -> tuple[int | None, str | None]:
    """Exit code, or name of the signal, of a wait status."""
    if os.WIFSIGNALED(status):
        return None, signal.Signals(os.WTERMSIG(status)).name
    return os.WEXITSTATUS(status), None


@dataclass(slots=True)
class _Started:
    """What was started: the command, or the command of one rank."""

    pid: int
    fd: int
    rank: int | None
    output: Output
    code: int | None = None
    signal: str | None = None
    ended: bool = False


class CommandJob:
    """One job of a command.

    Args:
        command, settings: what is started. logs: directory of what it prints.
        journal: the supervisor's. seed: of the trial. last: the step after which it is done.

    Attributes:
        world: ranks. generation: always 0: what the command sets up anew it does not say.
        steps: who prints steps -> the last one seen; None: nobody says of which rank it is.
        first: when the first step was seen, CLOCK_MONOTONIC ns.
    """

    def __init__(
        self,
        command: Command,
        settings: Settings,
        logs: Path,
        journal: Journal,
        seed: int,
        last: int | None,
    ) -> None:
        self.command, self.settings, self.journal, self.seed = command, settings, journal, seed
        self.world, self.generation = settings.world, 0
        self.steps: dict[int | None, int] = {}
        self.first: int | None = None
        self.last = last
        self._logs = logs
        self._begun = time.monotonic_ns()
        self._loop = Loop(journal, self._begun + 10**18, self._watch)
        self._receiver = Receiver(settings.marks)
        self._loop.register(self._receiver.fd, self._hear_marks)
        self._started: list[_Started] = []
        self._ranks: dict[int, list[RankProcess]] = {}
        self._told: dict[int, int] = {}
        self._candidates: dict[int, Found] = {}
        self._others = set(processes.children(os.getpid()))
        self._next_scan = 0.0

    # Starting

    def start(self) -> None:
        """Start the command, or one for each rank.

        Raises:
            UsageError: there is no such program.
        """
        adopt_orphans()
        for rank in range(self.world) if self.command.each else (None,):
            name = "command.0.log" if rank is None else f"{rank}.0.log"
            reader = Reader(self.command.patterns)
            output = Output(
                self._logs / name,
                partial(self._hear_line, reader, rank),
                self._begun,
                terminal=self.command.terminal,
            )
            try:
                pid = start(self.command, self.settings, rank, output.writer)
            except BaseException:
                output.close()
                raise
            output.close_writer()
            one = _Started(pid, os.pidfd_open(pid), rank, output)
            self._started.append(one)
            self._loop.register(output.fd, partial(self._read, one))
            self._loop.register(one.fd, partial(self._command_ended, one))

    # What faults use

    def ranks(self) -> list[RankProcess]:
        """The last incarnation of every rank that was found, by rank."""
        return [self._ranks[rank][-1] for rank in sorted(self._ranks)]

    def signal(self, member: RankProcess, number: int) -> None:
        """Send a signal to a rank's process; one that stands for a lost machine also reaches
        what that process has started.
        """
        below = list(processes.descendants([member.pid]))[1:] if number in _WHOLE_TREE else []
        member.struck = signal.Signals(number).name
        with suppress(OSError):
            signal.pidfd_send_signal(member.fd, number)
        for pid in below:
            with suppress(OSError):
                os.kill(pid, number)

    @property
    def injected(self) -> int | None:
        """When the fault took effect, ns; None: not yet."""
        return self._loop.measuring_since

    @injected.setter
    def injected(self, t: int | None) -> None:
        self._loop.measuring_since = t

    @property
    def overdue(self) -> bool:
        """The trial's deadline has come."""
        return self._loop.overdue

    def span(self, name: str) -> AbstractContextManager[None]:
        """A span of the supervisor's own."""
        return self.journal.span(name)

    def after(self, seconds: float, action: Callable[[], None]) -> None:
        """Do it that many seconds from now, on this loop."""
        self._loop.after(seconds, action)

    def pump(self, until: Callable[[], bool], timeout_s: float | None = None) -> bool:
        """Handle whatever happens until the condition holds; see `Loop.pump`."""
        return self._loop.pump(until, timeout_s)

    def begin_deadline(self, deadline_s: float) -> None:
        """From now on the trial's deadline counts."""
        self._loop.begin_deadline(deadline_s)

    def suspended(self) -> bool:
        """Never: a command does not say that it saved and stopped."""
        return False

    def note_evidence(
        self, mechanism: str, observer: int | None, detail: str, t: int | None = None
    ) -> None:
        """Write evidence down."""
        self.journal.log("evidence", t, mechanism=mechanism, worker=observer, detail=detail)

    # What the trial asks

    def ended(self) -> bool:
        """Everything that was started has ended."""
        return bool(self._started) and all(one.ended for one in self._started)

    def failed(self) -> bool:
        """It has ended, and one of it not with code 0."""
        return self.ended() and any(one.code != 0 for one in self._started)

    def finished(self) -> bool:
        """It has ended, or the last step was seen of everybody who is needed."""
        if self.ended():
            return True
        if self.last is None or not self.steps:
            return False
        enough = any if self.command.back == "any" else all
        return enough(step >= self.last for step in self.steps.values())

    def found(self) -> set[int]:
        """The ranks of which a process is known."""
        return set(self._ranks) or {rank for rank in self._candidates if 0 <= rank < self.world}

    def settle(self) -> None:
        """From now on those that are known are the ranks, and others their replacements."""
        self._scan()
        for rank, process in sorted(self._candidates.items()):
            if 0 <= rank < self.world:
                self._adopt(rank, process)

    def reached(self, step: int, victim: int) -> bool:
        """That step was completed: by the victim, or by anybody where it does not say so."""
        if victim in self.steps:
            return self.steps[victim] >= step
        return max(self.steps.values(), default=-1) >= step

    def drain(self) -> None:
        """Take in everything that was printed and marked until now."""
        self._hear_marks()
        for one in self._started:
            one.output.read()

    def last_words(self) -> str:
        """The last lines that it printed, on one line."""
        lines = [line for one in self._started for line in one.output.tail]
        shown = " | ".join(lines[-5:]) or "(it printed nothing)"
        return f"{shown} (all of it: {self._logs})"

    def how_it_ended(self) -> str:
        """How the command ended, for people."""
        ends = (
            f"signal {one.signal}" if one.signal else f"exit code {one.code}"
            for one in self._started
            if one.ended
        )
        return ", ".join(dict.fromkeys(ends)) or "it runs"

    # The loop

    def _watch(self) -> tuple[Callable[[], None], float] | None:
        return (self._scan_in_time, SCAN_S) if self._started else None

    def _scan_in_time(self) -> None:
        if time.monotonic() >= self._next_scan:
            self._scan()

    def _scan(self) -> None:
        calm = self._ranks and self.injected is None
        self._next_scan = time.monotonic() + (CALM_S if calm else SCAN_S)
        found = list(self._tree())
        programs = {rank: lives[0].program for rank, lives in self._ranks.items()}
        self._candidates = processes.by_rank(found, self.command.ranks, self._told, programs)
        if self._ranks:
            for rank, process in sorted(self._candidates.items()):
                if rank in self._ranks:
                    self._adopt(rank, process)

    def _tree(self) -> Iterator[Found]:
        """Every process of the command; orphans that have ended are put to rest."""
        started = {one.pid for one in self._started}
        roots = [p for p in processes.children(os.getpid()) if p not in self._others]
        for pid in processes.descendants(roots):
            process = processes.look(pid, self.command.ranks)
            if process is None:
                continue
            if process.zombie and process.parent == os.getpid() and pid not in started:
                with suppress(OSError):
                    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG)
            else:
                yield process

    def _adopt(self, rank: int, process: Found) -> None:
        lives = self._ranks.setdefault(rank, [])
        if any((m.pid, m.start) == (process.pid, process.start) for m in lives):
            return
        try:
            fd = os.pidfd_open(process.pid)
        except OSError:
            return  # it has ended meanwhile
        member = RankProcess(rank, len(lives), process.pid, process.start, fd, process.name)
        lives.append(member)
        began = processes.started_ns(process)
        self.journal.log(
            "spawn", began, worker=rank, attempt=member.attempt, pid=process.pid, how="found"
        )
        self._loop.register(fd, partial(self._rank_ended, member))

    def _rank_ended(self, member: RankProcess) -> None:
        t = time.monotonic_ns()
        status = processes.how_it_ended(member.pid)
        self.drain()  # what it printed last is still of this incarnation
        self._loop.unregister(member.fd)
        os.close(member.fd)
        member.ended = t
        one = next((s for s in self._started if s.pid == member.pid), None)
        if one is not None:
            code, name = self._reap(one)
        elif status is not None:
            code, name = _read_status(status)
        else:  # it is no child of ours, and its parent was faster
            code, name = None, member.struck if member.why == "inject" else None
        self.journal.log(
            "exit",
            t,
            worker=member.rank,
            attempt=member.attempt,
            pid=member.pid,
            code=code,
            signal=name,
            ours=member.why is not None,
            reason=member.why or "own",
        )
        self._next_scan = 0.0

    def _command_ended(self, one: _Started) -> None:
        t = time.monotonic_ns()
        one.output.read()
        self._loop.unregister(one.fd)
        self._reap(one)
        self.journal.log("command_ended", t, worker=one.rank, code=one.code, signal=one.signal)

    def _reap(self, one: _Started) -> tuple[int | None, str | None]:
        """How something that was started ended."""
        if not one.ended:
            result = os.waitid(os.P_PIDFD, one.fd, os.WEXITED)
            one.ended = True
            if result is not None and result.si_code == os.CLD_EXITED:
                one.code = result.si_status
            elif result is not None:
                one.signal = signal.Signals(result.si_status).name
        return one.code, one.signal

    def _read(self, one: _Started) -> None:
        if not one.output.read():
            self._loop.unregister(one.output.fd)

    def _hear_line(self, reader: Reader, rank: int | None, line: str, t: int) -> None:
        for seen in reader.read(line):
            who = rank if seen.rank is None else seen.rank
            self._note(seen, t, who, self._attempt_of(who), source="output")

    def _hear_marks(self) -> None:
        for told in self._receiver.read():
            rank = told.seen.rank
            if rank is not None and self._told.get(told.pid) != rank:
                self._told[told.pid] = rank
                self._scan()
            member = self._member(told.pid)
            if member is None and self._ranks:
                self._scan()
                member = self._member(told.pid)
            who = rank if member is None else member.rank
            attempt = self._attempt_of(who) if member is None else member.attempt
            if told.seen.what != "rank":
                self._note(told.seen, told.t, who, attempt, source="mark", told=told)

    def _member(self, pid: int) -> RankProcess | None:
        lives = [m for own in self._ranks.values() for m in own if m.pid == pid]
        return lives[-1] if lives else None

    def _attempt_of(self, rank: int | None) -> int:
        """The incarnation that speaks now: one that has ended does so no more. Where nobody says
        of which rank it is: the one that all ranks have come to.
        """
        if rank is None or rank not in self._ranks:
            lives = list(self._ranks.values())
        else:
            lives = [self._ranks[rank]]
        return min((own[-1].attempt + (own[-1].ended is not None) for own in lives), default=0)

    def _note(
        self, seen: Seen, t: int, rank: int | None, attempt: int, *, source: str, **more: Any
    ) -> None:
        """Write down what a line or a mark says."""
        who = rank if rank is not None and 0 <= rank < self.world else None
        told: Told | None = more.get("told")
        extra: dict[str, Any] = {}
        if told is not None:
            extra = {"pid": told.pid, **({"name": told.name} if told.name else {})}
            extra |= {"dropped": told.dropped} if told.dropped else {}
        if seen.again:
            extra["again"] = True
        self.journal.log(
            "mark",
            t,
            worker=who,
            attempt=attempt,
            what=seen.what,
            step=seen.step,
            loss=seen.loss,
            source=source,
            **extra,
        )
        if seen.what == "step" and seen.step is not None:
            self.first = self.first or t
            self.steps[who] = seen.step

    # The end

    def close(self) -> None:
        """End every process of the command, however it was started, and give everything back.

        Raises:
            HarnessError: one does not end after SIGKILL.
        """
        self._loop.forget_timers()
        try:
            for lives in self._ranks.values():
                for member in lives:
                    member.why = member.why or "end"
            self._end_all()
        finally:
            for lives in self._ranks.values():
                for member in lives:
                    if member.alive:
                        os.close(member.fd)
            for one in self._started:
                one.output.close()
                os.close(one.fd)
            self._loop.close()
            self._receiver.close()

    def _end_all(self) -> None:
        """Again and again, until nobody is left: a loop of a shell goes on until it is gone."""
        end = time.monotonic() + EXIT_S
        while tree := [p.pid for p in self._tree() if not p.zombie] or self._unreaped():
            if time.monotonic() > end:
                raise HarnessError(f"pid {tree[0]} of the command does not end after SIGKILL")
            for pid in tree:
                with suppress(OSError):
                    os.kill(pid, signal.SIGKILL)
            self._loop.turn(0.01)
        self._loop.turn(0)

    def _unreaped(self) -> list[int]:
        return [one.pid for one in self._started if not one.ended]
