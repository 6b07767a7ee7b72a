"""A user's own workload: what is wrong with it is said in one line, and its files are known."""

from __future__ import annotations

import dataclasses
import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from recoverybench.campaign import cache, campaign, fit, plans
from recoverybench.campaign.design import next_places
from recoverybench.campaign.sizes import is_foreign, sizes_of
from recoverybench.cells import Cell
from recoverybench.environments.environment import own
from recoverybench.errors import UsageError
from recoverybench.labels import cell_label
from recoverybench.plan.own_files import own_sources
from recoverybench.plan.sizes import Sizer, Sizes
from recoverybench.plan.suite import Overrides, Suite, load_suite
from recoverybench.topology import Topology
from recoverybench.worker.sizes import answer
from tests.sample_run import make_trial

EXAMPLE = Path(__file__).parents[1] / "workloads/examples/regression.py"

FILE = """
import os
import sys

import jax
import jax.numpy as jnp
import numpy as np

from recoverybench.worker.layout import Layout

ROWS = [{"x": np.ones(4, np.float32)}] * 30


class Work:
    batch_size = 12

    def source(self):
        return ROWS

    def init(self, key):
        return {"params": {"w": jnp.ones((6, 4))}}

    def step(self, state, batch):
        return state, jnp.mean(batch["x"])


def make():
    work = Work()
    work.__dict__.update(CHANGES)
    return work


def stepping(function):
    return {"step": function}


"""
"""A workload that works, in which `CHANGES` stand for one attribute."""

LOSS = "b['x'].mean()"


def write(folder: Path, changes: str = "{}", more: str = "") -> str:
    """The file in a folder, as a workload's name."""
    path = folder / "mine.py"
    path.write_text(f"{FILE}CHANGES = {changes}\n{more}\n")
    return f"{path}:make"


def asked(workload: str) -> dict[str, Any]:
    return answer({"workload": workload, "data": None, "try": True})


def test_one_that_works_is_measured(tmp_path: Path) -> None:
    found = asked(write(tmp_path))
    assert found["leaves"] == [["params.w", [6, 4], 4, [None, None]]]
    assert (found["parameters"], found["state_bytes"], found["batch_bytes"]) == (24, 96, 12 * 16)
    assert found["axes"] == ["data"]


WRONG = {
    "{'batch_size': 0}": "a batch_size that is a whole number above 0, not 0",
    "{'batch_size': 2.0}": "a batch_size that is a whole number above 0, not 2.0",
    "{'source': lambda: []}": "a source that holds at least one record",
    "{'source': lambda: 3}": "a source with a length, so len(source()) that works (TypeError: ",
    "{'source': lambda: [{'x': np.ones(4 + (i == 29))} for i in range(30)]}": (
        "records of one shape: the first is x float64[4], record 29 is x float64[5]"
    ),
    "{'source': lambda: [{'x': 'text'}]}": "records of numbers; 'x' of record 0 has dtype <U4",
    "{'source': lambda: [np.ones(3)]}": "records that are dicts of NumPy arrays; record 0 is ",
    "{'init': lambda key: {'w': None}}": "an init(key) that returns a tree with at least one",
    "{'init': lambda key: {'w': 'text'}}": "init(key) that works (TypeError: ",
    "{'init': lambda key: {'w': key}}": "a state of plain arrays; w has dtype key<fry>",
    "{'init': lambda key: {'a.b': 1, 'a': {'b': 1}}}": "a state in which no two leaves have the",
    "stepping(lambda s, b: s)": "a step that returns two things, the state and the loss",
    "stepping(lambda s, b: (s, b['x'].mean(keepdims=True)))": "not float32[1, 1]",
    "stepping(lambda s, b: (s, b['x'].sum().astype(int)))": "a float32 scalar, not int32[]",
    f"stepping(lambda s, b: ({{**s, 'new': jnp.ones(3)}}, {LOSS}))": (
        "new of the state was not there, after the step it is float32[3]"
    ),
    f"stepping(lambda s, b: (jax.tree.map(lambda x: x.astype(jnp.bfloat16), s), {LOSS}))": (
        "params.w of the state was float32[6, 4], after the step it is bfloat16[6, 4]"
    ),
    f"stepping(lambda s, b: (jax.tree.map(jnp.ravel, s), {LOSS}))": "after the step it is float3",
    "{'layout': {'w': 1}}": "a layout of type Layout, not dict",
    "{'layout': Layout({'v': ('a', None)}, {})}": "no leaf of the state ends in 'v'",
    "{'layout': Layout({'w': ('a',)}, {})}": "layout.axes['w'] to have 2 entries, one a dimension",
    "{'layout': Layout({'w': ('a', None)}, {'a': 'model'})}": "layout.rules['a'] to be one of data",
}


