"""The cluster that a run uses: checked before anything is written, then reserved.

One for a process: a driver is connected to one cluster.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from recoverybench.errors import HarnessError, UsageError, bad_value
from recoverybench.launchers import _ray_cluster, _ray_tpu
from recoverybench.launchers._ray_cluster import Cluster
from recoverybench.launchers._ray_handle import first_line
from recoverybench.launchers._ray_nodes import Node, Seats, bundle_count, in_order
from recoverybench.launchers.base import Wanted

PACK = "pack"


class Site:
    """A cluster, and the nodes of it that are reserved.

    Args:
        cluster: that this process is connected to. pack: workers may share a node.

    Attributes:
        seats: who is on which node. lost: nodes that are gone, known before Ray says so.
        users: launchers that are open on it.
    """

    def __init__(self, cluster: Cluster, *, pack: bool) -> None:
        self.cluster = cluster
        self.pack = pack
        self.seats = Seats([], cluster.here)
        self.lost: set[str] = set()
        self.users = 0
        self.bundle: dict[str, float] = {"CPU": 1.0}
        self._wanted: Wanted | None = None
        self._nodes: dict[str, Node] = {}
        self._index: dict[str, int] = {}

    def check(self, wanted: Wanted) -> None:
        """Reserve nodes, and see that all of them have what workers need.

        Raises:
            UsageError: the cluster has too few nodes, or one of them has other software or files.
        """
        self._wanted = wanted
        self.reserve()
        nodes = [self._nodes[node] for node in self.seats.nodes]
        with _Tokens(wanted.directories) as token:
            directories = [str(d.absolute()) for d in wanted.directories]
            files = [str(f.absolute()) for f in wanted.files]
            found = self.cluster.look(nodes, directories, files, token)
        here = _ray_cluster.own_versions()
        for node in nodes:
            lack = lacks(found[node.id], here)
            if lack is not None:
                raise UsageError(f"--launcher ray: node {node.name} {lack}")

    def reserve(self) -> None:
        """Hold nodes for the largest job of the run.

        Raises:
            UsageError: there are too few.
        """
        # Ray takes a node that has just died for alive, and would place nothing there.
        there = self._there()
        while not self._reserve_on(there):
            before, there = there, self._there()
            if there == before:
                room = f"room for {_words(self.bundle)} on each of them"
                raise bad_value("--launcher", "ray", f"{room}, and other work has it")

    def _there(self) -> list[Node]:
        return [node for node in self.cluster.nodes() if node.id not in self.lost]

    def _reserve_on(self, there: Sequence[Node]) -> bool:
        """Whether there is room on these nodes.

        Raises:
            UsageError: they are too few.
        """
        wanted = self._wanted
        assert wanted is not None
        here, workers = self.cluster.here, wanted.workers
        nodes = self._fitting(there, wanted)
        self._check_count(nodes, wanted)
        try:
            self.bundle = _ray_tpu.bundle(nodes, wanted.platform)
        except ValueError as error:
            raise bad_value("--launcher", "ray", str(error)) from None
        ids = {n.id: _ray_tpu.worker_id(n) for n in nodes}
        order = in_order([n.id for n in nodes], here, workers, ids)
        slices = self._slices(nodes, wanted.platform)
        if slices:
            order = [node for hosts in slices for node in hosts]
        count = len(order) if slices else bundle_count(workers, len(nodes), pack=self.pack)
        on = None if self.pack else order[:count]
        reserved = self.cluster.reserve([self.bundle] * count, on)
        if reserved is None:
            return False
        self._nodes = {n.id: n for n in nodes}
        self._index = {node: index for index, node in reversed(list(enumerate(reserved)))}
        kept = in_order(reserved, here, workers, ids) if self.pack else order[:count]
        self.seats = Seats(kept, here, slices)
        return True

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

    def renew(self) -> None:
        """Before a job: reserve anew where nodes were lost since.

        Raises:
            HarnessError: too few are left.
        """
        gone = self.lost | {node for node in self._index if node not in self._living()}
        if not gone & self._index.keys():
            return
        self.lost = gone
        try:
            self.reserve()
        except UsageError as error:
            raise HarnessError(f"nodes were lost: {error}") from None

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

    def _living(self) -> set[str]:
        return {node.id for node in self.cluster.nodes()}

    def _fitting(self, there: Sequence[Node], wanted: Wanted) -> list[Node]:
        try:
            return _ray_tpu.candidates(there, wanted.platform, wanted.workers)
        except ValueError as error:
            raise bad_value("--launcher", "ray", str(error)) from None

    def _slices(self, nodes: Sequence[Node], platform: str) -> list[list[str]]:
        found = _ray_tpu.slices(nodes) if platform == "tpu" else {}
        # One for the job, and one to come back on.
        return [[host.id for host in hosts] for hosts in list(found.values())[:2]]

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
        self._directories = directories

    def __enter__(self) -> str:
        for directory in self._directories:
            try:
                (directory / self._name).touch(exist_ok=False)
            except OSError as error:
                why = f"a directory that can be written ({error.strerror})"
                raise bad_value("--launcher ray", str(directory), why) from None
        return self._name

    def __exit__(self, *_: object) -> None:
        for directory in self._directories:
            with suppress(OSError):
                (directory / self._name).unlink()


def _words(bundle: Mapping[str, float]) -> str:
    return " and ".join(f"{amount:g} {name}" for name, amount in bundle.items())
