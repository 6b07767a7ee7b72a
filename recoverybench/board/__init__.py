"""Runs for TensorBoard: a scalar a quantity and trial, and HParams with a session a cell.

`build` says what is in it and `events` how TensorBoard has it, both without a file; `write` makes
the directory. docs/tensorboard.md says where everything is.
"""

from __future__ import annotations

from recoverybench.board.build import board_of
from recoverybench.board.directory import check_installed, write
from recoverybench.board.events import event_streams
from recoverybench.board.model import Board, Parameter, Point, Session

__all__ = [
    "Board",
    "Parameter",
    "Point",
    "Session",
    "board_of",
    "check_installed",
    "event_streams",
    "write",
]
