"""Environment variables of workers on a Ray cluster: the node's, without what Ray sets (pure).

Ray sets variables for what runs inside it, which a training process of its own would be
measured with: a number of OpenMP threads, a debugger at breakpoints, its own settings. (Source:
``ray/_private/worker.py`` and ``ray/_private/utils.py`` of Ray 2.60, and the environment of an
actor of it.)
"""

from __future__ import annotations

from collections.abc import Mapping

CARRIED = ("JAX_", "XLA_", "TF_", "LIBTPU_", "GRPC_", "GLOO_", "NCCL_", "MALLOC_", "RECOVERYBENCH_")
"""Variables of the supervisor that begin so go along: they say how training is done."""

_SET_BY_RAY = ("OMP_NUM_THREADS", "PYTHONBREAKPOINT", "SPT_NOENV")

_OWN = ("RECOVERYBENCH_OWNER", "RECOVERYBENCH_SPAWN_NS")
"""They belong to one machine."""


def without_ray(environment: Mapping[str, str]) -> dict[str, str]:
    """An actor's environment without what Ray put there.

    Variables that say which accelerators are visible stay: where a worker has any, its actor was
    given all of its node's.
    """
    return {
        name: value
        for name, value in environment.items()
        if not name.startswith("RAY_") and name not in _SET_BY_RAY
    }


def carried(wanted: Mapping[str, str], here: Mapping[str, str]) -> dict[str, str]:
    """What goes along to a node of what a worker beside the supervisor would get.

    Args:
        wanted: all variables of such a worker. here: the supervisor's own environment; paths and
            names of this machine are not to be another one's.
    """
    return {
        name: value
        for name, value in wanted.items()
        if name not in _OWN and (here.get(name) != value or name.startswith(CARRIED))
    }
