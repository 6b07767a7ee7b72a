"""Version 2 to version 3.

Then came raw reads of a checkpoint beside its restore, what a save holds up, options of
checkpoints, a cold page cache, recoveries on another topology, environments, randomised blocks,
and suites that end by precision or by time. Files of version 2 that were written shortly before
have some of it already.
"""

from __future__ import annotations

from typing import Any

from recoverybench.results.migrations import added, each_cell, inside

_CELL = {
    "restore_topology": None,
    "checkpoint": "default",
    "page_cache": "warm",
    "environment": None,
}
_TRIAL = {
    "checkpoint_bytes": None,
    "raw_read_cold_s": None,
    "raw_read_warm_s": None,
    "restore_read_s": None,
    "save_stall_s": None,
    "save_s": None,
    "block": None,
    "position": None,
}
_SUITE = {"precision": None, "budget_s": None}
_RUN: dict[str, Any] = {"environments": {}, "workloads": {}, "ended": {}}
_REFERENCE = {"norms": None}


def trial(data: dict[str, Any]) -> dict[str, Any]:
    """A trial record. The first of version 2 did not count losses that were not compared."""
    data = inside(added(data, _TRIAL), "cell", _cell)
    changed: dict[str, Any] = inside(data, "verify", lambda v: added(v, {"losses_beyond": 0}))
    return changed


def run(data: dict[str, Any]) -> dict[str, Any]:
    """What run.json holds."""
    changed: dict[str, Any] = inside(added(data, _RUN), "suite", _suite)
    return changed


def reference(data: dict[str, Any]) -> dict[str, Any]:
    """A fault-free run: of a job it has the norms of its final state."""
    changed: dict[str, Any] = data if data.get("kind") == "command" else added(data, _REFERENCE)
    return changed


def _suite(suite: object) -> Any:
    return each_cell(added(suite, _SUITE), _cell)


def _cell(cell: object) -> Any:
    return added(cell, _CELL)
