"""What a launcher does. Strategies, faults and the timeline do not know which one it is."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol, runtime_checkable

How = Literal["cold", "warm"]
"""``cold``: a new interpreter with every import to do; ``warm``: the imports are done."""

Reach = Literal["host", "network"]
"""``host``: workers run on this machine, and see its Unix sockets and its memory; ``network``:
they may run elsewhere, and share nothing with the supervisor but a file system and a network."""

LOOPBACK = "127.0.0.1"
"""Where the control channel listens unless a launcher needs more."""


@dataclass(frozen=True, slots=True)
class Process:
    """One started worker process.

    Attributes:
        pid: process id. fd: becomes readable when the process has ended; the owner of this
            object reaps it through `Launcher.reap`.
        how: how it was started. log: where its output goes.
    """

    pid: int
    fd: int
    how: How
    log: Path


@dataclass(frozen=True, slots=True)
class Ended:
    """How a process ended: exit code, or the name of the signal that ended it.

    Attributes:
        seen: False: the launcher was told of it by a control plane, some time after it was.
    """

    code: int | None
    signal: str | None
    seen: bool = True


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a run will want of a launcher. Where its module has ``check(argument, wanted)``, that is
    called before anything is started or written, and raises `UsageError` for what cannot be had.

    Attributes:
        workers: the most that a job of the run has. platform: JAX platform name.
        nodes_lost: some fault takes a whole node away.
        directories: where the run writes and reads; they exist. files: what workers read.
        faults: of the run, as a suite spells them. shared: several jobs side by side, see `Room`.
        survivors: with some strategy workers outlive the failure of others.
        devices: of a worker, in any job.
    """

    workers: int
    platform: str
    nodes_lost: bool
    directories: tuple[Path, ...]
    files: tuple[Path, ...]
    faults: frozenset[str] = frozenset()
    shared: bool = False
    survivors: bool = False
    devices: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class Share:
    """What one of several jobs side by side may use.

    Attributes:
        nodes: their names; empty: every node, by what the others leave of it.
        lost: names of nodes that are known to be gone, whoever still takes them for alive.
    """

    nodes: tuple[str, ...] = ()
    lost: frozenset[str] = frozenset()


class Room(Protocol):
    """How many jobs a launcher runs side by side.

    A module with ``SIDE_BY_SIDE`` (see `plan.launchers`) makes one with ``room()``, once its check
    has been passed; that is all that the process which asks has to do with it. Each of the jobs is
    run by a process of its own, which calls ``enter(argument, wanted, share)`` in the place of the
    check, and asks ``lost()`` which nodes are gone that were not before.
    """

    def take(self) -> Share | None:
        """A share for one more job; None: there is no room for one. The last that is left has what
        there is, also where that is less than the others had.
        """

    def give_back(self, share: Share, lost: frozenset[str]) -> None:
        """A job needs its share no longer; the nodes `lost` are gone for all."""


class Launcher(Protocol):
    """Starts and ends workers. A module may make several, one after another or at the same time;
    where it has ``leave()``, that is called when it will be asked for no more.

    Attributes:
        python: the interpreter that they run on. environment: variables that they get.
        reach: where they may be.
        bind: address of this machine that the control channel listens on, and that the workers
            connect to; only looked at where `reach` is ``network``.
    """

    python: str
    environment: dict[str, str]
    reach: Reach
    bind: str

    def start(
        self,
        address: str,
        slot: int,
        attempt: int,
        how: How,
        log: Path,
        network: str | None = None,
    ) -> Process:
        """Start a worker that will connect to the control channel at `address`.

        Args:
            address: a path, or ``tcp://HOST:PORT/JOB`` where `reach` is ``network``; the worker's
                first argument as it is.
            network: file of the network namespace that it is to live in; None: the launcher's.

        Raises:
            HarnessError: it could not be started.
        """

    def signal(self, process: Process, number: int) -> None:
        """Send a signal; a process that has ended is no error."""

    def reap(self, process: Process) -> Ended | None:
        """How it ended, or None while it runs. After an answer `process.fd` is closed."""

    def close(self) -> None:
        """End everything that this launcher still holds."""


@runtime_checkable
class Hosts(Protocol):
    """A launcher that decides on which host a worker is to be."""

    def host(self, slot: int) -> str:
        """Address under which the other workers reach the one in that slot, or the next one that
        is started there.
        """

    def lost(self, slot: int) -> None:
        """What the worker in that slot had on its host is lost: the next one may be elsewhere."""


class Nodes(Protocol):
    """What a launcher with the capability ``nodes`` can do besides."""

    def beside(self, process: Process) -> list[int]:
        """Slots of all workers on the node of this one, itself among them."""

    def lose_node(self, process: Process) -> str:
        """End a worker's node at once, with all that runs on it; returns the node's name.

        Raises:
            HarnessError: it cannot be done.
        """


@runtime_checkable
class Announced(Protocol):
    """A launcher that makes something for a whole job, and so hears of it before its first worker.

    Attributes:
        exit_s: how long ended workers may take to be seen as gone, seconds.
    """

    exit_s: float

    def announce(self, address: str, workers: int) -> None:
        """A job of that many workers will ask for processes that connect to `address`."""


@runtime_checkable
class Informed(Protocol):
    """A launcher that shows to people who look at its workers what is measured with them."""

    def measures(self, what: str) -> None:
        """The next job is that, in one line."""
