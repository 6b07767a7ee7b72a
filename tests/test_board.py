# mypy: disable-error-code="import-untyped"
"""What TensorBoard is told of runs: names of directories, and what is in them."""

from __future__ import annotations

import dataclasses
import itertools
import math
import statistics
import unicodedata
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from recoverybench.board import Board, Session, board_of
from recoverybench.board.build import moment_s
from recoverybench.board.names import LIMIT, safe_name, unique_names
from recoverybench.board.scalars import COLUMN_OF, METRICS
from recoverybench.cells import FACTORS
from recoverybench.errors import UsageError
from recoverybench.records import TrialRecord
from recoverybench.results.columns import COLUMNS
from recoverybench.results.store import load
from recoverybench.stats import summarise
from recoverybench.vocabulary import OUTCOMES
from tests.sample_boards import HOSTILE, SAMPLES, told
from tests.sample_run import (
    default_trials,
    make_cell,
    make_run,
    make_trial,
    soak_trials,
    timed_out_trial,
)
from tests.strategies import records

# --- names --------------------------------------------------------------------------------


texts = st.text(st.characters(), max_size=150) | st.sampled_from(HOSTILE)


@given(texts)
@example("ﬁ" * 120)
@example("a" * (LIMIT - 1) + "é")
@example("a" * (LIMIT - 1) + "..")
def test_a_name_is_one_directory_and_leads_nowhere(text: str) -> None:
    name = safe_name(text, empty="cell")
    assert 0 < len(name.encode()) <= LIMIT
    assert Path(name).parts == (name,)
    assert not name.startswith((".", "-", "~")) and not name.endswith((".", "-"))
    assert all(c.isalnum() or c in "._=+@,-" for c in name)
    assert safe_name(name, empty="cell") == name
    assert unicodedata.is_normalized("NFC", name)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("elastic", "elastic"),
        ("hot-spare · environment jax==0.10.2", "hot-spare,environment-jax==0.10.2"),
        ("mlp:tiny · step:25 · 3x1:data=3", "mlp-tiny,step-25,3x1-data=3"),
        ("../../../etc/passwd", "etc-passwd"),
        ("a/../b", "a-..-b"),
        ("モデル:層", "モデル-層"),
        ("..", "cell"),
        ("\x1b[31m", "31m"),
    ],
)
def test_people_recognise_it(text: str, name: str) -> None:
    assert safe_name(text, empty="cell") == name


def folded(name: str) -> str:
    """What a file system that knows neither case nor composition takes for the same."""
    return unicodedata.normalize("NFD", unicodedata.normalize("NFD", name).casefold())


few = st.sampled_from(["a", "A", "a-2", "A-2", "a-3", "é", "É", "e\u0301", "ß", "SS", "b"])


@given(st.lists(few | texts.map(lambda text: safe_name(text, empty="x")), max_size=25))
def test_no_two_are_one(names: list[str]) -> None:
    found = unique_names(names)
    assert len(found) == len(names)
    assert len({folded(name) for name in found}) == len(found)
    assert all(one.startswith(name) for one, name in zip(found, names, strict=True))
    assert found[:1] == names[:1]
    if len({folded(name) for name in names}) == len(names):
        assert found == names
    assert unique_names(found) == found


def test_a_thousand_of_one_name_take_no_time() -> None:
    found = unique_names(["a"] * 10_000)
    assert found[:3] == ["a", "a-2", "a-3"] and len(set(found)) == 10_000


# --- what is in it ------------------------------------------------------------------------


def only(board: Board) -> Session:
    (session,) = board.sessions
    return session


def test_the_default_suite() -> None:
    board = told(default_trials())
    assert [s.directory for s in board.sessions] == [
        f"quick-20260301-120000/{name}" for name in ("restart", "elastic", "hot-spare")
    ]
    assert [s.name for s in board.sessions] == ["restart", "elastic", "hot-spare"]
    (strategy,) = board.parameters
    assert (strategy.name, strategy.kind) == ("strategy", "text")
    assert strategy.values == ("restart", "elastic", "hot-spare")
    assert board.metrics[:5] == (
        "summary/median_recovery_s",
        "summary/median_time_to_progress_s",
        "summary/rate",
        "summary/trials",
        "summary/median_lost_steps",
    )
    for session in board.sessions:
        assert [point.step for point in session.trials] == [0, 1, 2]
        assert set(session.summary.values) == set(board.metrics)
        assert session.status == "success"
        times = [point.values["recovery_s"] for point in session.trials]
        assert session.summary.values["summary/median_recovery_s"] == statistics.median(times)


def test_cells_are_in_the_order_of_the_suite() -> None:
    trials = default_trials()
    run = make_run(trials)
    mixed = dataclasses.replace(run, trials=tuple(reversed(trials)))
    names = [s.name for s in board_of([mixed]).sessions]
    assert names == ["restart", "elastic", "hot-spare"]
    assert board_of([mixed]).parameters == board_of([run]).parameters


