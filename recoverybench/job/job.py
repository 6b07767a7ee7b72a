"""The job under test, as the supervisor sees it: one loop over exits, messages and timers.

Faults and strategies are written as plain sequences over this object; whatever they wait
for goes through `Job.pump`, so there is one place where anything can happen, and nothing
is waited for by sleeping. Every instant goes into the supervisor's journal.
"""

from __future__ import annotations

import functools
import shutil
import time
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Unpack

from recoverybench.clocks import Moved
from recoverybench.errors import HarnessError
from recoverybench.gate.gate import Gate
from recoverybench.job.ending import Ending
from recoverybench.job.exits import evidence_of, fields_of
from recoverybench.job.loop import Loop
from recoverybench.job.member import Member
from recoverybench.job.noticed import Ambush, Noticed
from recoverybench.job.ports import Ports
from recoverybench.job.probes import PROBE_S, Probes
from recoverybench.job.reception import Reception
from recoverybench.job.roster import Roster
from recoverybench.job.services import Services
from recoverybench.job.watchdog import Limit, Watchdog
from recoverybench.job.watching import Watching
from recoverybench.journal_writer import Journal
from recoverybench.launchers.base import LOOPBACK, Announced, Hosts, How, Launcher
from recoverybench.network import Network
from recoverybench.protocol import GATE, JobSpec, Message, Place

REJOIN_S = 10.0
"""A survivor leaves the old generation within half a second; one that has not done so after
this time will never."""


