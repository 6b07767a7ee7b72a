"""The small part of Ray that the launcher uses, played in one process; and invented nodes."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from recoverybench.launchers._ray_cluster import Done, own_versions
from recoverybench.launchers._ray_nodes import Node
from recoverybench.launchers._ray_site import Site
from recoverybench.launchers.base import Share, Wanted


def node(name: str, **resources: float) -> Node:
    """A node with four cores, and what else is said."""
    return Node(name, f"10.0.0.{name[1:]}", {"CPU": 4.0, **resources})


def tpu_host(slice_name: str, place: int, chips: float = 4, pod: str = "v4-16") -> Node:
    """A host of a TPU slice, with the resources and labels that Ray gives it."""
    resources: dict[str, float] = {"CPU": 240.0, "TPU": chips, slice_name: 1.0}
    if place == 0:
        resources[f"TPU-{pod}-head"] = 1.0
    labels = {
        "ray.io/tpu-slice-name": slice_name,
        "ray.io/tpu-worker-id": str(place),
        "ray.io/tpu-pod-type": pod,
        "ray.io/tpu-topology": "2x2x2",
    }
    return Node(f"{slice_name}/{place}", f"10.1.0.{place}", resources, labels)


NODES = [node(f"n{index}") for index in range(4)]
SLICES = [tpu_host(name, place) for name in ("s1", "s0") for place in (1, 0)]


def wanted(
    workers: int = 2, *, at: Path, platform: str = "cpu", lost: bool = False, shared: bool = False
) -> Wanted:
    """What a run asks of the launcher."""
    return Wanted(workers, platform, lost, (at,), (), shared=shared)


@dataclass(eq=False)
class Actor:
    """One that was made: where, with what, and the calls that wait for an answer."""

    node: str
    bundle: int | None
    resources: dict[str, float]
    arguments: tuple[Any, ...]
    calls: list[tuple[str, tuple[Any, ...]]] = field(default_factory=list)
    waiting: dict[str, Done] = field(default_factory=dict)
    killed: bool = False


class FakeCluster:
    """In the place of `_ray_cluster.Cluster`.

    Args:
        nodes: that are alive. here: the one that the supervisor is on.
    """

    def __init__(self, nodes: Sequence[Node], here: str = "n0") -> None:
        self.alive = list(nodes)
        self.here = here
        self.address = "10.0.0.0"
        self.held: list[tuple[list[dict[str, float]], list[str] | None]] = []
        self.full = 0
        self.released = 0
        self.actors: list[Actor] = []
        self.closed = 0
        self.answers: dict[str, Any] = {}
        self.seen: list[tuple[list[str], list[str], str]] = []
        self._pids = itertools.count(100)

    def nodes(self) -> list[Node]:
        return list(self.alive)

    def reserve(
        self, bundles: Sequence[dict[str, float]], nodes: Sequence[str] | None
    ) -> list[str] | None:
        self.held.append((list(bundles), None if nodes is None else list(nodes)))
        if self.full:
            self.full -= 1
            return None
        if nodes is not None:
            return list(nodes)
        names = [each.id for each in self.alive]
        return [names[index % len(names)] for index in range(len(bundles))]

    def release(self) -> None:
        self.released += 1

    def host(
        self, node: str, bundle: int | None, resources: dict[str, float], arguments: Any
    ) -> Actor:
        self.actors.append(Actor(node, bundle, dict(resources), arguments))
        return self.actors[-1]

    def call(self, actor: Actor, method: str, *arguments: Any, done: Done | None = None) -> None:
        actor.calls.append((method, arguments))
        if done is not None:
            actor.waiting[f"{method} {arguments[0]}"] = done

    def wait(self, actor: Actor, method: str, *arguments: Any, timeout_s: float) -> Any:
        if actor.killed:
            raise RuntimeError("\x1b[36mthe actor died\x1b[39m\nand more")
        actor.calls.append((method, arguments))
        return next(self._pids)

    def kill(self, actor: Actor) -> None:
        actor.killed = True

    def look(
        self, nodes: Sequence[Node], directories: Sequence[str], files: Sequence[str], token: str
    ) -> dict[str, Any]:
        self.seen.append((list(directories), list(files), token))
        good = {"versions": own_versions(), "unseen": [], "missing": []}
        return {each.id: self.answers.get(each.id, good) for each in nodes}

    def close(self) -> None:
        self.closed += 1


def site_on(cluster: FakeCluster, *, pack: bool = False, share: Share | None = None) -> Site:
    """A site on a cluster that is played."""
    return Site(cluster, pack=pack, share=share)  # type: ignore[arg-type]
