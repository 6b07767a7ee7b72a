"""`recoverybench compare`: two runs or releases, side by side, with a verdict."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from recoverybench.cli import VERBS
from recoverybench.cli._options import echo_json, format_of
from recoverybench.errors import EXIT_OK, EXIT_WRONG, bad_value
from recoverybench.visible import clean

FORMATS = ("text", "markdown", "json", "html")
ENDINGS = {"txt": "text", "md": "markdown", "htm": "html", **{name: name for name in FORMATS}}
"""What the name of a file ends in -> the format that it asks for."""


@click.command("compare", short_help=VERBS["compare"])
@click.argument("base")
@click.argument("new")
@click.option(
    "--fail-on",
    type=click.Choice(["regression", "divergence", "any"]),
    help="Exit code 1 where there is one. divergence: training that is no longer the same; "
    "regression: also what is worse or recovers no more, and when nothing could be compared; any: "
    "also every trial that no longer recovers and every cell that was not compared.",
)
@click.option(
    "--margin",
    default="10%",
    show_default=True,
    metavar="P",
    help="Medians that differ by less count as the same.",
)
@click.option(
    "--alpha",
    default="0.05",
    show_default=True,
    metavar="P",
    help="Probability of a false alarm anywhere in the table.",
)
@click.option(
    "-o",
    "--out",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Write it there, and not to stdout; the file must not exist.",
)
@click.option(
    "--format",
    "output",
    type=click.Choice(FORMATS),
    help="text for people, markdown for a pull request, json for programs, html for a browser. By "
    "default what the name of FILE ends in (.md, .json, .html …); text where it has no ending.",
)
def command(
    base: str,
    new: str,
    fail_on: str | None,
    margin: str,
    alpha: str,
    out: Path | None,
    output: str | None,
) -> int:
    """Compare NEW with BASE: cell by cell, phase by phase, outcome by outcome.

    Each is a run (its directory, or its id under results/), a directory of runs, or a label that
    runs under results/ carry. NAME@ENVIRONMENT takes the trials of one environment, as in
    results/releases@jax==0.10.1; NAME@this those of the interpreter that ran recoverybench.
    """
    from recoverybench.cli.report import write_text_new
    from recoverybench.compare import compare
    from recoverybench.compare.words import cannot_fail
    from recoverybench.plan.trials import read_precision

    chosen = output or format_of(out, ENDINGS, "text")
    found = compare(
        base,
        new,
        margin=read_precision(margin, "--margin"),
        alpha=_probability(alpha),
    )
    if out is not None:
        click.echo(str(write_text_new(_text(found, chosen), out)))
    elif chosen == "json":
        echo_json(found.as_dict())
    elif chosen == "text":
        from rich.console import Console

        from recoverybench.compare.text import print_comparison

        print_comparison(found, Console())
    else:
        click.echo(_text(found, chosen), nl=False)
    complaints = found.found(fail_on) if fail_on else []
    said = [] if complaints or fail_on in (None, "divergence") else [cannot_fail(found)]
    for line in filter(None, (*complaints, *said)):
        click.echo(f"recoverybench: {clean(line)}", err=True)
    return EXIT_WRONG if complaints else EXIT_OK


def _text(found: Any, output: str) -> str:
    """The whole comparison in one of `FORMATS`."""
    if output == "json":
        import json

        return json.dumps(found.as_dict(), indent=2, allow_nan=False) + "\n"
    if output == "markdown":
        from recoverybench.compare.markdown import to_markdown

        return to_markdown(found)
    if output == "html":
        from recoverybench.compare.page import to_html

        return to_html(found)
    import io

    from rich.console import Console

    from recoverybench.compare.text import print_comparison

    into = io.StringIO()
    print_comparison(found, Console(file=into, width=120))
    return into.getvalue()


def _probability(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not 0 < number < 0.5:
        raise bad_value("--alpha", text, "a probability above 0 and below 0.5, such as 0.05")
    return number
