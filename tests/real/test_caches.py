"""A text of one's own, and JAX's own compilation cache."""

from __future__ import annotations

import shutil
from typing import Any

import pytest

import recoverybench
from recoverybench.analysis.journal import read_trial
from recoverybench.results.store import Run
from tests.real_support import PATIENCE_S, Command, only, suite_text

pytestmark = [pytest.mark.real, pytest.mark.timeout(400)]


@pytest.fixture(scope="module")
def caches(command: Command, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A text of one's own, two workers with two devices each: a function that takes long to
    compile, for a cache that others have too, and one that takes little.
    """
    directory = tmp_path_factory.mktemp("caches")
    text = directory / "text"
    shutil.copyfile(recoverybench.__file__, text)
    with text.open("a") as file:
        file.write("A text of one's own.\n" * 200)
    matrix: dict[str, list[Any]] = {
        "workload": ["transformer:tiny"],
        "topology": ["2x2"],
        "strategy": ["restart"],
        "trigger": ["step:7"],
        "interval": [3],
        "compile_cache": ["persistent"],
    }
    quick = {"workload": "mlp:tiny", "compile_cache": "off"}
    suite = suite_text(matrix, include=[quick], steps=12, data="text")
    return command.measure(directory, suite, "--strict", patience_s=2 * PATIENCE_S)


@pytest.mark.parametrize("cache", ["persistent", "off"])
def test_a_text_of_one_s_own_and_two_devices_a_worker(caches: Run, cache: str) -> None:
    record = only(caches, compile_cache=cache)
    assert record.outcome == "recovered"
    assert caches.info.suite.data is not None and caches.info.suite.data.endswith("/text")
    assert record.verify is not None and record.verify.losses_compared == 12
    # A worker's rows are its devices' rows.
    lines = read_trial(caches.path / "journal" / record.trial).lines
    rows = {len(line["samples"]) for line in lines if line["event"] == "step"}
    assert len(rows) == 1


def test_where_a_step_function_came_from_is_what_jax_said(caches: Run) -> None:
    off = only(caches, compile_cache="off")
    assert off.compile_cache == {"0": "off", "1": "off"}
    # Only worker 0 writes JAX's cache, and others have keys of their own: no hit for them.
    persistent = only(caches, compile_cache="persistent").compile_cache
    assert persistent["0"] in ("hit", "miss", "below_threshold")
    assert persistent["1"] in ("compiled", "below_threshold")
    lines = read_trial(caches.path / "journal" / off.trial).lines
    first = [
        (line["worker"], line["status"])
        for line in lines
        if line["event"] == "compile_cache" and line["generation"] == 0
    ]
    assert first and not [status for _, status in first if status in ("hit", "executable")]