class Job(Roster):
    """One job: its workers over all generations.

    Args:
        spec: what the job is. launcher: starts and ends its workers.
        directory: private directory for the socket and the board.
        logs: directory of the workers' logs. journal: the supervisor's.
        watchdog: no completed step for that long is evidence.
        deadline: CLOCK_MONOTONIC ns after which `pump` gives up.
        seed: of the trial, for whatever a fault leaves to chance.
    """

    def __init__(
        self,
        spec: JobSpec,
        launcher: Launcher,
        directory: Path,
        logs: Path,
        journal: Journal,
        watchdog: Limit,
        deadline: int,
        seed: int = 0,
    ) -> None:
        super().__init__()
        self.spec = spec
        self.seed = seed
        self.journal = journal
        self.world = spec.processes
        self.topology = spec.topology
        self.ambush: Ambush | None = None
        self.network: Network | None = None
        self.coordinator = ""
        self._loop = Loop(journal, deadline, self._watch)
        self.turn_while = self._loop.turn_while
        self.launcher = launcher
        self._logs = logs
        self._probes = Probes()
        self._services = Services(
            spec.coordinator == "external",
            self._address,
            lambda slot: self.spawn(slot, "warm", None),
            self.pump,
        )
        self._attempts: dict[int, int] = {}
        self._ports = Ports()
        self._reception = Reception(directory, launcher, self._loop, journal, self, spec)
        self._ending = Ending(launcher, self._loop)
        if isinstance(launcher, Announced):
            launcher.announce(self._reception.address, spec.processes)
        self._board = self._reception.steps
        self._watching: Watching | None = None
        if watchdog.set:
            self._watching = Watching(
                self,
                Watchdog(self._board, watchdog),
                self._loop,
                spec.steps,
                functools.partial(self.note_evidence, "watchdog", None),
            )
        self._gone = 0
        self.gate = self._open_gate(directory) if spec.gate else None

    def _open_gate(self, directory: Path) -> Gate:
        watched = [Path(self.spec.checkpoints), Path(self.spec.local)]
        gate = Gate(directory / GATE, watched, self.rank_of)
        self._loop.register(gate.wakes, gate.deliver)
        return gate

    def span(self, name: str) -> AbstractContextManager[None]:
        """A span of the supervisor's own."""
        return self.journal.span(name)

    # Starting, placing, ending

    def spawn(self, slot: int, how: How, rank: int | None) -> Member:
        """Start a process in that slot; it takes no place yet."""
        key = slot if rank is None else rank
        attempt = self._attempts.get(key, -1) + 1
        self._attempts[key] = attempt
        log = self._logs / f"{slot}.{attempt}.log"
        machine = self.network.machine(slot) if self.network is not None else None
        process = self.launcher.start(
            self._reception.address, slot, attempt, how, log, machine.path if machine else None
        )
        self.journal.log("spawn", worker=key, attempt=attempt, pid=process.pid, how=how)
        member = Member(slot, rank, attempt, process, machine)
        member.outbox.append(self.spec.as_message())
        self.members.append(member)
        self._reception.expect(member)
        self._loop.register(process.fd, lambda: self._exited(member))
        return member

    def spawn_standby(self, how: How) -> Member:
        """Start a process without a rank, in the next free slot."""
        slot = max([self.spec.most_workers - 1, *(m.slot for m in self._plain())]) + 1
        return self.spawn(slot, how, None)

    def lose_node(self, rank: int) -> None:
        """What a worker kept on its node is lost with it."""
        shutil.rmtree(Path(self.spec.local) / f"worker-{rank}", ignore_errors=True)
        if isinstance(self.launcher, Hosts):
            self.launcher.lost(rank)

    def begin(self) -> str:
        """Have the coordination service of this generation; returns its address."""
        with self.span("start the coordination service"):
            self.coordinator = self._services.begin(self.generation, self.world)
        return self.coordinator

    def begin_generation(self, world: int | None = None, topology: str | None = None) -> str:
        """Count one generation on; returns the address of its coordination service.

        Args:
            world: processes of it; None: all. topology: its own; None: that of the job.
        """
        self.generation += 1
        self.world = self.spec.processes if world is None else world
        self.topology = topology or self.spec.topology
        return self.begin()

    def place(
        self,
        member: Member,
        rank: int,
        coordinator: str,
        kind: str = "start",
        *,
        index: int | None = None,
        hold: str | None = None,
    ) -> None:
        """Give a member its rank in the current generation.

        Args:
            index: process index, where it is not the rank. hold: see `protocol.Place`.
        """
        if member.rank is None:  # a standby becomes the next incarnation of that rank
            member.attempt = self._attempts[rank] = self._attempts.get(rank, -1) + 1
        if self.ambush is not None and self.ambush.rank == rank and kind == "start":
            hold = hold or self.ambush.point
        place = Place(
            self.generation,
            rank,
            member.attempt,
            coordinator,
            self.world,
            rank if index is None else index,
            self.topology,
            hold,
        )
        member.take(place, kind)
        self._known = None
        if kind == "rejoin":
            self.after(REJOIN_S, lambda: self._expect(member, place.generation))
        if not member.alive:  # it ended on its way here, which nobody has seen of this generation
            self.note_evidence("process_exit", None, f"{member.name} ended before it had a place")

    def _expect(self, member: Member, generation: int) -> None:
        """Notice a survivor that was called back into a generation and has not come."""
        if member.alive and member.generation == generation > member.arrived:
            member.stuck = True
            self.note_evidence("watchdog", None, f"{member.name} does not come back")

    def _address(self) -> str:
        host = LOOPBACK
        slot = self._services.slot(self.generation) if self._services.external else 0
        if self.network is not None:
            host = self.network.machine(slot).address
        elif isinstance(self.launcher, Hosts):
            host = self.launcher.host(slot)
        return f"{host}:{self._ports.take()}"

    def end(self, members: Iterable[Member], why: str) -> list[Member]:
        """SIGKILL; returns those that were alive. `await_ended` waits for them."""
        return self._ending.end(members, why)

    def signal(self, member: Member, number: int) -> None:
        """Send any signal."""
        self.launcher.signal(member.process, number)

    def await_ended(self, members: Iterable[Member]) -> None:
        """Wait until these are gone.

        Raises:
            HarnessError: one cannot be killed.
        """
        self._ending.await_ended(members)

    # Noticing

    def note_evidence(
        self,
        mechanism: str,
        observer: int | None,
        detail: str,
        t: int | None = None,
        **clock: Unpack[Moved],
    ) -> None:
        """Write evidence down, of `t` (ns; None: now). Before the injection it spoils the trial.

        Args:
            clock: how far `t` may be wrong, where it is by another clock than the supervisor's.
        """
        self._note(mechanism, detail, self.generation)
        self.journal.log(
            "evidence", t, mechanism=mechanism, worker=observer, detail=detail, **clock
        )

    def unresponsive(self) -> list[Member]:
        """Members with a rank that do not answer a probe in time, or are gone."""
        asked = self.survivors()
        self._probes.ask(asked, self.network)
        answered = lambda: all(self._probes.answered(m) or not m.alive for m in asked)  # noqa: E731
        with self.span("probe the workers"):
            self.pump(answered, PROBE_S)
        silent = [m for m in asked if m.alive and not self._probes.answered(m)]
        for member in silent:
            self.note_evidence("health_probe", None, f"{member.name} does not answer")
        return silent

    # The loop

    def join_network(self, network: Network) -> None:
        """Have every process from now on live on a machine of that network, which ends with the
        job.
        """
        self.network = network
        self._loop.register(network.echo.socket, lambda: self._probes.hear(network))

    def begin_deadline(self, deadline_s: float) -> None:
        """From now on the trial's deadline counts."""
        self._loop.begin_deadline(deadline_s)

    def after(self, seconds: float, action: Callable[[], None]) -> None:
        """Do it that many seconds from now, on this loop; never once the job is closed."""
        self._loop.after(seconds, action)

    def pump(self, until: Callable[[], bool], timeout_s: float | None = None) -> bool:
        """Handle whatever happens until the condition holds; see `Loop.pump`."""
        return self._loop.pump(until, timeout_s)

    @property
    def overdue(self) -> bool:
        """The trial's deadline has come."""
        return self._loop.overdue

    @property
    def injected(self) -> int | None:
        """When the fault took effect, ns; None: not yet."""
        return self._loop.measuring_since

    @injected.setter
    def injected(self, t: int | None) -> None:
        self._loop.measuring_since = t

    def held_up(self) -> None:
        """The harness worked on files meanwhile, and the job stood still for that."""
        if self._watching is not None:
            self._watching.held_up()

    def _watch(self) -> tuple[Callable[[], None], float] | None:
        """What the loop is to do for the watchdog."""
        return None if self._watching is None else self._watching.next()

    def hear(self, member: Member, message: Message) -> None:
        """A member said that."""
        member.hear(message)
        if message["kind"] == "failed":
            self._note(message["mechanism"], message["detail"], message["generation"])
        elif message["kind"] == "agreed":
            self._note("agreement", message["detail"], message["generation"])
        elif message["kind"] == "hold":
            self._spring(member)
        elif message["kind"] == "arrived" and self._all(
            "arrived", lambda m: m.alive and m.arrived == self.generation
        ):
            self._gone = self.generation
            for arrived in self.ranks():
                arrived.tell({"kind": "go"})

    def lose(self, member: Member, why: str) -> None:
        """A member cannot be spoken to any more."""
        if member.alive and member.why is None:
            self._witness("connection_lost", f"{member.name} {why}", member.generation)

    def _note(self, mechanism: str, detail: str, generation: int) -> None:
        self.evidence.append(Noticed(mechanism, detail, generation))
        self._suspect.add(generation)

    def _witness(self, mechanism: str, detail: str, generation: int) -> None:
        """Evidence that is the supervisor's own."""
        self._note(mechanism, detail, generation)
        self.journal.log("evidence", mechanism=mechanism, worker=None, detail=detail)

    def _spring(self, member: Member) -> None:
        """The ambush, where this is what it waits for."""
        ambush = self.ambush
        held = member.held
        if ambush is None or held is None or (member.rank, held[0]) != (ambush.rank, ambush.point):
            return
        self.ambush = None
        ambush.strike(member)

    def _exited(self, member: Member) -> None:
        ended = self.launcher.reap(member.process)
        if ended is None:
            return
        t = time.monotonic_ns()
        # The pidfd is closed by now; the selector only needs its number to forget it.
        self._loop.unregister(member.process.fd)
        member.ended = ended
        self.journal.log("exit", t, **fields_of(member, ended))
        found = evidence_of(member, ended)
        if found is not None and (member.rank is not None or member in self._services.members):
            generation = self.generation if member.rank is None else member.generation
            self._witness(*found, generation)

    # The end

    def close(self) -> None:
        """End every process of the job and give everything back."""
        self._loop.forget_timers()
        try:
            # The coordination service goes last: its clients abort when it ends before them.
            for last in (False, True):
                self._ending.dismiss(
                    m
                    for m in self.members
                    if m.alive and (m.rank == 0 or m in self._services.members) == last
                )
            stuck = [m for m in self.members if m.alive]
            if stuck:
                raise HarnessError(f"pid {stuck[0].process.pid} does not end after SIGKILL")
        finally:
            self._reception.close()
            self._loop.close()
            self._ports.close()
            if self.network is not None:
                self.network.close()
            if self.gate is not None:
                self.gate.close()
