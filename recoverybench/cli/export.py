"""`recoverybench export`: the trials of runs as one table, or for TensorBoard."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from recoverybench.cli import VERBS
from recoverybench.cli._options import format_of, run_path

TABLES = ("csv", "json", "parquet")
BOARD = "tensorboard"
NEEDS = {
    "parquet": "a file, which parquet is written to",
    BOARD: "a new directory, which tensorboard is written to",
}
"""Formats that cannot go to stdout, and what they are written to."""


@click.command("export", short_help=VERBS["export"])
@click.argument("runs", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="RUN...")
@click.option(
    "--format",
    "output",
    type=click.Choice([*TABLES, BOARD]),
    help="By default what the name of PATH ends in; csv where it has no ending. parquet needs "
    "the package pyarrow: recoverybench[parquet]; tensorboard needs recoverybench[tensorboard].",
)
@click.option(
    "-o",
    "--out",
    type=click.Path(path_type=Path),
    metavar="PATH",
    help="The file to write, or the directory for tensorboard; it must not exist. By default the "
    "table goes to stdout.",
)
def command(runs: tuple[Path, ...], output: str | None, out: Path | None) -> None:
    """Write every trial of each RUN, a directory under results/, as one table: a row a trial.

    The columns are those of run.frame() in Python, and are described in docs/schema.md. For
    TensorBoard it is a directory with scalars and HParams, described in docs/tensorboard.md; look
    at it with tensorboard --logdir PATH. No file is ever overwritten.
    """
    from recoverybench.errors import bad_value
    from recoverybench.results import export, store
    from recoverybench.results.distinct import check_distinct

    chosen = output or format_of(out, {name: name for name in TABLES}, "csv")
    if out is None and chosen in NEEDS:
        raise bad_value("--out", None, NEEDS[chosen])
    paths = [run_path(path) for path in runs]
    check_distinct(paths)
    loaded = [store.load(path) for path in paths]
    if out is not None and chosen == BOARD:
        from recoverybench import board

        click.echo(str(board.write(loaded, out)))
        return
    if out is not None:
        click.echo(str(export.export(loaded, chosen, out)))
        return
    for text in export.texts(loaded, chosen):
        sys.stdout.write(text)
    sys.stdout.flush()
