"""The launcher for a cluster: a worker is the main process of a pod, and its end the pod's.

The workers that a job begins with are the pods of one JobSet; what is started later is a pod of
its own. Nothing is brought back by Kubernetes: who replaces a lost worker is the supervisor, in
the place of the Job controller, so what is measured as `replace` is one request, the scheduler,
the kubelet, the image (on the node, as a rule), the container and the interpreter.
"""

from __future__ import annotations

import itertools
import os
import secrets
import signal
import threading
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from recoverybench.errors import HarnessError
from recoverybench.launchers._kubernetes import ends, manifests
from recoverybench.launchers._kubernetes.api import ApiError
from recoverybench.launchers._kubernetes.cluster import Cluster
from recoverybench.launchers._kubernetes.manifests import JobPlan
from recoverybench.launchers._kubernetes.preview import SECRET
from recoverybench.launchers._kubernetes.watching import Watching
from recoverybench.launchers.base import Ended, How, Process, Reach

_SENDERS: Final = 16

_SEEN_S: Final = 3.0
"""How long the API may take to learn of an end from the kubelet, before a pod counts as one in
which nothing can be run: a signal that ends the container may end its own messenger as well."""


@dataclass(slots=True, eq=False)
class _Unit:
    """One process, from its start on.

    Attributes:
        process: what the job holds. slot, attempt: which one it is.
        pod: name of its pod; None: not seen yet. uid: of that pod. node: where it runs.
        started: its container has run. ended: how it ended. words: what Kubernetes says of it.
        doomed: it is to be killed as soon as there is a pod.
        turn: signals to it are sent one after another. over: set when `ended` is.
    """

    process: Process
    slot: int
    attempt: int
    pod: str | None = None
    uid: str | None = None
    node: str | None = None
    started: bool = False
    ended: Ended | None = None
    words: str = ""
    doomed: bool = False
    turn: threading.Lock = field(default_factory=threading.Lock)
    over: threading.Event = field(default_factory=threading.Event)


@dataclass(frozen=True, slots=True)
class _Announcement:
    """A job that is about to begin: where its control channel is, its name, its size."""

    address: str
    name: str
    workers: int
    hosts: int


@dataclass(slots=True, eq=False)
class _Job:
    """One job of the launcher.

    Attributes:
        plan: of its manifests. hosts: pods of a slice. owner: name and uid of its JobSet.
        nodes: by slice, a node that one of its pods runs on. pools: node -> its node pool.
    """

    plan: JobPlan
    hosts: int
    owner: tuple[str, str]
    nodes: dict[int, str] = field(default_factory=dict)
    pools: dict[str, str | None] = field(default_factory=dict)


