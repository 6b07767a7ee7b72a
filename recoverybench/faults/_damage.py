"""Damage to a checkpoint on storage: functions over a directory and a source of chance.

Each makes one kind of damage, reads back what it did, and says where it lies. A checkpoint's
directory holds one directory a step, named by the step; an unfinished one has a suffix.
"""

from __future__ import annotations

import hashlib
import random
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from recoverybench.errors import HarnessError

UNFINISHED = ".orbax-checkpoint-tmp"
"""Suffix of the directory of a save that has not been committed."""

TRIES = 100
"""Bits that are tried before a silent one is given up."""


@dataclass(frozen=True, slots=True)
class Extent:
    """A piece of an array: these bytes of that file.

    Attributes:
        array: its name. file: relative to the step's item ``state``.
        offset, length: bytes.
    """

    array: str
    file: str
    offset: int
    length: int


class Reader(Protocol):
    """Reads a checkpoint as a restore would."""

    def extents(self, directory: Path) -> Sequence[Extent]:
        """Every piece of an array in a step's item ``state`` that a restore reads."""

    def digest(self, directory: Path, array: str) -> str | None:
        """A digest of that array's bytes; None: it cannot be read."""


@dataclass(frozen=True, slots=True)
class Damage:
    """What was done to a checkpoint, and the proof.

    Attributes:
        what: the kind of damage. step: of the directory that has it now.
        file: where, relative to the checkpoints' directory.
        offset: first byte that differs, or None. bit: 0 (the lowest) to 7, or None.
        before, after: digest of the file's content (of the array's, for a flipped bit); None:
            it was not there, or cannot be read.
        array: what was hit, or None. passed_over: bits that were tried before it and put back,
            since reading the array raised an error or gave the same values.
    """

    what: str
    step: int
    file: str
    offset: int | None = None
    bit: int | None = None
    before: str | None = None
    after: str | None = None
    array: str | None = None
    passed_over: int = 0


def committed_steps(checkpoints: Path) -> list[int]:
    """Steps that are durable, newest first: a commit is the rename to the bare number."""
    try:
        names = [entry.name for entry in checkpoints.iterdir() if entry.is_dir()]
    except FileNotFoundError:
        return []
    return sorted((int(name) for name in names if name.isdecimal()), reverse=True)


def promised_step(held: int, interval: int) -> int:
    """The newest step that is saved before step `held` begins; 0: none."""
    return (held - 1) // interval * interval


def flip_bit(checkpoints: Path, step: int, reader: Reader, chance: random.Random) -> Damage:
    """Flip one bit of one array's data, such that a reader gets other values and no error.

    About one flip in a thousand breaks the compression's own format, and is noticed by whoever
    reads it. That is another kind of damage (`truncate` stands for it), so such a bit is put
    back and the next one is tried.

    Raises:
        HarnessError: no bit of `TRIES` is silent.
    """
    state = checkpoints / str(step) / "state"
    pieces = _pieces(reader, state)
    for passed_over in range(TRIES):
        piece, within = _byte(pieces, chance)
        path, offset, bit = state / piece.file, piece.offset + within, chance.randrange(8)
        before = reader.digest(state, piece.array)
        _toggle(path, offset, bit)
        after = reader.digest(state, piece.array)
        if before is not None and after is not None and before != after:
            file = path.relative_to(checkpoints).as_posix()
            return Damage(
                "bit-flip", step, file, offset, bit, before, after, piece.array, passed_over
            )
        _toggle(path, offset, bit)
    raise HarnessError(f"none of {TRIES} flipped bits of {state} was silent")


def truncate(checkpoints: Path, step: int, reader: Reader, chance: random.Random) -> Damage:
    """Cut a data file off in the middle of an array, as a full disk or a lost write does."""
    state = checkpoints / str(step) / "state"
    piece, within = _byte(_pieces(reader, state), chance)
    path, offset = state / piece.file, piece.offset + within
    before = content(path)
    with path.open("r+b") as file:
        file.truncate(offset)
    after = content(path)
    _prove(path.stat().st_size == offset and after != before, "truncate", path)
    _prove(reader.digest(state, piece.array) is None, "truncate", path)
    file_name = path.relative_to(checkpoints).as_posix()
    return Damage("truncate", step, file_name, offset, None, before, after, piece.array)


METADATA = {"manifest": "manifest.ocdbt", "metadata": "_METADATA"}
"""What `missing_file` can take beside data: name -> file of the item ``state``."""


