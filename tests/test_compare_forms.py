"""A comparison in every form, and the command: nothing is cut, nothing unexplained."""

from __future__ import annotations

import dataclasses
import json
import re
import shutil
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from recoverybench import cli
from recoverybench.compare import words
from recoverybench.compare.markdown import MARKER, to_markdown
from recoverybench.compare.page import to_html
from recoverybench.compare.sides import read_side
from recoverybench.effects import countable
from recoverybench.errors import UsageError
from recoverybench.labels import NONE
from recoverybench.records import TrialRecord
from recoverybench.stats import Interval
from tests.sample_run import timed_out_trial
from tests.sides import CELLS, all_forms, compared, in_terminal, side, trials, with_outcome, written

# The command


@pytest.fixture(scope="module")
def three_runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory of results; each line of them was on disk before the next one was written."""
    results = tmp_path_factory.mktemp("three") / "results"
    written(results, trials(10), "base")
    written(results, trials(10, 1.5, seed=1), "slow")
    written(results, trials(10, seed=2), "alike")
    return results


@pytest.fixture
def kept(three_runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    shutil.copytree(three_runs, tmp_path / "results")
    return tmp_path


def test_the_command_and_its_exit_codes(kept: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.call(["compare", "base", "slow"]) == 0
    assert "3 cells compared: 3 worse." in capsys.readouterr().out
    assert cli.call(["compare", "base", "slow", "--fail-on", "regression"]) == 1
    assert "recovery_s is worse" in capsys.readouterr().err
    assert cli.call(["compare", "base", "slow", "--fail-on", "divergence"]) == 0
    assert cli.call(["compare", "base", "alike", "--fail-on", "any"]) == 0
    capsys.readouterr()
    assert cli.call(["compare", "base", "slow", "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["cells"][0]["verdict"] == "worse"
    for form in ("markdown", "html", "text", "json"):
        assert cli.call(["compare", "base", "slow", "--format", form, "-o", f"out.{form}"]) == 0
        assert (kept / f"out.{form}").stat().st_size > 500
    capsys.readouterr()


def test_a_busy_machine_is_named_in_every_form() -> None:
    loaded = [dataclasses.replace(t, load=(30.0, 30.0)) for t in trials()]
    quiet = compared(side(trials(), "base"), side(trials(), "new"))
    found = compared(side(trials(), "base"), side(loaded, "new", machine={"cores_usable": 2}))
    assert "had other work" not in all_forms(quiet)
    assert len(found.new.busy) == 1 and not found.base.busy
    text = " ".join(in_terminal(found, 200).split())
    for form in (text, to_markdown(found), to_html(found), json.dumps(found.as_dict())):
        assert "The machine had other work (a load of 30.0 on 2 cores" in form


def test_a_side_is_called_by_the_last_part_of_its_path() -> None:
    one = side(trials(), "/somewhere/results/one")
    other = dataclasses.replace(one, name="/somewhere/results/two@jax==0.9", everything=False)
    assert (one.called, other.called) == ("one", "two@jax==0.9")
    alike = dataclasses.replace(one, name="/elsewhere/one")
    facts = compared(one, alike)
    assert (facts.base.name, facts.new.name) == ("/somewhere/results/one", "/elsewhere/one")


@pytest.mark.parametrize(
    ("name", "options", "begins"),
    [
        ("out.html", [], "<!doctype html>"),
        ("out.HTM", [], "<!doctype html>"),
        ("out.json", [], "{"),
        ("out.md", [], MARKER),
        ("out.txt", [], "3 cells compared"),
        ("out", [], "3 cells compared"),
        ("out.unknown", ["--format", "text"], "3 cells compared"),
        ("out.html", ["--format", "json"], "{"),
    ],
)
def test_the_ending_of_a_file_says_its_format_unless_it_is_named(
    kept: Path, name: str, options: list[str], begins: str
) -> None:
    assert cli.call(["compare", "base", "slow", "-o", name, *options]) == 0
    assert (kept / name).read_text().startswith(begins)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["base", "none"], "NEW = 'none': expected a run, a directory with runs in it, or the"),
        (["base", "results/base"], "NEW = 'results/base': expected other trials than those of"),
        (["base", "slow", "--margin", "x"], "--margin = 'x': expected a part of the median"),
        (["base", "slow", "--alpha", "2"], "--alpha = '2': expected a probability above 0"),
        (
            ["base", "slow", "-o", "out.xlsx"],
            "--out = 'out.xlsx': expected a name that ends in .txt",
        ),
        (["base", "slow", "-o", "results/base/run.json"], "--out = 'results/base/run.json': exp"),
        (["base", "../../etc"], "NEW = '../../etc': expected a run"),
    ],
)
def test_bad_input_is_one_line(
    kept: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], said: str
) -> None:
    assert cli.call(["compare", *arguments]) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"recoverybench: error: {said}") and error.count("\n") == 1


# So that nothing is cut, and nothing unexplained


@pytest.mark.parametrize("width", [200, 100, 80, 60, 40])
@pytest.mark.parametrize("count", [3, 10])
def test_no_number_is_cut_however_narrow_the_window(width: int, count: int) -> None:
    late = [timed_out_trial(900 + i, cell=CELLS[0]) for i in range(count)]
    new = [*late, *trials(count, 123.4, cells=CELLS[1:], seed=1)]
    found = compared(side(trials(count)), side(new, "new"))
    text = in_terminal(found, width)
    assert "…" not in text
    assert all(len(line) <= width for line in text.splitlines())
    whole = " ".join(text.split())
    for cell in found.cells:
        row = cell.rows[0]
        for number in (words.median_text(row, 0), words.median_text(row, 1), words.ratio_text(row)):
            assert number == NONE or number in whole
    if width >= 100:
        assert "would show" in text


def test_few_trials_say_that_they_are_few() -> None:
    found = compared(side(trials(3)), side(trials(3, 4.0), "new"))
    row = found.cells[0].rows[0]
    assert row.effect is not None and row.effect.interval is not None
    assert row.effect.interval.confidence < 0.95
    assert words.interval_text(row) == NONE  # none of 95 % is to be had
    said = words.undecided(found.cells[0], found)
    assert said.startswith("Inconclusive: 3 and 3 trials cannot give a p below 0.05")
    needed = int(re.findall(r"from (\d+) trials a side", said)[0])
    assert words.blind(row, found)
    more = compared(side(trials(needed)), side(trials(needed, 4.0), "new"))
    assert more.tests == found.tests and {cell.verdict for cell in more.cells} == {"worse"}
    for text in (in_terminal(found, 300), to_markdown(found), to_html(found)):
        assert "whatever the times are" in " ".join(text.split())
        assert "90 %" not in text
    assert words.undecided(more.cells[0], more) == ""


def test_an_interval_beside_1_that_decides_nothing_is_explained() -> None:
    base = trials(6, cells=CELLS[:1])
    new = trials(6, 1.06, cells=CELLS[:1], seed=3)
    found = compared(side(base), side(new, "new"))
    cell = found.cells[0]
    row = cell.rows[0]
    assert row.effect is not None
    effect = dataclasses.replace(row.effect, interval=Interval(1.02, 1.3, 0.96))
    apart = dataclasses.replace(row, effect=effect, verdict="inconclusive", p_adjusted=0.3)
    many = dataclasses.replace(found, tests=2)
    said = words.undecided(dataclasses.replace(cell, rows=(apart,)), many)
    assert "leaves 1 out" in said and "all 2 tests" in said


def test_a_table_without_a_test_speaks_of_none() -> None:
    lost = with_outcome(trials(4, cells=CELLS[:1]), "no_effect", 4)
    found = compared(side(lost), side(lost, "new"))
    assert found.tests == 0
    for text in (in_terminal(found, 120), to_markdown(found), to_html(found)):
        assert "0 tests" not in text and "Worse or better" not in text


def test_a_gate_that_could_not_have_failed_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, count in (("few", 3), ("many", 12)):
        written(Path("results"), trials(count), name)
        written(Path("results"), trials(count, seed=1), f"{name}-new")
    assert cli.call(["compare", "few", "few-new", "--fail-on", "regression"]) == 0
    error = capsys.readouterr().err
    assert error.startswith("recoverybench: no slowdown, however large, could have failed this")
    assert error.count("\n") == 1
    for arguments in (["few", "few-new", "--fail-on", "divergence"], ["few", "few-new"],
                      ["many", "many-new", "--fail-on", "any"]):  # fmt: skip
        assert cli.call(["compare", *arguments]) == 0
        assert capsys.readouterr().err == ""


# What no run holds


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=9),
    st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=9),
    st.floats(allow_nan=False, allow_infinity=False),
)
@example([-1.0] * 5, [1e308] * 5, -1.0)
@example([5e-324] * 8, [1.0] * 8, 1e308)
@example([1e-320, 1e-320, 1.0], [0.0, 0.0, 0.0], 60.0)
@example([1e-9] * 9, [1e9] * 9, 60.0)
def test_any_number_has_every_form(base: list[float], new: list[float], phase_s: float) -> None:
    def made(times: list[float]) -> list[TrialRecord]:
        plain = trials(len(times), cells=CELLS[:1])
        return [
            dataclasses.replace(
                t, recovery_s=s, time_to_progress_s=s, phases=dict.fromkeys(t.phases, phase_s)
            )
            for t, s in zip(plain, times, strict=True)
        ]

    found = compared(side(made(base)), side(made(new), "new"))
    text = all_forms(found)
    assert "nan" not in text.replace("finance", "")
    for name, times, count in (("base", base, 0), ("new", new, 1)):
        bad = sum(not countable(s) for s in times)
        assert len(found.cells[0].samples[count].times_s) == len(times) - bad
        left = any(f"of the {name} with times" in note for note in found.cells[0].notes)
        assert left == (bad > 0 or not countable(phase_s))


def test_a_machine_may_be_described_by_anything() -> None:
    odd = {"cgroup": {"memory_bytes": {"": ""}}, "cpu": ["x"]}
    found = compared(side(trials(3), machine=odd), side(trials(3, seed=1), "new", machine=odd))
    assert len(found.cells) == 3
    other = compared(side(trials(3), machine=odd), side(trials(3, seed=1), "new"))
    assert not other.cells and '{"": ""}' in other.not_compared[0].reason


def test_a_copy_of_a_run_does_not_count_twice(tmp_path: Path) -> None:
    written(tmp_path / "results", trials(3), "one")
    shutil.copytree(tmp_path / "results/one", tmp_path / "results/two")
    found = read_side(str(tmp_path / "results"), "BASE", tmp_path)
    assert [run.path.name for run in found.runs] == ["one"]
    [(path, reason)] = found.skipped
    assert path.endswith("two") and reason == f"a copy of the run in {tmp_path / 'results/one'}"


def test_an_odd_entry_beside_the_runs_is_skipped(tmp_path: Path) -> None:
    written(tmp_path / "results", trials(3), "one")
    (tmp_path / "results/loop").symlink_to("loop")
    found = read_side(str(tmp_path / "results"), "BASE", tmp_path)
    assert [run.info.run_id for run in found.runs] == ["one"]
    [(path, reason)] = found.skipped
    assert path.endswith("loop") and reason.startswith("cannot be read: ")
    with pytest.raises(UsageError, match="NEW"):
        read_side("x" * 300, "NEW", tmp_path / "results")
