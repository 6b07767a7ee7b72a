"""Whose things in a cluster are whose: owners, leftovers, and two runs at once."""

from __future__ import annotations

import datetime
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from recoverybench import leftovers
from recoverybench.launchers._kubernetes import api, manifests, ourselves
from recoverybench.launchers._kubernetes.api import Api, Connection
from recoverybench.launchers._kubernetes.ourselves import Ourselves
from tests.kubernetes_api import Cluster, serving
from tests.kubernetes_bench import ADDRESS as BENCH_ADDRESS
from tests.kubernetes_bench import ME, PODS, Bench

urllib3: Any = pytest.importorskip("urllib3")

GONE = "999999999-1"
ADDRESS = "10.0.0.7"


@pytest.fixture
def server() -> Iterator[tuple[Cluster, str]]:
    with serving() as made:
        yield made
        assert made[0].invalid == []


def root(path: Path, namespace: str | None = "bench", machine: str = "m1", pids: int = 1) -> Path:
    """A file system as a supervisor sees it."""
    if namespace is not None:
        secrets = path / "var/run/secrets/kubernetes.io/serviceaccount"
        secrets.mkdir(parents=True)
        (secrets / "namespace").write_text(namespace, encoding="utf-8")
    (path / "etc").mkdir(parents=True)
    (path / "etc/machine-id").write_text(f"{machine}\n", encoding="utf-8")
    (path / "proc/self/ns").mkdir(parents=True)
    (path / "proc/self/ns/pid").symlink_to(f"pid:[{pids}]")
    return path


def a_pod(name: str, address: str = ADDRESS) -> dict[str, Any]:
    spec = {"containers": [{"name": "c", "image": "i"}]}
    metadata = {"name": name, "namespace": "bench"}
    item = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
    return {**item, "status": {"podIP": address, "podIPs": [{"ip": address}]}}


def find(url: str, where: Path, address: str = ADDRESS) -> Ourselves:
    return ourselves.find(
        Api(Connection(url, urllib3.PoolManager(), dict)), "bench", address, where
    )


