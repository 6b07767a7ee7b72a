"""Two sides compared: what is matched, what is not, what is said."""

from __future__ import annotations

import dataclasses
import json
import re
from pathlib import Path
from typing import Any

import pytest

from recoverybench.compare.build import compare
from recoverybench.compare.key import differences, key_of
from recoverybench.compare.markdown import MARKER, to_markdown
from recoverybench.compare.page import to_html
from recoverybench.compare.sides import Side, read_side
from recoverybench.errors import UsageError
from tests.sample_run import make_cell, make_run, timed_out_trial
from tests.sides import CELLS, all_forms, compared, side, trials, with_outcome, written

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


# What must not pass


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
