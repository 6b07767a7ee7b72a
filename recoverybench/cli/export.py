"""`recoverybench export`: the trials of runs as one table."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import click

from recoverybench.cli import VERBS
from recoverybench.cli._options import run_path

FORMATS = ("csv", "json", "parquet")


@click.command("export", short_help=VERBS["export"])
@click.argument("runs", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="RUN...")
@click.option(
    "--format",
    "output",
    type=click.Choice(FORMATS),
    help="By default what the name of FILE ends in, or csv. parquet needs the package pyarrow: "
    "recoverybench[parquet].",
)
@click.option(
    "-o",
    "--out",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="The file to write; it must not exist. By default the table goes to stdout, which parquet "
    "cannot.",
)
def command(runs: tuple[Path, ...], output: str | None, out: Path | None) -> None:
    """Write every trial of each RUN, a directory under results/, as one table: a row a trial.

    The columns are those of run.frame() in Python, and are described in docs/schema.md. No file
    is ever overwritten.
    """
    from recoverybench.errors import bad_value
    from recoverybench.results import export, store

    ending = "" if out is None else out.suffix.removeprefix(".").lower()
    chosen = output or (ending if ending in FORMATS else "csv")
    if out is None and chosen == "parquet":
        raise bad_value("--out", None, "a file, which parquet is written to")
    loaded = [store.load(run_path(path)) for path in runs]
    if out is not None:
        click.echo(str(export.export(loaded, chosen, out)))
        return
    try:
        for text in export.texts(loaded, chosen):
            sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:  # whoever reads it has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
