"""Sizes of workloads: found out without their arrays, kept, shown, and held against the memory."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from recoverybench import cli, machine
from recoverybench.campaign import cache, fit
from recoverybench.campaign import sizes as kept_sizes
from recoverybench.cells import Cell
from recoverybench.cli import _workloads
from recoverybench.errors import UsageError
from recoverybench.plan import catalogue
from recoverybench.plan.sizes import Array, Sizer, Sizes, bytes_words, count_words
from recoverybench.plan.suite import Overrides, Suite, load_suite
from recoverybench.results import provenance
from recoverybench.topology import Topology

MOST_RSS_BYTES = 600_000_000
"""What the process may take: imports of JAX, Flax and Optax, and no array of a model."""


@pytest.fixture(scope="module")
def sizer() -> Iterator[Sizer]:
    with Sizer() as started:
        yield started


@pytest.mark.parametrize(
    ("workload", "parameters"),
    [
        # The counts of the published models; where from stands beside the presets.
        ("transformer:gpt2-124m", 124_439_808),
        ("transformer:llama3-8b", 8_030_261_248),
        ("transformer:llama3-70b", 70_553_706_496),
    ],
)
def test_published_models_are_measured_without_their_arrays(
    workload: str, parameters: int, sizer: Sizer
) -> None:
    found = Sizes.of(workload, sizer.answer(workload, None, attempt=True))
    assert found.parameters == parameters
    assert found.parameter_bytes == 4 * parameters
    # Two moments beside each parameter, Adam's counters and the step: a few scalars.
    assert 0 < found.state_bytes - 3 * 4 * parameters <= 16
    assert 60 < found.checkpoint_bytes - found.state_bytes < 120
    assert sizer._process is not None
    status = Path(f"/proc/{sizer._process.pid}/status").read_text()
    peak = re.search(r"VmHWM:\s+(\d+) kB", status)
    assert peak is not None
    assert int(peak[1]) * 1024 < MOST_RSS_BYTES


def test_a_preset_that_makes_no_model_says_why(sizer: Sizer) -> None:
    with pytest.raises(UsageError, match="context = 64: expected at most seq_len = 32"):
        sizer.answer("mlp:tiny,context=64", None, attempt=False)
    with pytest.raises(UsageError, match="known: "):
        sizer.answer("mlp:gone", None, attempt=False)


# Pure


def made(**changes: Any) -> Sizes:
    """A matrix of 8 x 6 float32 with one moment, a replicated vector and a counter."""
    leaves = (
        Array("params.w", (8, 6), 4, ("fsdp", "tensor")),
        Array("params.b", (6,), 4, (None,)),
        Array("opt.w", (8, 6), 2, ("fsdp", "tensor")),
        Array("count", (), 4, ()),
    )
    plain: dict[str, Any] = {
        "workload": "mlp:tiny",
        "parameters": 54,
        "parameter_bytes": 216,
        "state_bytes": 192 + 24 + 96 + 4,
        "checkpoint_bytes": 400,
        "batch_size": 12,
        "batch_bytes": 48,
        "axes": ("data", "fsdp", "tensor"),
        "leaves": leaves,
    }
    return Sizes(**{**plain, **changes})


@pytest.mark.parametrize(
    ("topology", "state", "gradients"),
    [
        ("3x1", 316, 216),
        ("2x2:data=2,fsdp=2", 96 + 24 + 48 + 4, 96 + 24),
        ("2x2:data=1,fsdp=2,tensor=2", 48 + 24 + 24 + 4, 48 + 24),
        ("4x1:data=1,fsdp=4", 48 + 24 + 24 + 4, 48 + 24),
    ],
)
def test_bytes_on_each_device(topology: str, state: int, gradients: int) -> None:
    on = Topology.of(topology)
    assert made().device_bytes(on) == state
    assert made().gradient_bytes(on) == gradients
    job = on.total * (state + gradients) + 316
    assert fit.needed_bytes(made(), on) == job
    assert fit.needed_bytes(made(), on, keeps_old_state=True) == job + on.total * state


@pytest.mark.parametrize(
    ("topology", "why"),
    [
        ("3x1", None),
        ("5x1", "a number of devices that divides mlp:tiny's batch of 12 (it is 5)"),
        (
            "4x2:data=4,fsdp=2",
            "data x fsdp that divides mlp:tiny's batch of 12 (it is 8)",
        ),
        (
            "2x2:data=2,expert=2",
            "axes that mlp:tiny knows: data, fsdp, tensor, and expert is none of them",
        ),
        ("1x4:data=1,tensor=4", "tensor to divide dimension 1 of params.w, which is 6"),
        ("3x1:data=1,fsdp=3", "fsdp to divide dimension 0 of params.w, which is 8"),
    ],
)
def test_why_not_on_a_topology(topology: str, why: str | None) -> None:
    assert made().why_not_on(Topology.of(topology)) == why


@pytest.mark.parametrize(
    ("count", "size", "number"),
    [
        (0, "0 B", "0"),
        (999, "999 B", "999"),
        (1000, "1.00 KB", "1.00 k"),
        (9_994, "9.99 KB", "9.99 k"),
        (9_996, "10.0 KB", "10.0 k"),
        (999_499, "999 KB", "999 k"),
        (999_500, "1.00 MB", "1.00 M"),
        (1_085_196, "1.09 MB", "1.09 M"),
        (846_644_477_964, "847 GB", "847 B"),
        (10**18, "1000 PB", "1000000 T"),
    ],
)
def test_numbers_for_people(count: int, size: str, number: str) -> None:
    assert bytes_words(count) == size
    assert count_words(count) == number


# Memory


def suite(**changes: tuple[str, ...]) -> Suite:
    plain: dict[str, Any] = {"workload": ("transformer:small",), "strategy": ("elastic",)}
    plain |= changes
    return load_suite("quick", Overrides(**plain), device_limit=64)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Sizes that are made up, on a machine with 10 kB; what was asked for."""
    names: list[str] = []

    def sizes_of(
        workloads: list[str], data: str | None, *, told: Any, environment: Any
    ) -> dict[str, Sizes]:
        assert environment is None
        names.extend(workloads)
        return {name: made(workload=name) for name in workloads}

    monkeypatch.setattr(fit, "sizes_of", sizes_of)
    monkeypatch.setattr(machine, "memory_for_work_bytes", lambda: 1_900)
    monkeypatch.delenv("JAX_PLATFORMS", raising=False)
    return names


