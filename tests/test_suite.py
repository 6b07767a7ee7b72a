"""Suites: what TOML and the command line may say, and what is made of it."""

from __future__ import annotations

import dataclasses
import itertools
import json
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from recoverybench import machine
from recoverybench.cells import FACTORS
from recoverybench.errors import EXIT_USAGE, UsageError
from recoverybench.plan import catalogue
from recoverybench.plan.matrix import matches, read_matrix
from recoverybench.plan.suite import Overrides, Suite, load_suite
from tests.strategies import suites

SUITE = """
[suite]
name = "mine"
trials = 2

[matrix]
workload = ["transformer:tiny"]
topology = ["3x1"]
strategy = ["restart", "elastic"]
fault = ["kill"]
trigger = ["step:25"]
interval = [10]
"""

Write = Callable[[str], str]


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Write:
    """Writes ``s.toml`` into the current folder and returns its relative path."""
    monkeypatch.chdir(tmp_path)

    def put(text: str) -> str:
        Path("s.toml").write_text(text)
        return "./s.toml"

    return put


def edited(**changes: str) -> str:
    """`SUITE` with ``key = ...`` lines replaced, or added at the end."""
    lines = SUITE.splitlines()
    for key, value in changes.items():
        at = [i for i, line in enumerate(lines) if line.startswith(f"{key} =")]
        line = f"{key} = {value}"
        if at:
            lines[at[0]] = line
        else:
            lines.append(line)
    return "\n".join(lines)


def refusal(path: str, **overrides: Any) -> str:
    """The one line with which a suite is refused."""
    with pytest.raises(UsageError) as caught:
        load_suite(path, Overrides(**overrides), device_limit=16)
    message = str(caught.value)
    assert caught.value.exit_code == EXIT_USAGE
    assert "\n" not in message
    return message


def test_the_default_suite_is_what_the_readme_says() -> None:
    suite = load_suite("quick", device_limit=16)
    assert [cell.strategy for cell in suite.cells] == ["restart", "elastic", "hot-spare"]
    assert (suite.trials, suite.seed, suite.deadline_s, suite.steps) == (3, 0, 60.0, 45)
    assert {cell.victim for cell in suite.cells} == {None}
    assert {cell.heartbeat_s for cell in suite.cells} == {10.0}
    assert {cell.watchdog_s for cell in suite.cells} == {5.0}
    assert {cell.compile_cache for cell in suite.cells} == {"executable"}


def test_optional_factors_and_scalars(write: Write) -> None:
    path = write(
        edited(
            interval="1e1",
            victim='["seed", 2]',
            heartbeat='"20s"',
            watchdog='["off", "500ms"]',
            compile_cache='"persistent"',
        )
    )
    suite = load_suite(path, device_limit=16)
    assert len(suite.cells) == 2 * 2 * 2
    assert {type(cell.interval) for cell in suite.cells} == {int}
    assert {cell.victim for cell in suite.cells} == {None, 2}
    assert {cell.watchdog_s for cell in suite.cells} == {None, 0.5}
    assert {cell.heartbeat_s for cell in suite.cells} == {20.0}
    assert {cell.compile_cache for cell in suite.cells} == {"persistent"}