def missing_file(
    checkpoints: Path, step: int, reader: Reader, chance: random.Random, which: str | None = None
) -> Damage:
    """Remove one file of the state: a data file that is read, or a key of `METADATA`.

    Raises:
        HarnessError: the checkpoint has no such file.
    """
    state = checkpoints / str(step) / "state"
    array = read = None
    if which is None:
        piece, _ = _byte(_pieces(reader, state), chance)
        path, array = state / piece.file, piece.array
        read = reader.digest(state, array)
    else:
        path = state / METADATA[which]
        if not path.is_file():
            raise HarnessError(f"the checkpoint has no {path}")
    before = content(path)
    path.unlink()
    _prove(not path.exists(), "missing-file", path)
    if array is not None:
        # A file of its own may read as zeros once it is gone: no error, and other values.
        _prove(reader.digest(state, array) != read, "missing-file", path)
    name = path.relative_to(checkpoints).as_posix()
    return Damage("missing-file", step, name, None, None, before, None, array)


def empty_step(checkpoints: Path, newer: int) -> Damage:
    """Make an empty directory with the name of a newer step."""
    path = _new(checkpoints / str(newer), "empty-step")
    path.mkdir()
    _prove(path.is_dir() and not any(path.iterdir()), "empty-step", path)
    return Damage("empty-step", newer, path.name)


def leftover_tmp(checkpoints: Path, step: int, newer: int, reader: Reader) -> Damage:
    """Make the directory of a newer step's save that was cut off: data, and no description."""
    path = _new(checkpoints / f"{newer}{UNFINISHED}", "leftover-tmp")
    state = checkpoints / str(step) / "state"
    file = ""
    for file in sorted({piece.file for piece in _pieces(reader, state)}):
        (path / "state" / file).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(state / file, path / "state" / file)
    last = path / "state" / file
    with last.open("r+b") as cut:
        cut.truncate(last.stat().st_size // 2)
    return Damage(
        "leftover-tmp", newer, last.relative_to(checkpoints).as_posix(), after=content(last)
    )


def wrong_step(checkpoints: Path, older: int, newer: int, reader: Reader) -> Damage:
    """Make a directory of a newer step that holds an older step's content, whole."""
    path = _new(checkpoints / str(newer), "wrong-step")
    shutil.copytree(checkpoints / str(older), path)
    piece = _pieces(reader, path / "state")[0]
    file = path / "state" / piece.file
    before = content(checkpoints / str(older) / "state" / piece.file)
    _prove(content(file) == before, "wrong-step", file)
    name = file.relative_to(checkpoints).as_posix()
    return Damage("wrong-step", newer, name, None, None, None, before, piece.array)


def lost_data_state(checkpoints: Path, step: int) -> Damage:
    """Remove the item that says where the input stands.

    Raises:
        HarnessError: the checkpoint has none.
    """
    path = checkpoints / str(step) / "data"
    file = path / "metadata"
    before = content(file)
    if before is None:
        raise HarnessError(f"the checkpoint has no {file}")
    shutil.rmtree(path)
    _prove(not path.exists(), "lost-data-state", path)
    return Damage("lost-data-state", step, file.relative_to(checkpoints).as_posix(), before=before)


def content(file: Path) -> str | None:
    """SHA-256 (hex) of a file's content; None: there is no such file."""
    try:
        return hashlib.sha256(file.read_bytes()).hexdigest()
    except FileNotFoundError:
        return None


def flip_in_file(file: Path, chance: random.Random) -> tuple[int, int]:
    """Flip one bit of a file that is not empty; returns (offset, bit)."""
    offset, bit = chance.randrange(file.stat().st_size), chance.randrange(8)
    _toggle(file, offset, bit)
    return offset, bit


def _pieces(reader: Reader, state: Path) -> Sequence[Extent]:
    found = [piece for piece in reader.extents(state) if piece.length]
    if not found:
        raise HarnessError(f"no array of {state} has bytes of its own in a data file")
    return found


def _byte(pieces: Sequence[Extent], chance: random.Random) -> tuple[Extent, int]:
    """A byte of all pieces, each as likely as any other: its piece, and where in it."""
    at = chance.randrange(sum(piece.length for piece in pieces))
    for piece in pieces:
        if at < piece.length:
            return piece, at
        at -= piece.length
    raise AssertionError("unreachable")


def _toggle(file: Path, offset: int, bit: int) -> None:
    with file.open("r+b") as opened:
        opened.seek(offset)
        byte = opened.read(1)[0]
        opened.seek(offset)
        opened.write(bytes([byte ^ (1 << bit)]))


def _new(path: Path, what: str) -> Path:
    if path.exists():
        raise HarnessError(f"{what}: {path} is there already")
    return path


def _prove(holds: bool, what: str, path: Path) -> None:
    if not holds:
        raise HarnessError(f"{what}: {path} is as it was")
