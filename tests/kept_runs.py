"""A small run as the store keeps it, and what the store says of one that it does not take."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from recoverybench.errors import EXIT_USAGE, UsageError
from recoverybench.plan.suite import Suite
from recoverybench.records import TrialRecord
from recoverybench.results.store import RunDir, RunInfo, describe_run
from tests.sample_run import make_cell

CELL = make_cell(coordinator="worker0")
SUITE = Suite("mine", "a suite", 2, 0, 60.0, 45, (CELL,), source="mine.toml")

LATER = {
    "workers",
    "recoveries",
    "transitions",
    "restore_tier",
    "restore_received_bytes",
    "harmless",
    "false_alarms",
    "preemption_save",
    "stopped",
    "soak",
    "profiled",
    "clock_bound_s",
    "neighbours",
    "devices",
    "health",
}
"""Fields that records of 0.1.0 do not have."""


def record(trial: str = "0000", **changes: Any) -> TrialRecord:
    """A record of a trial that went nowhere, with some fields changed."""
    fields: dict[str, Any] = {
        **{f.name: None for f in dataclasses.fields(TrialRecord) if f.name not in LATER},
        **{"trial": trial, "cell": CELL, "rep": 0, "seed": 1, "outcome": "invalid"},
        **{"milestones": {}, "phases": {}, "detection_evidence": (), "compile_cache": {}},
        **{"restore_tried": (), "exits": (), "spans": (), "pids": {}, "load": (0.5, 0.25)},
        **{"memory_available_bytes": (1, 2), "wall_s": 1.0, "simulated": False, "harness": {}},
    }
    return TrialRecord(**{**fields, **changes})


def info(suite: Suite = SUITE) -> RunInfo:
    return describe_run(suite, "mine-1", command=["recoverybench", "run"], launcher="local")


def usage_error(call: Callable[[], object]) -> str:
    with pytest.raises(UsageError) as caught:
        call()
    assert caught.value.exit_code == EXIT_USAGE
    assert "\n" not in str(caught.value)
    return str(caught.value)


def two_trials(path: Path) -> Path:
    """A complete run of two trials in this new directory."""
    with RunDir.create(path, info()) as made:
        made.append(record("0000"))
        made.append(record("0001", outcome="timeout"))
        made.finish("complete", 12.5)
    return path


INFO = info()
