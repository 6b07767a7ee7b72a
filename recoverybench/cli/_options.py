"""Options that several verbs share."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import click

from recoverybench.errors import bad_value

format_option: Callable[[Any], Any] = click.option(
    "--format",
    "output",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="text for people, json for programs.",
)


def echo_json(data: object) -> None:
    """Print plain data as JSON, the same bytes for the same data."""
    click.echo(json.dumps(data, indent=2, allow_nan=False))


def format_of(out: Path | None, endings: Mapping[str, str], default: str) -> str:
    """The format that the name of a file asks for.

    Args:
        out: the file; None: none was named. endings: ending without its dot -> format.
        default: where there is no file, or no ending.

    Raises:
        UsageError: the ending is none of them.
    """
    ending = "" if out is None else out.suffix.removeprefix(".")
    if ending and ending.lower() not in endings:
        known = ", ".join(f".{name}" for name in endings)
        raise bad_value("--out", str(out), f"a name that ends in {known}, or --format")
    return endings.get(ending.lower(), default)


def run_path(run: Path) -> Path:
    """The directory of a run: as given, or below results/ where only its id was given."""
    below = Path("results") / run
    return below if not run.exists() and below.is_dir() else run
