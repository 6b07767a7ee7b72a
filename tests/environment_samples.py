"""Cells, suites and environments, for tests of what environments can be."""

from __future__ import annotations

from typing import Any

from recoverybench.cells import Cell
from recoverybench.environments.environment import Environment
from recoverybench.plan.suite import Suite
from tests.sample_run import make_cell

OLD = "jax==0.10.1"


def cell(strategy: str = "elastic", environment: str | None = OLD, **changes: Any) -> Cell:
    plain = {"workload": "mlp:tiny", "watchdog_s": 5.0, "coordinator": "worker0"}
    return make_cell(**{**plain, **changes, "strategy": strategy, "environment": environment})


def environment(name: str | None = OLD, **changes: Any) -> Environment:
    values: dict[str, Any] = {
        "name": name,
        "python": "/x/bin/python",
        "version": "3.11.7 (main)",
        "release": "3.11.7",
        "packages": {"jax": "0.10.1"},
    }
    return Environment(**{**values, **changes})


def suite(*cells: Cell) -> Suite:
    return Suite("s", "", 1, 0, 60.0, 45, cells)
