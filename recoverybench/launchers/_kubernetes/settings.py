"""The file of ``--kubernetes FILE.toml``: where in a cluster workers run, and on what.

One flat table, and two of plain texts (``environment``, ``node_selector``). Everything is checked
before anything is started.
"""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from types import MappingProxyType
from typing import Any, Final

from recoverybench.errors import UsageError, bad_value, unknown_name

_LABEL: Final = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_SUBDOMAIN: Final = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")
_LABEL_VALUE: Final = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_LABEL_KEY: Final = re.compile(r"([a-z0-9][-a-z0-9.]{0,251}/)?[A-Za-z0-9][-A-Za-z0-9_.]{0,62}")
_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_QUANTITY: Final = re.compile(r"\d+(\.\d+)?(m|[kMGTPE]|[KMGTPE]i)?")
_HOST: Final = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9.]{0,251}[A-Za-z0-9])?|[0-9A-Fa-f:]{2,45}")
_SHAPE: Final = re.compile(r"[1-9]\d{0,3}(x[1-9]\d{0,3}){1,2}")
_IMAGE: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/@-]{0,511}")

LONGEST_GRACE_S: Final = 3600
MOST_CHIPS: Final = 16


@dataclass(frozen=True, slots=True)
class Settings:
    """Where in a cluster workers run, and on what.

    Attributes:
        image: with recoverybench in it. namespace: where everything is made.
        volume: name of the persistent volume claim that every pod mounts.
        mount: where, in the pods and on the machine that runs the supervisor.
        supervisor_address: host name or address of this machine as pods reach it; empty: the one
            by which this machine reaches the API server.
        context: of the kubeconfig; None: its current one, or the pod that the supervisor runs in.
        service_account: of the pods. queue: Kueue's LocalQueue. priority_class: of the pods.
        image_pull_secret: name of a Secret, for a private registry.
        python: the interpreter in the image.
        accelerator, topology: GKE's node labels of a TPU slice (``tpu-v6e-slice``, ``4x4``);
            both or neither. chips: TPU chips of one pod, which is all that its host has.
        cpu, memory: what a pod requests, as Kubernetes spells quantities.
        grace_s: a pod's grace period, seconds. cluster_domain: of the cluster's DNS.
        node_selector, environment: labels of the nodes; variables of the workers.
        tolerations: of every pod, as Kubernetes has them.
        source: the file, for messages.
    """

    image: str
    namespace: str
    volume: str
    mount: str
    supervisor_address: str = ""
    context: str | None = None
    service_account: str | None = None
    queue: str | None = None
    priority_class: str | None = None
    image_pull_secret: str | None = None
    python: str = "python3"
    accelerator: str | None = None
    topology: str | None = None
    chips: int | None = None
    cpu: str | None = None
    memory: str | None = None
    grace_s: int = 30
    cluster_domain: str = "cluster.local"
    node_selector: Mapping[str, str] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)
    tolerations: tuple[Mapping[str, str], ...] = ()
    source: str = "settings"

    def check_devices(self, devices: Iterable[int]) -> None:
        """Refuses workers that do not have all devices of their host, which one process takes.

        A chip is one device, or two where JAX sees its cores (v2, v3, v7x).

        Raises:
            UsageError: with the chips of a host.
        """
        if self.chips is None:
            return
        for number in devices:
            if number not in (self.chips, 2 * self.chips):
                allowed = (
                    f"{self.chips} devices a worker, as in 4x{self.chips}: that many chips has a "
                    f"host by {self.source} (or {2 * self.chips}, of chips with two)"
                )
                raise bad_value("--topology", f"{number} devices a worker", allowed)

    @property
    def hosts(self) -> int | None:
        """Pods of one slice; None: there are no slices, and a job is one group of pods."""
        if self.topology is None or self.chips is None:
            return None
        return math.prod(map(int, self.topology.split("x"))) // self.chips

    def groups(self, workers: int) -> tuple[int, int]:
        """A job's workers as (slices, pods of each).

        Raises:
            UsageError: they do not fill whole slices.
        """
        hosts = self.hosts
        if hosts is None:
            return 1, workers
        if workers % hosts:
            allowed = (
                f"a number of workers that is a multiple of {hosts}: a slice {self.topology} with "
                f"{self.chips} chips a host has {hosts}"
            )
            raise bad_value(f"{self.source}: topology", f"{workers} workers", allowed)
        return workers // hosts, hosts


def read(path: Path) -> Settings:
    """The settings of a file.

    Raises:
        UsageError: it cannot be read, or a key or value in it cannot be used.
    """
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        allowed = f"a TOML file that can be read ({error.strerror})"
        raise bad_value("--launcher kubernetes", str(path), allowed) from None
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{path.name}: not TOML: {' '.join(str(error).split())}") from None
    return of(table, path.name)


def of(table: Mapping[str, Any], source: str) -> Settings:
    """The settings that a table holds.

    Raises:
        UsageError: naming the key, what it holds and what is allowed.
    """
    for key in table:
        if key not in _READERS:
            raise unknown_name(f"{source}: key", key, _READERS)
    for key in ("image", "namespace", "volume", "mount"):
        if key not in table:
            raise UsageError(f"{source}: {key} is missing: expected {_ALLOWED[key]}")
    values = {
        key: read_(f"{source}: {key}", table[key])
        for key, read_ in _READERS.items()
        if key in table
    }
    values["grace_s"] = values.pop("grace", 30)
    settings = Settings(**values, source=source)
    tpu = {key: values.get(key) for key in ("accelerator", "topology", "chips")}
    if any(v is not None for v in tpu.values()):
        for key, value in tpu.items():
            if value is None:
                raise UsageError(
                    f"{source}: {key} is missing: expected accelerator, topology and chips "
                    f"together ({_ALLOWED[key]})"
                )
    if settings.topology is not None and settings.chips is not None:
        total = math.prod(map(int, settings.topology.split("x")))
        if total % settings.chips:
            allowed = f"a divisor of the {total} chips of topology {settings.topology}"
            raise bad_value(f"{source}: chips", settings.chips, allowed)
    return settings