@pytest.mark.parametrize("changes", WRONG, ids=range(len(WRONG)))
def test_what_a_job_would_stumble_over_is_one_line(changes: str, tmp_path: Path) -> None:
    problem = asked(write(tmp_path, changes))["problem"]
    assert problem.startswith("workload = 'mine.py:make': expected ")
    assert WRONG[changes] in problem
    assert "\n" not in problem


@pytest.mark.parametrize(
    ("more", "raised"),
    [
        ("import no_such_module", "ModuleNotFoundError: No module named 'no_such_module'"),
        ("this is no Python", "SyntaxError: invalid syntax"),
        ("sys.exit(3)", "SystemExit: 3"),
        ("{}['gone']", "KeyError: 'gone'"),
    ],
)
def test_where_a_file_raised_is_said(more: str, raised: str, tmp_path: Path) -> None:
    problem = asked(write(tmp_path, more=more))["problem"]
    line = FILE.count("\n") + 2
    assert problem == (
        f"workload = 'mine.py:make': expected a factory that makes one ({raised} at mine.py:{line})"
    )


def test_where_a_method_raised_is_said(tmp_path: Path) -> None:
    problem = asked(write(tmp_path, "stepping(lambda s, b: b['y'])"))["problem"]
    line = FILE.count("\n") + 1
    assert problem.endswith(
        f"expected step(state, batch) that works (KeyError: 'y' at mine.py:{line})"
    )


def test_a_function_that_is_not_there(tmp_path: Path) -> None:
    name = write(tmp_path, more="made = 3\ndef nothing(): pass")
    for function, said in {
        "gone": "a function of mine.py, to be called alone",
        "made": "a function of mine.py, to be called alone",
        "nothing": "a factory of a workload; NoneType has no batch_size",
    }.items():
        problem = asked(name.replace(":make", f":{function}"))["problem"]
        assert problem == f"workload = 'mine.py:{function}': expected {said}"


def test_two_files_of_one_name_are_two(tmp_path: Path) -> None:
    sizes = []
    for rows in (4, 6):
        folder = tmp_path / str(rows)
        folder.mkdir()
        sizes.append(asked(write(folder, f"{{'batch_size': {rows}}}"))["batch_size"])
    assert sizes == [4, 6]


def test_a_process_that_ends_or_hangs_is_said_and_the_next_question_is_answered(
    tmp_path: Path,
) -> None:
    """A file that prints does not spoil the answer, either."""
    ends = write(tmp_path, more="def ends():\n    print('out of luck')\n    os._exit(9)")
    with Sizer() as sizer:
        with pytest.raises(UsageError, match=r"mine.py:ends .*ended with code 9 \(out of luck\)"):
            sizer.answer(ends.replace(":make", ":ends"), None, attempt=True)
        (tmp_path / "mine.py").write_text(f"{FILE}CHANGES = {{}}\nprint('hello')\n")
        assert sizer.answer(ends, None, attempt=True)["batch_size"] == 12
    with Sizer(timeout_s=0.0) as sizer, pytest.raises(UsageError, match="not known after 0 s"):
        sizer.answer(ends, None, attempt=True)


# Files


