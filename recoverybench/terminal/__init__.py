"""What is shown in a terminal: a run as a table, a trial as a timeline, and progress."""

from __future__ import annotations

from recoverybench.terminal.progress import Progress
from recoverybench.terminal.table import run_table
from recoverybench.terminal.timeline import trial_timeline

__all__ = ["Progress", "run_table", "trial_timeline"]