def test_a_trial_that_never_recovered_is_a_zero_and_no_time() -> None:
    trials = [make_trial(0), timed_out_trial(1, rep=1), make_trial(2, rep=2)]
    session = only(told(trials))
    assert [p.values["outcome/recovered"] for p in session.trials] == [1, 0, 1]
    assert [p.values["outcome/timeout"] for p in session.trials] == [0, 1, 0]
    assert ["recovery_s" in p.values for p in session.trials] == [True, False, True]
    assert session.status == "failure"
    assert session.summary.values["summary/rate"] == pytest.approx(2 / 3)
    assert session.summary.values["summary/trials"] == 3


def test_one_that_was_back_with_another_outcome_has_both() -> None:
    trial = dataclasses.replace(make_trial(0), outcome="diverged")
    (point,) = only(told([trial])).trials
    assert point.values["recovery_s"] == trial.recovery_s
    assert (point.values["outcome/recovered"], point.values["outcome/diverged"]) == (0, 1)
    assert not any(tag == "outcome/timeout" for tag in point.values)


def test_a_median_that_is_only_known_to_be_longer_is_not_there() -> None:
    session = only(told([make_trial(0), *(timed_out_trial(i, rep=i) for i in (1, 2))]))
    assert "summary/median_recovery_s" not in session.summary.values
    assert session.summary.values["summary/rate"] == pytest.approx(1 / 3)


def test_late_trials_count_in_the_median_as_in_show() -> None:
    trials = [*(make_trial(i, rep=i) for i in range(3)), timed_out_trial(3, rep=3)]
    run = make_run(trials)
    (summary,) = summarise(trials, deadline_s=run.info.suite.deadline_s)
    assert summary.recovery is not None and summary.recovery_s is not None
    values = only(board_of([run])).summary.values
    assert values["summary/median_recovery_s"] == summary.recovery.median
    assert summary.recovery.median != summary.recovery_s.median
    assert values["summary/median_phase_restore_s"] == summary.phases["restore"].median


def test_where_nothing_could_be_judged_there_is_no_rate() -> None:
    session = only(told([dataclasses.replace(make_trial(0), outcome="invalid")]))
    assert session.status == "unknown"
    assert session.summary.values == {
        "summary/trials": 1,
        "summary/recovered": 0,
        "summary/judged": 0,
    }


def test_profiled_trials_are_in_none_of_it() -> None:
    run = make_run(default_trials())
    extra = dataclasses.replace(make_trial(99, rep=3), profiled=True, recovery_s=99.0)
    assert board_of([dataclasses.replace(run, profiled=(extra,))]) == board_of([run])
    sample = load(SAMPLES / "v4")
    assert sample.profiled
    steps = [p.step for s in board_of([sample]).sessions for p in s.trials]
    assert len(steps) == len(sample.trials)


def test_the_injections_of_a_soak_are_counted() -> None:
    """They are one repetition, so the repetition is no place on an axis."""
    session = only(told(soak_trials(4)))
    assert [point.step for point in session.trials] == [0, 1, 2, 3]
    assert {point.values["trial/soak_goodput"] for point in session.trials} == {0.874}


def test_steps_are_repetitions_in_their_order() -> None:
    trials = [make_trial(i, rep=rep) for i, rep in enumerate((5, 0, 3))]
    session = only(told(trials))
    assert [point.step for point in session.trials] == [0, 3, 5]
    assert session.trials[2].values["recovery_s"] == trials[0].recovery_s


