"""Which node a worker is to be on (pure): one a node, and a replacement elsewhere.

A reservation holds a bundle on each node that a job may use: one a rank, and a few spare ones.
The node that the supervisor itself is on comes last, as its loss would end the supervisor.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

SPARE: Final = 2
"""Bundles that are held beyond the ranks, where the cluster has nodes for them: one for a standby,
one for a replacement."""

FIRST_SERVICE: Final = 1000
"""Slots from here on are coordination services outside worker 0 (see `job.services`): they are
beside the supervisor, whose node no fault takes."""


@dataclass(frozen=True, slots=True)
class Node:
    """A node of the cluster.

    Attributes:
        id: Ray's, in hex. address: under which other nodes reach it.
        resources: in all, by name. labels: Ray's own and its owner's.
    """

    id: str
    address: str
    resources: Mapping[str, float]
    labels: Mapping[str, str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """For people."""
        return f"{self.address} ({self.id[:8]})"


def alive(nodes: Iterable[Mapping[str, Any]]) -> list[Node]:
    """The living ones of what ``ray.nodes()`` returns."""
    return [
        Node(
            str(node["NodeID"]),
            str(node["NodeManagerAddress"]),
            dict(node.get("Resources") or {}),
            dict(node.get("Labels") or {}),
        )
        for node in nodes
        if node.get("Alive")
    ]


def bundle_count(workers: int, usable: int) -> int:
    """How many bundles to reserve on `usable` nodes, one a node."""
    return min(workers + SPARE, usable)


def in_order(
    reserved: Sequence[str], here: str, workers: int, worker_ids: Mapping[str, int]
) -> list[str]:
    """Nodes of a reservation in the order of the ranks, spare ones last, each once.

    Args:
        reserved: node of each bundle. here: the supervisor's. workers: ranks that there are.
        worker_ids: node -> its place in a TPU slice, where it has one: ranks follow it.
    """
    others = [node for node in dict.fromkeys(reserved) if node != here]
    others.sort(key=lambda node: worker_ids.get(node, 0))
    if here not in reserved:
        return others
    # Rank 0 is no fault's victim unless a suite says so.
    return [here, *others] if len(others) < workers else [*others, here]


class Seats:
    """Who sits where.

    Args:
        order: nodes, see `in_order`. here: the supervisor's node.
        slices: hosts of each TPU slice, by their place in it. A job is on one of them as a whole:
            rank and place are the same, and it moves when nobody is left on it. None: no slices.
    """

    def __init__(
        self, order: Sequence[str], here: str, slices: Sequence[Sequence[str]] | None = None
    ) -> None:
        self._order = list(order)
        self._here = here
        self._slices = [list(hosts) for hosts in slices or ()]
        self._at: dict[int, str] = {}
        self._taken: dict[int, str] = {}
        self._planned: dict[int, str] = {}
        self._moving: set[int] = set()
        self._lost: set[str] = set()

    @property
    def nodes(self) -> list[str]:
        """The nodes that are left."""
        return [node for node in self._order if node not in self._lost]

    def lose(self, node: str) -> None:
        """A node is gone; whoever sits there is, too."""
        self._lost.add(node)
        self._taken = {slot: at for slot, at in self._taken.items() if at != node}

    def move(self, slot: int) -> None:
        """What the worker in that slot had on its node is lost: the next one goes elsewhere."""
        self._moving.add(slot)

    def leave(self, slot: int) -> None:
        """Whoever was in that slot has ended."""
        self._taken.pop(slot, None)

    def plan(self, slot: int) -> str | None:
        """Where the worker in that slot is, or its next one will be; None: no node is left.

        Its address is given to others, so the next one in that slot will be there.
        """
        whole = self._whole()
        if whole and slot < FIRST_SERVICE:
            node = whole[slot] if slot < len(whole) else None
        else:
            node = self._at.get(slot) if slot in self._taken else self._choose(slot)
        if node is not None:
            self._planned[slot] = node
        return node

    def sit(self, slot: int) -> str | None:
        """A worker in that slot takes a seat; returns its node, None: no node is left.

        Its own one, unless what was there is lost. A node that nobody sits on comes first, and of
        those one on which nobody has sat.
        """
        node = self._planned.pop(slot, None)
        if node is None or node in self._lost or self._slices:
            node = self._choose(slot)
        if node is not None:
            self._at[slot] = self._taken[slot] = node
            self._moving.discard(slot)
        return node

    def _choose(self, slot: int) -> str | None:
        left = self.nodes
        if slot >= FIRST_SERVICE and self._here not in self._lost:
            return self._here
        if self._slices:
            return self._host(slot)
        if not left:
            return None
        moving = slot in self._moving
        own = self._at.get(slot) or (self._order[slot] if slot < len(self._order) else None)
        load = {node: list(self._taken.values()).count(node) for node in left}
        known = set(self._at.values())

        def cost(node: str) -> tuple[int, bool, bool, int]:
            return load[node], (node == own) == moving, node in known, left.index(node)

        return min(left, key=cost)

    def _host(self, slot: int) -> str | None:
        """The host of the slice that the job is on, or moves to once nobody is left there."""
        whole = self._whole()
        if whole and not any(each < FIRST_SERVICE for each in self._taken):
            self._slices.remove(whole)
            self._slices.insert(0, whole)
        hosts = self._slices[0]
        node = hosts[slot] if slot < len(hosts) else None
        return None if node in self._lost else node

    def _whole(self) -> list[str] | None:
        """The first slice of which nothing is lost; the one that the job is on stands first."""
        return next((hosts for hosts in self._slices if not self._lost & set(hosts)), None)
