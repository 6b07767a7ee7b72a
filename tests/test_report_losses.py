"""Losses across the fault: which trial is shown, what its files say, and what is not believed."""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
from pathlib import Path

import pytest

from recoverybench.report import loss_reading, render
from recoverybench.report.loss_reading import Losses, read_losses
from recoverybench.report.losses import MOST, Shown, loss_figure, shown_losses, telling
from recoverybench.report.rows import rows_of
from recoverybench.report.section import Material
from recoverybench.results.store import Run, load
from tests.sample_run import failed_trial, make_cell, make_run, make_trial

SAMPLES = Path(__file__).parent / "samples"
NAN = "7fc00000"
HOSTILE = "<img src=x onerror=alert(1)>"


@pytest.fixture
def kept(tmp_path: Path) -> Path:
    """A real run of mlp:tiny that may be changed."""
    return shutil.copytree(SAMPLES / "v3", tmp_path / "v3")


def read(path: Path) -> Losses:
    """Of the one trial of a sample that has journals."""
    found = read_losses(path, with_journal(load(path)))
    assert found is not None
    return found


def with_journal(run: Run):  # type: ignore[no-untyped-def]
    return next(t for t in run.trials if (run.path / "journal" / t.trial).is_dir())


def changed(path: Path, step: int, bits: str) -> None:
    """Another loss at that step, of all workers after the fault."""
    for file in path.glob("journal/*/*.jsonl"):
        lines = [json.loads(line) for line in file.read_text().splitlines()]
        for line in lines:
            if line["event"] == "step" and line["step"] == step and line["generation"] > 0:
                line["loss_bits"] = bits
        file.write_text("".join(json.dumps(line) + "\n" for line in lines))


def material(*runs: Run) -> Material:
    return Material(runs, rows_of(runs))


# ---- what is read --------------------------------------------------------------------------


@pytest.mark.parametrize("version", ["v1", "v2", "v3"])
def test_losses_of_a_real_trial_equal_the_reference(version: str) -> None:
    losses = read(SAMPLES / version)
    trial = with_journal(load(SAMPLES / version))
    assert losses.trouble is None
    assert losses.before[-1].step == trial.step_before
    assert losses.after[0].step == trial.restored_step + 1
    assert not any(losses.differs(p) for p in (*losses.before, *losses.after))
    assert {losses.difference(p) for p in losses.after} == {0.0}


def test_losses_of_a_command_are_what_it_printed() -> None:
    losses = read(SAMPLES / "v2-command")
    assert losses.before[0].bits == "7.900" and losses.before[0].loss == 7.9
    assert losses.after and not any(losses.differs(p) for p in losses.after)


def test_another_loss_and_one_that_is_no_number_are_different(kept: Path) -> None:
    changed(kept, 40, "41200000")
    changed(kept, 41, NAN)
    losses = read(kept)
    points = {p.step: p for p in losses.after}
    assert losses.difference(points[40]) == pytest.approx(10 - losses.reference[40][0][0])
    assert losses.differs(points[41]) and losses.difference(points[41]) is None
    row = next(r for r in rows_of([load(kept)]) if with_journal(load(kept)) in r.trials)
    shown = Shown(row, with_journal(load(kept)), losses)
    assert shown.different == 2 and shown.largest.endswith(", 1 not a number")
    figure = loss_figure(shown)
    names = [trace["name"] for trace in figure["data"]]
    assert "not a number" in names and "difference after the fault" in names
    json.dumps(figure, allow_nan=False)


def test_equal_losses_have_no_second_panel(kept: Path) -> None:
    run = load(kept)
    (shown,) = shown_losses(material(run))
    figure = loss_figure(shown)
    assert "yaxis2" not in figure["layout"] and shown.largest == "none, bit for bit"
    said = [a["text"] for a in figure["layout"]["annotations"]]
    assert said == [
        f"fault after step {shown.trial.step_before}",
        f"back at step {shown.trial.restored_step}",
    ]


def test_a_run_without_journals_has_no_section(kept: Path) -> None:
    assert 'id="losses"' in render([load(kept)])
    shutil.rmtree(kept / "journal")
    assert 'id="losses"' not in render([load(kept)])
    assert 'id="losses"' not in render([make_run()])


def test_a_run_without_its_reference_says_so(kept: Path) -> None:
    shutil.rmtree(kept / "reference")
    page = render([load(kept)])
    assert "its reference is not there" in page and 'id="loss-curve"' in page


# ---- what is not believed ------------------------------------------------------------------


