"""What is found before a run on a cluster begins, each in one line; and the dry run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import recoverybench
from recoverybench import cli
from recoverybench.errors import UsageError
from recoverybench.launchers import kubernetes
from recoverybench.launchers._kubernetes import manifests, preflight
from recoverybench.launchers._kubernetes.api import Connection
from recoverybench.launchers.base import Wanted
from recoverybench.plan.suite import Overrides, load_suite
from tests.kubernetes_api import Cluster, serving

urllib3: Any = pytest.importorskip("urllib3")
pytest.importorskip("kubernetes_validate")

TPU = {"accelerator": "tpu-v6e-slice", "topology": "4x4", "chips": 4}
NODES = "/api/v1/nodes"
CLAIMS = "/api/v1/namespaces/bench/persistentvolumeclaims"


class Bench:
    """A cluster in which a run can begin, a file that names it, and what it is asked."""

    def __init__(self, server: Cluster, path: Path) -> None:
        self.server, self.path = server, path
        self.file = path / "kubernetes.toml"
        self.write()
        self.version = recoverybench.__version__
        self.claim(["ReadWriteMany"])
        self.node("node-1")
        server.on_pod = self.answer

    def write(self, **changes: Any) -> None:
        table = {
            "image": "registry/bench:1",
            "namespace": "bench",
            "volume": "shared",
            "mount": str(self.path),
            "supervisor_address": "127.0.0.1",
            **changes,
        }
        self.file.write_text("\n".join(f"{k} = {v!r}" for k, v in table.items()), encoding="utf-8")

    def claim(self, modes: list[str]) -> None:
        spec = {"accessModes": modes}
        item = {"kind": "PersistentVolumeClaim", "metadata": {"name": "shared"}, "spec": spec}
        self.server.add(CLAIMS, item)

    def node(self, name: str, chips: int = 0, ready: bool = True, open_: bool = True) -> None:
        labels = {manifests.ACCELERATOR: "tpu-v6e-slice", manifests.TOPOLOGY: "4x4"}
        status = {
            "conditions": [{"type": "Ready", "status": "True" if ready else "False"}],
            "allocatable": {manifests.CHIPS: str(chips)},
        }
        spec = {} if open_ else {"unschedulable": True}
        metadata = {"name": name, "labels": labels}
        item = {"kind": "Node", "metadata": metadata, "spec": spec, "status": status}
        self.server.add(NODES, item)

    def answer(self, pod: dict[str, Any]) -> None:
        """What a healthy pod of the image says."""
        file = Path(pod["spec"]["containers"][0]["command"][-1])
        said = f"{preflight.MARK}{self.version} | {file.read_text(encoding='utf-8')}"
        self.server.end(pod["metadata"]["name"], 0, reason="Completed", message=said)

    def check(self, workers: int = 3, platform: str = "cpu", *faults: str) -> None:
        wanted = Wanted(workers, platform, False, (self.path,), (), frozenset(faults))
        kubernetes.check(str(self.file), wanted)


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    with serving() as (server, url):
        connection = Connection(url, urllib3.PoolManager(), dict)
        monkeypatch.setattr(kubernetes, "connect", lambda context: (connection, None))
        yield Bench(server, tmp_path)
        assert server.invalid == []


def test_a_cluster_that_has_everything(bench: Bench) -> None:
    bench.node("node-2")
    bench.check(3, "cpu", "kill", "evict:node")
    assert bench.server.names("pods") == [], "the probe is gone"
    assert list(bench.path.glob(".recoverybench-*")) == []


def test_a_cluster_of_tpus(bench: Bench) -> None:
    bench.write(**TPU)
    for number in range(4):
        bench.node(f"tpu-{number}", chips=4)
    bench.check(4, "tpu")


def refusals() -> list[tuple[str, Callable[[Bench], object], str]]:
    """Name, what is wrong, and what is said."""

    def tpus(bench: Bench) -> None:
        bench.write(**TPU)
        bench.node("a", chips=4)
        bench.node("b", chips=4, ready=False)
        bench.node("c", chips=4, open_=False)
        bench.node("d", chips=1)

    def reclaim(bench: Bench) -> None:
        bench.server.remove("persistentvolumeclaims", "shared")

    def single(bench: Bench) -> None:
        reclaim(bench)
        bench.claim(["ReadWriteOnce"])

    def closed(bench: Bench) -> None:
        bench.server.remove("nodes", "node-1")
        bench.node("node-1", open_=False)

    def says(text: str) -> Callable[[Bench], object]:
        def change(bench: Bench) -> None:
            bench.server.on_pod = lambda pod: bench.server.end(
                pod["metadata"]["name"], 0, reason="Completed", message=text
            )

        return change

    def waits(reason: str) -> Callable[[Bench], object]:
        def change(bench: Bench) -> None:
            state = {"waiting": {"reason": reason, "message": "not found"}}
            bench.server.on_pod = lambda pod: bench.server.status(
                pod["metadata"]["name"],
                phase="Pending",
                containerStatuses=[{"name": "worker", "state": state}],
            )

        return change

    mark = preflight.MARK
    return [
        (
            "unreachable",
            lambda b: b.server.next("GET", "/version", lambda h: h.refuse(403, "F", "no")),
            r"the cluster cannot be reached: http://127\.0\.0\.1:\d+: GET /version: HTTP 403: no",
        ),
        (
            "may not create pods",
            lambda b: b.server.denied.add("create pods"),
            r"namespace = 'bench': expected a namespace in which we may create pods",
        ),
        (
            "may not create sets",
            lambda b: b.server.denied.add("create jobsets"),
            r"namespace in which we may create jobsets of jobset\.x-k8s\.io",
        ),
        (
            "may not exec",
            lambda b: b.server.denied.add("create pods/exec"),
            r"namespace in which we may create pods/exec",
        ),
        (
            "no JobSet",
            lambda b: setattr(b.server, "has_jobset", False),
            r"expected a cluster with JobSet \(jobset\.x-k8s\.io/v1alpha2\), and .* does not know",
        ),
        (
            "no claim",
            reclaim,
            r"volume = 'shared': expected a persistent volume claim of namespace",
        ),
        ("one node only", single, r"access mode ReadWriteMany, not ReadWriteOnce"),
        ("too few TPUs", tpus, r"at least 4 nodes with 4 google\.com/tpu each .*; there are 1"),
        ("no open node", closed, r"nodes that take pods \(any label\); there are none"),
        (
            "no recoverybench",
            says(f"{mark}none (No module named 'recoverybench') | x"),
            r"image = 'registry/bench:1': .*it has none \(No module named 'recoverybench'\)",
        ),
        (
            "another version",
            says(f"{mark}0.0.1 | x"),
            r"image with recoverybench .*, as here; it has 0\.0\.1",
        ),
        (
            "another volume",
            says(f"{mark}{recoverybench.__version__} | unread (No such file)"),
            r"volume = 'shared': expected the volume that is mounted .*a pod finds unread",
        ),
        (
            "no Python",
            says("sh: python3: not found"),
            r"an image whose python3 runs: sh: python3: not found",
        ),
        ("no image", waits("ImagePullBackOff"), r"an image whose python3 runs: ImagePullBackOff"),
    ]


@pytest.mark.parametrize(
    ("change", "said"), [r[1:] for r in refusals()], ids=[r[0] for r in refusals()]
)
def test_what_a_cluster_lacks(bench: Bench, change: Callable[[Bench], object], said: str) -> None:
    change(bench)
    with pytest.raises(UsageError, match=said) as caught:
        bench.check(4, "tpu" if "accelerator" in bench.file.read_text() else "cpu")
    assert "\n" not in str(caught.value)
    assert caught.value.exit_code == 2
    assert bench.server.names("pods") == [], "whatever it was, the probe is gone"


def test_rights_that_only_some_faults_need(bench: Bench) -> None:
    bench.server.denied |= {"create pods/eviction", "patch nodes"}
    bench.check(3, "cpu", "pod-delete", "kill")
    with pytest.raises(UsageError, match="may create pods/eviction in it"):
        bench.check(3, "cpu", "evict")
    bench.node("node-2")
    bench.server.denied.discard("create pods/eviction")
    bench.check(3, "cpu", "evict")
    with pytest.raises(UsageError, match="may patch nodes in the cluster"):
        bench.check(3, "cpu", "evict:node")


def test_what_is_drained_needs_another_node(bench: Bench) -> None:
    with pytest.raises(UsageError, match=r"one of them for what evict:node drives away; there are"):
        bench.check(3, "cpu", "evict:node")
    bench.node("node-2", open_=False)
    with pytest.raises(UsageError, match=r"there are 1"):
        bench.check(3, "cpu", "evict:node")
    bench.write(**TPU)
    for number in range(9):
        bench.node(f"tpu-{number}", chips=4)
    with pytest.raises(UsageError, match=r"fault = 'evict:node'.* on slices of 4 hosts"):
        bench.check(4, "tpu", "evict:node")
    bench.write(**{**TPU, "topology": "2x2"})
    with pytest.raises(UsageError, match=r"at least 11 nodes with 4 .*; there are 0|are 9"):
        bench.check(10, "tpu", "evict:node")


def test_slices_need_the_right_to_look_at_nodes(bench: Bench) -> None:
    """A replacement has to be on the node pool of its slice: better found now than in a trial."""
    bench.write(**TPU)
    for number in range(4):
        bench.node(f"tpu-{number}", chips=4)
    bench.server.denied.add("get nodes")
    with pytest.raises(UsageError, match="may get nodes in the cluster"):
        bench.check(4, "tpu")
    bench.write()
    bench.check(3, "cpu")


def test_a_probe_that_waits_for_a_node_is_not_waited_for_without_end(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    bench.server.on_pod = lambda pod: bench.server.status(
        pod["metadata"]["name"], phase="Pending", conditions=[condition]
    )
    with pytest.raises(UsageError, match=r"Unschedulable \(waited 0 s\)|its pod did not run"):
        preflight.check_image(kubernetes._cluster(str(bench.file)), limit_s=0.3)


def test_paths_that_the_pods_do_not_see(bench: Bench, tmp_path_factory: Any) -> None:
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    wanted = Wanted(3, "cpu", False, (elsewhere, bench.path), ())
    with pytest.raises(UsageError, match=r"--out = .*elsewhere.*expected a path below"):
        kubernetes.check(str(bench.file), wanted)
    wanted = Wanted(3, "cpu", False, (bench.path, elsewhere), ())
    with pytest.raises(UsageError, match=r"RECOVERYBENCH_CACHE = "):
        kubernetes.check(str(bench.file), wanted)
    bench.write(mount=str(bench.path / "none"))
    with pytest.raises(UsageError, match=r"mount = .*expected a directory of this machine"):
        bench.check()


def test_a_tpu_without_its_platform(bench: Bench) -> None:
    bench.write(**TPU)
    with pytest.raises(UsageError, match=r"JAX_PLATFORMS = 'cpu': expected tpu, since kubernetes"):
        bench.check(4, "cpu")
    with pytest.raises(UsageError, match="multiple of 4"):
        bench.check(3, "tpu")


def test_survivors_on_slices_that_fail_together(bench: Bench) -> None:
    """All pods of a child job have ended: it has failed, the set with it, and JobSet deletes the
    child jobs that are still active.
    """
    bench.write(**{**TPU, "topology": "2x2"})
    for number in range(4):
        bench.node(f"tpu-{number}", chips=4)
    wanted = Wanted(4, "tpu", False, (bench.path,), (), survivors=True)
    with pytest.raises(UsageError, match=r"strategy = 'with survivors, on 4 slices': expected a"):
        kubernetes.check(str(bench.file), wanted)


def test_another_interpreter_is_refused(bench: Bench) -> None:
    with pytest.raises(UsageError, match="what workers run on is the image"):
        kubernetes.create({}, bench.path / "log", "/usr/bin/python3", str(bench.file))


# Cells


@pytest.mark.parametrize(
    ("overrides", "said"),
    [
        (Overrides(fault=("partition",)), "pods have the network that the cluster gives them"),
        (Overrides(strategy=("warm-restart",)), "each worker is a pod, and starts cold"),
        (Overrides(trigger=("save:3",)), "file operations in a pod do not pass the supervisor"),
        (Overrides(fault=("kill-node",)), "evict:node"),
        (Overrides(state_source=("local",)), "launcher kubernetes"),
    ],
)
def test_what_pods_cannot_do(overrides: Overrides, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        load_suite("quick", overrides, launcher="kubernetes")


@pytest.mark.parametrize("fault", ["pod-delete", "pod-delete:5s", "pod-delete:0s", "evict"])
def test_faults_of_pods_need_pods(fault: str) -> None:
    overrides = Overrides(fault=(fault,))
    assert load_suite("quick", overrides, launcher="kubernetes:x.toml").unsupported == ()
    with pytest.raises(UsageError, match="needs pods: workers of launcher local are processes"):
        load_suite("quick", overrides)


@pytest.mark.parametrize("fault", ["pod-delete:1.5s", "pod-delete:2h", "pod-delete:x", "evict:x"])
def test_arguments_that_faults_of_pods_refuse(fault: str) -> None:
    with pytest.raises(UsageError, match=r"--fault = "):
        load_suite("quick", Overrides(fault=(fault,)), launcher="kubernetes")


# The dry run


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as ended:
        cli.main(["run", *arguments])
    said = capsys.readouterr()
    return int(ended.value.code or 0), said.out, said.err


def test_the_dry_run(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    yaml: Any = pytest.importorskip("yaml")
    monkeypatch.chdir(bench.path)
    code, out, err = run(capsys, "--launcher", "kubernetes", "--dry-run", "--topology", "4x1")
    assert (code, err) == (0, "")
    kinds = [d["kind"] for d in yaml.safe_load_all(out)]
    assert kinds == ["Pod", "Secret", "JobSet", "Pod"]
    assert bench.server.calls == [], "no cluster is asked"
    to_file = ("--launcher", f"kubernetes:{bench.file}", "--dry-run", "--topology", "4x1")
    assert run(capsys, *to_file, "-o", "m.yaml") == (0, "m.yaml\n", "")
    assert (bench.path / "m.yaml").read_text(encoding="utf-8") == out
    code, _, err = run(capsys, *to_file, "-o", "m.yaml")
    assert code == 2
    assert "-o = 'm.yaml'" in err
    assert sorted(p.name for p in bench.path.iterdir()) == ["kubernetes.toml", "m.yaml"]


@pytest.mark.parametrize(
    ("changes", "arguments", "said"),
    [
        ({"image": ""}, (), "image = '': expected the name of a container image"),
        ({"mount": "shared"}, (), "mount = 'shared': expected an absolute path"),
        ({"chips": 3}, (), "chips = 3: expected a divisor of the 16 chips"),
        ({"topology": "4"}, (), "topology = '4': expected a value of the node label"),
        ({"topologie": "4x4"}, (), "did you mean 'topology'?"),
        ({}, ("--topology", "3x4"), "3 workers': expected a number of workers that is a multiple"),
        ({}, ("--topology", "4x2"), "expected 4 devices a worker"),
        ({}, ("--fault", "evict:node"), "'evict:node': expected no evict:node on slices of 4"),
        (
            {"topology": "2x2"},
            ("--strategy", "elastic"),
            "'with survivors, on 4 slices': expected a strategy without survivors",
        ),
    ],
)
def test_a_dry_run_of_what_cannot_be(
    bench: Bench,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    changes: dict[str, Any],
    arguments: tuple[str, ...],
    said: str,
) -> None:
    """Whatever needs no cluster is found without one: one line, exit code 2."""
    monkeypatch.setenv("JAX_PLATFORMS", "tpu")
    bench.write(**{**TPU, **changes})
    usual = ("--workload", "mlp:tiny,batch_size=48", "--topology", "4x4", "--strategy", "restart")
    pairs = dict(zip((*usual, *arguments)[::2], (*usual, *arguments)[1::2], strict=True))
    words = [word for pair in pairs.items() for word in pair]
    code, out, err = run(capsys, "--launcher", f"kubernetes:{bench.file}", "--dry-run", *words)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert said in err
    assert bench.server.calls == []


def test_other_launchers_send_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = run(capsys, "--dry-run")
    assert (code, err.count("\n")) == (2, 1)
    assert "launcher local sends no manifests" in err
    code, _, err = run(capsys, "-o", "x.yaml")
    assert code == 2
    assert "expected --dry-run beside it" in err
