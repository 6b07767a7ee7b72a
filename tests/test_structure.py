"""The shape of the code: which way imports point, how long a module is, what it says of itself.

The rules stand here once, as data. A new module is under them without being named.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "recoverybench"
SOURCES = sorted(PACKAGE.rglob("*.py")) + sorted((ROOT / "workloads").glob("*.py"))

JAX = {"jax", "jaxlib", "flax", "optax", "orbax", "grain", "tensorstore", "ml_dtypes"}
CLUSTERS = {"ray", "kubernetes"}
HEAVY = JAX | CLUSTERS | {"pandas", "plotly", "scipy", "xprof"}
HEAVY |= {"tensorboard", "tensorboard_plugin_profile"}
LONGEST = 450

WORKER_MAY_IMPORT = (
    "recoverybench.worker",
    "recoverybench.workloads",
    "recoverybench.errors",
    "recoverybench.vocabulary",
    "recoverybench.protocol",
    "recoverybench.journal_writer",
    "recoverybench.sealed",
    "recoverybench.parenthood",
    "recoverybench.topology",
    "recoverybench.wire",
    "recoverybench.workload_name",
)
"""What runs inside a training process knows these, and nothing of the supervisor."""

WORDS = (
    "errors",
    "vocabulary",
    "cells",
    "records",
    "labels",
    "visible",
    "garbage",
    "new_file",
    "clocks",
)

RANKS = (
    WORDS,
    ("plan", "analysis"),
    ("results", "profiles"),
    ("web",),
    ("stats", "soaks", "damage", "devices", "reads", "blocks", "busy", "effects", "pieces"),
    ("report", "terminal", "trace", "board"),
    ("compare",),
    ("site",),
    ("cli", "__main__"),
)
"""From the journals to the reader: a part imports none of a later rank."""

ORDER = (
    ("launchers",),
    ("job",),
    ("faults", "strategies"),
    ("external",),
    ("campaign",),
    ("cli", "__main__"),
)
"""From the machine to the campaign, likewise."""

PURE = (
    "recoverybench.analysis.accelerators",
    "recoverybench.analysis.causality",
    "recoverybench.analysis.closeness",
    "recoverybench.analysis.details",
    "recoverybench.analysis.explanation",
    "recoverybench.analysis.generations",
    "recoverybench.analysis.history",
    "recoverybench.analysis.lanes",
    "recoverybench.analysis.milestones",
    "recoverybench.analysis.outcome",
    "recoverybench.analysis.record",
    "recoverybench.analysis.reference",
    "recoverybench.analysis.soak",
    "recoverybench.analysis.storage",
    "recoverybench.analysis.timeline",
    "recoverybench.analysis.transitions",
    "recoverybench.analysis.verify",
    "recoverybench.board.build",
    "recoverybench.board.events",
    "recoverybench.board.model",
    "recoverybench.board.names",
    "recoverybench.board.scalars",
    "recoverybench.cells",
    "recoverybench.clocks",
    "recoverybench.clocks.course",
    "recoverybench.clocks.exchange",
    "recoverybench.clocks.joining",
    "recoverybench.clocks.reading",
    "recoverybench.compare.axis",
    "recoverybench.compare.forest",
    "recoverybench.compare.model",
    "recoverybench.compare.order",
    "recoverybench.compare.strip",
    "recoverybench.compare.swarm",
    "recoverybench.effects",
    "recoverybench.effects.difference",
    "recoverybench.effects.groups",
    "recoverybench.effects.judge",
    "recoverybench.effects.power",
    "recoverybench.effects.ranks",
    "recoverybench.effects.rates",
    "recoverybench.effects.ratio",
    "recoverybench.effects.sample",
    "recoverybench.external.lines",
    "recoverybench.external.losses",
    "recoverybench.external.marks",
    "recoverybench.external.record",
    "recoverybench.external.timeline",
    "recoverybench.pieces",
    "recoverybench.records",
    "recoverybench.stats",
    "recoverybench.stats.intervals",
    "recoverybench.stats.optimum",
    "recoverybench.stats.summary",
    "recoverybench.stats.survival",
    "recoverybench.trace.build",
    "recoverybench.trace.job",
    "recoverybench.trace.lanes",
    "recoverybench.trace.model",
    "recoverybench.trace.processes",
    "recoverybench.trace.render",
    "recoverybench.wire.frames",
    "recoverybench.wire.handshake",
    "recoverybench.wire.ledger",
    "recoverybench.wire.lines",
)
IMPURE_IMPORTS = {"subprocess", "socket", "time", "random", "signal", "threading", "tempfile"}


@dataclass(frozen=True)
class Import:
    """One imported module, by its full name.

    Attributes:
        module: what is imported. line: where.
        at_start: it happens when the importing module is imported.
    """

    module: str
    line: int
    at_start: bool


def name_of(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    if parts[0] == "workloads":
        parts = ("recoverybench", *parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {name_of(path): path for path in SOURCES}


def imports(path: Path) -> list[Import]:
    """Every import of a module, those for type checkers alone left out."""
    return list(_walk(ast.parse(path.read_bytes()).body, at_start=True))


def _walk(body: list[ast.stmt], at_start: bool) -> Iterator[Import]:
    for node in body:
        if isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING"):
            yield from _walk(node.orelse, at_start)
        elif isinstance(node, ast.Import):
            for alias in node.names:
                yield Import(alias.name, node.lineno, at_start)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"line {node.lineno}: imports are absolute here"
            for alias in node.names:
                full = f"{node.module}.{alias.name}"
                yield Import(full if full in MODULES else str(node.module), node.lineno, at_start)
        else:
            inner = at_start and not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
            for field in ("body", "orelse", "finalbody", "handlers", "cases"):
                parts = getattr(node, field, [])
                yield from _walk([p for p in parts if isinstance(p, ast.AST)], inner)  # type: ignore[misc]


def top(module: str) -> str:
    return module.partition(".")[0]


def part(module: str) -> str:
    """`recoverybench.report.page` -> `report`."""
    return [*module.split("."), ""][1]


def within(module: str, prefixes: tuple[str, ...]) -> bool:
    return any(module == p or module.startswith(p + ".") for p in prefixes)


def is_worker(module: str) -> bool:
    return within(module, ("recoverybench.worker", "recoverybench.workloads"))


def complain(found: Iterable[str]) -> None:
    lines = list(found)
    assert not lines, "\n".join(["", *lines])


def test_the_rules_see_the_code() -> None:
    """The rules below hold for an empty list too, so look whether there is something in it."""
    assert len(MODULES) > 30
    assert "recoverybench.worker.runtime" in MODULES
    assert any(i.module == "jax" for i in imports(MODULES["recoverybench.worker.runtime"]))
    known = {part(m) for m in MODULES} | {""}
    named = {name for rank in (*RANKS, *ORDER) for name in rank}
    assert set(PURE) <= MODULES.keys()
    assert named <= known, f"a rule names what does not exist: {sorted(named - known)}"


def test_only_the_worker_imports_jax() -> None:
    complain(
        f"{name}:{i.line} imports {i.module}"
        for name, path in MODULES.items()
        if not is_worker(name)
        for i in imports(path)
        if top(i.module) in JAX
    )


def test_nothing_heavy_is_imported_at_start() -> None:
    """Outside the worker; the report may, for it is imported by those who want one."""
    complain(
        f"{name}:{i.line} imports {i.module} at module level"
        for name, path in MODULES.items()
        if not is_worker(name) and part(name) != "report"
        for i in imports(path)
        if i.at_start and top(i.module) in HEAVY
    )


def test_the_worker_knows_nothing_of_the_supervisor() -> None:
    complain(
        f"{name}:{i.line} imports {i.module}"
        for name, path in MODULES.items()
        if is_worker(name)
        for i in imports(path)
        if top(i.module) == "recoverybench"
        and i.module != "recoverybench"
        and not within(i.module, WORKER_MAY_IMPORT)
    )


def test_the_supervisor_never_imports_worker_code() -> None:
    complain(
        f"{name}:{i.line} imports {i.module}"
        for name, path in MODULES.items()
        if not is_worker(name)
        for i in imports(path)
        if is_worker(i.module)
    )


@pytest.mark.parametrize("ranks", [RANKS, ORDER], ids=["results", "campaign"])
def test_imports_point_one_way(ranks: tuple[tuple[str, ...], ...]) -> None:
    rank = {name: number for number, names in enumerate(ranks) for name in names}
    complain(
        f"{name}:{i.line} imports {i.module}, which stands above it"
        for name, path in MODULES.items()
        if part(name) in rank
        for i in imports(path)
        if top(i.module) == "recoverybench" and rank.get(part(i.module), -1) > rank[part(name)]
    )


def test_no_circle_of_imports() -> None:
    graph = {
        name: sorted({i.module for i in imports(path)} & MODULES.keys() - {name, "recoverybench"})
        for name, path in MODULES.items()
    }
    done: set[str] = set()

    def visit(name: str, trail: tuple[str, ...]) -> None:
        assert name not in trail, " -> ".join((*trail[trail.index(name) :], name))
        if name not in done:
            for other in graph[name]:
                visit(other, (*trail, name))
            done.add(name)

    for name in graph:
        visit(name, ())


def test_what_is_pure_stays_pure() -> None:
    complain(
        f"{name}:{i.line} imports {i.module}"
        for name, path in MODULES.items()
        if name in PURE
        for i in imports(path)
        if top(i.module) in IMPURE_IMPORTS
    )


def test_modules_are_short() -> None:
    lengths = {name: len(path.read_text().splitlines()) for name, path in MODULES.items()}
    complain(f"{name}: {n} lines" for name, n in lengths.items() if n > LONGEST)


def test_every_module_says_what_it_is_for() -> None:
    complain(
        f"{name} has no docstring"
        for name, path in MODULES.items()
        if not ast.get_docstring(ast.parse(path.read_bytes()))
    )


MAKES_A_PLACE = re.compile(r"(?:tempfile\.)?(?:mkdtemp|TemporaryDirectory|mkstemp)\(([^)]*)")


def test_what_is_made_in_tmpdir_is_found_after_a_kill() -> None:
    """`leftovers` knows directories by a mark in their names; or they lie beside what is made."""
    for path in SOURCES:
        for said in MAKES_A_PLACE.findall(path.read_text()):
            assert "prefix=prefix(" in said or "leftovers.prefix(" in said or "dir=" in said, path


def test_every_part_is_on_the_map() -> None:
    text = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")
    parts = {part(name) for name in MODULES} - {"", "__main__", "workloads"}
    missing = {p for p in parts if f"`{p}`" not in text and f"`{p}/`" not in text}
    complain(f"docs/architecture.md does not name {name}" for name in sorted(missing))


def test_no_committed_file_names_a_registry() -> None:
    """Whoever installs uses their own configuration; a mirror's name would not work for others."""
    # Spelled so that this file does not name them.
    hosts = ["pypi" + r"\.org", "pythonhosted" + r"\.org", "npmjs" + r"\.(org|com)"]
    hosts += ["/" + "simple/", "--(extra-)?" + "index-url", r"find" + "-links ="]
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        check=True,
    )
    found = []
    for name in filter(None, listed.stdout.decode().split("\0")):
        path = ROOT / name
        if path.is_file() and b"\0" not in (content := path.read_bytes()):
            lines = content.decode("utf-8", "replace").splitlines()
            found += [
                f"{name}:{number}: {line.strip()[:100]}"
                for number, line in enumerate(lines, 1)
                if re.search("|".join(hosts), line)
            ]
    complain(found)


def test_the_supervisor_runs_without_jax() -> None:
    """The rules above read the text; this one imports every module in a process of its own."""
    names = [n for n in MODULES if not is_worker(n) and not n.endswith("__main__")]
    code = (
        "import importlib, sys\n"
        f"for name in {names!r}: importlib.import_module(name)\n"
        f"print(sorted({JAX | CLUSTERS!r} & sys.modules.keys()))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "[]"
