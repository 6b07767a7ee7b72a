"""Runs of every version that was ever written: each is read as the present code would have it."""

from __future__ import annotations

import dataclasses
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from recoverybench.campaign.reference import load_reference
from recoverybench.cells import Cell
from recoverybench.errors import HarnessError, UsageError
from recoverybench.external.losses import CommandReference
from recoverybench.plan.suite import Suite
from recoverybench.records import TrialRecord, Verification
from recoverybench.results import migrations
from recoverybench.results.decoding import quick
from recoverybench.results.reading import read_object
from recoverybench.results.run_info import RunInfo
from recoverybench.results.store import RunDir, load, record_line
from recoverybench.vocabulary import SCHEMA_VERSION

SAMPLES = Path(__file__).parent / "samples"
V2_CELL = {"watchdog_factor": None, "replica_check": "off", "agreement": "off"}
V3_CELL = {
    "restore_topology": None,
    "checkpoint": "default",
    "page_cache": "warm",
    "environment": None,
}
V2_TRIAL: dict[str, Any] = {
    "workers": None,
    "recoveries": 0,
    "transitions": [],
    "restore_tier": None,
    "restore_received_bytes": None,
    "harmless": False,
    "false_alarms": 0,
    "preemption_save": None,
    "stopped": None,
    "soak": None,
}
V2_VERIFY = {"losses_within": 0, "losses_beyond": 0, "tolerance": None, "largest_difference": None}
V3_TRIAL = dict.fromkeys(
    [
        *("checkpoint_bytes", "raw_read_cold_s", "raw_read_warm_s", "restore_read_s"),
        *("save_stall_s", "save_s", "block", "position"),
    ]
)
V3_RUN: dict[str, Any] = {"environments": {}, "workloads": {}, "ended": {}}
V3_SUITE = {"precision": None, "budget_s": None}
V4_TRIAL = {"profiled": False}
V4_SUITE = {"profile": False}
V5_TRIAL: dict[str, Any] = {"clock_bound_s": {}}
V5_EVIDENCE = {"bound_s": 0.0}
V6_TRIAL: dict[str, Any] = {"neighbours": 0, "devices": {}, "health": {}}
V6_SUITE = {"isolation": "exclusive"}


@dataclasses.dataclass(frozen=True)
class Added:
    """What the present format says that a version did not."""

    cell: dict[str, Any]
    trial: dict[str, Any]
    verify: dict[str, Any]
    suite: dict[str, Any]
    run: dict[str, Any]
    evidence: dict[str, Any] = dataclasses.field(default_factory=lambda: V5_EVIDENCE)


V1 = Added(
    V2_CELL | V3_CELL,
    V2_TRIAL | V3_TRIAL | V4_TRIAL | V5_TRIAL | V6_TRIAL,
    V2_VERIFY,
    {"unsupported": []} | V3_SUITE | V4_SUITE | V6_SUITE,
    V3_RUN,
)
LATER_SUITE = V3_SUITE | V4_SUITE | V6_SUITE
V2 = Added(V3_CELL, V3_TRIAL | V4_TRIAL | V5_TRIAL | V6_TRIAL, {}, LATER_SUITE, V3_RUN)
LATER = {"block": None, "position": None} | V4_TRIAL | V5_TRIAL | V6_TRIAL
"""Of version 2, with all that its last files had."""
VERSIONS = {
    "v1": V1,
    "v2": V2,
    "v2-later": Added({"environment": None}, LATER, {}, LATER_SUITE, V3_RUN),
    "v2-command": Added(V3_CELL, LATER, {}, LATER_SUITE, V3_RUN),
    "v3": Added({}, V4_TRIAL | V5_TRIAL | V6_TRIAL, {}, V4_SUITE | V6_SUITE, {}),
    "v4": Added({}, V5_TRIAL | V6_TRIAL, {}, V6_SUITE, {}),
    "v5": Added({}, V6_TRIAL, {}, V6_SUITE, {}, {}),
    "v6": Added({}, {}, {}, {}, {}, {}),
}


def plain(record: TrialRecord) -> Any:
    return json.loads(json.dumps(record.as_dict()))


def json_lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_bytes().splitlines()]


def lines(sample: str) -> list[dict[str, Any]]:
    return json_lines(SAMPLES / sample / "trials.jsonl")


def wanted(old: dict[str, Any], added: Added) -> dict[str, Any]:
    new = {k: v for k, v in old.items() if k != "schema"} | added.trial
    new["cell"] = old["cell"] | added.cell
    new["verify"] = old["verify"] and old["verify"] | added.verify
    new["detection_evidence"] = [e | added.evidence for e in old["detection_evidence"]]
    return new


def test_there_is_a_sample_of_every_version() -> None:
    versions = {json.loads((p / "run.json").read_text())["schema"] for p in SAMPLES.iterdir()}
    assert versions == set(range(1, SCHEMA_VERSION + 1))
    assert {p.name for p in SAMPLES.iterdir()} == VERSIONS.keys()


@pytest.mark.parametrize("sample", VERSIONS)
def test_a_record_is_what_the_present_code_would_make_of_it(sample: str) -> None:
    run = load(SAMPLES / sample)
    assert run.trials and not run.dropped
    expected = [wanted(old, VERSIONS[sample]) for old in lines(sample)]
    assert [plain(trial) for trial in (*run.trials, *run.profiled)] == expected
    fields = {f.name for f in dataclasses.fields(TrialRecord)}
    assert all(one.keys() == fields for one in expected)
    assert len(run.frame()) == len(run.trials)


@pytest.mark.parametrize("sample", ["v5", "v6"])
def test_the_last_two_versions_are_read_quickly(sample: str) -> None:
    """The quick way takes every line, and makes the same of it as the slow one."""
    for line in (SAMPLES / sample / "trials.jsonl").read_bytes().splitlines():
        found = quick().record(line, "f")
        assert found is not None and plain(found) == wanted(json.loads(line), VERSIONS[sample])


