"""Damage to checkpoints and compile caches: it is where it says, it is real, and nowhere else."""

from __future__ import annotations

import dataclasses
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from recoverybench import sealed
from recoverybench.errors import HarnessError
from recoverybench.faults import _caches, _checkpoints, _damage
from recoverybench.faults._contents import Contents
from recoverybench.faults._damage import Damage
from recoverybench.faults.cache_corrupt import CacheCorrupt
from recoverybench.faults.cache_lost import CacheLost
from recoverybench.launchers import local
from recoverybench.protocol import JobSpec

NEWEST, OLDER, NEWER = 10, 5, 15

SAVE = """
import sys
import jax, numpy as np
import orbax.checkpoint as ocp

def state(step):
    random = np.random.default_rng(step)
    def normal(*shape):
        return random.standard_normal(shape).astype(np.float32)
    return {"params.a": normal(64, 16), "params.b": normal(48, 48), "m": normal(5000),
            "step": np.int32(step)}

for name, database in (("database", True), ("files", False)):
    handler = ocp.PyTreeCheckpointHandler(use_ocdbt=database)
    manager = ocp.CheckpointManager(
        f"{sys.argv[1]}/{name}",
        item_names=("state", "data"),
        item_handlers={"state": handler, "data": ocp.JsonCheckpointHandler()},
    )
    for step in (5, 10):
        args = ocp.args.Composite(
            state=ocp.args.PyTreeSave(state(step)), data=ocp.args.JsonSave({"step": step}))
        manager.save(step, args=args)
    manager.close()
"""


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two steps that Orbax saved, in both of its layouts."""
    path = tmp_path_factory.mktemp("saved")
    done = subprocess.run(
        [sys.executable, "-c", SAVE, str(path)],
        env={**os.environ, "JAX_PLATFORMS": "cpu"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return path


@pytest.fixture(scope="module")
def reader() -> Iterator[Contents]:
    launcher = local.create({}, Path(os.devnull))
    with Contents(launcher) as contents:
        yield contents


@pytest.fixture(params=["database", "files"])
def layout(request: pytest.FixtureRequest) -> str:
    return str(request.param)


Do = Callable[[Path, Contents, random.Random], Damage]

WITHIN: dict[str, tuple[int, Do]] = {
    "bit-flip": (NEWEST, lambda c, r, x: _damage.flip_bit(c, NEWEST, r, x)),
    "truncate": (NEWEST, lambda c, r, x: _damage.truncate(c, NEWEST, r, x)),
    "missing-file": (NEWEST, lambda c, r, x: _damage.missing_file(c, NEWEST, r, x)),
    "lost-data-state": (NEWEST, lambda c, r, x: _damage.lost_data_state(c, NEWEST)),
    "empty-step": (NEWER, lambda c, r, x: _damage.empty_step(c, NEWER)),
    "leftover-tmp": (NEWER, lambda c, r, x: _damage.leftover_tmp(c, NEWEST, NEWER, r)),
    "wrong-step": (NEWER, lambda c, r, x: _damage.wrong_step(c, OLDER, NEWER, r)),
}
"""Kind of damage -> the step that it touches, and how to make it."""


def files(directory: Path) -> dict[str, bytes]:
    """Every file below, by its relative path."""
    return {
        path.relative_to(directory).as_posix(): path.read_bytes()
        for path in sorted(directory.rglob("*"))
        if path.is_file()
    }


def copy_of(saved: Path, layout: str) -> Path:
    """A checkpoint directory to damage."""
    to = Path(tempfile.mkdtemp(dir=saved)) / "checkpoints"
    shutil.copytree(saved / layout, to)
    return to


def test_the_reader_sees_every_array_in_both_layouts(
    saved: Path, reader: Contents, layout: str
) -> None:
    state = saved / layout / str(NEWEST) / "state"
    pieces = reader.extents(state)
    arrays = {piece.array for piece in pieces}
    assert arrays >= {"params.a", "params.b", "m"}
    for piece in pieces:
        assert piece.offset >= 0
        assert piece.offset + piece.length <= (state / piece.file).stat().st_size
    digests = {array: reader.digest(state, array) for array in arrays}
    assert None not in digests.values()
    older = saved / layout / str(OLDER) / "state"
    assert all(reader.digest(older, array) != digests[array] for array in arrays)
    assert reader.digest(state, "no-such-array") is None
    with pytest.raises(HarnessError, match="cannot be read"):
        reader.extents(_broken(saved))


def _broken(saved: Path) -> Path:
    path = Path(tempfile.mkdtemp(dir=saved))
    (path / "manifest.ocdbt").write_bytes(b"nothing of the kind")
    return path


@pytest.mark.parametrize("what", WITHIN)
@settings(max_examples=5, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(seed=st.integers(0, 2**32 - 1))
def test_damage_is_confined_to_one_step_and_is_what_it_says(
    saved: Path, reader: Contents, what: str, seed: int
) -> None:
    for layout in ("database", "files"):
        checkpoints = copy_of(saved, layout)
        before = files(checkpoints)
        step, do = WITHIN[what]
        damage = do(checkpoints, reader, random.Random(seed))
        after = files(checkpoints)
        changed = {n for n in before.keys() | after.keys() if before.get(n) != after.get(n)}
        prefixes = (f"{step}/", f"{step}{_damage.UNFINISHED}/")
        assert all(name.startswith(prefixes) for name in changed), changed
        assert (damage.what, damage.step) == (what, step)
        assert what == "empty-step" or damage.file in changed
        # The trial's seed decides, and nothing else.
        again = do(copy_of(saved, layout), reader, random.Random(seed))
        assert again == damage
        shutil.rmtree(checkpoints.parent)


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 2**32 - 1))
def test_a_flipped_bit_is_one_bit_of_an_array_and_a_reader_notices_nothing(
    saved: Path, reader: Contents, seed: int
) -> None:
    for layout in ("database", "files"):
        checkpoints = copy_of(saved, layout)
        state = checkpoints / str(NEWEST) / "state"
        pieces = reader.extents(state)
        before = files(checkpoints)
        damage = _damage.flip_bit(checkpoints, NEWEST, reader, random.Random(seed))
        assert damage.offset is not None and damage.bit is not None and damage.array is not None
        old, new = before.pop(damage.file), files(checkpoints)
        differ = [
            i for i, (a, b) in enumerate(zip(old, new.pop(damage.file), strict=True)) if a != b
        ]
        assert differ == [damage.offset]
        assert new == before
        hit = (checkpoints / damage.file).read_bytes()[damage.offset]
        assert hit ^ old[damage.offset] == 1 << damage.bit
        assert any(
            (state / piece.file) == checkpoints / damage.file
            and piece.offset <= damage.offset < piece.offset + piece.length
            and piece.array == damage.array
            for piece in pieces
        )
        assert reader.digest(state, damage.array) == damage.after != damage.before
        shutil.rmtree(checkpoints.parent)


class Deaf:
    """A reader to whom every array is what it was, or cannot be read."""

    def __init__(self, reader: Contents, answer: str | None) -> None:
        self._reader, self._answer = reader, answer

    def extents(self, directory: Path) -> Any:
        return self._reader.extents(directory)

    def digest(self, directory: Path, array: str) -> str | None:
        return self._answer


@pytest.mark.parametrize("answer", [None, "the same"])
def test_a_bit_that_is_noticed_or_changes_nothing_is_put_back(
    saved: Path, reader: Contents, answer: str | None
) -> None:
    checkpoints = copy_of(saved, "database")
    before = files(checkpoints)
    with pytest.raises(HarnessError, match="silent"):
        _damage.flip_bit(checkpoints, NEWEST, Deaf(reader, answer), random.Random(0))
    assert files(checkpoints) == before


def test_damage_that_shows_no_effect_is_an_error(saved: Path, reader: Contents) -> None:
    for do in (_damage.truncate, _damage.missing_file):
        with pytest.raises(HarnessError, match="as it was"):
            do(copy_of(saved, "database"), NEWEST, Deaf(reader, "the same"), random.Random(0))


def test_files_of_the_index_can_be_removed_by_name(saved: Path, reader: Contents) -> None:
    for which, name in _damage.METADATA.items():
        checkpoints = copy_of(saved, "database")
        damage = _damage.missing_file(checkpoints, NEWEST, reader, random.Random(0), which)
        assert damage.file == f"{NEWEST}/state/{name}"
        assert not (checkpoints / damage.file).exists()
    with pytest.raises(HarnessError, match="manifest"):
        _damage.missing_file(copy_of(saved, "files"), NEWEST, reader, random.Random(0), "manifest")


def test_a_step_that_is_there_is_not_made_again(saved: Path, reader: Contents) -> None:
    checkpoints = copy_of(saved, "database")
    with pytest.raises(HarnessError, match="there already"):
        _damage.empty_step(checkpoints, NEWEST)
    with pytest.raises(HarnessError, match="there already"):
        _damage.wrong_step(checkpoints, OLDER, NEWEST, reader)


def test_a_wrong_step_holds_the_older_ones_files(saved: Path, reader: Contents) -> None:
    checkpoints = copy_of(saved, "database")
    _damage.wrong_step(checkpoints, OLDER, NEWER, reader)
    assert files(checkpoints / str(NEWER)) == files(checkpoints / str(OLDER))


def test_only_bare_numbers_are_durable(tmp_path: Path) -> None:
    assert _damage.committed_steps(tmp_path / "none") == []
    for name in ("5", "20", "100", f"25{_damage.UNFINISHED}", "descriptor", "7.tmp"):
        (tmp_path / name).mkdir()
    (tmp_path / "30").write_text("a file")
    assert _damage.committed_steps(tmp_path) == [100, 20, 5]
    assert _checkpoints.durable_steps(tmp_path, 100) == [100, 20, 5]
    assert _checkpoints.durable_steps(tmp_path, 105) == []


@given(held=st.integers(1, 10_000), interval=st.integers(1, 500))
def test_what_is_promised_is_the_last_save_before_the_hold(held: int, interval: int) -> None:
    step = _damage.promised_step(held, interval)
    assert step % interval == 0 and 0 <= step < held <= step + interval


def spec_of(directory: Path, mode: str) -> JobSpec:
    fields: dict[str, Any] = {field.name: None for field in dataclasses.fields(JobSpec)}
    (directory / "trial").mkdir()
    for name in ("executables", "jax"):
        (directory / name).mkdir()
        sealed.write(directory / name / "step.0.bin", b"compiled" * 100)
        sealed.write(directory / name / "init.0.bin", b"compiled" * 50)
    fields |= {
        "compile_cache": mode,
        "executables": str(directory / "executables"),
        "jax_cache": str(directory / "jax"),
        "checkpoints": str(directory / "trial" / "checkpoints"),
    }
    return JobSpec(**fields)


@pytest.mark.parametrize("mode", ["executable", "persistent"])
@pytest.mark.parametrize("fault", [CacheLost, CacheCorrupt])
def test_the_users_compile_cache_is_never_touched(
    tmp_path: Path, mode: str, fault: Callable[[], _caches.CacheFault]
) -> None:
    original = spec_of(tmp_path, mode)
    before = {name: files(tmp_path / name) for name in ("executables", "jax")}
    struck = fault()
    spec = struck.spec(original)
    job: Any = SimpleNamespace(spec=spec)
    struck.prepare(job)
    own = _caches.cache_of(spec)
    assert own.is_relative_to(tmp_path / "trial")
    assert files(own) == before["jax" if mode == "persistent" else "executables"]
    struck.damage(sorted(own.iterdir()), seed=3)
    assert {name: files(tmp_path / name) for name in before} == before
    assert all(sealed.read(own / name) is None for name in ("step.0.bin", "init.0.bin"))


def test_a_cache_that_does_not_exist_yet_is_an_empty_one(tmp_path: Path) -> None:
    spec = spec_of(tmp_path, "executable")
    shutil.rmtree(spec.executables)
    struck = CacheLost()
    spec = struck.spec(spec)
    struck.prepare(SimpleNamespace(spec=spec))  # type: ignore[arg-type]
    assert files(_caches.cache_of(spec)) == {}
