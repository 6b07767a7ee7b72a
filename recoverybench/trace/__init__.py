"""One trial as a trace that Perfetto and chrome://tracing show.

`trace_of` makes it, `write` puts it into a file. See docs/traces.md for what is on it.
"""

from __future__ import annotations

from typing import Any

from recoverybench.records import TrialRecord
from recoverybench.results.reading import Run
from recoverybench.trace.build import build
from recoverybench.trace.file import write
from recoverybench.trace.journals import read_journals
from recoverybench.trace.render import render

__all__ = ["trace_of", "write"]


def trace_of(run: Run, record: TrialRecord) -> dict[str, Any]:
    """A trial as plain JSON data in the Trace Event Format.

    Args:
        run: the trial's. record: the trial. Its journals are read where they are there; without
            them the trace shows what the record holds.
    """
    about = {"producer": "recoverybench", "run": run.info.run_id, "label": run.info.label}
    return render(build(record, read_journals(run.path, record), about))
