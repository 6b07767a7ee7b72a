"""`recoverybench show`: a run in the terminal."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from recoverybench.cli import VERBS
from recoverybench.cli._options import echo_json, format_option, run_path

if TYPE_CHECKING:
    from recoverybench.results.store import Run


@click.command("show", short_help=VERBS["show"])
@click.argument("run", type=click.Path(path_type=Path))
@click.option("--trial", metavar="ID", help="Show this trial as a timeline, a lane a worker.")
@format_option
def command(run: Path, trial: str | None, output: str) -> None:
    """Show RUN, a directory under results/, as a table: a line a cell.

    With --trial, show one trial: its phases as bars, and what each worker was doing.
    """
    from recoverybench.results import store as results
    from recoverybench.results.lookup import find_trial

    loaded = results.load(run_path(run))
    record = None if trial is None else find_trial(loaded, trial)
    if output == "json":
        echo_json(_plain(loaded) if record is None else record.as_dict())
        return
    from rich.console import Console

    from recoverybench import terminal

    if record is None:
        terminal.run_table(loaded, Console())
    else:
        terminal.trial_timeline(record, Console(), run_path=loaded.path)


def _plain(run: Run) -> dict[str, Any]:
    """A run as plain JSON data: what run.json holds, and every trial's record."""
    plain = run.info.as_dict() | {"dropped_lines": run.dropped}
    plain["trials"] = [record.as_dict() for record in run.trials]
    return plain | {"profiled": [record.as_dict() for record in run.profiled]}
