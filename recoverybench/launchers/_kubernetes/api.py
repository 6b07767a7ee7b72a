"""One way to speak to a cluster's API server: JSON in, JSON out, with bounded retries.

The client package is used for what is hard: finding the cluster, certificates, tokens that expire.
Requests are our own, because a JobSet is none of its types and because what is retried, and how
often, is part of what is measured: 429 waits as long as the server asks for, 5xx and a lost
connection back off, everything else is an error at once.
"""

from __future__ import annotations

import importlib
import json
import random
import socket
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlencode, urlsplit

from recoverybench.errors import HarnessError, UsageError, shorten

INSTALL: Final = "pip install 'recoverybench[kubernetes]'"

TRIES: Final = 6
_FIRST_PAUSE_S: Final = 0.1
_LONGEST_PAUSE_S: Final = 10.0
_CONNECT_S: Final = 10.0
_READ_S: Final = 30.0
_REACH_S, _REACH_TRIES = 8.0, 2
"""Of the first request: whoever waits for it sees nothing, and the address may be a wrong one."""

_MOST_BYTES: Final = 64 << 20
_SAFE_TO_REPEAT: Final = ("GET", "DELETE", "PATCH")


class ApiError(HarnessError):
    """The server refused, or could not be asked.

    Attributes:
        status: HTTP status; 0: no answer. reason: Kubernetes' word for it (``AlreadyExists``).
    """

    def __init__(self, text: str, status: int, reason: str = "") -> None:
        super().__init__(text)
        self.status = status
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Connection:
    """How a server is reached.

    Attributes:
        server: its URL. pool: urllib3's pool manager, with its certificates.
        headers: makes those of one request; tokens expire.
    """

    server: str
    pool: Any
    headers: Callable[[], dict[str, str]]


def module(name: str) -> Any:
    """A module of the client package.

    Raises:
        UsageError: it is not installed.
    """
    try:
        return importlib.import_module(name)
    except ImportError as error:
        said = f"expected the packages that it needs ({error.name} is missing): {INSTALL}"
        raise UsageError(f"--launcher = 'kubernetes': {said}") from None


def connect(context: str | None) -> tuple[Connection, Any]:
    """The cluster of the kubeconfig, or the one that this process runs in; and the client.

    Raises:
        UsageError: the package is missing, or there is no configuration.
    """
    config, client = module("kubernetes.config"), module("kubernetes.client")
    configuration = client.Configuration()
    try:
        config.load_kube_config(context=context, client_configuration=configuration)
    except Exception as outside:
        if context is not None:
            allowed = f"a context of the kubeconfig ({_first_line(outside)})"
            raise UsageError(f"context = {shorten(context)}: expected {allowed}") from None
        try:
            config.load_incluster_config(client_configuration=configuration)
        except Exception as inside:
            raise UsageError(
                "--launcher = 'kubernetes': expected a cluster, and there is neither a kubeconfig "
                f"({_first_line(outside)}) nor a pod's service account ({_first_line(inside)})"
            ) from None
    made = client.ApiClient(configuration)

    def headers() -> dict[str, str]:
        found: dict[str, str] = {}
        made.update_params_for_auth(found, [], ["BearerToken"], "", "", None)
        return found

    return Connection(configuration.host, made.rest_client.pool_manager, headers), made


def own_address(server: str) -> str:
    """The address of this machine by which it reaches a server; nothing is sent.

    Raises:
        UsageError: there is no way to it.
    """
    parts = urlsplit(server)
    try:
        where = socket.getaddrinfo(parts.hostname, parts.port or 443, type=socket.SOCK_DGRAM)[0]
        with socket.socket(where[0], socket.SOCK_DGRAM) as way:
            way.connect(where[4])
            return str(way.getsockname()[0])
    except OSError as error:
        said = f"expected a cluster that can be reached, or a supervisor_address: {server}: {error}"
        raise UsageError(f"--launcher = 'kubernetes': {said}") from None


