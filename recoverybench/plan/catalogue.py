"""One registry for every kind of part: what there is, what it is for, and where it is.

Built-in parts are files in a folder, found by listing it: ``strategies/hot_spare.py`` is the
strategy ``hot-spare``. Third-party parts are entry points of the group `recoverybench.KIND`
(``recoverybench.state_sources`` for ``state-sources``); where a name is taken, the built-in
part keeps it. Summaries and presets are read from the source without importing it, so that
listing costs milliseconds and never touches jax.

A fault, strategy or launcher module has ``create(argument: str | None)``; a workload module
has ``PRESETS``, a literal dictionary; a suite is a TOML file. An entry point of the group
``recoverybench.suites`` names a package that holds ``NAME.toml``.
"""

from __future__ import annotations

import ast
import importlib
import importlib.machinery
import importlib.util
import sys
import tomllib
from dataclasses import dataclass
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from types import ModuleType
from typing import Any

from recoverybench.errors import HarnessError, UsageError, bad_value, shorten, unknown_name

_PACKAGE = Path(__file__).parents[1]


@dataclass(frozen=True, slots=True)
class Entry:
    """One part that is there.

    Attributes:
        name: public name (``hot-spare``).
        summary: first line of its documentation.
        source: where it is: a path for people, or ``module (distribution)``.
        path: its file; None where a third party's module cannot be found.
        module: name to import it by; None for suites.
        distribution: that adds it; None: it ships with recoverybench.
    """

    name: str
    summary: str
    source: str
    path: Path | None
    module: str | None
    distribution: str | None = None


@dataclass(frozen=True, slots=True)
class Kind:
    """Where the built-in parts of one kind are.

    Attributes:
        singular: the word for one of them.
        folder: where its files lie.
        package: the package they are imported from; None where they are not modules.
        suffix: ``.py`` or ``.toml``.
    """

    singular: str
    folder: Path
    package: str | None
    suffix: str = ".py"


def workloads_dir() -> Path:
    """The folder of the workloads: inside the package (wheel) or beside it (checkout)."""
    inside = _PACKAGE / "workloads"
    return inside if inside.is_dir() else _PACKAGE.parent / "workloads"


KINDS: dict[str, Kind] = {
    "workloads": Kind("workload", workloads_dir(), "recoverybench.workloads"),
    "faults": Kind("fault", _PACKAGE / "faults", "recoverybench.faults"),
    "strategies": Kind("strategy", _PACKAGE / "strategies", "recoverybench.strategies"),
    "state-sources": Kind(
        "state source", _PACKAGE / "worker" / "states", "recoverybench.worker.states"
    ),
    "launchers": Kind("launcher", _PACKAGE / "launchers", "recoverybench.launchers"),
    "suites": Kind("suite", workloads_dir() / "suites", None, ".toml"),
}
"""Every kind of part, by the word that `recoverybench list` takes."""


def entries(kind: str) -> list[Entry]:
    """The parts of one kind, by name; built-in ones first where names collide.

    Raises:
        KeyError: no such kind.
        HarnessError: the folder of the built-in ones is missing.
    """
    found = {entry.name: entry for entry in _built_in(KINDS[kind])}
    for point in _entry_points(f"recoverybench.{kind.replace('-', '_')}"):
        if point.name not in found:
            found[point.name] = _third_party(kind, point)
    return sorted(found.values(), key=lambda entry: entry.name)


def names(kind: str) -> list[str]:
    """Names of the parts of one kind, sorted."""
    return [entry.name for entry in entries(kind)]


def find(kind: str, name: object, where: str | None = None) -> Entry:
    """One part by its name.

    Args:
        kind: a key of `KINDS`.
        name: public name.
        where: the key or option that holds it, for the message.

    Raises:
        UsageError: there is none of that name.
    """
    known = {entry.name: entry for entry in entries(kind)}
    if not isinstance(name, str) or name not in known:
        raise unknown_name(where or KINDS[kind].singular, name, known)
    return known[name]


def load(kind: str, name: str, where: str | None = None) -> ModuleType:
    """Imports the module of one part; only `worker` code may do so for parts that use jax.

    Raises:
        UsageError: there is none of that name.
        HarnessError: importing it failed.
        ValueError: parts of this kind are not modules.
    """
    entry = find(kind, name, where)
    if entry.module is None:
        raise ValueError(f"{kind} are not modules; use find({kind!r}, {name!r}).path")
    try:
        if kind == "workloads":
            _ensure_workloads_package()
        return importlib.import_module(entry.module)
    except Exception as error:
        what = f"{type(error).__name__}: {shorten(str(error), 200)}"
        raise HarnessError(
            f"{KINDS[kind].singular} {name!r} ({entry.source}) cannot be loaded: {what}"
        ) from error


@cache
def presets(workload: str, where: str | None = None) -> dict[str, dict[str, Any]]:
    """The presets of a workload, read from its source without importing it.

    Raises:
        UsageError: there is no such workload.
        HarnessError: its module has no literal ``PRESETS``.
    """
    entry = find("workloads", workload, where)
    if entry.path is not None:
        for node in _parse(entry.path).body:
            target, value = _assignment(node)
            if target == "PRESETS" and value is not None:
                try:
                    return dict(ast.literal_eval(value))
                except ValueError as error:
                    raise HarnessError(f"{entry.source}: PRESETS is not a literal") from error
    raise HarnessError(f"{entry.source}: a workload needs a literal dictionary PRESETS")


