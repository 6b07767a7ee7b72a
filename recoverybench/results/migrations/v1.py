"""Version 1 (release 0.1.0) to version 2.

Then came recoveries in several parts and on fewer workers, tiers of restores, comparison within a
tolerance, harmless faults, notices, stops in a save, soaks, and cells that a suite cannot measure.
"""

from __future__ import annotations

from typing import Any

from recoverybench.results.migrations import added, each_cell, inside

_CELL = {"watchdog_factor": None, "replica_check": "off", "agreement": "off"}
_VERIFY = {
    "losses_within": 0,
    "tolerance": None,
    "largest_difference": None,
    "losses_beyond": 0,
}
_TRIAL: dict[str, Any] = {
    "workers": None,
    "recoveries": 0,
    "transitions": [],
    "restore_tier": None,
    "restore_received_bytes": None,
    "harmless": False,
    "false_alarms": 0,
    "preemption_save": None,
    "stopped": None,
    "soak": None,
}


def trial(data: dict[str, Any]) -> dict[str, Any]:
    """A trial record."""
    data = inside(added(data, _TRIAL), "cell", _cell)
    changed: dict[str, Any] = inside(data, "verify", lambda verify: added(verify, _VERIFY))
    return changed


def run(data: dict[str, Any]) -> dict[str, Any]:
    """What run.json holds."""
    changed: dict[str, Any] = inside(data, "suite", _suite)
    return changed


def _suite(suite: object) -> Any:
    return each_cell(added(suite, {"unsupported": []}), _cell)


def _cell(cell: object) -> Any:
    return added(cell, _CELL)
