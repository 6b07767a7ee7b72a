"""What devices are and how they are: from a worker's devices to a reader, on platforms made up."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recoverybench.analysis.accelerators import devices_of, health_of, value_of
from recoverybench.analysis.history import History
from recoverybench.compare.key import machine_class
from recoverybench.devices import device_words, health_words, method_words, troubled
from recoverybench.journal_writer import Journal
from recoverybench.records import TrialRecord
from recoverybench.results.run_info import with_devices
from recoverybench.worker import accelerators, metrics
from tests.kept_runs import CELL, info, record

RUNTIME = "PJRT C API\nTFRT TPU v6 lite\nBuilt on Nov 1 2026 (1793500000) cl/999"


class Client:
    """A backend."""

    platform_version = RUNTIME


@dataclasses.dataclass
class Device:
    """As JAX's devices of a TPU are."""

    id: int
    coords: Sequence[int] | None = None
    slice_index: int | None = None
    core_on_chip: int | None = 0
    platform: str = "tpu"
    device_kind: str = "TPU v6 lite"
    client: Client = dataclasses.field(default_factory=Client)
    memory: Mapping[str, int] | None = None

    def memory_stats(self) -> Mapping[str, int] | None:
        """What JAX says of a device's memory."""
        return self.memory


class Bare:
    """A device that has nothing but a platform, and raises on all else."""

    platform = "fake"
    device_kind = "fake"

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError(f"{name} is not implemented")


def grid(slices: int, *sizes: int) -> list[Device]:
    """The devices of slices of that shape."""
    found: list[Device] = []
    for index in range(slices):
        places: list[tuple[int, ...]] = [()]
        for size in sizes:
            places = [(*p, i) for p in places for i in range(size)]
        found += [Device(len(found) + i, p, index) for i, p in enumerate(places)]
    return found


# What a worker says


def test_a_slice() -> None:
    every = grid(1, 4, 4, 1)
    assert accelerators.described(every[:4], every) == {
        "platform": "tpu",
        "kind": "TPU v6 lite",
        "local": 4,
        "total": 16,
        "slice": 0,
        "chips": [(0, 0, 0), (0, 1, 0), (0, 2, 0), (0, 3, 0)],
        "slices": 1,
        "topology": "4x4",
        "cores": 1,
        "runtime": " ".join(RUNTIME.split()),
    }


@given(st.integers(1, 3), st.lists(st.integers(1, 3), min_size=3, max_size=3), st.integers(0, 9))
def test_bounds_are_those_of_the_chips(slices: int, sizes: list[int], offset: int) -> None:
    """Wherever a slice begins, and in whatever order its devices are given."""
    every = grid(slices, *sizes)
    for device in every:
        assert device.coords is not None
        device.coords = [c + offset for c in device.coords]
    said = accelerators.described(every[:1], every[::-1])
    assert said["slices"] == slices
    x, y, z = sizes
    assert said["topology"] == (f"{x}x{y}" if z == 1 else f"{x}x{y}x{z}")


def test_slices_that_differ_and_chips_of_two_cores() -> None:
    small = [dataclasses.replace(d, slice_index=1) for d in grid(1, 2, 2)]
    every = [*grid(1, 2, 4), *small]
    assert accelerators.described(every, every)["topology"] == "2x4, 2x2"
    cores = [dataclasses.replace(d, core_on_chip=c) for d in grid(1, 2, 2, 1) for c in (0, 1)]
    said = accelerators.described(cores, cores)
    assert (said["cores"], said["topology"], said["total"]) == (2, "2x2", 8)


def test_what_a_device_lacks_is_left_out() -> None:
    bare = [Bare(), Bare()]
    assert accelerators.described(bare, bare) == {
        "platform": "fake",
        "kind": "fake",
        "local": 2,
        "total": 2,
    }
    assert accelerators.versions(bare) == {}
    assert accelerators.health(bare, lambda: pytest.fail("nothing to read")) is None


def test_a_gpu_says_what_jax_knows_of_it(tmp_path: Path) -> None:
    driver = tmp_path / "version"
    driver.write_text("NVRM version:  NVIDIA UNIX  580.1\nGCC version: 12\n", encoding="utf-8")
    memory = {"bytes_in_use": 3 << 30, "bytes_limit": 4 << 30, "num_allocs": 7}
    gpu = Device(0, None, None, None, "gpu", "NVIDIA H200", memory=memory)
    assert accelerators.versions([gpu], driver)["driver"] == "NVRM version: NVIDIA UNIX 580.1"
    assert "driver" not in accelerators.versions([gpu], tmp_path / "none")
    said = accelerators.health([gpu], lambda: pytest.fail("no TPU to ask"))
    assert said is not None
    assert said["metrics"] == {"bytes_in_use": [f"0: {3 << 30}"], "bytes_limit": [f"0: {4 << 30}"]}


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def test_a_process_says_once_what_it_has_and_each_time_how_it_is(tmp_path: Path) -> None:
    every = grid(1, 2, 2)
    found = metrics.Found(metrics={"tpu_throttle_score": ["0-0", "1-3"]}, unavailable=None)
    journal = Journal(tmp_path / "j", 0, 0)
    watch = accelerators.Watch(journal, lambda: (every, every), lambda: found)
    watch.look("before")
    watch.look("after")
    said = lines(tmp_path / "j")[1:]
    assert [(line["event"], line.get("when")) for line in said] == [
        ("devices", None),
        ("health", "before"),
        ("health", "after"),
    ]
    journal.close()