def test_the_files_of_a_workload_are_those_it_imports_from_beside_it(tmp_path: Path) -> None:
    sources = {
        "mine.py": "import os\nimport model\ndef f():\n    from parts.inner import x\n",
        "model.py": "import deeper.thing\nimport mine\n",
        "deeper/__init__.py": "",
        "deeper/thing.py": "",
        "deeper/below/other.py": "",
        "parts/no_package.py": "",
        "unused.py": "",
        "os.py": "raise SystemExit  # beside the file, but last in the path\n",
    }
    for name, text in sources.items():
        (tmp_path / name).parent.mkdir(exist_ok=True, parents=True)
        (tmp_path / name).write_text(text)
    found = [p.relative_to(tmp_path).as_posix() for p in own_sources(tmp_path / "mine.py")]
    assert found == [
        "deeper/__init__.py",
        "deeper/below/other.py",
        "deeper/thing.py",
        "mine.py",
        "model.py",
        "os.py",
    ]
    (tmp_path / "mine.py").write_text("not python at all")
    assert own_sources(tmp_path / "mine.py") == [tmp_path / "mine.py"]


def test_a_change_beside_the_file_is_another_key(tmp_path: Path) -> None:
    name = write(tmp_path, more="import beside")
    (tmp_path / "beside.py").write_text("WIDTH = 3\n")

    def keys() -> cache.Keys:
        return cache.Keys.of(cell(name), 0, 45, None, {})

    first = keys()
    assert keys() == first
    (tmp_path / "beside.py").write_text("WIDTH = 4\n")
    assert keys().program != first.program
    assert keys().reference != first.reference


def test_a_module_beside_the_file_can_be_imported(tmp_path: Path) -> None:
    (tmp_path / "rows_of_mine.py").write_text("ROWS = 8\n")
    name = write(tmp_path, "{'batch_size': rows_of_mine.ROWS}")
    path = tmp_path / "mine.py"
    path.write_text("import rows_of_mine\n" + path.read_text())
    assert asked(name)["batch_size"] == 8


# Planning


def cell(workload: str, **factors: Any) -> Cell:
    plain: dict[str, Any] = {
        "workload": workload,
        "topology": "3x1",
        "strategy": "elastic",
        "state_source": "storage",
        "fault": "kill",
        "trigger": "step:25",
        "interval": 10,
        "victim": None,
        "heartbeat_s": 10.0,
        "watchdog_s": None,
        "coordinator": "worker0",
        "compile_cache": "executable",
    }
    return Cell(**{**plain, **factors})


