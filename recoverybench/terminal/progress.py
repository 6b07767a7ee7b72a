"""Progress of a run on stderr: cell, trial, phase, time elapsed and left.

Rich's own thread redraws it a few times a second, from a few strings that the campaign
sets. Where stderr is no terminal (a log of continuous integration) there is a line a trial.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from types import TracebackType
from typing import Self

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from recoverybench.labels import outcome_name, seconds, short_digests
from recoverybench.records import TrialRecord
from recoverybench.terminal.text import plain

_REFRESH_HZ = 4.0


class Progress:
    """A live display of a run on a terminal; elsewhere plain lines, each whole when it is written.

    Use it as a context manager: whatever happens inside, the terminal is as it was after it.

    Args:
        total_trials: trials of the run, those already done (a resumed run) left out.
        quiet: show nothing.
        at_most: the run may be done with fewer trials, and nobody knows when.
        budget_s: seconds after which no trial is begun; None: no limit.
        console: where to; by default stderr.
        clock: seconds, monotonic.
    """

    def __init__(
        self,
        total_trials: int,
        quiet: bool = False,
        *,
        at_most: bool = False,
        budget_s: float | None = None,
        console: Console | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._console = console or Console(stderr=True)
        self._quiet = quiet
        self._lively = self._console.is_terminal
        self._total = total_trials
        self._most = "at most " if at_most else ""
        self._budget_s = budget_s
        self._clock = clock
        self._started = clock()
        self._finished: dict[str, float] = {}
        self._recovered = 0
        self._trial = ""
        self._phase = ""
        self._spinner = Spinner("dots")
        self._live: Live | None = None

    def __enter__(self) -> Self:
        self._started = self._clock()
        if self._lively and not self._quiet:
            self._live = Live(
                get_renderable=self._render,
                console=self._console,
                refresh_per_second=_REFRESH_HZ,
                transient=True,
                redirect_stdout=False,
                redirect_stderr=False,
            )
            self._live.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._live is not None:
            live, self._live = self._live, None
            live.stop()

    def trial(self, cell_label: str, rep: int, index: int) -> None:
        """A trial begins: its cell, its repetition (from 0) and its place in the run (from 0)."""
        self._trial = (
            f"trial {index + 1} of {self._most}{self._total}: {cell_label}, repetition {rep + 1}"
        )
        self._phase = "starting"

    def phase(self, name: str) -> None:
        """What the trial is doing now."""
        self._phase = name

    def trial_done(self, record: TrialRecord) -> None:
        """A trial has ended: one line about it stays, above the display.

        The records of a soak are one trial of the run.
        """
        self._finished[record.trial.partition(".")[0]] = self._clock()
        self._recovered += record.outcome == "recovered"
        self._phase = ""
        good = record.outcome == "recovered"
        line = plain(f"{record.trial}  {record.cell.strategy} · {record.cell.fault}  ")
        line.append(outcome_name(record.outcome), "green" if good else "bold red")
        if record.recovery_s is not None:
            line.append(f"  {seconds(record.recovery_s)}")
        if record.error:
            line.append_text(plain(f"  {short_digests(record.error)}", "dim"))
        if not self._lively:
            elapsed = _times(self._clock() - self._started, self.left_s())
            line = plain(f"[{self._done()}, {elapsed}]  ").append_text(line)
        self._say(line, cut=True)

    def note(self, text: str) -> None:
        """One line for people that stays above the display."""
        self._say(plain(text))

    def _say(self, line: Text, *, cut: bool = False) -> None:
        """A line that stays; a terminal has a width, at which it is cut or wrapped, a log none."""
        if self._quiet:
            return
        if not self._lively:
            self._console.print(line, soft_wrap=True)
        elif cut:
            self._console.print(line, overflow="ellipsis", no_wrap=True)
        else:
            self._console.print(line)

    def _done(self) -> str:
        done = len(self._finished)
        return f"{done} trials" if self._most else f"{done}/{self._total}"

    def left_s(self) -> float | None:
        """Estimate of the seconds left, from the trials that ended; None before the first.

        Where there is a budget, no more than that; None where only a precision ends the run.
        """
        done = len(self._finished)
        if self._budget_s is not None:
            return max(0.0, self._budget_s - (self._clock() - self._started))
        if not done or self._most:
            return None
        last = max(self._finished.values())
        each = (last - self._started) / done
        since = self._clock() - last
        return max(0.0, each * (self._total - done) - since)

    def _render(self) -> RenderableType:
        done = len(self._finished)
        head = Table.grid(padding=(0, 1))
        head.add_row(
            self._spinner,
            ProgressBar(total=max(1, self._total), completed=done, width=24),
            Text(self._done()),
            Text(f"{self._recovered} recovered", style="dim"),
            Text(_times(self._clock() - self._started, self.left_s()), style="dim"),
        )
        below = plain(self._trial)
        if self._phase:
            below.append_text(plain(f"  {self._phase}", "cyan"))
        below.no_wrap, below.overflow = True, "ellipsis"
        return Group(head, below)


def _times(elapsed: float, left: float | None) -> str:
    rest = "" if left is None else f", about {_clock_text(left)} left"
    return f"{_clock_text(elapsed)}{rest}"


def _clock_text(value: float) -> str:
    whole = int(value)
    hours, minutes = divmod(whole // 60, 60)
    return f"{hours}:{minutes:02d}:{whole % 60:02d}" if hours else f"{minutes}:{whole % 60:02d}"
