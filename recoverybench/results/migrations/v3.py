"""Version 3 to version 4.

Then came trials that run under a profiler.
"""

from __future__ import annotations

from typing import Any

from recoverybench.results.migrations import added, inside

TRIAL = {"profiled": False}
"""What a record of version 3 lacks; otherwise it is a record of version 4."""


def trial(data: dict[str, Any]) -> dict[str, Any]:
    """A trial record."""
    changed: dict[str, Any] = added(data, TRIAL)
    return changed


def run(data: dict[str, Any]) -> dict[str, Any]:
    """What run.json holds."""
    changed: dict[str, Any] = inside(data, "suite", _suite)
    return changed


def _suite(suite: object) -> Any:
    return added(suite, {"profile": False})
