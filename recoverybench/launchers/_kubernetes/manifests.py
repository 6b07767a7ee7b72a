"""What is sent to a cluster, as plain data: a JobSet for the healthy job, pods for what follows.

The JobSet (``jobset.x-k8s.io/v1alpha2``) has one replicated job: a child job for each slice, with
a pod for each host of it, so that GKE places a slice as a whole. Kubernetes brings nothing back:
an index that fails stays failed (``backoffLimitPerIndex: 0``) and takes no other along
(``maxFailedIndexes``), and the set is not restarted (``maxRestarts: 0``). What is started later, a
replacement or a standby, is a pod of its own, owned by the set and so removed with it.

Sources: the JobSet custom resource definition; GKE's node labels for TPUs and the resource
``google.com/tpu``, cloud.google.com/kubernetes-engine/docs/how-to/tpu-multislice.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from recoverybench.launchers._kubernetes.settings import Settings

Manifest = dict[str, Any]

JOBSET_GROUP: Final = "jobset.x-k8s.io"
JOBSET_VERSION: Final = "v1alpha2"
ACCELERATOR: Final = "cloud.google.com/gke-tpu-accelerator"
TOPOLOGY: Final = "cloud.google.com/gke-tpu-topology"
NODE_POOL: Final = "cloud.google.com/gke-nodepool"
CHIPS: Final = "google.com/tpu"
EXCLUSIVE: Final = "alpha.jobset.sigs.k8s.io/exclusive-topology"
QUEUE: Final = "kueue.x-k8s.io/queue-name"
JOBSET_NAME: Final = "jobset.sigs.k8s.io/jobset-name"
"""Label by which JobSet's headless service knows its pods: one without it has no name in the DNS
(``pkg/controllers/jobset_controller.go`` in kubernetes-sigs/jobset)."""
JOB_INDEX: Final = "jobset.sigs.k8s.io/job-index"
COMPLETION_INDEX: Final = "batch.kubernetes.io/job-completion-index"

MANAGED_BY: Final = "app.kubernetes.io/managed-by"
MANAGER: Final = "recoverybench"
HOST, OWNER = "recoverybench/host", "recoverybench/owner"
LAUNCHER, RUN, TRIAL = "recoverybench/launcher", "recoverybench/run", "recoverybench/trial"
CELL = "recoverybench/cell"
JOB, SLOT, ATTEMPT = "recoverybench/job", "recoverybench/slot", "recoverybench/attempt"

GROUP: Final = "w"
"""Name of the replicated job; short, for it is part of every pod's host name."""

FIRST_SERVICE: Final = 1000
"""Slots from here on are coordination services (`job.services`), which need no TPU."""

_SLICE: Final = "MEGASCALE_SLICE_ID"

CONTAINER: Final = "worker"
PID_FILE: Final = "/tmp/recoverybench.pid"

_SCRIPT: Final = f"""\
echo $$ >{PID_FILE}
slot=$((${{RECOVERYBENCH_SLICE:-0}} * $2 + ${{RECOVERYBENCH_HOST:-0}} + $3))
exec "$1" -P -m recoverybench.worker "$4" "$slot" "$5" >>"$6/$slot.$5.log" 2>&1
"""
"""Becomes the worker, with its own pid in a file for signals. Arguments: the interpreter, hosts of
a slice, first slot, address of the control channel, attempt, directory of the logs."""


@dataclass(frozen=True, slots=True)
class JobPlan:
    """One job, as its manifests need it.

    Attributes:
        name: of its objects. workers: of the healthy job.
        address: of the control channel. logs: directory of the workers' logs, on the volume.
        variables: of the workers; what must stay secret is in `secret`, its names only here.
        secrets: names of the variables that are read from the Secret.
        labels: of every object. about: what is measured, for people; an annotation.
        owners: what the metadata of the objects says of their owner (`ourselves.Ourselves`).
    """

    name: str
    workers: int
    address: str
    logs: str
    variables: Mapping[str, str]
    secrets: tuple[str, ...]
    labels: Mapping[str, str]
    about: str = ""
    owners: Mapping[str, Any] = field(default_factory=dict)

    def metadata(self, name: str, settings: Settings, **labels: str) -> Manifest:
        """Of an object."""
        metadata: Manifest = {"name": name, "namespace": settings.namespace}
        metadata |= {"labels": {**self.labels, **labels}, **self.owners}
        if self.about:
            metadata["annotations"] = self.annotations
        return metadata

    @property
    def annotations(self) -> dict[str, str]:
        """What says to people what is measured."""
        return {CELL: self.about} if self.about else {}