class Pods:
    """See `launchers.base.Launcher`. Use it from one thread.

    Args:
        cluster: where. environment: of every worker. log: output of the launcher's own.
    """

    reach: Reach = "network"

    def __init__(self, cluster: Cluster, environment: Mapping[str, str], log: Path) -> None:
        self.python = cluster.settings.python
        self.environment = dict(environment)
        self.bind = cluster.settings.supervisor_address
        self.exit_s = 30.0 + cluster.settings.grace_s
        self._cluster, self._log = cluster, log
        self._token = secrets.token_hex(4)
        self._numbers, self._names = itertools.count(1), itertools.count()
        self._next: _Announcement | None = None
        self._job: tuple[str, _Job] | None = None
        self._units: dict[tuple[str, int, int], _Unit] = {}
        self._lock = threading.Lock()
        self._failed: str | None = None
        self._closed = False
        self._about = ""
        self._cordoned: list[str] = []
        self._senders = ThreadPoolExecutor(_SENDERS, thread_name_prefix="rb-signal")
        selector = f"{manifests.LAUNCHER}={self._token}"
        path = cluster.path("pods")
        self._watching = Watching(cluster.api, path, selector, self._heard, self._lose_sight)

    # What a job asks for

    def measures(self, what: str) -> None:
        """See `launchers.base.Informed`; stands on every object as an annotation."""
        self._about = what

    def announce(self, address: str, workers: int) -> None:
        """A job of that many workers will ask for processes that connect to `address`."""
        _, hosts = self._cluster.settings.groups(workers)
        name = f"rb-{self._token}-{next(self._names)}"
        self._next = _Announcement(address, name, workers, hosts)

    def start(
        self,
        address: str,
        slot: int,
        attempt: int,
        how: How,
        log: Path,
        network: str | None = None,
    ) -> Process:
        """See `launchers.base.Launcher.start`; every start is a cold one."""
        if network is not None:
            raise HarnessError("a pod has the network that the cluster gives it")
        if self._failed is not None:
            raise HarnessError(f"the cluster cannot be followed any more: {self._failed}")
        if self._job is None or self._job[0] != address:
            self._begin(address, log)
        assert self._job is not None
        job = self._job[1]
        process = Process(next(self._numbers), os.eventfd(0, os.EFD_CLOEXEC), "cold", log)
        unit = _Unit(process, slot, attempt)
        with self._lock:
            known = self._units.setdefault((job.plan.name, slot, attempt), unit)
        if known is not unit:
            os.close(process.fd)
            raise HarnessError(f"slot {slot}, attempt {attempt} was started before")
        if slot >= job.plan.workers or attempt > 0:
            unit.pod = manifests.pod_name(job.plan.name, slot, attempt)
            made = manifests.pod(
                job.plan,
                self._cluster.settings,
                slot,
                attempt,
                owner=job.owner if job.owner[1] else None,
                pool=self._pool(job, slot),
            )
            self._cluster.create("pods", made)
        elif self._complete(job):
            self._create_set(job)
        return process

    def signal(self, process: Process, number: int) -> None:
        """See `launchers.base.Launcher.signal`; does not wait until it has been sent."""
        unit = self._unit(process)
        if unit is not None and unit.ended is None:
            self._senders.submit(self._send, unit, number)

    def reap(self, process: Process) -> Ended | None:
        """See `launchers.base.Launcher.reap`.

        Raises:
            HarnessError: the cluster cannot be followed any more.
        """
        unit = self._unit(process)
        if unit is None or unit.ended is None:
            if self._failed is not None:
                raise HarnessError(f"the cluster cannot be followed any more: {self._failed}")
            return None
        with self._lock:
            self._units = {key: u for key, u in self._units.items() if u is not unit}
        os.close(process.fd)
        if unit.words:
            with suppress(OSError), process.log.open("a", encoding="utf-8") as log:
                log.write(f"Kubernetes: pod {unit.pod}: {unit.words}\n")
        return unit.ended

    def host(self, slot: int) -> str:
        """Name under which the worker in that slot is reached, now and after it was replaced.

        The whole name, because a pod finds that one in its own ``/etc/hosts``, where the cluster's
        DNS may still have the address of the pod before it.
        """
        job, settings = self._next, self._cluster.settings
        if job is None:
            raise HarnessError("no job was announced")
        name = manifests.pod_name(job.name, slot, 0)
        if slot < job.workers:
            name = manifests.host_name(job.name, slot, job.hosts)
        return f"{name}.{job.name}.{settings.namespace}.svc.{settings.cluster_domain}"

    def lost(self, slot: int) -> None:
        """Nothing: where the next pod of that slot goes is the scheduler's to decide."""

    def close(self) -> None:
        """See `launchers.base.Launcher.close`: nothing of ours stays in the cluster."""
        self.release_nodes()
        self._senders.shutdown(wait=True, cancel_futures=True)
        try:
            self._cluster.delete_all({manifests.LAUNCHER: self._token})
        except ApiError as error:
            self._say(f"left behind, for the next start to delete: {error}")
        self._watching.close()
        with self._lock:
            self._closed = True  # from here on nobody writes to what may be another's descriptor
            units, self._units = list(self._units.values()), {}
        for unit in units:
            os.close(unit.process.fd)

    # What faults ask for

    def delete_pod(self, process: Process, grace_s: int | None) -> None:
        """Delete the pod of a worker: with its own grace period (None), or that many seconds.

        Raises:
            HarnessError: it has none any more, or the server refuses.
        """
        unit = self._with_pod(process)
        if not self._cluster.delete("pods", str(unit.pod), grace_s, unit.uid):
            raise HarnessError(f"pod {unit.pod} was gone before it could be deleted")

    def evict_pod(self, process: Process) -> None:
        """Have it evicted, with its own grace period. Raises as `delete_pod`."""
        self._cluster.evict(str(self._with_pod(process).pod))

    def drain_node(self, process: Process) -> int:
        """Have the node of a worker take no more pods, and all of the job's on it evicted; returns
        how many those are. Nothing else on it is, the supervisor's own pod least of all. Raises as
        `delete_pod`.
        """
        node = self._with_pod(process).node
        if node is None:
            raise HarnessError("the worker's pod is on no node yet")
        if not self._cluster.closed(node):  # else it is somebody else's to open
            self._cordoned.append(node)  # before it is asked for: the answer may be lost
            self._cluster.close_node(node)
        with self._lock:
            there = [u for u in self._units.values() if u.node == node and u.ended is None]
        names = [each.pod for each in there if each.pod is not None]
        for name in names:
            self._cluster.evict(name)
        return len(names)

    def on_node_of(self, process: Process) -> list[Process]:
        """The processes that share a node with this one, itself included."""
        unit = self._unit(process)
        if unit is None or unit.node is None:
            return [process]
        with self._lock:
            units = list(self._units.values())
        return [u.process for u in units if u.ended is None and u.node == unit.node]

    def release_nodes(self) -> None:
        """Have every node take pods again that `drain_node` closed; one for which that fails is
        tried again at the end, and by the next start.
        """
        closed, self._cordoned = self._cordoned, []
        for node in closed:
            try:
                self._cluster.open_node(node)
            except ApiError as error:
                self._cordoned.append(node)
                self._say(f"node {node} is still cordoned (kubectl uncordon {node}): {error}")

    # Inside

    def _begin(self, address: str, log: Path) -> None:
        """Another job: the one before it has ended, and goes with all that it has."""
        if self._job is not None:
            self._cluster.delete_all({manifests.JOB: self._job[1].plan.name})
            self._job = None
        said = self._next
        if said is None or said.address != address:
            raise HarnessError(f"no job was announced at {address}")
        settings, name = self._cluster.settings, said.name
        trial = log.absolute().parent
        labels = self._cluster.labels(self._token, trial.parents[1].name, trial.name)
        hidden = tuple(key for key in (SECRET,) if key in self.environment)
        plan = JobPlan(
            name,
            said.workers,
            address,
            str(trial),
            dict(self.environment),
            hidden,
            {**labels, manifests.JOB: name},
            self._about,
            self._cluster.ourselves.owners,
        )
        values = {key: self.environment[key] for key in hidden}
        self._cluster.create("secrets", manifests.secret(plan, settings, values))
        self._job = address, _Job(plan, said.hosts, (name, ""))

    def _complete(self, job: _Job) -> bool:
        """Every worker that the job begins with has been asked for, so that none of its pods can
        be seen before anybody waits for it.
        """
        begun = range(job.plan.workers)
        return all((job.plan.name, slot, 0) in self._units for slot in begun)

    def _create_set(self, job: _Job) -> None:
        made = self._cluster.create("jobsets", manifests.jobset(job.plan, self._cluster.settings))
        job.owner = job.plan.name, str(made["metadata"]["uid"])

    def _pool(self, job: _Job, slot: int) -> str | None:
        """The node pool that a replacement must be in: that of its slice."""
        if self._cluster.settings.accelerator is None or slot >= job.plan.workers:
            return None
        node = job.nodes.get(slot // job.hosts)
        if node is None:
            return None
        if node not in job.pools:
            job.pools[node] = self._cluster.node_pool(node)
        return job.pools[node]

    def _unit(self, process: Process) -> _Unit | None:
        with self._lock:
            return next((u for u in self._units.values() if u.process is process), None)

    def _with_pod(self, process: Process) -> _Unit:
        unit = self._unit(process)
        if unit is None or unit.pod is None or unit.ended is not None:
            raise HarnessError("the worker has no pod that could be taken away")
        return unit

    def _send(self, unit: _Unit, number: int) -> None:
        """On a thread of its own, for a command in a pod takes a tenth of a second."""
        with unit.turn:
            if unit.ended is not None:
                return
            try:
                # Also where the API has not heard yet that the container runs: the worker may
                # have been here for a second by then.
                if unit.pod is not None:
                    self._cluster.send(unit.pod, number)
                    return
            except HarnessError as error:
                if unit.started and number == signal.SIGKILL and unit.over.wait(_SEEN_S):
                    return
                if unit.ended is None:
                    self._say(str(error))
            if number == signal.SIGKILL:
                self._remove(unit)

    def _remove(self, unit: _Unit) -> None:
        """End a pod in which nothing can be run, or in which nothing runs yet."""
        unit.doomed = True
        if unit.pod is not None:
            try:
                self._cluster.delete("pods", unit.pod, 0, unit.uid)
            except ApiError as error:
                self._say(str(error))

    # On the thread of the watch

    def _heard(self, pod: dict[str, Any], deleted: bool) -> None:
        metadata = pod["metadata"]
        labels = metadata.get("labels") or {}
        job = self._job[1] if self._job is not None else None
        if job is None or labels.get(manifests.JOB) != job.plan.name:
            return
        slot = manifests.slot_of(labels, metadata.get("annotations") or {}, job.hosts)
        if slot is None:
            return
        key = job.plan.name, slot, int(labels.get(manifests.ATTEMPT, "0"))
        with self._lock:
            unit = self._units.get(key)
        if unit is None or unit.ended is not None or unit.uid not in (None, metadata["uid"]):
            return
        seen = ends.look(pod, deleted=deleted)
        unit.uid, unit.pod = str(metadata["uid"]), str(metadata["name"])
        unit.node = (pod.get("spec") or {}).get("nodeName") or unit.node
        if unit.node is not None and slot < job.plan.workers:
            job.nodes[slot // job.hosts] = unit.node
        unit.started = seen.started
        if seen.words != unit.words and seen.words:
            self._say(f"pod {unit.pod}: {seen.words}")
        unit.words = seen.words
        if seen.ended is not None:
            with self._lock:
                unit.ended = seen.ended
                if not self._closed:
                    os.eventfd_write(unit.process.fd, 1)
            unit.over.set()
        elif unit.doomed:
            with suppress(RuntimeError):  # the senders are closed: everything is being deleted
                self._senders.submit(self._remove, unit)

    def _lose_sight(self, why: str) -> None:
        self._failed = why
        self._say(why)
        with self._lock:
            for unit in () if self._closed else self._units.values():
                os.eventfd_write(unit.process.fd, 1)

    def _say(self, text: str) -> None:
        with suppress(OSError), self._log.open("a", encoding="utf-8") as log:
            log.write(f"{text}\n")
