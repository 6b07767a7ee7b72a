"""The few things that are asked of Ray, and the only place that imports it.

Ray is imported when a cluster is connected to, and never before: it takes a second.
"""

from __future__ import annotations

import importlib
import os
import signal
import socket
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Final

from recoverybench.errors import UsageError, bad_value, shorten
from recoverybench.launchers._ray_host import Host
from recoverybench.launchers._ray_nodes import Node, alive

PLACE: Final = "RAY_ADDRESS"
"""Ray's own environment variable for where a cluster is; ``auto``: the one of this machine."""

_START = (
    "expected a running cluster, begun with 'ray start --head' on one machine and "
    "'ray start --address=HOST:6379' on each other"
)
_REACH_S = 5.0
_RESERVE_S = 30.0
_LOOK_S = 60.0
_CALLS = 1000
"""Calls to an actor at once; each worker has one that waits for its end."""

Done = Callable[[Any, BaseException | None], None]
"""Receives a result, or why there is none; called on a thread of Ray's."""


class Cluster:
    """A cluster that this process is connected to as a driver.

    Attributes:
        here: id of the node that this process is on. address: of this node.
    """

    def __init__(self, ray: Any, restore: Callable[[], None]) -> None:
        self._ray = ray
        self._restore = restore
        self._group: Any = None
        self.here = str(ray.get_runtime_context().get_node_id())
        self.address = str(ray.util.get_node_ip_address())

    def nodes(self) -> list[Node]:
        """The nodes that Ray takes for alive."""
        return alive(self._ray.nodes())

    def reserve(
        self, bundles: Sequence[dict[str, float]], nodes: Sequence[str] | None
    ) -> list[str] | None:
        """Hold these resources, in the place of what was held before.

        Args:
            nodes: node of each bundle; None: spread as evenly as they fit.

        Returns:
            Node of each bundle; None: the cluster has no room for them.
        """
        util = self._ray.util
        self.release()
        where: dict[str, Any] = {"strategy": "SPREAD"}
        if nodes is not None:
            wanted = [{"ray.io/node-id": node} for node in nodes]
            where = {"strategy": "STRICT_SPREAD", "bundle_label_selector": wanted}
        self._group = util.placement_group([dict(b) for b in bundles], **where)
        if not self._group.wait(_RESERVE_S):
            self.release()
            return None
        table = util.placement_group_table(self._group)["bundles_to_node_id"]
        return [str(table[index]) for index in range(len(bundles))]

    def release(self) -> None:
        """Give back what is held."""
        if self._group is not None:
            self._ray.util.remove_placement_group(self._group)
            self._group = None

    def host(
        self,
        node: str,
        bundle: int | None,
        resources: dict[str, float],
        arguments: tuple[dict[str, str], str, str | None],
    ) -> Any:
        """A new actor on that node; at once, it is made in the background.

        Args:
            bundle: that it is in; None: beside what is reserved. resources: that it takes of it.
            arguments: of `Host`.
        """
        strategies = importlib.import_module("ray.util.scheduling_strategies")
        if bundle is None:
            place = strategies.NodeAffinitySchedulingStrategy(node, soft=False)
        else:
            place = strategies.PlacementGroupSchedulingStrategy(
                self._group, placement_group_bundle_index=bundle
            )
        gpus = resources.get("GPU", 0)
        more = {k: v for k, v in resources.items() if k not in ("CPU", "GPU")}
        actor = self._ray.remote(Host).options(
            num_cpus=0,
            num_gpus=gpus,
            resources=more,
            max_restarts=0,
            max_concurrency=_CALLS,
            scheduling_strategy=place,
        )
        return actor.remote(*arguments)

    def call(self, actor: Any, method: str, *arguments: Any, done: Done | None = None) -> None:
        """Call an actor's method without waiting for it."""
        reference = getattr(actor, method).remote(*arguments)
        if done is not None:
            reference.future().add_done_callback(
                lambda future: (
                    done(None, error)
                    if (error := future.exception()) is not None
                    else done(future.result(), None)
                )
            )

    def wait(self, actor: Any, method: str, *arguments: Any, timeout_s: float) -> Any:
        """Call an actor's method and wait.

        Raises:
            Exception: what became of it instead; Ray's own kinds among them.
        """
        return self._ray.get(getattr(actor, method).remote(*arguments), timeout=timeout_s)

    def kill(self, actor: Any) -> None:
        """End an actor, and all that it started."""
        with suppress(Exception):  # it has ended, or its node has
            self._ray.kill(actor, no_restart=True)

    def look(
        self, nodes: Sequence[Node], directories: Sequence[str], files: Sequence[str], token: str
    ) -> dict[str, Any]:
        """What each node has, by its id: see `_look`; an exception where it could not be asked."""
        strategies = importlib.import_module("ray.util.scheduling_strategies")
        task = self._ray.remote(_look())
        asked = {
            node.id: task.options(
                num_cpus=0,
                max_retries=0,
                scheduling_strategy=strategies.NodeAffinitySchedulingStrategy(node.id, soft=False),
            ).remote(list(directories), list(files), token)
            for node in nodes
        }
        self._ray.wait(list(asked.values()), num_returns=len(asked), timeout=_LOOK_S)
        found = {}
        for node, reference in asked.items():
            try:
                found[node] = self._ray.get(reference, timeout=0)
            except Exception as error:  # whatever keeps a node from answering is for people
                found[node] = error
        return found

    def close(self) -> None:
        """Give everything back and end the connection."""
        self.release()
        self._ray.shutdown()
        self._restore()


