"""What is refused of a run on a Ray cluster, and what `doctor` says of Ray."""

from __future__ import annotations

import dataclasses
import importlib
import socket
import sys
from pathlib import Path
from typing import Any

import pytest

from recoverybench import capabilities, cli
from recoverybench.cells import Cell
from recoverybench.doctor import clusters
from recoverybench.errors import UsageError
from recoverybench.launchers import _ray_cluster, ray
from recoverybench.plan import launchers
from recoverybench.plan.support import Judge, missing_capability
from tests.ray_fake import NODES, FakeCluster, wanted


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
    ray.create({}, tmp_path / "log", argument=None).close()
    assert cluster.closed == 1, "launchers of several environments come one after another"
    ray.leave()
    ray.leave()
    assert cluster.closed == 2
    with pytest.raises(UsageError, match="expected its check"):
        ray.create({}, tmp_path / "log")


def test_a_run_that_was_refused_after_its_check_is_in_nobodys_way(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    clusters = [FakeCluster(NODES), FakeCluster(NODES)]
    left = iter(clusters)
    monkeypatch.setattr(_ray_cluster, "connect", lambda: next(left))
    ray.check(None, wanted(2, at=tmp_path))
    ray.check(None, wanted(2, at=tmp_path))
    assert [cluster.closed for cluster in clusters] == [1, 0], "a process has one connection"
    ray.leave()


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

    reason = Judge(launcher_name).unsupported(dataclasses.replace(CELL, **changes))
    assert reason is None if said is None else said in str(reason)


def test_a_node_is_lost_only_where_there_are_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "launcher local has one node" in str(missing_capability("faults", "kill-node"))
    assert missing_capability("faults", "kill-node", "ray") is None
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    said = "launcher ray needs ray: it is not installed: pip install 'recoverybench[ray]'"
    assert missing_capability("launchers", "ray") == said
    assert capabilities.MISSING["ray"]() is not None


def test_doctor_says_whether_ray_is_here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from importlib import metadata

    monkeypatch.setattr(metadata, "version", lambda name: "2.60.0")
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    monkeypatch.setenv("RAY_TMPDIR", str(tmp_path))
    assert clusters.ray("ray").found == f"2.60.0, {clusters._NOBODY}"
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


def test_the_address_of_a_cluster_is_nothing_without_its_launcher(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main(["run", "quick", "--ray-address", "127.0.0.1:6379"])
    assert ended.value.code == 2
    assert "expected --launcher ray beside it (it is local)" in capsys.readouterr().err
