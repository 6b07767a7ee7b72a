"""Two sides compared: what is matched, what is not, what is said, in every form."""

from __future__ import annotations

import dataclasses
import io
import json
import random
import re
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from rich.console import Console

from recoverybench import cli
from recoverybench.cells import Cell
from recoverybench.compare import words
from recoverybench.compare.build import compare
from recoverybench.compare.key import differences, key_of
from recoverybench.compare.markdown import MARKER, to_markdown
from recoverybench.compare.model import Comparison
from recoverybench.compare.page import to_html
from recoverybench.compare.sides import Side, read_side
from recoverybench.compare.text import print_comparison
from recoverybench.effects import countable
from recoverybench.errors import UsageError
from recoverybench.labels import NONE
from recoverybench.records import TrialRecord
from recoverybench.results.store import Run, RunDir
from recoverybench.stats import Interval
from tests.sample_run import make_cell, make_run, make_trial, timed_out_trial

CELLS = tuple(make_cell(strategy=s) for s in ("restart", "elastic", "hot-spare"))


def trials(
    n: int = 10, factor: float = 1.0, *, cells: Sequence[Cell] = CELLS, seed: int = 0
) -> list[TrialRecord]:
    """Recovered trials, everything `factor` times as long, with a spread of 4 %."""
    rng = random.Random(seed)
    made = []
    for rep in range(n):
        for at, cell in enumerate(cells):
            one = make_trial(rep * len(cells) + at, rep=0, cell=cell)
            scale = factor * rng.lognormvariate(0, 0.04)
            phases = {name: value * scale for name, value in one.phases.items()}
            made.append(
                dataclasses.replace(
                    one,
                    rep=rep,
                    phases=phases,
                    recovery_s=scale * (one.recovery_s or 0),
                    time_to_progress_s=scale * (one.time_to_progress_s or 0),
                )
            )
    return made


def side(records: Sequence[TrialRecord], name: str = "base", **changes: Any) -> Side:
    return Side(name, (make_run(records, name=name, **changes),), None, True)


def compared(base: Side, new: Side) -> Comparison:
    return compare(base, new)


