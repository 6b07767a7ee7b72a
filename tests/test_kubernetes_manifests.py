"""What is sent to a cluster, against the published schemas; and the file that says where."""

from __future__ import annotations

import dataclasses
import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recoverybench.errors import UsageError
from recoverybench.launchers._kubernetes import access, ends, manifests, preview, settings
from recoverybench.launchers._kubernetes.manifests import JobPlan
from recoverybench.launchers._kubernetes.ourselves import label_value
from recoverybench.launchers._kubernetes.settings import Settings
from recoverybench.launchers.base import Ended
from tests.kubernetes_api import needs_crd, problems

LEAST = {
    "image": "registry/recoverybench:1",
    "namespace": "bench",
    "volume": "shared",
    "mount": "/shared",
    "supervisor_address": "10.0.0.7",
}
TPU = {"accelerator": "tpu-v6e-slice", "topology": "4x4", "chips": 4}
ALL = {
    **LEAST,
    **TPU,
    "context": "gke_project_zone_cluster",
    "service_account": "bench",
    "queue": "multislice-queue",
    "priority_class": "high",
    "image_pull_secret": "registry",
    "python": "/opt/venv/bin/python",
    "cpu": "8",
    "memory": "64Gi",
    "grace": "45s",
    "node_selector": {"cloud.google.com/gke-spot": "true"},
    "environment": {"LIBTPU_INIT_ARGS": "--some_flag=1 --other"},
    "tolerations": [{"key": "cloud.google.com/gke-spot", "operator": "Equal", "value": "true"}],
}


def made(**changes: Any) -> Settings:
    return settings.of({**LEAST, **changes}, "kubernetes.toml")


def plan(workers: int = 3, **variables: str) -> JobPlan:
    labels = {"recoverybench/launcher": "1234abcd", "recoverybench/job": "rb-1234abcd-0"}
    secret = {"RECOVERYBENCH_SECRET": ""}
    return JobPlan(
        "rb-1234abcd-0",
        workers,
        "tcp://10.0.0.7:20001",
        "/shared/results/r/logs/0001",
        {"JAX_PLATFORMS": "cpu", **variables, **secret},
        tuple(secret),
        labels,
    )


def check(manifest: dict[str, Any]) -> None:
    if manifest["kind"] == "JobSet":
        needs_crd()
    assert problems(manifest) == []


@pytest.mark.parametrize("table", [LEAST, {**LEAST, **TPU}, ALL], ids=["least", "tpu", "all"])
def test_every_manifest_is_valid(table: dict[str, Any]) -> None:
    documents = preview.documents(settings.of(table, "f"), [4, 8], {"JAX_PLATFORMS": "tpu"})
    kinds = [d["kind"] for d in documents]
    assert kinds == ["Pod", *(["Secret", "JobSet", "Pod"] * 2)]
    for manifest in documents:
        if manifest["kind"] != "JobSet":
            check(manifest)


@pytest.mark.parametrize("table", [LEAST, {**LEAST, **TPU}, ALL], ids=["least", "tpu", "all"])
def test_every_jobset_is_valid(table: dict[str, Any]) -> None:
    check(manifests.jobset(plan(4), settings.of(table, "f")))


def test_the_schemas_see_mistakes() -> None:
    """The checks above hold for a validator that accepts anything, too."""
    wrong = manifests.pod(plan(), made(), 1, 1, owner=None)
    wrong["spec"]["containers"][0]["comand"] = ["x"]
    assert problems(wrong)
    wrong = manifests.secret(plan(), made(), {"A": "b"})
    wrong["immutable"] = "yes"
    assert problems(wrong)
    assert problems({**access.deletion(0), "grace": 1})
    needs_crd()
    wrong = manifests.jobset(plan(), made())
    wrong["spec"]["replicatedJobs"][0]["template"]["spec"]["backofLimit"] = 0
    assert problems(wrong)
    wrong = manifests.jobset(plan(), made())
    wrong["spec"]["failurePolicy"]["maxRestarts"] = "none"
    assert problems(wrong)


@pytest.mark.parametrize("right", [*access.NEEDED, access.EVICT, *access.CORDON])
def test_reviews_are_valid(right: access.Right) -> None:
    check(access.review(right, "bench"))
    assert right.words.startswith(right.verb)


