"""Files of commands: what they may say, and what is refused with one line."""

from __future__ import annotations

import dataclasses
import re
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recoverybench.cells import Cell
from recoverybench.errors import UsageError
from recoverybench.external import spec
from recoverybench.external.adhoc import command_file
from recoverybench.external.start import Settings, environment
from recoverybench.external.support import why_not
from recoverybench.plan import catalogue

LEAST: dict[str, Any] = {"workload": {"kind": "command", "start": "bash train.sh"}}


def parsed(tmp_path: Path, /, **tables: Any) -> spec.Command:
    merged = {**LEAST, **tables}
    merged["workload"] = {**LEAST["workload"], **tables.get("workload", {})}
    return spec.parse(merged, "x.toml", tmp_path / "x.toml")


def test_the_least_that_a_file_says(tmp_path: Path) -> None:
    command = parsed(tmp_path)
    assert command.start == "bash train.sh" and not command.each and command.terminal
    assert command.python == sys.executable and command.warm_up_s == 180.0
    assert command.verify == "losses" and command.tolerance is None and command.back == "all"
    assert command.ranks.environment == spec.RANK_VARIABLES
    assert not command.patterns.expressions


@pytest.mark.parametrize(
    ("tables", "said"),
    [
        ({"workload": {"kind": "job"}}, "x.toml: workload.kind = 'job': expected \"command\""),
        ({"workload": {"start": ""}}, "x.toml: workload.start = '': expected a command"),
        ({"workload": {"start": []}}, "x.toml: workload.start = []"),
        ({"workload": {"strat": 1}}, "workload.strat = 1: unknown key: did you mean 'start'?"),
        ({"workload": {"start": "a {steps} {setps}"}}, "did you mean 'steps'?"),
        ({"workload": {"start": "a {rank}"}}, "{rank} only with each = true"),
        ({"workload": {"each": 1}}, "x.toml: workload.each = 1: expected true or false"),
        ({"workload": {"files": ["no.py"]}}, "expected files that exist, relative to this one"),
        ({"workload": {"cwd": "nowhere"}}, "expected a directory that exists"),
        ({"workload": {"warm_up": "soon"}}, "x.toml: workload.warm_up = 'soon'"),
        ({"workload": {"verify": "all"}}, "known: losses, none"),
        ({"workload": {"back": "most"}}, "known: all, any"),
        ({"workload": {"loss_tolerance": 2}}, "a relative difference between 0 and 1"),
        ({"environment": {"A": 1}}, "x.toml: environment.A = 1: expected text"),
        ({"ranks": {"arguments": r"--rank \d"}}, "an expression with a group"),
        ({"ranks": {"process": "("}}, "x.toml: ranks.process = '(': expected a regular expression"),
        ({"patterns": {"use": "maxtxt"}}, "did you mean 'maxtext'?"),
        ({"patterns": {"step": "step"}}, "an expression with the group (?P<step>…)"),
        ({"patterns": {"step": r"(?P<setp>\d)"}}, "did you mean 'step'?"),
        ({"patterns": {"stepp": "x"}}, "patterns.stepp = 'x': unknown key: did you mean 'step'?"),
        ({"suite": {}}, "x.toml: suite = {}: unknown key"),
    ],
)
def test_what_cannot_be_used_is_named(tmp_path: Path, tables: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError) as caught:
        parsed(tmp_path, **tables)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_what_is_no_toml_is_said_on_one_line(tmp_path: Path) -> None:
    path = tmp_path / "broken.toml"
    path.write_text("[workload\n")
    with pytest.raises(UsageError, match="not a TOML file"):
        spec.check_command(str(path), "--workload")
    with pytest.raises(UsageError, match="expected a TOML file that exists"):
        spec.check_command("nowhere.toml", "--workload")
    with pytest.raises(UsageError, match="did you mean 'external/jax-loop'"):
        spec.check_command("external/jax-lop", "--workload")


def test_a_path_becomes_absolute_and_a_shipped_name_stays(tmp_path: Path) -> None:
    path = tmp_path / "x.toml"
    path.write_text('[workload]\nkind = "command"\nstart = "true"\n')
    assert spec.check_command(str(path), "") == str(path)
    assert spec.check_command("external/jax-loop", "") == "external/jax-loop"


@pytest.mark.parametrize("name", [name for name, _ in spec.shipped()])
def test_every_command_that_ships_is_whole(name: str) -> None:
    command = spec.load(name)
    assert command.description
    assert command.files, "a change of what it runs has to make a new reference"
    assert all(file.parent == command.path.parent for file in command.files)


