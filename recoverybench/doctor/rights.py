"""Checks of rights that faults of the network, of storage, of memory and of cores need."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from recoverybench import capabilities
from recoverybench.doctor.check import Check

_TIMEOUT_S = 10.0
_WITHOUT = "faults that need it are left out"


def network_namespaces(name: str) -> Check:
    """Whether a process may have a network of its own."""
    if shutil.which("unshare") is None:
        return Check(name, "missing", f"no unshare command: {_WITHOUT}", "install util-linux")
    error = _refused(["unshare", "--net", "true"])
    if error is not None:
        return Check(name, "missing", f"{error}: {_WITHOUT}", "run as root")
    return Check(name, "ok", "a process may have its own network")


def nftables(name: str) -> Check:
    """Whether packets can be dropped, tried in a network namespace that ends with the try."""
    if shutil.which("nft") is None:
        return Check(name, "missing", f"no nft command: {_WITHOUT}", "install nftables")
    error = _refused(["unshare", "--net", "nft", "add", "table", "inet", "recoverybench"])
    if error is not None:
        return Check(name, "missing", f"{error}: {_WITHOUT}", "run as root")
    return Check(name, "ok", "rules can be set")


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


def _refused(command: list[str]) -> str | None:
    """Run a command to its end; None if it was allowed, else what it said."""
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=_TIMEOUT_S,
        stdin=subprocess.DEVNULL,
        check=False,
    )
    if done.returncode == 0:
        return None
    lines = done.stderr.strip().splitlines()
    return lines[-1] if lines else f"exit code {done.returncode}"
