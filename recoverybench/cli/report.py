"""`recoverybench report`: runs as one HTML file."""

from __future__ import annotations

from pathlib import Path

import click

from recoverybench.cli import VERBS
from recoverybench.cli._options import echo_json, format_option


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
    from recoverybench import results
    from recoverybench.errors import bad_value
    from recoverybench.report import write_report

    loaded = [results.load(path) for path in runs]
    if out is None:
        out = free_path(Path("reports"), loaded[0].run_id)
    elif out.exists() or out.is_symlink():
        raise bad_value("--out", str(out), "a file that does not exist yet")
    elif not out.parent.is_dir():
        raise bad_value("--out", str(out), f"a file in a folder that exists; {out.parent} does not")
    write_report(loaded, out)
    if output == "json":
        echo_json({"report": str(out), "runs": [run.run_id for run in loaded]})
    else:
        click.echo(str(out))


def free_path(folder: Path, name: str) -> Path:
    """The first of NAME.html, NAME-2.html, … that nothing has taken; makes the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    path, number = folder / f"{name}.html", 1
    while path.exists() or path.is_symlink():
        number += 1
        path = folder / f"{name}-{number}.html"
    return path
