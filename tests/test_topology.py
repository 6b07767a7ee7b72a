"""Topologies: their text, their mesh, and who works on which rows."""

from __future__ import annotations

from collections import Counter
from math import prod

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recoverybench.topology import AXES, Topology


@st.composite
def topologies(draw: st.DrawFn) -> Topology:
    """Any topology that can be: sizes of the axes first, then a split into workers."""
    sizes = {name: draw(st.sampled_from([1, 1, 2, 3, 4])) for name in AXES}
    total = prod(sizes.values())
    devices = draw(st.sampled_from([d for d in range(1, total + 1) if total % d == 0]))
    text = ",".join(f"{name}={n}" for name, n in draw(st.permutations(sorted(sizes.items()))))
    try:
        return Topology.of(f"{total // devices}x{devices}:{text}")
    except ValueError:  # a tensor axis that does not fit a worker
        return Topology(total, 1)


@given(topologies())
def test_a_topology_is_read_as_it_is_written(topology: Topology) -> None:
    assert Topology.of(str(topology)) == topology
    assert prod(size for _, size in topology.mesh) == topology.total


@given(topologies())
def test_every_row_is_counted_by_exactly_one_worker(topology: Topology) -> None:
    shares = [topology.share(process) for process in range(topology.workers)]
    assert len({of for _, of, _ in shares}) == 1
    assert Counter(i for i, _, counts in shares if counts) == Counter(range(shares[0][1]))
    assert {i for i, _, _ in shares} == set(range(shares[0][1]))
    # Workers with the same share are those whose devices lie along one tensor axis.
    assert topology.row_shares % shares[0][1] == 0


@given(topologies(), st.integers(1, 12))
def test_another_number_of_workers_takes_from_the_data_axis_alone(
    topology: Topology, workers: int
) -> None:
    other = topology.resized(workers)
    if other is None:
        return
    assert (other.workers, other.devices) == (workers, topology.devices)
    assert all(other.size(axis) == topology.size(axis) for axis in AXES if axis != "data")
    if workers == topology.workers:
        assert other == topology


def test_one_axis_over_all_devices_is_what_goes_without_saying() -> None:
    assert Topology.of("3x2:data=6") == Topology.of("3x2") == Topology(3, 2)
    assert str(Topology.of("3x2:data=6")) == "3x2"
    assert Topology.of("3x2").mesh == (("data", 6),)


def test_the_order_of_the_axes_is_ours() -> None:
    assert str(Topology.of("2x2:tensor=2,data=2")) == "2x2:data=2,tensor=2"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "workers x devices"),
        ("3", "workers x devices"),
        ("0x2", "workers x devices"),
        ("2x2:", "workers x devices"),
        ("2x2:data", "workers x devices"),
        ("2x2:data=0,fsdp=4", "workers x devices"),
        ("2x2:data=2,fsdp=4", "product is 4"),
        ("2x2:pipeline=4", "data, fsdp, expert, tensor"),
        ("2x2:data=2,data=2", "once"),
        ("3x2:tensor=3,data=2", "a worker's devices"),
    ],
)
def test_what_is_no_topology_says_what_is(text: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        Topology.of(text)


@pytest.mark.parametrize(
    ("text", "whole"),
    [
        ("4x1", True),
        ("4x2:data=4,fsdp=2", True),
        ("4x2:data=2,fsdp=4", False),
        ("2x4:data=2,fsdp=2,tensor=2", True),
        ("2x1:fsdp=2", False),
    ],
)
def test_whether_a_worker_has_the_whole_state(text: str, whole: bool) -> None:
    assert Topology.of(text).whole_in_worker is whole


def test_shrinking_needs_a_data_axis_that_can_give() -> None:
    assert str(Topology.of("4x2:data=4,fsdp=2").resized(3)) == "3x2:data=3,fsdp=2"
    assert Topology.of("4x2:data=2,fsdp=4").resized(3) is None
    assert Topology.of("3x1").resized(2) == Topology(2, 1)