MATRIX = "./s.toml: matrix."
TRIALS = 'expected a whole number from 1 to 10000, or "auto"'
WHOLE = "expected a whole number of at least 1"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"interval": "0"}, f"{MATRIX}interval = 0: {WHOLE}"),
        ({"interval": "[10, -1]"}, f"{MATRIX}interval = -1: {WHOLE}"),
        ({"interval": '"ten"'}, f"{MATRIX}interval = 'ten': {WHOLE}"),
        ({"interval": "true"}, f"{MATRIX}interval = True: {WHOLE}"),
        ({"interval": "1.5"}, f"{MATRIX}interval = 1.5: {WHOLE}"),
        ({"interval": "nan"}, f"{MATRIX}interval = nan: {WHOLE}"),
        ({"interval": "[]"}, f"{MATRIX}interval = []: expected at least one value"),
        ({"interval": "[[1]]"}, f"{MATRIX}interval = [1]: {WHOLE}"),
        ({"interval": "[5, 5]"}, f"{MATRIX}interval = 5: expected each value once"),
        ({"interval": "[5, 5.0]"}, f"{MATRIX}interval = 5.0: expected each value once"),
        ({"interval": "{}"}, f"{MATRIX}interval = {{}}: {WHOLE}"),
        ({"intervall": "[10]"}, f"{MATRIX}intervall = [10]: unknown key: did you mean 'interval'?"),
        (
            {"workload": '"transformr:tiny"'},
            f"{MATRIX}workload = 'transformr:tiny': did you mean 'transformer:tiny'?",
        ),
        (
            {"workload": '"transformer"'},
            f"{MATRIX}workload = 'transformer': did you mean 'transformer:tiny'?",
        ),
        ({"workload": "3"}, f"{MATRIX}workload = 3: known: diffusion:dit-b4, "),
        ({"strategy": '"elastik"'}, f"{MATRIX}strategy = 'elastik': did you mean 'elastic'?"),
        ({"strategy": "[1]"}, f"{MATRIX}strategy = 1: known: elastic, hot-spare, "),
        ({"fault": '"kil"'}, f"{MATRIX}fault = 'kil': did you mean 'kill'?"),
        ({"fault": '"kill:9"'}, f"{MATRIX}fault = 'kill:9': "),
        ({"fault": '"kill:"'}, f"{MATRIX}fault = 'kill:': expected an argument after the colon"),
        ({"fault": '"preempt:soon"'}, f"{MATRIX}fault = 'preempt:soon': "),
        ({"state_source": '"tape"'}, f"{MATRIX}state_source = 'tape': "),
        ({"topology": '"3"'}, f"{MATRIX}topology = '3': expected workers x devices"),
        ({"topology": '"0x1"'}, f"{MATRIX}topology = '0x1': expected workers x devices"),
        ({"topology": '"3x-1"'}, f"{MATRIX}topology = '3x-1': expected workers x devices"),
        ({"topology": "31"}, f"{MATRIX}topology = 31: expected workers x devices"),
        ({"topology": '"1x3"'}, f"{MATRIX}topology = '1x3': expected at least 2 workers"),
        ({"topology": '"5x1"'}, f"{MATRIX}topology = '5x1': expected a number of devices that"),
        (
            {"topology": '"6x4"'},
            f"{MATRIX}topology = '6x4': expected at most 16 devices in all, which is what this",
        ),
        ({"trigger": '"step:0"'}, f"{MATRIX}trigger = 'step:0': expected step:N"),
        ({"trigger": '"step:45"'}, f"{MATRIX}trigger = 'step:45': expected a step before the last"),
        ({"trigger": '"save:0"'}, f"{MATRIX}trigger = 'save:0': expected save, or save:K"),
        ({"trigger": '"save:3:half"'}, f"{MATRIX}trigger = 'save:3:half': expected save, or"),
        ({"trigger": '"time:-1s"'}, f"{MATRIX}trigger = 'time:-1s': expected time:T"),
        ({"trigger": '"random:3"'}, f"{MATRIX}trigger = 'random:3': expected random without"),
        ({"trigger": '"reload"'}, f"{MATRIX}trigger = 'reload': "),
        ({"trigger": '"restore"', "interval": "[20]"}, f"{MATRIX}trigger = 'restore': expected a"),
        ({"watchdog_factor": "[0.5]"}, f"{MATRIX}watchdog_factor = 0.5: expected a number of"),
        ({"replica_check": '["step"]'}, f"{MATRIX}replica_check = 'step': "),
        ({"coordinator": '["worker1"]'}, f"{MATRIX}coordinator = 'worker1': "),
        ({"victim": "3"}, f"{MATRIX}victim = 3: expected a worker of topology 3x1: 0 to 2"),
        ({"victim": "-1"}, f"{MATRIX}victim = -1: expected a worker, counted from 0"),
        ({"victim": "true"}, f"{MATRIX}victim = True: expected a worker, counted from 0"),
        ({"heartbeat": '"1.5s"'}, f"{MATRIX}heartbeat = '1.5s': expected a duration of whole"),
        ({"heartbeat": '"off"'}, f"{MATRIX}heartbeat = 'off': expected a duration of whole"),
        ({"watchdog": "false"}, f"{MATRIX}watchdog = False: expected a positive duration"),
        ({"watchdog": "0"}, f"{MATRIX}watchdog = 0: expected a positive duration"),
        ({"coordinator": '"worker9"'}, f"{MATRIX}coordinator = 'worker9': "),
        ({"compile_cache": "true"}, f"{MATRIX}compile_cache = True: known: executable, off, pers"),
        ({"exclude": "3"}, f"{MATRIX}exclude = 3: expected tables [[matrix.exclude]]"),
        ({"include": "[1]"}, f"{MATRIX}include = [1]: expected tables [[matrix.include]]"),
        ({"name": '"a/b"'}, "./s.toml: suite.name = 'a/b': expected a name of letters"),
        ({"name": '""'}, "./s.toml: suite.name = '': expected a name of letters"),
        ({"name": "3"}, "./s.toml: suite.name = 3: expected a name of letters"),
        ({"trials": "0"}, f"./s.toml: suite.trials = 0: {TRIALS}"),
        ({"trials": '"x"'}, f"./s.toml: suite.trials = 'x': {TRIALS}"),
    ],
)
def test_bad_values_in_toml(write: Write, changes: dict[str, str], message: str) -> None:
    assert refusal(write(edited(**changes))).startswith(message)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("seed = -1", "./s.toml: suite.seed = -1: expected a whole number of at least 0"),
        ("steps = 25", f"{MATRIX}trigger = 'step:25': expected a step before the last"),
        ("steps = 0", f"./s.toml: suite.steps = 0: {WHOLE}"),
        ('deadline = "soon"', "./s.toml: suite.deadline = 'soon': expected a positive duration"),
        ("deadline = 0", "./s.toml: suite.deadline = 0: expected a positive duration"),
        ("description = 3", "./s.toml: suite.description = 3: expected one line of text"),
        ('data = "none.txt"', "./s.toml: suite.data = 'none.txt': expected a file that exists"),
        ('data = "."', "./s.toml: suite.data = '.': expected a file that exists"),
        ("data = 1", "./s.toml: suite.data = 1: expected a file that exists"),
        ("trails = 3", "./s.toml: suite.trails = 3: unknown key: did you mean 'trials'?"),
    ],
)
def test_bad_values_of_the_suite_itself(write: Write, line: str, message: str) -> None:
    assert refusal(write(SUITE.replace("trials = 2", line))).startswith(message)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "./s.toml: [suite] is missing"),
        ("suite = 3\n[matrix]", "./s.toml: suite = 3: expected a table [suite]"),
        ('[suite]\nname = "x"', "./s.toml: [matrix] is missing"),
        ("[suite]\n[matrix]", "./s.toml: suite.name is missing: expected a name"),
        ('[suite]\nname="x"\n[matrix]', "./s.toml: matrix.workload is missing"),
        ("[suit]\n", "./s.toml: suit = {}: unknown key: did you mean 'suite'?"),
        ("[suite]\nname = x\n", "./s.toml:2: not TOML: Invalid value"),
        ('[suite]\nname = "x', "./s.toml:2: not TOML: "),
        ('a = 1\na = "2"\n', "./s.toml:2: not TOML: Cannot overwrite a value"),
    ],
)
def test_files_that_are_no_suite(write: Write, text: str, message: str) -> None:
    assert refusal(write(text)).startswith(message)


