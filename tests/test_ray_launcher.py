"""Workers by actors of a Ray cluster, played in this process: starts, ends, losses."""

from __future__ import annotations

import os
import select
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recoverybench.errors import HarnessError, NothingLeft
from recoverybench.launchers import ray
from recoverybench.launchers._ray_handle import Handle, RayProcess, first_line
from recoverybench.launchers.base import Ended, Hosts
from tests.ray_fake import NODES, Actor, FakeCluster, node, site_on, wanted

ADDRESS = "tcp://10.0.0.0:1"


@pytest.fixture
def cluster() -> FakeCluster:
    return FakeCluster(NODES)


@pytest.fixture
def launcher(cluster: FakeCluster, tmp_path: Path) -> Iterator[ray.Ray]:
    site = site_on(cluster)
    site.check(wanted(2, at=tmp_path))
    made = ray.Ray(site, {"JAX_PLATFORMS": "cpu"}, tmp_path / "forks.log")
    yield made
    made.close()


def ready(process: Any) -> bool:
    return bool(select.select([process.fd], [], [], 0)[0])


def begin(launcher: ray.Ray, at: Path, slot: int, attempt: int = 0, how: Any = "cold") -> Any:
    """A worker of a job at that address, whose log is ``SLOT.ATTEMPT.log`` in `at`."""
    return launcher.start(ADDRESS, slot, attempt, how, at / f"{slot}.{attempt}.log")


def end(process: Any, said: Any = (None, "SIGKILL"), error: Exception | None = None) -> None:
    """Its actor says how it ended, or Ray that the actor is gone."""
    handle = process.handle
    handle.actor.waiting[f"ended {handle.key}"](said if error is None else None, error)


def test_a_cold_worker_is_the_child_of_an_actor_of_its_own(
    launcher: ray.Ray, cluster: FakeCluster, tmp_path: Path
) -> None:
    processes = [begin(launcher, tmp_path, slot) for slot in (0, 1)]
    assert [actor.node for actor in cluster.actors] == ["n1", "n2"]
    actor = cluster.actors[1]
    [(method, request), (then, (key,))] = actor.calls
    assert (method, then, request[0]) == ("start", "ended", key)
    assert request[1:6] == (ADDRESS, 1, 0, "cold", str(tmp_path / "1.0.log"))
    assert request[6]["JAX_PLATFORMS"] == "cpu"
    assert actor.arguments[2] is None, "the node's own interpreter"
    assert processes[1].pid == 0
    actor.waiting[f"start {key}"](4711, None)
    assert processes[1].pid == 4711
    assert not ready(processes[1])
    assert launcher.reap(processes[1]) is None
    end(processes[1], (7, None))
    assert ready(processes[1])
    assert launcher.reap(processes[1]) == Ended(7, None)
    assert actor.killed, "its actor has nothing more to do"


def test_who_is_lost_with_its_actor_has_been_killed_and_its_log_says_why(
    launcher: ray.Ray, cluster: FakeCluster, tmp_path: Path
) -> None:
    log, process = tmp_path / "0.0.log", begin(launcher, tmp_path, 0)
    end(process, error=ConnectionError("node gone"))
    assert launcher.reap(process) == Ended(None, "SIGKILL", seen=False)
    assert log.read_text() == "error: lost with its actor: ConnectionError: node gone\n"


def test_an_end_that_we_brought_about_is_no_error(
    launcher: ray.Ray, cluster: FakeCluster, tmp_path: Path
) -> None:
    log, process = tmp_path / "0.0.log", begin(launcher, tmp_path, 0)
    [actor] = cluster.actors
    key = actor.calls[0][1][0]
    launcher.signal(process, signal.SIGKILL)
    assert actor.calls[-1] == ("signal", (key, 9))
    end(process, error=ConnectionError("gone"))
    end(process)
    assert launcher.reap(process) == Ended(None, "SIGKILL", seen=False)
    assert not log.exists()
    calls = list(actor.calls)
    launcher.signal(process, signal.SIGTERM)
    assert actor.calls == calls, "nobody is there any more"


