"""What would keep a run from working, looked for before anything is timed. Each is one line.

The cluster is reached, the namespace may be written, JobSets are known there, nodes are enough, and
a pod with the image finds recoverybench in its version and reads on the volume what this machine
has just written there.
"""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Final

from recoverybench import __version__
from recoverybench.errors import UsageError, bad_value
from recoverybench.launchers._kubernetes import access, ends, manifests
from recoverybench.launchers._kubernetes.api import ApiError
from recoverybench.launchers._kubernetes.cluster import Cluster
from recoverybench.launchers._kubernetes.settings import Settings
from recoverybench.launchers._kubernetes.watching import Watching

PROBE_S: Final = 600.0
"""How long the probe may take: an image of some gigabytes may have to come to its node first."""

MARK: Final = "recoverybench-probe: "

CODE: Final = f"""\
import sys
try:
    import recoverybench
    found = recoverybench.__version__
except Exception as error:
    found = "none (%s)" % error
try:
    token = open(sys.argv[1]).read()
except OSError as error:
    token = "unread (%s)" % error
print({MARK!r} + found + " | " + token)
open("/dev/termination-log", "w").write({MARK!r} + found + " | " + token)
"""
"""What the probe runs: says which recoverybench the image has, and what a file on the volume."""


def check_paths(cluster: Cluster, paths: Iterable[tuple[str, Path]]) -> None:
    """What the pods read and write lies on the volume, at the same path here and there.

    Args:
        paths: each with the option or variable that it comes from.

    Raises:
        UsageError: one does not.
    """
    settings = cluster.settings
    mount = Path(settings.mount)
    if not mount.is_dir():
        allowed = f"a directory of this machine, on which the volume {settings.volume} is mounted"
        raise bad_value(f"{settings.source}: mount", settings.mount, allowed)
    for where, path in paths:
        if mount.resolve() not in (path.resolve(), *path.resolve().parents):
            allowed = f"a path below {settings.mount}, which the pods see as well"
            raise bad_value(where, str(path), allowed)


def check_slices(
    settings: Settings, workers: Iterable[int], *, drains: bool, survivors: bool
) -> None:
    """The jobs fill whole slices, and what is asked of them can be had on these; asks no cluster.

    Args:
        workers: of each job. drains: a fault of the run does so. survivors: see `base.Wanted`.

    Raises:
        UsageError: naming what cannot be.
    """
    for count in workers:
        slices, hosts = settings.groups(count)
        if slices > 1 == hosts and survivors:
            allowed = (
                "a strategy without survivors (restart) on several slices of one host: JobSet ends "
                "the pods of all others when every host of one has ended"
            )
            raise bad_value("strategy", f"with survivors, on {slices} slices", allowed)
        if drains and settings.accelerator is not None and hosts > 1:
            allowed = (
                f"no evict:node on slices of {hosts} hosts: every node of a slice has its pod, and "
                "what replaces those of a drained one would have nowhere to go"
            )
            raise bad_value("fault", "evict:node", allowed)


def check_cluster(cluster: Cluster, workers: int, *, evicts: bool, drains: bool) -> None:
    """The server answers, and what a run needs may be done and is there.

    Args:
        workers: the most that a job has. evicts, drains: a fault of the run does so.

    Raises:
        UsageError: naming what is missing.
    """
    settings = cluster.settings
    try:
        cluster.api.reach()
    except ApiError as error:
        raise UsageError(
            f"--launcher = 'kubernetes': the cluster cannot be reached: {error}"
        ) from None
    try:
        _check_rights(cluster, evicts=evicts, drains=drains)
        _check_jobset(cluster)
        cluster.api.get(f"/api/v1/namespaces/{settings.namespace}/pods", limit="1")
        _check_volume(cluster)
        _check_nodes(cluster, workers, drains=drains)
    except ApiError as error:
        raise UsageError(f"--launcher = 'kubernetes': {error}") from None


def check_image(
    cluster: Cluster, told: Callable[[str], object] = lambda text: None, limit_s: float = PROBE_S
) -> None:
    """A pod with the image has this version of recoverybench, and sees the volume.

    Raises:
        UsageError: the image or the volume is not what it should be.
    """
    settings = cluster.settings
    token = secrets.token_hex(16)
    file = Path(settings.mount) / f".recoverybench-{token}"
    try:
        file.write_text(token, encoding="utf-8")
    except OSError as error:
        allowed = f"a directory that this machine can write ({error.strerror})"
        raise bad_value(f"{settings.source}: mount", settings.mount, allowed) from None
    try:
        told("probe the image")
        said = _run_probe(cluster, file, limit_s)
    except ApiError as error:
        raise UsageError(f"--launcher = 'kubernetes': {error}") from None
    finally:
        file.unlink(missing_ok=True)
    where = f"{settings.source}: image"
    if MARK not in said:
        what = said or "it ended and said nothing"
        raise bad_value(where, settings.image, f"an image whose {settings.python} runs: {what}")
    version, _, seen = said.rpartition(MARK)[2].partition(" | ")
    if version != __version__:
        allowed = f"an image with recoverybench {__version__}, as here; it has {version}"
        raise bad_value(where, settings.image, allowed)
    if seen.strip() != token:
        allowed = (
            f"the volume that is mounted on {settings.mount} here too; a pod finds {seen[:120]}"
        )
        raise bad_value(f"{settings.source}: volume", settings.volume, allowed)


