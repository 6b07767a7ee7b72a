"""Ports for coordination services: free, and nobody else's, also not another run's.

A busy coordinator port crashes JAX's coordination service outright, so a port is taken
from below the ephemeral range, tried by binding it, and locked in a file until the job
ends: two runs on one machine never meet, nor do two generations of one job.
"""

from __future__ import annotations

import fcntl
import os
import random
import socket
import tempfile
from pathlib import Path

from recoverybench.errors import HarnessError

FIRST, LAST = 20_000, 32_000


class Ports:
    """Ports held by this object until `close`."""

    def __init__(self) -> None:
        self._directory = Path(tempfile.gettempdir()) / f"recoverybench-ports-{os.getuid()}"
        self._directory.mkdir(mode=0o700, exist_ok=True)
        self._locks: list[int] = []

    def take(self) -> int:
        """A port that was free a moment ago and that no other run will take.

        Raises:
            HarnessError: none is left.
        """
        span = LAST - FIRST
        start = random.randrange(span)
        for port in (FIRST + (start + offset) % span for offset in range(span)):
            lock = os.open(self._directory / str(port), os.O_CREAT | os.O_RDWR | os.O_CLOEXEC)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                with socket.socket() as probe:
                    probe.bind(("127.0.0.1", port))
            except OSError:
                os.close(lock)
                continue
            self._locks.append(lock)
            return port
        raise HarnessError(f"no free port between {FIRST} and {LAST}")

    def close(self) -> None:
        """Give every port back."""
        for lock in self._locks:
            os.close(lock)
        self._locks.clear()
