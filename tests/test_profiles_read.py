"""Profiles as they are read back, and which trials are run for them."""

from __future__ import annotations

import dataclasses
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recoverybench.campaign.design import ended, next_places, profile_places
from recoverybench.campaign.profiled import profilable
from recoverybench.cli import main
from recoverybench.errors import UsageError
from recoverybench.plan.suite import Overrides, Suite, load_suite
from recoverybench.profiles.model import PARTS
from recoverybench.profiles.reading import load_summary, profiles_of
from recoverybench.results.lookup import find_trial
from recoverybench.results.store import RunDir, load, new_directory
from tests.real_support import BASE
from tests.sample_run import make_cell, make_trial

SAMPLE = Path(__file__).parent / "samples" / "v4"
PROFILED = "0002"


# --- what is read back ------------------------------------------------------------------


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """The run of the sample, to be changed."""
    return Path(shutil.copytree(SAMPLE, tmp_path / "run"))


def summary_with(run: Path, change: Callable[[dict[str, Any]], object]) -> str:
    """What reading says of a summary that was changed."""
    path = run / "profile" / PROFILED / "summary.json"
    data = json.loads(path.read_text())
    change(data)
    path.write_text(json.dumps(data))
    (found,) = profiles_of(load(run))
    assert found.workers == () and found.problem is not None and "\n" not in found.problem
    return found.problem.replace(str(run), "RUN")


def test_a_real_trial_is_read(run: Path) -> None:
    loaded = load(run)
    (found,) = profiles_of(loaded)
    assert (found.trial, found.directory, found.problem) == (PROFILED, "profile/0002", None)
    assert found.record is loaded.profiled[0] and found.cell == loaded.trials[0].cell
    assert [(w.worker, w.problem) for w in found.workers] == [(0, None), (1, None), (2, None)]
    for worker in found.workers:
        assert [part.name for part in worker.parts] == list(PARTS)
        for part in worker.parts:
            assert sum(part.split.values()) == pytest.approx(part.seconds, abs=1e-6)
            assert part.operations
        step, restore = worker.part("first_step"), worker.part("restore")
        assert step is not None and restore is not None
        assert step.split["device"] > 0 and step.split["collective"] > 0
        assert "read the checkpoint" in restore.spans
    for one in found.overhead:
        times = sorted(t.phases[one.phase] for t in loaded.trials)
        assert one.median_s == pytest.approx(sum(times) / 2) and one.trials == 2
        assert one.extra_s == pytest.approx(one.profiled_s - one.median_s)
        assert one.ratio == pytest.approx(one.profiled_s / one.median_s)
    assert [one.phase for one in found.overhead] == list(PARTS)


def test_a_phase_of_a_worker_is_no_longer_than_the_jobs(run: Path) -> None:
    """Two clocks measured the same: the profiler's, and that of the journals."""
    (found,) = profiles_of(load(run))
    for phase in PARTS:
        longest = max(p.seconds for w in found.workers if (p := w.part(phase)) is not None)
        assert longest < found.record.phases[phase] + 0.05


