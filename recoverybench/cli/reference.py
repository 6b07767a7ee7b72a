"""Writes docs/cli.md from the commands' own help: `python -m recoverybench.cli.reference FILE`.

A test compares the file with what this makes, so that the documentation cannot be old.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import click

from recoverybench.cli import VERBS, group

WIDTH = 96
"""Columns of the help as it stands in the file."""

HEAD = """\
# Command line

Made from the commands' own help by `make docs`; a test keeps the two the same.

Everything that prints for people also prints JSON with `--format json`. Results go to stdout,
progress and errors to stderr; an error is one line. `RECOVERYBENCH_DEBUG=1` adds tracebacks.

| exit code | meaning |
|---|---|
| 0 | done |
| 1 | done, and something is wrong: with `run --strict`, a trial that did not recover |
| 2 | the input cannot be used: the line says which key, what it holds, and what is allowed |
| 3 | the harness itself failed |
| 130 | interrupted; what was measured is kept |
"""


def markdown() -> str:
    """The whole page."""
    return HEAD + "".join(f"\n## {name}\n\n```\n{text}\n```\n" for name, text in _helps())


def _helps() -> Iterator[tuple[str, str]]:
    """Each command's full name and its help: the group first, then the verbs in their order."""
    settings = {**group.context_settings, "terminal_width": WIDTH}
    root = click.Context(group, info_name="recoverybench", **settings)
    yield "recoverybench", group.get_help(root)
    for verb in VERBS:
        command = group.get_command(root, verb)
        assert command is not None
        ctx = click.Context(command, info_name=verb, parent=root)
        yield f"recoverybench {verb}", command.get_help(ctx)


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(markdown(), encoding="utf-8")
