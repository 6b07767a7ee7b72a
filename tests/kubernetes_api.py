"""A server that plays a cluster's API for tests: it checks every body against published schemas,
does what the JobSet controller and the kubelet would, and misbehaves on demand.
"""

from __future__ import annotations

import copy
import functools
import itertools
import json
import queue
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

CRD = (
    Path(__file__).resolve().parents[1] / ".." / "shared" / "data" / "jobset.x-k8s.io_jobsets.yaml"
)
_META = "io.k8s.apimachinery.pkg.apis.meta.v1"
JOBSETS = "apis/jobset.x-k8s.io/v1alpha2"

Object = dict[str, Any]


@functools.cache
def _jobset_validator() -> Any:
    jsonschema: Any = pytest.importorskip("jsonschema")
    yaml: Any = pytest.importorskip("yaml")
    if not CRD.is_file():
        return None
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    crd = yaml.load(CRD.read_bytes(), Loader=loader)
    schema = _closed(crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"])
    return jsonschema.Draft202012Validator(schema)


def _closed(schema: Any) -> Any:
    """A server prunes what a structural schema does not name; here that is an error."""
    if isinstance(schema, list):
        return [_closed(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    closed = {key: _closed(value) for key, value in schema.items()}
    if isinstance(closed.get("properties"), dict) and closed.get("type") == "object":
        # `metadata` of the set itself is known to the server, and not in the definition.
        closed.setdefault("additionalProperties", False)
    elif closed.get("type") == "object" and closed.get("x-kubernetes-preserve-unknown-fields"):
        closed["additionalProperties"] = True
    if closed.pop("x-kubernetes-int-or-string", False):
        closed.pop("type", None)
        closed["anyOf"] = [{"type": "integer"}, {"type": "string"}]
    return closed


@functools.cache
def _core_validator(kind: str, api_version: str) -> Any:
    """As `kubernetes_validate.validate` makes it each time anew, strict, for its latest release."""
    validate: Any = pytest.importorskip("kubernetes_validate")
    referencing: Any = pytest.importorskip("referencing")
    jsonschema: Any = pytest.importorskip("jsonschema")
    group = api_version.split("/")
    name = f"{kind.lower()}-{'-'.join([group[0].partition('.')[0], *group[1:]])}.json"
    schemas = files("kubernetes_validate") / "kubernetes-json-schema"
    folder = schemas / f"v{validate.latest_version()}-local-strict"
    definitions = _definitions(str(folder / "_definitions.json"))
    if kind == "DeleteOptions":  # no resource, so it has no file of its own
        schema = {**definitions, "$ref": f"#/$defs/{_META}.DeleteOptions"}
        return jsonschema.Draft202012Validator(schema)
    schema = json.loads((folder / name).read_text())
    registry = referencing.Resource.from_contents(schema) @ referencing.Registry()
    registry = referencing.Resource.from_contents(definitions) @ registry
    return jsonschema.Draft202012Validator(schema, registry=registry)


@functools.cache
def _definitions(path: str) -> Any:
    return json.loads(Path(path).read_text())


def problems(manifest: Object) -> list[str]:
    """What the published schemas have against a manifest."""
    if manifest["kind"] == "JobSet":
        validator = _jobset_validator()
        if validator is None:
            return []
    else:
        validator = _core_validator(manifest["kind"], manifest["apiVersion"])
    return [f"{e.json_path}: {e.message[:200]}" for e in validator.iter_errors(manifest)]


def needs_crd() -> None:
    """Skip where the definition of JobSets is not beside the checkout."""
    if not CRD.is_file():
        pytest.skip("the definition of JobSets is not beside this checkout")


class Cluster:
    """What the server knows; tests change it from their own thread.

    Attributes:
        invalid: what schemas had against bodies. calls: (method, path) of every request.
        denied: rights that a review denies, as ``verb resource``.
        on_pod: called with every pod that is made. on_stop: with the name of one that is deleted
            or evicted, and the grace period that was asked for.
    """

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.objects: dict[str, Object] = {}
        self.version = itertools.count(100)
        self.uids = itertools.count(1)
        self.history: list[tuple[int, str, Object]] = []
        self.oldest = 0
        self.watchers: list[tuple[str, queue.SimpleQueue[bytes | None]]] = []
        self.invalid: list[str] = []
        self.calls: list[tuple[str, str]] = []
        self.queries: list[dict[str, str]] = []
        self.bodies: list[Object] = []
        self.denied: set[str] = set()
        self.answers: list[tuple[str, str, Callable[[Any], bool]]] = []
        self.has_jobset = True
        self.on_pod: Callable[[Object], None] | None = None
        self.on_stop: Callable[[str, int | None], None] | None = None
        self.watching = threading.Semaphore(0)

    # What a test sees and does

    def names(self, kind: str) -> list[str]:
        with self.lock:
            found = [o["metadata"]["name"] for p, o in self.objects.items() if f"/{kind}/" in p]
        return sorted(found)

    def find(self, kind: str, name: str) -> Object:
        with self.lock:
            return next(o for p, o in self.objects.items() if p.endswith(f"/{kind}/{name}"))

    def add(self, path: str, item: Object) -> Object:
        with self.lock:
            name = item["metadata"]["name"]
            item["metadata"]["uid"] = f"uid-{next(self.uids)}"
            self._put(f"{path}/{name}", item, "ADDED")
            return item

    def status(self, pod: str, **status: Any) -> None:
        with self.lock:
            item = self.find("pods", pod)
            item.setdefault("status", {}).update(status)
            self._put(self._path_of(item), item, "MODIFIED")

    def run(self, pod: str, node: str = "node-1") -> None:
        with self.lock:
            self.find("pods", pod)["spec"]["nodeName"] = node
            self.status(pod, phase="Running", containerStatuses=[_container({"running": {}})])

    def end(self, pod: str, code: int, **terminated: Any) -> None:
        with self.lock:
            state = {"terminated": {"exitCode": code, "reason": "Error", **terminated}}
            phase = "Succeeded" if code == 0 else "Failed"
            self.status(pod, phase=phase, containerStatuses=[_container(state)])

    def remove(self, kind: str, name: str) -> None:
        with self.lock:
            item = self.find(kind, name)
            path = self._path_of(item)
            del self.objects[path]
            self._note(path, item, "DELETED")

    def forget_history(self) -> None:
        """Versions up to now are gone: a watch from one of them is answered with 410."""
        with self.lock:
            self.oldest = next(self.version)
            self.history.clear()

    def break_streams(self, rest: bytes = b"") -> None:
        """End every watch, after a last piece that is no whole line."""
        with self.lock:
            for _, sink in self.watchers:
                if rest:
                    sink.put(rest)
                sink.put(None)
            self.watchers.clear()

    def say(self, line: bytes) -> None:
        """Have every watch say that."""
        with self.lock:
            for _, sink in self.watchers:
                sink.put(line)

    def next(self, method: str, part: str, answer: Callable[[Any], bool]) -> None:
        """Have the next request of that method whose path holds that part answered in another way;
        the answer returns whether that was all of it.
        """
        with self.lock:
            self.answers.append((method, part, answer))

    # What the server does

    def _path_of(self, item: Object) -> str:
        return next(p for p, o in self.objects.items() if o is item)

    def _put(self, path: str, item: Object, event: str) -> None:
        item["metadata"]["resourceVersion"] = str(next(self.version))
        self.objects[path] = item
        self._note(path, item, event)

    def _note(self, path: str, item: Object, event: str) -> None:
        if event == "DELETED":
            item["metadata"]["resourceVersion"] = str(next(self.version))
        shown = copy.deepcopy(item)
        self.history.append(
            (int(shown["metadata"]["resourceVersion"]), path, {"type": event, "object": shown})
        )
        line = json.dumps({"type": event, "object": shown}).encode() + b"\n"
        for prefix, sink in self.watchers:
            if path.rpartition("/")[0] == prefix.partition("?")[0] and _selected(
                shown, prefix.partition("?")[2]
            ):
                sink.put(line)

    def make_pods(self, jobset: Object) -> None:
        """What the controllers of JobSets and of Jobs do."""
        name, namespace = jobset["metadata"]["name"], jobset["metadata"]["namespace"]
        for group in jobset["spec"]["replicatedJobs"]:
            job = group["template"]["spec"]
            for replica in range(group["replicas"]):
                for index in range(job["completions"]):
                    indices = {
                        "jobset.sigs.k8s.io/job-index": str(replica),
                        "batch.kubernetes.io/job-completion-index": str(index),
                    }
                    template = copy.deepcopy(job["template"])
                    base = f"{name}-{group['name']}-{replica}-{index}"
                    metadata: Object = {
                        "name": f"{base}-x{index}y",
                        "namespace": namespace,
                        "labels": {**template["metadata"]["labels"], **indices},
                        "annotations": {**template["metadata"]["annotations"], **indices},
                        "ownerReferences": [{"name": name, "uid": jobset["metadata"]["uid"]}],
                    }
                    spec = {**template["spec"], "hostname": base, "subdomain": name}
                    pod: Object = {"apiVersion": "v1", "kind": "Pod"}
                    pod |= {"metadata": metadata, "spec": spec}
                    self.add(f"/api/v1/namespaces/{namespace}/pods", pod)
                    self.status(pod["metadata"]["name"], phase="Pending")
                    if self.on_pod is not None:
                        self.on_pod(pod)

    def stop(self, item: Object, grace_s: int | None) -> None:
        """Tell the kubelet, if there is one."""
        if item["kind"] == "Pod" and self.on_stop is not None:
            self.on_stop(item["metadata"]["name"], grace_s)

    def collect(self, owner: str) -> None:
        """What the garbage collector does."""
        for path, item in list(self.objects.items()):
            owners = item["metadata"].get("ownerReferences") or ()
            if any(o["uid"] == owner for o in owners):
                del self.objects[path]
                self._note(path, item, "DELETED")


def _container(state: Object) -> Object:
    return {"name": "worker", "state": state}


def _selected(item: Object, selector: str) -> bool:
    labels = item["metadata"].get("labels") or {}
    pairs = [pair.partition("=") for pair in selector.split(",") if pair]
    return all(labels.get(key) == value for key, _, value in pairs)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    cluster: Cluster

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def do_GET(self) -> None:
        self._do("GET")

    def do_POST(self) -> None:
        self._do("POST")

    def do_DELETE(self) -> None:
        self._do("DELETE")

    def do_PATCH(self) -> None:
        self._do("PATCH")

    def _do(self, method: str) -> None:
        try:
            self._answer_to(method)
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True
        except Exception as error:
            self.cluster.invalid.append(f"{method} {self.path}: {error!r}")
            raise

    def _answer_to(self, method: str) -> None:
        cluster = self.cluster
        split = urlsplit(self.path)
        query = {key: values[0] for key, values in parse_qs(split.query).items()}
        length = int(self.headers.get("Content-Length") or 0)
        body = json.loads(self.rfile.read(length)) if length else None
        with cluster.lock:
            cluster.calls.append((method, split.path))
            cluster.queries.append(query)
            if body is not None:
                cluster.bodies.append(body)
                if method != "PATCH":
                    cluster.invalid += problems(body)
            other = next((a for a in cluster.answers if a[0] == method and a[1] in self.path), None)
            if other is not None:
                cluster.answers.remove(other)
        if other is not None and other[2](self):
            return
        getattr(self, f"_{method.lower()}")(split.path, query, body)

    def answer(self, status: int, body: Object, **headers: str) -> None:
        content = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(content)

    def refuse(self, status: int, reason: str, message: str = "", **headers: str) -> bool:
        said = {"kind": "Status", "status": "Failure", "reason": reason, "message": message}
        self.answer(status, {**said, "code": status}, **headers)
        return True

    def hang_up(self) -> bool:
        self.close_connection = True
        self.connection.close()
        return True

    def _get(self, path: str, query: dict[str, str], body: None) -> None:
        cluster = self.cluster
        if query.get("watch"):
            self._watch(path, query)
            return
        if path == "/version":
            self.answer(200, {"major": "1", "minor": "37"})
            return
        if path == f"/{JOBSETS}":
            if cluster.has_jobset:
                self.answer(200, {"kind": "APIResourceList", "resources": []})
            else:
                self.refuse(404, "NotFound")
            return
        with cluster.lock:
            if path in cluster.objects:
                found = copy.deepcopy(cluster.objects[path])
            elif path.rpartition("/")[2] in (
                "pods",
                "jobsets",
                "secrets",
                "nodes",
                "persistentvolumeclaims",
            ):
                items = [
                    copy.deepcopy(o)
                    for p, o in cluster.objects.items()
                    if p.rpartition("/")[0] == path and _selected(o, query.get("labelSelector", ""))
                ]
                version = str(next(cluster.version))
                found = {"items": items, "metadata": {"resourceVersion": version}}
            else:
                found = {}
        if found:
            self.answer(200, found)
        else:
            self.refuse(404, "NotFound", f"{path} not found")

    def _watch(self, path: str, query: dict[str, str]) -> None:
        cluster, sink = self.cluster, queue.SimpleQueue[bytes | None]()
        since, selector = int(query["resourceVersion"]), query.get("labelSelector", "")
        with cluster.lock:
            if since < cluster.oldest:
                self.refuse(410, "Expired", "too old resource version")
                return
            for version, where, event in cluster.history:
                if (
                    version > since
                    and where.rpartition("/")[0] == path
                    and _selected(event["object"], selector)
                ):
                    sink.put(json.dumps(event).encode() + b"\n")
            cluster.watchers.append((f"{path}?{selector}", sink))
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        self.wfile.flush()
        cluster.watching.release()
        while (line := sink.get()) is not None:
            self.wfile.write(f"{len(line):x}\r\n".encode() + line + b"\r\n")
            self.wfile.flush()
        self.close_connection = True

    def _post(self, path: str, query: dict[str, str], body: Object) -> None:
        cluster = self.cluster
        if path.endswith("selfsubjectaccessreviews"):
            asked = body["spec"]["resourceAttributes"]
            words = f"{asked['verb']} {asked['resource']}"
            if asked.get("subresource"):
                words += f"/{asked['subresource']}"
            self.answer(201, {**body, "status": {"allowed": words not in cluster.denied}})
            return
        if path.endswith("/eviction"):
            self._evict(path.removesuffix("/eviction"), body)
            return
        with cluster.lock:
            name = body["metadata"]["name"]
            if f"{path}/{name}" in cluster.objects:
                self.refuse(409, "AlreadyExists", f"{name} already exists")
                return
            made = cluster.add(path, copy.deepcopy(body))
            if made["kind"] == "JobSet":
                cluster.make_pods(made)
            elif made["kind"] == "Pod" and cluster.on_pod is not None:
                cluster.on_pod(made)
            answer = copy.deepcopy(made)
        self.answer(201, answer)

    def _evict(self, pod: str, body: Object) -> None:
        with self.cluster.lock:
            item = self.cluster.objects.get(pod)
            if item is None:
                self.refuse(404, "NotFound")
                return
            self.cluster.stop(item, None)
            item["metadata"]["deletionTimestamp"] = "2030-01-01T00:00:00Z"
            condition = {
                "type": "DisruptionTarget",
                "status": "True",
                "reason": "EvictionByEvictionAPI",
            }
            item.setdefault("status", {})["conditions"] = [condition]
            self.cluster._put(pod, item, "MODIFIED")
        self.answer(201, {"kind": "Status", "status": "Success"})

    def _delete(self, path: str, query: dict[str, str], body: Object | None) -> None:
        cluster = self.cluster
        with cluster.lock:
            item = cluster.objects.get(path)
            if item is None:
                self.refuse(404, "NotFound")
                return
            wanted = ((body or {}).get("preconditions") or {}).get("uid")
            if wanted not in (None, item["metadata"]["uid"]):
                self.refuse(409, "Conflict", "the UID in the precondition is another")
                return
            grace = (body or {}).get("gracePeriodSeconds")
            cluster.stop(item, grace)
            if item["kind"] == "Pod" and grace != 0:
                item["metadata"]["deletionTimestamp"] = "2030-01-01T00:00:00Z"
                cluster._put(path, item, "MODIFIED")
            else:
                del cluster.objects[path]
                cluster._note(path, item, "DELETED")
                cluster.collect(item["metadata"]["uid"])
        self.answer(200, {"kind": "Status", "status": "Success"})

    def _patch(self, path: str, query: dict[str, str], body: Object) -> None:
        with self.cluster.lock:
            item = self.cluster.objects[path]
            item["spec"].update(body["spec"])
            labels = item["metadata"].setdefault("labels", {})
            labels |= body.get("metadata", {}).get("labels", {})
            item["metadata"]["labels"] = {k: v for k, v in labels.items() if v is not None}
            self.cluster._put(path, item, "MODIFIED")
            answer = copy.deepcopy(item)
        self.answer(200, answer)


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def handle_error(self, request: Any, client_address: Any) -> None:
        pass  # a client that hangs up, which tests do


@contextmanager
def serving() -> Iterator[tuple[Cluster, str]]:
    """A cluster, and the URL of its server."""
    cluster = Cluster()
    handler = type("Handler", (_Handler,), {"cluster": cluster})
    server = _Server(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield cluster, f"http://127.0.0.1:{server.server_port}"
    finally:
        cluster.break_streams()
        server.shutdown()
        server.server_close()
        thread.join(5.0)
