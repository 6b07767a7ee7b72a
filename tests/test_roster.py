"""Who belongs to a job: what is asked after every event does not take a look at everybody."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from hypothesis import given
from hypothesis import strategies as st

from recoverybench.job.member import Member
from recoverybench.job.roster import Roster


def roster(count: int) -> Roster:
    made = Roster()
    made.world = count
    process = cast(Any, SimpleNamespace(pid=1))
    made.members = [Member(r, r, 0, process, generation=0, index=r) for r in range(count)]
    return made


@given(st.integers(1, 6), st.lists(st.tuples(st.integers(0, 5), st.booleans()), max_size=40))
def test_all_of_them_are_done_when_each_is(count: int, changes: list[tuple[int, bool]]) -> None:
    found = roster(count)
    for rank, done in changes:
        found.members[rank % count].done = done
        assert found.finished() == all(m.done for m in found.members)


def test_a_generation_that_lacks_somebody_is_not_whole() -> None:
    found = roster(3)
    for member in found.members:
        member.done = True
    found.world = 4
    assert not found.finished()


def test_most_answers_look_at_one_rank_alone() -> None:
    """Else a recovery of N workers, each with some events, would take the square of N."""
    for order in (range(200), reversed(range(200))):
        found, looked = roster(200), 0

        def holds(member: Member) -> bool:
            nonlocal looked
            looked += 1
            return member.done

        for rank in order:
            found.members[rank].done = True
            found._all("done", holds)
        assert looked < 3 * 200
