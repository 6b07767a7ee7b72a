"""What is known of a workload without importing it: its preset, as its file spells it."""

from __future__ import annotations

from recoverybench.plan import catalogue


def batch_size(workload: str) -> int | None:
    """Rows of the global batch of ``family:preset``; None: its preset does not say."""
    family, _, preset = workload.partition(":")
    batch = catalogue.presets(family)[preset].get("batch_size")
    return batch if isinstance(batch, int) else None
