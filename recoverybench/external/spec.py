"""A workload of kind ``command``: a TOML file that says how to start a training command.

```toml
[workload]
kind = "command"
description = "what it trains"
start = "bash train.sh --steps {steps}"   # a line for the shell, or a list of arguments
cwd = "."                 # where it is started, relative to this file
terminal = true           # it prints into a terminal; false: into a pipe
each = false              # true: started once for each rank, with {rank}
files = ["train.py"]      # what it runs: a change makes a new fault-free reference
needs = ["torch"]         # packages that {python} must have
python = "${PEER_PYTHON}" # the interpreter that {python} stands for
warm_up = "180s"          # to the first step, and between two steps
verify = "losses"         # or "none"
loss_tolerance = 1e-5     # relative; without it losses are compared as they are printed
back = "all"              # back when all ranks that print steps have done one; or "any"

[environment]             # beside what recoverybench was started with
[ranks]                   # how a process says which rank it is
[patterns]                # what its output says
```

Everything is explained in docs/external.md.
"""

from __future__ import annotations

import functools
import hashlib
import os
import re
import sys
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from recoverybench.errors import UsageError, bad_value, shorten, unknown_name
from recoverybench.external.expressions import Expression, compiled
from recoverybench.external.lines import Patterns, read_patterns
from recoverybench.plan.catalogue import workloads_dir
from recoverybench.plan.units import parse_duration
from recoverybench.workload_name import COMMANDS

PREFIX: Final = COMMANDS
"""How the names of the commands that ship begin; the rest is a file in workloads/external/."""

PLACEHOLDERS: Final = (
    "rank",
    "world_size",
    "devices",
    "port",
    "steps",
    "interval",
    "seed",
    "directory",
    "python",
    "here",
)
"""What may stand in braces in a command and in its environment."""

RANK_VARIABLES: Final = (
    "RECOVERYBENCH_RANK",
    "RANK",
    "JAX_PROCESS_ID",
    "SLURM_PROCID",
    "OMPI_COMM_WORLD_RANK",
    "PMI_RANK",
)
"""Environment variables that are taken for a process's rank, unless the file names others."""

VERIFY: Final = ("losses", "none")
BACK: Final = ("all", "any")
WARM_UP: Final = "180s"

_BRACES = re.compile(r"(?<![$\\])\{([A-Za-z_][A-Za-z0-9_]*)\}")
_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")
_TABLES = ("workload", "environment", "ranks", "patterns")
_KEYS = (
    "kind",
    "description",
    "start",
    "cwd",
    "each",
    "terminal",
    "files",
    "needs",
    "python",
    "warm_up",
    "verify",
    "loss_tolerance",
    "back",
)


@dataclass(frozen=True, slots=True)
class Ranks:
    """How a process says which rank it is.

    Attributes:
        environment: variables whose value is the rank, the first that is there.
        arguments: expression over its command line whose group is the rank; None: not used.
        process: expression that the command line of a rank's process matches; None: any that is
            no shell.
    """

    environment: tuple[str, ...] = RANK_VARIABLES
    arguments: Expression | None = None
    process: Expression | None = None


@dataclass(frozen=True, slots=True)
class Command:
    """What the TOML file says, checked.

    Attributes:
        name: as a cell names it. path: the file. description: one line for people.
        start: what is started: one text for the shell, or arguments. cwd: where.
        each: it is started once for each rank.
        terminal: it prints into a terminal; else into a pipe.
        files: what it runs. needs: packages that `python` must have.
        python: path or name of the interpreter.
        warm_up_s: seconds until its first step, and between two of its steps.
        verify: ``losses`` | ``none``.
        tolerance: largest relative difference of two losses; None: compared as printed.
        back: ``all`` | ``any`` of the ranks that print steps must have done one.
        environment: beside the supervisor's own.
        ranks, patterns: how processes and output are read.
    """

    name: str
    path: Path
    description: str
    start: str | tuple[str, ...]
    cwd: Path
    each: bool
    terminal: bool
    files: tuple[Path, ...]
    needs: tuple[str, ...]
    python: str
    warm_up_s: float
    verify: str
    tolerance: float | None
    back: str
    environment: Mapping[str, str]
    ranks: Ranks
    patterns: Patterns

    def content(self) -> str:
        """SHA-256 of the file and of what it says that the command runs, in hex."""
        total = hashlib.sha256()
        for path in (self.path, *self.files):
            total.update(hashlib.sha256(path.read_bytes()).digest())
        return total.hexdigest()


