"""What is asked of a Ray cluster before a run: nodes, room, and whether they are like this one."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from recoverybench.errors import UsageError
from recoverybench.launchers import _ray_cluster
from tests.ray_fake import NODES, SLICES, FakeCluster, node, site_on, wanted


def test_a_site_holds_nodes_and_looks_at_each(tmp_path: Path) -> None:
    cluster = FakeCluster(NODES)
    site = site_on(cluster)
    site.check(wanted(2, at=tmp_path))
    assert cluster.held == [([{"CPU": 1.0}] * 4, ["n1", "n2", "n3", "n0"])]
    [(directories, files, token)] = cluster.seen
    assert (directories, files) == ([str(tmp_path)], [])
    assert token.startswith(".recoverybench-")
    assert list(tmp_path.iterdir()) == [], "the token is removed"


@pytest.mark.parametrize(
    ("nodes", "arguments", "said"),
    [
        (NODES[:2], {"workers": 3}, "expected 3 nodes for 3 workers, and the cluster has 2"),
        ([], {"workers": 1}, "expected 1 nodes for 1 workers, and the cluster has 0"),
        (NODES[:2], {"workers": 2, "lost": True}, "expected 3 nodes, as a fault takes one"),
        (NODES[:2], {"workers": 2, "platform": "tpu"}, "the cluster has 0 with a core and a TPU"),
        (SLICES, {"workers": 4, "platform": "tpu"}, "a whole TPU slice of 4 hosts"),
        (
            [node("n0", GPU=1.0), node("n1", GPU=2.0)],
            {"workers": 2, "platform": "gpu"},
            "as many of GPU each",
        ),
    ],
)
def test_a_cluster_that_is_too_small_is_refused_in_one_line(
    nodes: list[Any], arguments: dict[str, Any], said: str, tmp_path: Path
) -> None:
    site = site_on(FakeCluster(nodes))
    with pytest.raises(UsageError) as error:
        site.check(wanted(**arguments, at=tmp_path))
    assert said in str(error.value)
    assert "\n" not in str(error.value)


def test_packed_workers_need_cores_and_not_nodes(tmp_path: Path) -> None:
    cluster = FakeCluster(NODES[:2])
    site = site_on(cluster, pack=True)
    site.check(wanted(5, at=tmp_path))
    assert cluster.held == [([{"CPU": 1.0}] * 5, None)]
    assert {site.seats.sit(slot) for slot in range(5)} == {"n0", "n1"}


@pytest.mark.parametrize(
    ("nodes", "arguments", "pack", "spare"),
    [
        (NODES, {"workers": 2}, False, (4, 2)),
        (NODES, {"workers": 4}, False, (4, 0)),
        (SLICES, {"workers": 2, "platform": "tpu"}, False, (4, 1)),
        (NODES, {"workers": 2}, True, (4, 2)),
        (NODES, {"workers": 9}, True, (4, 1)),
        (NODES[:2], {"workers": 2}, True, (2, 0)),
    ],
)
def test_so_many_nodes_can_be_lost_that_a_job_still_has_enough(
    nodes: list[Any], arguments: dict[str, Any], pack: bool, spare: tuple[int, int], tmp_path: Path
) -> None:
    site = site_on(FakeCluster(nodes), pack=pack)
    site.check(wanted(**arguments, at=tmp_path))
    assert site.spare() == spare
    if not pack and spare[1]:
        site.lose(site.seats.nodes[0])
        site.begin_job()  # the next job has enough


def test_a_node_that_ray_does_not_miss_yet_is_not_waited_for(tmp_path: Path) -> None:
    """The first try finds no room, as one of the nodes is dead; the second one is without it."""

    class Late(FakeCluster):
        def reserve(self, bundles: Any, nodes: Any) -> list[str] | None:
            found = super().reserve(bundles, nodes)
            self.alive = self.alive[:-1]
            return found

    cluster = Late(NODES)
    cluster.full = 1
    site_on(cluster).check(wanted(2, at=tmp_path))
    assert [nodes for _, nodes in cluster.held] == [["n1", "n2", "n3", "n0"], ["n1", "n2", "n0"]]


def test_a_cluster_in_use_is_refused(tmp_path: Path) -> None:
    cluster = FakeCluster(NODES)
    cluster.full = 2
    with pytest.raises(UsageError, match="room for 1 CPU on each of them, and other work has it"):
        site_on(cluster).check(wanted(2, at=tmp_path))


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"versions": {"jax": "0.1"}}, "has jax 0.1, and this machine has"),
        ({"versions": {"recoverybench": "none"}}, "has recoverybench none, and this machine has"),
        ({"versions": {"python": "3.9.1"}}, "has python 3.9.1, and this machine has"),
        ({"unseen": ["/shared"]}, "does not see /shared: expected a directory that all"),
        ({"missing": ["/data.txt"]}, "cannot read /data.txt: expected a file that all"),
        (RuntimeError("\x1b[31mno such module\x1b[0m\nand more"), "RuntimeError: no such module"),
    ],
)
def test_a_node_that_is_not_as_this_one_is_named(changes: Any, said: str, tmp_path: Path) -> None:
    answer = changes
    if isinstance(changes, dict):
        good: dict[str, Any] = {"unseen": [], "missing": [], **changes}
        good["versions"] = {**_ray_cluster.own_versions(), **changes.get("versions", {})}
        answer = good
    cluster = FakeCluster(NODES)
    cluster.answers["n2"] = answer
    with pytest.raises(UsageError) as error:
        site_on(cluster).check(wanted(2, at=tmp_path))
    assert str(error.value).startswith("--launcher ray: node 10.0.0.2 (n2) ")
    assert said in str(error.value)
    assert "\n" not in str(error.value)
    assert "\x1b" not in str(error.value)


def test_what_a_node_is_asked_runs_without_recoverybench(tmp_path: Path) -> None:
    (tmp_path / "token").touch()
    look = _ray_cluster._look()
    assert look.__closure__ is None
    assert not {"recoverybench"} & set(look.__code__.co_names)
    found = look([str(tmp_path), str(tmp_path / "other")], [str(tmp_path / "none")], "token")
    assert found["unseen"] == [str(tmp_path / "other")]
    assert found["missing"] == [str(tmp_path / "none")]
    assert found["versions"] == _ray_cluster.own_versions()


def test_tokens_are_removed_also_where_one_cannot_be_written(tmp_path: Path) -> None:
    """Nor does it matter that the run goes into the cache's own directory."""
    (tmp_path / "link").symlink_to(tmp_path)
    asked = dataclasses.replace(wanted(2, at=tmp_path), directories=(tmp_path, tmp_path / "link"))
    site_on(FakeCluster(NODES)).check(asked)
    (tmp_path / "link").unlink()
    asked = dataclasses.replace(asked, directories=(tmp_path, tmp_path / "absent"))
    with pytest.raises(UsageError, match="a directory that can be written"):
        site_on(FakeCluster(NODES)).check(asked)
    assert list(tmp_path.iterdir()) == []
