"""`recoverybench report`: runs as one HTML file."""

from __future__ import annotations

import itertools
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from recoverybench.cli import VERBS
from recoverybench.cli._options import echo_json, format_option, run_path
from recoverybench.errors import UsageError
from recoverybench.new_file import check_new, new_file

if TYPE_CHECKING:
    from recoverybench.results.store import Run

REPORTS = Path("reports")
"""Where reports go that are given no name."""


@click.command("report", short_help=VERBS["report"])
@click.argument("runs", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="RUN...")
@click.option(
    "-o",
    "--out",
    type=click.Path(path_type=Path),
    metavar="FILE.html",
    help="The file to write; it must not exist. By default the first free one of "
    "reports/RUN-ID.html, reports/RUN-ID-2.html, …",
)
@format_option
def command(runs: tuple[Path, ...], out: Path | None, output: str) -> None:
    """Write the report of each RUN, a directory under results/, into one HTML file.

    The file needs no network and no other file. Its path is the last line printed. No file
    is ever overwritten.
    """
    from recoverybench.results import store as results
    from recoverybench.results.distinct import check_distinct

    paths = [run_path(path) for path in runs]
    check_distinct(paths)
    loaded = [results.load(path) for path in paths]
    path = write_new(loaded, out)
    if output == "json":
        echo_json({"report": str(path), "runs": [run.info.run_id for run in loaded]})
    else:
        click.echo(str(path))


def write_new(runs: Sequence[Run], out: Path | None, option: str = "--out") -> Path:
    """Write the report of these runs into a file that did not exist.

    Args:
        runs: at least one.
        out: the file; None takes the first free one of reports/RUN-ID.html,
            reports/RUN-ID-2.html, …
        option: what named `out`, for the message.

    Returns:
        The file's path.

    Raises:
        UsageError: `out` exists, or cannot be written.
    """
    from recoverybench.report import render

    path = out or _free(REPORTS, runs[0].info.run_id, option)
    check_new(path, option)
    return write_text_new(render(runs), path, option)


def write_text_new(text: str, out: Path, option: str = "--out") -> Path:
    """Write a text into a file that did not exist.

    Raises:
        UsageError: `out` exists, or cannot be written.
    """
    with new_file(out, option) as file:
        file.write(text.encode("utf-8", "backslashreplace"))
    return out


def _free(folder: Path, name: str, option: str) -> Path:
    """The first of NAME.html, NAME-2.html, … that is free; the folder is made."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"{folder}: cannot be made: {error.strerror}; use {option}") from None
    name = os.fsencode(name)[:200].decode("utf-8", "ignore")  # file systems end names at 255 bytes
    names = (f"{name}-{number}.html" for number in itertools.count(2))
    paths = (folder / one for one in itertools.chain([f"{name}.html"], names))
    return next(path for path in paths if not path.exists() and not path.is_symlink())
