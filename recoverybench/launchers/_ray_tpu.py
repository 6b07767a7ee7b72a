"""What a worker asks of a node for its accelerators (pure), as Ray counts and labels them.

A worker has all accelerators of its node: JAX runs one process a host. Ray counts the chips of a
TPU host as the resource ``TPU``; the first host of a slice has ``TPU-v4-16-head`` besides, and
each host says in labels which slice it belongs to and as which one
(``ray/_private/accelerators/tpu.py`` of Ray 2.60). A slice is one thing: hosts of two slices
are not connected as a job over one slice needs them.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from recoverybench.launchers._ray_nodes import Node

RESOURCE: Final[dict[str, str]] = {"tpu": "TPU", "gpu": "GPU", "cuda": "GPU", "rocm": "GPU"}
"""JAX's platform -> Ray's resource."""

SLICE: Final = "ray.io/tpu-slice-name"
WORKER_ID: Final = "ray.io/tpu-worker-id"
POD_TYPE: Final = "ray.io/tpu-pod-type"

_HEAD = re.compile(r"TPU-(.+)-head")


def usable(nodes: Iterable[Node], platform: str) -> list[Node]:
    """Nodes that a worker can be on: with a core, and where the platform has one an accelerator."""
    name = RESOURCE.get(platform)
    return [
        node
        for node in nodes
        if node.resources.get("CPU", 0) >= 1 and (name is None or node.resources.get(name, 0) >= 1)
    ]


def bundle(nodes: Sequence[Node], platform: str) -> dict[str, float]:
    """The resources of one bundle: a core, and all accelerators of a node.

    Args:
        nodes: that the bundles may be on, at least one.

    Raises:
        ValueError: they have different numbers of accelerators; which, for people.
    """
    name = RESOURCE.get(platform)
    if name is None:
        return {"CPU": 1.0}
    counts = sorted({node.resources.get(name, 0.0) for node in nodes})
    if len(counts) > 1:
        raise ValueError(f"nodes with as many of {name} each, and these have {_words(counts)}")
    return {"CPU": 1.0, name: counts[0]}


def fits(node: Node, bundle: Mapping[str, float]) -> int:
    """How many bundles a node has room for."""
    return min(int(node.resources.get(name, 0) // amount) for name, amount in bundle.items())


def slices(nodes: Iterable[Node]) -> dict[str, list[Node]]:
    """Slice -> its hosts by their place in it; hosts that name none are in none."""
    found: dict[str, list[Node]] = defaultdict(list)
    for node in nodes:
        if SLICE in node.labels:
            found[node.labels[SLICE]].append(node)
    return {name: sorted(hosts, key=worker_id) for name, hosts in sorted(found.items())}


def worker_id(node: Node) -> int:
    """A host's place in its slice; 0 where it says none."""
    text = node.labels.get(WORKER_ID, "0")
    return int(text) if text.isdecimal() else 0


def head(node: Node) -> str | None:
    """The type of the slice whose first host this is (``v4-16``), by its resource."""
    found = [match[1] for name in node.resources if (match := _HEAD.fullmatch(name))]
    return found[0] if found else None


def whole(hosts: Sequence[Node]) -> bool:
    """Whether nothing is missing of a slice: a first host, and every number up to the last."""
    return [worker_id(host) for host in hosts] == list(range(len(hosts))) and (
        len(hosts) == 1 or head(hosts[0]) is not None
    )


def candidates(nodes: Sequence[Node], platform: str, workers: int) -> list[Node]:
    """The nodes that a job of that many workers may use.

    On TPU hosts with slices these are the hosts of whole slices of that many hosts: one for the
    job, the others to come back on. Everywhere else it is every usable node.

    Raises:
        ValueError: no slice has that many hosts; what there is, for people.
    """
    found = usable(nodes, platform)
    by_slice = slices(found) if platform == "tpu" else {}
    if not by_slice:
        return found
    fitting = [hosts for hosts in by_slice.values() if len(hosts) == workers and whole(hosts)]
    if not fitting:
        sizes: Mapping[str, int] = {name: len(hosts) for name, hosts in by_slice.items()}
        there = ", ".join(f"{name} has {size}" for name, size in sizes.items())
        raise ValueError(f"a whole TPU slice of {workers} hosts, and {there}")
    return [host for hosts in fitting for host in hosts]


def _words(counts: Sequence[float]) -> str:
    return " and ".join(f"{count:g}" for count in counts)
