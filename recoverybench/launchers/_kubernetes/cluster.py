"""Objects of one launcher in a cluster: made, deleted, and found again when nobody wants them.

Everything carries the mark of the supervisor that made it (`leftovers.owner_mark`) and of the
host that one ran on; the next start on that host deletes what belongs to one that is gone.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from recoverybench import leftovers
from recoverybench.launchers._kubernetes import access, manifests
from recoverybench.launchers._kubernetes.api import Api
from recoverybench.launchers._kubernetes.settings import Settings

Send = Callable[[str, int], None]
"""Sends a signal to the worker in the pod of that name."""

_KINDS: Final = ("jobsets", "pods", "secrets")


@dataclass(frozen=True, slots=True)
class Cluster:
    """A namespace of a cluster, as one launcher uses it.

    Attributes:
        api: its server. settings: what the user says of it. send: sends signals.
    """

    api: Api
    settings: Settings
    send: Send

    def path(self, kind: str, name: str = "", subresource: str = "") -> str:
        """Path of an object, or of all of that kind."""
        group = f"apis/{manifests.JOBSET_GROUP}/{manifests.JOBSET_VERSION}"
        base = group if kind == "jobsets" else "api/v1"
        parts = [base, "namespaces", self.settings.namespace, kind, name, subresource]
        return "/" + "/".join(part for part in parts if part)

    def create(self, kind: str, manifest: dict[str, Any]) -> dict[str, Any]:
        """Make an object; see `Api.create`."""
        return self.api.create(self.path(kind), manifest)

    def delete(self, kind: str, name: str, grace_s: int | None = None) -> bool:
        """Delete an object; returns whether it was there."""
        return self.api.delete(self.path(kind, name), access.deletion(grace_s))

    def delete_all(self, selector: Mapping[str, str]) -> int:
        """Delete everything of ours with these labels, pods without grace; returns how many."""
        count = 0
        for kind in _KINDS:
            labels = ",".join(f"{key}={value}" for key, value in selector.items())
            found = self.api.get(self.path(kind), labelSelector=labels)
            for item in found.get("items") or ():
                grace_s = 0 if kind == "pods" else None
                count += self.delete(kind, item["metadata"]["name"], grace_s)
        return count

    def evict(self, pod: str) -> None:
        """Ask for a pod to be evicted; see `Api.evict`."""
        body = access.eviction(pod, self.settings.namespace)
        self.api.evict(self.path("pods", pod, "eviction"), body)

    def cordon(self, node: str, unschedulable: bool) -> None:
        """Have a node take no more pods, or take them again."""
        self.api.patch(f"/api/v1/nodes/{node}", access.cordon(unschedulable))

    def node_pool(self, node: str) -> str | None:
        """GKE's node pool of a node."""
        labels = self.api.get(f"/api/v1/nodes/{node}")["metadata"].get("labels") or {}
        pool = labels.get(manifests.NODE_POOL)
        return None if pool is None else str(pool)

    def sweep(self) -> int:
        """Delete what supervisors on this host left behind; returns how many objects."""
        selector = {manifests.MANAGED_BY: manifests.MANAGER, manifests.HOST: this_host()}
        owners = set()
        for kind in _KINDS:
            labels = ",".join(f"{key}={value}" for key, value in selector.items())
            for item in self.api.get(self.path(kind), labelSelector=labels).get("items") or ():
                owners.add(item["metadata"]["labels"].get(manifests.OWNER, ""))
        gone = sorted(owner for owner in owners if owner and not leftovers.runs(owner))
        return sum(self.delete_all({**selector, manifests.OWNER: owner}) for owner in gone)


def this_host() -> str:
    """The host's name, as the value of a label."""
    return label_value(socket.gethostname())


def label_value(text: str) -> str:
    """The nearest text that may be the value of a label."""
    return re.sub(r"[^A-Za-z0-9_.-]", "-", text)[:63].strip("_.-") or "x"


def labels_of(launcher: str, run: str, trial: str) -> dict[str, str]:
    """Labels of every object of one job."""
    return {
        manifests.MANAGED_BY: manifests.MANAGER,
        manifests.HOST: this_host(),
        manifests.OWNER: leftovers.owner_mark(),
        manifests.LAUNCHER: launcher,
        manifests.RUN: label_value(run),
        manifests.TRIAL: label_value(trial),
    }
