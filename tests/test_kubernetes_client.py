"""Requests and watches against a server that plays the API, and misbehaves."""

from __future__ import annotations

import json
import queue
import socket
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from recoverybench.errors import UsageError
from recoverybench.launchers._kubernetes import access, api
from recoverybench.launchers._kubernetes.api import Api, ApiError, Connection
from recoverybench.launchers._kubernetes.watching import PATIENCE, Watching
from tests.kubernetes_api import Cluster, serving

PODS = "/api/v1/namespaces/bench/pods"

urllib3: Any = pytest.importorskip("urllib3")
pytest.importorskip("kubernetes_validate")


class Pauses(threading.Event):
    """Does not wait, and remembers for how long it was asked to."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[float] = []

    def wait(self, timeout: float | None = None) -> bool:
        self.asked.append(timeout or 0.0)
        return self.is_set()


@pytest.fixture
def cluster() -> Iterator[tuple[Cluster, str]]:
    with serving() as made:
        yield made


def client(url: str, stop: threading.Event | None = None) -> Api:
    return Api(Connection(url, urllib3.PoolManager(), dict), stop or Pauses())


def pod(name: str = "one", **labels: str) -> dict[str, Any]:
    metadata = {"name": name, "namespace": "bench", "labels": {"ours": "yes", **labels}}
    spec = {"containers": [{"name": "worker", "image": "x"}]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


# Requests


def test_objects_come_and_go(cluster: tuple[Cluster, str]) -> None:
    server, url = cluster
    ours = client(url)
    assert ours.create(PODS, pod())["metadata"]["uid"]
    assert [p["metadata"]["name"] for p in ours.get(PODS)["items"]] == ["one"]
    assert ours.get(PODS, labelSelector="ours=no")["items"] == []
    assert ours.delete(f"{PODS}/one", access.deletion(0))
    assert not ours.delete(f"{PODS}/one", access.deletion(0))
    assert server.invalid == []


@pytest.mark.parametrize("status", [429, 500, 503])
def test_a_refusal_that_passes_is_retried(cluster: tuple[Cluster, str], status: int) -> None:
    server, url = cluster
    pauses = Pauses()
    for _ in range(3):
        server.next("POST", PODS, lambda h: h.refuse(status, "TooBusy"))
    client(url, pauses).create(PODS, pod())
    assert server.names("pods") == ["one"]
    assert len(pauses.asked) == 3
    assert pauses.asked == sorted(pauses.asked), "each pause is longer"


def test_the_server_says_how_long_to_wait(cluster: tuple[Cluster, str]) -> None:
    server, url = cluster
    pauses = Pauses()
    server.next("GET", PODS, lambda h: h.refuse(429, "TooManyRequests", Retry_After="3"))
    client(url, pauses).get(PODS)
    assert len(pauses.asked) == 1
    assert 3.0 <= pauses.asked[0] <= 3.0 * 1.2


def test_nobody_waits_for_days(cluster: tuple[Cluster, str]) -> None:
    server, url = cluster
    pauses = Pauses()
    server.next("GET", PODS, lambda h: h.refuse(429, "TooManyRequests", Retry_After="999999999"))
    client(url, pauses).get(PODS)
    assert pauses.asked[0] <= 12.0


def test_retries_are_bounded(cluster: tuple[Cluster, str]) -> None:
    server, url = cluster
    for _ in range(50):
        server.next("GET", PODS, lambda h: h.refuse(500, "InternalError", "etcd is gone"))
    with pytest.raises(ApiError, match=r"HTTP 500: etcd is gone"):
        client(url).get(PODS)
    assert len(server.calls) == api.TRIES


def test_nothing_is_retried_after_the_end(cluster: tuple[Cluster, str]) -> None:
    server, url = cluster
    stop = Pauses()
    stop.set()
    server.next("GET", PODS, lambda h: h.refuse(500, "InternalError"))
    with pytest.raises(ApiError, match="given up at the end"):
        client(url, stop).get(PODS)
    assert len(server.calls) == 1


@pytest.mark.parametrize("status", [400, 401, 403, 404, 422])
def test_other_refusals_are_final(cluster: tuple[Cluster, str], status: int) -> None:
    server, url = cluster
    server.next("POST", PODS, lambda h: h.refuse(status, "Invalid", "line one\nline two"))
    with pytest.raises(ApiError, match="line one line two") as caught:
        client(url).create(PODS, pod())
    assert caught.value.status == status
    assert len(server.calls) == 1


def test_what_was_made_before_the_answer_was_lost_is_ours(cluster: tuple[Cluster, str]) -> None:
    server, url = cluster

    def lose(handler: Any) -> bool:
        server.add(PODS, pod())
        return bool(handler.hang_up())

    server.next("POST", PODS, lose)
    made = client(url).create(PODS, pod())
    assert made["metadata"]["uid"] == server.find("pods", "one")["metadata"]["uid"]


def test_what_somebody_else_made_is_not(cluster: tuple[Cluster, str]) -> None:
    server, url = cluster
    theirs = pod()
    theirs["metadata"]["labels"] = {"ours": "no"}
    server.add(PODS, theirs)
    with pytest.raises(ApiError, match=r"pods/one is there already, and is not this run's"):
        client(url).create(PODS, pod())


def test_an_object_without_a_name_is_not_made_twice(cluster: tuple[Cluster, str]) -> None:
    server, url = cluster
    nameless = pod()
    del nameless["metadata"]["name"]
    server.next("POST", PODS, lambda h: h.hang_up())
    with pytest.raises(ApiError, match="cannot be repeated"):
        client(url).create(PODS, nameless)


def test_an_answer_that_is_none(cluster: tuple[Cluster, str]) -> None:
    server, url = cluster

    def nonsense(handler: Any) -> bool:
        handler.send_response(200)
        handler.send_header("Content-Length", "4")
        handler.end_headers()
        handler.wfile.write(b"<ht>")
        return True

    for _ in range(api.TRIES):
        server.next("GET", PODS, nonsense)
    with pytest.raises(ApiError, match="not an answer"):
        client(url).get(PODS)


def test_an_eviction_that_a_budget_forbids_is_not_repeated(cluster: tuple[Cluster, str]) -> None:
    server, url = cluster
    message = "Cannot evict pod as it would violate the pod's disruption budget."
    server.next("POST", "eviction", lambda h: h.refuse(429, "TooManyRequests", message))
    with pytest.raises(ApiError, match="disruption budget") as caught:
        client(url).evict(f"{PODS}/one/eviction", access.eviction("one", "bench"))
    assert caught.value.status == 429
    assert len(server.calls) == 1


def test_a_server_that_is_not_there() -> None:
    with pytest.raises(ApiError, match=r"^http://127\.0\.0\.1:1: GET /version: ") as caught:
        client("http://127.0.0.1:1").get("/version")
    assert caught.value.status == 0
    assert "\n" not in str(caught.value)


def test_a_server_that_takes_connections_and_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(api, "_REACH_S", 0.05)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"http://127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(ApiError, match=r"GET /version: .*timed out"):
            client(address).reach()
        silent.settimeout(1)
        for _ in range(api._REACH_TRIES):
            silent.accept()[0].close()
        silent.settimeout(0)
        with pytest.raises(BlockingIOError):
            silent.accept()


# Finding the cluster


def test_the_package_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "kubernetes", None)
    monkeypatch.setitem(sys.modules, "kubernetes.config", None)
    with pytest.raises(UsageError, match=r"pip install 'recoverybench\[kubernetes\]'"):
        api.connect(None)


def test_there_is_no_cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("kubernetes")
    config: Any = sys.modules.get("kubernetes.config.kube_config") or api.module(
        "kubernetes.config.kube_config"
    )
    monkeypatch.setattr(config, "KUBE_CONFIG_DEFAULT_LOCATION", str(tmp_path / "none"))
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    with pytest.raises(
        UsageError, match=r"neither a kubeconfig .* nor a pod's service account"
    ) as e:
        api.connect(None)
    assert "\n" not in str(e.value)
    with pytest.raises(UsageError, match="context = 'nowhere': expected a context"):
        api.connect("nowhere")


def test_the_kubeconfig_is_used(
    cluster: tuple[Cluster, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("kubernetes")
    server, url = cluster
    config: Any = api.module("kubernetes.config.kube_config")
    file = tmp_path / "config"
    file.write_text(
        json.dumps(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "current-context": "here",
                "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u"}}],
                "clusters": [{"name": "c", "cluster": {"server": url}}],
                "users": [{"name": "u", "user": {"token": "a-token"}}],
            }
        ),
        encoding="utf-8",
    )
    monkeypatch.setattr(config, "KUBE_CONFIG_DEFAULT_LOCATION", str(file))
    connection, made = api.connect(None)
    heard: list[str] = []

    def note(handler: Any) -> bool:
        heard.append(handler.headers.get("Authorization"))
        return False

    server.next("GET", "/version", note)
    try:
        assert Api(connection).get("/version")["major"] == "1"
        assert heard == ["Bearer a-token"]
    finally:
        made.rest_client.pool_manager.clear()


def test_the_address_by_which_a_server_is_reached() -> None:
    assert api.own_address("https://127.0.0.1:6443") == "127.0.0.1"
    with pytest.raises(UsageError, match=r"expected a cluster that can be reached"):
        api.own_address("https://no-such-host.invalid")


# Watches


class Heard:
    """What a watch told, as (name, deleted, version), and whether it was lost."""

    def __init__(self, url: str) -> None:
        self.events: queue.SimpleQueue[tuple[str, bool]] = queue.SimpleQueue()
        self.lost: queue.SimpleQueue[str] = queue.SimpleQueue()
        self.api = client(url, threading.Event())
        self.watching = Watching(
            self.api,
            PODS,
            "ours=yes",
            lambda item, deleted: self.events.put((item["metadata"]["name"], deleted)),
            self.lost.put,
        )

    def next(self) -> tuple[str, bool]:
        return self.events.get(timeout=20)


@pytest.fixture
def watch(cluster: tuple[Cluster, str]) -> Iterator[tuple[Cluster, Heard]]:
    server, url = cluster
    server.add(PODS, pod("first"))
    heard = Heard(url)
    assert heard.next() == ("first", False)
    assert server.watching.acquire(timeout=20)
    yield server, heard
    heard.watching.close()


def test_a_watch_tells_what_happens(watch: tuple[Cluster, Heard]) -> None:
    server, heard = watch
    server.add(PODS, pod("second"))
    assert heard.next() == ("second", False)
    server.add(PODS, pod("theirs", ours="no"))
    server.remove("pods", "second")
    assert heard.next() == ("second", True)
    assert heard.events.empty()


@pytest.mark.parametrize("rest", [b"", b'{"type": "MODIFIED", "object": {"metadata": {"na'])
def test_a_broken_stream_is_resumed(watch: tuple[Cluster, Heard], rest: bytes) -> None:
    """From the last whole line, in the middle of one or not; nothing is missed or told twice."""
    server, heard = watch
    for number in range(5):
        server.break_streams(rest)
        server.add(PODS, pod(f"more-{number}"))
        assert heard.next() == (f"more-{number}", False)
        assert server.watching.acquire(timeout=20)
    assert heard.events.empty()


def test_a_version_that_is_gone_is_listed_anew(watch: tuple[Cluster, Heard]) -> None:
    """410 as the answer: what is missing in the new list was deleted meanwhile."""
    server, heard = watch
    with server.lock:
        server.break_streams()
        server.add(PODS, pod("new"))
        del server.objects[f"{PODS}/first"]
        server.forget_history()
    assert {heard.next(), heard.next()} == {("first", True), ("new", False)}


def test_a_version_that_is_gone_in_the_stream(watch: tuple[Cluster, Heard]) -> None:
    """410 as an event, which is how a server says it once it has begun to answer."""
    server, heard = watch
    status = {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"}
    with server.lock:
        server.say(json.dumps({"type": "ERROR", "object": status}).encode() + b"\n")
        del server.objects[f"{PODS}/first"]
        server.forget_history()
        server.break_streams()
    assert heard.next() == ("first", True)


@pytest.mark.parametrize("status", [429, 500])
def test_a_watch_that_is_refused_is_tried_again(watch: tuple[Cluster, Heard], status: int) -> None:
    server, heard = watch
    with server.lock:
        server.next("GET", "watch=1", lambda h: h.refuse(status, "TooBusy"))
        server.break_streams()
        server.add(PODS, pod("second"))
    assert heard.next() == ("second", False)


def test_nonsense_in_a_watch_is_survived(watch: tuple[Cluster, Heard]) -> None:
    server, heard = watch
    with server.lock:
        server.say(b"nonsense\n")
        server.break_streams()
        server.add(PODS, pod("second"))
    assert heard.next() == ("second", False)


def test_bookmarks_move_on(watch: tuple[Cluster, Heard]) -> None:
    server, heard = watch
    item = {"kind": "Pod", "metadata": {"resourceVersion": "5000"}}
    with server.lock:
        server.say(json.dumps({"type": "BOOKMARK", "object": item}).encode() + b"\n")
        server.break_streams()
    assert server.watching.acquire(timeout=20)
    assert server.queries[-1]["resourceVersion"] == "5000"
    assert heard.events.empty()


def test_who_may_not_watch_is_told(watch: tuple[Cluster, Heard]) -> None:
    server, heard = watch
    with server.lock:
        server.next("GET", "watch=1", lambda h: h.refuse(403, "Forbidden", "no longer yours"))
        server.break_streams()
    assert "no longer yours" in heard.lost.get(timeout=20)


def test_a_server_that_is_gone_for_good_is_given_up(
    watch: tuple[Cluster, Heard], monkeypatch: pytest.MonkeyPatch
) -> None:
    server, heard = watch
    monkeypatch.setattr(heard.watching, "_stop", Pauses())
    with server.lock:
        for _ in range(PATIENCE + 1):
            server.next("GET", "watch=1", lambda h: h.refuse(500, "InternalError", "etcd"))
        server.break_streams()
    assert "etcd" in heard.lost.get(timeout=20)


def test_an_ended_watch_tells_nothing_more(cluster: tuple[Cluster, str]) -> None:
    server, url = cluster
    heard = Heard(url)
    assert server.watching.acquire(timeout=20)
    heard.watching.close()
    assert not heard.watching._thread.is_alive()
    server.add(PODS, pod())
    assert heard.events.empty()