def test_the_pod_of_a_supervisor_owns_all_that_it_makes(
    server: tuple[Cluster, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster, url = server
    monkeypatch.setattr(socket, "gethostname", lambda: "supervisor-7x")
    pod = cluster.add(PODS, a_pod("supervisor-7x"))
    me = find(url, root(tmp_path / "root"))
    uid = pod["metadata"]["uid"]
    assert me.owner == {"apiVersion": "v1", "kind": "Pod", "name": "supervisor-7x", "uid": uid}
    bench = Bench(cluster, url, tmp_path, me)
    bench.launcher.announce(BENCH_ADDRESS, 2)
    for slot in (1000, 0, 1):
        bench.start(slot)
    for kind in ("jobsets", "secrets"):
        (name,) = cluster.names(kind)
        assert cluster.find(kind, name)["metadata"]["ownerReferences"] == [me.owner]
    (service,) = [n for n in cluster.names("pods") if "-s1000-" in n]
    assert cluster.find("pods", service)["metadata"]["ownerReferences"] == [me.owner]
    cluster.remove("pods", "supervisor-7x")
    cluster.collect(uid)
    assert cluster.names("jobsets") == []
    bench.launcher.close()


@pytest.mark.parametrize(
    ("namespace", "name", "address"),
    [
        (None, "supervisor", ADDRESS),  # no pod at all
        ("other", "supervisor", ADDRESS),  # an owner elsewhere would have all deleted at once
        ("bench", "another", ADDRESS),  # the host's network, and its name
        ("bench", "supervisor", "10.9.9.9"),  # somebody else has that name here
    ],
)
def test_what_is_no_pod_of_ours_owns_nothing(
    server: tuple[Cluster, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    namespace: str | None,
    name: str,
    address: str,
) -> None:
    cluster, url = server
    cluster.add(PODS, a_pod(name, address))
    monkeypatch.setattr(socket, "gethostname", lambda: "supervisor")
    me = find(url, root(tmp_path, namespace))
    assert me.owner is None
    assert me.owners == {}
    assert me.host.startswith("supervisor-")


def test_machines_of_one_name_are_told_apart(
    server: tuple[Cluster, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, url = server
    monkeypatch.setattr(socket, "gethostname", lambda: "localhost.localdomain" + "x" * 60)
    places = {"a": ("m1", 1), "b": ("m2", 1), "c": ("m1", 2)}
    hosts = [find(url, root(tmp_path / n, None, *p)).host for n, p in places.items()]
    assert len(set(hosts)) == 3
    assert all(len(host) <= 63 for host in hosts)
    assert find(url, tmp_path / "a").host == hosts[0], "the next start knows itself again"
    assert find(url, tmp_path / "nothing").host.startswith("localhost")


def left(cluster: Cluster, name: str, **labels: str) -> None:
    metadata = {"name": name, "namespace": "bench"}
    base = {manifests.MANAGED_BY: manifests.MANAGER, manifests.HOST: ME.host}
    spec = {"containers": [{"name": "c", "image": "i"}]}
    item = {"apiVersion": "v1", "kind": "Pod", "spec": spec}
    cluster.add(PODS, {**item, "metadata": {**metadata, "labels": {**base, **labels}}})


def test_two_runs_at_once_leave_each_other_alone(
    server: tuple[Cluster, str], tmp_path: Path
) -> None:
    """In one namespace: from one machine, and from another one of the same name."""
    cluster, url = server
    one, two = (Bench(cluster, url, tmp_path / n, me) for n, me in (("1", ME), ("2", ME)))
    for bench in (one, two):
        bench.path.mkdir(exist_ok=True)
        bench.begin()
    left(cluster, "of-another-machine", **{manifests.HOST: "here-00000000", manifests.OWNER: GONE})
    before = cluster.names("pods")
    assert one.cluster.sweep() == 0, "whoever made them still runs"
    assert cluster.names("pods") == before
    one.launcher.close()
    assert len(cluster.names("jobsets")) == 1
    assert len(cluster.names("pods")) == 4
    two.launcher.close()
    assert cluster.names("pods") == ["of-another-machine"]


def test_a_node_that_a_killed_supervisor_closed_is_opened(
    server: tuple[Cluster, str], tmp_path: Path
) -> None:
    cluster, url = server
    marks = {
        "left": {manifests.HOST: ME.host, manifests.OWNER: GONE},
        "in-use": {manifests.HOST: ME.host, manifests.OWNER: leftovers.owner_mark()},
        "theirs": {},
    }
    for name, labels in marks.items():
        metadata = {"name": name, "labels": labels}
        item = {"apiVersion": "v1", "kind": "Node", "metadata": metadata}
        cluster.add("/api/v1/nodes", {**item, "spec": {"unschedulable": True}})
    bench = Bench(cluster, url, tmp_path)
    assert bench.cluster.sweep() == 1
    closed = {n: cluster.find("nodes", n)["spec"]["unschedulable"] for n in marks}
    assert closed == {"left": False, "in-use": True, "theirs": True}
    cluster.next("GET", "/nodes", lambda h: h.refuse(403, "Forbidden"))
    assert bench.cluster.sweep() == 0
    bench.launcher.close()


def test_one_kind_that_cannot_be_deleted_keeps_no_other(
    server: tuple[Cluster, str], tmp_path: Path
) -> None:
    cluster, url = server
    bench = Bench(cluster, url, tmp_path)
    bench.begin()
    cluster.next("GET", "jobsets", lambda h: h.refuse(403, "Forbidden", "not yours any more"))
    bench.launcher.close()
    assert cluster.names("pods") == []
    assert cluster.names("secrets") == []
    log = (tmp_path / "launcher.log").read_text(encoding="utf-8")
    assert "left behind" in log
    assert "not yours any more" in log


def test_a_token_that_is_renewed_is_read_again(
    server: tuple[Cluster, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pod's token is replaced on disk before it expires, in less than an hour."""
    pytest.importorskip("kubernetes")
    incluster: Any = api.module("kubernetes.config.incluster_config")
    _, url = server
    token, certificate = tmp_path / "token", tmp_path / "ca.crt"
    token.write_text("first", encoding="utf-8")
    certificate.write_text("-", encoding="utf-8")
    host, port = url.removeprefix("http://").split(":")
    places = {"KUBERNETES_SERVICE_HOST": host, "KUBERNETES_SERVICE_PORT": port}
    loader = incluster.InClusterConfigLoader(str(token), str(certificate), environ=places)

    def load(client_configuration: Any) -> None:
        loader.load_and_set(client_configuration)
        client_configuration.ssl_ca_cert = None
        loader.ssl_ca_cert = None

    def no_file(**_: Any) -> None:
        raise incluster.ConfigException("no kubeconfig")

    monkeypatch.setattr("kubernetes.config.load_kube_config", no_file)
    monkeypatch.setattr("kubernetes.config.load_incluster_config", load)
    connection, made = api.connect(None)
    assert connection.headers() == {"authorization": "bearer first"}
    token.write_text("second", encoding="utf-8")
    assert connection.headers() == {"authorization": "bearer first"}, "looked at once a minute"
    loader.token_expires_at -= datetime.timedelta(minutes=2)
    assert connection.headers() == {"authorization": "bearer second"}
    made.rest_client.pool_manager.clear()