def test_a_file_that_is_not_text(write: Write) -> None:
    path = write("")
    Path(path).write_bytes(b"[suite]\n\xff")
    assert refusal(path) == "./s.toml:2: not UTF-8: expected a TOML file"


def test_suites_that_are_not_there(write: Write) -> None:
    write("")
    assert refusal("quik").startswith("SUITE = 'quik': did you mean 'quick'? known: ")
    assert refusal("none.toml").startswith("SUITE = 'none.toml': expected a TOML file that exists")
    Path("folder.toml").mkdir()
    assert refusal("folder.toml").startswith("SUITE = 'folder.toml': expected a TOML file")


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ({"interval": ("ten",)}, f"--interval = 'ten': {WHOLE}"),
        ({"interval": ("10", "1e1")}, "--interval = '1e1': expected each value once"),
        ({"interval": ("9" * 30,)}, f"--interval = '{'9' * 30}': {WHOLE}"),
        ({"topology": ("3y1",)}, "--topology = '3y1': expected workers x devices"),
        ({"topology": ("2x9",)}, "--topology = '2x9': expected at most 16 devices"),
        ({"state_source": ("x",)}, "--state-source = 'x': known: local, peer, "),
        ({"compile_cache": ("x",)}, "--compile-cache = 'x': "),
        ({"victim": ("9",)}, "--victim = 9: expected a worker of topology 3x1"),
        ({"victim": ("x",)}, "--victim = 'x': expected a worker, counted from 0"),
        ({"heartbeat": ("0s",)}, "--heartbeat = '0s': expected a duration of whole seconds"),
        ({"heartbeat": ("9999999h",)}, "--heartbeat = '9999999h': expected a duration of whole"),
        ({"watchdog": ("x",)}, "--watchdog = 'x': expected a positive duration"),
        ({"trigger": ("step:99",)}, "--trigger = 'step:99': expected a step before the last"),
        ({"steps": "20"}, f"{MATRIX}trigger = 'step:25': expected a step before the last"),
        ({"trials": "two"}, f"--trials = 'two': {TRIALS}"),
        ({"trials": 0}, f"--trials = 0: {TRIALS}"),
        ({"seed": "-3"}, "--seed = '-3': expected a whole number of at least 0"),
        ({"deadline": "x"}, "--deadline = 'x': expected a positive duration"),
        ({"data": "none.txt"}, "--data = 'none.txt': expected a file that exists"),
        ({"data": ""}, "--data = '': expected a file that exists"),
    ],
)
def test_bad_values_on_the_command_line(
    write: Write, overrides: dict[str, Any], message: str
) -> None:
    assert refusal(write(SUITE), **overrides).startswith(message)


