"""The description of a machine, from folders that look like one and from this one."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest

from recoverybench import machine
from recoverybench.errors import HarnessError
from recoverybench.results import provenance


def put(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def test_this_machine_is_plain_data_without_a_host_name() -> None:
    described = machine.describe()
    assert json.loads(json.dumps(described)) == described
    assert described["cores_usable"] >= 1
    assert described["memory_available_bytes"] > 0
    assert "host" not in " ".join(described)


def test_a_machine_is_read_from_its_files(tmp_path: Path) -> None:
    root = put(
        tmp_path,
        {
            "proc/meminfo": "MemTotal:  100 kB\nMemFree: 1 kB\nMemAvailable:   40 kB\n",
            "proc/cpuinfo": "processor : 0\nmodel name\t: Some CPU @ 2 GHz\n",
            "proc/sys/kernel/random/boot_id": "abc\n",
            "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor": "powersave\n",
        },
    )
    described = machine.describe(root)
    assert described["memory_total_bytes"] == 100 * 1024
    assert described["memory_available_bytes"] == 40 * 1024
    assert described["cpu"] == "Some CPU @ 2 GHz"
    assert described["boot_id"] == "abc"
    assert any("governor" in sentence for sentence in machine.noise(root))
    assert any("GiB of memory" in sentence for sentence in machine.noise(root))


@pytest.mark.parametrize(
    ("files", "cpu", "memory"),
    [
        ({}, None, None),
        (
            {
                "proc/self/cgroup": "0::/a/b\n",
                "sys/fs/cgroup/a/cpu.max": "150000 100000\n",
                "sys/fs/cgroup/a/b/cpu.max": "max 100000\n",
                "sys/fs/cgroup/a/b/memory.max": "4096\n",
                "sys/fs/cgroup/a/memory.max": "2048\n",
            },
            1.5,
            2048,
        ),
        (
            {
                "proc/self/cgroup": "4:memory:/x\n1:cpu,cpuacct:/\n0::/\n",
                "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "50000\n",
                "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n",
                "sys/fs/cgroup/memory/x/memory.limit_in_bytes": "8192\n",
                "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n",
            },
            0.5,
            8192,
        ),
        (
            {
                "proc/self/cgroup": "4:memory:/\n1:cpu:/\n",
                "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "-1\n",
                "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n",
                "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n",
            },
            None,
            None,
        ),
    ],
)
def test_limits_of_control_groups(
    tmp_path: Path, files: dict[str, str], cpu: float | None, memory: float | None
) -> None:
    limits = machine.cgroup_limits(put(tmp_path, files))
    assert limits == {"cpu_cores": cpu, "memory_bytes": memory}


def test_free_memory_that_nobody_knows_is_an_error_not_a_number(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unknown(name: str) -> int:
        raise ValueError(f"unrecognized configuration name {name}")

    monkeypatch.setattr("os.sysconf", unknown)
    with pytest.raises(HarnessError, match="does not say how much memory"):
        machine.memory_available_bytes(tmp_path)


@pytest.mark.parametrize(
    ("load", "cores", "words"),
    [(0.0, 8, None), (7.5, 8, "load average is 7.50"), (0.0, 2, "Only 2 cores")],
)
def test_noise_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, load: float, cores: int, words: str | None
) -> None:
    root = put(tmp_path, {"proc/meminfo": f"MemAvailable: {16 << 20} kB\n"})
    monkeypatch.setattr(machine, "load_average", lambda: load)
    monkeypatch.setattr(machine, "cores", lambda: cores)
    found = machine.noise(root)
    assert (words is None and found == []) or (words is not None and words in found[0])


def test_devices_are_limited_on_cpu_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "cores", lambda: 2)
    assert machine.device_limit("cpu") == 16
    assert machine.device_limit("tpu") is None


def test_versions_name_everything_that_counts() -> None:
    found = provenance.versions()
    assert set(found) == {"python", *provenance.PACKAGES}
    assert re.match(r"\d+\.\d+", found["recoverybench"] or "")


def test_the_state_of_the_code(tmp_path: Path) -> None:
    def git(*arguments: str) -> None:
        subprocess.run(
            ["git", "-c", "user.name=n", "-c", "user.email=e@example.org", *arguments],
            cwd=tmp_path,
            check=True,
            capture_output=True,
        )

    assert provenance.git_state(tmp_path) is None
    git("init", "-q")
    assert provenance.git_state(tmp_path) is None  # no commit yet
    (tmp_path / "file").write_text("1")
    git("add", "file")
    git("commit", "-qm", "first")
    clean = provenance.git_state(tmp_path)
    assert clean is not None and len(clean["commit"]) == 40 and clean["dirty"] is False
    (tmp_path / "file").write_text("2")
    assert provenance.git_state(tmp_path) == {"commit": clean["commit"], "dirty": True}
    inner = tmp_path / "site-packages"
    inner.mkdir()
    assert provenance.git_state(inner) is None, "somebody else's repository is not ours"
