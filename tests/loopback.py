"""A launcher for tests: workers of this machine that are spoken to as if they were on another."""

from __future__ import annotations

import os
from pathlib import Path

from recoverybench.launchers.base import Reach
from recoverybench.launchers.local import Local
from recoverybench.wire.handshake import SECRET_VARIABLE

REACH = "network"

SECRET_FILE = "SECRET_FILE_OF_A_TEST"
"""Environment variable: where the run's secret is written, for who looks for it elsewhere."""


class Loopback(Local):
    """See `recoverybench.launchers.local.Local`."""

    reach: Reach = "network"

    def __init__(self, environment: dict[str, str], log: Path, python: str | None = None) -> None:
        super().__init__(environment, log, python)
        if told := os.environ.get(SECRET_FILE):
            Path(told).write_text(self.environment[SECRET_VARIABLE])


def create(environment: dict[str, str], log: Path, python: str | None = None) -> Loopback:
    """See `recoverybench.launchers.local.create`."""
    return Loopback(environment, log, python)