def test_other_requests_are_valid() -> None:
    check(access.eviction("rb-1-0", "bench"))
    for body in (access.deletion(None), access.deletion(0, "uid")):
        check(body)
    assert access.deletion(0)["gracePeriodSeconds"] == 0
    assert "gracePeriodSeconds" not in access.deletion(None)


def test_kubernetes_brings_nothing_back() -> None:
    """Whatever ends stays ended and takes nothing along: what is measured is the strategy."""
    spec = manifests.jobset(plan(8), made(**TPU))["spec"]
    job = spec["replicatedJobs"][0]["template"]["spec"]
    assert spec["failurePolicy"] == {"maxRestarts": 0}
    assert (job["backoffLimitPerIndex"], job["maxFailedIndexes"]) == (0, job["completions"])
    assert job["template"]["spec"]["restartPolicy"] == "Never"
    assert "podFailurePolicy" not in job


def test_one_child_job_for_each_slice() -> None:
    group = manifests.jobset(plan(8), made(**TPU))["spec"]["replicatedJobs"][0]
    assert (group["replicas"], group["template"]["spec"]["parallelism"]) == (2, 4)
    pod = group["template"]["spec"]["template"]["spec"]
    assert pod["nodeSelector"] == {
        "cloud.google.com/gke-tpu-accelerator": "tpu-v6e-slice",
        "cloud.google.com/gke-tpu-topology": "4x4",
    }
    resources = pod["containers"][0]["resources"]
    assert resources == {"limits": {"google.com/tpu": "4"}, "requests": {"google.com/tpu": "4"}}


def test_workers_have_to_fill_slices() -> None:
    with pytest.raises(UsageError, match=r"topology = '6 workers': .*multiple of 4"):
        manifests.jobset(plan(6), made(**TPU))


def test_a_secret_stands_in_the_secret_alone() -> None:
    value = "0123456789abcdef"
    secret = manifests.secret(plan(), made(), {"RECOVERYBENCH_SECRET": value})
    assert secret["stringData"] == {"RECOVERYBENCH_SECRET": value}
    for manifest in (
        manifests.jobset(plan(RECOVERYBENCH_SECRET=value), made()),
        manifests.pod(plan(RECOVERYBENCH_SECRET=value), made(), 1, 1, owner=None),
    ):
        assert value not in str(manifest)
        assert "secretKeyRef" in str(manifest)


def expanded(text: str) -> str:
    """What Kubernetes makes of a container's command: ``$$`` is ``$``, ``$(NAME)`` a variable."""
    return re.sub(
        r"\$(\$|\([A-Za-z_][A-Za-z0-9_]*\))", lambda m: m[1] if m[1] == "$" else "?", text
    )


