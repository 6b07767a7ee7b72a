"""Pods of a cluster: one JobSet for each job, replacements as pods of their own.

``kubernetes:FILE.toml`` names the file that says where (``kubernetes.toml`` if nothing is said);
docs/kubernetes.md has its keys. Needs the extra ``kubernetes``, a cluster with JobSet, and a volume
that this machine and the pods see at the same path.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path

from recoverybench.errors import UsageError, bad_value
from recoverybench.launchers._kubernetes import ourselves, preflight, preview, settings, shell
from recoverybench.launchers._kubernetes.api import Api, ApiError, connect, own_address
from recoverybench.launchers._kubernetes.cluster import Cluster
from recoverybench.launchers._kubernetes.pods import Pods
from recoverybench.launchers.base import Wanted

REACH = "network"
HAS = ("pods",)
LACKS = {
    "fork-server": "each worker is a pod, and starts cold",
    "network-namespaces": "pods have the network that the cluster gives them",
    "nftables": "pods have the network that the cluster gives them",
    "nodes": "of nodes that are lost it has evict:node, and pod-delete:0s for what the API can do",
    "root": "nothing of a pod's machine is ours",
    "user-notification": "file operations in a pod do not pass the supervisor",
}

DEFAULT_FILE = "kubernetes.toml"
DRAIN = "evict:node"


def check(argument: str | None, wanted: Wanted) -> None:
    """Refuse what would fail later: see `_kubernetes.preflight`.

    Raises:
        UsageError: naming what is missing.
    """
    cluster = _cluster(argument)
    _check_platform(cluster.settings, wanted.platform, wanted.devices)
    drains = DRAIN in wanted.faults
    preflight.check_slices(
        cluster.settings, [wanted.workers], drains=drains, survivors=wanted.survivors
    )
    paths = [("--out", wanted.directories[0])]
    paths += [("RECOVERYBENCH_CACHE", path) for path in wanted.directories[1:]]
    paths += [("data or workload", path) for path in wanted.files]
    preflight.check_paths(cluster, paths)
    preflight.check_cluster(
        cluster,
        wanted.workers,
        evicts="evict" in wanted.faults,
        drains=drains,
    )
    try:
        cluster.sweep()
    except ApiError as error:
        raise UsageError(f"--launcher = 'kubernetes': {error}") from None
    preflight.check_image(cluster)


def create(
    environment: dict[str, str],
    log: Path,
    python: str | None = None,
    argument: str | None = None,
) -> Pods:
    """A launcher for that cluster.

    Raises:
        UsageError: the file or the cluster cannot be used, or another interpreter is asked for.
    """
    if python is not None:
        allowed = "this environment: what workers run on is the image"
        raise bad_value("environment", python, allowed)
    return Pods(_cluster(argument), environment, log)


def manifests(
    argument: str | None,
    workers: Iterable[int],
    devices: Iterable[int],
    variables: Mapping[str, str],
    *,
    faults: Collection[str] = (),
    survivors: bool = False,
) -> str:
    """What a run would send, as YAML; asks no cluster. See `_kubernetes.preview`.

    Args:
        workers, devices: of its jobs, and of their workers. variables: of these.
        faults, survivors: see `base.Wanted`.

    Raises:
        UsageError: the file cannot be used for them, or pyyaml is missing.
    """
    said = _settings(argument)
    _check_platform(said, variables["JAX_PLATFORMS"], devices)
    workers = sorted(set(workers))
    preflight.check_slices(said, workers, drains=DRAIN in faults, survivors=survivors)
    return preview.text(said, workers, variables)


def _check_platform(said: settings.Settings, platform: str, devices: Iterable[int]) -> None:
    """Refuse workers that would leave the accelerators of their nodes alone."""
    if said.accelerator is not None and platform != "tpu":
        raise bad_value("JAX_PLATFORMS", platform, f"tpu, since {said.source} has an accelerator")
    said.check_devices(devices)


def _settings(argument: str | None) -> settings.Settings:
    return settings.read(Path(argument or DEFAULT_FILE))


def _cluster(argument: str | None) -> Cluster:
    said = _settings(argument)
    connection, client = connect(said.context)
    api = Api(connection)
    try:
        address = own_address(connection.server)
    except UsageError:
        if not said.supervisor_address:
            raise
        address = ""  # behind a proxy; and in no pod of this cluster
    if not said.supervisor_address:
        said = dataclasses.replace(said, supervisor_address=address)

    def send(pod: str, number: int) -> None:
        shell.send(client, said.namespace, pod, number)

    return Cluster(api, said, send, ourselves.find(api, said.namespace, address))
