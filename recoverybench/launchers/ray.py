"""Nodes of a Ray cluster: each worker is started by an actor, one a node; see docs/ray.md.

The supervisor is a Ray driver on one of the nodes. A placement group holds a core (and all
accelerators) of as many nodes as the job has workers, and of a few more. A worker dies with
its actor; a replacement is a new actor on another node. ``ray:pack`` lets workers share nodes.
All nodes see the same files at the same paths. RAY_ADDRESS names the cluster.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from recoverybench.errors import HarnessError, UsageError, bad_value
from recoverybench.launchers import _ray_cluster
from recoverybench.launchers._ray_handle import Handle, RayProcess, first_line
from recoverybench.launchers._ray_nodes import Seats
from recoverybench.launchers._ray_site import PACK, Site
from recoverybench.launchers._ray_variables import carried
from recoverybench.launchers.base import Ended, How, Process, Reach, Room, Share, Wanted

REACH = "network"
NEEDS = ("ray",)
HAS = ("nodes",)
LACKS = {
    "network-namespaces": "with launcher ray the network is the nodes' own",
    "nftables": "with launcher ray the network is the nodes' own",
    "user-notification": "with launcher ray file operations of workers do not pass this machine",
}

SIDE_BY_SIDE = {
    "": {},
    "pack": {"nodes": "with ray:pack and isolation = shared a node is other trials', too"},
}

_START_S: Final = 150.0
"""How long a fork server may take for its first worker, its imports included."""

_EXIT_S: Final = 30.0
"""How long an end may take to be seen. Of an actor that is told Ray tells at once; a host that has
gone without a word Ray misses for as long as its health checks allow."""

_site: Site | None = None


class Ray:
    """See `launchers.base.Launcher`, `Hosts`, `Nodes` and `Announced`.

    Args:
        site: the cluster. environment: added to what every worker gets.
        log: output of the fork servers. python: the interpreter that workers run on; None: the
            nodes' own, of the version of this process'.
    """

    reach: Reach = "network"
    exit_s = _EXIT_S

    def __init__(
        self, site: Site, environment: dict[str, str], log: Path, python: str | None = None
    ) -> None:
        self.python = python or sys.executable
        near = ",".join(["127.0.0.1", "localhost", *site.addresses()])
        self.environment = {**os.environ, "no_grpc_proxy": near, **environment}
        self.bind = site.cluster.address
        self._site = site
        self._log = log
        self._python = python
        self._forks: dict[str, Any] = {}
        self._running: dict[str, Handle] = {}
        self._count = 0
        self._announced = True

    def start(
        self,
        address: str,
        slot: int,
        attempt: int,
        how: How,
        log: Path,
        network: str | None = None,
    ) -> Process:
        """See `launchers.base.Launcher.start`.

        A cold one is started in the background, its actor too: the pid is known when it runs.
        """
        if network is not None:
            raise HarnessError("launcher ray puts no worker into a network of its own")
        node = self._seats().sit(slot)
        if node is None:
            raise HarnessError(f"no node is left for worker {slot}")
        self._count += 1
        key = f"{slot}.{attempt}.{self._count}"
        actor = self._fork_server(node) if how == "warm" else self._new_actor(node)
        request = (key, address, slot, attempt, how, str(log.absolute()), self._variables())
        cluster = self._site.cluster
        pid = self._forked(actor, node, request) if how == "warm" else 0
        handle = Handle(actor, node, key, slot, pid, own=how == "cold", log=log)
        self._running[key] = handle
        if how == "cold":
            cluster.call(actor, "start", *request, done=handle.started)
        cluster.call(actor, "ended", key, done=handle.over)
        return RayProcess(handle, how, log)

    def signal(self, process: Process, number: int) -> None:
        """See `launchers.base.Launcher.signal`; it is on its way when this returns."""
        handle = _of(process)
        if number == signal.SIGKILL:
            handle.expected = True
        if handle.ended is None:
            self._site.cluster.call(handle.actor, "signal", handle.key, int(number))

    def reap(self, process: Process) -> Ended | None:
        """See `launchers.base.Launcher.reap`."""
        handle = _of(process)
        if handle.ended is None:
            return None
        handle.close()
        self._running.pop(handle.key, None)
        # What replaces it may be there already, before its end is seen.
        if all(each.slot != handle.slot for each in self._running.values()):
            self._site.seats.leave(handle.slot)
        if handle.own:
            self._site.cluster.kill(handle.actor)
        return handle.ended

    def announce(self, address: str, workers: int) -> None:
        """See `launchers.base.Announced.announce`."""
        self._announced = True

    def _seats(self) -> Seats:
        """Who sits where, of the present job: from its first worker on, rank i on node i."""
        if self._announced:
            self._site.begin_job()
            self._announced = False
        return self._site.seats

    def host(self, slot: int) -> str:
        """See `launchers.base.Hosts.host`."""
        node = self._seats().plan(slot)
        return self.bind if node is None else self._site.address_of(node)

    def lost(self, slot: int) -> None:
        """See `launchers.base.Hosts.lost`."""
        self._site.seats.move(slot)

    def beside(self, process: Process) -> list[int]:
        """Slots of all workers on the node of this one, itself among them."""
        node = _of(process).node
        return sorted(h.slot for h in self._running.values() if h.node == node)

    def lose_node(self, process: Process) -> str:
        """SIGKILL for the raylet of a worker's node and all below it; returns the node's id.

        Raises:
            HarnessError: the supervisor is on it.
        """
        handle = _of(process)
        site = self._site
        if handle.node == site.cluster.here:
            raise HarnessError("the victim's node is the supervisor's own, which would end with it")
        for each in self._running.values():
            each.expected = each.expected or each.node == handle.node
        site.lose(handle.node)
        self._forks.pop(handle.node, None)
        site.cluster.call(handle.actor, "lose_node")
        return handle.node

    def close(self) -> None:
        """See `launchers.base.Launcher.close`."""
        cluster = self._site.cluster
        for handle in self._running.values():
            handle.expected = True
        for actor in [h.actor for h in self._running.values() if h.own] + list(
            self._forks.values()
        ):
            cluster.kill(actor)
        for handle in self._running.values():
            handle.close()
        self._running.clear()
        self._forks.clear()

    def _variables(self) -> dict[str, str]:
        return carried(self.environment, os.environ)

    def _new_actor(self, node: str) -> Any:
        arguments = (self._variables(), str(self._log.absolute()), self._python)
        return self._site.host(node, arguments)

    def _fork_server(self, node: str) -> Any:
        """The actor with a node's fork server; the first time it is begun on every node."""
        nodes = [node, *self._site.seats.nodes] if not self._forks else [node]
        for each in dict.fromkeys(nodes):
            if each not in self._forks:
                self._forks[each] = self._new_actor(each)
                self._site.cluster.call(self._forks[each], "prepare", self._variables())
        return self._forks[node]

    def _forked(self, actor: Any, node: str, request: tuple[Any, ...]) -> int:
        try:
            pid = self._site.cluster.wait(actor, "start", *request, timeout_s=_START_S)
        except Exception as error:  # of Ray's many kinds
            self._forks.pop(node, None)
            self._site.cluster.kill(actor)
            raise HarnessError(f"no worker on node {node[:8]}: {first_line(error)}") from None
        return int(pid)


