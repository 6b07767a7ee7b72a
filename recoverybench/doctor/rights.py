"""Checks of rights that faults of the network, of storage, of memory and of cores need."""

from __future__ import annotations

import os
from pathlib import Path

from recoverybench import capabilities
from recoverybench.doctor.check import Check
from recoverybench.network import tried

_WITHOUT = "faults that need it are left out"


def network_namespaces(name: str) -> Check:
    """Whether a worker may have a network of its own."""
    return _tried(name, tried.namespaces(), "a worker may have its own network", "iproute2")


def nftables(name: str) -> Check:
    """Whether packets can be dropped there."""
    return _tried(name, tried.nftables(), "rules can be set", "nftables")


def storage_gate(name: str) -> Check:
    """Whether a process may answer for the file operations of another one."""
    why = capabilities.MISSING["user-notification"]()
    if why is not None:
        advice = "Linux 5.14 or newer, and a container whose profile allows seccomp"
        return Check(name, "missing", f"{why}: {_WITHOUT}", advice)
    return Check(name, "ok", "file operations can be intercepted")


def control_groups(name: str, root: Path = Path("/")) -> Check:
    """Version of the control groups, and whether they can be written."""
    mount = root / "sys/fs/cgroup"
    if (mount / "cgroup.controllers").exists():
        version, wanted = 2, [mount]
    else:
        version, wanted = 1, [mount / c for c in ("memory", "cpu", "freezer")]
    refused = [str(p) for p in wanted if not (p.is_dir() and os.access(p, os.W_OK))]
    if refused:
        found = f"version {version}, not writable: {', '.join(refused)}: {_WITHOUT}"
        return Check(name, "missing", found, "run as root, with /sys/fs/cgroup mounted")
    return Check(name, "ok", f"version {version}, writable")


def _tried(name: str, why: str | None, found: str, package: str) -> Check:
    """What a try gave: None, or why it failed."""
    if why is None:
        return Check(name, "ok", found)
    advice = f"install {package}" if why.endswith(" command") else "run as root"
    return Check(name, "missing", f"{why}: {_WITHOUT}", advice)
