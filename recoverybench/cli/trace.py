"""`recoverybench trace`: one trial as a trace for Perfetto."""

from __future__ import annotations

from pathlib import Path

import click

from recoverybench.cli import VERBS
from recoverybench.cli._options import run_path
from recoverybench.visible import clean


@click.command("trace", short_help=VERBS["trace"])
@click.argument("run", type=click.Path(path_type=Path))
@click.option("--trial", required=True, metavar="ID", help="The trial, as show names it.")
@click.option(
    "-o",
    "--out",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="The file to write; it must not exist. Compressed where its name ends in .gz. By default "
    "ID.trace.json in the current directory.",
)
def command(run: Path, trial: str, out: Path | None) -> None:
    """Write one trial of RUN, a directory under results/, as a trace in the Chrome JSON format.

    Open it at ui.perfetto.dev (it stays on your machine) or in chrome://tracing: processes with
    what they did, phases, the injection, and arrows from it to what noticed it. docs/traces.md
    says what is on it.
    """
    from recoverybench import trace
    from recoverybench.results import store
    from recoverybench.results.lookup import find_trial

    loaded = store.load(run_path(run))
    record = find_trial(loaded, trial)
    path = out if out is not None else Path(f"{record.trial}.trace.json")
    made = trace.trace_of(loaded, record)
    said = made["otherData"]["journals"]
    if said != "read":
        click.echo(
            f"journals of trial {record.trial}: {clean(said)}; the record alone is shown", err=True
        )
    click.echo(str(trace.write(made, path)))
