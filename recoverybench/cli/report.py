"""`recoverybench report`: runs as one HTML file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from recoverybench.cli import VERBS
from recoverybench.cli._options import echo_json, format_option, run_path
from recoverybench.errors import UsageError, bad_value

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

    loaded = [results.load(run_path(path)) for path in runs]
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
    from recoverybench.report import write_report

    if out is not None:
        path = _claim(out, option)
    else:
        path = _claim_free(REPORTS, runs[0].info.run_id, option)
    try:
        return write_report(runs, path)
    except BaseException:
        path.unlink(missing_ok=True)  # it is ours, and empty
        raise


def write_text_new(text: str, out: Path, option: str = "--out") -> Path:
    """Write a text into a file that did not exist.

    Raises:
        UsageError: `out` exists, or cannot be written.
    """
    from recoverybench.results.store import replace_file

    path = _claim(out, option)
    try:
        replace_file(path, text.encode("utf-8", "backslashreplace"))
    except BaseException:
        path.unlink(missing_ok=True)  # it is ours, and empty
        raise
    return path


def check_new(out: Path | None, option: str = "--out") -> None:
    """Raise the `UsageError` that `write_new` would, before anything is measured."""
    if out is not None:
        _claim(out, option).unlink()


def _claim(path: Path, option: str) -> Path:
    """Make an empty file that nobody else has made, and its folder.

    Raises:
        UsageError: that fails.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.open("x").close()
    except FileExistsError:
        raise bad_value(option, str(path), "a file that does not exist yet") from None
    except OSError as error:
        allowed = f"a file that can be written ({error.strerror})"
        raise bad_value(option, str(path), allowed) from None
    return path


def _claim_free(folder: Path, name: str, option: str) -> Path:
    """Make the first of NAME.html, NAME-2.html, … that is free, and the folder."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"{folder}: cannot be made: {error.strerror}; use {option}") from None
    number, name = 1, name[:200]  # file systems end names at 255 bytes
    while True:
        path = folder / (f"{name}.html" if number == 1 else f"{name}-{number}.html")
        if not path.exists() and not path.is_symlink():
            return _claim(path, option)
        number += 1
