"""How many jobs have room side by side on the nodes of a cluster (pure): see `launchers.base.Room`.

Each on nodes of its own: as many nodes as the largest job has workers, and the spare ones that it
would have alone, so that its replacements go where they would have gone. Of TPU hosts a job has a
whole slice, and one to come back on. With ``ray:pack`` nodes are shared, and cores are counted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from recoverybench.launchers.base import Share


class Room:
    """Room for jobs on nodes of their own.

    Args:
        groups: nodes that are used together (a node by itself, or the hosts of a slice), in the
            order in which they are used. need: how many groups a job has.
        most: jobs at the same time; None: as many as there are nodes for.
    """

    def __init__(self, groups: Sequence[Sequence[str]], need: int, most: int | None = None) -> None:
        self._groups = [tuple(group) for group in groups]
        self._need = need
        self._most = most
        self._out: list[Share] = []
        self._lost: frozenset[str] = frozenset()

    @property
    def size(self) -> int:
        """Jobs that have room now, those that have their share already among them."""
        fits = max(1, len(self._whole()) // self._need)
        return fits if self._most is None else min(fits, self._most)

    @property
    def nodes(self) -> list[str]:
        """Nodes of the first `size` shares."""
        whole = self._whole()[: self._need * self.size]
        return [node for group in whole for node in group]

    def take(self) -> Share | None:
        """See `launchers.base.Room.take`."""
        taken = {node for share in self._out for node in share.nodes}
        free = [group for group in self._whole() if not taken & set(group)]
        full = self._most is not None and len(self._out) >= self._most
        if not free or full or (self._out and len(free) < self._need):
            return None
        nodes = [node for group in free[: self._need] for node in group]
        return self._give(Share(tuple(nodes), self._lost))

    def give_back(self, share: Share, lost: frozenset[str]) -> None:
        """See `launchers.base.Room.give_back`."""
        self._out.remove(share)
        self._lost |= lost

    def _whole(self) -> list[tuple[str, ...]]:
        return [group for group in self._groups if not self._lost & set(group)]

    def _give(self, share: Share) -> Share:
        self._out.append(share)
        return share


class Packed:
    """Room for jobs that share nodes.

    Args:
        fits: node -> workers that it has room for. workers: of the largest job.
        most: as of `Room`.
    """

    def __init__(self, fits: Mapping[str, int], workers: int, most: int | None = None) -> None:
        self._fits = dict(fits)
        self._workers = workers
        self._most = most
        self._out = 0
        self._lost: frozenset[str] = frozenset()

    @property
    def size(self) -> int:
        """See `Room.size`."""
        cores = sum(count for node, count in self._fits.items() if node not in self._lost)
        fits = max(1, cores // self._workers)
        return fits if self._most is None else min(fits, self._most)

    @property
    def nodes(self) -> list[str]:
        """The nodes that are left."""
        return [node for node in self._fits if node not in self._lost]

    def take(self) -> Share | None:
        """See `launchers.base.Room.take`."""
        if self._out >= self.size or not self.nodes:
            return None
        self._out += 1
        return Share((), self._lost)

    def give_back(self, share: Share, lost: frozenset[str]) -> None:
        """See `launchers.base.Room.give_back`."""
        self._out -= 1
        self._lost |= lost


def packed_spare(own: int, others: Sequence[int], workers: int) -> int:
    """How many nodes can be lost where workers share them, whichever these are.

    Args:
        own: workers that fit onto the supervisor's node, which stays. others: onto each other one,
            of which one is left to be lost. workers: of the largest job.
    """
    left = sorted(others)
    while len(left) > 1 and own + sum(left[:-1]) >= workers:
        left.pop()
    return len(others) - len(left)
