"""Who is broken, who is stuck and who only comes late: what `elastic` makes of what is known."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from recoverybench.job.job import Job
from recoverybench.job.member import Member
from recoverybench.job.noticed import Noticed
from recoverybench.job.roster import Roster
from recoverybench.launchers.base import Ended, Process
from recoverybench.protocol import Board
from recoverybench.strategies.base import CannotRecover
from recoverybench.strategies.elastic import Elastic
from recoverybench.vocabulary import EVIDENCE

STEP = 17


class Known(Roster):
    """A roster of three workers that wait in a step, and answer as they are told to.

    Attributes:
        silent: workers that do not answer a probe.
    """

    def __init__(self, directory: Path, begun: tuple[int, ...], *mechanisms: str) -> None:
        super().__init__()
        self.members = [_member(rank) for rank in range(3)]
        self.evidence = [Noticed(mechanism, "", 0) for mechanism in mechanisms]
        self.generation, self.world, self._gone = 0, 3, 0
        self._board = Board(directory / "board", 3, create=True)
        for rank, step in enumerate(begun):
            self._board.begin(rank, step)
        self._services = cast(Any, SimpleNamespace(external=False, members=[]))
        self.spec = SimpleNamespace(coordinator="worker0")
        self.silent: list[Member] = []

    def unresponsive(self) -> list[Member]:
        return self.silent

    def broken(self) -> tuple[list[int | None], list[int | None], list[int | None]]:
        """Ranks: (broken, stuck, survivors)."""
        damage = Elastic().examine(cast(Job, self))
        found = damage.broken, damage.stuck, damage.survivors
        return tuple([m.rank for m in members] for members in found)  # type: ignore[return-value]


def _member(rank: int) -> Member:
    process = cast(Process, SimpleNamespace(pid=100 + rank))
    return Member(rank, rank, 0, process, generation=0, index=rank)


LATE = (STEP, STEP, STEP - 1)
"""What each worker has begun, where worker 2 is a step behind."""


def test_who_is_behind_is_stuck_where_no_step_is_completed(tmp_path: Path) -> None:
    assert Known(tmp_path, LATE, "watchdog").broken() == ([2], [2], [0, 1])


@pytest.mark.parametrize("mechanism", [m for m in EVIDENCE if m != "watchdog"])
def test_who_is_behind_an_error_only_comes_late(tmp_path: Path, mechanism: str) -> None:
    assert Known(tmp_path, LATE, mechanism).broken() == ([], [], [0, 1, 2])


def test_the_watchdog_of_an_earlier_generation_says_nothing_of_this_one(tmp_path: Path) -> None:
    known = Known(tmp_path, LATE, "non_finite")
    known.evidence.insert(0, Noticed("watchdog", "", -1))
    assert known.broken() == ([], [], [0, 1, 2])


def test_who_has_caught_its_exception_is_not_stuck(tmp_path: Path) -> None:
    known = Known(tmp_path, LATE, "watchdog", "exception")
    known.members[2].failed = ("exception", "MemoryError")
    assert known.broken() == ([], [], [0, 1, 2])


def test_nobody_else_is_stuck_where_somebody_is_dead_or_silent(tmp_path: Path) -> None:
    known = Known(tmp_path, (STEP, STEP - 1, STEP - 1), "watchdog")
    known.silent = [known.members[1]]
    assert known.broken() == ([1], [1], [0, 2])
    known.members[1].ended = Ended(None, "SIGKILL")
    known.silent = []
    assert known.broken() == ([1], [], [0, 2])


def test_who_was_called_back_and_does_not_come_is_stuck_whatever_the_evidence(
    tmp_path: Path,
) -> None:
    known = Known(tmp_path, (STEP, STEP, STEP), "exception")
    known.members[1].stuck = True
    assert known.broken() == ([1], [1], [0, 2])


def test_with_worker_0_goes_the_service_that_it_holds(tmp_path: Path) -> None:
    with pytest.raises(CannotRecover, match="worker 0 is lost"):
        Known(tmp_path, (STEP - 1, STEP, STEP), "watchdog").broken()