def test_statistics_see_the_others_alone(run: Path) -> None:
    loaded = load(run)
    assert [t.trial for t in loaded.trials] == ["0000", "0001"]
    assert [t.trial for t in loaded.profiled] == [PROFILED]
    assert loaded.jobs == len(loaded.frame()) == 2
    assert find_trial(loaded, "2") is loaded.profiled[0]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda d: d.pop("trial"), "trial is missing"),
        (lambda d: d.update(trial="0001"), "trial = '0001': expected '0002'"),
        (lambda d: d.update(schema=99), "schema = 99: expected a version from 1 to"),
        (lambda d: d.update(more=1), "more = 1: no such field"),
        (lambda d: d["profiles"][1].update(worker="x"), "profiles[1].worker = 'x'"),
        (lambda d: d["profiles"][0].update(file="../../etc/passwd"), "profiles[0].file"),
        (lambda d: d["profiles"][0].update(file="profile/../x"), "profiles[0].file"),
        (lambda d: d["profiles"][0].update(file="/etc/passwd"), "profiles[0].file"),
        (lambda d: d["profiles"][0]["parts"][0].update(name="x"), "parts[0].name = 'x'"),
        (lambda d: d["profiles"][0]["parts"][0]["split"].update(x=1.0), "split has 'x'"),
        (lambda d: d["profiles"][0]["parts"][0].update(seconds=-1.0), "has a negative time"),
        (lambda d: d["profiles"][0]["parts"][0].update(seconds=1e300), "more than 1e+09 s"),
        (lambda d: d["profiles"][0]["parts"][0]["split"].update(host=1e10), "more than 1e+09 s"),
        (
            lambda d: d["profiles"][0]["parts"][0]["operations"][0].update(seconds=1e10),
            "more than 1e+09 s",
        ),
        (
            lambda d: d["profiles"][0]["parts"][0]["operations"][0].update(kind="x"),
            "parts[0].operations has the kind 'x'",
        ),
        (lambda d: d.update(profiles=d["profiles"] * 2000), "more than 4096 entries"),
    ],
)
def test_a_summary_that_is_none_is_named(
    run: Path, change: Callable[[dict[str, Any]], object], said: str
) -> None:
    assert said in summary_with(run, change)


def test_a_summary_of_somebody_else_is_read_within_limits(run: Path, tmp_path: Path) -> None:
    path = run / "profile" / PROFILED / "summary.json"
    elsewhere = tmp_path / "elsewhere.json"
    path.rename(elsewhere)
    path.symlink_to(elsewhere)
    (found,) = profiles_of(load(run))
    assert "a link that leads out of" in str(found.problem)
    for place in (path, path.parent, run / "profile"):
        place.unlink() if place.is_symlink() else shutil.rmtree(place)
        place.symlink_to(place.name)
        (found,) = profiles_of(load(run))
        said = "its profiles cannot be read: Too many levels of symbolic links"
        assert found.problem == said
        place.unlink()
        place.write_text("mine")
        if place != path:
            (found,) = profiles_of(load(run))
            assert found.problem == "its profiles cannot be read: Not a directory"
        place.unlink()
        place.symlink_to(place.name)
    (run / "profile").unlink()
    path.parent.mkdir(parents=True)
    (found,) = profiles_of(load(run))
    assert found.problem == "its profiles are not with the run"
    path.write_text("{")
    (found,) = profiles_of(load(run))
    assert "not JSON" in str(found.problem)
    path.write_text("[]")
    with pytest.raises(UsageError, match="expected an object"):
        load_summary(run, PROFILED)


def test_a_trial_that_did_not_come_back_has_no_overhead(run: Path) -> None:
    path = run / "trials.jsonl"
    *rest, last = path.read_text().splitlines(keepends=True)
    path.write_text("".join(rest) + json.dumps({**json.loads(last), "outcome": "timeout"}) + "\n")
    assert profiles_of(load(run))[0].overhead == ()