@pytest.mark.parametrize("sample", VERSIONS)
def test_run_json_is_what_the_present_code_would_make_of_it(sample: str) -> None:
    old = json.loads((SAMPLES / sample / "run.json").read_text())
    added = VERSIONS[sample]
    suite = old["suite"] | added.suite
    suite["cells"] = [cell | added.cell for cell in old["suite"]["cells"]]
    expected = {**old, **added.run, "suite": suite, "schema": SCHEMA_VERSION}
    info = load(SAMPLES / sample).info
    assert json.loads(json.dumps(info.as_dict())) == expected
    assert expected.keys() == {f.name for f in dataclasses.fields(RunInfo)}
    assert suite.keys() == {f.name for f in dataclasses.fields(Suite)}
    assert {f.name for f in dataclasses.fields(Cell)} == suite["cells"][0].keys()


def test_a_version_2_file_of_before_losses_went_uncompared() -> None:
    (old, *_) = lines("v2")
    del old["verify"]["losses_beyond"]
    assert migrations.migrate("trial", {**old, "schema": 2}, "f")["verify"]["losses_beyond"] == 0


@pytest.mark.parametrize("sample", VERSIONS)
def test_references_and_settings_of_commands_are_read(sample: str) -> None:
    run = SAMPLES / sample
    for path in (run / "reference").glob("*.json"):
        data = read_object(path, "reference", within=run)
        assert data["schema"] == SCHEMA_VERSION
        if data.get("kind") == "command":
            assert CommandReference.from_dict(data).id == path.stem
        else:
            assert load_reference(path).id == path.stem
    for path in (run / "commands").glob("*.json"):
        assert read_object(path, "command", within=run)["schema"] == SCHEMA_VERSION


def test_migrations_leave_their_input_alone_and_change_nothing_that_is_there() -> None:
    for sample in VERSIONS:
        for old in lines(sample):
            before = json.dumps(old)
            new = migrations.migrate("trial", old, "f")
            assert json.dumps(old) == before
            assert migrations.migrate("trial", {**new, "schema": 1}, "f") == new


def test_every_step_has_a_file() -> None:
    folder = Path(migrations.__file__).parent
    steps = {f"v{version}.py" for version in range(1, SCHEMA_VERSION)}
    assert {path.name for path in folder.glob("v*.py")} == steps


@pytest.mark.parametrize("data", [{}, {"cell": 3, "verify": [], "suite": 1}, {"suite": {}}])
@pytest.mark.parametrize("kind", migrations.KINDS)
def test_data_of_another_shape_is_left_to_the_check(kind: str, data: dict[str, Any]) -> None:
    for version in range(1, SCHEMA_VERSION):
        found = migrations.migrate(kind, {**data, "schema": version}, "f")
        assert {**found, **data} | found == found


@pytest.mark.parametrize("version", [SCHEMA_VERSION + 1, 0, -1, True, "3", 3.0, None, [3]])
def test_a_version_that_is_not_known_is_refused_by_name(version: object, tmp_path: Path) -> None:
    run = tmp_path / "run"
    shutil.copytree(SAMPLES / "v3", run)
    path = run / "trials.jsonl"
    first, second = path.read_text().splitlines(keepends=True)
    path.write_text(first + json.dumps({**json.loads(second), "schema": version}) + "\n")
    expected = f"schema = {version!r}: expected a version from 1 to {SCHEMA_VERSION}, which this"
    with pytest.raises(UsageError) as caught:
        load(run)
    assert str(caught.value).startswith(f"{path}:2: {expected}")
    (reference,) = (run / "reference").glob("*.json")
    reference.write_text(json.dumps({**json.loads(reference.read_text()), "schema": version}))
    with pytest.raises(HarnessError) as harness:
        load_reference(reference)
    assert f"{reference}: {expected}" in str(harness.value)
    info = run / "run.json"
    info.write_text(json.dumps({**json.loads(info.read_text()), "schema": version}))
    with pytest.raises(UsageError) as caught:
        load(run)
    assert str(caught.value).startswith(f"{info}: {expected}")


def test_a_run_of_an_older_version_goes_on_in_the_present_one(tmp_path: Path) -> None:
    run = tmp_path / "run"
    shutil.copytree(SAMPLES / "v1", run)
    before = load(run)
    resumed, finished = RunDir.resume(run, before.info.suite)
    with resumed:
        resumed.append(dataclasses.replace(finished[0], trial="0100"))
        resumed.finish("complete", 1.0)
    versions = [line.get("schema") for line in json_lines(run / "trials.jsonl")]
    assert versions == [None, None, None, SCHEMA_VERSION]
    assert json.loads((run / "run.json").read_text())["schema"] == SCHEMA_VERSION
    after = load(run)
    assert after.trials[:3] == before.trials
    assert after.trials[3] == dataclasses.replace(before.trials[0], trial="0100")


def test_every_line_and_file_that_is_written_says_its_version() -> None:
    record = load(SAMPLES / "v6").trials[0]
    assert record_line(record).startswith(b'{"schema": %d, "trial": "0000"' % SCHEMA_VERSION)
    assert all(line["schema"] == SCHEMA_VERSION for line in lines("v6"))
    for path in (SAMPLES / "v6" / "reference").glob("*.json"):
        assert json.loads(path.read_text())["schema"] == SCHEMA_VERSION
    for path in (SAMPLES / "v6" / "journal").glob("*/*.jsonl"):
        assert json.loads(path.read_text().splitlines()[0])["schema"] == 1
    assert record.verify is not None and type(record.verify) is Verification
