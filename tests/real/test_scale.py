"""Many workers: what the supervisor has to do grows with their number, and no faster."""

from __future__ import annotations

from benchmarks.scale import measured


def test_a_recovery_costs_the_supervisor_the_same_for_each_worker() -> None:
    few, many = measured(8), measured(32)
    assert many.events > 3 * few.events
    assert many.cpu_s / many.workers < 3 * few.cpu_s / few.workers
    assert many.journal_bytes < 8 * few.journal_bytes
