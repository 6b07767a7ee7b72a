"""Not-a-number in this worker's copy of one parameter: its gradient is one, then everybody's."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from recoverybench.worker.breakages import _replica

if TYPE_CHECKING:
    from recoverybench.worker.steps import Loop


def strike(loop: Loop, argument: str | None) -> None:
    """Put NaN into every value of one leaf, in this process alone.

    Args:
        loop: the training loop.
        argument: a number that chooses the leaf.

    Raises:
        RuntimeError: the copy is as it was.
    """
    chosen = _replica.choose(loop, int(argument or "0"))
    _replica.change(loop, chosen.leaf, lambda array: array.fill(np.nan))
    found = _replica.mine(loop.leaves[chosen.leaf])
    if not np.isnan(found).all():
        raise RuntimeError(f"{loop.names[chosen.leaf]} holds no NaN")