@pytest.mark.parametrize(
    ("slot", "variables", "arguments"),
    [
        (None, {"RECOVERYBENCH_SLICE": "1", "RECOVERYBENCH_HOST": "3"}, "7 0"),
        (5, {}, "5 2"),
    ],
)
def test_the_container_becomes_the_worker(
    slot: int | None, variables: dict[str, str], arguments: str, tmp_path: Path
) -> None:
    """Run for real, with a program in the place of the interpreter that says what it was given."""
    program = tmp_path / "python$(x)"
    program.write_text('#!/bin/sh\necho "$$: $@"\n', encoding="utf-8")
    program.chmod(0o755)
    job = dataclasses.replace(plan(8), logs=str(tmp_path))
    said = dataclasses.replace(made(**TPU), python=str(program))
    if slot is None:
        made_set = manifests.jobset(job, said)
        spec = made_set["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]
    else:
        spec = manifests.pod(job, said, slot, 2, owner=None)["spec"]
    container = spec["containers"][0]
    command = [expanded(part) for part in (*container["command"], *container["args"])]
    pid = tmp_path / "pid"
    command = [part.replace(manifests.PID_FILE, str(pid)) for part in command]
    subprocess.run(command, env={**os.environ, **variables}, check=True, timeout=20)
    (log,) = tmp_path.glob("*.log")
    assert log.name == arguments.replace(" ", ".") + ".log"
    process, _, text = log.read_text(encoding="utf-8").strip().partition(": ")
    assert text == f"-P -m recoverybench.worker tcp://10.0.0.7:20001 {arguments}"
    assert pid.read_text(encoding="utf-8").strip() == process


@given(st.text(max_size=60))
def test_variables_arrive_as_they_are(text: str) -> None:
    assert expanded(manifests.literal(text)) == text


def test_a_replacement_has_the_name_and_place_of_what_it_replaces() -> None:
    pod = manifests.pod(plan(8), made(**TPU), 5, 2, owner=("rb-1234abcd-0", "u"), pool="pool-1")
    assert pod["metadata"]["name"] == "rb-1234abcd-0-s5-a2"
    assert pod["spec"]["hostname"] == "rb-1234abcd-0-w-1-1"
    assert pod["spec"]["nodeSelector"]["cloud.google.com/gke-nodepool"] == "pool-1"
    variables = {e["name"]: e.get("value") for e in pod["spec"]["containers"][0]["env"]}
    assert variables["TPU_WORKER_ID"] == "1"
    assert str(variables["TPU_WORKER_HOSTNAMES"]).split(",")[1] == (
        "rb-1234abcd-0-w-1-1.rb-1234abcd-0"
    )
    # What JobSet's headless service selects: without it nobody finds the pod by its name.
    assert pod["metadata"]["labels"]["jobset.sigs.k8s.io/jobset-name"] == "rb-1234abcd-0"
    check(pod)


def test_the_probe_may_go_where_workers_go() -> None:
    spot: Any = ALL["tolerations"]
    tpu = {"key": "google.com/tpu", "operator": "Exists"}
    for manifest in preview.documents(settings.of(ALL, "f"), [4], {"JAX_PLATFORMS": "tpu"}):
        if manifest["kind"] == "Pod":
            assert manifest["spec"]["tolerations"] == [*spot, {**tpu, "effect": "NoSchedule"}]
    assert "tolerations" not in manifests.pod(plan(), made(), 1, 1, owner=None)["spec"]


@pytest.mark.parametrize("devices", [1, 2, 3, 16])
def test_a_worker_has_all_devices_of_its_host(devices: int) -> None:
    made().check_devices([devices])
    made(**TPU).check_devices([4, 8])
    said = r"--topology = '\d+ devices a worker': expected 4 devices a worker, as in 4x4: .*"
    with pytest.raises(UsageError, match=said):
        made(**TPU).check_devices([devices])


def test_several_slices_are_joined_and_one_is_not() -> None:
    def variables(container: dict[str, Any]) -> dict[str, Any]:
        found = {e["name"]: e.get("value", "by index") for e in container["env"]}
        return {k: v for k, v in found.items() if k.startswith("MEGASCALE_")}

    def of_set(workers: int, said: Settings) -> dict[str, Any]:
        group = manifests.jobset(plan(workers), said)["spec"]["replicatedJobs"][0]
        spec: dict[str, Any] = group["template"]["spec"]["template"]["spec"]
        return variables(spec["containers"][0])

    joined = {
        "MEGASCALE_COORDINATOR_ADDRESS": "rb-1234abcd-0-w-0-0.rb-1234abcd-0",
        "MEGASCALE_NUM_SLICES": "2",
    }
    assert of_set(8, made(**TPU)) == {**joined, "MEGASCALE_SLICE_ID": "by index"}
    again = manifests.pod(plan(8), made(**TPU), 6, 1, owner=None)["spec"]["containers"][0]
    assert variables(again) == {**joined, "MEGASCALE_SLICE_ID": "1"}
    assert of_set(4, made(**TPU)) == {}
    assert of_set(8, made()) == {}


def test_a_coordination_service_needs_no_tpu() -> None:
    pod = manifests.pod(plan(8), made(**TPU), 1002, 0, owner=None)
    assert "nodeSelector" not in pod["spec"]
    assert "resources" not in pod["spec"]["containers"][0]
    check(pod)


@given(st.integers(1, 8), st.integers(1, 16), st.data())
def test_slots_and_host_names_agree(slices: int, hosts: int, data: st.DataObject) -> None:
    slot = data.draw(st.integers(0, slices * hosts - 1))
    name = manifests.host_name("rb-1-0", slot, hosts)
    found = re.fullmatch(r"rb-1-0-w-(\d+)-(\d+)", name)
    assert found is not None
    marks = {manifests.JOB_INDEX: found[1], manifests.COMPLETION_INDEX: found[2]}
    assert manifests.slot_of(marks, {}, hosts) == slot
    assert manifests.slot_of({}, marks, hosts) == slot
    assert manifests.slot_of({manifests.SLOT: str(slot)}, {}, hosts) == slot
    assert manifests.slot_of({}, {}, hosts) is None


@given(st.text(max_size=100))
def test_any_name_gives_a_label(text: str) -> None:
    assert re.fullmatch(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?", label_value(text))


# The file


def test_the_whole_file_is_read(tmp_path: Path) -> None:
    file = tmp_path / "kubernetes.toml"
    plain = {k: v for k, v in ALL.items() if not isinstance(v, (dict, list))}
    lines = [f"{k} = {v!r}" for k, v in plain.items()]
    for name in ("node_selector", "environment"):
        table: Any = ALL[name]
        lines += [f"[{name}]", *(f"{k!r} = {v!r}" for k, v in table.items())]
    lines += ["[[tolerations]]", 'key = "cloud.google.com/gke-spot"']
    file.write_text("\n".join(lines), encoding="utf-8")
    found = settings.read(file)
    assert found.tolerations == ({"key": "cloud.google.com/gke-spot"},)
    assert (found.grace_s, found.hosts, found.groups(8)) == (45, 4, (2, 4))
    assert found.environment["LIBTPU_INIT_ARGS"] == "--some_flag=1 --other"


def test_a_number_with_more_digits_than_can_be_read_is_no_toml(tmp_path: Path) -> None:
    file = tmp_path / "kubernetes.toml"
    file.write_text("chips = " + "9" * 10_000)
    with pytest.raises(UsageError, match=r"kubernetes\.toml: not TOML: "):
        settings.read(file)


def test_without_a_tpu_a_job_is_one_group() -> None:
    assert made().groups(5) == (1, 5)
    assert made().grace_s == 30


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"tolerations": {"key": "a"}}, r"tolerations = .*: expected tables"),
        ({"tolerations": [{"key": "a", "effect": "Never"}]}, r"expected tables \[\[tolerations"),
        ({"tolerations": [{"operator": "Exists"}]}, r"tolerations = .*: expected tables"),
        ({"tolerations": [{"key": "a", "seconds": "1"}]}, r"tolerations = .*: expected tables"),
        ({"image": "a b"}, r"kubernetes.toml: image = 'a b': expected the name of a container"),
        ({"namespace": "Bench"}, r"namespace = 'Bench': expected the name of a namespace"),
        ({"mount": "shared"}, r"mount = 'shared': expected an absolute path"),
        ({"mount": "/"}, r"mount = '/': expected an absolute path below /"),
        ({"mount": "/a/../b"}, r"mount = .*without \.\."),
        ({"mount": 3}, r"mount = 3: expected an absolute path"),
        ({"supervisor_address": "a/b"}, r"supervisor_address = 'a/b': expected a host name"),
        ({"grace": 30}, r"grace = 30: expected whole seconds as 30s"),
        ({"grace": "4000s"}, r"grace = '4000s': expected .*at most 3600s"),
        ({"chips": 4}, r"accelerator is missing: expected accelerator, topology and chips"),
        ({**TPU, "chips": True}, r"chips = True: expected the TPU chips of one host"),
        ({**TPU, "chips": 3}, r"chips = 3: expected a divisor of the 16 chips"),
        ({**TPU, "topology": "4"}, r"topology = '4': expected .*4x4 or 2x2x2"),
        ({"cpu": "many"}, r"cpu = 'many': expected a quantity"),
        ({"node_selector": []}, r"node_selector = \[\]: expected a table of node labels"),
        ({"node_selector": {"a b": "c"}}, r"node_selector\.a b = 'c': expected a text under"),
        ({"environment": {"A": 1}}, r"environment\.A = 1: expected a text"),
        ({"environment": {"JAX_PLATFORMS": "tpu"}}, r"JAX_PLATFORMS = 'tpu': expected no JAX_"),
        ({"imag": "x"}, r"key = 'imag': did you mean 'image'"),
    ],
)
def test_what_the_file_may_not_hold(change: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError, match=said) as caught:
        made(**change)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("key", ["image", "mount", "namespace", "volume"])
