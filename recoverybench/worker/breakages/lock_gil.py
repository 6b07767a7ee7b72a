"""Hold Python's lock for good: native threads live, and no line of Python runs any more."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from recoverybench.worker.steps import Loop

_LONG_S = 1 << 30


def strike(loop: Loop, argument: str | None) -> None:
    """Never returns. A `PyDLL` function is called without letting go of the lock."""
    sleep = ctypes.PyDLL(None).sleep
    while True:  # a signal ends one sleep
        sleep(_LONG_S)
