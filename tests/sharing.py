"""Which tests run in one process, where the suite has several of them (``pytest -n 2``)."""

from __future__ import annotations

from typing import Any

import pytest
from xdist.scheduler import LoadScopeScheduling

ALONE = "tests/real/"
"""Tests below start workers, or look at every process of the machine: never two of them at once."""


class Sharing(LoadScopeScheduling):  # type: ignore[misc]
    """All tests of a file in one process, in their order; all of `ALONE` in one, and first.

    A file's fixtures are made once that way, and the longest part of all begins at once.
    """

    def __init__(self, config: pytest.Config, log: Any = None) -> None:
        config.option.loadscopereorder = False  # as collected: `ALONE` comes first
        super().__init__(config, log)

    def _split_scope(self, nodeid: str) -> str:
        return ALONE if nodeid.startswith(ALONE) else nodeid.partition("::")[0]
