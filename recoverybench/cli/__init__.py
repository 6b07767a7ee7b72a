"""The command line: one file a verb, each a few lines over a public function.

A verb's module is imported when the verb is used, and not for ``--help``: the list below
holds what the help needs. A verb returns its exit code, or None for 0; whatever it
raises becomes one line on stderr here, and the exit code that `errors` gives it.
"""

from __future__ import annotations

import importlib
import os
import sys
import traceback
from collections.abc import Sequence
from typing import NoReturn

import click

from recoverybench import __version__
from recoverybench.cli import _streams
from recoverybench.errors import (
    EXIT_HARNESS,
    EXIT_INTERRUPTED,
    EXIT_OK,
    EXIT_USAGE,
    RecoverybenchError,
    unknown_name,
)
from recoverybench.visible import clean

VERBS = {
    "run": "Break training jobs, time their recovery, and report it.",
    "show": "Show a run as a table, or one of its trials as a timeline.",
    "report": "Write runs as one HTML file that works with no network.",
    "export": "Write the trials of runs as CSV, JSON or Parquet, or for TensorBoard.",
    "trace": "Write one trial as a trace for Perfetto.",
    "compare": "Compare two runs or releases, and say what got worse.",
    "publish": "Write a static site over all runs and releases.",
    "list": "List what a suite can name.",
    "doctor": "Say what works on this machine, and what is missing.",
}
"""Verb -> its line of help. Verb V is the command `V` of the module `recoverybench.cli.V`."""

DEBUG_VARIABLE = "RECOVERYBENCH_DEBUG"
"""Set to anything but nothing, it adds tracebacks to errors."""


class LazyGroup(click.Group):
    """A group whose commands are imported when they are used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Every verb, in the order in which one needs them."""
        return [*VERBS]  # in here `list` is the verb's module, once that is imported

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of a verb; None for a name that is none."""
        if cmd_name not in VERBS:
            return None
        module = importlib.import_module(f"recoverybench.cli.{cmd_name}")
        command: click.Command = module.command
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """As click's, with an error that names the nearest verb."""
        if args and not args[0].startswith("-") and args[0] not in VERBS:
            raise unknown_name("command", args[0], VERBS)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The list of verbs, from `VERBS` alone."""
        with formatter.section("Commands"):
            formatter.write_dl([*VERBS.items()])


@click.group(
    cls=LazyGroup,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(__version__, message="recoverybench %(version)s")
@click.pass_context
def group(ctx: click.Context) -> None:
    """Training failure recovery, measured.

    Runs real distributed JAX training, breaks it on purpose, times every phase of the
    recovery, and proves that the recovered training is still the same training.

    Exit codes: 0 done; 1 done, and something is wrong (with --strict or --fail-on); 2 the input
    is unusable; 3 the harness itself failed; 130 interrupted.
    """
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())


def main(argv: Sequence[str] | None = None) -> NoReturn:
    """Run the command line and exit the process; never raises anything but `SystemExit`."""
    _streams.prepare()
    code = call(argv)
    try:
        sys.stdout.flush()  # a full disk may show only now
    except RecoverybenchError as error:
        code = _fail(str(error), error.exit_code)
    sys.exit(code)


def call(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code.

    Args:
        argv: the arguments after the program's name; None takes the process's own.
    """
    try:
        code = group.main(args=argv, prog_name="recoverybench", standalone_mode=False)
    except click.exceptions.Exit as exit_:
        return exit_.exit_code
    except (click.Abort, KeyboardInterrupt):
        return _fail("interrupted", EXIT_INTERRUPTED)
    except click.ClickException as error:
        return _fail(error.format_message(), EXIT_USAGE)
    except RecoverybenchError as error:
        return _fail(str(error), error.exit_code)
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        return _fail(f"{where}{error.strerror or error}", EXIT_HARNESS)
    except Exception as error:
        return _fail(_where(error), EXIT_HARNESS)
    return code if isinstance(code, int) else EXIT_OK


def _fail(message: str, code: int) -> int:
    """Say one line on stderr, with the traceback before it where that was asked for."""
    if os.environ.get(DEBUG_VARIABLE):
        traceback.print_exc()
    click.echo(f"recoverybench: error: {clean(' '.join(message.split()))}", err=True)
    return code


def _where(error: Exception) -> str:
    """An unexpected exception on one line, with the place that raised it."""
    frame = traceback.extract_tb(error.__traceback__)[-1]
    text = "".join(traceback.format_exception_only(error))
    return (
        f"unexpected {text} (at {frame.filename}:{frame.lineno}; "
        f"set {DEBUG_VARIABLE}=1 for the traceback)"
    )
