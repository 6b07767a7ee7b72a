"""`recoverybench run`: a suite, measured, shown and reported."""

from __future__ import annotations

import dataclasses
import os
import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from recoverybench.cli import VERBS
from recoverybench.cli._options import echo_json, format_option
from recoverybench.errors import EXIT_INTERRUPTED, EXIT_OK, EXIT_WRONG

if TYPE_CHECKING:
    from recoverybench.plan.suite import Overrides, Suite
    from recoverybench.results.store import Run

FACTORS = {
    "workload": "family:preset, as in transformer:tiny or mlp:small,hidden=64; or file.py:factory; "
    "or a command's file.toml",
    "topology": "workers x devices per worker, as in 3x1 or 2x2:data=2,fsdp=2",
    "strategy": "how the job comes back",
    "state-source": "where the state comes back from",
    "fault": "what is broken, as in kill or preempt:2s",
    "trigger": "when, as in step:25, time:2s, random, save, save:3:torn, restore",
    "interval": "steps between checkpoints",
    "victim": "the worker that is broken; by default the seed chooses, never worker 0",
    "heartbeat": "heartbeat timeout of the coordination service, as in 10s",
    "watchdog": "no completed step for that long is a failure; off: no watchdog",
    "coordinator": "where the coordination service lives: worker0 or external",
    "compile-cache": "executable, persistent or off",
    "watchdog-factor": "as --watchdog, in steps of the job's own pace, as in 20",
    "replica-check": "when workers compare their copies of the state: off or save",
    "agreement": "whether workers that can rejoin keep agreeing on who is left: off or on",
    "restore-topology": "topology that the job comes back on, as in 2x1; same: as it was",
    "checkpoint": "options of checkpoints, as in plain or zarr3,chunk=64MB",
    "environment": "what workers run on, as in 'jax==0.10.1'; this: what runs recoverybench",
    "page-cache": "whether the checkpoints are in memory at the failure: warm or cold",
}
"""Factor -> its help. Each option may be given several times and replaces the suite's list."""


def _factor_options(command: Callable[..., Any]) -> Callable[..., Any]:
    for name, text in reversed(FACTORS.items()):
        metavar = {
            "interval": "N",
            "victim": "N",
            "heartbeat": "T",
            "watchdog": "T",
            "watchdog-factor": "N",
        }.get(name, "X")
        field = name.replace("-", "_")
        option = "--env" if name == "environment" else f"--{name}"
        command = click.option(option, field, multiple=True, metavar=metavar, help=text)(command)
    return command