def test_the_command_line_replaces_what_the_suite_says(write: Write) -> None:
    path = write(SUITE)
    Path("my.txt").write_text("text" * 100)
    suite = load_suite(
        path,
        Overrides(
            strategy=("hot-spare",),
            interval=("5", "20"),
            victim=("0",),
            watchdog=("off",),
            trials="7",
            seed="9",
            deadline="2m",
            steps="30",
            data="my.txt",
        ),
        device_limit=16,
    )
    assert {(c.strategy, c.interval, c.victim, c.watchdog_s) for c in suite.cells} == {
        ("hot-spare", 5, 0, None),
        ("hot-spare", 20, 0, None),
    }
    assert (suite.trials, suite.seed, suite.deadline_s, suite.steps) == (7, 9, 120.0, 30)
    assert suite.data == str(Path("my.txt").resolve())


def test_factors_may_come_from_the_command_line_alone(write: Write) -> None:
    path = write(SUITE.replace('fault = ["kill"]', ""))
    assert refusal(path) == "./s.toml: matrix.fault is missing: expected a list of values"
    suite = load_suite(path, Overrides(fault=("hang",)), device_limit=16)
    assert {cell.fault for cell in suite.cells} == {"hang"}


def test_data_of_a_suite_lies_beside_the_suite(
    write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(SUITE.replace("trials = 2", 'data = "my.txt"'))
    Path("my.txt").write_text("text" * 100)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    suite = load_suite("../s.toml", device_limit=16)
    assert suite.data == str((tmp_path / "my.txt").resolve())


def test_data_has_to_hold_one_batch(write: Write) -> None:
    path = write(SUITE)
    Path("short.txt").write_text("x" * 384)
    with pytest.raises(UsageError) as caught:
        load_suite(path, Overrides(data="short.txt"), device_limit=16)
    said = str(caught.value)
    assert said.startswith("--data = ") and "at least 385 bytes" in said and "384" in said
    Path("short.txt").write_text("x" * 385)
    load_suite(path, Overrides(data="short.txt"), device_limit=16)


def test_the_limit_of_devices_is_this_machine_s(
    write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine, "cores", lambda: 1)
    path = write(edited(topology='"3x4"'))
    with pytest.raises(UsageError, match=r"topology = '3x4': expected at most 8 devices"):
        load_suite(path)


def test_exclude_and_include(write: Write) -> None:
    text = edited(interval="[10, 20]") + (
        '\n[[matrix.exclude]]\nstrategy = "restart"\ninterval = [10]\n'
        '[[matrix.include]]\nstrategy = ["hot-spare"]\nvictim = [0, 1]\n'
    )
    path = write(text)
    found = [(c.strategy, c.interval, c.victim) for c in load_suite(path, device_limit=16).cells]
    assert found == [
        ("restart", 20, None),
        ("elastic", 10, None),
        ("elastic", 20, None),
        ("hot-spare", 10, 0),
        ("hot-spare", 10, 1),
    ]
    narrowed = load_suite(path, Overrides(strategy=("restart",)), device_limit=16)
    assert [(c.strategy, c.interval) for c in narrowed.cells] == [("restart", 20)]


@pytest.mark.parametrize(
    ("rules", "message"),
    [
        ("[[matrix.exclude]]", f"{MATRIX}exclude[0] = {{}}: expected at least one factor"),
        ("[[matrix.include]]", f"{MATRIX}include[0] = {{}}: expected at least one factor"),
        (
            '[[matrix.exclude]]\nfault = "hang"',
            f"{MATRIX}exclude[0] = {{'fault': 'hang'}}: expected keys that together match",
        ),
        (
            "[[matrix.exclude]]\nfalt = 1",
            f"{MATRIX}exclude[0].falt = 1: unknown key: did you mean 'fault'?",
        ),
        ("[[matrix.exclude]]\ninterval = 0", f"{MATRIX}exclude[0].interval = 0: {WHOLE}"),
        ('[[matrix.exclude]]\nfault = "kill"', "./s.toml: matrix = "),
        (
            '[[matrix.include]]\ntrigger = "step:3"\n[[matrix.include]]\nvictim = 7',
            f"{MATRIX}include[1].victim = 7: expected a worker of topology 3x1",
        ),
    ],
)
def test_bad_rules(write: Write, rules: str, message: str) -> None:
    assert refusal(write(SUITE + rules)).startswith(message)


def test_a_bad_combination_may_be_excluded(write: Write) -> None:
    text = edited(topology='["3x1", "2x1"]', victim="[0, 2]")
    assert "victim = 2: expected a worker of topology 2x1" in refusal(write(text))
    suite = load_suite(
        write(text + '\n[[matrix.exclude]]\ntopology = "2x1"\nvictim = 2\n'), device_limit=16
    )
    assert {(c.topology, c.victim) for c in suite.cells} == {("3x1", 0), ("3x1", 2), ("2x1", 0)}


# The laws of a matrix -------------------------------------------------------------------

LISTS: dict[str, list[Any]] = {
    "workload": ["transformer:tiny", "mlp:tiny"],
    "topology": ["3x1", "2x2"],
    "strategy": ["restart", "elastic", "hot-spare"],
    "fault": ["kill"],
    "trigger": ["step:25", "step:3"],
    "interval": [5, 10, 99],
    "victim": [0, 1],
}


@pytest.fixture(autouse=True, scope="module")
def _presets_once() -> Iterator[None]:
    """The laws read the same two workloads some thousand times; parse them once."""
    kept = catalogue.presets
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(catalogue, "presets", cache(kept))
        yield


@st.composite
def matrices(draw: st.DrawFn) -> dict[str, Any]:
    table: dict[str, Any] = {}
    for key, values in LISTS.items():
        table[key] = draw(st.lists(st.sampled_from(values), min_size=1, max_size=2, unique=True))
    return table


def rules() -> st.SearchStrategy[dict[str, Any]]:
    optional = {key: st.sampled_from(values) for key, values in LISTS.items()}
    return st.fixed_dictionaries({}, optional=optional).filter(bool)


def read(table: dict[str, Any], **options: tuple[str, ...]) -> list[dict[str, Any]]:
    cells, refused = read_matrix(table, options, "law.toml", steps=45, device_limit=64)
    assert not refused
    return [cell.as_dict() for cell in cells]


_LAW = settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow])


