"""What is kept between runs: compiled functions and fault-free references, and their keys.

A key covers everything that could change the bits: the workload's source and text, the
modules that shape the program, the topology, versions, XLA's flags and the processor.
"""

from __future__ import annotations

import ast
import hashlib
import json
import os
import platform
import sys
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from recoverybench.cells import Cell
from recoverybench.errors import bad_value
from recoverybench.plan import catalogue
from recoverybench.plan.own_files import own_sources
from recoverybench.results import provenance
from recoverybench.workload_name import WorkloadName

ROOT_VARIABLE = "RECOVERYBENCH_CACHE"

_SHAPING = (
    "program",
    "layout",
    "digest",
    "held",
    "workload",
    "data",
    "training",
    "steps",
)
"""Modules of the worker that decide what is computed, beside what a workload imports of it."""

_PACKAGE = "recoverybench.worker"
_WORKER = Path(__file__).parents[1] / "worker"


def root() -> Path:
    """Directory of the cache: ``$RECOVERYBENCH_CACHE``, else the user's cache directory. Absolute,
    for workers on other machines begin somewhere else.
    """
    if named := os.environ.get(ROOT_VARIABLE):
        return Path(named).absolute()
    base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(base).expanduser() / "recoverybench"


def check_root() -> None:
    """Make the cache's directory.

    Raises:
        UsageError: it cannot be made or written.
    """
    path = root()
    try:
        path.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=path):
            pass
    except OSError as error:
        allowed = f"a directory that can be written ({error.strerror})"
        raise bad_value(ROOT_VARIABLE, str(path), allowed) from None


@dataclass(frozen=True, slots=True)
class Keys:
    """Addresses in the cache for one job.

    Attributes:
        program: of its compiled functions. reference: of its fault-free run.
    """

    program: str
    reference: str

    @classmethod
    def of(
        cls,
        cell: Cell,
        seed: int,
        steps: int,
        data: str | None,
        environment: Mapping[str, str],
        controller: str | None = None,
        software: Mapping[str, Any] | None = None,
    ) -> Keys:
        """The keys of a cell's job.

        Args:
            cell: its workload and topology count.
            seed, steps, data: of the suite.
            environment: what the workers get (XLA's flags among it).
            controller: what a single process drives; None: there is one for each worker.
            software: ``versions`` and ``python`` of what the workers run on; None: of this.
        """
        program = {
            "workload": cell.workload,
            # The topology is in the names of the store's files.
            "controller": controller,
            "sources": _sources(cell.workload),
            "text": _digest(_text(data)),
            **(software or {"versions": provenance.versions(), "python": sys.version}),
            "processor": _processor(),
            "environment": {
                k: environment.get(k, os.environ.get(k)) for k in ("XLA_FLAGS", "JAX_PLATFORMS")
            },
        }
        reference = {**program, "topology": cell.topology, "seed": seed, "steps": steps}
        return cls(_key(program), _key(reference))

    @property
    def executables(self) -> Path:
        """Directory of the executable store."""
        return root() / "executables" / self.program

    @property
    def reference_file(self) -> Path:
        """File of the fault-free run's record."""
        return root() / "references" / f"{self.reference}.json"


def jax_cache() -> Path:
    """Directory of JAX's own persistent compilation cache."""
    return root() / "jax"


def _key(content: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:24]


def _sources(workload: str) -> str:
    name = WorkloadName.of(workload)
    path = None if name.own else catalogue.find("workloads", name.family).path
    made = own_sources(Path(name.family)) if name.own else [path] if path else []
    files = {_WORKER / f"{name}.py" for name in _SHAPING}
    return _digest(*made, *sorted(files | _of_worker(made)))


def _of_worker(paths: Iterable[Path]) -> set[Path]:
    """The modules of the worker that these files import, at any depth."""
    found: set[Path] = set()
    waiting = list(paths)
    while waiting:
        try:
            tree = ast.parse(waiting.pop().read_bytes())
        except (SyntaxError, ValueError):  # a user's, which nothing has run yet
            continue
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and str(node.module).startswith(_PACKAGE):
                names = (str(node.module)[len(_PACKAGE) + 1 :], *(a.name for a in node.names))
                new = {_WORKER / f"{name}.py" for name in names} - found
                there = {path for path in new if path.is_file()}
                found |= there
                waiting += there
    return found


def _text(data: str | None) -> Path:
    return Path(data) if data else catalogue.workloads_dir() / "data"


def _digest(*paths: Path) -> str:
    total = hashlib.sha256()
    for path in paths:
        for file in sorted(path.iterdir()) if path.is_dir() else [path]:
            total.update(file.read_bytes())
    return total.hexdigest()


def _processor() -> str:
    """What the compiler may have used: an executable of one CPU can crash another."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    wanted = ("model name", "flags", "Features")
    found = sorted({line for line in lines if line.startswith(wanted)})
    return hashlib.sha256("\n".join([platform.machine(), *found]).encode()).hexdigest()
