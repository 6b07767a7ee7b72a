# mypy: disable-error-code="import-untyped"
"""A board in a directory that was not there before: whole, or not there at all."""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from recoverybench.board.build import board_of
from recoverybench.board.events import event_streams
from recoverybench.board.model import Board
from recoverybench.errors import UsageError, bad_value
from recoverybench.results.reading import Run

_NEW: Final = "a directory that does not exist yet"


def write(runs: Sequence[Run], path: Path) -> Path:
    """Writes runs as event files of TensorBoard, a directory for each run and cell.

    The same runs are the same bytes. They are written beside `path` and renamed when they are all
    there, so whatever ends it leaves nothing under that name.

    Raises:
        UsageError: `path` exists or cannot be written, no run has a trial, or tensorboard is not
            installed.
    """
    check_installed()
    if os.path.lexists(path):
        raise bad_value("--out", str(path), _NEW)
    board = board_of(runs)
    part = path.parent / f".recoverybench-{secrets.token_hex(8)}.part"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        part.mkdir()
        _fill(part, board)
        os.rename(part, path)
    except OSError as error:
        if os.path.lexists(path):  # somebody made it meanwhile
            raise bad_value("--out", str(path), _NEW) from None
        reason = error.strerror or str(error)
        raise bad_value("--out", str(path), f"a directory that can be written ({reason})") from None
    finally:
        shutil.rmtree(part, ignore_errors=True)  # it is ours, and after a success not there
    return path


def check_installed() -> None:
    """Raises `UsageError` where tensorboard is not installed."""
    try:
        import tensorboard  # noqa: F401
    except ImportError:
        raise UsageError(
            "--format tensorboard needs tensorboard, which is not installed: "
            "install recoverybench[tensorboard]"
        ) from None


def _fill(root: Path, board: Board) -> None:
    from tensorboard.summary.writer.record_writer import RecordWriter

    # The name has the time in it by custom; nothing of the machine that exports.
    name = f"events.out.tfevents.{max(0, int(board.created_s)):010d}.recoverybench"
    for directory, events in event_streams(board):
        folder = root / directory
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / name).open("xb") as file:
            writer = RecordWriter(file)
            for event in events:
                writer.write(event.SerializeToString())