def check_command(text: str, where: str) -> str:
    """Checks the text of a workload for which `is_command` holds.

    Returns:
        ``external/NAME``, or the absolute path of the user's file.

    Raises:
        UsageError: there is no such file, or something in it cannot be used.
    """
    path = locate(text, where)
    name = text if text.startswith(PREFIX) else str(path)
    load(name)
    return name


def locate(text: str, where: str = "workload") -> Path:
    """The file that the text of a workload names.

    Raises:
        UsageError: there is none.
    """
    if text.startswith(PREFIX):
        known = {PREFIX + path.stem: path for path in _shipped()}
        if text not in known:
            raise unknown_name(where, text, known)
        return known[text]
    path = Path(text)
    if not path.is_file():
        raise bad_value(where, text, "a TOML file that exists")
    return path.absolute()


def shipped() -> list[tuple[str, str]]:
    """Name and description of every command that ships."""
    return [(PREFIX + path.stem, load(PREFIX + path.stem).description) for path in _shipped()]


def _shipped() -> list[Path]:
    return sorted((workloads_dir() / "external").glob("*.toml"))


def load(workload: str) -> Command:
    """The command that a cell's workload names.

    Raises:
        UsageError: there is no such file, or something in it cannot be used.
    """
    path = locate(workload)
    return _load(workload, path, path.stat().st_mtime_ns, tuple(sorted(os.environ.items())))


@functools.lru_cache(maxsize=64)
def _load(name: str, path: Path, _changed: int, _environment: object) -> Command:
    shown = name
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except (OSError, ValueError) as error:
        raise UsageError(f"{shown}: not a TOML file: {' '.join(str(error).split())}") from None
    return parse(document, name, path)


def parse(document: Mapping[str, Any], name: str, path: Path) -> Command:
    """A command from the content of its file; a relative path in it is relative to `path`.

    Raises:
        UsageError: naming the key, what it holds and what is allowed.
    """
    _check_keys(document, _TABLES, f"{name}: ")
    tables = {key: _table(document, key, name) for key in _TABLES}
    table, at = tables["workload"], f"{name}: workload"
    _check_keys(table, _KEYS, f"{at}.")
    if table.get("kind") != "command":
        raise bad_value(f"{at}.kind", table.get("kind"), '"command"')
    each = _flag(table.get("each", False), f"{at}.each")
    start = _start(table.get("start"), f"{at}.start", each=each)
    environment = tables["environment"]
    for key, value in environment.items():
        if not isinstance(value, str):
            raise bad_value(f"{name}: environment.{key}", value, "text")
        _check_braces(value, f"{name}: environment.{key}", each=each)
    return Command(
        name=name,
        path=path,
        description=_text(table.get("description", ""), f"{at}.description"),
        start=start,
        cwd=_cwd(table.get("cwd", "."), path, f"{at}.cwd"),
        each=each,
        terminal=_flag(table.get("terminal", True), f"{at}.terminal"),
        files=_files(_texts(table.get("files", []), f"{at}.files"), path, f"{at}.files"),
        needs=_texts(table.get("needs", []), f"{at}.needs"),
        python=expanded(_text(table.get("python", ""), f"{at}.python")) or sys.executable,
        warm_up_s=parse_duration(table.get("warm_up", WARM_UP), f"{at}.warm_up"),
        verify=_one_of(table.get("verify", VERIFY[0]), VERIFY, f"{at}.verify"),
        tolerance=_tolerance(table.get("loss_tolerance"), f"{at}.loss_tolerance"),
        back=_one_of(table.get("back", BACK[0]), BACK, f"{at}.back"),
        environment=dict(environment),
        ranks=_ranks(tables["ranks"], f"{name}: ranks"),
        patterns=read_patterns(tables["patterns"], f"{name}: patterns"),
    )