def test_times_of_day_are_the_earliest_there_can_be() -> None:
    trials = [
        dataclasses.replace(make_trial(i, rep=i // 2, cell=make_cell(strategy=name)), wall_s=10.0)
        for i, name in enumerate(("restart", "elastic") * 2)
    ]
    board = told(trials, created="2026-03-01T12:00:00+00:00")
    began = 1772366400.0
    assert board.created_s == began
    restart, elastic = board.sessions
    assert [p.wall_time_s - began for p in restart.trials] == [10, 30]
    assert [p.wall_time_s - began for p in elastic.trials] == [20, 40]
    assert (restart.started_s - began, restart.ended_s - began) == (0, 30)
    assert elastic.summary.wall_time_s - began == 40


def test_a_trial_that_took_for_ever_has_a_time_of_day() -> None:
    trials = [
        dataclasses.replace(make_trial(i, rep=i), wall_s=w) for i, w in enumerate((1e308, -5))
    ]
    first, second = only(told([*trials, *trials])).trials[:2]
    assert first.wall_time_s == second.wall_time_s == moment_s("9999-12-31T23:59:59")


@pytest.mark.parametrize("text", ["", "yesterday", "2026-13-01", "\x00", "9" * 50])
def test_a_run_that_says_no_time_began_long_ago(text: str) -> None:
    assert moment_s(text) == 0
    assert moment_s("1970-01-01T00:01:00") == 60
    assert told([make_trial(0)], created=text).created_s == 0


def test_columns_are_what_differs() -> None:
    changes: list[dict[str, Any]] = [
        {"interval": 10, "watchdog_s": None},
        {"interval": 5, "watchdog_s": 2.5},
        {"interval": 10, "watchdog_s": 2.5, "environment": "jax==0.9.2"},
    ]
    cells = [make_cell(**one) for one in changes]
    board = told([make_trial(i, cell=cell) for i, cell in enumerate(cells)])
    found = {p.name: (p.kind, p.values) for p in board.parameters}
    assert found == {
        "interval": ("number", (5.0, 10.0)),
        "watchdog_s": ("number", (2.5,)),
        "environment": ("text", ("jax==0.9.2",)),
    }
    first = board.sessions[0].hparams
    assert "watchdog_s" not in first and first["interval"] == 10.0
    assert first["trigger"] == "step:25", "what is the same in all is known, and is no column"
    assert set(first) <= set(FACTORS)


def test_one_cell_has_its_strategy() -> None:
    (parameter,) = told([make_trial(0)]).parameters
    assert (parameter.name, parameter.values) == ("strategy", ("elastic",))


def test_simulated_faults_are_told_from_others() -> None:
    trials = [make_trial(0), make_trial(1, cell=make_cell(strategy="pathways"))]
    assert "simulated" not in told(trials).sessions[0].hparams
    board = told([trials[0], dataclasses.replace(trials[1], simulated=True)])
    assert [s.hparams["simulated"] for s in board.sessions] == [False, True]
    assert [p.kind for p in board.parameters if p.name == "simulated"] == ["flag"]


def test_runs_are_told_apart() -> None:
    runs = [
        make_run(name="a", label="v1"),
        make_run(name="b", label=None),
        make_run([]),
        make_run(name="a", label="v1"),
    ]
    runs[3] = dataclasses.replace(runs[3], path=Path("elsewhere/a"))
    board = board_of(runs)
    assert len(board.sessions) == 9
    assert len({session.directory for session in board.sessions}) == 9
    assert len({session.name for session in board.sessions}) == 9
    assert [p.name for p in board.parameters] == ["run", "label", "strategy"]
    assert "label" not in board.sessions[3].hparams
    first, other = board.sessions[0], board.sessions[6]
    assert first.hparams["run"] == "results/a-20260301-120000"
    assert (first.directory, other.directory) == (
        "results-a-20260301-120000/restart",
        "elsewhere-a/restart",
    )


def test_cells_whose_cleaned_names_are_one_stay_two() -> None:
    cells = [make_cell(strategy=name) for name in ("a/b", "a b", "A-B")]
    board = told([make_trial(i, cell=cell) for i, cell in enumerate(cells)])
    assert [s.name for s in board.sessions] == ["a-b", "a-b-2", "A-B-3"]
    assert [s.hparams["strategy"] for s in board.sessions] == ["a/b", "a b", "A-B"]


def test_no_trial_is_nothing_to_show() -> None:
    run = make_run([])
    with pytest.raises(UsageError, match=f"{run.path}: no finished trial"):
        board_of([run, run])
    only_profiled = dataclasses.replace(run, profiled=(make_trial(0),))
    with pytest.raises(UsageError, match="no finished trial"):
        board_of([only_profiled])


def test_every_tag_is_a_number_of_the_table() -> None:
    for column in COLUMN_OF.values():
        assert COLUMNS[column].dtype in ("float64", "Int64")
    groups = sorted({tag.partition("/")[0] for tag in [*COLUMN_OF, "outcome/x", *METRICS]})
    assert groups[:2] == ["outcome", "phases"], "TensorBoard opens the first two"


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(records(), min_size=1, max_size=6, unique_by=lambda r: r.trial))
def test_laws_of_a_board(trials: list[TrialRecord]) -> None:
    board = told(trials)
    assert sum(len(s.trials) for s in board.sessions) == len(trials)
    assert len({folded(s.directory) for s in board.sessions}) == len(board.sessions)
    known = {*COLUMN_OF, *(f"outcome/{name}" for name in OUTCOMES)}
    for session in board.sessions:
        run, cell = session.directory.split("/")
        assert run and cell
        steps = [point.step for point in session.trials]
        assert all(a < b for a, b in itertools.pairwise(steps))
        assert session.started_s <= session.ended_s
        assert set(session.summary.values) <= set(board.metrics)
        for point in session.trials:
            assert set(point.values) <= known
            assert all(math.isfinite(value) for value in point.values.values())
            assert sum(v for t, v in point.values.items() if t.startswith("outcome/")) == 1
    for parameter in board.parameters:
        found = {s.hparams[parameter.name] for s in board.sessions if parameter.name in s.hparams}
        assert found == set(parameter.values)