def connect() -> Cluster:
    """Connect to the cluster that RAY_ADDRESS names, else to this machine's.

    Raises:
        UsageError: Ray is not installed, or no cluster answers.
    """
    address = os.environ.get(PLACE) or "auto"
    where = f"--ray-address ({PLACE})"
    if "://" in address:
        raise bad_value(where, address, "HOST:PORT, or auto: run this on a machine of the cluster")
    host, colon, port = address.rpartition(":")
    if colon and not (port.isdecimal() and answers(host, int(port))):
        raise UsageError(f"{where} = {address!r}: no Ray cluster answers there: {_START}")
    try:
        ray = importlib.import_module("ray")
    except ImportError:
        install = "pip install 'recoverybench[ray]'"
        raise UsageError(f"--launcher ray needs the package ray: {install}") from None
    restore = _keep_to_ourselves()
    handler = signal.getsignal(signal.SIGTERM)
    try:
        ray.init(
            address=address,
            configure_logging=False,
            log_to_driver=False,
            logging_level="ERROR",
            namespace=f"recoverybench-{os.getpid()}",
        )
    except (ConnectionError, RuntimeError, ValueError, AssertionError, OSError) as error:
        restore()
        said = shorten(str(error).strip().partition("\n")[0], 160)
        asked = f"{where} = {address!r}" if os.environ.get(PLACE) else "--launcher ray"
        raise UsageError(f"{asked}: no Ray cluster answers: {_START} ({said})") from None
    finally:
        if threading.current_thread() is threading.main_thread():  # elsewhere Ray leaves it alone
            signal.signal(signal.SIGTERM, handler)
    return Cluster(ray, restore)


def answers(host: str, port: int) -> bool:
    """Whether something listens there."""
    try:
        socket.create_connection((host.strip("[]"), port), timeout=_REACH_S).close()
    except OSError:
        return False
    return True


def _keep_to_ourselves() -> Callable[[], None]:
    """Keep Ray from printing into our output, and from setting variables; returns the undoing."""
    module = importlib.import_module("ray._private.worker")
    before = getattr(module, "print_to_stdstream", None)
    environment = dict(os.environ)

    def drop(*_: Any, **__: Any) -> None:
        """What Ray's processes print; what becomes of workers is in their own logs."""

    def restore() -> None:
        module.print_to_stdstream = before  # type: ignore[attr-defined]
        for name in os.environ.keys() - environment.keys():
            del os.environ[name]
        os.environ.update(environment)

    if before is not None:
        module.print_to_stdstream = drop  # type: ignore[attr-defined]
    return restore


def _look() -> Callable[[list[str], list[str], str], dict[str, Any]]:
    """A function that travels as a whole: the node it runs on need not have recoverybench."""

    def look(directories: list[str], files: list[str], token: str) -> dict[str, Any]:
        import importlib.metadata
        import os
        import sys

        versions = {"python": ".".join(map(str, sys.version_info[:3]))}
        for name in ("recoverybench", "jax"):
            try:
                versions[name] = importlib.metadata.version(name)
            except importlib.metadata.PackageNotFoundError:
                versions[name] = "none"
        unseen = [d for d in directories if not os.path.exists(os.path.join(d, token))]
        return {
            "versions": versions,
            "unseen": unseen,
            "missing": [f for f in files if not os.access(f, os.R_OK)],
        }

    return look


def own_versions() -> dict[str, str]:
    """What `look` says of this process."""
    versions: dict[str, str] = _look()([], [], "")["versions"]
    return versions
