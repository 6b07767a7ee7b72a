"""Machines of a network of a test's own, and what is done on one."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import pytest

from recoverybench import capabilities
from recoverybench.network import Machine
from recoverybench.worker import links

T = TypeVar("T")

needs_rights = pytest.mark.skipif(
    (why := capabilities.MISSING["network-namespaces"]() or capabilities.MISSING["nftables"]())
    is not None,
    reason=f"no networks of one's own here: {why}",
)


def on(machine: Machine, function: Callable[[], T]) -> T:
    """Call it on that machine, entered as a worker enters it."""

    def entered() -> T:
        links.enter(machine.path)
        return function()

    with ThreadPoolExecutor(1) as pool:
        return pool.submit(entered).result()