class Api:
    """One server; may be used by several threads.

    Args:
        connection: to it. stop: set when nothing is to be waited for any more.
    """

    def __init__(self, connection: Connection, stop: threading.Event | None = None) -> None:
        self.server = connection.server
        self._connection = connection
        self._stop = stop or threading.Event()
        self._errors = module("urllib3.exceptions")
        self._timeout = module("urllib3").Timeout

    def get(self, path: str, **query: str) -> dict[str, Any]:
        """Read an object or a list."""
        return self._call("GET", path, query, None)

    def create(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        """Make an object.

        An answer that is lost leaves open whether it was made. It is asked for again, and one
        of that name with our labels is then taken as ours.

        Raises:
            ApiError: it cannot be made, or somebody else's has that name.
        """
        try:
            return self._call("POST", path, {}, body)
        except ApiError as error:
            name = (body.get("metadata") or {}).get("name")
            if error.reason != "AlreadyExists" or name is None:
                raise
            there = self.get(f"{path}/{name}")
            wanted = body["metadata"].get("labels") or {}
            found = there.get("metadata", {}).get("labels") or {}
            if not wanted or any(found.get(key) != value for key, value in wanted.items()):
                said = f"{self.server}: {path}/{name} is there already, and is not this run's"
                raise ApiError(said, error.status, error.reason) from None
            return there

    def reach(self) -> None:
        """Ask for the server's version; does not wait for long.

        Raises:
            ApiError: it does not answer.
        """
        self._call("GET", "/version", {}, None, tries=_REACH_TRIES, read_s=_REACH_S)

    def review(self, body: dict[str, Any]) -> bool:
        """Whether a SelfSubjectAccessReview is answered with yes."""
        path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
        answer = self._call("POST", path, {}, body, repeat=True)
        return bool((answer.get("status") or {}).get("allowed"))

    def evict(self, path: str, body: dict[str, Any]) -> None:
        """Ask for an eviction; a disruption budget that forbids it is an error at once.

        Raises:
            ApiError: 429: it would go below a disruption budget.
        """
        self._call("POST", path, {}, body, tries=1)

    def patch(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        """Merge into an object."""
        return self._call("PATCH", path, {}, body, content="application/merge-patch+json")

    def delete(self, path: str, body: dict[str, Any], **query: str) -> bool:
        """Delete; returns whether there was something to delete."""
        try:
            self._call("DELETE", path, query, body)
        except ApiError as error:
            if error.status in (404, 409):  # gone, or by now another object has its name
                return False
            raise
        return True

    def stream(self, path: str, read_s: float, **query: str) -> Stream:
        """Begin a watch.

        Args:
            read_s: no byte for that long ends it.

        Raises:
            ApiError: the server refuses, 410 among it.
        """
        response = self._send("GET", path, query, None, read_s, "application/json")
        if response.status != 200:
            raise self._refusal(response, "GET", path)
        return Stream(response, self._errors)

    def _call(
        self,
        method: str,
        path: str,
        query: dict[str, str],
        body: dict[str, Any] | None,
        *,
        content: str = "application/json",
        repeat: bool = False,
        tries: int = TRIES,
        read_s: float = _READ_S,
    ) -> dict[str, Any]:
        pause_s = _FIRST_PAUSE_S
        unsure = False
        for left in reversed(range(tries)):
            try:
                response = self._send(method, path, query, body, read_s, content)
            except ApiError:
                if left == 0:
                    raise
                unsure = True
            else:
                if response.status < 300:
                    return self._answer(response, method, path)
                error = self._refusal(response, method, path)
                again = error.status == 429 or error.status >= 500
                if left == 0 or not again:
                    raise error
                asked = response.headers.get("Retry-After", "")
                if asked.isdecimal():
                    pause_s = max(pause_s, float(asked[:6]))
                unsure = unsure or error.status >= 500
            if unsure and method not in _SAFE_TO_REPEAT and not repeat and not _named(body):
                raise ApiError(f"{self.server}: {method} {path}: lost, and cannot be repeated", 0)
            if self._stop.wait(min(pause_s, _LONGEST_PAUSE_S) * random.uniform(1.0, 1.2)):
                raise ApiError(f"{self.server}: {method} {path}: given up at the end", 0)
            pause_s *= 2
        raise AssertionError("every way out of the loop is in it")

    def _send(
        self,
        method: str,
        path: str,
        query: dict[str, str],
        body: dict[str, Any] | None,
        read_s: float,
        content: str,
    ) -> Any:
        url = self._connection.server.rstrip("/") + path
        if query:
            url += "?" + urlencode(query)
        headers = {"Accept": "application/json", **self._connection.headers()}
        data = None
        if body is not None:
            data = json.dumps(body).encode()
            headers["Content-Type"] = content
        try:
            return self._connection.pool.request(
                method,
                url,
                body=data,
                headers=headers,
                timeout=self._timeout(connect=_CONNECT_S, read=read_s),
                retries=False,
                redirect=False,
                preload_content=False,
            )
        except (self._errors.HTTPError, OSError) as error:
            raise ApiError(f"{self.server}: {method} {path}: {_first_line(error)}", 0) from None

    def _answer(self, response: Any, method: str, path: str) -> dict[str, Any]:
        try:
            content = response.read(_MOST_BYTES)
            answer = json.loads(content or b"{}")
        except (self._errors.HTTPError, OSError, ValueError, RecursionError) as error:
            said = f"{self.server}: {method} {path}: not an answer: {_first_line(error)}"
            raise ApiError(said, 0) from None
        finally:
            response.release_conn()
        if not isinstance(answer, dict):
            raise ApiError(f"{self.server}: {method} {path}: not an answer: no object", 0)
        return answer

    def _refusal(self, response: Any, method: str, path: str) -> ApiError:
        try:
            status = json.loads(response.read(1 << 20))
        except (self._errors.HTTPError, OSError, ValueError, RecursionError):
            status = {}
        finally:
            response.release_conn()
        status = status if isinstance(status, dict) else {}
        message = " ".join(str(status.get("message") or "").split())[:300]
        said = f"{self.server}: {method} {path}: HTTP {response.status}"
        reason = str(status.get("reason") or "")
        return ApiError(f"{said}: {message}" if message else said, response.status, reason)


class Stream:
    """The lines of a watch; `close` may be called from another thread."""

    def __init__(self, response: Any, errors: Any) -> None:
        self._response = response
        self._errors = errors

    def lines(self) -> Iterator[bytes]:
        """Every whole line; half a line at the end of a broken stream is none."""
        rest = b""
        try:
            for chunk in self._response.stream(1 << 16):
                *lines, rest = (rest + chunk).split(b"\n")
                if len(rest) > _MOST_BYTES:
                    return
                yield from lines
        except (self._errors.HTTPError, OSError, ValueError, AttributeError):
            return  # whoever follows goes on from the last whole line

    def close(self) -> None:
        """End it, also while another thread waits for a line."""
        try:
            self._response.shutdown()
        except Exception:  # an older urllib3, or one that is over already
            self._response.close()


def _named(body: dict[str, Any] | None) -> bool:
    """An object with a name can be asked for twice: the second time it is there already."""
    return bool(((body or {}).get("metadata") or {}).get("name"))


def _first_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return shorten(lines[0], 200).strip("'\"")
