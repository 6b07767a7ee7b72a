"""What this machine is, what it is doing, and what makes it noisy. Reads files; never jax.

Every reader takes the root of the file system, so that a machine can be described from a
folder that looks like one.
"""

from __future__ import annotations

import os
import platform as _platform
import re
from pathlib import Path
from typing import Any

from recoverybench.errors import HarnessError

_ROOT = Path("/")
_THREADS_PER_CORE = 8
"""CPU devices are threads of one process: beyond this many a core, times mean nothing."""


def cores() -> int:
    """Cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def device_limit(platform: str) -> int | None:
    """Devices that a job may have on this machine; None where only the runtime knows.

    On ``cpu`` devices are threads, and the limit is 8 for each usable core.
    """
    return _THREADS_PER_CORE * cores() if platform == "cpu" else None


def platform_name() -> str:
    """JAX's platform, as the environment says; by default the CPU."""
    return os.environ.get("JAX_PLATFORMS", "").split(",")[0] or "cpu"


def load_average() -> float:
    """The 1-minute load average."""
    return os.getloadavg()[0]


def memory_available_bytes(root: Path = _ROOT) -> int:
    """Memory that new work can have without swapping.

    Raises:
        HarnessError: the system does not say.
    """
    if (available := _meminfo(root).get("MemAvailable")) is not None:
        return available
    try:
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (ValueError, OSError) as error:
        raise HarnessError(f"this system does not say how much memory is free: {error}") from error


def memory_for_work_bytes(root: Path = _ROOT) -> int:
    """Memory that new work can have at most: what is available, and what our control group allows.

    Raises:
        HarnessError: the system does not say.
    """
    limit = cgroup_limits(root)["memory_bytes"]
    available = memory_available_bytes(root)
    return available if limit is None else min(available, int(limit))


def describe(root: Path = _ROOT) -> dict[str, Any]:
    """The host as plain JSON data; a value the system does not give is None."""
    return {
        "platform": platform_name(),
        "system": _platform.system(),
        "kernel": _platform.release(),
        "architecture": _platform.machine(),
        "cpu": _cpu_model(root),
        "cores_usable": cores(),
        "cores_total": os.cpu_count(),
        "memory_total_bytes": _meminfo(root).get("MemTotal"),
        "memory_available_bytes": memory_available_bytes(root),
        "boot_id": _text(root / "proc/sys/kernel/random/boot_id"),
        "governor": _governor(root),
        "cgroup": cgroup_limits(root),
        "load": load_average(),
    }


def noise(root: Path = _ROOT) -> list[str]:
    """Plain sentences about what makes measurements on this machine noisy; empty: nothing seen."""
    found: list[str] = []
    usable, load = cores(), load_average()
    if load > 0.5 * usable:
        found.append(
            f"The load average is {load:.2f} on {usable} usable cores: other work is running."
        )
    if usable < 4:
        found.append(
            f"Only {usable} cores are usable: workers of a job wait for each other's turn."
        )
    governor = _governor(root)
    if governor not in (None, "performance"):
        found.append(f"The frequency governor is {governor!r}: the clock changes with the load.")
    if (limit := cgroup_limits(root)["cpu_cores"]) is not None and limit < usable:
        found.append(f"A control group allows {limit:g} of {usable} cores: work is throttled.")
    available = memory_available_bytes(root)
    if available < 2 << 30:
        found.append(f"Only {available / 2**30:.1f} GiB of memory are free: workers may swap.")
    return found


def cgroup_limits(root: Path = _ROOT) -> dict[str, float | None]:
    """Limits of our control group: ``cpu_cores`` and ``memory_bytes``, None where unlimited."""
    groups: dict[str, str] = {}  # controller -> path of our group; "" is version 2
    for line in (_text(root / "proc/self/cgroup") or "").splitlines():
        _, controllers, path = [*line.split(":", 2), "", ""][:3]
        for controller in controllers.split(","):
            groups[controller] = path.lstrip("/")
    mount = root / "sys/fs/cgroup"
    quota = period = memory = None
    for group in _upwards(groups.get("")):
        both = (_text(mount / group / "cpu.max") or "max").split()
        if both[0] != "max" and quota is None:
            quota, period = _number(both[0]), _number(both[-1])
        memory = _least(memory, _number(_text(mount / group / "memory.max")))
    for group in _upwards(groups.get("cpu")):
        if quota is None:
            quota = _number(_text(mount / "cpu" / group / "cpu.cfs_quota_us"))
            period = _number(_text(mount / "cpu" / group / "cpu.cfs_period_us"))
    for group in _upwards(groups.get("memory")):
        limit = _number(_text(mount / "memory" / group / "memory.limit_in_bytes"))
        # Version 1 spells "no limit" as the largest multiple of a page.
        memory = _least(memory, limit if limit is not None and limit < 2**62 else None)
    return {"cpu_cores": quota / period if quota and period else None, "memory_bytes": memory}


def _upwards(group: str | None) -> list[str]:
    """A control group and its parents: a limit anywhere above holds too."""
    if group is None:
        return []
    parts = [part for part in group.split("/") if part]
    return ["/".join(parts[:n]) for n in range(len(parts), -1, -1)]


def _least(a: float | None, b: float | None) -> float | None:
    return b if a is None else a if b is None else min(a, b)


def _number(text: str | None) -> float | None:
    return float(text) if text is not None and text.isdigit() else None


def _meminfo(root: Path) -> dict[str, int]:
    """`/proc/meminfo` in bytes."""
    found = re.findall(r"^(\w+):\s+(\d+) kB", _text(root / "proc/meminfo") or "", re.MULTILINE)
    return {name: int(kib) * 1024 for name, kib in found}


def _cpu_model(root: Path) -> str | None:
    text = _text(root / "proc/cpuinfo") or ""
    found = re.search(r"^(?:model name|Model)\s*:\s*(.+)$", text, re.MULTILINE)
    return found.group(1).strip() if found else _platform.processor() or None


def _governor(root: Path) -> str | None:
    return _text(root / "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")


def _text(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return None
