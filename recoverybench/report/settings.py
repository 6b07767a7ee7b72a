"""What was run and on what: run.json as groups of names and values for people."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from markupsafe import Markup

from recoverybench.blocks import design_lines, isolation_words, trials_text
from recoverybench.cells import FACTORS
from recoverybench.errors import UsageError
from recoverybench.labels import FACTOR_NAMES, NONE, constant_factors, seconds
from recoverybench.results.reading import read_object
from recoverybench.results.store import Run
from recoverybench.visible import clean
from recoverybench.workload_name import short_name

Pairs = list[tuple[str, str]]

_BYTES = 1024**3


def settings_of(run: Run) -> dict[str, Any]:
    """Groups of name and value for one run, its command, and all of run.json as text."""
    info = run.info
    groups: list[tuple[str, Pairs]] = [
        ("Run", _run(run)),
        ("Suite", _suite(run)),
        (
            "Versions",
            [(name, value or "not installed") for name, value in info.environment.items()],
        ),
        ("Environments", _environments(run)),
        ("Machine", [(_words(k), _value(k, v)) for k, v in flat(info.machine).items()]),
        ("Commands", _commands(run)),
    ]
    return {
        "id": info.run_id,
        "groups": [{"name": name, "rows": rows} for name, rows in groups if rows],
        "command": shlex.join(info.command),
        "raw": _lines(json.dumps(info.as_dict(), indent=2, ensure_ascii=False, default=str)),
    }


_VARIES: Final = frozenset(
    ("Run", name) for name in ("id", "label", "started", "took", "status", "trials")
)
"""What differs from run to run by itself, and explains nothing."""


@dataclass(frozen=True, slots=True)
class Difference:
    """A setting in which runs differ.

    Attributes:
        group, name: as the tables of settings name it.
        values: of each run, in their order; a dash where a run does not say.
    """

    group: str
    name: str
    values: tuple[str, ...]


def differences(settings: Sequence[dict[str, Any]]) -> list[Difference]:
    """In what these runs differ, in the order of their settings; of one run nothing.

    Args:
        settings: of each run, from `settings_of`.
    """
    said: dict[tuple[str, str], list[str]] = {}
    for position, run in enumerate(settings):
        for group in run["groups"]:
            for name, value in group["rows"]:
                values = said.setdefault((group["name"], name), [NONE] * len(settings))
                before = values[position]  # some names have several values
                values[position] = value if before == NONE else f"{before}; {value}"
    return [
        Difference(group, name, tuple(values))
        for (group, name), values in said.items()
        if len(set(values)) > 1 and (group, name) not in _VARIES
    ]


def _lines(text: str) -> Markup:
    """A text that keeps its line ends, and no other character that acts."""
    return Markup("\n").join(clean(line) for line in text.split("\n"))


def constants_of(runs: Sequence[Run]) -> Pairs:
    """The factors that are the same in every cell of these runs."""
    cells = [trial.cell for run in runs for trial in run.trials]
    return [(FACTOR_NAMES[f], value) for f, value in constant_factors(cells).items()]


def machine_words(run: Run) -> str:
    """The machine in a few words: cores, memory, system; what is not known is left out."""
    machine = run.info.machine
    words = []
    if kind := machine.get("device_kind"):
        words.append(str(kind))
    if cores := machine.get("cores_usable"):
        words.append(f"{cores} cores")
    memory = machine.get("memory_total_bytes")
    if isinstance(memory, int):
        words.append(f"{memory / _BYTES:.0f} GiB of memory")
    if system := machine.get("system"):
        words.append(str(system))
    return ", ".join(words)


def flat(data: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested tables as one level, keys joined by a blank."""
    out: dict[str, Any] = {}
    for key, value in data.items():
        name = f"{prefix}{key}"
        out |= flat(value, f"{name} ") if isinstance(value, dict) else {name: value}
    return out


def _run(run: Run) -> Pairs:
    info = run.info
    git = info.git or {}
    commit = (
        f"{git.get('commit', NONE)}{', with local changes' if git.get('dirty') else ''}"
        if git
        else NONE
    )
    rows = [
        ("id", info.run_id),
        ("label", info.label or NONE),
        ("started", info.created),
        ("status", info.status),
        ("took", seconds(info.wall_s)),
        ("launcher", info.launcher),
        ("commit", commit),
        ("trials", str(len(run.trials))),
    ]
    if run.dropped:
        rows.append(("lines cut off and dropped", str(run.dropped)))
    return rows


def _suite(run: Run) -> Pairs:
    suite = run.info.suite
    return [
        ("name", suite.name),
        *_description(run),
        ("cells", str(len(suite.cells))),
        ("trials of each cell", trials_text(suite)),
        *(("design", said) for said in design_lines(run.info, run.trials)),
        ("steps of the job", str(suite.steps)),
        ("seed", str(suite.seed)),
        ("deadline", seconds(suite.deadline_s)),
        ("isolation", isolation_words(suite.isolation)),
        ("training text", suite.data or "the workload's own"),
    ]


def _environments(run: Run) -> Pairs:
    """Each environment that is not the supervisor's own: in what it differs from that one."""
    rows: Pairs = []
    for name, kept in run.info.environments.items():
        python, packages, moved = (kept.get(key) for key in ("python", "packages", "moved"))
        versions = packages if isinstance(packages, dict) else {}
        words = [f"Python {python}"]
        words += [f"{n} {versions[n]}" for n in run.info.environment if n in versions]
        if isinstance(moved, dict) and moved:
            words.append(f"beside what was asked for these differ: {', '.join(sorted(moved))}")
        rows.append((name, "; ".join(words)))
    return rows


def _commands(run: Run) -> Pairs:
    """What each command was started with, as the run keeps it; a damaged file is left out."""
    rows: Pairs = []
    for path in sorted((run.path / "commands").glob("*.json")):
        try:
            kept = read_object(path, "command", within=run.path)
            start, name = kept["start"], str(kept["name"])
            text = start if isinstance(start, str) else shlex.join(start)
            environment = [f"{key}={value}" for key, value in kept["environment"].items()]
            versions = [f"{key} {value}" for key, value in kept["versions"].items()]
        except (OSError, RuntimeError, UsageError, ValueError, KeyError, TypeError, AttributeError):
            continue
        rows.append((short_name(name), "; ".join([text, *environment, *versions])))
    return rows


def _description(run: Run) -> Pairs:
    """What the suite says of itself; where options replaced its factors it no longer does."""
    options = {f"--{f.removesuffix('_s').replace('_', '-')}" for f in FACTORS}
    options |= {"--env", "--env-python"}
    given = (word.partition("=")[0] for word in run.info.command)
    replaced = dict.fromkeys(word for word in given if word in options)
    if replaced:
        return [("replaced by options", ", ".join(replaced))]
    return [("description", run.info.suite.description or NONE)]


def _words(name: str) -> str:
    return name.removesuffix("_bytes").replace("_", " ")


def _value(name: str, value: Any) -> str:
    if value is None:
        return NONE
    if name.endswith("_bytes") and isinstance(value, int):
        return f"{value / _BYTES:.1f} GiB"
    return f"{value:.2f}" if isinstance(value, float) else str(value)