@click.command("run", short_help=VERBS["run"])
@click.argument("suite", required=False, metavar="[SUITE]")
@_factor_options
@click.option(
    "--env-python",
    multiple=True,
    metavar="PATH",
    help="An interpreter to run workers on that is there already; may be repeated.",
)
@click.option(
    "--command",
    metavar="TEXT",
    help="A training command that brings itself back, in the place of a workload.",
)
@click.option("--patterns", metavar="NAME", help="What --command prints, as in maxtext or plain.")
@click.option(
    "--trials", metavar="N", help="Trials of each cell; auto: until its median is known well."
)
@click.option(
    "--precision", metavar="P", help="How well: width of its interval, as in 10% of the median."
)
@click.option(
    "--budget",
    metavar="T",
    help="How long to go on, as in 10m; without --trials, as if they were auto.",
)
@click.option(
    "--profile",
    is_flag=True,
    default=None,
    help="One trial more of each cell, under a profiler, which counts in no statistic.",
)
@click.option(
    "--isolation",
    metavar="X",
    help="exclusive: one trial at a time; shared: side by side, as far as the cluster has room.",
)
@click.option("--steps", metavar="N", help="Length of the job, in steps.")
@click.option("--seed", metavar="N", help="Of parameters, data order and victims.")
@click.option("--deadline", metavar="T", help="From the injection on; then a trial is a timeout.")
@click.option("--data", metavar="FILE", help="A text to train on, in place of the one that ships.")
@click.option(
    "--launcher",
    metavar="NAME",
    help="How workers are started: local (so without it), ray, ray:pack, or kubernetes:FILE.toml.",
)
@click.option(
    "--ray-address",
    metavar="HOST:PORT",
    help="The cluster of --launcher ray; by default RAY_ADDRESS, or this machine's.",
)
@click.option(
    "--dry-run",
    is_flag=True,
    help="Write the manifests that --launcher kubernetes would send, and run nothing.",
)
@click.option(
    "-o",
    "manifests",
    type=click.Path(path_type=Path),
    metavar="FILE.yaml",
    help="Where --dry-run writes; it must not exist. By default to the terminal.",
)
@click.option("--label", metavar="TEXT", help="A name for this run, kept with it.")
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="The run's directory, new or empty. By default one under results/.",
)
@click.option("--resume", is_flag=True, help="Go on with the run in --out, as it was begun.")
@click.option(
    "--report",
    type=click.Path(path_type=Path),
    metavar="FILE.html",
    help="The report; it must not exist. By default reports/RUN-ID.html.",
)
@click.option("--force", is_flag=True, help="Begin also where a workload does not fit into memory.")
@click.option("--quiet", "-q", is_flag=True, help="No progress on stderr.")
@click.option("--strict", is_flag=True, help="Exit code 1 unless every trial recovered.")
@format_option
def command(suite: str | None, quiet: bool, strict: bool, output: str, **options: Any) -> int:
    """Run SUITE (a name or a TOML file; quick by default) and report what it measured.

    Each factor option replaces the suite's list of that factor and may be repeated. The run
    goes into a directory under results/, the report under reports/; the report's path is the
    last line printed. Ctrl-C once ends cleanly and keeps what was measured.
    """
    from recoverybench.errors import UsageError
    from recoverybench.new_file import check_new
    from recoverybench.plan.suite import DEFAULT_SUITE, Overrides, load_suite
    from recoverybench.results import store as results
    from recoverybench.terminal import Progress

    out, overrides = options["out"], _overrides(options)
    begun = results.load(out) if options["resume"] and out is not None else None
    if options["launcher"] is None:  # a run that goes on does so as it was begun
        options["launcher"] = "local" if begun is None else begun.info.launcher
    if options["ray_address"] is not None:
        if options["launcher"].partition(":")[0] != "ray":
            said = f"expected --launcher ray beside it (it is {options['launcher']})"
            raise UsageError(f"--ray-address = {options['ray_address']!r}: {said}")
        os.environ["RAY_ADDRESS"] = options["ray_address"]
    if begun is not None and out is not None and overrides.profile:
        results.check_profile(begun.info.suite, out, "--profile")
    # A run that was begun with profiles has them, whether it is said again or not.
    asked = dataclasses.replace(overrides, profile=None) if begun is not None else overrides
    if begun is not None and suite is None and asked == Overrides():
        resolved = begun.info.suite
    else:
        resolved = load_suite(suite or DEFAULT_SUITE, overrides, launcher=options["launcher"])
    if options["dry_run"]:
        return _preview(resolved, options["launcher"], options["manifests"])
    if options["manifests"] is not None:
        said = "expected --dry-run beside it (the report's name is --report)"
        raise UsageError(f"-o = {str(options['manifests'])!r}: {said}")
    if options["report"] is not None:
        check_new(options["report"], "--report")
    whole = results.whole_trials(begun.trials) if begun is not None else ()
    total = resolved.trials * len(resolved.cells) - len(whole)
    if resolved.profile:
        total += len(resolved.cells) - (len(begun.profiled) if begun is not None else 0)
    at_most = resolved.precision is not None or resolved.budget_s is not None
    spent_s = begun.info.wall_s if begun is not None else 0.0
    left_s = None if resolved.budget_s is None else resolved.budget_s - spent_s
    with Progress(total, quiet, at_most=at_most, budget_s=left_s) as progress:
        run, interrupted = _measure(resolved, options, progress)
    if run is None:
        raise KeyboardInterrupt
    return _tell(run, options["report"], output, interrupted=interrupted, strict=strict)


