"""`recoverybench doctor`: what works on this machine, and what is missing."""

from __future__ import annotations

import dataclasses

import click

from recoverybench.cli import VERBS
from recoverybench.cli._options import echo_json, format_option
from recoverybench.errors import EXIT_OK, EXIT_WRONG

COLOURS = {"ok": "green", "warning": "yellow", "missing": "red"}


@click.command("doctor", short_help=VERBS["doctor"])
@format_option
def command(output: str) -> int:
    """Say what works on this machine, what is missing, and what to do about it.

    Takes a few seconds: it starts a real job of two processes. Exit code 1 if something
    is missing without which nothing can be measured.
    """
    from recoverybench import doctor

    checks = []
    for check in doctor.examine():
        checks.append(check)
        if output == "text":
            mark = click.style(f"{check.status:<8}", fg=COLOURS[check.status])
            click.echo(f"{mark} {check.name:<18} {check.found}")
            if check.advice:
                click.echo(f"{'':27} -> {check.advice}")
    if output == "json":
        echo_json([dataclasses.asdict(check) for check in checks])
    return EXIT_WRONG if any(c.needed and c.status == "missing" for c in checks) else EXIT_OK
