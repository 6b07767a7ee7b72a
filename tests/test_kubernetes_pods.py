"""The launcher against a server that plays the API: what it makes, sees, signals and leaves."""

from __future__ import annotations

import os
import queue
import select
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from recoverybench import leftovers
from recoverybench.errors import HarnessError
from recoverybench.launchers._kubernetes import manifests, settings
from recoverybench.launchers._kubernetes.api import Api, Connection
from recoverybench.launchers._kubernetes.cluster import Cluster as Ours
from recoverybench.launchers._kubernetes.pods import Pods
from recoverybench.launchers.base import Announced, Ended, Hosts, Process
from tests.kubernetes_api import Cluster, serving

urllib3: Any = pytest.importorskip("urllib3")
pytest.importorskip("kubernetes_validate")

ADDRESS = "tcp://10.0.0.7:20001"
PODS = "/api/v1/namespaces/bench/pods"
TPU = {"accelerator": "tpu-v6e-slice", "topology": "4x4", "chips": 4}


class Bench:
    """A launcher, the server behind it, and what it was asked to send."""

    def __init__(self, server: Cluster, url: str, path: Path, **changes: Any) -> None:
        table = {
            "image": "x",
            "namespace": "bench",
            "volume": "v",
            "mount": "/shared",
            "supervisor_address": "10.0.0.7",
            **changes,
        }
        self.server = server
        self.path = path
        self.sent: queue.SimpleQueue[tuple[str, int]] = queue.SimpleQueue()
        self.refuses = threading.Event()
        api = Api(Connection(url, urllib3.PoolManager(), dict))
        self.cluster = Ours(api, settings.of(table, "kubernetes.toml"), self._send)
        environment = {"JAX_PLATFORMS": "cpu", "RECOVERYBENCH_SECRET": "5ec4e7"}
        self.launcher = Pods(self.cluster, environment, path / "launcher.log")

    def _send(self, pod: str, number: int) -> None:
        self.sent.put((pod, number))
        if self.refuses.is_set():
            raise HarnessError("container not found")

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


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    with serving() as (server, url):
        made = Bench(server, url, tmp_path)
        yield made
        made.launcher.close()
        assert server.invalid == []


@pytest.fixture
def slices(tmp_path: Path) -> Iterator[Bench]:
    with serving() as (server, url):
        made = Bench(server, url, tmp_path, **TPU)
        yield made
        made.launcher.close()
        assert server.invalid == []


def readable(process: Process, within_s: float = 20.0) -> bool:
    return bool(select.select([process.fd], [], [], within_s)[0])


def ended(bench: Bench, process: Process) -> Ended | None:
    assert readable(process)
    return bench.launcher.reap(process)


def test_it_is_what_a_job_takes_it_for(bench: Bench) -> None:
    assert isinstance(bench.launcher, Announced)
    assert isinstance(bench.launcher, Hosts)
    assert bench.launcher.reach == "network"
    assert bench.launcher.bind == "10.0.0.7"


def test_a_job_is_one_set(bench: Bench) -> None:
    processes = bench.begin()
    assert len(bench.server.names("jobsets")) == 1
    assert len(bench.pods()) == 3
    assert [p.how for p in processes] == ["cold"] * 3
    assert len({p.pid for p in processes}) == 3
    labels = bench.server.find("pods", bench.pods()[0])["metadata"]["labels"]
    assert labels[manifests.RUN] == "run"
    assert labels[manifests.TRIAL] == "0001"
    assert labels[manifests.OWNER] == leftovers.owner_mark()


def test_the_secret_goes_into_a_secret(bench: Bench) -> None:
    bench.begin()
    (name,) = bench.server.names("secrets")
    assert bench.server.find("secrets", name)["stringData"] == {"RECOVERYBENCH_SECRET": "5ec4e7"}
    everything = [b for b in bench.server.bodies if b["kind"] != "Secret"]
    assert "5ec4e7" not in str(everything)


def test_the_end_of_a_pod_is_seen(bench: Bench) -> None:
    processes = bench.begin()
    for name in bench.pods():
        bench.server.run(name)
    bench.server.end(bench.pods()[1], 137, reason="OOMKilled")
    assert ended(bench, processes[1]) == Ended(None, "SIGKILL")
    assert "OOMKilled" in processes[1].log.read_text(encoding="utf-8")
    assert not readable(processes[0], 0)
    assert bench.launcher.reap(processes[0]) is None
    bench.server.end(bench.pods()[0], 0)
    assert ended(bench, processes[0]) == Ended(0, None)


