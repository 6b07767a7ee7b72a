"""`recoverybench list`: what a suite can name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from recoverybench.cli import VERBS
from recoverybench.cli._options import echo_json, format_option
from recoverybench.errors import bad_value

if TYPE_CHECKING:
    from recoverybench.plan.catalogue import Entry

KINDS = ("workloads", "faults", "strategies", "state-sources", "launchers", "suites", "patterns")

NEEDING = ("faults", "strategies", "launchers")
"""Kinds whose parts may need something of the machine."""


@click.command("list", short_help=VERBS["list"])
@click.argument("kind", type=click.Choice(KINDS), metavar="KIND")
@click.option(
    "--topology",
    "topologies",
    multiple=True,
    metavar="X",
    help="With workloads: show the bytes per device on it, as on 4x2:data=2,fsdp=4.",
)
@format_option
def command(kind: str, topologies: tuple[str, ...], output: str) -> None:
    """List what a suite or an option of `run` can name.

    KIND is workloads, faults, strategies, state-sources, launchers, suites, or patterns, which
    read what a command prints.

    Faults, strategies and launchers say what they need of the machine, and whether this one has
    it.

    Workloads come with the sizes of their presets: parameters, bytes of the state and of a
    checkpoint (without compression), rows of a batch. They are found out from shapes alone,
    which takes some seconds for the first time, and kept in the cache.

    Parts that an installed package adds through an entry point are listed with it.
    """
    from recoverybench.plan import catalogue

    if topologies and kind != "workloads":
        raise bad_value("--topology", topologies[0], "list workloads, which it is for")
    entries = catalogue.entries(kind) if kind != "patterns" else _patterns()
    found = [
        {"name": e.name, "summary": e.summary, "source": e.source, **_needs(kind, e.name)}
        for e in entries
    ]
    lines = {e.name: _needs_words(part) for e, part in zip(entries, found, strict=True)}
    if kind == "workloads":
        from recoverybench.cli import _workloads

        read = _workloads.read_topologies(topologies)
        families = _workloads.described([e.name for e in entries], read)
        found = [{**part, **families[part["name"]]} for part in found] + _workloads.commands()
        lines = {part["name"]: _workloads.table(part, read) for part in found}
    if output == "json":
        echo_json(found)
        return
    width = max((len(part["name"]) for part in found), default=0)
    for part in found:
        click.echo(f"{part['name']:<{width}}  {part['summary']}".rstrip())
        for line in lines[part["name"]]:
            click.echo(f"{'':<{width}}{line}" if part.get("needs") else line)


def _patterns() -> list[Entry]:
    """The library of patterns; a command's file takes one with ``use``."""
    from recoverybench.external.lines import described, library
    from recoverybench.plan.catalogue import Entry

    files = library()
    return [Entry(name, text, str(files[name]), files[name], None) for name, text in described()]


def _needs_words(part: dict[str, Any]) -> list[str]:
    """The line below a part that needs something of the machine."""
    if not part.get("needs"):
        return []
    has = part["missing"] is None
    state = "this machine has it" if has else f"missing here: {part['missing']}"
    return [f"  needs {', '.join(part['needs'])}; {state}"]


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
