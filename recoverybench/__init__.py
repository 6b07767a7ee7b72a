"""Training failure recovery, measured.

What is public::

    import recoverybench as rb

    run = rb.run("quick")              # measure: a suite by name or file
    run = rb.load("results/<run-id>")  # a run that was measured before
    run.trials                         # its trial records
    run.frame()                        # the same as a pandas DataFrame, a row a trial
    rb.write_report([run], "report.html")
    rb.compare("results/base", "results/new").cells

Nothing is imported before it is used: `import recoverybench` costs next to nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from recoverybench.campaign.campaign import run
    from recoverybench.compare import compare
    from recoverybench.report import write_report
    from recoverybench.results.store import load

__version__ = "0.1.0"

__all__ = ["__version__", "compare", "load", "run", "write_report"]

_HOME = {
    "compare": "recoverybench.compare",
    "load": "recoverybench.results.store",
    "run": "recoverybench.campaign.campaign",
    "write_report": "recoverybench.report",
}
"""Public name -> the module that defines it."""


def __getattr__(name: str) -> Any:
    """Import a public name at its first use (PEP 562)."""
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(_HOME[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """What is public, imported or not."""
    return sorted(__all__)
