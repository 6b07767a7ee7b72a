"""Version 4 to version 5.

Then came clocks of several hosts, and how far they may make a time wrong.
"""

from __future__ import annotations

from typing import Any

from recoverybench.results.migrations import added, each, inside

TRIAL: dict[str, Any] = {"clock_bound_s": {}}
"""What a record of version 4 lacks; its evidence lacks `bound_s`, which is 0."""


def trial(data: dict[str, Any]) -> dict[str, Any]:
    """A trial record."""
    changed: dict[str, Any] = inside(
        added(data, TRIAL), "detection_evidence", lambda every: each(every, _evidence)
    )
    return changed


def _evidence(evidence: object) -> Any:
    return added(evidence, {"bound_s": 0.0})
