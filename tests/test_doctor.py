"""The checks of `recoverybench doctor`: each says what it finds, and a bad machine is seen."""

from __future__ import annotations

import json
import time
from collections import namedtuple
from importlib import metadata
from pathlib import Path

import pytest

from recoverybench import cli, doctor, machine
from recoverybench.doctor import hardware, rights, software
from recoverybench.doctor.check import Check
from recoverybench.errors import HarnessError

GIB = 1 << 30
Usage = namedtuple("Usage", "total used free")


# The whole


@pytest.mark.real
def test_doctor_on_this_machine(capsys: pytest.CaptureFixture[str]) -> None:
    """What the tests run on can run the project, or they would not run."""
    assert cli.call(["doctor", "--format", "json"]) == 0
    checks = json.loads(capsys.readouterr().out)
    assert [c["name"] for c in checks] == [name for name, _ in doctor.CHECKS]
    assert all(c["status"] in ("ok", "warning", "missing") and c["found"] for c in checks)
    assert all("\n" not in c["found"] + (c["advice"] or "") for c in checks)
    assert all(c["advice"] for c in checks if c["status"] != "ok")
    by_name = {c["name"]: c for c in checks}
    assert "cpu" in by_name["jax devices"]["found"]
    assert by_name["gloo"]["status"] == "ok"