def _preview(suite: Suite, launcher: str, path: Path | None) -> int:
    """Write what would be sent to a cluster."""
    from recoverybench.campaign.launching import manifests
    from recoverybench.new_file import new_file

    text = manifests(launcher, suite)
    if path is None:
        click.echo(text, nl=False)
    else:
        with new_file(path, "-o") as file:
            file.write(text.encode())
        click.echo(str(path))
    return EXIT_OK


def _overrides(options: dict[str, Any]) -> Overrides:
    from recoverybench.plan.environments import PYTHON
    from recoverybench.plan.suite import Overrides

    factors = {name.replace("-", "_"): options[name.replace("-", "_")] for name in FACTORS}
    factors["environment"] += tuple(PYTHON + path for path in options["env_python"])
    factors |= _commands(options["command"], options["patterns"], factors)
    plain = {
        name: options[name]
        for name in (
            *("trials", "precision", "budget", "steps", "seed", "deadline", "data"),
            *("profile", "isolation"),
        )
    }
    return Overrides(**factors, **plain)


def _commands(
    start: str | None, patterns: str | None, factors: dict[str, tuple[str, ...]]
) -> dict[str, tuple[str, ...]]:
    """The workload of ``--command``; and the strategy, where there are nothing but commands."""
    from recoverybench.campaign import cache
    from recoverybench.errors import UsageError
    from recoverybench.external.adhoc import command_file
    from recoverybench.workload_name import is_command

    workloads = factors["workload"]
    if start is not None and workloads:
        said = "expected it or --command, not both"
        raise UsageError(f"--workload = {workloads[0]!r}: {said}")
    if start is not None:
        path = command_file(start, patterns, Path.cwd(), cache.root() / "commands")
        workloads = (str(path),)
    elif patterns is not None:
        raise UsageError(f"--patterns = {patterns!r}: expected --command beside it")
    found = {"workload": workloads}
    if workloads and all(map(is_command, workloads)) and not factors["strategy"]:
        found["strategy"] = ("own",)
    return found


def _measure(suite: Suite, options: dict[str, Any], progress: Any) -> tuple[Run | None, bool]:
    """The run, and whether it was cut short; no run where nothing had been measured."""
    from datetime import UTC, datetime

    from recoverybench.campaign import campaign
    from recoverybench.results import store as results

    out = options["out"]
    if out is None and not options["resume"]:
        base = Path("results")
        out = base / results.default_run_id(suite, datetime.now(UTC), base)
    try:
        run = campaign.run(
            suite,
            out=out,
            resume=options["resume"],
            label=options["label"],
            launcher=options["launcher"],
            listener=progress,
            command=["recoverybench", *sys.argv[1:]],
            force=options["force"],
        )
    except KeyboardInterrupt:
        if not (Path(out) / "run.json").exists():
            return None, True  # an environment was being made, or a workload tried
        kept = results.load(out)
        if not kept.trials:
            again = shlex.join(["--out", str(out), "--resume"])
            click.echo(f"Nothing was measured yet. To go on: recoverybench run {again}", err=True)
        return (kept if kept.trials else None), True
    return run, False


def _tell(run: Run, report: Path | None, output: str, *, interrupted: bool, strict: bool) -> int:
    """Show the table, write the report, and say where both are."""
    from rich.console import Console

    from recoverybench.cli.report import write_new
    from recoverybench.terminal import run_table

    path = write_new([run], report, "--report")
    if output == "json":
        outcomes = [record.outcome for record in run.trials]
        echo_json({"run": str(run.path), "report": str(path), "outcomes": outcomes})
    else:
        run_table(run, Console())
        click.echo(f"\nThe run: {run.path}")
        if interrupted:
            again = shlex.join(["--out", str(run.path), "--resume"])
            click.echo(f"Interrupted. To go on: recoverybench run {again}")
        click.echo("The report:")
        click.echo(str(path))
    if interrupted:
        return EXIT_INTERRUPTED
    wrong = strict and any(record.outcome != "recovered" for record in run.trials)
    return EXIT_WRONG if wrong else EXIT_OK
