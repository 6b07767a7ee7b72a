"""The Ray launcher without Ray: who sits where, what is asked of a cluster, and what comes back."""

from __future__ import annotations

import asyncio
import importlib
import os
import select
import signal
import socket
import sys
from collections.abc import Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recoverybench import capabilities
from recoverybench.cells import Cell
from recoverybench.doctor import clusters
from recoverybench.errors import HarnessError, UsageError
from recoverybench.job import services
from recoverybench.launchers import _ray_cluster, _ray_nodes, _ray_site, _ray_tpu, ray
from recoverybench.launchers._ray_handle import Handle, RayProcess, first_line
from recoverybench.launchers._ray_host import Host, descendants
from recoverybench.launchers._ray_nodes import Seats, alive, bundle_count, in_order
from recoverybench.launchers._ray_variables import carried, without_ray
from recoverybench.launchers.base import Ended, Hosts, Wanted
from recoverybench.plan import launchers
from recoverybench.plan.support import Judge, missing_capability
from tests.ray_fake import Actor, FakeCluster, node, tpu_host

NODES = [node(f"n{index}") for index in range(4)]


def wanted(workers: int = 2, *, platform: str = "cpu", lost: bool = False, at: Path) -> Wanted:
    return Wanted(workers, platform, lost, (at,), ())


# Seats


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
    count = bundle_count(workers, usable, pack=False)
    assert count == min(workers + _ray_nodes.SPARE, usable)
    assert bundle_count(workers, usable, pack=True) == workers


def test_only_living_nodes_count() -> None:
    said = [
        {"NodeID": "a", "NodeManagerAddress": "1.2.3.4", "Alive": True, "Resources": {"CPU": 2.0}},
        {"NodeID": "b", "NodeManagerAddress": "1.2.3.5", "Alive": False, "Resources": {}},
        {"NodeID": "c", "NodeManagerAddress": "1.2.3.6", "Alive": True, "Resources": None},
    ]
    assert [each.id for each in alive(said)] == ["a", "c"]
    assert alive(said)[0].resources == {"CPU": 2.0}


# TPU hosts


SLICES = [tpu_host(name, place) for name in ("s1", "s0") for place in (1, 0)]


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


# Variables


variables = st.dictionaries(
    st.sampled_from(
        [
            *("PATH", "HOME", "RAY_JOB_ID", "RAY_ADDRESS", "OMP_NUM_THREADS", "PYTHONBREAKPOINT"),
            *("JAX_PLATFORMS", "XLA_FLAGS", "RECOVERYBENCH_SECRET", "RECOVERYBENCH_OWNER"),
        ]
    ),
    st.sampled_from(["a", "b"]),
)


@given(environment=variables)
def test_nothing_of_ray_is_left_and_everything_else_is(environment: dict[str, str]) -> None:
    found = without_ray(environment)
    gone = environment.keys() - found.keys()
    assert all(n.startswith("RAY_") or n in ("OMP_NUM_THREADS", "PYTHONBREAKPOINT") for n in gone)
    assert not any(n.startswith("RAY_") for n in found)


@given(here=variables, more=variables)
def test_what_goes_along_is_what_was_set_for_workers(
    here: dict[str, str], more: dict[str, str]
) -> None:
    found = carried({**here, **more}, here)
    assert "RECOVERYBENCH_OWNER" not in found, "it belongs to one machine"
    for name, value in {**here, **more}.items():
        if name == "RECOVERYBENCH_OWNER":
            continue
        ours = name.startswith(("JAX_", "XLA_", "RECOVERYBENCH_"))
        assert (name in found) == (ours or here.get(name) != value), name


# The cluster is asked


