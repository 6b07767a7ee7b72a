"""A slice is lost: its devices, and every array that has a part on them (simulated).

The argument is JSON: ``slice``, and ``back_s``, seconds until a slice is there again in its
place, or null. Only a controller over slices can lose one.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from recoverybench.worker.steps import Loop


def strike(loop: Loop, argument: str | None) -> None:
    """Lose it. The step that follows finds out."""
    assert argument is not None
    order = json.loads(argument)
    loop.step_fn.loss.lose(order["slice"], order["back_s"])