_ALLOWED: Final = {
    "image": "the name of a container image",
    "namespace": "the name of a namespace (lower case letters, digits and -)",
    "volume": "the name of a persistent volume claim (lower case letters, digits, - and .)",
    "mount": "an absolute path below /, without ..",
    "supervisor_address": "a host name or an IP address of this machine, as pods reach it",
    "context": "the name of a context of the kubeconfig",
    "service_account": "the name of a service account (lower case letters, digits, - and .)",
    "queue": "the name of a LocalQueue (lower case letters, digits, - and .)",
    "priority_class": "the name of a priority class (lower case letters, digits, - and .)",
    "image_pull_secret": "the name of a Secret (lower case letters, digits, - and .)",
    "python": "an interpreter in the image, as python3 or a path",
    "accelerator": "a value of the node label cloud.google.com/gke-tpu-accelerator",
    "topology": "a value of the node label cloud.google.com/gke-tpu-topology, as 4x4 or 2x2x2",
    "chips": f"the TPU chips of one host, 1 to {MOST_CHIPS}",
    "cpu": "a quantity, as 4 or 500m",
    "memory": "a quantity, as 16Gi",
    "grace": f"whole seconds as 30s, at most {LONGEST_GRACE_S}s",
    "cluster_domain": "a DNS domain (lower case letters, digits, - and .)",
    "node_selector": "a table of node labels, each a text",
    "environment": "a table of variables, each a text",
    "tolerations": "tables [[tolerations]] with key, operator (Exists or Equal), value and effect",
}


def _text(pattern: re.Pattern[str]) -> Callable[[str, Any], str]:
    def read_(where: str, value: Any) -> str:
        if not isinstance(value, str) or not pattern.fullmatch(value):
            raise _refused(where, value)
        return value

    return read_


def _mount(where: str, value: Any) -> str:
    plain = isinstance(value, str) and value.isprintable() and len(value) <= 512
    path = PurePosixPath(value) if plain else PurePosixPath()
    if not path.is_absolute() or path == PurePosixPath("/") or ".." in path.parts or ":" in value:
        raise _refused(where, value)
    return str(path)


def _chips(where: str, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= MOST_CHIPS:
        raise _refused(where, value)
    return value


def _grace(where: str, value: Any) -> int:
    found = re.fullmatch(r"(\d{1,5})s", value) if isinstance(value, str) else None
    if found is None or int(found[1]) > LONGEST_GRACE_S:
        raise _refused(where, value)
    return int(found[1])


def _table(names: re.Pattern[str], values: re.Pattern[str]) -> Callable[[str, Any], Any]:
    def read_(where: str, value: Any) -> Mapping[str, str]:
        if not isinstance(value, dict):
            raise _refused(where, value)
        for key, text in value.items():
            if not names.fullmatch(key) or not isinstance(text, str) or not values.fullmatch(text):
                raise bad_value(f"{where}.{key}", text, "a text under a name that is allowed there")
            if key == "JAX_PLATFORMS" or key.startswith("RECOVERYBENCH_"):
                allowed = f"no {key} here: it is set where recoverybench itself is started"
                raise bad_value(f"{where}.{key}", text, allowed)
        return MappingProxyType(dict(value))

    return read_


def _tolerations(where: str, value: Any) -> tuple[Mapping[str, str], ...]:
    if not isinstance(value, list):
        raise _refused(where, value)
    for each in value:
        whole = isinstance(each, dict) and "key" in each and each.keys() <= _TOLERATION.keys()
        if not whole or not all(
            isinstance(text, str) and _TOLERATION[name].fullmatch(text)
            for name, text in each.items()
        ):
            raise _refused(where, each)
    return tuple(MappingProxyType(dict(each)) for each in value)


def _refused(where: str, value: object) -> UsageError:
    return bad_value(where, value, _ALLOWED[where.rpartition(" ")[2]])


_TOLERATION: Final = {
    "key": _LABEL_KEY,
    "operator": re.compile("Exists|Equal"),
    "value": _LABEL_VALUE,
    "effect": re.compile("NoSchedule|PreferNoSchedule|NoExecute"),
}

_PLAIN: Final = re.compile(r"[^\x00-\x1f\x7f]{0,4096}")

_READERS: Final[Mapping[str, Callable[[str, Any], Any]]] = {
    "image": _text(_IMAGE),
    "namespace": _text(_LABEL),
    "volume": _text(_SUBDOMAIN),
    "mount": _mount,
    "supervisor_address": _text(_HOST),
    "context": _text(re.compile(r"[^\x00-\x1f\x7f]{1,253}")),
    "service_account": _text(_SUBDOMAIN),
    "queue": _text(_SUBDOMAIN),
    "priority_class": _text(_SUBDOMAIN),
    "image_pull_secret": _text(_SUBDOMAIN),
    "python": _text(re.compile(r"[A-Za-z0-9/][A-Za-z0-9._/+-]{0,255}")),
    "accelerator": _text(_LABEL_VALUE),
    "topology": _text(_SHAPE),
    "chips": _chips,
    "cpu": _text(_QUANTITY),
    "memory": _text(_QUANTITY),
    "grace": _grace,
    "cluster_domain": _text(_SUBDOMAIN),
    "node_selector": _table(_LABEL_KEY, _LABEL_VALUE),
    "environment": _table(_VARIABLE, _PLAIN),
    "tolerations": _tolerations,
}
