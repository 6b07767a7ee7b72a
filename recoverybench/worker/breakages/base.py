"""What a breakage does: break this worker from the inside, on its main thread.

The supervisor's fault of the same name sends the order, and logs the injection just before.
A breakage is a module with ``strike(loop, argument)``: `loop` is the `worker.steps.Loop` of
the worker, `argument` text or None. Where it returns, the worker goes on training.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Protocol, cast

if TYPE_CHECKING:
    from recoverybench.worker.steps import Loop


class Breakage(Protocol):
    """The module of a breakage."""

    def strike(self, loop: Loop, argument: str | None, /) -> None:
        """Break this worker."""


def load(name: str) -> Breakage:
    """The breakage of that name (``recoverybench/worker/breakages/NAME.py``)."""
    return cast(Breakage, importlib.import_module(f"{__package__}.{name.replace('-', '_')}"))
