"""A platform that is not the CPU, as far as a worker says what it trains on: a whole trial."""

from __future__ import annotations

from pathlib import Path

import pytest

from recoverybench.devices import health_words
from tests.real_support import Command, only, story, suite_text

pytestmark = [pytest.mark.real, pytest.mark.timeout(120)]

DEVICES = """
try:
    from recoverybench.worker import accelerators
except ImportError:
    pass
else:
    class Client:
        platform_version = "made up"

    class Device:
        platform, device_kind, client, core_on_chip, slice_index = "tpu", "TPU v0", Client, 0, 0

        def __init__(self, index):
            self.id, self.process_index, self.coords = index, index, (index, 0, 0)

        def memory_stats(self):
            return None

    accelerators.here = lambda: ([Device(0)], [Device(i) for i in range(3)])
"""

SDK = """
class Metric:
    def data(self):
        return ["0-0", "1-3"]


class tpumonitoring:
    list_supported_metrics = staticmethod(lambda: ["tpu_throttle_score"])
    get_metric = staticmethod(lambda name: Metric())
"""


def test_what_a_chip_says_is_in_the_record_and_the_run(command: Command, tmp_path: Path) -> None:
    fake = tmp_path / "fake"
    (fake / "libtpu").mkdir(parents=True)
    (fake / "sitecustomize.py").write_text(DEVICES, encoding="utf-8")
    (fake / "libtpu" / "__init__.py").write_text("", encoding="utf-8")
    (fake / "libtpu" / "sdk.py").write_text(SDK, encoding="utf-8")
    elsewhere = Command(command.temporary, {**command.environment, "PYTHONPATH": str(fake)})
    run = elsewhere.measure(tmp_path, suite_text({"strategy": ["elastic"]}))
    record = only(run)
    assert record.outcome == "recovered", story(run, record)
    assert record.devices["kind"] == "TPU v0"
    assert record.devices["topology"] == "3x1"
    assert [words.partition(" (")[0] for words in health_words(record)] == [
        "devices before the injection: throttled by up to 30 %",
        "devices after the recovery: throttled by up to 30 %",
    ]
    assert {said["workers"] for said in record.health.values()} == {3}
    assert run.info.machine["device_kind"] == "TPU v0"
