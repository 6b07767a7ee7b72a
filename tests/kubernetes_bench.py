"""A launcher on a server that plays the API, as tests of it begin."""

from __future__ import annotations

import queue
import select
import threading
from pathlib import Path
from typing import Any

import pytest

from recoverybench.errors import HarnessError
from recoverybench.launchers._kubernetes import settings
from recoverybench.launchers._kubernetes.api import Api, Connection
from recoverybench.launchers._kubernetes.cluster import Cluster as Ours
from recoverybench.launchers._kubernetes.ourselves import Ourselves
from recoverybench.launchers._kubernetes.pods import Pods
from recoverybench.launchers.base import Ended, Process
from tests.kubernetes_api import Cluster

urllib3: Any = pytest.importorskip("urllib3")
pytest.importorskip("kubernetes_validate")

PENDING = {"phase": "Pending"}
ADDRESS = "tcp://10.0.0.7:20001"
PODS = "/api/v1/namespaces/bench/pods"
ME = Ourselves("here-1234abcd")
TPU = {"accelerator": "tpu-v6e-slice", "topology": "4x4", "chips": 4}


class Bench:
    """A launcher, the server behind it, and what it was asked to send."""

    def __init__(
        self,
        server: Cluster,
        url: str,
        path: Path,
        me: Ourselves = ME,
        *,
        of: dict[str, Any] | None = None,
    ) -> None:
        table = {
            "image": "x",
            "namespace": "bench",
            "volume": "v",
            "mount": "/shared",
            "supervisor_address": "10.0.0.7",
            **(of or {}),
        }
        self.server = server
        self.path = path
        self.sent: queue.SimpleQueue[tuple[str, int]] = queue.SimpleQueue()
        self.refuses = threading.Event()
        api = Api(Connection(url, urllib3.PoolManager(), dict))
        self.cluster = Ours(api, settings.of(table, "kubernetes.toml"), self._send, me)
        environment = {"JAX_PLATFORMS": "cpu", "RECOVERYBENCH_SECRET": "5ec4e7"}
        self.launcher = Pods(self.cluster, environment, path / "launcher.log")

    def _send(self, pod: str, number: int) -> None:
        if self.refuses.is_set() or self.server.find("pods", pod).get("status", {}) == PENDING:
            raise HarnessError("container not found")
        self.sent.put((pod, number))

    def start(self, slot: int, attempt: int = 0, address: str = ADDRESS) -> Process:
        logs = self.path / "run" / "logs" / "0001"
        logs.mkdir(parents=True, exist_ok=True)
        log = logs / f"{slot}.{attempt}.log"
        return self.launcher.start(address, slot, attempt, "warm", log)

    def begin(self, workers: int = 3) -> list[Process]:
        self.launcher.announce(ADDRESS, workers)
        return [self.start(slot) for slot in range(workers)]

    def seen(self, process: Process, name: str) -> None:
        """End one pod and wait until that is seen: so is all that happened before it."""
        self.server.end(name, 0)
        assert readable(process)

    def pods(self) -> list[str]:
        return self.server.names("pods")


def readable(process: Process, within_s: float = 20.0) -> bool:
    return bool(select.select([process.fd], [], [], within_s)[0])


def ended(bench: Bench, process: Process) -> Ended | None:
    assert readable(process)
    return bench.launcher.reap(process)
