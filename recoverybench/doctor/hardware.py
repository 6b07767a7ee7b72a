"""Checks of the machine: room, memory, cores, noise and clocks."""

from __future__ import annotations

import shutil
import tempfile
import time
from pathlib import Path

from recoverybench import machine
from recoverybench.doctor.check import Check

GIB = 1 << 30

SHARED_MEMORY_WANTED = GIB // 4
TEMPORARY_WANTED = 2 * GIB
MEMORY_WANTED = 3 * GIB
"""What a job of three workers, a standby and the fork server needs, with room to spare."""

STEADY_CLOCKS = ("tsc", "arch_sys_counter", "kvm-clock", "hyperv_clocksource_tsc_page", "riscv")
"""Kernel clock sources that are read without a system call."""

_SPIN_S = 0.25
_GAP_S = 0.001
_STOLEN_ALLOWED = 0.02


def shared_memory(name: str) -> Check:
    """Room in /dev/shm."""
    return _room(name, Path("/dev/shm"), SHARED_MEMORY_WANTED)


def temporary_space(name: str) -> Check:
    """Room where checkpoints of a running trial lie."""
    return _room(name, Path(tempfile.gettempdir()), TEMPORARY_WANTED)


def memory(name: str) -> Check:
    """Memory that new work can have, and the control group's limit."""
    available = machine.memory_available_bytes()
    limit = machine.cgroup_limits()["memory_bytes"]
    found = f"{available / GIB:.1f} GiB available"
    if limit is not None:
        found += f", at most {limit / GIB:.1f} GiB in this control group"
    if min(available, limit if limit is not None else available) < MEMORY_WANTED:
        advice = f"three workers want about {MEMORY_WANTED / GIB:.0f} GiB: end other programs"
        return Check(name, "warning", found, advice)
    return Check(name, "ok", found)


def cores(name: str) -> Check:
    """Cores that a job may use, by affinity and by control group."""
    usable = machine.cores()
    limit = machine.cgroup_limits()["cpu_cores"]
    found = f"{usable} usable"
    if limit is not None and limit < usable:
        found += f", throttled to {limit:g} by a control group"
    if min(usable, limit if limit is not None else usable) < 2:
        advice = "workers wait for each other's turn: give the job two cores or more"
        return Check(name, "warning", found, advice)
    return Check(name, "ok", found)


def quiet(name: str) -> Check:
    """Whether other work is running."""
    load, usable = machine.load_average(), machine.cores()
    found = f"load average {load:.2f} on {usable} usable cores"
    if load > 0.5 * usable:
        return Check(name, "warning", found, "other work is running: measure when it has ended")
    return Check(name, "ok", found)


def governor(name: str, root: Path = Path("/")) -> Check:
    """The frequency governors of all cores."""
    files = root.glob("sys/devices/system/cpu/cpu[0-9]*/cpufreq/scaling_governor")
    governors = sorted({path.read_text(encoding="utf-8").strip() for path in files})
    if not governors:
        return Check(name, "ok", "no frequency governor to be seen (usual in a virtual machine)")
    found = "frequency governor " + ", ".join(governors)
    if governors != ["performance"]:
        return Check(name, "warning", found, "cpupower frequency-set -g performance")
    return Check(name, "ok", found)


def stolen_time(name: str) -> Check:
    """How much of a quarter of a second of pure work was taken by somebody else."""
    stolen, longest = gaps(_SPIN_S, _GAP_S)
    pause = f"the longest pause {longest * 1e3:.1f} ms" if longest else "no pause over 1 ms"
    found = f"{stolen / _SPIN_S:.1%} of {_SPIN_S} s, {pause}"
    if stolen > _STOLEN_ALLOWED * _SPIN_S:
        return Check(name, "warning", found, "other work or the hypervisor takes this core's time")
    return Check(name, "ok", found)


def gaps(duration_s: float, gap_s: float) -> tuple[float, float]:
    """Read the clock for `duration_s`; return the sum and the longest of gaps over `gap_s`."""
    start = last = time.perf_counter()
    total = longest = 0.0
    while last - start < duration_s:
        now = time.perf_counter()
        if now - last > gap_s:
            total += now - last
            longest = max(longest, now - last)
        last = now
    return total, longest


def clock(name: str, root: Path = Path("/")) -> Check:
    """The kernel's clock source, and what reading it costs."""
    path = root / "sys/devices/system/clocksource/clocksource0/current_clocksource"
    source = path.read_text(encoding="utf-8").strip() if path.exists() else "unknown"
    resolution = time.get_clock_info("monotonic").resolution
    count = 10_000
    start = time.perf_counter_ns()
    for _ in range(count):
        time.monotonic_ns()
    cost = (time.perf_counter_ns() - start) / count
    found = f"{source}, resolution {resolution * 1e9:.0f} ns, {cost:.0f} ns a reading"
    if not source.startswith(STEADY_CLOCKS):
        advice = "reading this clock takes a system call: prefer clocksource=tsc"
        return Check(name, "warning", found, advice)
    return Check(name, "ok", found)


def _room(name: str, path: Path, wanted: int) -> Check:
    """Free bytes in the file system that holds `path`."""
    if not path.is_dir():
        return Check(name, "warning", f"{path} is not there", "mount it, if the tests need it")
    free = shutil.disk_usage(path).free
    found = f"{free / GIB:.1f} GiB free in {path}"
    if free < wanted:
        return Check(name, "warning", found, f"make room: {wanted / GIB:g} GiB are wanted")
    return Check(name, "ok", found)
