"""Hosts of TPU slices in a Ray cluster: invented ones, as Ray labels them."""

from __future__ import annotations

import pytest

from recoverybench.launchers import _ray_tpu
from recoverybench.launchers._ray_nodes import Seats
from tests.ray_fake import SLICES, node, tpu_host


def test_a_job_is_on_a_whole_slice_with_ranks_in_its_order() -> None:
    found = _ray_tpu.candidates(SLICES, "tpu", 2)
    assert [host.id for host in found] == ["s0/0", "s0/1", "s1/0", "s1/1"]
    assert _ray_tpu.bundle(found, "tpu") == {"CPU": 1.0, "TPU": 4.0}
    assert _ray_tpu.head(found[0]) == "v4-16"
    assert _ray_tpu.head(found[1]) is None


def test_a_slice_of_another_size_is_named() -> None:
    with pytest.raises(ValueError, match=r"whole TPU slice of 3 hosts, and s0 has 2, s1 has 2"):
        _ray_tpu.candidates(SLICES, "tpu", 3)


def test_a_slice_without_its_first_host_is_not_whole() -> None:
    hosts = [tpu_host("s0", 1), tpu_host("s0", 2)]
    assert not _ray_tpu.whole(_ray_tpu.slices(hosts)["s0"])
    with pytest.raises(ValueError, match="whole TPU slice"):
        _ray_tpu.candidates(hosts, "tpu", 2)


def test_hosts_without_chips_or_cores_do_not_count() -> None:
    there = [node("n0"), node("n1", TPU=4.0), node("n2", GPU=8.0), node("n3", CPU=0.0, TPU=4.0)]
    assert [n.id for n in _ray_tpu.usable(there, "cpu")] == ["n0", "n1", "n2"]
    assert [n.id for n in _ray_tpu.usable(there, "tpu")] == ["n1"]
    assert [n.id for n in _ray_tpu.usable(there, "cuda")] == ["n2"]


def test_nodes_of_unlike_size_are_refused() -> None:
    unlike = [node("n0", GPU=8.0), node("n1", GPU=4.0)]
    with pytest.raises(ValueError, match="these have 4 and 8"):
        _ray_tpu.bundle(unlike, "gpu")


def test_a_job_moves_to_another_slice_as_a_whole() -> None:
    slices = [["a0", "a1"], ["b0", "b1"]]
    seats = Seats(["a0", "a1", "b0", "b1"], "n0", slices)
    assert [seats.sit(0), seats.sit(1)] == ["a0", "a1"]
    seats.leave(1)
    seats.move(1)
    assert seats.sit(1) == "a1", "its host is the only one with its place"
    seats.lose("a1")
    assert seats.sit(1) is None, "rank 0 is still on the old slice"
    assert seats.plan(0) == "b0", "where the next rank 0 will be"
    seats.leave(0)
    assert [seats.sit(0), seats.sit(1)] == ["b0", "b1"]
