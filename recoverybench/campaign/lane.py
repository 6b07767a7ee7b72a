"""One of several trials that run side by side: a process of its own, with a bench of its own.

Started by `lanes` as ``python -m recoverybench.campaign.lane FD PARENT``, and told through the
socket FD what to run. Why a process, and no thread: a thread would wait for the interpreter's lock
while another one reads journals or collects garbage, which would be somebody's phase; a signal
reaches only the main thread; a launcher's cluster knows one client a process; and whatever ends a
process ends no neighbour's trial.
"""

from __future__ import annotations

import gc
import sys
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from recoverybench import parenthood
from recoverybench.campaign import interrupts
from recoverybench.campaign.bench import Bench
from recoverybench.campaign.measuring import Made, Measuring
from recoverybench.campaign.plans import ReferenceKey
from recoverybench.campaign.trial import Plan
from recoverybench.errors import EXIT_HARNESS, EXIT_INTERRUPTED, EXIT_OK, RecoverybenchError
from recoverybench.launchers import base
from recoverybench.plan import launchers
from recoverybench.records import TrialRecord


@dataclass(frozen=True, slots=True)
class Setup:
    """What a lane is told first.

    Attributes:
        launcher: ``NAME`` or ``NAME:ARGUMENT``. wanted, share: see its module's ``enter``.
        run: the run's directory. bench: arguments of `Bench` but the module, the secret of the
            control channel among them; so it goes through a socket and into no file.
    """

    launcher: str
    wanted: base.Wanted
    share: base.Share
    run: Path
    bench: dict[str, Any] = field(repr=False)


@dataclass(frozen=True, slots=True)
class Task:
    """A trial to run.

    Attributes:
        plan: of it. references: those that it wants and that are made.
        environments: that trials will soon need; launchers of others may end.
    """

    plan: Plan
    references: dict[ReferenceKey, Made]
    environments: frozenset[str | None]


@dataclass(frozen=True, slots=True)
class Opened:
    """The lane can run trials from now on."""


@dataclass(frozen=True, slots=True)
class Told:
    """Words for the progress display."""

    text: str


@dataclass(frozen=True, slots=True)
class HasMade:
    """A reference was made here, or cannot be made on a release that is being tried."""

    which: ReferenceKey
    made: Made


@dataclass(frozen=True, slots=True)
class Done:
    """A trial has ended; `lost` names the nodes that are gone since the lane was opened."""

    records: list[TrialRecord]
    lost: frozenset[str]


@dataclass(frozen=True, slots=True)
class Failed:
    """The lane cannot be opened, or a reference cannot be made; it ends."""

    why: str


Answer = Opened | Told | HasMade | Done | Failed


def main(descriptor: int, parent: int) -> int:
    """Run the trials that come through a socket until it is closed; returns the exit code."""
    parenthood.die_with(parent)
    with Connection(descriptor) as line:
        try:
            setup: Setup = line.recv()
            _serve(line, setup)
        except EOFError:
            return EXIT_OK
        except KeyboardInterrupt:
            return EXIT_INTERRUPTED
        except RecoverybenchError as error:
            with suppress(OSError):
                line.send(Failed(str(error)))
            return EXIT_HARNESS
    return EXIT_OK


def _serve(line: Connection, setup: Setup) -> None:
    """Raises EOFError when there is nothing more to do."""
    module, argument = launchers.load(setup.launcher)
    module.enter(argument, setup.wanted, setup.share)
    gc.disable()  # a pause of ours would be somebody's phase; collected between trials
    with interrupts.once(), Bench(module=module, **setup.bench) as bench:
        bench.directory.mkdir()
        bench.launcher_of(next(iter(bench.environments)))
        measuring = Measuring(
            setup.run,
            bench,
            lambda text: line.send(Told(text)),
            made=lambda which, made: line.send(HasMade(which, made)),
        )
        line.send(Opened())
        while True:
            task: Task = line.recv()
            bench.keep(task.environments)
            measuring.references |= task.references
            records = measuring.records(task.plan)
            line.send(Done(records, module.lost()))
            gc.collect()


if __name__ == "__main__":
    # What is sent is known by the module's own name, not by that of a program.
    from recoverybench.campaign import lane

    sys.exit(lane.main(int(sys.argv[1]), int(sys.argv[2])))
