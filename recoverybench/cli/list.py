"""`recoverybench list`: what a suite can name."""

from __future__ import annotations

from typing import Any

import click

from recoverybench.cli import VERBS
from recoverybench.cli._options import echo_json, format_option

KINDS = ("workloads", "faults", "strategies", "state-sources", "launchers", "suites")

NEEDING = ("faults", "strategies")
"""Kinds whose parts may need something of the machine."""


@click.command("list", short_help=VERBS["list"])
@click.argument("kind", type=click.Choice(KINDS), metavar="KIND")
@format_option
def command(kind: str, output: str) -> None:
    """List what a suite or an option of `run` can name.

    KIND is workloads, faults, strategies, state-sources, launchers or suites.

    Faults and strategies say what they need of the machine, and whether this one has it.

    Parts that an installed package adds through an entry point are listed with it.
    """
    from recoverybench.plan import catalogue

    entries = catalogue.entries(kind)
    found = [
        {"name": e.name, "summary": e.summary, "source": e.source, **_needs(kind, e.name)}
        for e in entries
    ]
    if output == "json":
        echo_json(found)
        return
    width = max((len(e.name) for e in entries), default=0)
    for part in found:
        click.echo(f"{part['name']:<{width}}  {part['summary']}".rstrip())
        if part.get("needs"):
            has = part["missing"] is None
            state = "this machine has it" if has else f"missing here: {part['missing']}"
            click.echo(f"{'':<{width}}  needs {', '.join(part['needs'])}; {state}")


def _needs(kind: str, name: str) -> dict[str, Any]:
    """What a part needs of the machine, and why this one lacks it (None: it does not).

    Each capability is tried for real, so only where a part names one.
    """
    if kind not in NEEDING:
        return {}
    from recoverybench.plan import support

    missing = support.missing_capability(kind, name)
    reason = None if missing is None else missing.partition(" needs ")[2]
    return {"needs": list(support.needs(kind, name)), "missing": reason}