@pytest.mark.parametrize(
    ("check", "code"),
    [
        (Check("a", "ok", "there", needed=True), 0),
        (Check("a", "warning", "slow", "mend it", needed=True), 0),
        (Check("a", "missing", "gone", "get it"), 0),
        (Check("a", "missing", "gone", "get it", needed=True), 1),
    ],
)
def test_exit_code_says_whether_something_needed_is_missing(
    check: Check, code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(doctor, "CHECKS", (("a", lambda name: check),))
    assert cli.call(["doctor"]) == code
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == [check.status, "a", check.found]
    assert [line.strip() for line in lines[1:]] == ([f"-> {check.advice}"] if check.advice else [])


def test_a_check_that_fails_itself_stops_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(name: str) -> Check:
        raise OSError("two\nlines")

    checks = (("bad", fail), ("good", lambda name: Check(name, "ok", "there")))
    monkeypatch.setattr(doctor, "CHECKS", checks)
    bad, good = doctor.examine()
    assert (bad.name, bad.status, bad.found) == (
        "bad",
        "warning",
        "cannot be told: OSError: two lines",
    )
    assert good.status == "ok"


# Software


def test_a_python_that_is_not_tested_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    assert software.python("python").status == "ok"
    monkeypatch.setattr(software, "TESTED", ((3, 2),))
    assert software.python("python").advice == "tested are 3.2"


def test_every_absent_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def version(name: str) -> str:
        if name in ("flax", "grain"):
            raise metadata.PackageNotFoundError(name)
        return "1"

    monkeypatch.setattr("recoverybench.doctor.software.metadata.version", version)
    check = software.packages("packages")
    assert (check.status, check.needed) == ("missing", True)
    assert check.found == "not installed: flax, grain"


def test_every_declared_package_is_looked_for(repository: Path) -> None:
    import tomllib

    project = tomllib.loads((repository / "pyproject.toml").read_text())["project"]
    declared = {d.split(";")[0].split(">")[0].split("<")[0] for d in project["dependencies"]}
    assert declared - {"ml_dtypes", "scipy"} <= set(software.DISTRIBUTIONS)


@pytest.mark.parametrize("probe", ["_DEVICES", "_GLOO"])
def test_a_jax_that_fails_is_missing(probe: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(software, probe, "raise SystemExit('no such thing')")
    look = {"_DEVICES": software.jax_devices, "_GLOO": software.gloo}[probe]
    check = look("it")
    assert (check.status, check.needed, check.found) == ("missing", True, "no such thing")


@pytest.mark.parametrize("probe", ["_DEVICES", "_GLOO"])
def test_a_jax_that_hangs_is_missing_and_ended(
    probe: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    pids = tmp_path / "pids"
    code = f"import os, signal; open({str(pids)!r}, 'a').write(f'{{os.getpid()}}\\n')\n"
    monkeypatch.setattr(software, probe, code + "signal.pause()")
    monkeypatch.setattr(software, "_PROBE_TIMEOUT_S", 1.5)
    look = {"_DEVICES": software.jax_devices, "_GLOO": software.gloo}[probe]
    assert look("it").status == "missing"
    started = pids.read_text().split()
    assert started
    assert not [pid for pid in started if Path(f"/proc/{pid}").exists()]


def test_accelerators_and_their_health(monkeypatch: pytest.MonkeyPatch) -> None:
    devices = {"platform": "tpu", "kind": "TPU v6 lite", "total": 4, "topology": "2x2"}
    devices |= {"runtime": "built on Monday", "libtpu": "0.0.52"}
    health = {"metrics": {"tpu_throttle_score": ["0-0"]}, "unavailable": None}

    def look() -> Check:
        said = json.dumps({"devices": devices, "health": health})
        monkeypatch.setattr(software, "_DEVICES", f"print({said!r})")
        return software.jax_devices("it")

    check = look()
    words = "4 × TPU v6 lite, slice 2x2, libtpu 0.0.52, runtime built on Monday; none throttled"
    assert (check.status, check.found) == ("ok", words)
    health["metrics"] = {"tpu_throttle_score": ["0-0", "1-2"]}
    check = look()
    assert check.status == "warning"
    assert "throttled by up to 20 % (worker 0, 1)" in check.found


def test_no_free_port_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    def take(self: object) -> int:
        raise HarnessError("no free port between 1 and 2")

    monkeypatch.setattr("recoverybench.job.ports.Ports.take", take)
    check = software.ports("ports")
    assert (check.status, check.needed) == ("missing", True)


def test_no_browser_is_missing_and_not_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    check = software.browser("browser")
    assert (check.status, check.needed) == ("missing", False)


# Hardware


def test_little_room_is_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.disk_usage", lambda path: Usage(10 * GIB, 10 * GIB, 1 << 20))
    for check in (hardware.shared_memory("shm"), hardware.temporary_space("tmp")):
        assert check.status == "warning"
        assert check.found.startswith("0.0 GiB free")
    monkeypatch.setattr("shutil.disk_usage", lambda path: Usage(10 * GIB, 0, 10 * GIB))
    assert hardware.temporary_space("tmp").status == "ok"


def test_memory_of_the_control_group_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    limits: dict[str, float | None] = {"cpu_cores": None, "memory_bytes": None}
    monkeypatch.setattr(machine, "memory_available_bytes", lambda: 8 * GIB)
    monkeypatch.setattr(machine, "cgroup_limits", lambda: limits)
    assert hardware.memory("memory").status == "ok"
    limits["memory_bytes"] = GIB
    assert hardware.memory("memory").status == "warning"
    limits["memory_bytes"] = None
    monkeypatch.setattr(machine, "memory_available_bytes", lambda: GIB)
    assert hardware.memory("memory").status == "warning"


def test_cores_of_the_control_group_count(monkeypatch: pytest.MonkeyPatch) -> None:
    limits: dict[str, float | None] = {"cpu_cores": None, "memory_bytes": None}
    monkeypatch.setattr(machine, "cores", lambda: 8)
    monkeypatch.setattr(machine, "cgroup_limits", lambda: limits)
    assert hardware.cores("cores") == Check("cores", "ok", "8 usable")
    limits["cpu_cores"] = 1.5
    assert hardware.cores("cores").found == "8 usable, throttled to 1.5 by a control group"
    assert hardware.cores("cores").status == "warning"


def test_load_is_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "cores", lambda: 4)
    monkeypatch.setattr(machine, "load_average", lambda: 1.9)
    assert hardware.quiet("quiet").status == "ok"
    monkeypatch.setattr(machine, "load_average", lambda: 2.1)
    assert hardware.quiet("quiet").status == "warning"


def test_governors_of_all_cores_are_read(tmp_path: Path) -> None:
    assert hardware.governor("g", tmp_path).status == "ok"
    for core, name in enumerate(["performance", "powersave"]):
        folder = tmp_path / f"sys/devices/system/cpu/cpu{core}/cpufreq"
        folder.mkdir(parents=True)
        (folder / "scaling_governor").write_text(name + "\n")
    check = hardware.governor("g", tmp_path)
    assert (check.status, check.found) == ("warning", "frequency governor performance, powersave")


def test_a_slow_clock_source_is_a_warning(tmp_path: Path) -> None:
    path = tmp_path / "sys/devices/system/clocksource/clocksource0/current_clocksource"
    path.parent.mkdir(parents=True)
    path.write_text("hpet\n")
    assert hardware.clock("clock", tmp_path).status == "warning"
    path.write_text("tsc\n")
    assert hardware.clock("clock", tmp_path).status == "ok"


def test_stolen_time_is_summed_over_gaps(monkeypatch: pytest.MonkeyPatch) -> None:
    readings = iter([0.0, 0.0005, 0.0505, 0.0510, 0.1010, 0.25, 0.2501])
    monkeypatch.setattr(time, "perf_counter", lambda: next(readings))
    total, longest = hardware.gaps(0.25, 0.001)
    assert total == pytest.approx(0.05 + 0.05 + 0.149)
    assert longest == pytest.approx(0.149)
    monkeypatch.setattr(hardware, "gaps", lambda duration, gap: (0.1, 0.05))
    assert hardware.stolen_time("stolen").status == "warning"


# Rights


@pytest.mark.parametrize("look", [rights.network_namespaces, rights.nftables])
def test_rights_without_the_tool(look: doctor.Examine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    check = look("it")
    assert (check.status, check.needed) == ("missing", False)
    assert check.advice is not None and check.advice.startswith("install ")


@pytest.mark.parametrize("look", [rights.network_namespaces, rights.nftables])
def test_rights_that_are_refused(
    look: doctor.Examine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for tool in ("ip", "nft"):
        path = tmp_path / tool
        path.write_text("#!/bin/sh\necho 'Operation not permitted' >&2\nexit 1\n")
        path.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    check = look("it")
    assert (check.status, check.advice) == ("missing", "run as root")
    assert check.found.startswith("Operation not permitted")


def test_control_groups_of_both_versions(tmp_path: Path) -> None:
    mount = tmp_path / "sys/fs/cgroup"
    mount.mkdir(parents=True)
    check = rights.control_groups("cgroups", tmp_path)
    assert check.status == "missing"
    assert check.found.startswith("version 1, not writable: ")
    for controller in ("memory", "cpu", "freezer"):
        (mount / controller).mkdir()
    assert rights.control_groups("cgroups", tmp_path).found == "version 1, writable"
    (mount / "cgroup.controllers").touch()
    assert rights.control_groups("cgroups", tmp_path).found == "version 2, writable"