@_LAW
@given(matrices())
def test_cells_are_the_product_of_the_lists(table: dict[str, Any]) -> None:
    cells = read(table)
    wanted = set(itertools.product(*(table[key] for key in LISTS)))
    assert {tuple(cell[key] for key in LISTS) for cell in cells} == wanted
    assert len(cells) == len(wanted)
    assert all(list(cell) == list(FACTORS) for cell in cells)


@_LAW
@given(matrices(), rules())
def test_exclude_drops_what_matches_and_nothing_else(
    table: dict[str, Any], rule: dict[str, Any]
) -> None:
    every = read(table)
    wanted = [c for c in every if not all(c[key] == value for key, value in rule.items())]
    excluding = {**table, "exclude": [rule]}
    if wanted == every or not wanted:
        with pytest.raises(UsageError):
            read(excluding)
    else:
        assert read(excluding) == wanted


@_LAW
@given(matrices(), rules())
def test_include_adds_one_cell_at_the_end_unless_it_is_there(
    table: dict[str, Any], rule: dict[str, Any]
) -> None:
    every = read(table)
    added = {**every[0], **rule}
    cells = read({**table, "include": [rule]})
    assert cells == every if added in every else cells == [*every, added]


@_LAW
@given(matrices(), rules(), st.sampled_from(LISTS["interval"]))
def test_every_cell_agrees_with_the_command_line(
    table: dict[str, Any], rule: dict[str, Any], interval: int
) -> None:
    cells = read({**table, "include": [rule]}, interval=(str(interval),))
    assert {cell["interval"] for cell in cells} == {interval}
    again = read({**table, "interval": [interval]}, interval=(str(interval),))
    assert [c for c in cells if c in again] == again


@given(rules())
def test_a_rule_matches_itself_and_an_empty_one_everything(rule: dict[str, Any]) -> None:
    values = {key: rule.get(key, "other") for key in LISTS}
    assert matches(values, {key: [value] for key, value in rule.items()})
    assert matches(values, {})
    assert not matches({key: object() for key in LISTS}, {key: [v] for key, v in rule.items()})


@given(suites())
def test_a_suite_is_read_back_and_keeps_its_fingerprint(suite: Suite) -> None:
    again = Suite.from_dict(json.loads(json.dumps(suite.as_dict())))
    assert again == suite
    assert again.fingerprint == suite.fingerprint
    assert dataclasses.replace(suite, source="elsewhere").fingerprint == suite.fingerprint
    assert dataclasses.replace(suite, seed=suite.seed + 1).fingerprint != suite.fingerprint
