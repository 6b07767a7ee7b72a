# mypy: disable-error-code="import-untyped"
"""Boards of synthetic runs, and the runs of every version that are kept."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from recoverybench.board import Board, board_of
from recoverybench.records import TrialRecord
from tests.sample_run import make_run

SAMPLES = Path(__file__).parent / "samples"
RUNS = [
    *(SAMPLES / name for name in ("v1", "v2", "v2-command", "v3", "v4", "v5")),
    Path(__file__).parent.parent / "results" / "quick-0.1.0",
]
"""Runs of every version."""

HOSTILE = [
    "../../../etc/passwd",
    "/abs",
    "..",
    ".",
    "",
    " ",
    "\x00",
    "\n\r\t",
    "\x1b[31mred\x07",
    "a\udcffb",
    "\u202etxt.exe",
    "</script><script>alert(1)</script>",
    "a/../b",
    "-rf",
    "~root",
    "a" * 5000,
    "語" * 5000,
    "é" * 5000,
    "C:\\x",
    "%2e%2e%2f",
    "$(reboot)",
]
"""Names that lead elsewhere, or that nobody can read."""


def told(trials: list[TrialRecord], **changes: Any) -> Board:
    return board_of([make_run(trials, **changes)])
