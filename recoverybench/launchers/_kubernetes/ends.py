"""What became of a pod, read from its object: how its worker ended, and why Kubernetes says so."""

from __future__ import annotations

import signal
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from recoverybench.launchers._kubernetes.manifests import CONTAINER
from recoverybench.launchers.base import Ended

_SIGNALLED: Final = 128
_FINISHED: Final = ("Succeeded", "Failed")


@dataclass(frozen=True, slots=True)
class Seen:
    """One look at a pod.

    Attributes:
        ended: how its worker ended; None: it has not, as far as the object says.
        started: its container has run.
        words: what Kubernetes says of it, for people; empty: nothing worth a line.
    """

    ended: Ended | None
    started: bool
    words: str


def look(pod: Mapping[str, Any], *, deleted: bool) -> Seen:
    """What a pod's object says.

    Args:
        deleted: it is the last one: the pod is gone from the cluster.
    """
    status = pod.get("status") or {}
    state = _state(status)
    terminated = state.get("terminated")
    started = terminated is not None or "running" in state
    if terminated is not None:
        return Seen(_ended(terminated), started, _words(status, terminated))
    if deleted or status.get("phase") in _FINISHED:
        # Gone without an exit status: nobody who is left has seen how it ended.
        what = _words(status, {}) or ("deleted" if deleted else str(status.get("phase")))
        return Seen(Ended(None, None, seen=False), started, what)
    return Seen(None, started, _waiting(status, state))


def _state(status: Mapping[str, Any]) -> Mapping[str, Any]:
    for container in status.get("containerStatuses") or ():
        if container.get("name") == CONTAINER:
            return container.get("state") or {}
    return {}


def _ended(terminated: Mapping[str, Any]) -> Ended:
    """Runtimes give a death by signal N as exit code 128 + N."""
    code = int(terminated.get("exitCode", 0))
    number = int(terminated.get("signal") or 0) or code - _SIGNALLED
    try:
        return Ended(None, signal.Signals(number).name, seen=False)
    except ValueError:
        return Ended(code, None, seen=False)


def _words(status: Mapping[str, Any], terminated: Mapping[str, Any]) -> str:
    """Reasons: the container's (OOMKilled), the pod's (Evicted, NodeLost), the disruption's."""
    reasons = []
    if (reason := terminated.get("reason")) and reason not in ("Completed", "Error"):
        reasons.append(str(reason))
    if reason := status.get("reason"):
        reasons.append(str(reason))
    for condition in status.get("conditions") or ():
        if condition.get("type") == "DisruptionTarget" and condition.get("status") == "True":
            reasons.append(str(condition.get("reason") or "DisruptionTarget"))
    message = terminated.get("message") or status.get("message") or ""
    text = ", ".join(dict.fromkeys(reasons))
    last = " ".join(str(message).split())[-300:]
    return f"{text}: {last}" if text and last else text or last


def _waiting(status: Mapping[str, Any], state: Mapping[str, Any]) -> str:
    """Why it does not run yet: no node has room, the image cannot be had, a volume is missing."""
    waiting = state.get("waiting") or {}
    if (reason := waiting.get("reason")) and reason not in ("ContainerCreating", "PodInitializing"):
        return f"{reason}: {waiting.get('message') or ''}".rstrip(": ")
    for condition in status.get("conditions") or ():
        if condition.get("type") == "PodScheduled" and condition.get("status") == "False":
            return f"{condition.get('reason')}: {condition.get('message') or ''}".rstrip(": ")
    return ""
