"""How many jobs have room side by side on a Ray cluster, and what each of them gets."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recoverybench.campaign import measuring
from recoverybench.campaign.design import Place
from recoverybench.campaign.launching import nodes_note
from recoverybench.campaign.plans import plan_of
from recoverybench.errors import NothingLeft, UsageError
from recoverybench.launchers import _ray_cluster, ray
from recoverybench.launchers._ray_nodes import Node
from recoverybench.launchers._ray_room import Packed, Room
from recoverybench.launchers.base import Share
from recoverybench.plan.suite import Overrides, load_suite
from tests.ray_fake import NODES, FakeCluster, node, site_on, tpu_host, wanted
from tests.sample_run import default_trials

nodes = st.integers(1, 20)


@given(count=nodes, need=st.integers(1, 6), data=st.data())
def test_every_job_has_nodes_of_its_own_and_lost_ones_are_nobodys(
    count: int, need: int, data: st.DataObject
) -> None:
    room = Room([[f"n{i}"] for i in range(count)], need)
    out: list[Share] = []
    lost: set[str] = set()
    for _ in range(data.draw(st.integers(1, 30))):
        if data.draw(st.booleans()) or not out:
            share = room.take()
            if share is None:
                left = count - len(lost) - sum(len(set(s.nodes) - lost) for s in out)
                assert left < need if out else left == 0
                continue
            assert set(share.lost) == lost
            assert not set(share.nodes) & lost
            assert all(not set(share.nodes) & set(each.nodes) for each in out)
            assert len(share.nodes) == need or (not out and 0 < len(share.nodes) < need)
            out.append(share)
        else:
            share = out.pop(data.draw(st.integers(0, len(out) - 1)))
            gone = data.draw(st.sets(st.sampled_from(share.nodes)))
            lost |= gone
            room.give_back(share, frozenset(gone))


@given(count=nodes, need=st.integers(1, 6))
def test_as_many_jobs_as_have_whole_room(count: int, need: int) -> None:
    room = Room([[f"n{i}"] for i in range(count)], need)
    assert room.size == max(1, count // need)
    shares = [room.take() for _ in range(room.size)]
    assert None not in shares
    assert room.take() is None
    assert [n for share in shares if share for n in share.nodes] == room.nodes


@given(fits=st.lists(st.integers(0, 8), min_size=1, max_size=6), workers=st.integers(1, 5))
def test_packed_jobs_have_cores_and_not_nodes(fits: list[int], workers: int) -> None:
    room = Packed({f"n{i}": count for i, count in enumerate(fits)}, workers)
    assert room.size == max(1, sum(fits) // workers)
    shares = [room.take() for _ in range(room.size)]
    assert shares == [Share()] * room.size
    assert room.take() is None
    assert shares[0] is not None
    room.give_back(shares[0], frozenset({"n0"}))
    assert room.size == max(1, sum(fits[1:]) // workers)


def test_other_work_leaves_room_for_fewer() -> None:
    room = Room([[f"n{i}"] for i in range(9)], 2, most=2)
    assert room.size == 2
    assert room.nodes == ["n0", "n1", "n2", "n3"]
    assert [room.take() is None for _ in range(3)] == [False, False, True]


def test_a_slice_that_lost_a_host_is_used_no_more() -> None:
    room = Room([["a0", "a1"], ["b0", "b1"], ["c0", "c1"]], 2)
    share = room.take()
    assert share is not None and share.nodes == ("a0", "a1", "b0", "b1")
    room.give_back(share, frozenset({"a1"}))
    again = room.take()
    assert again == Share(("b0", "b1", "c0", "c1"), frozenset({"a1"}))


# On a cluster


EIGHT = [node(f"n{index}") for index in range(8)]


def shares_of(cluster: FakeCluster, at: Path, *, pack: bool = False, **changes: Any) -> list[Share]:
    """What jobs side by side on a cluster get, and that it holds nothing meanwhile."""
    site = site_on(cluster, pack=pack)
    site.check(wanted(2, at=at, shared=True, **changes))
    assert cluster.released == 1
    assert site.room is not None
    return [share for _ in range(20) if site.room and (share := site.room.take()) is not None]


def test_jobs_of_two_workers_have_four_nodes_each(tmp_path: Path) -> None:
    cluster = FakeCluster(EIGHT)
    found = shares_of(cluster, tmp_path)
    assert [share.nodes for share in found] == [
        ("n1", "n2", "n3", "n4"),
        ("n5", "n6", "n7", "n0"),  # the supervisor's own comes last
    ]
    assert len(cluster.held[0][0]) == 8, "there is room for all of them at the same time"


def test_a_cluster_that_is_too_small_for_two_has_room_for_one(tmp_path: Path) -> None:
    [share] = shares_of(FakeCluster(NODES[:3]), tmp_path)
    assert share.nodes == ("n1", "n2", "n0")


def test_packed_jobs_are_counted_by_cores(tmp_path: Path) -> None:
    cluster = FakeCluster(NODES[:2])  # of four cores each
    assert shares_of(cluster, tmp_path, pack=True) == [Share()] * 4
    assert cluster.held == [([{"CPU": 1.0}] * 8, None)]


def test_of_tpu_hosts_a_job_has_a_slice_and_one_to_come_back_on(tmp_path: Path) -> None:
    hosts: list[Node] = [tpu_host(f"s{i}", place) for i in range(5) for place in (0, 1)]
    found = shares_of(FakeCluster(hosts), tmp_path, platform="tpu")
    assert [share.nodes for share in found] == [
        ("s0/0", "s0/1", "s1/0", "s1/1"),
        ("s2/0", "s2/1", "s3/0", "s3/1"),
    ]


def test_where_other_work_has_a_part_there_are_half_as_many(tmp_path: Path) -> None:
    cluster = FakeCluster([node(f"n{index}") for index in range(16)])
    cluster.full = 1
    assert len(shares_of(cluster, tmp_path)) == 2
    cluster.full = 3
    with pytest.raises(UsageError, match="and other work has it"):
        site_on(cluster).check(wanted(2, at=tmp_path, shared=True))


def test_each_job_holds_its_share_and_nothing_else(tmp_path: Path) -> None:
    cluster = FakeCluster(EIGHT)
    share = Share(("n5", "n6", "n7", "n0"), frozenset({"n1"}))
    site = site_on(cluster, share=share)
    site.hold(wanted(2, at=tmp_path, shared=True))
    assert [nodes for _, nodes in cluster.held] == [["n5", "n6", "n7", "n0"]]
    assert site.newly_lost() == frozenset()
    site.lose("n6")
    cluster.alive = [each for each in EIGHT if each.id != "n7"]
    site.begin_job()
    assert [nodes for _, nodes in cluster.held][-1] == ["n0", "n5"]
    assert site.newly_lost() == {"n6", "n7"}


def test_who_counts_the_room_leaves_the_cluster_to_those_that_use_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    cluster = FakeCluster(EIGHT)
    monkeypatch.setattr(_ray_cluster, "connect", lambda: cluster)
    asked = wanted(2, at=tmp_path, shared=True)
    ray.check(None, asked)
    room = ray.room()
    assert cluster.closed == 1
    assert ray.lost() == frozenset()
    share = room.take()
    assert share is not None
    ray.enter(None, asked, share)
    assert [nodes for _, nodes in cluster.held][-1] == list(share.nodes)
    ray.leave()
    assert cluster.closed == 2


@pytest.mark.parametrize(
    ("changes", "finished", "said"),
    [
        ({}, 0, "takes 10 nodes, one a trial; the cluster has 5, and can spare 2: where too few"),
        ({"profile": True}, 9, "takes 2 nodes, one a trial; the cluster has 5, and can spare 2"),
        ({"precision": 0.1}, 8, "takes at most 2 nodes, one a trial"),
    ],
)
def test_what_a_run_takes_from_a_cluster_is_said_beforehand(
    changes: dict[str, Any], finished: int, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only what is left to run counts, and only cells whose fault takes a node."""
    monkeypatch.setattr(ray, "spare", lambda: (5, 2))
    asked = Overrides(fault=("kill", "kill-node"), strategy=("restart",), trials=10)
    suite = dataclasses.replace(load_suite("quick", asked, launcher="ray"), **changes)
    cell = next(cell for cell in suite.cells if cell.fault == "kill-node")
    trial = dataclasses.replace(default_trials()[0], cell=cell)
    note = nodes_note("ray", suite, [trial] * finished)
    assert note is not None and note.startswith(f"kill-node {said}")
    assert ("code 3" in note) == (finished == 0)
    kills = dataclasses.replace(suite, cells=tuple(c for c in suite.cells if c.fault == "kill"))
    assert nodes_note("ray", kills, []) is None
    assert nodes_note("local", suite, []) is None


def test_a_trial_that_nothing_is_left_for_has_no_record(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def used_up(*_: Any) -> None:
        raise NothingLeft("nodes were lost")

    monkeypatch.setattr(measuring, "fault_free", lambda *_: [(None, None)])
    monkeypatch.setattr(measuring.Measuring, "reference", lambda *_: None)
    monkeypatch.setattr(measuring, "run_job", used_up)
    plan = plan_of(load_suite("quick"), Place(load_suite("quick").cells[0], 0, 0, 0), "0001")
    made = measuring.Measuring(tmp_path, SimpleNamespace(), lambda _: None)  # type: ignore[arg-type]
    with pytest.raises(NothingLeft):
        made.records(plan)