# The runtime's metrics, by a made-up libtpu

FAKE = '''
"""As the SDK of libtpu 0.0.52 is, as far as it is used."""
import time


class Metric:
    def __init__(self, values):
        self._values = values

    def data(self):
        return self._values

    def description(self):
        return "made up"


class tpumonitoring:
    @staticmethod
    def list_supported_metrics():
        return ["tpu_throttle_score", "ici_link_health", "duty_cycle_pct", "tcp_min_rtt"]

    @staticmethod
    def get_metric(name):
        {body}
'''


@pytest.fixture
def libtpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Puts a made-up package on the path of what reads."""

    def make(body: str) -> None:
        package = tmp_path / "fake" / "libtpu"
        package.mkdir(parents=True)
        (package / "__init__.py").write_text("", encoding="utf-8")
        (package / "sdk.py").write_text(FAKE.replace("{body}", body), encoding="utf-8")
        monkeypatch.setenv("PYTHONPATH", str(tmp_path / "fake"))

    return make


VALUES = (
    'return Metric({"tpu_throttle_score": ["0-0", "1-3"], "ici_link_health": '
    '["tray1.chip3.ici0.int: 0", "tray1.chip3.ici1.int: 10"], "duty_cycle_pct": []}[name])'
)


def test_the_runtime_is_asked_by_a_process_of_its_own(libtpu: Callable[[str], None]) -> None:
    libtpu(VALUES)
    assert metrics.read(30.0) == {
        "metrics": {
            "tpu_throttle_score": ["0-0", "1-3"],
            "ici_link_health": ["tray1.chip3.ici0.int: 0", "tray1.chip3.ici1.int: 10"],
        },
        "unavailable": None,
    }


@pytest.mark.parametrize(
    ("body", "limit_s", "said"),
    [
        ("time.sleep(600)", 1.0, "the runtime did not answer within 1 s"),
        ("raise RuntimeError('no chips\\nhere')", 30.0, "tpu_throttle_score: no chips here; "),
        ("return Metric([])", 30.0, "the runtime gives no values"),
        ("import os; os.abort()", 30.0, "the process that reads them ended with signal 6"),
        ("import os; os._exit(3)", 30.0, "the process that reads them ended with exit code 3"),
    ],
)
def test_a_runtime_that_says_nothing_is_a_fact(
    libtpu: Callable[[str], None], body: str, limit_s: float, said: str
) -> None:
    libtpu(body)
    found = metrics.read(limit_s)
    assert found["metrics"] == {}
    assert str(found["unavailable"]).startswith(said)


def test_there_is_no_libtpu() -> None:
    found = metrics.read(30.0)
    assert found["metrics"] == {}
    assert str(found["unavailable"]).startswith("libtpu's SDK: No module named 'libtpu'")


@given(st.binary(max_size=80), st.integers(-15, 255))
def test_whatever_it_writes_is_no_error(output: bytes, code: int) -> None:
    found = metrics.said(output, code)
    assert found["metrics"] == {}
    assert found["unavailable"]


# What a record keeps of it


@given(st.text("abc123.: ", max_size=20), st.floats(0, 1e9))
def test_a_value_is_found_behind_its_place(where: str, number: float) -> None:
    text = f"{number:.2f}"
    assert value_of(text) == ("", float(text))
    if where.strip() and not where.strip().endswith((":", "-")):
        assert value_of(f"{where}: {text}") == (where.strip(), float(text))


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1-3", ("1", 3.0)),
        ("tray1.chip3.ici0.int: 10", ("tray1.chip3.ici0.int", 10.0)),
        ("20.00", ("", 20.0)),
        ("-5", ("", -5.0)),
        ("tensorcore_0: 2", ("tensorcore_0", 2.0)),
        ("8MB+, 100.00", None),
        ("", None),
        ("nan", None),
    ],
)
def test_values_as_the_runtime_writes_them(text: str, value: tuple[str, float] | None) -> None:
    assert value_of(text) == value


@dataclasses.dataclass
class Kept:
    """A journal that was read."""

    lines: Sequence[Mapping[str, Any]]
    dropped: int = 0


def history(*said: Mapping[str, Any]) -> History:
    common = {"attempt": 0, "generation": 0}
    return History.of([Kept([{"t": i, **common, **line} for i, line in enumerate(said)])])


def health(worker: int, when: str, **values: list[str]) -> dict[str, Any]:
    line = {"event": "health", "worker": worker, "when": when, "unavailable": None}
    return {**line, "metrics": values}


def test_what_workers_agree_on_is_said_once() -> None:
    said = [
        {"event": "devices", "worker": w, "platform": "tpu", "kind": k, "local": 4, "total": 8}
        for w, k in enumerate(("TPU v6 lite", "TPU v5 lite"))
    ]
    assert devices_of(history(*said)) == {
        "platform": "tpu",
        "kind": ["TPU v5 lite", "TPU v6 lite"],
        "local": 4,
        "total": 8,
    }
    assert devices_of(history()) == {}


def test_of_every_metric_the_worst_is_kept() -> None:
    found = health_of(
        history(
            health(0, "before", tpu_throttle_score=["0-0", "1-0"]),
            health(1, "before", tpu_throttle_score=["0-0", "1-3"], duty_cycle_pct=["7.5", "x"]),
            {**health(2, "before"), "unavailable": "no answer"},
        )
    )
    assert found == {
        "before": {
            "workers": 3,
            "metrics": {
                "duty_cycle_pct": {"values": 1, "least": 7.5, "most": 7.5, "where": "worker 1, 0"},
                "tpu_throttle_score": {
                    "values": 4,
                    "least": 0.0,
                    "most": 3.0,
                    "where": "worker 1, 1",
                },
            },
            "unavailable": {"2": "no answer"},
        }
    }


@given(st.integers(1, 40), st.integers(1, 30))
def test_a_record_stays_small_however_many_chips_there_are(workers: int, chips: int) -> None:
    values = [f"{chip}-0" for chip in range(chips)]
    said = [health(w, "after", tpu_throttle_score=values) for w in range(workers)]
    said = [{**line, "unavailable": "x" * 50} for line in said]
    assert len(json.dumps(health_of(history(*said)))) < 1000


# What is shown of it

SLICE = {
    "platform": "tpu",
    "kind": "TPU v6 lite",
    "local": 4,
    "total": 32,
    "slices": 2,
    "topology": "4x4",
    "libtpu": "0.0.52",
}


def measured(**values: list[str]) -> TrialRecord:
    return record(health=health_of(history(health(0, "before", **values))))


def test_devices_in_words() -> None:
    assert device_words(SLICE) == "32 × TPU v6 lite, 2 slices of 4x4, libtpu 0.0.52"
    assert device_words({"kind": ["A", "B"], "platform": "gpu"}) == "A or B"
    assert device_words({"kind": "cpu", "platform": "cpu", "total": 3}) == ""
    assert device_words({}) == ""


def test_health_in_words() -> None:
    bad = measured(
        tpu_throttle_score=["0-0", "1-3"],
        ici_link_health=["tray1.chip3.ici1.int: 10"],
        hbm_capacity_usage=["50"],
        hbm_capacity_total=["200"],
    )
    assert list(health_words(bad)) == [
        "devices before the injection: throttled by up to 30 % (worker 0, 1); a link is not usable "
        "(worker 0, tray1.chip3.ici1.int); up to 25 % of their memory in use"
    ]
    assert troubled(bad)
    well = measured(tpu_throttle_score=["0-0"], ici_link_health=["a: 0"])
    assert list(health_words(well)) == [
        "devices before the injection: none throttled; links healthy"
    ]
    assert not troubled(well)
    gone = record(health={"after": {"workers": 1, "metrics": {}, "unavailable": {"2": "why"}}})
    assert list(health_words(gone)) == ["devices after the recovery: worker 2: unavailable: why"]


def test_the_method_says_whether_something_was_wrong() -> None:
    well, bad = measured(tpu_throttle_score=["0-0"]), measured(ici_link_health=["a: 6"])
    assert method_words([record()]) is None
    assert "no chip was throttled" in str(method_words([well, record()]))
    assert "in 1 a chip was throttled or a link was bad (0000)" in str(method_words([well, bad]))
    assert "nothing of health" in str(method_words([measured(bytes_in_use=["0: 1"])]))


@given(
    st.dictionaries(
        st.sampled_from(["before", "after", "x"]),
        st.recursive(
            st.none() | st.integers() | st.text(max_size=5),
            lambda inner: (
                st.lists(inner, max_size=3)
                | st.dictionaries(
                    st.sampled_from(["metrics", "unavailable", "most", "tpu_throttle_score"]), inner
                )
            ),
        ),
    )
)
def test_foreign_health_breaks_nothing(found: dict[str, Any]) -> None:
    """A record may be somebody else's, and this part of it is free-form."""
    kept = record(health=found)
    assert isinstance(list(health_words(kept)), list)
    method_words([kept])
    device_words(found)


def test_a_run_says_what_its_accelerators_are() -> None:
    begun = info()
    described = with_devices(begun, record(devices=SLICE))
    assert described.machine["device_kind"] == "TPU v6 lite"
    assert described.machine["devices"] == {"slices": 2, "topology": "4x4", "libtpu": "0.0.52"}
    assert with_devices(described, record(devices={**SLICE, "kind": "other"})) is described
    elsewhere = dataclasses.replace(CELL, environment="jax==0.9")
    assert with_devices(begun, record(devices=SLICE, cell=elsewhere)) is begun
    assert with_devices(begun, record(devices={"kind": "cpu", "platform": "cpu"})) is begun
    other = {**described.machine, "devices": {"topology": "2x8"}}
    assert machine_class(described.machine) != machine_class(other)
