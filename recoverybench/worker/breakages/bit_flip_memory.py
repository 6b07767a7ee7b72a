"""One flipped bit in this worker's copy of one parameter: its copy is no longer the others'."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from recoverybench.worker.breakages import _replica

if TYPE_CHECKING:
    from recoverybench.worker.steps import Loop


def strike(loop: Loop, argument: str | None) -> None:
    """Flip it, in this process alone.

    Args:
        loop: the training loop.
        argument: a number that chooses leaf, value and bit.

    Raises:
        RuntimeError: the copy does not differ in exactly one bit.
    """
    chosen = _replica.choose(loop, int(argument or "0"))
    before = _replica.mine(loop.leaves[chosen.leaf])

    def flip(array: np.ndarray) -> None:
        array.reshape(-1).view(np.uint8)[chosen.byte] ^= 1 << chosen.bit

    _replica.change(loop, chosen.leaf, flip)
    after = _replica.mine(loop.leaves[chosen.leaf])
    differ = np.bitwise_xor(before.reshape(-1).view(np.uint8), after.reshape(-1).view(np.uint8))
    if int(np.unpackbits(differ).sum()) != 1:
        raise RuntimeError(f"{loop.names[chosen.leaf]} does not differ in one bit")