def jobset(plan: JobPlan, settings: Settings) -> Manifest:
    """The healthy job.

    Raises:
        UsageError: its workers do not fill whole slices.
    """
    slices, hosts = settings.groups(plan.workers)
    template = {
        "metadata": {"labels": dict(plan.labels), "annotations": plan.annotations},
        "spec": _pod_spec(plan, settings, hosts=hosts, first=0, attempt=0, indexed=True),
    }
    metadata = plan.metadata(plan.name, settings)
    if settings.queue is not None:
        metadata["labels"][QUEUE] = settings.queue
    if settings.accelerator is not None:
        metadata["annotations"] = {**plan.annotations, EXCLUSIVE: NODE_POOL}
    job = {
        "completionMode": "Indexed",
        "completions": hosts,
        "parallelism": hosts,
        "backoffLimitPerIndex": 0,
        "maxFailedIndexes": hosts,
        "podReplacementPolicy": "Failed",
        "template": template,
    }
    return {
        "apiVersion": f"{JOBSET_GROUP}/{JOBSET_VERSION}",
        "kind": "JobSet",
        "metadata": metadata,
        "spec": {
            "network": {
                "enableDNSHostnames": True,
                "publishNotReadyAddresses": True,
                "subdomain": plan.name,
            },
            "failurePolicy": {"maxRestarts": 0},
            "replicatedJobs": [
                {"name": GROUP, "replicas": slices, "template": {"spec": job}},
            ],
        },
    }


def pod(
    plan: JobPlan,
    settings: Settings,
    slot: int,
    attempt: int,
    *,
    owner: tuple[str, str] | None,
    pool: str | None = None,
) -> Manifest:
    """One process that is started after the healthy job: a replacement, a standby, a service.

    A replacement has the host name of the pod that it replaces, so that names which others hold
    of it stay right.

    Args:
        owner: name and uid of the JobSet. pool: GKE's node pool, where it must be in that one.
    """
    if slot >= FIRST_SERVICE:
        settings = dataclasses.replace(settings, accelerator=None, topology=None, chips=None)
    spec = _pod_spec(plan, settings, hosts=0, first=slot, attempt=attempt, indexed=False)
    if slot < plan.workers:
        _, hosts = settings.groups(plan.workers)
        spec["hostname"] = host_name(plan.name, slot, hosts)
        if settings.accelerator is not None:
            place = {"name": _SLICE, "value": str(slot // hosts)}
            spec["containers"][0]["env"] += _tpu_place(plan, slot, hosts)
            spec["containers"][0]["env"] += _slices(plan, settings, place)
    else:
        spec["hostname"] = pod_name(plan.name, slot, attempt)
    spec["subdomain"] = plan.name
    if pool is not None:
        spec.setdefault("nodeSelector", {})[NODE_POOL] = pool
    name = pod_name(plan.name, slot, attempt)
    of = {SLOT: str(slot), ATTEMPT: str(attempt), JOBSET_NAME: plan.name}
    metadata = plan.metadata(name, settings, **of)
    if owner is not None:
        name, uid = owner
        metadata["ownerReferences"] = [
            {
                "apiVersion": f"{JOBSET_GROUP}/{JOBSET_VERSION}",
                "kind": "JobSet",
                "name": name,
                "uid": uid,
            }
        ]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def secret(plan: JobPlan, settings: Settings, values: Mapping[str, str]) -> Manifest:
    """The variables that stand in no argument and in no other object."""
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": plan.metadata(plan.name, settings),
        "type": "Opaque",
        "immutable": True,
        "stringData": dict(values),
    }


def probe(
    metadata: Mapping[str, Any], settings: Settings, code: str, arguments: list[str]
) -> Manifest:
    """A pod that runs a few lines of Python in the image, with the volume, and ends."""
    container: Manifest = {
        "name": CONTAINER,
        "image": settings.image,
        "command": [literal(part) for part in (settings.python, "-P", "-c", code, *arguments)],
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": [{"name": "run", "mountPath": settings.mount}],
    }
    spec = {
        **_common(settings),
        "activeDeadlineSeconds": 600,
        "containers": [container],
    }
    place = {"namespace": settings.namespace}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {**metadata, **place}, "spec": spec}


def literal(text: str) -> str:
    """A text of a container's command, arguments or variables that is to be taken as it is:
    Kubernetes replaces ``$(NAME)`` and ``$$`` in these.
    """
    return text.replace("$", "$$")


def pod_name(job: str, slot: int, attempt: int) -> str:
    """Name of a pod that is started after the healthy job."""
    return f"{job}-s{slot}-a{attempt}"


def host_name(job: str, slot: int, hosts: int) -> str:
    """Host name of the pod of that slot in the JobSet, as its controller makes it."""
    return f"{job}-{GROUP}-{slot // hosts}-{slot % hosts}"


