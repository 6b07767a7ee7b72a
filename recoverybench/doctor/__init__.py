"""What works on this machine, what is missing, and what to do about it.

A check looks at one thing and changes nothing; each is a function without arguments
that returns a `Check`. Only what is `needed` keeps recoverybench from measuring here.
"""

from __future__ import annotations

from collections.abc import Iterator

from recoverybench.doctor import clusters, hardware, rights, software
from recoverybench.doctor.check import Check, Examine

__all__ = ["CHECKS", "Check", "Examine", "examine"]

CHECKS: tuple[tuple[str, Examine], ...] = (
    ("python", software.python),
    ("packages", software.packages),
    ("jax devices", software.jax_devices),
    ("gloo", software.gloo),
    ("process control", software.process_control),
    ("ports", software.ports),
    ("shared memory", hardware.shared_memory),
    ("temporary space", hardware.temporary_space),
    ("memory", hardware.memory),
    ("cores", hardware.cores),
    ("quiet machine", hardware.quiet),
    ("steady clock rate", hardware.governor),
    ("stolen time", hardware.stolen_time),
    ("clock", hardware.clock),
    ("leftovers", software.leftovers),
    ("network namespaces", rights.network_namespaces),
    ("nftables", rights.nftables),
    ("storage gate", rights.storage_gate),
    ("control groups", rights.control_groups),
    ("releases", software.releases),
    ("browser", software.browser),
    ("ray", clusters.ray),
)
"""Every check by its name, in the order in which they are shown."""


def examine() -> Iterator[Check]:
    """Every check's result, each as soon as it is there; takes some seconds in all."""
    for name, look in CHECKS:
        yield _run(name, look)


def _run(name: str, look: Examine) -> Check:
    """One check; one that fails itself is a warning that says so, and stops no other."""
    try:
        return look(name)
    except Exception as error:
        found = f"cannot be told: {type(error).__name__}: {' '.join(str(error).split())}"
        return Check(name, "warning", found, "please report this: the check itself failed")
