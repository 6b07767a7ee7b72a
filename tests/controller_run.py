"""Runs one controller to its end, with this script in the place of the supervisor.

Arguments: a directory for everything, and JSON that replaces fields of `SPEC` and of `FAULT`.
What the controller sends is printed, one JSON object a line; its journal is ``0.0.jsonl``.
"""

from __future__ import annotations

import collections
import json
import sys
from pathlib import Path
from typing import Any, cast
from unittest import mock

from recoverybench.journal_writer import Journal
from recoverybench.protocol import Board, JobSpec, Place
from recoverybench.worker.channel import Channel
from recoverybench.worker.pathways import controller
from recoverybench.worker.pathways.slices import Loss
from tests.controller_spec import FAULT, SPEC

LOSSES: list[Loss] = []


class Kept(Loss):
    """Within the reach of the one who plays the supervisor."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        LOSSES.append(self)


class Supervisor:
    """What a controller needs of a `Channel`: it is given a place, and a fault at its hold."""

    def __init__(self, place: Place, fault: dict[str, Any], back: bool) -> None:
        self._orders = [place.as_message("start")]
        self._fault = fault
        self._back = back
        self.asides: collections.deque[dict[str, Any]] = collections.deque()

    def send(self, kind: str, **fields: Any) -> None:
        print(json.dumps({"kind": kind, **fields}), flush=True)
        if kind == "hold":
            argument = json.dumps(self._fault)
            self.asides.append({"kind": "break", "what": "lose-slice", "argument": argument})
        if kind == "running" and fields["generation"] == 1 and self._back:
            LOSSES[0]._give_back(self._fault["slice"])
        if kind in ("failed", "left"):
            self._orders.append({"kind": "rejoin", "generation": fields["generation"] + 1})

    def board(self, spec: JobSpec) -> Board:
        return Board(Path(spec.board), 1)

    def order(self) -> dict[str, Any]:
        return self._orders.pop(0)

    def released(self) -> bool:
        return not self.asides


def main(directory: Path, changes: dict[str, Any]) -> None:
    for name in ("checkpoints", "executables", "jax"):
        (directory / name).mkdir(exist_ok=True)
    places = {
        "executables": str(directory / "executables"),
        "jax_cache": str(directory / "jax"),
        "checkpoints": str(directory / "checkpoints"),
        "local": str(directory),
        "journals": str(directory),
        "board": str(directory / "board"),
    }
    fault = FAULT | {k: v for k, v in changes.items() if k in FAULT}
    spec = JobSpec(**(SPEC | places | {k: v for k, v in changes.items() if k in SPEC}))
    Board(Path(spec.board), 1, create=True)
    place = Place(0, 0, 0, "", 1, 0, "3x1", changes.get("hold", "step:13"))
    channel = Supervisor(place, fault, changes.get("back", False))
    journal = Journal(directory / "0.0.jsonl", 0, 0)
    with mock.patch.object(controller, "Loss", Kept):
        controller.live(cast(Channel, channel), journal, spec)


if __name__ == "__main__":
    main(Path(sys.argv[1]), json.loads(sys.argv[2]))