def test_warm_workers_come_from_one_fork_server_a_node(
    launcher: ray.Ray, cluster: FakeCluster, tmp_path: Path
) -> None:
    first = begin(launcher, tmp_path, 0, how="warm")
    assert first.pid == 100
    assert sorted(a.node for a in cluster.actors) == ["n0", "n1", "n2", "n3"]
    assert all(a.calls[0][0] == "prepare" for a in cluster.actors), "all at once, and early"
    begin(launcher, tmp_path, 1, how="warm")
    assert len(cluster.actors) == 4
    end(first)
    launcher.reap(first)
    assert not first.handle.actor.killed, "the fork server goes on"


def test_a_fork_server_that_is_gone_is_a_fault_of_the_harness(
    launcher: ray.Ray, cluster: FakeCluster, tmp_path: Path
) -> None:
    begin(launcher, tmp_path, 0, how="warm")
    next(a for a in cluster.actors if a.node == "n2").killed = True
    with pytest.raises(HarnessError, match=r"no worker on node n2: RuntimeError: the actor died$"):
        begin(launcher, tmp_path, 1, how="warm")


def test_a_lost_node_takes_its_worker_and_the_next_one_is_elsewhere(
    launcher: ray.Ray, cluster: FakeCluster, tmp_path: Path
) -> None:
    assert isinstance(launcher, Hosts)
    assert launcher.host(0) == "10.0.0.1"
    processes = [begin(launcher, tmp_path, slot) for slot in (0, 1)]
    assert launcher.beside(processes[1]) == [1]
    assert launcher.lose_node(processes[1]) == "n2"
    assert cluster.actors[1].calls[-1] == ("lose_node", ())
    launcher.lost(1)
    begin(launcher, tmp_path, 1, 1)
    assert cluster.actors[-1].node == "n3"


def test_the_supervisors_own_node_is_not_lost(cluster: FakeCluster, tmp_path: Path) -> None:
    cluster.alive = NODES[:2]
    site = site_on(cluster)
    site.check(wanted(2, at=tmp_path))
    launcher = ray.Ray(site, {}, tmp_path / "forks.log")
    process = begin(launcher, tmp_path, 0)
    with pytest.raises(HarnessError, match="the supervisor's own"):
        launcher.lose_node(process)
    launcher.close()


def test_before_a_job_lost_nodes_are_made_up_for(
    launcher: ray.Ray, cluster: FakeCluster, tmp_path: Path
) -> None:
    process = begin(launcher, tmp_path, 0)
    launcher.lose_node(process)
    end(process, error=ConnectionError("gone"))
    launcher.reap(process)
    assert len(cluster.held) == 1, "in the middle of a job nothing is reserved"
    launcher.announce(ADDRESS, 2)
    begin(launcher, tmp_path, 0)
    assert [nodes for _, nodes in cluster.held][-1] == ["n2", "n3", "n0"], "n1 is known as lost"


def test_too_few_nodes_that_are_left_end_the_run_until_some_come_back(
    launcher: ray.Ray, cluster: FakeCluster, tmp_path: Path
) -> None:
    cluster.alive = NODES[:1]
    for _ in range(2):
        with pytest.raises(NothingLeft, match=r"nodes were lost: .* 2 nodes for 2 workers"):
            begin(launcher, tmp_path, 0)
    cluster.alive = [NODES[0], node("n9")]
    begin(launcher, tmp_path, 0)
    assert [nodes for _, nodes in cluster.held][-1] == ["n0", "n9"]


def test_everything_ends_with_the_launcher(
    launcher: ray.Ray, cluster: FakeCluster, tmp_path: Path
) -> None:
    before = len(os.listdir("/proc/self/fd"))
    begin(launcher, tmp_path, 0, how="warm")
    cold = begin(launcher, tmp_path, 1)
    launcher.close()
    assert all(actor.killed for actor in cluster.actors)
    end(cold, error=ConnectionError("late"))
    assert len(os.listdir("/proc/self/fd")) == before
    assert cluster.closed == 0, "another launcher may be opened on it"