def all_forms(found: Comparison, capsys: pytest.CaptureFixture[str] | None = None) -> str:
    from rich.console import Console

    from recoverybench.compare.text import print_comparison

    console = Console(width=200, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
    with console.file:
        print_comparison(found, console)
        text = console.export_text()
    return "\n".join([text, to_markdown(found), to_html(found), json.dumps(found.as_dict())])


# Verdicts


def test_nothing_changed() -> None:
    found = compared(side(trials(20)), side(trials(20, seed=1), "new"))
    assert {cell.verdict for cell in found.cells} == {"same"}
    assert found.found("any") == []
    assert found.tests == sum(row.p_adjusted is not None for c in found.cells for row in c.rows) + 3


@pytest.mark.parametrize(("factor", "said"), [(1.5, "worse"), (0.6, "better")])
def test_everything_changed(factor: float, said: str) -> None:
    found = compared(side(trials(10)), side(trials(10, factor, seed=1), "new"))
    assert {row.verdict for cell in found.cells for row in cell.rows} <= {said, "negligible"}
    assert bool(found.found("regression")) == (said == "worse")
    assert found.found("divergence") == []


def test_few_trials_of_a_large_change_are_inconclusive_and_no_pass() -> None:
    found = compared(side(trials(3)), side(trials(3, 2.0), "new"))
    assert {cell.verdict for cell in found.cells} == {"inconclusive"}
    assert all(cell.rows[0].detectable is None for cell in found.cells)
    assert "nothing" in all_forms(found)


def test_one_phase_that_got_slower_is_found_behind_a_recovery_that_did_not() -> None:
    slow = [
        dataclasses.replace(t, phases={**t.phases, "restore": 3 * t.phases["restore"]})
        for t in trials(12, seed=1)
    ]
    found = compared(side(trials(12)), side(slow, "new"))
    worse = {row.quantity for cell in found.cells for row in cell.rows if row.verdict == "worse"}
    assert worse == {"restore"}
    assert found.found("regression")


# Outcomes


def test_a_cell_that_diverges_now_leads_whatever_its_times() -> None:
    new = trials(5, seed=1)
    new[1] = dataclasses.replace(new[1], outcome="diverged", recovery_s=None)
    found = compared(side(trials(5)), side(new, "new"))
    [change] = found.changes
    assert (change.kind, change.outcome, change.new) == ("divergence", "diverged", (1, 5))
    for kind in ("divergence", "regression", "any"):
        assert "diverged 1 of 5, was 0 of 5" in found.found(kind)[0]
    assert to_markdown(found).index("diverged") < to_markdown(found).index("| cell |")
    rate = next(c.rate for c in found.cells if c.cell == new[1].cell)
    assert (rate.base, rate.new) == ((5, 5), (4, 5))  # the failure is in the rate


def test_a_cell_that_never_comes_back_any_more_is_broken() -> None:
    late = [timed_out_trial(i, rep=i, cell=CELLS[0]) for i in range(5)]
    found = compared(side(trials(5, cells=CELLS[:1])), side(late, "new"))
    assert found.changes[0].kind == "broken"
    assert found.cells[0].rows[0].effect is not None
    assert found.cells[0].rows[0].effect.new_bound == 60.0
    assert found.cells[0].verdict == "worse"
    assert "> 60 s" in all_forms(found) or "> 1 min" in all_forms(found)
    assert found.found("regression")
    assert compared(side(late), side(trials(5, cells=CELLS[:1]), "new")).found("any") == []


def test_sides_on_which_nothing_ever_recovered() -> None:
    late = [timed_out_trial(i, rep=i, cell=CELLS[0]) for i in range(5)]
    found = compared(side(late), side(late[:4], "new"))
    assert found.cells[0].verdict == "inconclusive"
    all_forms(found)


def test_both_samples_are_kept_whole_and_are_in_the_json() -> None:
    base = trials(6, cells=CELLS[:1])
    late = [timed_out_trial(i, rep=i, cell=CELLS[0]) for i in range(2)]
    lost = with_outcome(base[2:3], "not_recovered", 1)
    found = compared(side(base), side([*late, *lost, *base[3:]], "new"))
    [cell] = found.cells
    assert cell.samples[0].times_s == tuple(t.recovery_s for t in base)
    [plain] = json.loads(json.dumps(found.as_dict()))["cells"]
    assert plain["samples"] == [
        {"times_s": [t.recovery_s for t in base], "censored": 0, "limit_s": 60.0},
        {"times_s": [t.recovery_s for t in base[3:]], "censored": 2, "limit_s": 60.0},
    ]


# Cells that cannot be compared


def test_a_cell_on_one_side_only_is_listed_and_no_pass() -> None:
    found = compared(side(trials(5)), side(trials(5, cells=CELLS[:2]), "new"))
    [one] = found.not_compared
    assert (one.label, one.side) == ("hot-spare", "base")
    assert found.found("regression") == [] and found.found("any")
    back = compared(side(trials(5, cells=CELLS[:2])), side(trials(5), "new"))
    assert back.not_compared[0].side == "new"


def test_another_machine_is_no_baseline() -> None:
    other = {"system": "Linux", "cpu": "another CPU", "cores_usable": 64}
    found = compared(side(trials(5)), side(trials(5), "new", machine=other))
    assert not found.cells
    assert "processor test CPU and another CPU" in found.not_compared[0].reason
    assert "usable cores 2 and 64" in found.not_compared[0].reason
    assert found.found("regression") == ["no cell could be compared"]
    assert "Nothing could be compared" in all_forms(found)


def test_a_key_does_not_change_with_load_memory_boot_or_kernel() -> None:
    run = make_run()
    later = {**run.info.machine, "boot_id": "x", "kernel": "9", "load": 7.0}
    later["memory_total_bytes"] += 4096
    moved = dataclasses.replace(run.info, machine=later, created="2030-01-01T00:00:00+00:00")
    assert differences(key_of(run.info, CELLS[0]), key_of(moved, CELLS[0])) == []


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"heartbeat_s": 30.0}, "heartbeat 10 s and 30 s"),
        ({"watchdog_s": 5.0}, "watchdog none and 5 s"),
        ({"compile_cache": "off"}, "compile cache executable and off"),
    ],
)
def test_other_settings_of_detection_are_another_cell(change: dict[str, Any], said: str) -> None:
    new = trials(5, cells=[dataclasses.replace(CELLS[0], **change)])
    found = compared(side(trials(5, cells=CELLS[:1])), side(new, "new"))
    [one] = found.not_compared
    assert (one.side, one.reason) == ("both", said)


