"""A launcher for tests: as `loopback`, and its network cuts every worker's connection again and
again, while strangers are at the supervisor's door.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from recoverybench.launchers.base import How, Process
from recoverybench.launchers.local import Local
from recoverybench.wire.address import Address
from tests.cutting import Cut, Cutter
from tests.loopback import Loopback

REACH = "network"


def cuts() -> Iterator[Cut]:
    """In the handshake, in the spec, in a place, and then in what a worker says while it trains."""
    yield from [(30, None), (None, 130), (160, None), (None, 700), (600, None), (None, 2000)]
    while True:
        yield 3000, 2500


class Harsh(Loopback):
    """See the module. What became of it is in files beside its log."""

    def __init__(self, environment: dict[str, str], log: Path, python: str | None = None) -> None:
        super().__init__(environment, log, python)
        self._beside = log.parent
        self._cutters: list[Cutter] = []
        self._strangers: subprocess.Popen[bytes] | None = None
        self._door = ""

    def start(
        self,
        address: str,
        slot: int,
        attempt: int,
        how: How,
        log: Path,
        network: str | None = None,
    ) -> Process:
        """See `launchers.base.Launcher.start`."""
        if self._cutters and self._cutters[0].said:
            (self._beside / "recorded").write_bytes(self._cutters[0].said)
        cutter = Cutter(address, cuts())
        self._cutters.append(cutter)
        started = super().start(cutter.address, slot, attempt, how, log, network)
        if self._door != address:  # that of another job: a reference may come before the trial
            self._door = address
            self._send_away()
            host, port = Address.of(address).where
            with (self._beside / "strangers.txt").open("wb") as said:
                arguments = [host, str(port), str(self._beside / "recorded")]
                self._strangers = subprocess.Popen(
                    [sys.executable, "-m", "tests.strangers", *arguments],
                    stdin=subprocess.DEVNULL,
                    stdout=said,
                    stderr=said,
                    env={k: v for k, v in self.environment.items() if "SECRET" not in k},
                )
        return started

    def close(self) -> None:
        """See `launchers.base.Launcher.close`."""
        super().close()
        self._send_away()
        (self._beside / "cuts.txt").write_text(str(sum(each.cut for each in self._cutters)))
        for cutter in self._cutters:
            cutter.close()

    def _send_away(self) -> None:
        if self._strangers is not None:
            self._strangers.kill()
            self._strangers.wait()


def create(environment: dict[str, str], log: Path, python: str | None = None) -> Local:
    """See `recoverybench.launchers.local.create`."""
    return Harsh(environment, log, python)
