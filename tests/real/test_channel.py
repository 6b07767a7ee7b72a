"""Real jobs whose control channel is TCP: in peace, and with a network and strangers that are not.

The launchers are those of `tests/`, as a package of somebody else's would bring them.
"""

from __future__ import annotations

import dataclasses
import json
import os
import re
from pathlib import Path
from typing import Any

import pytest

from recoverybench.wire.handshake import SECRET_VARIABLE
from tests.conftest import REPOSITORY
from tests.loopback import SECRET_FILE
from tests.real_support import Command, lines_of, only, suite_text

KILLED = {"strategy": ["elastic"]}
DECOY = "0" * 64
"""A secret in the environment of the command itself, which must not be the run's."""


@pytest.fixture
def elsewhere(command: Command, tmp_path: Path) -> Command:
    """The command, with the launchers ``loopback`` and ``harsh``; its own environment has a secret
    that must not be the run's.
    """
    package = tmp_path / "site" / "launchers_of_tests-1.dist-info"
    package.mkdir(parents=True)
    (package / "METADATA").write_text("Metadata-Version: 2.1\nName: launchers_of_tests\nVersion: 1")
    (package / "entry_points.txt").write_text(
        "[recoverybench.launchers]\nloopback = tests.loopback\nharsh = tests.harsh\n"
    )
    path = os.pathsep.join([str(REPOSITORY), str(package.parent)])
    more = {"PYTHONPATH": path, SECRET_VARIABLE: DECOY, SECRET_FILE: str(tmp_path / "secret")}
    return dataclasses.replace(command, environment={**command.environment, **more})


def events(directory: Path, name: str) -> list[dict[str, Any]]:
    journal = directory / "run" / "journal" / "0000" / "supervisor.0.jsonl"
    return [line for line in lines_of(journal) if line["event"] == name]


def check_no_secret(directory: Path) -> None:
    """Nothing that a run leaves has its secret in it, in text or as bytes."""
    secret = (directory / "secret").read_text()
    assert len(secret) == 64 and secret != DECOY
    for path in directory.rglob("*"):
        if path.is_file() and path != directory / "secret":
            content = path.read_bytes()
            assert secret.encode() not in content and bytes.fromhex(secret) not in content, path
            assert SECRET_VARIABLE.encode() not in content, path
            assert DECOY.encode() not in content, path


def test_a_job_over_tcp_is_as_one_on_this_host(elsewhere: Command, tmp_path: Path) -> None:
    suite = suite_text({"strategy": ["restart"]})
    run = elsewhere.measure(tmp_path, suite, "--launcher", "loopback")
    record = only(run, strategy="restart")
    assert (record.outcome, record.error) == ("recovered", None)
    assert record.restored_step in (8, 16)  # the save of step 16 may be under way
    assert record.verify is not None and record.verify.passed
    assert record.detected_by in ("process_exit", "collective_error")  # whichever is seen first
    assert not events(tmp_path, "stranger") and not events(tmp_path, "channel_resumed")
    check_no_secret(tmp_path)
    left = [path for path in (tmp_path / "run").iterdir() if path.name.startswith("recoverybench-")]
    assert not left


def test_a_job_goes_on_though_its_network_is_cut_and_strangers_are_at_the_door(
    elsewhere: Command, tmp_path: Path
) -> None:
    run = elsewhere.measure(tmp_path, suite_text(KILLED), "--launcher", "harsh")
    record = only(run, strategy="elastic")
    assert (record.outcome, record.error) == ("recovered", None)
    assert record.restored_step in (8, 16)  # the save of step 16 may be under way
    assert record.verify is not None and record.verify.passed
    assert {e.mechanism for e in record.detection_evidence} <= {"process_exit", "collective_error"}
    resumed = events(tmp_path, "channel_resumed")
    assert {line["worker"] for line in resumed} == {0, 1, 2}
    logs = tmp_path / "run" / "logs"
    assert int((logs / "cuts.txt").read_text()) > len(resumed)  # handshakes were cut as well
    said = (logs / "strangers.txt").read_text()
    assert re.fullmatch(r"1000 at once\n(round\n)+", said), said  # and got nothing but challenges
    # How many of the thousand have been met by the trial's end depends on the machine's time.
    assert events(tmp_path, "strangers")[0]["count"] > len(events(tmp_path, "stranger")) == 16
    assert (logs / "recorded").stat().st_size >= 137  # an answer, which was replayed
    check_no_secret(tmp_path)
    assert json.loads((tmp_path / "run" / "run.json").read_text())["launcher"] == "harsh"
