"""End the process with an exit code: as a program does, or at once."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from recoverybench.worker.steps import Loop


def strike(loop: Loop, argument: str | None) -> None:
    """End it.

    Args:
        loop: not used.
        argument: ``CODE``: at once, as a native library does that calls ``_exit``;
            ``clean-CODE``: as ``sys.exit`` does, with every handler that was registered.
    """
    how, _, code = (argument or "1").rpartition("-")
    if how == "clean":
        sys.exit(int(code))
    sys.stdout.flush()
    os._exit(int(code))