def test_another_workload_under_the_same_name_is_not_compared() -> None:
    name = CELLS[0].workload
    found = compared(
        side(trials(5), workloads={name: "a"}), side(trials(5), "new", workloads={name: "b"})
    )
    assert "the files or the data of transformer:tiny differ" in found.not_compared[0].reason
    assert compared(side(trials(5), workloads={name: "a"}), side(trials(5), "new")).cells


def test_a_cell_that_could_not_be_measured_is_listed_with_its_reason() -> None:
    run = make_run(trials(5), name="new")
    suite = dataclasses.replace(
        run.info.suite, unsupported=((make_cell(fault="oom"), "no memory"),)
    )
    new = Side("new", (dataclasses.replace(run, info=dataclasses.replace(run.info, suite=suite)),),
               None, True)  # fmt: skip
    found = compared(side(trials(5)), new)
    assert [n.reason for n in found.not_compared] == ["could not be measured: no memory"]


# What else is said


def test_versions_that_differ_are_what_is_compared() -> None:
    newer = {"python": "3.11.11", "jax": "0.11.0", "orbax-checkpoint": "0.12.8"}
    found = compared(side(trials(5)), side(trials(5), "new", environment=newer))
    assert found.versions == {"jax": ("0.10.2", "0.11.0")}
    assert "jax 0.10.2 -> 0.11.0" in all_forms(found)


def test_two_groups_of_times_and_another_compile_cache_are_noted() -> None:
    base = trials(12, cells=CELLS[:1])
    new = [
        dataclasses.replace(
            t,
            recovery_s=(t.recovery_s or 0) * (1 if t.rep % 2 else 3),
            compile_cache={"0": "miss"},
        )
        for t in trials(12, cells=CELLS[:1], seed=1)
    ]
    [cell] = compared(side(base), side(new, "new")).cells
    assert any("two groups" in note for note in cell.notes)
    assert any("compile cache differs" in note for note in cell.notes)


def test_hostile_strings_are_text_in_every_form() -> None:
    evil = "<script>alert(1)</script>|@all [x](http://e.x)\x1b[31m\n# h"
    cells = [dataclasses.replace(CELLS[0], fault=evil), CELLS[1]]
    found = compared(side(trials(5, cells=cells), evil), side(trials(5, cells=cells), evil))
    page, text = to_html(found), to_markdown(found)
    assert "<script" not in page and "\x1b" not in page + text
    assert "<script" not in text and "@all" not in text
    read = [line for line in text.splitlines() if "<summary>" not in line]  # HTML, no Markdown
    assert not re.search(r"(?<!\\)\[x\]", "\n".join(read))
    assert text.startswith(MARKER)
    assert len({line.count("|") - line.count("\\|") for line in _rows(text)}) == 1


def _rows(text: str) -> list[str]:
    lines = text.splitlines()
    start = lines.index(next(line for line in lines if line.startswith("| cell")))
    return [line for line in lines[start : start + 4] if line.startswith("|")]


def test_json_has_no_infinity() -> None:
    late = [timed_out_trial(i, rep=i, cell=CELLS[0]) for i in range(3)]
    found = compared(side(trials(3, cells=CELLS[:1])), side(late, "new"))
    json.loads(json.dumps(found.as_dict(), allow_nan=False))


# Sides


def written(folder: Path, records: Sequence[TrialRecord], name: str, **changes: Any) -> Run:
    run = make_run(records, name="quick", **changes)
    info = dataclasses.replace(run.info, run_id=name)
    with RunDir.create(folder / name, info) as out:
        for record in records:
            out.append(record)
    return run


