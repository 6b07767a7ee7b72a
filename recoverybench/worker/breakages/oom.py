"""Use up memory until the kernel ends the process, or an allocation fails."""

from __future__ import annotations

import resource
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from recoverybench.worker.steps import Loop

_BLOCK = 1 << 22


def strike(loop: Loop, argument: str | None) -> None:
    """Allocate for good.

    Args:
        loop: not used.
        argument: ``cgroup``: a control group around this process has a limit, and the kernel
            ends the process; ``rlimit:BYTES``: its address space may grow by that much more,
            and an allocation fails.

    Raises:
        MemoryError: as soon as an allocation fails; what was allocated here is given back.
    """
    kind, _, room = (argument or "").partition(":")
    if kind == "rlimit":
        limit = _address_space() + int(room)
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    blocks: list[bytes] = []
    try:
        while True:
            blocks.append(b"\1" * _BLOCK)  # not zeros: those need not be there to be read
    except MemoryError:
        blocks.clear()
        raise


def _address_space() -> int:
    """Bytes of address space that this process has."""
    with open("/proc/self/statm", "rb") as file:
        return int(file.read().split()[0]) * resource.getpagesize()
