"""Sleep in Python for good: the process lives, its heart beats, and no step follows."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from recoverybench.worker.steps import Loop


def strike(loop: Loop, argument: str | None) -> None:
    """Never returns."""
    threading.Event().wait()