def filled(text: str, values: Mapping[str, str]) -> str:
    """The text with what its braces stand for; ``${NAME}`` is left to the shell."""
    return _BRACES.sub(lambda found: values.get(found[1], found[0]), text)


def expanded(text: str) -> str:
    """The text with ``${NAME}`` and ``${NAME:-OTHER}`` replaced from the environment."""
    return _VARIABLE.sub(lambda found: os.environ.get(found[1]) or found[2] or "", text)


def _check_keys(table: Mapping[str, object], known: tuple[str, ...], prefix: str) -> None:
    for key, value in table.items():
        if key not in known:
            hint = str(unknown_name("", key, known)).split(": ", 1)[1]
            raise UsageError(f"{prefix}{key} = {shorten(value)}: unknown key: {hint}")


def _table(document: Mapping[str, Any], key: str, shown: str) -> dict[str, Any]:
    value = document.get(key, {})
    if not isinstance(value, dict):
        raise bad_value(f"{shown}: {key}", value, f"a table [{key}]")
    return value


def _start(value: object, where: str, *, each: bool) -> str | tuple[str, ...]:
    allowed = 'a command, such as "bash train.sh", or a list of its arguments'
    if isinstance(value, str) and value.strip():
        _check_braces(value, where, each=each)
        return value
    if isinstance(value, list) and value and all(isinstance(v, str) and v for v in value):
        for part in value:
            _check_braces(part, where, each=each)
        return tuple(value)
    raise bad_value(where, value, allowed)


def _check_braces(text: str, where: str, *, each: bool) -> None:
    for found in _BRACES.finditer(text):
        if found[1] not in PLACEHOLDERS:
            raise unknown_name(f"{where}: {{…}}", found[1], PLACEHOLDERS)
        if found[1] == "rank" and not each:
            raise bad_value(where, text, "{rank} only with each = true, one start for each rank")


def _flag(value: object, where: str) -> bool:
    if not isinstance(value, bool):
        raise bad_value(where, value, "true or false")
    return value


def _text(value: object, where: str) -> str:
    if not isinstance(value, str) or "\n" in value:
        raise bad_value(where, value, "one line of text")
    return value


def _texts(value: object, where: str) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(v, str) and v for v in value):
        raise bad_value(where, value, "a list of texts")
    return tuple(value)


def _files(names: tuple[str, ...], path: Path, where: str) -> tuple[Path, ...]:
    found = tuple(path.parent / name for name in names)
    for file in found:
        if not file.is_file():
            raise bad_value(where, str(file), "files that exist, relative to this one")
    return found


def _cwd(value: object, path: Path, where: str) -> Path:
    found = path.parent / _text(value, where)
    if not found.is_dir():
        raise bad_value(where, value, "a directory that exists, relative to this file")
    return found


def _one_of(value: object, known: tuple[str, ...], where: str) -> str:
    if value not in known:
        raise unknown_name(where, value, known)
    return str(value)


def _tolerance(value: object, where: str) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1:
        raise bad_value(where, value, "a relative difference between 0 and 1, such as 1e-5")
    return float(value)


def _ranks(table: Mapping[str, Any], where: str) -> Ranks:
    _check_keys(table, ("environment", "arguments", "process"), f"{where}.")
    variables = table.get("environment", list(RANK_VARIABLES))
    variables = [variables] if isinstance(variables, str) else variables
    return Ranks(
        environment=_texts(variables, f"{where}.environment"),
        arguments=_expression(table.get("arguments"), f"{where}.arguments", groups=1),
        process=_expression(table.get("process"), f"{where}.process", groups=0),
    )


def _expression(value: object, where: str, groups: int) -> Expression | None:
    if value is None:
        return None
    found = compiled(value, where)
    if found.groups < groups:
        raise bad_value(where, value, r"an expression with a group, such as --rank=(\d+)")
    return found