def test_a_side_is_a_run_a_directory_or_a_label(tmp_path: Path) -> None:
    results = tmp_path / "results"
    written(results, trials(2), "one", label="v1")
    written(results, trials(2), "two", label="v2")
    (results / "junk").mkdir()
    (results / "broken").mkdir()
    (results / "broken" / "run.json").write_text("{")
    assert [r.info.run_id for r in read_side("one", "BASE", results).runs] == ["one"]
    assert [r.info.run_id for r in read_side("v2", "NEW", results).runs] == ["two"]
    whole = read_side(str(results), "BASE", results)
    assert len(whole.runs) == 2
    assert {Path(path).name for path, _ in whole.skipped} == {"junk", "broken"}
    with pytest.raises(UsageError, match=r"BASE = 'v3': expected .*\(v1, v2\)"):
        read_side("v3", "BASE", results)
    with pytest.raises(UsageError, match="no run is in it"):
        read_side(str(results / "junk"), "BASE", results)


def test_environments_of_one_run_are_sides(tmp_path: Path) -> None:
    older = [dataclasses.replace(c, environment="jax==0.10.1") for c in CELLS]
    both = [*trials(8), *trials(8, 1.5, cells=older)]
    both = [dataclasses.replace(t, trial=f"{i:04d}") for i, t in enumerate(both)]
    kept = {"jax==0.10.1": {"python": "3.11.11", "packages": {"jax": "0.10.1"}, "sha256": "x"}}
    written(tmp_path, both, "r", environments=kept)
    new, base = (read_side(f"{tmp_path / 'r'}@{e}", "S") for e in ("jax==0.10.1", "this"))
    found = compare(base, new)
    assert {cell.verdict for cell in found.cells} == {"worse"}
    assert found.versions["jax"] == ("0.10.2", "0.10.1")
    mixed = compare(read_side(str(tmp_path / "r"), "S"), new)
    assert not mixed.cells and "several environments" in mixed.not_compared[0].reason
    with pytest.raises(UsageError, match=r"an environment of these runs: jax==0\.10\.1, this"):
        read_side(f"{tmp_path / 'r'}@jax==9", "S")


# The command


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    written(tmp_path / "results", trials(10), "base")
    written(tmp_path / "results", trials(10, 1.5, seed=1), "slow")
    written(tmp_path / "results", trials(10, seed=2), "alike")
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


def in_terminal(found: Comparison, width: int) -> str:
    into = io.StringIO()
    print_comparison(found, Console(file=into, width=width))
    return into.getvalue()


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


# What must not pass


def with_outcome(records: Sequence[TrialRecord], outcome: str, count: int) -> list[TrialRecord]:
    return [
        dataclasses.replace(t, outcome=outcome, recovery_s=None) if i < count else t
        for i, t in enumerate(records)
    ]


def test_more_divergence_than_before_is_divergence() -> None:
    plain = trials(10, cells=CELLS[:1])
    few, many = (with_outcome(plain, "diverged", count) for count in (1, 10))
    found = compared(side(few), side(many, "new"))
    assert found.found("divergence") and found.changes[0].base == (1, 10)
    assert compared(side(many), side(few, "new")).found("divergence") == []


@pytest.mark.parametrize("outcome", ["no_effect", "invalid"])
def test_a_side_that_says_nothing_is_no_pass(outcome: str) -> None:
    plain = trials(5, cells=CELLS[:1])
    found = compared(side(plain), side(with_outcome(plain, outcome, 5), "new"))
    assert not found.cells and f"5 {outcome}" in found.not_compared[0].reason
    assert found.found("regression") == ["no cell could be compared"]


def test_a_run_that_was_skipped_is_no_pass() -> None:
    new = dataclasses.replace(side(trials(10, seed=1), "new"), skipped=(("x", "damaged"),))
    assert compared(side(trials(10)), new).found("any") == ["x: skipped: damaged"]


def test_a_base_of_zero_hides_nothing() -> None:
    zero = [dataclasses.replace(t, recovery_s=0.0) for t in trials(10, cells=CELLS[:1])]
    found = compared(side(zero), side(trials(10, cells=CELLS[:1]), "new"))
    assert found.cells[0].rows[0].verdict == "worse"
