"""What a table of trials says of the run that each is of, the same in all of its rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from recoverybench.results.provenance import PACKAGES

if TYPE_CHECKING:
    from recoverybench.results.reading import Run

VERSIONS = ("python", *PACKAGES)


@dataclass(frozen=True, slots=True)
class RunColumn:
    """One column.

    Attributes:
        dtype: its type in pandas. of: its value for a run. meaning: for people.
    """

    dtype: str
    of: Callable[[Run], Any]
    meaning: str


def _machine(key: str, kind: type, meaning: str) -> RunColumn:
    """A property of the machine; one of another type than ours is left out."""

    def of(run: Run) -> Any:
        value = run.info.machine.get(key)
        return value if type(value) is kind else None

    return RunColumn("str" if kind is str else "Int64", of, meaning)


def _git(key: str, kind: type) -> Callable[[Run], Any]:
    def of(run: Run) -> Any:
        value = (run.info.git or {}).get(key)
        return value if type(value) is kind else None

    return of


RUN_COLUMNS: dict[str, RunColumn] = {
    "run": RunColumn(
        "str",
        lambda run: run.info.run_id,
        "`run_id`; of several runs of one name, the path that each was given by",
    ),
    "label": RunColumn("str", lambda run: run.info.label, "`label` of the run"),
    "created": RunColumn("str", lambda run: run.info.created, "`created` of the run"),
    "launcher": RunColumn("str", lambda run: run.info.launcher, "`launcher` of the run"),
    "git_commit": RunColumn("str", _git("commit", str), "commit of the program that measured"),
    "git_dirty": RunColumn("boolean", _git("dirty", bool), "its files differed from that commit"),
    "machine_platform": _machine("platform", str, "what the job's devices are: `cpu`, `gpu` …"),
    "machine_device_kind": _machine("device_kind", str, "kind of these devices, where it is known"),
    "machine_system": _machine("system", str, "operating system"),
    "machine_architecture": _machine("architecture", str, "such as `x86_64`"),
    "machine_cpu": _machine("cpu", str, "name of the processor"),
    "machine_cores": _machine("cores_usable", int, "cores that the run could use"),
    "machine_memory_bytes": _machine("memory_total_bytes", int, "memory of the machine"),
}
"""Columns whose value is that of the run."""

VERSION_COLUMNS = {name: f"version_{name.replace('-', '_')}" for name in VERSIONS}
"""Package, or ``python`` -> the column of its version in the environment that a trial ran on."""


def names_of(runs: Sequence[Run]) -> list[str]:
    """What to call each run: its id, or where several have that, its path."""
    ids = [run.info.run_id for run in runs]
    return [
        str(run.path) if ids.count(name) > 1 else name for run, name in zip(runs, ids, strict=True)
    ]


def versions_of(run: Run, environment: str | None) -> dict[str, str | None]:
    """Version of each of `VERSIONS` in an environment of a run, None where it is not there."""
    found: dict[str, Any] = dict(run.info.environment)
    if environment is not None:
        kept = run.info.environments.get(environment, {})
        packages = kept.get("packages")
        found = {"python": kept.get("python")}
        found |= packages if isinstance(packages, dict) else {}
    return {name: value if isinstance(value := found.get(name), str) else None for name in VERSIONS}
