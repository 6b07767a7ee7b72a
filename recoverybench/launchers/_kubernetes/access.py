"""Requests that are neither jobs nor pods: may we do that, let this pod go, take no more pods."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from recoverybench.launchers._kubernetes.manifests import JOBSET_GROUP

Manifest = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Right:
    """One thing that a supervisor does in a namespace."""

    group: str
    resource: str
    verb: str
    subresource: str = ""

    @property
    def words(self) -> str:
        """For people: ``create pods/exec``."""
        name = f"{self.resource}/{self.subresource}" if self.subresource else self.resource
        return f"{self.verb} {name}" + (f" of {self.group}" if self.group else "")


NEEDED: Final = (
    *(Right(JOBSET_GROUP, "jobsets", verb) for verb in ("create", "delete", "get", "list")),
    *(Right("", "pods", verb) for verb in ("create", "delete", "get", "list", "watch")),
    *(Right("", "secrets", verb) for verb in ("create", "delete", "get", "list")),
    Right("", "pods", "create", "exec"),
)
"""Without one of these nothing can be measured."""

EVICT: Final = Right("", "pods", "create", "eviction")
LOOK: Final = Right("", "nodes", "get")
"""A replacement has to be on the node pool of its slice, which stands on the node."""

CORDON: Final = (LOOK, Right("", "nodes", "list"), Right("", "nodes", "patch"))
"""To close a node, and to know whether there is another one."""


def review(right: Right, namespace: str | None) -> Manifest:
    """Asks the server whether we have a right; None: for the whole cluster."""
    attributes = {"group": right.group, "resource": right.resource, "verb": right.verb}
    if right.subresource:
        attributes["subresource"] = right.subresource
    if namespace is not None:
        attributes["namespace"] = namespace
    return {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": attributes},
    }


def eviction(pod: str, namespace: str) -> Manifest:
    """Asks for a pod to be let go as a drain or a preemption does, with its own grace period."""
    return {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": pod, "namespace": namespace},
    }


def deletion(grace_s: int | None, uid: str | None = None) -> Manifest:
    """How an object is deleted: with its own grace period (None) or that many seconds, and only
    if it is the one of that uid.
    """
    options: Manifest = {
        "apiVersion": "v1",
        "kind": "DeleteOptions",
        "propagationPolicy": "Background",
    }
    if grace_s is not None:
        options["gracePeriodSeconds"] = grace_s
    if uid is not None:
        options["preconditions"] = {"uid": uid}
    return options


def cordon(unschedulable: bool, labels: Mapping[str, str | None]) -> Manifest:
    """Merge patch of a node: take no more pods, or take them again.

    Args:
        labels: that it then has; None: no longer.
    """
    return {"metadata": {"labels": dict(labels)}, "spec": {"unschedulable": unschedulable}}
