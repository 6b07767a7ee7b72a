"""`recoverybench list`: what a suite can name."""

from __future__ import annotations

import click

from recoverybench.cli import VERBS
from recoverybench.cli._options import echo_json, format_option

KINDS = ("workloads", "faults", "strategies", "state-sources", "launchers", "suites")


@click.command("list", short_help=VERBS["list"])
@click.argument("kind", type=click.Choice(KINDS), metavar="KIND")
@format_option
def command(kind: str, output: str) -> None:
    """List what a suite or an option of `run` can name.

    KIND is workloads, faults, strategies, state-sources, launchers or suites.

    Parts that an installed package adds through an entry point are listed with it.
    """
    from recoverybench.plan import catalogue

    entries = catalogue.entries(kind)
    if output == "json":
        echo_json([{"name": e.name, "summary": e.summary, "source": e.source} for e in entries])
        return
    width = max((len(e.name) for e in entries), default=0)
    for entry in entries:
        click.echo(f"{entry.name:<{width}}  {entry.summary}".rstrip())
