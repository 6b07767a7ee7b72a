"""Objects of one launcher in a cluster: made, deleted, and found again when nobody wants them.

Everything carries the mark of the supervisor that made it (`leftovers.owner_mark`) and of where
that one ran (`ourselves`); the next start there deletes what belongs to one that is gone. A node
that is closed carries both, too, for as long as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from recoverybench import leftovers
from recoverybench.launchers._kubernetes import access, manifests
from recoverybench.launchers._kubernetes.api import Api, ApiError
from recoverybench.launchers._kubernetes.ourselves import Ourselves, label_value
from recoverybench.launchers._kubernetes.settings import Settings

Send = Callable[[str, int], None]
"""Sends a signal to the worker in the pod of that name."""

_KINDS: Final = ("jobsets", "pods", "secrets")


@dataclass(frozen=True, slots=True)
class Cluster:
    """A namespace of a cluster, as one launcher uses it.

    Attributes:
        api: its server. settings: what the user says of it. send: sends signals.
        ourselves: who makes things there.
    """

    api: Api
    settings: Settings
    send: Send
    ourselves: Ourselves

    def path(self, kind: str, name: str = "", subresource: str = "") -> str:
        """Path of an object, or of all of that kind."""
        group = f"apis/{manifests.JOBSET_GROUP}/{manifests.JOBSET_VERSION}"
        base = group if kind == "jobsets" else "api/v1"
        parts = [base, "namespaces", self.settings.namespace, kind, name, subresource]
        return "/" + "/".join(part for part in parts if part)

    def labels(self, launcher: str, run: str, trial: str) -> dict[str, str]:
        """Labels of every object of one job."""
        return {
            manifests.MANAGED_BY: manifests.MANAGER,
            **self._mark(),
            manifests.LAUNCHER: launcher,
            manifests.RUN: label_value(run),
            manifests.TRIAL: label_value(trial),
        }

    def create(self, kind: str, manifest: dict[str, Any]) -> dict[str, Any]:
        """Make an object; see `Api.create`."""
        return self.api.create(self.path(kind), manifest)

    def delete(
        self, kind: str, name: str, grace_s: int | None = None, uid: str | None = None
    ) -> bool:
        """Delete an object, that of the uid if one is given; returns whether it was there."""
        return self.api.delete(self.path(kind, name), access.deletion(grace_s, uid))

    def delete_all(self, selector: Mapping[str, str]) -> int:
        """Delete everything of ours with these labels, pods without grace; returns how many.

        Raises:
            ApiError: something could not be deleted; all the rest is.
        """
        count = 0
        problem: ApiError | None = None
        for kind in _KINDS:
            try:
                for item in self._list(self.path(kind), selector):
                    grace_s = 0 if kind == "pods" else None
                    count += self.delete(kind, item["metadata"]["name"], grace_s)
            except ApiError as error:
                problem = problem or error
        if problem is not None:
            raise problem
        return count

    def evict(self, pod: str) -> None:
        """Ask for a pod to be evicted; see `Api.evict`."""
        body = access.eviction(pod, self.settings.namespace)
        self.api.evict(self.path("pods", pod, "eviction"), body)

    def closed(self, node: str) -> bool:
        """Whether a node takes no more pods."""
        return bool((self.api.get(_node(node)).get("spec") or {}).get("unschedulable"))

    def close_node(self, node: str) -> None:
        """Have a node take no more pods."""
        self.api.patch(_node(node), access.cordon(True, self._mark()))

    def open_node(self, node: str) -> None:
        """Have a node take pods again that `close_node` closed."""
        self.api.patch(_node(node), access.cordon(False, dict.fromkeys(self._mark())))

    def node_pool(self, node: str) -> str | None:
        """GKE's node pool of a node."""
        labels = self.api.get(_node(node))["metadata"].get("labels") or {}
        pool = labels.get(manifests.NODE_POOL)
        return None if pool is None else str(pool)

    def sweep(self) -> int:
        """Delete what supervisors left behind that ran where we do, and open nodes that they
        closed; returns how many objects and nodes.
        """
        here = {manifests.HOST: self.ourselves.host}
        ours = {manifests.MANAGED_BY: manifests.MANAGER, **here}
        found = [item for kind in _KINDS for item in self._list(self.path(kind), ours)]
        owners = {item["metadata"]["labels"].get(manifests.OWNER, "") for item in found}
        gone = sorted(owner for owner in owners if owner and not leftovers.runs(owner))
        count = sum(self.delete_all({**ours, manifests.OWNER: owner}) for owner in gone)
        return count + self._open_left(here)

    def _open_left(self, here: Mapping[str, str]) -> int:
        try:
            closed = self._list("/api/v1/nodes", here)
        except ApiError as error:
            if error.status == 403:  # who may not look at nodes has closed none
                return 0
            raise
        left = [n["metadata"] for n in closed]
        left = [m for m in left if not leftovers.runs(m["labels"].get(manifests.OWNER, ""))]
        for metadata in left:
            self.open_node(metadata["name"])
        return len(left)

    def _list(self, path: str, selector: Mapping[str, str]) -> list[dict[str, Any]]:
        labels = ",".join(f"{key}={value}" for key, value in selector.items())
        return list(self.api.get(path, labelSelector=labels).get("items") or ())

    def _mark(self) -> dict[str, str]:
        return {
            manifests.HOST: self.ourselves.host,
            manifests.OWNER: leftovers.owner_mark(),
        }


def _node(name: str) -> str:
    return f"/api/v1/nodes/{name}"