def suite_of(*cells: Cell, data: str | None = None) -> Suite:
    return Suite("s", "", 1, 0, 60.0, 45, cells, data=data)


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of its own, and this process in place of the one that answers."""
    monkeypatch.setenv(cache.ROOT_VARIABLE, str(tmp_path / "cache"))

    def ask(self: Sizer, request: dict[str, Any]) -> dict[str, Any]:
        for module in [name for name in sys.modules if name.startswith("recoverybench_own_")]:
            del sys.modules[module]  # a process would be a new one
        return answer(request)

    monkeypatch.setattr(Sizer, "_ask", ask)
    return tmp_path


@pytest.mark.parametrize(
    ("factors", "said"),
    [
        (
            {"topology": "5x1"},
            "topology = '5x1': expected a number of devices that divides mine.py",
        ),
        (
            {"topology": "2x2:data=2,tensor=2"},
            "axes that mine.py:make knows: data, fsdp, and tensor is none of them",
        ),
        (
            {"topology": "2x2:data=1,fsdp=4"},
            "expected fsdp to divide dimension 0 of params.w, which is 6",
        ),
        ({"restore_topology": "5x1"}, "restore_topology = '5x1': expected a number of devices"),
        (
            {"topology": "6x1", "strategy": "shrink"},
            "workload = 'mine.py:make': expected one that can go on as 5x1: a number of devices",
        ),
    ],
)
def test_a_topology_that_it_cannot_have(factors: dict[str, str], said: str, kept: Path) -> None:
    name = write(kept, "{'layout': Layout({'w': ('a', None)}, {'a': 'fsdp'})}")
    fit.check_fit(suite_of(cell(name)), "local", force=False)
    with pytest.raises(UsageError) as caught:
        fit.check_fit(suite_of(cell(name, **factors)), "local", force=True)
    assert said in str(caught.value)


def test_a_faulty_one_is_refused_and_asked_again_a_good_one_is_kept(
    kept: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    heard: list[str] = []
    name = write(kept, "{'batch_size': 0}")
    for _ in range(2):
        with pytest.raises(UsageError, match="whole number above 0"):
            fit.check_fit(suite_of(cell(name)), "local", force=True, told=heard.append)
    assert heard == ["sizes of mine.py:make"] * 2
    write(kept)
    for _ in range(2):
        fit.check_fit(suite_of(cell(name)), "local", force=True, told=heard.append)
    assert len(heard) == 3
    [file] = (kept / "cache/sizes").iterdir()
    file.write_bytes(b"damaged")
    [found] = sizes_of([name], told=heard.append).values()
    assert isinstance(found, Sizes)
    assert len(heard) == 4


def test_data_is_not_for_a_workload_that_opens_its_own(tmp_path: Path) -> None:
    text = tmp_path / "text"
    text.write_text("x" * 10_000)
    with pytest.raises(UsageError, match=r"expected no data: mine\.py:make opens its own"):
        load_suite("quick", Overrides(workload=(write(tmp_path),), data=text), device_limit=16)


def test_a_path_in_a_suite_counts_from_the_suite(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path)
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    (tmp_path / "s.toml").write_text(
        '[suite]\nname = "s"\n[matrix]\nworkload = ["mine.py:make", "mlp:tiny"]\n'
        'topology = ["3x1"]\nstrategy = ["elastic"]\nfault = ["kill"]\ntrigger = ["step:25"]\n'
        'interval = [10]\n[[matrix.exclude]]\nworkload = "mine.py:make"\ntopology = "3x1"\n'
        '[[matrix.include]]\nworkload = "mine.py:make"\nvictim = 1\n'
    )
    found = load_suite("../s.toml", device_limit=16).cells
    path = f"{tmp_path / 'mine.py'}:make"
    assert [(c.workload, c.victim) for c in found] == [("mlp:tiny", None), (path, 1)]
    with pytest.raises(UsageError, match="expected a file that is there"):
        load_suite("../s.toml", Overrides(workload=("mine.py:make",)), device_limit=16)


def test_a_run_that_goes_on_with_another_file_says_so(kept: Path) -> None:
    """As it does with another text: its references are found by their keys."""
    suite = dataclasses.replace(suite_of(cell(write(kept))), trials=2)
    bench: Any = SimpleNamespace(environment={}, software_of=lambda environment: own().software())
    heard: list[str] = []
    listener: Any = SimpleNamespace(note=heard.append)
    run: Any = SimpleNamespace(path=kept / "run")
    done = plans.plan_of(suite, next_places(suite, [])[0], "0000")
    key = plans.keys_of(done, done.cell, bench).reference
    (run.path / "reference").mkdir(parents=True)
    (run.path / "reference" / f"{key}.json").touch()
    resumed = campaign.Campaign(suite, run, bench, listener, [make_trial(cell=done.cell)])
    resumed._note_changes()
    assert heard == []
    write(kept, "{'batch_size': 24}")
    resumed._note_changes()
    [said] = heard
    assert said.startswith("something changed since the run was begun (the files of mine.py:make,")
    campaign.Campaign(suite, run, bench, listener, [])._note_changes()
    assert len(heard) == 1  # nothing was measured with the old file


def test_its_name_is_short_where_people_read_it(tmp_path: Path) -> None:
    name = write(tmp_path)
    assert is_foreign(name)
    assert not is_foreign("mlp:tiny,hidden=64")
    assert cell_label(cell(name), ["workload"]) == "mine.py:make"


# The example


def test_the_example_is_short_whole_in_the_docs_and_works(repository: Path) -> None:
    text = EXAMPLE.read_text()
    assert len(text.splitlines()) <= 40
    assert f"```python\n{text}```" in (repository / "docs/own-workload.md").read_text()
    name = f"{EXAMPLE}:make"
    found = Sizes.of(name, json.loads(json.dumps(asked(name))))
    halved = Topology.of("2x2:data=2,fsdp=2")
    assert found.why_not_on(halved) is None
    whole, parts = found.device_bytes(Topology(2, 2)), found.device_bytes(halved)
    assert whole == found.state_bytes
    assert parts == (found.state_bytes - 4) // 2 + 4  # all but Adam's count
    assert dataclasses.replace(found, axes=("data",)).why_not_on(halved) is not None