def test_an_end_is_seen_although_the_watch_broke(bench: Bench) -> None:
    processes = bench.begin()
    with bench.server.lock:
        bench.server.break_streams(b'{"type": "MOD')
        bench.server.end(bench.pods()[2], 1)
    assert ended(bench, processes[2]) == Ended(1, None)


def test_a_pod_that_vanished_while_nobody_looked(bench: Bench) -> None:
    processes = bench.begin()
    with bench.server.lock:
        bench.server.break_streams()
        bench.server.remove("pods", bench.pods()[0])
        bench.server.forget_history()
    assert ended(bench, processes[0]) == Ended(None, None)


def test_a_replacement_is_a_pod_of_its_own(bench: Bench) -> None:
    processes = bench.begin()
    bench.server.end(bench.pods()[1], 137)
    ended(bench, processes[1])
    again = bench.start(1, attempt=1)
    (name,) = [n for n in bench.pods() if n.endswith("-s1-a1")]
    (owner,) = bench.server.find("pods", name)["metadata"]["ownerReferences"]
    assert owner["uid"] == bench.server.find("jobsets", owner["name"])["metadata"]["uid"]
    bench.server.run(name)
    bench.server.end(name, 74)
    assert ended(bench, again) == Ended(74, None)


def test_a_replacement_stays_in_the_slice(slices: Bench) -> None:
    slices.launcher.announce(ADDRESS, 8)
    processes = [slices.start(slot) for slot in range(8)]
    server = slices.server
    labels = {manifests.NODE_POOL: "pool-7"}
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-5", "labels": labels}}
    server.add("/api/v1/nodes", node)
    (lost,) = [n for n in slices.pods() if "-w-1-1-" in n]
    server.run(lost, node="node-5")
    server.end(lost, 137)
    assert ended(slices, processes[5]) == Ended(None, "SIGKILL")
    slices.start(5, attempt=1)
    (name,) = [n for n in slices.pods() if n.endswith("-s5-a1")]
    spec = server.find("pods", name)["spec"]
    assert spec["nodeSelector"][manifests.NODE_POOL] == "pool-7"
    assert spec["hostname"] == lost.rpartition("-")[0]


def test_a_service_starts_before_the_set(bench: Bench) -> None:
    bench.launcher.announce(ADDRESS, 2)
    bench.start(1000)
    (name,) = bench.pods()
    assert "ownerReferences" not in bench.server.find("pods", name)["metadata"]
    assert bench.server.names("jobsets") == []
    bench.start(0)
    bench.start(1)
    assert len(bench.server.names("jobsets")) == 1


def test_where_a_worker_is_reached_is_known_beforehand(slices: Bench) -> None:
    with pytest.raises(HarnessError, match="no job was announced"):
        slices.launcher.host(0)
    slices.launcher.announce(ADDRESS, 4)
    name = slices.launcher.host(3)
    host, subdomain, rest = name.split(".", 2)
    assert rest == "bench.svc.cluster.local"
    for slot in range(4):
        slices.start(slot)
    assert subdomain in slices.server.names("jobsets")
    assert slices.server.find("jobsets", subdomain)["spec"]["network"]["subdomain"] == subdomain
    assert host in [slices.server.find("pods", n)["spec"]["hostname"] for n in slices.pods()]
    slices.start(1002)
    (service,) = [n for n in slices.pods() if "-s1002-" in n]
    spec = slices.server.find("pods", service)["spec"]
    assert slices.launcher.host(1002).startswith(f"{spec['hostname']}.{spec['subdomain']}.")


def test_a_job_that_nobody_announced(bench: Bench) -> None:
    with pytest.raises(HarnessError, match="no job was announced"):
        bench.start(0)
    bench.begin(1)
    with pytest.raises(HarnessError, match="started before"):
        bench.start(0)


def test_signals_are_sent_to_what_runs(bench: Bench) -> None:
    processes = bench.begin()
    name = bench.pods()[1]
    bench.server.run(name)
    bench.seen(processes[0], bench.pods()[0])
    bench.launcher.signal(processes[1], signal.SIGSTOP)
    assert bench.sent.get(timeout=20) == (name, signal.SIGSTOP)
    bench.launcher.signal(processes[1], signal.SIGKILL)
    assert bench.sent.get(timeout=20) == (name, signal.SIGKILL)
    assert bench.launcher.reap(processes[0]) is not None
    bench.launcher.signal(processes[0], signal.SIGKILL)  # it has ended: no error
    assert bench.sent.empty()


