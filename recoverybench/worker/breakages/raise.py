"""An exception in the training step."""

from __future__ import annotations

import builtins
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from recoverybench.worker.steps import Loop


def strike(loop: Loop, argument: str | None) -> None:
    """Raise the built-in exception of that name."""
    error = getattr(builtins, argument or "RuntimeError")
    raise error("raised on purpose in the middle of training")
