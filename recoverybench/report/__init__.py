"""Reports: one HTML file that needs no network, from one run or several."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from recoverybench.report.page import render
from recoverybench.results.store import Run, replace_file

__all__ = ["render", "write_report"]


def write_report(runs: Sequence[Run], out: str | Path) -> Path:
    """Write the report of these runs as one HTML file, whole or not at all.

    Args:
        runs: one or several; their cells stand side by side.
        out: the file. A file that is there is replaced, so the caller decides whether it may be.

    Returns:
        The file.

    Raises:
        OSError: the file cannot be written.
    """
    out = Path(out)
    replace_file(out, render(runs).encode("utf-8", "backslashreplace"))
    return out