@pytest.mark.parametrize("runs", [True, False])
def test_what_cannot_be_killed_is_deleted(bench: Bench, runs: bool) -> None:
    """A pod that waits for a node, and one in which no command can be run."""
    processes = bench.begin()
    name = bench.pods()[0]
    if runs:
        bench.refuses.set()
        bench.server.run(name)
        bench.seen(processes[1], bench.pods()[1])
    bench.launcher.signal(processes[0], signal.SIGKILL)
    assert ended(bench, processes[0]) == Ended(None, None)
    assert name not in bench.pods()


def test_the_same_grace_as_kubectl(bench: Bench) -> None:
    processes = bench.begin()
    bench.seen(processes[2], bench.pods()[2])
    bench.launcher.delete_pod(processes[0], None)
    options = bench.server.bodies[-1]
    assert "gracePeriodSeconds" not in options
    assert not readable(processes[0], 0)
    bench.launcher.delete_pod(processes[1], 0)
    assert bench.server.bodies[-1]["gracePeriodSeconds"] == 0
    assert ended(bench, processes[1]) == Ended(None, None)


def test_an_eviction(bench: Bench) -> None:
    processes = bench.begin()
    name = bench.pods()[0]
    bench.server.run(name)
    bench.seen(processes[1], bench.pods()[1])
    bench.launcher.evict_pod(processes[0])
    assert bench.server.calls[-1] == ("POST", f"{PODS}/{name}/eviction")
    bench.server.end(name, 143)
    assert ended(bench, processes[0]) == Ended(None, "SIGTERM")
    assert "EvictionByEvictionAPI" in processes[0].log.read_text(encoding="utf-8")


def test_a_drain_and_its_end(bench: Bench) -> None:
    processes = bench.begin()
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-1"}, "spec": {}}
    bench.server.add("/api/v1/nodes", node)
    for name in bench.pods()[:2]:
        bench.server.run(name, node="node-1")
    bench.server.run(bench.pods()[2], node="node-2")
    bench.seen(processes[2], bench.pods()[2])
    assert bench.launcher.on_node_of(processes[0]) == processes[:2]
    assert bench.launcher.drain_node(processes[0]) == 2
    assert bench.server.find("nodes", "node-1")["spec"]["unschedulable"] is True
    bench.launcher.release_nodes()
    assert bench.server.find("nodes", "node-1")["spec"]["unschedulable"] is False


def test_nothing_stays(bench: Bench) -> None:
    processes = bench.begin()
    bench.start(1, attempt=1)
    bench.launcher.close()
    assert [bench.server.names(k) for k in ("jobsets", "pods", "secrets")] == [[], [], []]
    for process in processes:
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(process.fd)


def test_the_job_before_goes_when_another_one_begins(bench: Bench) -> None:
    for process, name in zip(bench.begin(), bench.pods(), strict=True):
        bench.server.end(name, 0)
        ended(bench, process)
    (first,) = bench.server.names("jobsets")
    other = "tcp://10.0.0.7:20002"
    bench.launcher.announce(other, 1)
    bench.start(0, address=other)
    (second,) = bench.server.names("jobsets")
    assert second != first
    assert len(bench.pods()) == 1


def test_a_cluster_that_is_lost_ends_the_wait(bench: Bench) -> None:
    processes = bench.begin()
    with bench.server.lock:
        bench.server.next("GET", "watch=1", lambda h: h.refuse(401, "Unauthorized", "expired"))
        bench.server.break_streams()
    assert readable(processes[0])
    with pytest.raises(HarnessError, match=r"cannot be followed any more: .*expired"):
        bench.launcher.reap(processes[0])
    with pytest.raises(HarnessError, match="cannot be followed any more"):
        bench.start(1, attempt=1)


def test_what_another_supervisor_left_is_removed(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only on this host, only ours, and only where that supervisor no longer runs."""
    bench.begin(1)
    gone = {**bench.server.find("pods", bench.pods()[0])["metadata"]["labels"]}
    for name, changes in {
        "left": {manifests.OWNER: "999999999-1"},
        "elsewhere": {manifests.OWNER: "999999999-1", manifests.HOST: "another"},
        "theirs": {manifests.OWNER: "999999999-1", manifests.MANAGED_BY: "helm"},
    }.items():
        metadata = {"name": name, "namespace": "bench", "labels": {**gone, **changes}}
        spec = {"containers": [{"name": "c", "image": "i"}]}
        item = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
        bench.server.add(PODS, item)
    assert bench.cluster.sweep() == 1
    assert {"elsewhere", "theirs"} < set(bench.pods())
    assert "left" not in bench.pods()
    assert len(bench.pods()) == 3
    assert bench.cluster.sweep() == 0