def test_a_site_holds_nodes_and_looks_at_each(tmp_path: Path) -> None:
    cluster = FakeCluster(NODES)
    site = _ray_site.Site(cluster, pack=False)  # type: ignore[arg-type]
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
    site = _ray_site.Site(FakeCluster(nodes), pack=False)  # type: ignore[arg-type]
    with pytest.raises(UsageError) as error:
        site.check(wanted(**arguments, at=tmp_path))
    assert said in str(error.value)
    assert "\n" not in str(error.value)


def test_packed_workers_need_cores_and_not_nodes(tmp_path: Path) -> None:
    cluster = FakeCluster(NODES[:2])
    site = _ray_site.Site(cluster, pack=True)  # type: ignore[arg-type]
    site.check(wanted(5, at=tmp_path))
    assert cluster.held == [([{"CPU": 1.0}] * 5, None)]
    assert {site.seats.sit(slot) for slot in range(5)} == {"n0", "n1"}


def test_a_node_that_ray_does_not_miss_yet_is_not_waited_for(tmp_path: Path) -> None:
    """The first try finds no room, as one of the nodes is dead; the second one is without it."""

    class Late(FakeCluster):
        def reserve(self, bundles: Any, nodes: Any) -> list[str] | None:
            found = super().reserve(bundles, nodes)
            self.alive = self.alive[:-1]
            return found

    cluster = Late(NODES)
    cluster.full = 1
    _ray_site.Site(cluster, pack=False).check(wanted(2, at=tmp_path))  # type: ignore[arg-type]
    assert [nodes for _, nodes in cluster.held] == [["n1", "n2", "n3", "n0"], ["n1", "n2", "n0"]]


def test_a_cluster_in_use_is_refused(tmp_path: Path) -> None:
    cluster = FakeCluster(NODES)
    cluster.full = 2
    with pytest.raises(UsageError, match="room for 1 CPU on each of them, and other work has it"):
        _ray_site.Site(cluster, pack=False).check(wanted(2, at=tmp_path))  # type: ignore[arg-type]


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
        _ray_site.Site(cluster, pack=False).check(wanted(2, at=tmp_path))  # type: ignore[arg-type]
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


# The launcher


@pytest.fixture
def cluster() -> FakeCluster:
    return FakeCluster(NODES)


@pytest.fixture
def launcher(cluster: FakeCluster, tmp_path: Path) -> Iterator[ray.Ray]:
    site = _ray_site.Site(cluster, pack=False)  # type: ignore[arg-type]
    site.check(wanted(2, at=tmp_path))
    made = ray.Ray(site, {"JAX_PLATFORMS": "cpu"}, tmp_path / "forks.log")
    yield made
    if site.users:
        made.close()


def ready(process: Any) -> bool:
    return bool(select.select([process.fd], [], [], 0)[0])


def test_a_cold_worker_is_the_child_of_an_actor_of_its_own(
    launcher: ray.Ray, cluster: FakeCluster, tmp_path: Path
) -> None:
    processes = [
        launcher.start("tcp://10.0.0.0:1", slot, 0, "cold", tmp_path / f"{slot}.0.log")
        for slot in (0, 1)
    ]
    assert [actor.node for actor in cluster.actors] == ["n1", "n2"]
    actor = cluster.actors[1]
    [(method, request), (then, (key,))] = actor.calls
    assert (method, then, request[0]) == ("start", "ended", key)
    assert request[1:6] == ("tcp://10.0.0.0:1", 1, 0, "cold", str(tmp_path / "1.0.log"))
    assert request[6]["JAX_PLATFORMS"] == "cpu"
    assert actor.arguments[2] is None, "the node's own interpreter"
    assert processes[1].pid == 0
    actor.waiting[f"start {key}"](4711, None)
    assert processes[1].pid == 4711
    assert not ready(processes[1])
    assert launcher.reap(processes[1]) is None
    actor.waiting[f"ended {key}"]((7, None), None)
    assert ready(processes[1])
    assert launcher.reap(processes[1]) == Ended(7, None)
    assert actor.killed, "its actor has nothing more to do"