def test_what_does_not_fit_is_refused_with_the_bytes(asked: list[str]) -> None:
    with pytest.raises(UsageError) as caught:
        fit.check_fit(suite(), "local", force=False)
    assert str(caught.value) == (
        "workload = 'transformer:small': expected one that fits into memory: on 3x1 it needs "
        "about 1.91 KB for 3 workers (the state and the gradients on each of 3 devices, and the "
        "copy that a save takes), this machine has 1.90 KB available (--force begins all the same)"
    )
    assert caught.value.exit_code == 2
    assert asked == ["transformer:small"]


def test_a_source_that_keeps_the_old_state_needs_it_twice(
    asked: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine, "memory_for_work_bytes", lambda: 2_000)
    fit.check_fit(suite(), "local", force=False)
    with pytest.raises(UsageError, match=r"2\.86 KB .*two states and the gradients"):
        fit.check_fit(suite(state_source=("peer",)), "local", force=False)


def test_the_larger_of_two_topologies_counts(asked: list[str]) -> None:
    with pytest.raises(UsageError, match="on 3x1 it needs"):
        fit.check_fit(
            suite(topology=("2x1",), restore_topology=("3x1",), strategy=("restart",)),
            "local",
            force=False,
        )


def test_nobody_counts_where_it_would_say_nothing(
    asked: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    fit.check_fit(suite(), "local", force=True)
    fit.check_fit(suite(), "elsewhere", force=False)
    monkeypatch.setenv("JAX_PLATFORMS", "tpu")
    fit.check_fit(suite(), "local", force=False)
    assert asked == []


def test_a_small_preset_is_not_asked_for(asked: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """The seconds of an answer would come on top of every first run of a small suite."""
    monkeypatch.setattr(machine, "memory_for_work_bytes", lambda: 8_000_000_000)
    fit.check_fit(suite(workload=("transformer:tiny", "mlp:tiny")), "local", force=False)
    assert asked == []
    fit.check_fit(suite(workload=("transformer:tiny,dim=8192",)), "local", force=False)
    assert asked == ["transformer:tiny,dim=8192"]


def test_memory_is_what_the_control_group_leaves(tmp_path: Path) -> None:
    for name, text in {
        "proc/meminfo": "MemTotal: 9000 kB\nMemAvailable: 8000 kB\n",
        "proc/self/cgroup": "0::/a\n",
        "sys/fs/cgroup/a/memory.max": "max\n",
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    assert machine.memory_for_work_bytes(tmp_path) == 8000 * 1024
    (tmp_path / "sys/fs/cgroup/a/memory.max").write_text("4096\n")
    assert machine.memory_for_work_bytes(tmp_path) == 4096


def test_run_refuses_before_anything_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Through the command line and the real process: 610 GB are not here."""
    monkeypatch.setenv(cache.ROOT_VARIABLE, str(tmp_path / "cache"))
    monkeypatch.setattr(machine, "memory_for_work_bytes", lambda: 24_000_000_000)
    monkeypatch.chdir(tmp_path)
    command = ["run", "quick", "--workload", "transformer:llama3-8b", "--topology", "4x1"]
    assert cli.call([*command, "--strategy", "elastic", "--out", "run"]) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert "on 4x1 it needs about 610 GB for 4 workers" in line
    assert [path.name for path in tmp_path.iterdir()] == ["cache"]


# Kept, and shown


def test_an_answer_is_kept_until_something_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(cache.ROOT_VARIABLE, str(tmp_path))
    heard: list[str] = []
    answer = {
        **{key: getattr(made(), key) for key in ("parameters", "parameter_bytes", "state_bytes")},
        **{"checkpoint_bytes": 400, "batch_size": 12, "batch_bytes": 48, "axes": ["data"]},
        "leaves": [["w", [2], 4, [None]]],
    }
    monkeypatch.setattr(Sizer, "answer", lambda *_, **__: answer)
    assert kept_sizes.kept_sizes("mlp:tiny") is None
    [first] = kept_sizes.sizes_of(["mlp:tiny"], told=heard.append).values()
    assert isinstance(first, Sizes)
    assert kept_sizes.kept_sizes("mlp:tiny") == first
    assert kept_sizes.sizes_of(["mlp:tiny"], told=heard.append) == {"mlp:tiny": first}
    assert heard == ["mlp:tiny"]
    text = tmp_path / "text"
    text.write_text("one")
    for _ in range(2):
        kept_sizes.sizes_of(["mlp:tiny"], str(text), told=heard.append)
    text.write_text("another")
    kept_sizes.sizes_of(["mlp:tiny"], str(text), told=heard.append)
    assert heard == ["mlp:tiny"] * 3
    monkeypatch.setattr(provenance, "versions", lambda: {"jax": "another"})
    assert kept_sizes.kept_sizes("mlp:tiny") is None


@pytest.fixture
def two_presets(monkeypatch: pytest.MonkeyPatch) -> None:
    """One family, one of whose presets cannot be made."""
    found = {"mlp:tiny": made(), "mlp:small": UsageError("workload: hidden = 0: expected more")}
    monkeypatch.setattr(kept_sizes, "sizes_of", lambda names, told: {n: found[n] for n in names})
    monkeypatch.setattr(_workloads, "commands", list)
    [family] = [e for e in catalogue.entries("workloads") if e.name == "mlp"]
    monkeypatch.setattr(catalogue, "entries", lambda kind: [family])


def test_list_workloads_is_a_table(two_presets: None, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["list", "workloads", "--topology", "2x2:data=2,fsdp=2", "--topology", "5x1"]
    assert cli.call(arguments) == 0
    _, head, tiny, small, *reasons = capsys.readouterr().out.splitlines()
    assert re.split(r"  +", head.strip()) == [
        *("parameters", "state", "checkpoint", "batch"),
        *("a device of 2x2:data=2,fsdp=2", "a device of 5x1"),
    ]
    assert re.split(r"  +", tiny.strip()) == [
        *("mlp:tiny", "54", "316 B", "400 B", "12", "172 B", "—"),
    ]
    assert len(head) == len(tiny) == len(small)
    assert reasons == [
        "  mlp:tiny not on 5x1: expected a number of devices that divides mlp:tiny's batch of 12 "
        "(it is 5)",
        "  mlp:small: workload: hidden = 0: expected more",
    ]


def test_list_workloads_as_json_has_plain_numbers(
    two_presets: None, capsys: pytest.CaptureFixture[str]
) -> None:
    on = "2x2:data=2,fsdp=2"
    assert cli.call(["list", "workloads", "--topology", on, "--format", "json"]) == 0
    [family] = json.loads(capsys.readouterr().out)
    tiny, small = family["presets"]
    assert (tiny["parameters"], tiny["state_bytes"], tiny["checkpoint_bytes"]) == (54, 316, 400)
    assert tiny["topologies"] == [{"topology": on, "device_bytes": 172, "problem": None}]
    assert small["parameters"] is None
    assert small["problem"] == "workload: hidden = 0: expected more"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["faults", "--topology", "3x1"], "--topology = '3x1': expected list workloads"),
        (["workloads", "--topology", "3x"], "--topology = '3x': expected workers x devices"),
        (["workloads", "--topology", "2x1:rows=2"], "expected axes out of data, fsdp, expert"),
    ],
)
def test_list_refuses_a_topology(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.call(["list", *arguments]) == 2
    assert said in capsys.readouterr().err


def test_a_preset_of_each_family_passes_what_a_users_workload_has_to(sizer: Sizer) -> None:
    for entry in catalogue.entries("workloads"):
        name = f"{entry.name}:{next(iter(catalogue.presets(entry.name)))}"
        found = Sizes.of(name, sizer.answer(name, None, attempt=True))
        one = Topology(1, 1)
        assert found.why_not_on(one) is None
        assert found.device_bytes(one) == found.state_bytes
        known = catalogue.literal("workloads", entry.name, "AXES") or {"data": ()}
        assert set(found.axes) <= set(known), name


def test_a_cell_of_a_command_has_no_size(asked: list[str]) -> None:
    cells = tuple(
        Cell(**{**cell.as_dict(), "workload": "external/jax-loop"}) for cell in suite().cells
    )
    fit.check_fit(
        Suite("s", "", 1, 0, 60.0, 45, cells),
        "local",
        force=False,
    )
    assert asked == []
