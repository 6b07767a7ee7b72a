"""Which tests run in one process, where the suite has several of them (``pytest -n 2``)."""

from __future__ import annotations

from pathlib import PurePath
from typing import Any, Final

import pytest
from xdist.scheduler import LoadScopeScheduling

REAL: Final = "tests/real/"
"""Tests below start workers: each of them more processes than two cores can run."""

STEADY: Final = frozenset(
    {
        "test_caches.py",
        "test_environments.py",
        "test_kubernetes.py",
        "test_own_workload.py",
        "test_pathways.py",
        "test_profile.py",
        "test_ray.py",
        "test_saving.py",
        "test_states.py",
        "test_topologies.py",
        "test_warden.py",
    }
)
"""Those of them that need no time of their own: a worker is killed, comes back, and is compared.
They may run beside the others, which wait for a watchdog of a second or two, or look at times.
"""


def part_of(nodeid: str) -> str:
    """What runs in one process: a file, or all real ones that are not `STEADY`."""
    path = nodeid.partition("::")[0]
    return REAL if path.startswith(REAL) and PurePath(path).name not in STEADY else path


def turn_of(nodeid: str) -> int:
    """The longest part comes first, then files without workers, then those that are `STEADY`."""
    part = part_of(nodeid)
    return 0 if part == REAL else 1 + part.startswith(REAL)


class Sharing(LoadScopeScheduling):  # type: ignore[misc]
    """One part after the other, in the order in which tests were collected, to whoever is free."""

    def __init__(self, config: pytest.Config, log: Any = None) -> None:
        config.option.loadscopereorder = False
        super().__init__(config, log)

    def _split_scope(self, nodeid: str) -> str:
        return part_of(nodeid)