def literal(kind: str, name: str, constant: str) -> Any:
    """A constant of a part's module, read without importing it; None: it has none.

    Raises:
        UsageError: there is no such part.
        HarnessError: it is no literal.
    """
    entry = find(kind, name)
    for node in _parse(entry.path).body if entry.path is not None else ():
        target, value = _assignment(node)
        if target == constant and value is not None:
            try:
                return ast.literal_eval(value)
            except ValueError as error:
                raise HarnessError(f"{entry.source}: {constant} is not a literal") from error
    return None


def _assignment(node: ast.stmt) -> tuple[str | None, ast.expr | None]:
    if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
        return node.target.id, node.value
    if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
        return node.targets[0].id, node.value
    return None, None


def _built_in(kind: Kind) -> list[Entry]:
    found = []
    if not kind.folder.is_dir():
        raise HarnessError(f"no folder {kind.folder}: the installation is incomplete")
    for path in sorted(kind.folder.glob(f"*{kind.suffix}")):
        if kind.package is not None and (path.stem.startswith("_") or path.stem == "base"):
            continue
        module = f"{kind.package}.{path.stem}" if kind.package else None
        name = path.stem.replace("_", "-") if kind.package else path.stem
        found.append(Entry(name, _summary(path), _for_people(path), path, module))
    return found


def _third_party(kind: str, point: EntryPoint) -> Entry:
    distribution = point.dist.name if point.dist is not None else "unknown distribution"
    path = _origin(point.module)
    module: str | None = point.module
    if kind == "suites":
        path, module = (path.parent / f"{point.name}.toml" if path else None), None
    summary = _summary(path) if path else f"cannot be found: {point.module}"
    source = f"{point.module} ({distribution})"
    return Entry(point.name, summary, source, path, module, distribution)


@cache
def _entry_points(group: str) -> tuple[EntryPoint, ...]:
    return tuple(entry_points(group=group))


def _origin(module: str) -> Path | None:
    """The file of a module, found without importing it or its parents."""
    folders: list[str] | None = None
    spec = None
    parts = module.split(".")
    for depth in range(1, len(parts) + 1):
        spec = importlib.machinery.PathFinder.find_spec(".".join(parts[:depth]), folders)
        if spec is None:
            return None
        folders = list(spec.submodule_search_locations or [])
    return Path(spec.origin) if spec is not None and spec.origin else None


def _summary(path: Path) -> str:
    try:
        return _summary_at(path, path.stat().st_mtime_ns)
    except OSError as error:
        return f"cannot be read: {shorten(str(error), 120)}"


@cache
def _summary_at(path: Path, _: int) -> str:
    """First line of a module's docstring, or a suite's description."""
    try:
        if path.suffix == ".toml":
            suite = tomllib.loads(path.read_text(encoding="utf-8")).get("suite", {})
            text = suite.get("description", "") if isinstance(suite, dict) else ""
        else:
            text = ast.get_docstring(_parse(path)) or ""
    except (OSError, ValueError, HarnessError) as error:
        return f"cannot be read: {shorten(str(error), 120)}"
    return str(text).strip().partition("\n")[0]


def _parse(path: Path) -> ast.Module:
    return _parsed(path, path.stat().st_mtime_ns)


@cache
def _parsed(path: Path, _: int) -> ast.Module:
    """A file's source as it was at a time of change; a matrix asks for the same ones often."""
    try:
        return ast.parse(path.read_bytes(), filename=str(path))
    except SyntaxError as error:
        raise HarnessError(f"{_for_people(path)}:{error.lineno}: {error.msg}") from error


def _for_people(path: Path) -> str:
    """A path as short as it can be said: below the checkout, or as it is."""
    try:
        return str(path.relative_to(_PACKAGE.parent))
    except ValueError:
        return str(path)


def _ensure_workloads_package() -> None:
    """Makes ``recoverybench.workloads`` importable in a checkout, where it lies beside us."""
    name = "recoverybench.workloads"
    if name in sys.modules or importlib.util.find_spec(name) is not None:
        return
    spec = importlib.machinery.ModuleSpec(name, None, is_package=True)
    spec.submodule_search_locations = [str(KINDS["workloads"].folder)]
    sys.modules[name] = importlib.util.module_from_spec(spec)


def check_part(kind: str, value: object, where: str) -> str:
    """Checks ``name`` or ``name:argument`` by asking the part itself.

    Returns:
        The text as it stands.

    Raises:
        UsageError: no such part, or it refuses the argument.
    """
    name, colon, argument = value.partition(":") if isinstance(value, str) else (value, "", "")
    find(kind, name, where)
    if colon and not argument:
        raise bad_value(where, value, "an argument after the colon, or no colon")
    module = load(kind, str(name), where)
    try:
        module.create(argument if colon else None)
    except UsageError as error:
        # A part names itself and what it was given; the place that holds it says that better.
        said = str(error).removeprefix(f"{KINDS[kind].singular} = {shorten(value)}: ")
        raise UsageError(f"{where} = {shorten(value)}: {said}") from error
    return str(value)