def _check_rights(cluster: Cluster, *, evicts: bool, drains: bool) -> None:
    namespace = cluster.settings.namespace
    wanted: list[tuple[access.Right, str | None]] = [(r, namespace) for r in access.NEEDED]
    if evicts or drains:
        wanted.append((access.EVICT, namespace))
    if drains:
        wanted += [(right, None) for right in access.CORDON]
    elif cluster.settings.accelerator is not None:
        wanted.append((access.LOOK, None))
    for right, where in wanted:
        if not cluster.api.review(access.review(right, where)):
            scope = "in it" if where is not None else "in the cluster"
            allowed = f"a namespace in which we may {right.words} {scope}"
            raise bad_value(f"{cluster.settings.source}: namespace", namespace, allowed)


def _check_jobset(cluster: Cluster) -> None:
    group = f"{manifests.JOBSET_GROUP}/{manifests.JOBSET_VERSION}"
    try:
        cluster.api.get(f"/apis/{group}")
    except ApiError as error:
        if error.status != 404:
            raise
        raise UsageError(
            f"--launcher = 'kubernetes': expected a cluster with JobSet ({group}), and "
            f"{cluster.api.server} does not know it: install it from "
            "https://jobset.sigs.k8s.io/docs/installation/"
        ) from None


def _check_volume(cluster: Cluster) -> None:
    settings = cluster.settings
    where = f"{settings.source}: volume"
    try:
        claim = cluster.api.get(cluster.path("persistentvolumeclaims", settings.volume))
    except ApiError as error:
        if error.status == 403:  # it is not ours to look at; the probe tries it for real
            return
        if error.status != 404:
            raise
        allowed = f"a persistent volume claim of namespace {settings.namespace}"
        raise bad_value(where, settings.volume, allowed) from None
    modes = (claim.get("spec") or {}).get("accessModes") or ()
    if "ReadWriteMany" not in modes:
        allowed = f"a claim with access mode ReadWriteMany, not {', '.join(modes) or 'none'}"
        raise bad_value(where, settings.volume, allowed)


def _check_nodes(cluster: Cluster, workers: int, *, drains: bool) -> None:
    """Enough nodes, and on TPU enough chips, that take pods; room on them is the scheduler's.

    A node that is drained needs another one beside it, for what replaces its pods.
    """
    settings = cluster.settings
    selector = dict(settings.node_selector)
    if settings.accelerator is not None and settings.topology is not None:
        selector |= {
            manifests.ACCELERATOR: settings.accelerator,
            manifests.TOPOLOGY: settings.topology,
        }
    labels = {"labelSelector": ",".join(f"{k}={v}" for k, v in selector.items())}
    try:
        nodes = cluster.api.get("/api/v1/nodes", **(labels if selector else {})).get("items") or []
    except ApiError as error:
        if error.status == 403:  # not everybody may look at nodes
            return
        raise
    usable = [node for node in nodes if _takes_pods(node)]
    what = ", ".join(f"{k}={v}" for k, v in selector.items()) or "any label"
    spare = 1 if drains else 0
    beside = ", one of them for what evict:node drives away" if drains else ""
    if settings.chips is not None:
        hosts = [node for node in usable if _chips(node) >= settings.chips]
        if len(hosts) < workers + spare:
            allowed = (
                f"at least {workers + spare} nodes with {settings.chips} {manifests.CHIPS} each "
                f"that take pods ({what}){beside}; there are {len(hosts)}"
            )
            raise bad_value(f"{settings.source}: accelerator", settings.accelerator, allowed)
    elif len(usable) < 1 + spare:
        count = len(usable) or "none"
        allowed = f"a cluster with nodes that take pods ({what}){beside}; there are {count}"
        raise bad_value(f"{settings.source}: node_selector", dict(settings.node_selector), allowed)


def _takes_pods(node: dict[str, Any]) -> bool:
    conditions = (node.get("status") or {}).get("conditions") or ()
    ready = any(c.get("type") == "Ready" and c.get("status") == "True" for c in conditions)
    return ready and not (node.get("spec") or {}).get("unschedulable")


def _chips(node: dict[str, Any]) -> int:
    text = str(((node.get("status") or {}).get("allocatable") or {}).get(manifests.CHIPS, "0"))
    return int(text) if text.isdecimal() else 0


def _run_probe(cluster: Cluster, file: Path, limit_s: float) -> str:
    """What the probe said in the end, or why it did not run."""
    token = secrets.token_hex(4)
    name = f"rb-{token}-probe"
    labels = cluster.labels(token, "probe", "probe")
    metadata = {"name": name, "labels": labels, **cluster.ourselves.owners}
    over = threading.Event()
    said = [""]

    def heard(pod: dict[str, Any], deleted: bool) -> None:
        seen = ends.look(pod, deleted=deleted)
        said[0] = seen.words or said[0]
        if seen.ended is not None or seen.words.startswith(_HOPELESS):
            over.set()

    def lost(why: str) -> None:
        said[0] = why
        over.set()

    selector = f"{manifests.LAUNCHER}={token}"
    watching = Watching(cluster.api, cluster.path("pods"), selector, heard, lost)
    try:
        made = manifests.probe(metadata, cluster.settings, CODE, [str(file)])
        cluster.create("pods", made)
        if not over.wait(limit_s):
            why = said[0] or "its pod did not run"
            return f"{why} (waited {limit_s:.0f} s)"
    finally:
        watching.close()
        cluster.delete("pods", name, 0)
    return said[0]


_HOPELESS: Final = (
    "InvalidImageName",
    "ErrImageNeverPull",
    "CreateContainerConfigError",
    "CreateContainerError",
    "RunContainerError",
    "ImagePullBackOff",
)
"""What will not pass by waiting."""