def test_an_actor_with_accelerators_is_inside_of_what_is_reserved(tmp_path: Path) -> None:
    cluster = FakeCluster([node(f"n{i}", GPU=8.0) for i in range(3)])
    site = site_on(cluster)
    site.check(wanted(2, platform="gpu", at=tmp_path))
    launcher = ray.Ray(site, {}, tmp_path / "forks.log")
    begin(launcher, tmp_path, 0)
    [actor] = cluster.actors
    assert (actor.node, actor.bundle, actor.resources) == ("n1", 0, {"CPU": 1.0, "GPU": 8.0})
    launcher.close()


def test_its_address_keeps_off_a_proxy(launcher: ray.Ray) -> None:
    near = launcher.environment["no_grpc_proxy"].split(",")
    assert {"127.0.0.1", "10.0.0.0", "10.0.0.1", "10.0.0.3"} <= set(near)
    assert launcher.bind == "10.0.0.0"
    assert launcher.reach == ray.REACH == "network"


@given(said=st.text(max_size=400))
def test_what_ray_says_is_one_line(said: str) -> None:
    assert "\n" not in first_line(RuntimeError(said))


def test_an_end_is_reported_once_and_after_closing_not_at_all(tmp_path: Path) -> None:
    handle = Handle(Actor("n1", None, {}, ()), "n1", "k", 0, 0, own=True, log=tmp_path / "log")
    process = RayProcess(handle, "cold", tmp_path / "log")
    assert (process.pid, process.how, process.fd) == (0, "cold", handle.read)
    handle.started(0, None)
    assert process.pid == 0
    handle.over((0, None), None)
    handle.started(None, RuntimeError("later"))
    handle.over(None, RuntimeError("later"))
    assert os.read(process.fd, 10) == b"."
    assert handle.ended == Ended(0, None)
    handle.close()
    with pytest.raises(OSError):
        os.fstat(process.fd)


def test_every_job_begins_on_the_same_nodes(
    launcher: ray.Ray, cluster: FakeCluster, tmp_path: Path
) -> None:
    """Also where the one before it ended elsewhere: so each victim's node is the same, too."""
    for _ in range(3):
        launcher.announce(ADDRESS, 2)
        assert launcher.host(0) == "10.0.0.1"
        first, second = (begin(launcher, tmp_path, slot) for slot in (0, 1))
        assert (first.handle.node, second.handle.node) == ("n1", "n2")
        launcher.lost(1)
        end(second)
        launcher.reap(second)
        again = begin(launcher, tmp_path, 1, 1)
        assert again.handle.node == "n3"
        for process in (first, again):
            end(process)
            launcher.reap(process)
    assert len(cluster.held) == 1


def test_where_all_end_at_once_an_address_that_was_given_out_holds(
    launcher: ray.Ray, cluster: FakeCluster, tmp_path: Path
) -> None:
    """A node is lost, every worker ended, and the next rank 0 is where it was said to be."""
    launcher.announce(ADDRESS, 2)
    processes = [begin(launcher, tmp_path, slot) for slot in (0, 1)]
    launcher.lose_node(processes[1])
    launcher.lost(1)
    for process in processes:
        end(process)
        launcher.reap(process)
    said = launcher.host(0)
    again = [begin(launcher, tmp_path, slot, 1) for slot in (0, 1)]
    assert (said, [process.handle.node for process in again]) == ("10.0.0.1", ["n1", "n3"])


def test_what_an_actor_cannot_start_has_ended(
    launcher: ray.Ray, cluster: FakeCluster, tmp_path: Path
) -> None:
    """Nobody waits for a worker that will never call."""
    log, process = tmp_path / "0.0.log", begin(launcher, tmp_path, 0)
    [actor] = cluster.actors
    key = actor.calls[0][1][0]
    actor.waiting[f"start {key}"](None, RuntimeError("no such module"))
    assert ready(process)
    assert launcher.reap(process) == Ended(None, "SIGKILL", seen=False)
    assert log.read_text() == "error: lost with its actor: RuntimeError: no such module\n"


def test_who_came_in_anothers_place_keeps_it_when_that_ones_end_is_seen(
    launcher: ray.Ray, cluster: FakeCluster, tmp_path: Path
) -> None:
    processes = [begin(launcher, tmp_path, slot, n) for slot, n in ((0, 0), (1, 0), (1, 1))]
    end(processes[1])
    launcher.reap(processes[1])
    assert begin(launcher, tmp_path, 2).handle.node != processes[2].handle.node
