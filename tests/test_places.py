"""Where workers write: the same place from wherever they begin, on other machines too."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest

from recoverybench.campaign import cache
from recoverybench.campaign.measuring import Measuring


def test_a_relative_run_and_cache_are_absolute_for_workers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RECOVERYBENCH_CACHE", "cache")
    assert cache.root() == tmp_path / "cache"
    Path("run").mkdir()
    measuring = Measuring(Path("run"), cast(Any, None), lambda _: None)
    found = measuring._directories("0000", profiled=True)
    for path in (found.journals, found.logs, found.profiles):
        assert path is not None and path.is_absolute() and path.is_relative_to(tmp_path / "run")