def test_who_is_lost_with_its_actor_has_been_killed_and_its_log_says_why(
    launcher: ray.Ray, cluster: FakeCluster, tmp_path: Path
) -> None:
    log = tmp_path / "0.0.log"
    process = launcher.start("tcp://10.0.0.0:1", 0, 0, "cold", log)
    [actor] = cluster.actors
    key = actor.calls[0][1][0]
    actor.waiting[f"ended {key}"](None, ConnectionError("node gone"))
    assert launcher.reap(process) == Ended(None, "SIGKILL")
    assert log.read_text() == "error: lost with its actor: ConnectionError: node gone\n"


def test_an_end_that_we_brought_about_is_no_error(
    launcher: ray.Ray, cluster: FakeCluster, tmp_path: Path
) -> None:
    log = tmp_path / "0.0.log"
    process = launcher.start("tcp://10.0.0.0:1", 0, 0, "cold", log)
    [actor] = cluster.actors
    key = actor.calls[0][1][0]
    launcher.signal(process, signal.SIGKILL)
    assert actor.calls[-1] == ("signal", (key, 9))
    actor.waiting[f"ended {key}"](None, ConnectionError("gone"))
    actor.waiting[f"ended {key}"]((None, "SIGKILL"), None)
    assert launcher.reap(process) == Ended(None, "SIGKILL")
    assert not log.exists()
    calls = list(actor.calls)
    launcher.signal(process, signal.SIGTERM)
    assert actor.calls == calls, "nobody is there any more"


def test_warm_workers_come_from_one_fork_server_a_node(
    launcher: ray.Ray, cluster: FakeCluster, tmp_path: Path
) -> None:
    first = launcher.start("tcp://10.0.0.0:1", 0, 0, "warm", tmp_path / "0.0.log")
    assert first.pid == 100
    assert sorted(a.node for a in cluster.actors) == ["n0", "n1", "n2", "n3"]
    assert all(a.calls[0][0] == "prepare" for a in cluster.actors), "all at once, and early"
    launcher.start("tcp://10.0.0.0:1", 1, 0, "warm", tmp_path / "1.0.log")
    assert len(cluster.actors) == 4
    actor = cluster.actors[0]
    key = next(arguments[0] for method, arguments in actor.calls if method == "ended")
    actor.waiting[f"ended {key}"]((None, "SIGKILL"), None)
    launcher.reap(first)
    assert not actor.killed, "the fork server goes on"


def test_a_fork_server_that_is_gone_is_a_fault_of_the_harness(
    launcher: ray.Ray, cluster: FakeCluster, tmp_path: Path
) -> None:
    launcher.start("tcp://10.0.0.0:1", 0, 0, "warm", tmp_path / "0.0.log")
    next(a for a in cluster.actors if a.node == "n2").killed = True
    with pytest.raises(HarnessError, match=r"no worker on node n2: RuntimeError: the actor died$"):
        launcher.start("tcp://10.0.0.0:1", 1, 0, "warm", tmp_path / "1.0.log")


def test_a_lost_node_takes_its_worker_and_the_next_one_is_elsewhere(
    launcher: ray.Ray, cluster: FakeCluster, tmp_path: Path
) -> None:
    assert isinstance(launcher, Hosts)
    assert launcher.host(0) == "10.0.0.1"
    processes = [
        launcher.start("tcp://10.0.0.0:1", slot, 0, "cold", tmp_path / f"{slot}.0.log")
        for slot in (0, 1)
    ]
    assert launcher.beside(processes[1]) == [1]
    assert launcher.lose_node(processes[1]) == "n2"
    assert cluster.actors[1].calls[-1] == ("lose_node", ())
    launcher.lost(1)
    launcher.start("tcp://10.0.0.0:1", 1, 1, "cold", tmp_path / "1.1.log")
    assert cluster.actors[-1].node == "n3"


