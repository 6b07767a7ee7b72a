"""Options that several verbs share."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

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


def run_path(run: Path) -> Path:
    """The directory of a run: as given, or below results/ where only its id was given."""
    below = Path("results") / run
    return below if not run.exists() and below.is_dir() else run
