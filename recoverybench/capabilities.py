"""What a machine must be able to do for some faults: each tried for real, once a process.

A fault names what it needs in its literal ``NEEDS``; `MISSING` says why this machine lacks it.
A launcher may have what the machine has not, and the other way round: see `plan.launchers`.
"""

from __future__ import annotations

import functools
import importlib.util
import os
from collections.abc import Callable


def _root() -> str | None:
    return None if os.geteuid() == 0 else f"this is user {os.geteuid()}, not root"


@functools.cache
def _user_notification() -> str | None:
    from recoverybench.gate.tried import why_not

    return why_not()


@functools.cache
def _network_namespaces() -> str | None:
    from recoverybench.network import tried

    return tried.namespaces()


@functools.cache
def _nftables() -> str | None:
    from recoverybench.network import tried

    return tried.nftables()


def _nodes() -> str | None:
    return "launcher local has one node, which is this machine; launcher ray has several"


def _pods() -> str | None:
    return "workers of launcher local are processes; launcher kubernetes has pods"


def _ray() -> str | None:
    if importlib.util.find_spec("ray") is None:
        return "it is not installed: pip install 'recoverybench[ray]'"
    return None


MISSING: dict[str, Callable[[], str | None]] = {
    "fork-server": lambda: None,
    "network-namespaces": _network_namespaces,
    "nftables": _nftables,
    "nodes": _nodes,
    "pods": _pods,
    "ray": _ray,
    "root": _root,
    "user-notification": _user_notification,
}
"""Capability -> why this machine lacks it, in a few words; None: it has it."""
