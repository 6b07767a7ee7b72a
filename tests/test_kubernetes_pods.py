"""The launcher against a server that plays the API: what it makes, sees, signals and leaves."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from recoverybench import leftovers
from recoverybench.errors import HarnessError
from recoverybench.launchers._kubernetes import manifests
from recoverybench.launchers.base import Announced, Ended, Hosts
from tests.kubernetes_api import serving
from tests.kubernetes_bench import ADDRESS, ME, PODS, TPU, Bench, ended, readable


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
        made = Bench(server, url, tmp_path, of=TPU)
        yield made
        made.launcher.close()
        assert server.invalid == []


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
    assert ended(bench, processes[1]) == Ended(None, "SIGKILL", seen=False)
    assert "OOMKilled" in processes[1].log.read_text(encoding="utf-8")
    assert not readable(processes[0], 0)
    assert bench.launcher.reap(processes[0]) is None
    bench.server.end(bench.pods()[0], 0)
    assert ended(bench, processes[0]) == Ended(0, None, seen=False)


def test_an_end_is_seen_although_the_watch_broke(bench: Bench) -> None:
    processes = bench.begin()
    with bench.server.lock:
        bench.server.break_streams(b'{"type": "MOD')
        bench.server.end(bench.pods()[2], 1)
    assert ended(bench, processes[2]) == Ended(1, None, seen=False)


def test_a_pod_that_vanished_while_nobody_looked(bench: Bench) -> None:
    processes = bench.begin()
    with bench.server.lock:
        bench.server.break_streams()
        bench.server.remove("pods", bench.pods()[0])
        bench.server.forget_history()
    assert ended(bench, processes[0]) == Ended(None, None, seen=False)


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
    assert ended(bench, again) == Ended(74, None, seen=False)


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
    assert ended(slices, processes[5]) == Ended(None, "SIGKILL", seen=False)
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
    assert ended(bench, processes[0]) == Ended(None, None, seen=False)
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
    assert ended(bench, processes[1]) == Ended(None, None, seen=False)


def test_an_eviction(bench: Bench) -> None:
    processes = bench.begin()
    name = bench.pods()[0]
    bench.server.run(name)
    bench.seen(processes[1], bench.pods()[1])
    bench.launcher.evict_pod(processes[0])
    assert bench.server.calls[-1] == ("POST", f"{PODS}/{name}/eviction")
    bench.server.end(name, 143)
    assert ended(bench, processes[0]) == Ended(None, "SIGTERM", seen=False)
    assert "EvictionByEvictionAPI" in processes[0].log.read_text(encoding="utf-8")


def node(bench: Bench, name: str = "node-1", **spec: object) -> None:
    item = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "spec": spec}
    bench.server.add("/api/v1/nodes", item)


def test_a_drain_and_its_end(bench: Bench) -> None:
    """Of the job's pods on the node, and of nobody else's: the supervisor's own may be there."""
    processes = bench.begin()
    node(bench)
    metadata = {"name": "supervisor", "namespace": "bench"}
    spec = {"containers": [{"name": "c", "image": "i"}], "nodeName": "node-1"}
    bench.server.add(PODS, {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
    jobs = [name for name in bench.pods() if name != "supervisor"]
    for name in jobs[:2]:
        bench.server.run(name, node="node-1")
    bench.server.run(jobs[2], node="node-2")
    bench.seen(processes[2], jobs[2])
    assert bench.launcher.on_node_of(processes[0]) == processes[:2]
    assert bench.launcher.drain_node(processes[0]) == 2
    evicted = [p for method, p in bench.server.calls if method == "POST" and "/eviction" in p]
    assert evicted == [f"{PODS}/{name}/eviction" for name in jobs[:2]]
    closed = bench.server.find("nodes", "node-1")
    assert closed["spec"]["unschedulable"] is True
    assert closed["metadata"]["labels"][manifests.HOST] == ME.host
    bench.launcher.release_nodes()
    opened = bench.server.find("nodes", "node-1")
    assert opened["spec"]["unschedulable"] is False
    assert opened["metadata"]["labels"] == {}


def test_a_node_that_somebody_else_closed_stays_closed(bench: Bench) -> None:
    processes = bench.begin()
    node(bench, unschedulable=True)
    bench.server.run(bench.pods()[0], node="node-1")
    bench.seen(processes[1], bench.pods()[1])
    assert bench.launcher.drain_node(processes[0]) == 1
    bench.launcher.release_nodes()
    assert bench.server.find("nodes", "node-1")["spec"]["unschedulable"] is True


def test_a_node_that_cannot_be_opened_is_tried_again(bench: Bench) -> None:
    processes = bench.begin()
    node(bench)
    bench.server.run(bench.pods()[0], node="node-1")
    bench.seen(processes[1], bench.pods()[1])
    bench.launcher.drain_node(processes[0])
    bench.server.next("PATCH", "node-1", lambda h: h.refuse(403, "Forbidden", "no"))
    bench.launcher.release_nodes()
    assert "kubectl uncordon node-1" in (bench.path / "launcher.log").read_text(encoding="utf-8")
    assert bench.server.find("nodes", "node-1")["spec"]["unschedulable"] is True
    bench.launcher.close()
    assert bench.server.find("nodes", "node-1")["spec"]["unschedulable"] is False


def test_workers_without_a_node_share_none(bench: Bench) -> None:
    processes = bench.begin()
    assert bench.launcher.on_node_of(processes[0]) == processes[:1]
    bench.seen(processes[1], bench.pods()[1])
    with pytest.raises(HarnessError, match=r"on no node yet|has no pod"):
        bench.launcher.drain_node(processes[0])


def test_a_pod_that_is_gone_cannot_be_deleted(bench: Bench) -> None:
    """Nor one that has its name by now: the trial would be measured from nothing."""
    processes = bench.begin()
    name = bench.pods()[0]
    bench.server.run(name)
    bench.seen(processes[1], bench.pods()[1])
    bench.server.next("DELETE", name, lambda h: h.refuse(404, "NotFound"))
    with pytest.raises(HarnessError, match="was gone before it could be deleted"):
        bench.launcher.delete_pod(processes[0], 0)
    bench.launcher.delete_pod(processes[0], 0)
    uid = bench.server.bodies[-1]["preconditions"]["uid"]
    assert uid.startswith("uid-")
    assert ended(bench, processes[0]) == Ended(None, None, seen=False)


def test_a_signal_reaches_what_the_api_does_not_know_to_run(bench: Bench) -> None:
    processes = bench.begin()
    name = bench.pods()[0]
    bench.seen(processes[1], bench.pods()[1])
    with bench.server.lock:  # the kubelet has not said so yet
        bench.server.find("pods", name)["status"] = {"phase": "Running"}
    bench.launcher.signal(processes[0], signal.SIGSTOP)
    assert bench.sent.get(timeout=20) == (name, signal.SIGSTOP)


def test_a_kill_that_ends_its_own_messenger(bench: Bench) -> None:
    """The container takes along the command that ended it: how it ended is in its status."""
    processes = bench.begin()
    name = bench.pods()[0]
    bench.server.run(name)
    bench.seen(processes[1], bench.pods()[1])
    bench.refuses.set()
    bench.launcher.signal(processes[0], signal.SIGKILL)
    bench.server.end(name, 137)
    assert ended(bench, processes[0]) == Ended(None, "SIGKILL", seen=False)
    bench.launcher.close()
    deleted = [p for method, p in bench.server.calls if method == "DELETE" and p.endswith(name)]
    assert len(deleted) <= 1, "only at the end"


def test_what_is_measured_stands_on_every_object(bench: Bench) -> None:
    bench.launcher.measures("mlp:tiny, kill")
    bench.begin()
    bench.start(1, attempt=1)
    for kind in ("jobsets", "pods", "secrets"):
        for name in bench.server.names(kind):
            said = bench.server.find(kind, name)["metadata"]["annotations"]
            assert said[manifests.CELL] == "mlp:tiny, kill", name


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