def test_the_supervisors_own_node_is_not_lost(cluster: FakeCluster, tmp_path: Path) -> None:
    cluster.alive = NODES[:2]
    site = _ray_site.Site(cluster, pack=False)  # type: ignore[arg-type]
    site.check(wanted(2, at=tmp_path))
    launcher = ray.Ray(site, {}, tmp_path / "forks.log")
    process = launcher.start("tcp://10.0.0.0:1", 0, 0, "cold", tmp_path / "0.0.log")
    with pytest.raises(HarnessError, match="the supervisor's own"):
        launcher.lose_node(process)
    launcher.close()


def test_before_a_job_lost_nodes_are_made_up_for(
    launcher: ray.Ray, cluster: FakeCluster, tmp_path: Path
) -> None:
    process = launcher.start("tcp://10.0.0.0:1", 0, 0, "cold", tmp_path / "0.0.log")
    launcher.lose_node(process)
    actor = cluster.actors[0]
    actor.waiting[f"ended {actor.calls[0][1][0]}"](None, ConnectionError("gone"))
    launcher.reap(process)
    launcher.start("tcp://10.0.0.0:1", 0, 0, "cold", tmp_path / "0.0.log")
    assert [nodes for _, nodes in cluster.held][-1] == ["n2", "n3", "n0"], "n1 is known as lost"
    launcher.close()
    assert cluster.closed == 1


def test_too_few_nodes_that_are_left_are_a_fault_of_the_harness(
    launcher: ray.Ray, cluster: FakeCluster, tmp_path: Path
) -> None:
    cluster.alive = NODES[:1]
    with pytest.raises(HarnessError, match=r"nodes were lost: .* 2 nodes for 2 workers"):
        launcher.start("tcp://10.0.0.0:1", 0, 0, "cold", tmp_path / "0.0.log")


def test_everything_ends_with_the_launcher(
    launcher: ray.Ray, cluster: FakeCluster, tmp_path: Path
) -> None:
    before = len(os.listdir("/proc/self/fd"))
    launcher.start("tcp://10.0.0.0:1", 0, 0, "warm", tmp_path / "0.0.log")
    launcher.start("tcp://10.0.0.0:1", 1, 0, "cold", tmp_path / "1.0.log")
    cold = cluster.actors[-1]
    launcher.close()
    assert all(actor.killed for actor in cluster.actors)
    cold.waiting[f"ended {cold.calls[0][1][0]}"](None, ConnectionError("late"))
    assert len(os.listdir("/proc/self/fd")) == before
    assert cluster.closed == 1


def test_an_actor_with_accelerators_is_inside_of_what_is_reserved(tmp_path: Path) -> None:
    cluster = FakeCluster([node(f"n{i}", GPU=8.0) for i in range(3)])
    site = _ray_site.Site(cluster, pack=False)  # type: ignore[arg-type]
    site.check(wanted(2, platform="gpu", at=tmp_path))
    launcher = ray.Ray(site, {}, tmp_path / "forks.log")
    launcher.start("tcp://10.0.0.0:1", 0, 0, "cold", tmp_path / "0.0.log")
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
    handle = Handle(Actor("n1", None, {}, ()), "n1", "k", 0, own=True, log=tmp_path / "log")
    process = RayProcess(handle, "cold", tmp_path / "log")
    assert (process.pid, process.how, process.fd) == (0, "cold", handle.read)
    handle.started(None, RuntimeError("no"))
    assert process.pid == 0
    handle.over((0, None), None)
    handle.over(None, RuntimeError("later"))
    assert os.read(process.fd, 10) == b"."
    assert handle.ended == Ended(0, None)
    handle.close()
    with pytest.raises(OSError):
        os.fstat(process.fd)


# On a node


SLEEP = "import sys, time; time.sleep(60)"


