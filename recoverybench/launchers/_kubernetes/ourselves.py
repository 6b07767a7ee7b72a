"""Who we are in a cluster, so that what we leave behind is found, and nothing of others is taken.

A supervisor that runs in a pod of the namespace, as docs/kubernetes.md has it, makes that pod the
owner of all it creates: when the pod is gone, whatever its name was and wherever it ran, the
cluster's garbage collector removes the rest. From anywhere else the next start on the same machine
does so, and a machine is more than its name, since two may have the same.
"""

from __future__ import annotations

import hashlib
import os
import re
import socket
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from recoverybench.launchers._kubernetes.api import Api, ApiError

_NAMESPACE: Final = Path("var/run/secrets/kubernetes.io/serviceaccount/namespace")
_MACHINE: Final = (Path("etc/machine-id"), Path("proc/sys/kernel/random/boot_id"))
_DIGITS: Final = 8


@dataclass(frozen=True, slots=True)
class Ourselves:
    """This supervisor.

    Attributes:
        host: value of a label: where it runs, and nobody else.
        owner: an owner reference to the pod that it runs in; None: it is not in the namespace.
    """

    host: str
    owner: dict[str, str] | None = None

    @property
    def owners(self) -> dict[str, Any]:
        """What an object's metadata says of its owner."""
        return {} if self.owner is None else {"ownerReferences": [dict(self.owner)]}


def find(api: Api, namespace: str, address: str, root: Path = Path("/")) -> Ourselves:
    """Ourselves, as a cluster sees us.

    Args:
        namespace: in which we make things. address: of ours, by which we reach the API server.
        root: of the file system.
    """
    name = socket.gethostname()
    pod = _own_pod(api, namespace, name, address, root)
    if pod is None:
        return Ourselves(_labelled(name, machine(root)))
    uid = str(pod["metadata"]["uid"])
    owner = {"apiVersion": "v1", "kind": "Pod", "name": name, "uid": uid}
    return Ourselves(_labelled(name, uid), owner)


def machine(root: Path = Path("/")) -> str:
    """This machine and, in a container, its processes, in a few digits."""
    parts = []
    for path in _MACHINE:
        try:
            parts.append((root / path).read_text(encoding="utf-8").strip())
            break
        except OSError:
            continue
    with suppress(OSError):  # pids of one container mean nothing in another
        parts.append(os.readlink(root / "proc/self/ns/pid"))
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def label_value(text: str, most: int = 63) -> str:
    """The nearest text that may be the value of a label."""
    return re.sub(r"[^A-Za-z0-9_.-]", "-", text)[:most].strip("_.-") or "x"


def _labelled(name: str, distinct: str) -> str:
    return f"{label_value(name, 63 - 1 - _DIGITS)}-{distinct[:_DIGITS]}"


def _own_pod(
    api: Api, namespace: str, name: str, address: str, root: Path
) -> dict[str, Any] | None:
    """The pod of that namespace that this process runs in.

    A pod's host name is its own name, unless somebody set another one or gave it the host's
    network; so the pod found by it is ours only where it has our address, too.
    """
    try:
        if (root / _NAMESPACE).read_text(encoding="utf-8").strip() != namespace:
            return None  # an owner in another namespace is none: all would be deleted at once
        pod = api.get(f"/api/v1/namespaces/{namespace}/pods/{label_value(name)}")
    except (OSError, ApiError):
        return None
    status = pod.get("status") or {}
    addresses = {status.get("podIP"), *(ip.get("ip") for ip in status.get("podIPs") or ())}
    return pod if address in addresses and (pod.get("metadata") or {}).get("uid") else None
