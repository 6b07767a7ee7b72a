"""Nothing assumes the CPU: where it is named stands here, with the reason, and a fake platform."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import pytest

from recoverybench import machine
from recoverybench.campaign.bench import worker_environment
from recoverybench.campaign.launching import manifests
from recoverybench.errors import UsageError
from recoverybench.plan.suite import Overrides, load_suite

NAMED = {
    "campaign/bench.py": (1, "flags of XLA for CPU, which another platform does not get"),
    "campaign/fit.py": (1, "memory of CPU devices is this machine's"),
    "compare/key.py": (2, "runs of before platforms were kept; and the name of the processor"),
    "doctor/rights.py": (1, "the control group that limits cores"),
    "doctor/software.py": (0, "stands in a program: Gloo is the CPU's own"),
    "launchers/_kubernetes/manifests.py": (1, "a resource that a pod requests"),
    "launchers/_kubernetes/settings.py": (2, "likewise, a key of the file"),
    "machine.py": (6, "the platform if nobody says one; threads as devices; the processor's name"),
    "plan/sizes.py": (1, "shapes are worked out without any device"),
    "report/prose.py": (2, "what numbers from CPUs do not say; runs of before platforms were kept"),
    "results/run_columns.py": (1, "the name of the processor"),
    "worker/runtime.py": (3, "settings and collectives that only the CPU backend has"),
    "worker/sizes.py": (1, "shapes are worked out without any device"),
}
"""Module -> how often ``"cpu"`` stands in it, and why it may."""

PLATFORM = "fake"


def found(repository: Path) -> dict[str, int]:
    counts = {}
    for path in sorted((repository / "recoverybench").rglob("*.py")):
        tree = ast.parse(path.read_bytes())
        count = sum(isinstance(n, ast.Constant) and n.value == "cpu" for n in ast.walk(tree))
        if count:
            counts[str(path.relative_to(repository / "recoverybench"))] = count
    return counts


def test_the_cpu_is_named_where_it_is_about_the_cpu(repository: Path) -> None:
    wanted = {name: count for name, (count, _) in NAMED.items() if count}
    assert found(repository) == wanted, 'a new "cpu" needs its reason in the table above'


def test_workloads_name_no_platform(repository: Path) -> None:
    for path in (repository / "workloads").glob("*.py"):
        assert '"cpu"' not in path.read_text(encoding="utf-8"), path


@pytest.fixture
def elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAX_PLATFORMS", PLATFORM)


@pytest.mark.usefixtures("elsewhere")
def test_another_platform_reaches_the_workers_with_nothing_of_the_cpu() -> None:
    assert machine.platform_name() == PLATFORM
    variables = worker_environment(machine.platform_name())
    assert variables["JAX_PLATFORMS"] == PLATFORM
    assert "XLA_FLAGS" not in variables
    assert "cpu" not in str(variables).lower()


def test_another_platform_has_its_own_number_of_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    """Threads limit how many devices a CPU can be, and nothing else."""
    monkeypatch.setattr(machine, "cores", lambda: 1)
    wanted = Overrides(topology=("2x6",), strategy=("restart",), workload=("mlp:tiny",))
    monkeypatch.setenv("JAX_PLATFORMS", "cpu")
    with pytest.raises(UsageError, match="at most 8 devices in all"):
        load_suite("quick", wanted)
    monkeypatch.setenv("JAX_PLATFORMS", PLATFORM)
    (cell,) = load_suite("quick", wanted).cells
    assert cell.mesh.total == 12


@pytest.mark.usefixtures("elsewhere")
def test_another_platform_is_what_pods_are_told(tmp_path: Path) -> None:
    file = tmp_path / "kubernetes.toml"
    file.write_text('image="i"\nnamespace="n"\nvolume="v"\nmount="/m"\n', encoding="utf-8")
    pytest.importorskip("yaml")
    launcher = f"kubernetes:{file}"
    text = manifests(launcher, load_suite("quick", launcher=launcher))
    assert f"value: {PLATFORM}" in text
    assert "cpu" not in text.lower()


def test_the_runtime_sets_for_another_platform_nothing_that_only_the_cpu_has(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    import jax

    from recoverybench.worker import runtime

    class Config:
        """Notes what it is told; has what every version has."""

        def __init__(self) -> None:
            self.said: dict[str, Any] = {}

        def update(self, name: str, value: Any) -> None:
            self.said[name] = value

    said = {}
    for platform in (PLATFORM, "cpu"):
        config = Config()
        monkeypatch.setattr(jax, "config", config)
        runtime.configure(4, platform, None, rejoin=True, preemption=True)
        runtime.use_devices(8, platform)
        said[platform] = config.said
    assert said[PLATFORM]["jax_platforms"] == PLATFORM
    assert not [name for name in said[PLATFORM] if "cpu" in name]
    assert said["cpu"]["jax_num_cpu_devices"] == 8, "the one above would see it"