def slot_of(labels: Mapping[str, str], annotations: Mapping[str, str], hosts: int) -> int | None:
    """The slot of a pod, by what stands on it; None: it is no worker."""
    if SLOT in labels:
        return int(labels[SLOT])
    within = labels.get(COMPLETION_INDEX, annotations.get(COMPLETION_INDEX))
    if within is None:
        return None
    return int(labels.get(JOB_INDEX, annotations.get(JOB_INDEX, "0"))) * hosts + int(within)


def _common(settings: Settings) -> Manifest:
    spec: Manifest = {
        "restartPolicy": "Never",
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": settings.grace_s,
        "volumes": [{"name": "run", "persistentVolumeClaim": {"claimName": settings.volume}}],
    }
    if settings.service_account is not None:
        spec["serviceAccountName"] = settings.service_account
    if settings.priority_class is not None:
        spec["priorityClassName"] = settings.priority_class
    if settings.image_pull_secret is not None:
        spec["imagePullSecrets"] = [{"name": settings.image_pull_secret}]
    if settings.node_selector:
        spec["nodeSelector"] = dict(settings.node_selector)
    tolerations = [dict(each) for each in settings.tolerations]
    if settings.accelerator is not None:
        # GKE adds it to pods that ask for chips; those that ask for none may have to go there too.
        tolerations.append({"key": CHIPS, "operator": "Exists", "effect": "NoSchedule"})
    if tolerations:
        spec["tolerations"] = tolerations
    return spec


def _pod_spec(
    plan: JobPlan, settings: Settings, *, hosts: int, first: int, attempt: int, indexed: bool
) -> Manifest:
    arguments = [settings.python, str(hosts), str(first), plan.address, str(attempt), plan.logs]
    environment: list[Manifest] = [
        {"name": name, "value": literal(value)}
        for name, value in {**plan.variables, **settings.environment}.items()
        if name not in plan.secrets
    ]
    for name in plan.secrets:
        source = {"secretKeyRef": {"name": plan.name, "key": name}}
        environment.append({"name": name, "valueFrom": source})
    if indexed:
        environment += [
            _annotation("RECOVERYBENCH_SLICE", JOB_INDEX),
            _annotation("RECOVERYBENCH_HOST", COMPLETION_INDEX),
        ]
        if settings.accelerator is not None:
            environment += _slices(plan, settings, _annotation(_SLICE, JOB_INDEX))
    container: Manifest = {
        "name": CONTAINER,
        "image": settings.image,
        "command": ["sh", "-c", literal(_SCRIPT), "recoverybench"],
        "args": [literal(argument) for argument in arguments],
        "env": environment,
        "volumeMounts": [{"name": "run", "mountPath": settings.mount}],
        "terminationMessagePolicy": "FallbackToLogsOnError",
    }
    if resources := _resources(settings):
        container["resources"] = resources
    spec = {
        **_common(settings),
        # The worker must not be the first process of its namespace: the kernel keeps signals that
        # would end that one, SIGKILL too, from whoever sends them from inside.
        "shareProcessNamespace": True,
        "containers": [container],
    }
    if settings.accelerator is not None and settings.topology is not None:
        tpu = {ACCELERATOR: settings.accelerator, TOPOLOGY: settings.topology}
        spec["nodeSelector"] = {**spec.get("nodeSelector", {}), **tpu}
    return spec


def _resources(settings: Settings) -> Manifest:
    named = {"cpu": settings.cpu, "memory": settings.memory}
    requests = {name: value for name, value in named.items() if value is not None}
    resources: Manifest = {}
    if settings.chips is not None:
        requests[CHIPS] = str(settings.chips)
        resources["limits"] = {CHIPS: str(settings.chips)}
    if requests:
        resources["requests"] = requests
    return resources


def _tpu_place(plan: JobPlan, slot: int, hosts: int) -> list[Manifest]:
    """What GKE puts into the pods of an indexed job, and not into one that stands alone."""
    first = slot - slot % hosts
    names = [f"{host_name(plan.name, first + i, hosts)}.{plan.name}" for i in range(hosts)]
    return [
        {"name": "TPU_WORKER_ID", "value": str(slot % hosts)},
        {"name": "TPU_WORKER_HOSTNAMES", "value": ",".join(names)},
    ]


def _slices(plan: JobPlan, settings: Settings, place: Manifest) -> list[Manifest]:
    """What joins several slices over the network between them; nothing for a single one.

    Source: the variables that `jax._src.clusters.cloud_tpu_cluster` and libtpu read.
    """
    slices, hosts = settings.groups(plan.workers)
    if slices == 1:
        return []
    first = f"{host_name(plan.name, 0, hosts)}.{plan.name}"
    return [
        {"name": "MEGASCALE_COORDINATOR_ADDRESS", "value": first},
        {"name": "MEGASCALE_NUM_SLICES", "value": str(slices)},
        place,
    ]


def _annotation(name: str, annotation: str) -> Manifest:
    path = f"metadata.annotations['{annotation}']"
    return {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}}
