"""A digest of a state: equal digests mean equal bits, names, shapes and dtypes."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

import numpy as np


def digest(leaves: Mapping[str, np.ndarray]) -> str:
    """BLAKE2b (16 bytes, hex) over the leaves in the order of their names.

    Args:
        leaves: name -> array on the host, any shape and dtype.
    """
    total = hashlib.blake2b(digest_size=16)
    for name in sorted(leaves):
        array = np.ascontiguousarray(leaves[name])
        total.update(f"{name}|{array.dtype.str}|{array.shape}|".encode())
        total.update(array.view(np.uint8).reshape(-1).data if array.size else b"")
    return total.hexdigest()
