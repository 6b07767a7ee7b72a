"""Version 5 to version 6.

Then came trials that run side by side. Before that a run had one trial at a time and no other way,
so that its trials had no neighbours: that is known of them, and not missing. Of their devices no
more was kept than the platform, in run.json.
"""

from __future__ import annotations

from typing import Any

from recoverybench.results.migrations import added, inside

TRIAL: dict[str, Any] = {"neighbours": 0, "devices": {}, "health": {}}
"""What a record of version 5 lacks; otherwise it is a record of version 6."""


def trial(data: dict[str, Any]) -> dict[str, Any]:
    """A trial record."""
    changed: dict[str, Any] = added(data, TRIAL)
    return changed


def run(data: dict[str, Any]) -> dict[str, Any]:
    """What run.json holds."""
    changed: dict[str, Any] = inside(data, "suite", _suite)
    return changed


def _suite(suite: object) -> Any:
    return added(suite, {"isolation": "exclusive"})
