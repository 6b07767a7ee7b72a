"""Signals to a worker in its pod, by the exec API: what ``kubectl exec`` does."""

from __future__ import annotations

from typing import Any, Final

from recoverybench.errors import HarnessError
from recoverybench.launchers._kubernetes.api import module
from recoverybench.launchers._kubernetes.manifests import CONTAINER, PID_FILE

_LONGEST_S: Final = 10.0


def command(number: int) -> list[str]:
    """What is run in the pod; it fails where the worker is gone."""
    return ["sh", "-c", f'kill -{number} "$(cat {PID_FILE})"']


def send(client: Any, namespace: str, pod: str, number: int) -> None:
    """Send a signal, and wait until it has been sent.

    Args:
        client: the package's `ApiClient` of the cluster.

    Raises:
        HarnessError: the command could not be run, or it failed.
    """
    api, stream = module("kubernetes.client"), module("kubernetes.stream")
    # The package replaces a method of the client while it runs a command; so each has its own.
    core = api.CoreV1Api(api.ApiClient(client.configuration))
    try:
        session = stream.stream(
            core.connect_get_namespaced_pod_exec,
            pod,
            namespace,
            container=CONTAINER,
            command=command(number),
            stdin=False,
            stdout=True,
            stderr=True,
            tty=False,
            _preload_content=False,
            _request_timeout=_LONGEST_S,
        )
        try:
            session.run_forever(timeout=_LONGEST_S)
            code, said = session.returncode, session.read_stderr() or ""
        finally:
            session.close()
    except Exception as error:
        what = " ".join(str(error).split())[:200] or type(error).__name__
        raise HarnessError(f"signal {number} to pod {pod}: {what}") from None
    if code != 0:
        what = " ".join(str(said).split())[:200] or f"exit code {code}"
        raise HarnessError(f"signal {number} to pod {pod}: {what}")
