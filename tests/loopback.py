"""A launcher for tests: workers of this machine that are spoken to as if they were on another."""

from __future__ import annotations

from pathlib import Path

from recoverybench.launchers.base import Reach
from recoverybench.launchers.local import Local

REACH = "network"


class Loopback(Local):
    """See `recoverybench.launchers.local.Local`."""

    reach: Reach = "network"


def create(environment: dict[str, str], log: Path, python: str | None = None) -> Loopback:
    """See `recoverybench.launchers.local.create`."""
    return Loopback(environment, log, python)