def sleeper(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have it start something that sleeps, in the place of a worker."""
    import subprocess

    def start(address: str, *_: Any, **__: Any) -> int:
        child = subprocess.Popen([sys.executable, "-c", address])
        child.returncode = 0
        return child.pid

    monkeypatch.setattr(host._local, "_exec", start)


def in_a_loop(coroutine: Coroutine[Any, Any, Any]) -> Any:
    """In a thread of its own: an open browser keeps a loop running in this one."""
    with ThreadPoolExecutor(1) as threads:
        return threads.submit(asyncio.run, coroutine).result()


@pytest.mark.parametrize(
    ("program", "number", "said"),
    [
        (SLEEP, signal.SIGKILL, (None, "SIGKILL")),
        ("raise SystemExit(3)", None, (3, None)),
    ],
)
def test_a_host_says_how_its_worker_ended(
    program: str, number: int | None, said: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    host = Host({}, str(tmp_path / "forks.log"), None)
    sleeper(host, monkeypatch)

    async def live() -> Any:
        # Ray brings calls in any order.
        end = asyncio.ensure_future(host.ended("k"))
        if number is not None:
            await host.signal("k", number)
        await asyncio.sleep(0)
        pid = await host.start("k", program, 0, 0, "cold", str(tmp_path / "log"), {})
        assert pid > 0
        found = await end
        await host.signal("k", signal.SIGKILL)
        return found

    assert in_a_loop(live()) == said


def test_a_worker_that_cannot_be_started_has_ended_and_its_log_says_why(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    host = Host({}, str(tmp_path / "forks.log"), None)

    def fail(*_: Any, **__: Any) -> int:
        raise HarnessError("the fork server has ended")

    monkeypatch.setattr(host._local, "start", fail)

    async def live() -> Any:
        assert await host.start("k", "x", 0, 0, "warm", str(tmp_path / "log"), {}) == 0
        return await host.ended("k")

    assert in_a_loop(live()) == (1, None)
    assert (tmp_path / "log").read_text() == "error: the fork server has ended\n"


def test_a_workers_variables_are_the_nodes_without_rays(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("RAY_JOB_ID", "01000000")
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    monkeypatch.setenv("OF_THE_NODE", "1")
    host = Host({"OMP_NUM_THREADS": "1"}, str(tmp_path / "forks.log"), None)
    found = host._local.environment
    assert (found["OMP_NUM_THREADS"], found["OF_THE_NODE"]) == ("1", "1")
    assert "RAY_JOB_ID" not in found
    assert found["RECOVERYBENCH_OWNER"].startswith(f"{os.getpid()}-"), "the actor is its parent"


@given(st.dictionaries(st.integers(2, 40), st.integers(1, 40), max_size=30))
def test_whoever_is_below_is_found_and_nobody_else(drawn: dict[int, int]) -> None:
    parents = {pid: parent for pid, parent in drawn.items() if parent < pid}
    found = descendants(1, parents)

    def is_below(pid: int) -> bool:
        return parents.get(pid) == 1 or (pid in parents and is_below(parents[pid]))

    assert sorted(found) == sorted(pid for pid in parents if is_below(pid))
    places = {pid: place for place, pid in enumerate(found)}
    assert all(places[p] > places[c] for c, p in parents.items() if c in places and p in places)


# Bad input


def test_without_ray_the_install_line_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    with pytest.raises(UsageError) as error:
        _ray_cluster.connect()
    assert (
        str(error.value) == "--launcher ray needs the package ray: pip install 'recoverybench[ray]'"
    )


def test_an_address_where_nobody_answers_is_refused_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        monkeypatch.setenv("RAY_ADDRESS", address)
        with pytest.raises(UsageError) as error:
            _ray_cluster.connect()
    assert f"= '{address}': no Ray cluster answers there" in str(error.value)
    assert "ray start --head" in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("address", ["ray://there:10001", "local://"])
def test_a_client_address_is_refused(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_ADDRESS", address)
    with pytest.raises(UsageError, match="expected HOST:PORT, or auto"):
        _ray_cluster.connect()


def test_another_argument_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--launcher = 'ray:spread': expected 'ray' or 'ray:pack'"):
        ray.check("spread", wanted(at=tmp_path))
    with pytest.raises(UsageError, match="expected its check"):
        ray.create({}, tmp_path / "log")
    with pytest.raises(UsageError, match="'local' without an argument"):
        launchers.load("local:pack")
    with pytest.raises(UsageError, match="--launcher = 'rey': did you mean 'ray'"):
        launchers.load("rey")


def test_a_failed_check_leaves_no_connection(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    cluster = FakeCluster(NODES[:1])
    monkeypatch.setattr(_ray_cluster, "connect", lambda: cluster)
    with pytest.raises(UsageError, match="2 nodes for 2 workers"):
        ray.check(None, wanted(2, at=tmp_path))
    assert cluster.closed == 1
    cluster.alive = NODES
    ray.check(None, wanted(2, at=tmp_path))
    ray.create({}, tmp_path / "log", argument=None).close()
    assert cluster.closed == 2
    assert ray._site is None


# What cannot be measured with it


CELL = Cell(
    workload="mlp:tiny",
    topology="3x1",
    strategy="elastic",
    state_source="storage",
    fault="kill",
    trigger="step:25",
    interval=10,
    victim=None,
    heartbeat_s=10.0,
    watchdog_s=5.0,
    coordinator="worker0",
    compile_cache="executable",
)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({}, None),
        ({"fault": "kill-node"}, None),
        ({"fault": "oom:rlimit"}, None),
        ({"fault": "oom"}, "limits a process of this machine"),
        ({"fault": "partition"}, "needs network-namespaces: with launcher ray the network is"),
        ({"fault": "disk-full"}, "needs user-notification: with launcher ray file operations"),
        ({"trigger": "save:3"}, "needs user-notification: with launcher ray file operations"),
        ({"state_source": "local"}, "local is a node's own disk"),
        ({"page_cache": "cold"}, "this machine's memory"),
    ],
)
@pytest.mark.parametrize("launcher_name", ["ray", "ray:pack"])
def test_what_ray_cannot_do_is_said_of_the_cell(
    changes: dict[str, Any], said: str | None, launcher_name: str
) -> None:
    import dataclasses

    reason = Judge(launcher_name).unsupported(dataclasses.replace(CELL, **changes))
    assert reason is None if said is None else said in str(reason)


def test_a_node_is_lost_only_where_there_are_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "launcher local has one node" in str(missing_capability("faults", "kill-node"))
    assert missing_capability("faults", "kill-node", "ray") is None
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    said = "launcher ray needs ray: it is not installed: pip install 'recoverybench[ray]'"
    assert missing_capability("launchers", "ray") == said
    assert capabilities.MISSING["ray"]() is not None


# Doctor


def test_doctor_says_whether_ray_is_here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from importlib import metadata

    monkeypatch.setattr(metadata, "version", lambda name: "2.60.0")
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    monkeypatch.setenv("RAY_TMPDIR", str(tmp_path))
    assert clusters.ray("ray").found == "2.60.0, no cluster runs here"
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{listener.getsockname()[1]}"
        (tmp_path / "ray").mkdir()
        (tmp_path / "ray" / "ray_current_cluster").write_text(address)
        assert clusters.ray("ray").found == f"2.60.0, no cluster answers at {address}"
        listener.listen()
        assert clusters.ray("ray").found == f"2.60.0, a cluster answers at {address}"
    monkeypatch.setenv("RAY_ADDRESS", "nonsense")
    assert "RAY_ADDRESS = 'nonsense' is no HOST:PORT" in clusters.ray("ray").found

    def absent(name: str) -> str:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "version", absent)
    check = clusters.ray("ray")
    assert (check.status, check.needed) == ("missing", False)
    assert check.advice == "pip install 'recoverybench[ray]'"