def check(argument: str | None, wanted: Wanted) -> None:
    """See `launchers.base.Wanted`.

    Raises:
        UsageError: Ray is not installed, no cluster answers, or it lacks what the run wants.
    """
    if argument not in (None, PACK):
        raise bad_value("--launcher", f"ray:{argument}", f"'ray' or 'ray:{PACK}'")
    _connect(argument, None, lambda site: site.check(wanted))


def spare() -> tuple[int, int]:
    """How many nodes the cluster has for the run that was checked, and how many of them can be
    lost so that its largest job still has enough.
    """
    assert _site is not None
    return _site.spare()


def room() -> Room:
    """See `launchers.base.Room`; ends the connection of the check, which has counted it."""
    assert _site is not None and _site.room is not None
    counted = _site.room
    leave()
    return counted


def enter(argument: str | None, wanted: Wanted, share: Share) -> None:
    """See `launchers.base.Room`.

    Raises:
        UsageError: no cluster answers, or what the share has is not to be had.
    """
    _connect(argument, share, lambda site: site.hold(wanted))


def lost() -> frozenset[str]:
    """See `launchers.base.Room`."""
    return frozenset() if _site is None else _site.newly_lost()


def leave() -> None:
    """End the connection, and give back what is reserved: no launcher will be opened any more."""
    global _site
    if _site is not None:
        site, _site = _site, None
        site.cluster.close()


def _connect(argument: str | None, share: Share | None, prepare: Callable[[Site], None]) -> None:
    global _site
    leave()  # where a run was refused after its check
    site = Site(_ray_cluster.connect(), pack=argument == PACK, share=share)
    try:
        prepare(site)
    except BaseException:
        site.cluster.close()
        raise
    _site = site


def create(
    environment: dict[str, str],
    log: Path,
    python: str | None = None,
    argument: str | None = None,
) -> Ray:
    """A launcher on the cluster that `check` has seen.

    Raises:
        UsageError: it has not been called.
    """
    if _site is None:
        raise UsageError("--launcher ray: expected its check before it is opened")
    return Ray(_site, environment, log, python)


def _of(process: Process) -> Handle:
    assert isinstance(process, RayProcess)
    return process.handle
