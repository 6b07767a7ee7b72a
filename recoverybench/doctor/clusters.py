"""Checks of clusters that workers could be started on."""

from __future__ import annotations

import os
from importlib import metadata
from pathlib import Path

from recoverybench.doctor.check import Check
from recoverybench.launchers._ray_cluster import PLACE, answers

_NOBODY = f"no cluster was begun here in the usual way ({PLACE} or --ray-address names another)"


def ray(name: str) -> Check:
    """Whether Ray is installed, and whether the cluster answers that a run would use.

    Nothing of Ray is imported, and nobody is connected to.
    """
    try:
        version = metadata.version("ray")
    except metadata.PackageNotFoundError:
        found = "not installed: launcher ray is left out"
        return Check(name, "missing", found, "pip install 'recoverybench[ray]'")
    address = os.environ.get(PLACE, "") or _current()
    host, _, port = address.rpartition(":")
    if not address or not port.isdecimal():
        where = f"{PLACE} = {address!r} is no HOST:PORT" if address else _NOBODY
        return Check(name, "ok", f"{version}, {where}")
    if answers(host, int(port)):
        return Check(name, "ok", f"{version}, a cluster answers at {address}")
    return Check(name, "ok", f"{version}, no cluster answers at {address}")


def _current() -> str:
    """The cluster that was begun on this machine, as Ray keeps it in a file; none: empty.

    The file of one that has ended stays. (``read_ray_address`` in ``ray/_private/utils.py``.)
    """
    base = os.environ.get("RAY_TMPDIR") or "/tmp"
    try:
        return (Path(base) / "ray" / "ray_current_cluster").read_text(encoding="utf-8").strip()
    except OSError:
        return ""
