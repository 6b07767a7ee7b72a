"""`recoverybench publish`: all runs as a static site."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from recoverybench.cli import VERBS
from recoverybench.cli._options import echo_json, format_option

SITE = Path("reports") / "site"
"""Where a site goes that is given no place."""


@click.command("publish", short_help=VERBS["publish"])
@click.argument(
    "results", default="results", type=click.Path(path_type=Path), metavar="[RESULTS_DIR]"
)
@click.option(
    "-o",
    "--out",
    default=SITE,
    show_default=True,
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Where the site goes: a directory that is new, empty, or written by this command.",
)
@click.option(
    "--url",
    metavar="URL",
    help="Address that the site will have, such as https://example.org/recovery/. With it the "
    "links of the feed are absolute and its ids are the site's own.",
)
@format_option
def command(results: Path, out: Path, url: str | None, output: str) -> int:
    """Write a static site over all runs in RESULTS_DIR (by default results/).

    It has trends of each cell over releases with the changes marked, the report of each run, a
    comparison of neighbours, search and a feed, and works on any web server as it is. Publishing
    again rewrites only what changed. Files that this command did not write are never touched.
    The path of the first page is the last line printed.
    """
    from recoverybench.site import publish
    from recoverybench.visible import clean

    progress = _Progress()
    try:
        done = publish(results, out, url=url, say=progress.say)
    finally:
        progress.done()
    for one in (*done.skipped, *done.failed):
        line = clean(f"{one.name} is skipped: {one.reason}")
        click.echo(f"recoverybench: {clean(line)}", err=True)
    if output == "json":
        echo_json(
            {
                "index": str(done.index),
                "runs": done.runs,
                "releases": done.releases,
                "comparisons": done.comparisons,
                "regressions": done.regressions,
                "skipped": [{"directory": s.name, "reason": s.reason} for s in done.skipped],
                "failed": [{"comparison": s.name, "reason": s.reason} for s in done.failed],
                "written": list(done.files.written),
                "removed": list(done.files.removed),
                "unchanged": len(done.files.kept),
            }
        )
        return 0
    files = done.files
    click.echo(
        f"{done.runs} runs, {done.releases} releases, {done.comparisons} comparisons: "
        f"{len(files.written)} files written, {len(files.removed)} removed, "
        f"{len(files.kept)} as they were"
    )
    click.echo(str(done.index))
    return 0


class _Progress:
    """One line on stderr that is written over and at last removed; nothing without a terminal."""

    def __init__(self) -> None:
        self._said = 0

    def say(self, what: str) -> None:
        if sys.stderr.isatty():
            self._said += 1
            click.echo(f"\r\033[K{self._said}: {_short(what)} …", nl=False, err=True)

    def done(self) -> None:
        if self._said:
            click.echo("\r\033[K", nl=False, err=True)


def _short(text: str) -> str:
    from recoverybench.visible import clean

    shown = clean(text)
    return shown if len(shown) <= 60 else shown[:59] + "…"
