"""What the keys of the cache cover: a change that could change the bits makes a new key."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from recoverybench.campaign import cache
from recoverybench.campaign.cache import Keys
from recoverybench.cells import Cell
from recoverybench.plan import catalogue
from tests.sample_run import make_cell

CELL: Cell = make_cell(workload="mlp:tiny", topology="3x1")


def keys(cell: Cell = CELL, seed: int = 0, steps: int = 45, **environment: str) -> Keys:
    return Keys.of(cell, seed, steps, None, environment)


@pytest.mark.parametrize("family", catalogue.names("workloads"))
def test_every_module_that_a_family_is_made_with_is_covered(family: str) -> None:
    path = catalogue.find("workloads", family).path
    if path is None or path.suffix != ".py":
        pytest.skip("a command")
    covered = {file.stem for file in cache._of_worker([path])}
    assert {"layout", "optimization", "joined"} <= covered


def test_what_changes_the_program() -> None:
    changed = dataclasses.replace(CELL, workload="mlp:tiny,hidden=64")
    assert keys(changed).program != keys().program
    assert keys(XLA_FLAGS="--xla_foo").program != keys().program


def test_what_changes_the_training_alone() -> None:
    for other in (keys(seed=1), keys(steps=46), keys(dataclasses.replace(CELL, topology="2x1"))):
        assert other.program == keys().program and other.reference != keys().reference


def test_what_changes_neither() -> None:
    assert keys(dataclasses.replace(CELL, strategy="restart", fault="hang")) == keys()


def test_a_file_of_one_s_own_and_what_it_imports(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text("import beside\n")
    (tmp_path / "beside.py").write_text("WIDTH = 1\n")
    cell = dataclasses.replace(CELL, workload=f"{tmp_path / 'own.py'}:make")
    before = keys(cell)
    (tmp_path / "beside.py").write_text("WIDTH = 2\n")
    assert keys(cell).program != before.program