def test_lines_that_are_no_losses_are_passed_over(kept: Path) -> None:
    (directory,) = kept.glob("journal/*")
    whole = read(kept)
    odd = [
        b'["step"]',
        b'"step" {',
        b"[" * 100_000 + b'"step"',
        b'{"event":"step","t":"x","step":1,"loss_bits":"00000000","worker":0}',
        b'{"event":"step","t":1,"step":true,"loss_bits":"00000000","worker":0}',
        b'{"event":"step","t":1,"step":1,"loss_bits":"zz","worker":0}',
        b'{"event":"step","t":1,"step":1,"loss_bits":5,"worker":0}',
        b'{"event":"mark","what":"step","t":1,"step":1,"loss":5,"worker":0}',
        b'{"event":"step","t":1,"step":' + b"9" * 4000 + b',"loss_bits":"00000000"}',
        b'\xff\xfe"step"',
    ]
    (directory / "7.0.jsonl").write_bytes(b"\n".join(odd) + b'\n{"event":"step","t":1')
    assert read(kept) == whole


def test_journals_that_lead_out_or_block_or_are_too_long_are_not_read(
    kept: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (directory,) = kept.glob("journal/*")
    elsewhere = tmp_path / "elsewhere.jsonl"
    elsewhere.write_text("{}\n")
    (directory / "8.0.jsonl").symlink_to(elsewhere)
    assert "a link that leads out" in (read(kept).trouble or "")
    (directory / "8.0.jsonl").unlink()
    os.mkfifo(directory / "8.0.jsonl")
    assert "a pipe" in (read(kept).trouble or "")
    (directory / "8.0.jsonl").unlink()
    monkeypatch.setattr(loss_reading, "TRIAL_LIMIT", 1000)
    assert "cannot be read: more than" in (read(kept).trouble or "")
    moved = directory.rename(tmp_path / "moved")
    directory.symlink_to(moved)
    assert "leads out of the run" in (read(kept).trouble or "")


@pytest.mark.parametrize(
    "content", ["", "[]", "{}", '{"losses": 3}', '{"losses": {"x": "y"}}', '{"losses": {"1": 4}}']
)
def test_a_reference_that_is_none_is_said_to_be_so(kept: Path, content: str) -> None:
    (file,) = kept.glob("reference/*.json")
    file.write_text(content)
    losses = read(kept)
    assert losses.reference == {} and losses.trouble is not None and losses.after
    assert str(kept) not in losses.trouble


def test_the_name_of_a_reference_leads_nowhere(kept: Path, tmp_path: Path) -> None:
    trial = with_journal(load(kept))
    (tmp_path / "secret.json").write_text('{"losses": {"1": "00000000"}}')
    for name in ("../../secret", "..", "a/b", "a\0b", "\ud800", HOSTILE, "x" * 300):
        verify = dataclasses.replace(trial.verify, reference=name)
        found = read_losses(kept, dataclasses.replace(trial, verify=verify))
        assert found is not None and found.reference == {} and found.trouble


# ---- which trials --------------------------------------------------------------------------


def test_the_first_that_diverged_says_most_then_the_median_one() -> None:
    trials = [make_trial(i, rep=i) for i in range(5)]
    (row,) = rows_of([make_run(trials)])
    middle = sorted(trials, key=lambda t: t.recovery_s or 0)[2]
    assert telling(row) == middle
    wrong = dataclasses.replace(trials[3], outcome="diverged")
    (row,) = rows_of([make_run([*trials[:3], wrong, trials[4]])])
    assert telling(row) == wrong
    (row,) = rows_of([make_run([failed_trial(0)])])
    assert telling(row) is None  # it was never struck


def test_at_most_a_few_cells_are_shown_and_the_wrong_ones_first(kept: Path) -> None:
    run = load(kept)
    base = with_journal(run)
    trials = []
    for i in range(MOST + 6):
        cell = dataclasses.replace(base.cell, watchdog_s=float(i + 1))
        trial = dataclasses.replace(base, cell=cell, recovery_s=1.0 + i)
        last = i == MOST + 5
        trials.append(dataclasses.replace(trial, outcome="diverged") if last else trial)
    many = dataclasses.replace(run, trials=tuple(trials))
    found = shown_losses(material(many))
    assert len(found) == MOST
    assert [s.trial.outcome for s in found].count("diverged") == 1


def test_texts_of_a_run_are_text(kept: Path) -> None:
    run = load(kept)
    cell = make_cell(strategy=HOSTILE, fault=HOSTILE)
    trials = tuple(dataclasses.replace(t, cell=cell) for t in run.trials)
    page = render([dataclasses.replace(run, trials=trials)])
    assert 'id="losses"' in page and "<img" not in page
    (shown,) = shown_losses(material(dataclasses.replace(run, trials=trials)))
    assert "<img" not in str(loss_figure(shown))