def test_show_says_how_many_there_are_and_where(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def said(*options: str) -> str:
        with pytest.raises(SystemExit) as ended:
            main(["show", str(run), *options])
        assert ended.value.code == 0
        return capsys.readouterr().out

    where = f"1 profiled trial, in no number above (0002): {run / 'profile'}"
    assert where in said().replace("\n", "")
    assert "trial 0002" in said("--trial", "2")
    data = json.loads(said("--format", "json"))
    assert [t["trial"] for t in data["trials"]] == ["0000", "0001"]
    assert [t["trial"] for t in data["profiled"]] == [PROFILED]


# --- which trials are run ---------------------------------------------------------------

CELLS = tuple(make_cell(strategy=name) for name in ("restart", "elastic"))


def suite(**changes: Any) -> Suite:
    return dataclasses.replace(Suite("s", "", 3, 0, 60.0, 45, CELLS, profile=True), **changes)


def lived(wanted: Suite, cells: tuple[Any, ...] = CELLS, cut: int = 10**6) -> list[Any]:
    """A campaign to its end, or to a cut."""
    records: list[Any] = []
    while len(records) < cut:
        places = next_places(wanted, records) or profile_places(wanted, records, cells)
        if not places:
            break
        for place in places[: cut - len(records)]:
            made = make_trial(len(records), cell=place.cell, rep=place.rep)
            records.append(
                dataclasses.replace(
                    made, block=place.block, position=place.position, profiled=place.profiled
                )
            )
    return records


def test_each_cell_has_one_behind_its_measured_trials() -> None:
    records = lived(suite())
    assert [r.profiled for r in records] == [False] * 6 + [True] * 2
    assert {r.cell for r in records[6:]} == set(CELLS)
    assert [(r.block, r.position, r.rep) for r in records[6:]] == [(3, 0, 0), (3, 1, 0)]


@given(st.integers(0, 9))
def test_a_cut_changes_nothing_of_it(cut: int) -> None:
    records = lived(suite(), cut=cut)
    whole = lived(suite())
    left = [*records]
    while places := next_places(suite(), left) or profile_places(suite(), left, CELLS):
        for place in places:
            made = make_trial(len(left), cell=place.cell, rep=place.rep)
            changes = {"block": place.block, "position": place.position}
            left.append(dataclasses.replace(made, profiled=place.profiled, **changes))  # type: ignore[arg-type]
    key = [(r.cell.strategy, r.rep, r.block, r.position, r.profiled) for r in left]
    assert key == [(r.cell.strategy, r.rep, r.block, r.position, r.profiled) for r in whole]


def test_nothing_is_concluded_from_them() -> None:
    wanted = suite(budget_s=1000.0, precision=0.1, trials=50)
    measured = [r for r in lived(wanted) if not r.profiled]
    slow = [dataclasses.replace(r, profiled=True, recovery_s=99.0, wall_s=900.0) for r in measured]
    assert next_places(wanted, [*measured, *slow]) == next_places(wanted, measured)
    assert ended(wanted, [*measured, *slow], over=False) == ended(wanted, measured, over=False)


def test_who_gets_none_is_told_why() -> None:
    said: list[str] = []
    soak = make_cell(fault="poisson:30s")
    command = make_cell(workload="job.toml", strategy="own")
    wanted = suite(cells=(*CELLS, soak, command))
    assert profilable(wanted, said.append) == list(CELLS)
    assert len(said) == 2 and all(line.startswith("no profile of ") for line in said)
    assert profilable(dataclasses.replace(wanted, profile=False), said.append) == []
    assert len(said) == 2


def test_a_suite_asks_for_it_or_an_option_does(tmp_path: Path) -> None:
    path = tmp_path / "s.toml"
    text = '[suite]\nname = "s"\nsteps = 30\n{}[matrix]\n'
    for name, values in BASE.items():
        text += f"{name} = {json.dumps(values)}\n"
    path.write_text(text.format("profile = true\n"))
    assert load_suite(str(path)).profile
    path.write_text(text.format(""))
    assert not load_suite(str(path)).profile
    assert load_suite(str(path), Overrides(profile=True)).profile
    path.write_text(text.format('profile = "yes"\n'))
    with pytest.raises(UsageError, match=r"suite\.profile = 'yes': expected true or false"):
        load_suite(str(path))


def test_a_run_that_goes_on_has_the_profiled_ones_too(run: Path) -> None:
    wanted = load(run).info.suite
    directory, records = RunDir.resume(run, wanted)
    with directory:
        assert [r.profiled for r in records] == [False, False, True]
        assert profile_places(wanted, records, wanted.cells) == []
        assert new_directory(run, "profile", PROFILED).is_dir()
    assert (run / "profile" / f"{PROFILED}.cut-1" / "summary.json").exists()
