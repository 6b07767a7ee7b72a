"""The cluster that a run uses: checked before anything is written, then reserved.

One for a process: a driver is connected to one cluster.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from recoverybench.errors import HarnessError, NothingLeft, UsageError, bad_value
from recoverybench.launchers import _ray_cluster, _ray_tpu
from recoverybench.launchers._ray_cluster import Cluster
from recoverybench.launchers._ray_handle import first_line
from recoverybench.launchers._ray_nodes import SPARE, Node, Seats, bundle_count, in_order
from recoverybench.launchers._ray_room import Packed, Room, packed_spare
from recoverybench.launchers.base import Share, Wanted

PACK = "pack"

SLICES: Final = 2
"""Whole TPU slices that a job has: one to be on, and one to come back on."""


class Site:
    """A cluster, and the nodes of it that are reserved.

    Args:
        cluster: that this process is connected to. pack: workers may share a node.
        share: what it may use of the cluster; None: all of it.

    Attributes:
        seats: who is on which node. lost: nodes that are gone, known before Ray says so.
        room: for jobs side by side, once it is checked.
    """

    def __init__(self, cluster: Cluster, *, pack: bool, share: Share | None = None) -> None:
        self.cluster = cluster
        self.pack = pack
        self.seats = Seats([], cluster.here)
        self.room: Room | Packed | None = None
        self._share = share or Share()
        self.lost: set[str] = set(self._share.lost)
        self.bundle: dict[str, float] = {"CPU": 1.0}
        self._wanted: Wanted | None = None
        self._nodes: dict[str, Node] = {}
        self._index: dict[str, int] = {}
        self._order: list[str] = []
        self._slices_held: list[list[str]] = []

    def check(self, wanted: Wanted) -> None:
        """Reserve nodes, and see that all of them have what workers need.

        For jobs side by side it is seen that there is room for them, and what is reserved is given
        back: each of them reserves its own, see `hold`.

        Raises:
            UsageError: the cluster has too few nodes, or one of them has other software or files.
        """
        if wanted.shared:
            self._wanted = wanted
            names = self._count()
        else:
            self.hold(wanted)
            names = self.seats.nodes
        nodes = [self._nodes[node] for node in names]
        with _Tokens(wanted.directories) as token:
            directories = [str(d.absolute()) for d in wanted.directories]
            files = [str(f.absolute()) for f in wanted.files]
            found = self.cluster.look(nodes, directories, files, token)
        here = _ray_cluster.own_versions()
        for node in nodes:
            lack = lacks(found[node.id], here)
            if lack is not None:
                raise UsageError(f"--launcher ray: node {node.name} {lack}")

    def hold(self, wanted: Wanted) -> None:
        """Reserve nodes for the largest job of the run.

        Raises:
            UsageError: there are too few, or other work has them.
        """
        self._wanted = wanted
        # Ray takes a node that has just died for alive, and would place nothing there.
        there = self._there()
        while not self._reserve_on(there):
            before, there = there, self._there()
            if there == before:
                raise self._in_use()

    def _count(self) -> list[str]:
        """Count the room for jobs side by side; returns the nodes that they may be on.

        Raises:
            UsageError: there is none for a single one.
        """
        assert self._wanted is not None
        there, most = self._there(), None
        while True:
            room = self._room_on(there, most)
            count = self._wanted.workers * room.size if self.pack else len(room.nodes)
            on = None if self.pack else room.nodes
            if self.cluster.reserve([self.bundle] * count, on) is not None:
                break
            before, there = there, self._there()
            if there == before and room.size == 1:
                raise self._in_use()
            # Other work has a part of it: which one Ray does not say.
            most = room.size // 2 if there == before else most
        self.cluster.release()
        self.room = room
        return room.nodes

    def _there(self) -> list[Node]:
        ours = self._share.nodes
        return [
            node
            for node in self.cluster.nodes()
            if node.id not in self.lost and (not ours or node.id in ours)
        ]

    def _lay_out(self, there: Sequence[Node]) -> tuple[list[str], list[list[str]]]:
        """The nodes that a job may be on, in their order, and the slices that they form.

        Raises:
            UsageError: they are too few, or not alike.
        """
        wanted = self._wanted
        assert wanted is not None
        nodes = self._fitting(there, wanted)
        self._check_count(nodes, wanted)
        try:
            self.bundle = _ray_tpu.bundle(nodes, wanted.platform)
        except ValueError as error:
            raise bad_value("--launcher", "ray", str(error)) from None
        self._nodes = {n.id: n for n in nodes}
        slices = self._slices(nodes, wanted.platform)
        if slices:
            return [node for hosts in slices for node in hosts], slices
        return self._in_order([n.id for n in nodes]), []

    def _in_order(self, names: Sequence[str]) -> list[str]:
        assert self._wanted is not None
        ids = {n.id: _ray_tpu.worker_id(n) for n in self._nodes.values()}
        return in_order(names, self.cluster.here, self._wanted.workers, ids)

    def _reserve_on(self, there: Sequence[Node]) -> bool:
        """Whether there is room on these nodes; raises as `_lay_out`."""
        order, slices = self._lay_out(there)
        assert self._wanted is not None
        slices = slices[:SLICES]
        if slices:
            order = [node for hosts in slices for node in hosts]
        else:
            order = order[: bundle_count(self._wanted.workers, len(order))]
        count = self._wanted.workers if self.pack else len(order)
        reserved = self.cluster.reserve([self.bundle] * count, None if self.pack else order)
        if reserved is None:
            return False
        self._index = {node: index for index, node in reversed(list(enumerate(reserved)))}
        self._order = self._in_order(reserved) if self.pack else order
        self._slices_held = slices
        self.seats = Seats(self._order, self.cluster.here, slices)
        return True

    def _room_on(self, there: Sequence[Node], most: int | None) -> Room | Packed:
        """The room that these nodes have; raises as `_lay_out`."""
        order, slices = self._lay_out(there)
        assert self._wanted is not None
        workers = self._wanted.workers
        if self.pack:
            fits = {n: _ray_tpu.fits(self._nodes[n], self.bundle) for n in order}
            return Packed(fits, workers, most)
        if slices:
            return Room(slices, SLICES, most)
        return Room([[node] for node in order], workers + SPARE, most)

    def _in_use(self) -> UsageError:
        room = f"room for {_words(self.bundle)} on each of them"
        return bad_value("--launcher", "ray", f"{room}, and other work has it")

    def _check_count(self, nodes: Sequence[Node], wanted: Wanted) -> None:
        workers = wanted.workers
        if not nodes or (not self.pack and len(nodes) < workers):
            raise self._too_few(len(nodes), f"{workers} nodes for {workers} workers", wanted)
        # The supervisor's node is the one that no fault may take.
        others = [node for node in nodes if node.id != self.cluster.here]
        if wanted.nodes_lost and not others:
            raise self._too_few(len(nodes), "a node beside the supervisor's to be lost", wanted)
        # Later on a job may come back on nodes that others of it are on.
        if wanted.nodes_lost and not self.pack and not self.lost and len(nodes) <= workers:
            what = f"{workers + 1} nodes, as a fault takes one of the {workers} workers'"
            raise self._too_few(len(nodes), what, wanted)

    def spare(self) -> tuple[int, int]:
        """Of how many nodes how many can be lost, one after another, so that a job still has what
        it needs to begin. With every host of a TPU slice the whole slice is lost.
        """
        assert self._wanted is not None
        workers = self._wanted.workers
        nodes = list(self._nodes.values())
        if slices := self._slices(nodes, self._wanted.platform):
            return len(nodes), len(slices) - 1
        if not self.pack:
            return len(nodes), len(nodes) - workers
        fits = {n.id: _ray_tpu.fits(n, self.bundle) for n in nodes}
        own = fits.pop(self.cluster.here, 0)
        return len(nodes), packed_spare(own, list(fits.values()), workers)

    def begin_job(self) -> None:
        """Seats as at the very beginning, on what is reserved; that is renewed where nodes of it
        were lost since.

        Raises:
            NothingLeft: too few are left, in the whole cluster.
            HarnessError: likewise, of this job's share of it.
        """
        living = {node.id for node in self.cluster.nodes()}
        self.lost |= {node for node in self._index if node not in living}
        if self.lost & self._index.keys():
            assert self._wanted is not None
            try:
                self.hold(self._wanted)
            except UsageError as error:
                kind = HarnessError if self._share.nodes else NothingLeft
                raise kind(f"nodes were lost: {error}") from None
        self.seats = Seats(self._order, self.cluster.here, self._slices_held)

    def host(self, node: str, arguments: tuple[dict[str, str], str, str | None]) -> Any:
        """A new actor on that node, see `Cluster.host`.

        Only where it needs its node's accelerators it is inside of what is reserved: it would end
        with a reservation that is made anew.
        """
        accelerated = len(self.bundle) > 1 and node not in self.lost
        bundle = self._index.get(node) if accelerated else None
        return self.cluster.host(node, bundle, self.bundle if bundle is not None else {}, arguments)

    def address_of(self, node: str) -> str:
        """Under which other nodes reach a node."""
        return self._nodes[node].address if node in self._nodes else self.cluster.address

    def addresses(self) -> list[str]:
        """Of all nodes, and this one."""
        return sorted({self.cluster.address, *(n.address for n in self._nodes.values())})

    def lose(self, node: str) -> None:
        """A node is gone."""
        self.lost.add(node)
        self.seats.lose(node)

    def newly_lost(self) -> frozenset[str]:
        """Nodes that are gone, without those that were when its share was given."""
        return frozenset(self.lost - self._share.lost)

    def _fitting(self, there: Sequence[Node], wanted: Wanted) -> list[Node]:
        try:
            return _ray_tpu.candidates(there, wanted.platform, wanted.workers)
        except ValueError as error:
            raise bad_value("--launcher", "ray", str(error)) from None

    def _slices(self, nodes: Sequence[Node], platform: str) -> list[list[str]]:
        found = _ray_tpu.slices(nodes) if platform == "tpu" else {}
        return [[host.id for host in hosts] for hosts in found.values()]

    def _too_few(self, count: int, needed: str, wanted: Wanted) -> UsageError:
        resource = _ray_tpu.RESOURCE.get(wanted.platform)
        kind = "with a core" if resource is None else f"with a core and a {resource}"
        more = "" if wanted.nodes_lost or resource is not None else "; ray:pack lets them share"
        return bad_value("--launcher", "ray", f"{needed}, and the cluster has {count} {kind}{more}")


def lacks(found: Any, here: Mapping[str, str]) -> str | None:
    """What a node lacks, for people.

    Args:
        found: what it said of itself, or the exception that it answered with. here: versions of
            this process.
    """
    if isinstance(found, BaseException):
        return f"does not answer: {first_line(found)}"
    for name, version in here.items():
        there = found["versions"].get(name, "none")
        if there != version:
            return f"has {name} {there}, and this machine has {version}: expected the same"
    if found["unseen"]:
        return f"does not see {found['unseen'][0]}: expected a directory that all nodes share"
    if found["missing"]:
        return f"cannot read {found['missing'][0]}: expected a file that all nodes share"
    return None


class _Tokens:
    """A file of one new name in each directory, as long as this is open."""

    def __init__(self, directories: Sequence[Path]) -> None:
        self._name = f".recoverybench-{os.getpid()}-{secrets.token_hex(8)}"
        self._directories = list(dict.fromkeys(directory.resolve() for directory in directories))

    def __enter__(self) -> str:
        for directory in self._directories:
            try:
                (directory / self._name).touch(exist_ok=False)
            except OSError as error:
                self.__exit__()
                why = f"a directory that can be written ({error.strerror})"
                raise bad_value("--launcher ray", str(directory), why) from None
        return self._name

    def __exit__(self, *_: object) -> None:
        for directory in self._directories:
            with suppress(OSError):
                (directory / self._name).unlink()


def _words(bundle: Mapping[str, float]) -> str:
    return " and ".join(f"{amount:g} {name}" for name, amount in bundle.items())
