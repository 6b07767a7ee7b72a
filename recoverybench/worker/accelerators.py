"""What this process's devices are, and how they are: facts, as far as there are any.

What a device lacks (coordinates, a slice, memory statistics) is left out. `described` and `bounds`
are pure.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib import metadata
from pathlib import Path
from typing import Any, Final

from recoverybench.journal_writer import Journal
from recoverybench.worker import metrics

_LONGEST: Final = 300
_NVIDIA: Final = Path("/proc/driver/nvidia/version")
_TPU: Final = "tpu"
_MOST_CHIPS: Final = 64
_MEMORY: Final = ("bytes_in_use", "bytes_limit")
"""Of what a device says of its memory; see `jax.Device.memory_stats`."""


class Watch:
    """Looks at the devices of one process when nothing is being timed, and logs what it sees.

    Args:
        journal: of the process. devices: gives this process's devices, and those of the job.
        read: reads the runtime's metrics.
    """

    def __init__(
        self,
        journal: Journal,
        devices: Callable[[], tuple[Sequence[Any], Sequence[Any]]],
        read: Callable[[], metrics.Found] = metrics.read,
    ) -> None:
        self._journal, self._devices, self._read = journal, devices, read
        self._described = False

    def look(self, when: str) -> None:
        """Log ``devices`` once, and ``health`` where there is something to say of it.

        Args:
            when: ``before`` the injection, or ``after`` the recovery.
        """
        own, every = self._devices()
        if not self._described:
            self._described = True
            facts = {**described(own, every), **versions(own)}
            self._journal.log("devices", **facts)
        found = health(own, self._read)
        if found is not None:
            self._journal.log("health", when=when, **found)


def here() -> tuple[Sequence[Any], Sequence[Any]]:
    """This process's devices, and those of the job."""
    import jax

    return jax.local_devices(), jax.devices()


def described(own: Sequence[Any], every: Sequence[Any]) -> dict[str, Any]:
    """What devices say of themselves.

    Args:
        own: of this process. every: of all processes; both of JAX's, or such as look like them.

    Returns:
        ``platform``, ``kind``, ``local`` and ``total`` (devices), and where there is such a thing
        ``process`` (index), ``slice`` (index) and ``chips`` (coordinates) of this process,
        ``slices`` (how many), ``topology`` (bounds of a slice's coordinates, ``4x4``; of slices
        that differ each), ``cores`` (of a chip) and ``runtime`` (the backend's version: on TPU that
        of libtpu's build, on GPU that of CUDA).
    """
    facts = {
        "platform": _each(own, "platform"),
        "kind": _each(own, "device_kind"),
        "local": len(own),
        "total": len(every),
        "process": next((i for d in own if (i := _of(d, "process_index")) is not None), None),
        "slice": min(_slices(own), default=None),
        "chips": sorted({tuple(c) for d in own if (c := _of(d, "coords"))})[:_MOST_CHIPS] or None,
        "slices": len(_slices(every)) if _slices(every) else None,
        "topology": ", ".join(dict.fromkeys(bounds(of) for of in _placed(every))) or None,
        "cores": _cores(own),
        "runtime": _runtime(own),
    }
    return {name: value for name, value in facts.items() if value is not None}


def bounds(coordinates: Sequence[Sequence[int]]) -> str:
    """How far a slice's chips reach in each direction: ``4x4``, ``2x2x4``.

    A third direction in which there is one chip only is left out, as in the names of topologies of
    TPUs whose chips lie in a plane.
    """
    sizes = [max(along) - min(along) + 1 for along in zip(*coordinates, strict=True)]
    while len(sizes) > 2 and sizes[-1] == 1:
        sizes.pop()
    return "x".join(map(str, sizes))


def versions(own: Sequence[Any], driver: Path = _NVIDIA) -> dict[str, str]:
    """Versions of what drives these devices: ``libtpu``, ``plugins`` of JAX, the ``driver``."""
    if all(_of(device, "platform") == _of(device, "device_kind") for device in own):
        return {}  # devices that are no more than their platform: nothing drives them
    found = {}
    if _TPU in _platforms(own) and (version := _installed("libtpu")) is not None:
        found["libtpu"] = version
    plugins = {
        f"{point.dist.name} {point.dist.version}"
        for point in metadata.entry_points(group="jax_plugins")
        if point.dist is not None
    }
    if plugins:
        found["plugins"] = ", ".join(sorted(plugins))
    if _TPU not in _platforms(own):
        with suppress(OSError, IndexError):  # no driver of that maker
            found["driver"] = _short(driver.read_text(encoding="utf-8").splitlines()[0])
    return found


def health(own: Sequence[Any], read: Callable[[], metrics.Found]) -> metrics.Found | None:
    """How the devices are; None: nobody would know. See `metrics.Found`."""
    memory: dict[str, list[str]] = defaultdict(list)
    for device in own:
        try:
            said = device.memory_stats() or {}
        except Exception:  # a backend that has no such statistics
            continue
        for name in _MEMORY:
            if name in said:
                memory[name].append(f"{_of(device, 'id')}: {said[name]}")
    found = read() if _TPU in _platforms(own) else metrics.Found(metrics={}, unavailable=None)
    found = {**found, "metrics": {**found["metrics"], **memory}}
    return found if found["metrics"] or found["unavailable"] else None


def _platforms(devices: Sequence[Any]) -> set[Any]:
    return {_of(device, "platform") for device in devices}


def _of(device: Any, name: str) -> Any:
    """An attribute, where the device has it; some of JAX's raise what they like."""
    try:
        return getattr(device, name, None)
    except Exception:
        return None


def _each(devices: Sequence[Any], name: str) -> str | None:
    values = sorted({_short(value) for d in devices if (value := _of(d, name)) is not None})
    return ", ".join(values) or None


def _slices(devices: Sequence[Any]) -> set[int]:
    return {index for d in devices if (index := _of(d, "slice_index")) is not None}


def _placed(devices: Sequence[Any]) -> list[list[Sequence[int]]]:
    """The coordinates of the chips of each slice, of those that have some."""
    found: dict[int, list[Sequence[int]]] = defaultdict(list)
    for device in devices:
        if coordinates := _of(device, "coords"):
            found[_of(device, "slice_index") or 0].append(tuple(coordinates))
    return [found[index] for index in sorted(found)]


def _cores(devices: Sequence[Any]) -> int | None:
    """Devices of one chip."""
    cores = {core for d in devices if (core := _of(d, "core_on_chip")) is not None}
    return len(cores) or None


def _runtime(devices: Sequence[Any]) -> str | None:
    said = (_of(_of(device, "client"), "platform_version") for device in devices)
    return next((_short(text) for text in said if text), None)


def _installed(distribution: str) -> str | None:
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return None


def _short(text: object) -> str:
    return " ".join(str(text).split())[:_LONGEST]


def say() -> None:
    """Write what this process's devices are, and how, as a line of JSON to stdout."""
    own, every = here()
    facts = {**described(own, every), **versions(own)}
    print(json.dumps({"devices": facts, "health": health(own, metrics.read)}), flush=True)
