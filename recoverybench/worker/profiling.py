"""A profiler around the restore and the first step of a generation, in a profiled trial.

One trace a generation, from the moment at which everybody has met to the loss of the first step
on the host: ``profile/<trial>/<worker>.<attempt>/plugins/profile/generation-<n>/HOST.xplane.pb``.
Workers on one host that shared a directory would overwrite each other's file. A trace is made in
a hidden directory beside that and takes its name only when it is whole, so that a killed worker
leaves nothing that looks like one.

What happens here never fails a generation: it goes into the journal, and training goes on. There
is one profiler in a process. While it is ours, a workload that starts one of its own is told in
the journal that it cannot, and its stop finds nothing to do.
"""

from __future__ import annotations

import functools
import shutil
import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, TypeVar

import jax
import jax._src.profiler as internal

from recoverybench.journal_writer import Journal
from recoverybench.protocol import PROFILE_PREFIX, Place

Made = TypeVar("Made")


class Profiler:
    """The profiler of one worker.

    Args:
        directory: of the trial's profiles; None: this is no profiled trial, and nothing is done.
        journal: hears what became of each trace.
    """

    def __init__(self, directory: Path | None, journal: Journal) -> None:
        self._directory = directory
        self._journal = journal
        self._place: Place | None = None
        self._part: Any = None
        self._foreign = 0
        self._start, self._stop = internal.start_trace, internal.stop_trace
        if directory is not None:
            # Before a workload is loaded, so that it gets these whatever way it imports them.
            for module in (internal, jax.profiler):
                module.start_trace = self._start_foreign  # type: ignore[attr-defined]
                module.stop_trace = self._stop_foreign  # type: ignore[attr-defined]

    @property
    def active(self) -> bool:
        """Whether a trace of ours is being made."""
        return self._place is not None

    def begin(self, place: Place) -> None:
        """Start a trace, for the restore comes next. The first generation restores nothing."""
        if self._directory is None or place.generation == 0:
            return
        t0 = time.monotonic_ns()
        # Whatever follows may be the last that this process does.
        self._journal.log("profile", state="begun")
        if self._tried(lambda: self._start(str(self._hidden(place)))):
            self._place = place
            self._journal.around = self.annotate
            self._journal.log("span", name="start the profiler", t0=t0)
            self.turn("restore")

    def turn(self, part: str | None) -> None:
        """From here on the trace is of that part; None: of none."""
        if self._part is not None:
            self._part.__exit__(None, None, None)
            self._part = None
        if self.active and part is not None:
            self._part = self.annotate(part)
            self._part.__enter__()

    def annotate(self, name: str) -> AbstractContextManager[Any]:
        """Something with a name in the trace."""
        return jax.profiler.TraceAnnotation(PROFILE_PREFIX + name)

    def named(self, name: str, function: Callable[[], Made]) -> Callable[[], Made]:
        """A function whose calls have a name in every trace; itself where there is none."""
        if self._directory is None:
            return function

        @functools.wraps(function)
        def call() -> Made:
            with self.annotate(name):
                return function()

        return call

    def end(self) -> None:
        """Stop the trace that is being made, if there is one, and keep it."""
        place, directory = self._place, self._directory
        if place is None or directory is None:
            return
        self.turn(None)
        self._place = None
        self._journal.around = None
        with self._journal.span("keep the profile"):
            if self._tried(self._stop) and self._tried(lambda: keep(directory, place)):
                self._journal.log("profile", state="kept")
            shutil.rmtree(self._hidden(place), ignore_errors=True)

    def _hidden(self, place: Place) -> Path:
        assert self._directory is not None
        return hidden(self._directory, place)

    def _tried(self, do: Callable[[], object]) -> bool:
        try:
            do()
        except Exception as error:  # a profile is not worth a trial
            lines = str(error).splitlines() or [""]
            problem = f"{type(error).__name__}: {lines[0][:200]}"
            self._journal.log("profile", state="failed", problem=problem)
            print(f"recoverybench: no profile: {problem}", file=sys.stderr, flush=True)
            return False
        return True

    # What a workload gets for `jax.profiler.start_trace` and `stop_trace`

    def _start_foreign(self, *arguments: Any, **options: Any) -> None:
        if not self.active:
            self._start(*arguments, **options)
            return
        self._foreign += 1
        problem = "the workload starts a trace of its own while this one is made: it gets none"
        self._journal.log("profile", state="warned", problem=problem)

    def _stop_foreign(self) -> None:
        if self._foreign == 0:
            self._stop()  # type: ignore[no-untyped-call]
        else:
            self._foreign -= 1


def of_worker(directory: Path, place: Place) -> Path:
    """Where a worker's traces lie in the directory of the trial."""
    return directory / f"{place.rank}.{place.attempt}"


def hidden(directory: Path, place: Place) -> Path:
    """Where a trace is made."""
    return of_worker(directory, place) / f".generation-{place.generation}"


def keep(directory: Path, place: Place) -> None:
    """Move a trace that is whole to where TensorBoard looks for it.

    Raises:
        FileNotFoundError: the profiler wrote none.
    """
    session = _session(hidden(directory, place))
    kept = of_worker(directory, place) / "plugins" / "profile" / f"generation-{place.generation}"
    kept.parent.mkdir(parents=True, exist_ok=True)
    session.rename(kept)


def _session(made: Path) -> Path:
    """The one session in a directory that the profiler wrote into."""
    for file in sorted(made.glob("plugins/profile/*/*.xplane.pb")):
        return file.parent
    raise FileNotFoundError("the profiler has written no trace")