def test_what_the_file_must_hold(key: str) -> None:
    with pytest.raises(UsageError, match=rf"{key} is missing: expected"):
        settings.of({k: v for k, v in LEAST.items() if k != key}, "f.toml")


def test_a_file_that_is_none(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--launcher kubernetes = "):
        settings.read(tmp_path / "none.toml")
    (tmp_path / "bad.toml").write_text("image = ", encoding="utf-8")
    with pytest.raises(UsageError, match=r"bad\.toml: not TOML"):
        settings.read(tmp_path / "bad.toml")


# How a pod ends


def container(**state: Any) -> dict[str, Any]:
    return {"containerStatuses": [{"name": "worker", "state": state}]}


@pytest.mark.parametrize(
    ("status", "deleted", "ended", "words"),
    [
        ({"phase": "Pending"}, False, None, ""),
        ({"phase": "Running", **container(running={})}, False, None, ""),
        (
            container(terminated={"exitCode": 0, "reason": "Completed"}),
            False,
            Ended(0, None, seen=False),
            "",
        ),
        (
            container(terminated={"exitCode": 74, "reason": "Error"}),
            False,
            Ended(74, None, seen=False),
            "",
        ),
        (container(terminated={"exitCode": 137}), False, Ended(None, "SIGKILL", seen=False), ""),
        (container(terminated={"exitCode": 143}), False, Ended(None, "SIGTERM", seen=False), ""),
        (
            container(terminated={"exitCode": 1, "signal": 11}),
            False,
            Ended(None, "SIGSEGV", seen=False),
            "",
        ),
        (container(terminated={"exitCode": 255}), False, Ended(255, None, seen=False), ""),
        (
            container(terminated={"exitCode": 137, "reason": "OOMKilled"}),
            False,
            Ended(None, "SIGKILL", seen=False),
            "OOMKilled",
        ),
        (
            {"phase": "Failed", "reason": "Evicted", "message": "low on memory"},
            False,
            Ended(None, None, seen=False),
            "Evicted: low on memory",
        ),
        (
            {
                "phase": "Failed",
                "conditions": [
                    {
                        "type": "DisruptionTarget",
                        "status": "True",
                        "reason": "PreemptionByScheduler",
                    }
                ],
            },
            False,
            Ended(None, None, seen=False),
            "PreemptionByScheduler",
        ),
        (
            {"phase": "Running", **container(running={})},
            True,
            Ended(None, None, seen=False),
            "deleted",
        ),
        (
            container(waiting={"reason": "ImagePullBackOff", "message": "no such image"}),
            False,
            None,
            "ImagePullBackOff: no such image",
        ),
        (container(waiting={"reason": "ContainerCreating"}), False, None, ""),
        (
            {
                "conditions": [
                    {
                        "type": "PodScheduled",
                        "status": "False",
                        "reason": "Unschedulable",
                        "message": "0/3 nodes",
                    }
                ]
            },
            False,
            None,
            "Unschedulable: 0/3 nodes",
        ),
    ],
)
def test_how_a_pod_ended(
    status: dict[str, Any], deleted: bool, ended: Ended | None, words: str
) -> None:
    seen = ends.look({"status": status}, deleted=deleted)
    assert (seen.ended, seen.words) == (ended, words)
    assert seen.started == bool({"running", "terminated"} & set(_state(status)))


def _state(status: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = (status.get("containerStatuses") or [{"state": {}}])[0]["state"]
    return found


# What --dry-run writes


def test_the_preview_is_yaml_of_the_same() -> None:
    yaml: Any = pytest.importorskip("yaml")
    text = preview.text(made(), [3], {"JAX_PLATFORMS": "cpu"})
    assert text.startswith("# recoverybench ")
    assert list(yaml.safe_load_all(text)) == preview.documents(
        made(), [3], {"JAX_PLATFORMS": "cpu"}
    )
