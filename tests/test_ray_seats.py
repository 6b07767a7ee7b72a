"""Who sits on which node of a Ray cluster, without Ray."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from recoverybench.job import services
from recoverybench.launchers import _ray_nodes
from recoverybench.launchers._ray_nodes import Seats, alive, bundle_count, in_order

names = st.lists(st.sampled_from([f"n{i}" for i in range(6)]), min_size=1, max_size=6, unique=True)


@given(order=names, slots=st.integers(1, 8))
def test_a_worker_a_node_as_far_as_there_are_nodes(order: list[str], slots: int) -> None:
    seats = Seats(order, "elsewhere")
    found = [seats.sit(slot) for slot in range(slots)]
    assert found[: len(order)] == order[:slots], "rank i is on the i-th node"
    counts = [found.count(name) for name in order]
    assert max(counts) - min(counts) <= 1, "and then as evenly as possible"


@given(order=names, slot=st.integers(0, 5))
def test_who_was_only_ended_comes_back_on_its_own_node(order: list[str], slot: int) -> None:
    slot %= len(order)
    seats = Seats(order, "elsewhere")
    for each in range(len(order)):
        seats.sit(each)
    seats.leave(slot)
    assert seats.sit(slot) == order[slot]


@given(order=names, data=st.data())
def test_what_was_lost_is_replaced_on_a_free_node(order: list[str], data: st.DataObject) -> None:
    workers = data.draw(st.integers(1, len(order)))
    victim = data.draw(st.integers(0, workers - 1))
    seats = Seats(order, "elsewhere")
    for slot in range(workers):
        seats.sit(slot)
    seats.leave(victim)
    seats.move(victim)
    found = seats.sit(victim)
    if workers < len(order):
        assert found == order[workers], "one on which nobody has been"
    else:
        assert found == order[victim], "with no spare one its own is the only free one"


@given(order=names, data=st.data())
def test_nobody_sits_on_a_node_that_is_lost(order: list[str], data: st.DataObject) -> None:
    seats = Seats(order, "elsewhere")
    for slot in range(len(order)):
        seats.sit(slot)
    lost = data.draw(st.lists(st.sampled_from(order), unique=True))
    for name in lost:
        seats.lose(name)
    for slot in range(len(order)):
        seats.leave(slot)
        found = seats.sit(slot)
        assert found not in lost
        assert (found is None) == (len(lost) == len(order))
    assert seats.nodes == [name for name in order if name not in lost]


@given(order=names, moving=st.booleans(), alive_still=st.booleans())
def test_where_an_address_was_given_out_the_next_worker_is(
    order: list[str], moving: bool, alive_still: bool
) -> None:
    seats = Seats(order, "elsewhere")
    for slot in range(len(order)):
        seats.sit(slot)
    if not alive_still:
        seats.leave(0)
    planned = seats.plan(0)
    if moving:
        seats.move(0)
    seats.leave(0)
    assert seats.sit(0) == planned


def test_a_planned_node_that_is_lost_meanwhile_is_not_taken() -> None:
    seats = Seats(["n1", "n2"], "n0")
    assert seats.plan(0) == "n1"
    seats.lose("n1")
    assert seats.sit(0) == "n2"


def test_services_are_beside_the_supervisor() -> None:
    seats = Seats(["n1", "n2"], "n0")
    assert _ray_nodes.FIRST_SERVICE == services._SLOTS
    assert seats.sit(services._SLOTS + 3) == "n0"
    assert seats.sit(0) == "n1"


def test_the_supervisor_comes_last_unless_it_has_to_be_rank_0() -> None:
    assert in_order(["n0", "n1", "n2"], "n0", 2, {}) == ["n1", "n2", "n0"]
    assert in_order(["n0", "n1", "n2"], "n0", 3, {}) == ["n0", "n1", "n2"]
    assert in_order(["n1", "n2", "n1"], "n0", 3, {}) == ["n1", "n2"]


@given(workers=st.integers(1, 50), usable=st.integers(1, 50))
def test_some_spare_nodes_are_held_and_not_all(workers: int, usable: int) -> None:
    assert bundle_count(workers, usable) == min(workers + _ray_nodes.SPARE, usable)


def test_only_living_nodes_count() -> None:
    said = [
        {"NodeID": "a", "NodeManagerAddress": "1.2.3.4", "Alive": True, "Resources": {"CPU": 2.0}},
        {"NodeID": "b", "NodeManagerAddress": "1.2.3.5", "Alive": False, "Resources": {}},
        {"NodeID": "c", "NodeManagerAddress": "1.2.3.6", "Alive": True, "Resources": None},
    ]
    assert [each.id for each in alive(said)] == ["a", "c"]
    assert alive(said)[0].resources == {"CPU": 2.0}