def test_three_peers_ship() -> None:
    assert {name for name, _ in spec.shipped()} >= {
        "external/jax-loop",
        "external/torchrun-ddp",
        "external/torchft-ddp",
    }


@given(st.text(alphabet="ab{}$_ rankport", max_size=30))
def test_filling_in_changes_nothing_but_what_is_in_known_braces(text: str) -> None:
    values = {"rank": "3", "port": "77"}
    filled = spec.filled(text, values)
    plain = re.sub(r"(?<![$\\])\{(?:rank|port)\}", "", text)
    assert re.sub(r"(?<![$\\])\{(?:rank|port)\}", "", filled) in (filled, plain)
    if "{rank}" not in text and "{port}" not in text:
        assert filled == text


def test_braces_of_the_shell_are_left_to_it() -> None:
    assert spec.filled("${rank} {rank} {a,b} \\{rank}", {"rank": "1"}) == "${rank} 1 {a,b} \\{rank}"


def test_python_comes_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PEER", "/there/python")
    assert spec.expanded("${PEER}") == "/there/python"
    assert spec.expanded("${NO_SUCH_PEER:-python3}") == "python3"
    assert spec.expanded("${NO_SUCH_PEER}") == ""


def test_what_a_command_is_told(tmp_path: Path) -> None:
    command = parsed(tmp_path, environment={"CKPT": "{directory}/x", "PYTHONHASHSEED": "0"})
    settings = Settings(
        world=3,
        devices=2,
        steps=45,
        interval=10,
        seed=7,
        port=1234,
        directory=tmp_path / "ckpt",
        marks=tmp_path / "marks",
    )
    found = environment(command, settings, 1, {"HOME": "/h", "PYTHONUNBUFFERED": "1"})
    assert found["HOME"] == "/h" and found["CKPT"] == f"{tmp_path}/ckpt/x"
    assert found["RECOVERYBENCH_RANK"] == "1" and found["RECOVERYBENCH_WORLD_SIZE"] == "3"
    assert found["RECOVERYBENCH_PORT"] == "1234" and found["RECOVERYBENCH_STEPS"] == "45"
    assert "PYTHONUNBUFFERED" not in found, "a line and its end would be written apart"
    piped = dataclasses.replace(command, terminal=False)
    assert environment(piped, settings, None, {})["PYTHONUNBUFFERED"] == "1"
    assert "RECOVERYBENCH_RANK" not in environment(command, settings, None, {})


def cell(**changes: Any) -> Cell:
    base = {
        "workload": "external/jax-loop",
        "topology": "3x1",
        "strategy": "own",
        "state_source": "storage",
        "fault": "kill",
        "trigger": "step:25",
        "interval": 10,
        "victim": None,
        "heartbeat_s": 10.0,
        "watchdog_s": 5.0,
        "coordinator": "worker0",
        "compile_cache": "executable",
    }
    return Cell.from_dict({**base, **changes})


def test_what_can_be_asked_of_a_command() -> None:
    assert why_not(cell()) is None
    assert why_not(cell(workload="mlp:tiny", strategy="restart")) is None
    assert "mlp:tiny is none" in str(why_not(cell(workload="mlp:tiny")))
    assert "needs strategy own" in str(why_not(cell(strategy="restart")))
    assert "from outside" in str(why_not(cell(fault="exit:3")))
    assert "save" in str(why_not(cell(trigger="save")))
    assert "restore_topology" in str(why_not(cell(restore_topology="2x1")))


def test_a_missing_package_is_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PEER_PYTHON", "/no/such/python")
    reason = why_not(cell(workload="external/torchrun-ddp"))
    assert reason is not None and "torch" in reason and "/no/such/python" in reason


def test_faults_from_outside_are_signals() -> None:
    outside = {n for n in catalogue.names("faults") if catalogue.literal("faults", n, "OUTSIDE")}
    assert outside == {
        "kill",
        "segv",
        "abort",
        "hang",
        "interrupt",
        "preempt",
        "kill-many",
        "kill-all",
    }


def test_a_command_of_the_command_line_is_a_file_too(tmp_path: Path) -> None:
    path = command_file('echo "a \\ b" {steps}', "maxtext", tmp_path, tmp_path / "commands")
    command = spec.load(str(path))
    assert command.start == 'echo "a \\ b" {steps}'
    assert command.cwd == tmp_path and command.patterns.name == "maxtext"
    assert path == command_file('echo "a \\ b" {steps}', "maxtext", tmp_path, tmp_path / "commands")
    with pytest.raises(UsageError, match="--patterns = 'maxtex'"):
        command_file("x", "maxtex", tmp_path, tmp_path)
    with pytest.raises(UsageError, match="--command = ' '"):
        command_file(" ", None, tmp_path, tmp_path)
