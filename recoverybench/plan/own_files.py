"""The files of a user's own workload: its file, and what it imports from beside it.

A change in any of them makes new compiled functions and a new fault-free reference. They are
found by reading the sources, never by running them.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from recoverybench.external.spec import PREFIX
from recoverybench.workload_name import is_command, own_file


def own_sources(file: Path) -> list[Path]:
    """A user's file and every module and package beside it that it imports, at any depth.

    A package counts with all its Python files. What is installed is not among them: its version
    is kept by whoever installs it. An import whose name is only made while running is not seen.

    Args:
        file: of the workload.

    Returns:
        Paths of files that are there, in order of their names.
    """
    found: set[Path] = set()
    waiting = [file]
    while waiting:
        path = waiting.pop()
        if path in found or not path.is_file():
            continue
        found.add(path)
        for name in _imported(path):
            beside = file.parent / f"{name}.py"
            package = file.parent / name
            if beside.is_file():
                waiting.append(beside)
            elif (package / "__init__.py").is_file():
                waiting.extend(package.rglob("*.py"))
    return sorted(found)


def _imported(path: Path) -> Iterator[str]:
    """First names of what a file imports; of a file that is no Python, none."""
    try:
        tree = ast.parse(path.read_bytes())
    except (SyntaxError, ValueError, OSError):
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            yield node.module.partition(".")[0]


def beside(matrix: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """A suite's ``[matrix]``, with the paths of workloads' files counted from the suite's folder.

    Args:
        matrix: as read, nothing checked yet. folder: of the suite's file.
    """
    rules = {
        key: [_anchored(rule, folder) for rule in value]
        for key, value in matrix.items()
        if key in ("include", "exclude") and isinstance(value, list)
    }
    found: dict[str, Any] = _anchored({**matrix, **rules}, folder)
    return found


def _anchored(rule: Any, folder: Path) -> Any:
    if not isinstance(rule, Mapping) or "workload" not in rule:
        return rule
    value = rule["workload"]
    moved = [_moved(each, folder) for each in value] if isinstance(value, list) else None
    return {**rule, "workload": _moved(value, folder) if moved is None else moved}


def _moved(value: Any, folder: Path) -> Any:
    if not isinstance(value, str) or value.startswith(PREFIX):
        return value
    return str(folder / value) if own_file(value) or is_command(value) else value
