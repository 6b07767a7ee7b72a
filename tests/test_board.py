# mypy: disable-error-code="import-untyped"
"""Runs for TensorBoard: names, what is in it, and the directory as TensorBoard's reader has it."""

from __future__ import annotations

import dataclasses
import errno
import itertools
import math
import os
import statistics
import sys
import unicodedata
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from recoverybench import board as boards
from recoverybench import cli
from recoverybench.board import Board, Session, board_of, directory, event_streams, write
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
from tests.sample_run import (
    default_trials,
    detection_trials,
    make_cell,
    make_run,
    make_trial,
    soak_trials,
    timed_out_trial,
)
from tests.strategies import records

SAMPLES = Path(__file__).parent / "samples"
RUNS = [
    *(SAMPLES / name for name in ("v1", "v2", "v2-command", "v3", "v4", "v5")),
    Path(__file__).parent.parent / "results" / "quick-0.1.0",
]

# --- names --------------------------------------------------------------------------------

HOSTILE = [
    "../../../etc/passwd",
    "/abs",
    "..",
    ".",
    "",
    " ",
    "\x00",
    "\n\r\t",
    "\x1b[31mred\x07",
    "a\udcffb",
    "\u202etxt.exe",
    "</script><script>alert(1)</script>",
    "a/../b",
    "-rf",
    "~root",
    "a" * 5000,
    "語" * 5000,
    "é" * 5000,
    "C:\\x",
    "%2e%2e%2f",
    "$(reboot)",
]
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


def told(trials: list[TrialRecord], **changes: Any) -> Board:
    return board_of([make_run(trials, **changes)])


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


# --- what TensorBoard has of it -----------------------------------------------------------


def read(folder: Path) -> dict[str, list[Any]]:
    """Tag -> the events of a directory, as TensorBoard's own reader has them."""
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    found = EventAccumulator(str(folder), size_guidance={"scalars": 0, "tensors": 0}).Reload()
    return {tag: found.Scalars(tag) for tag in found.Tags()["scalars"]}


def read_hparams(folder: Path) -> dict[str, Any]:
    """Tag -> the message of HParams in a directory."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    from tensorboard.plugins.hparams import plugin_data_pb2

    found = EventAccumulator(str(folder)).Reload()
    return {
        tag: plugin_data_pb2.HParamsPluginData.FromString(content)
        for tag, content in found.PluginTagToContent("hparams").items()
    }


@pytest.mark.parametrize("path", RUNS, ids=lambda path: path.name)
def test_what_is_read_back_is_the_table(path: Path, tmp_path: Path) -> None:
    """Value for value, and nothing that the table does not have."""
    run = load(path)
    out = write([run], tmp_path / "board")
    frame = run.frame()
    seen = 0
    for session in board_of([run]).sessions:
        rows = frame
        for name in FACTORS:
            value = session.hparams.get(name)
            rows = rows[rows[name].isna() if value is None else rows[name] == value]
        rows = rows.sort_values("rep")
        found = read(out / session.directory)
        for tag, column in COLUMN_OF.items():
            expected = [
                (rep if rows["rep"].is_unique else place, np.float32(value))
                for place, (rep, value) in enumerate(zip(rows["rep"], rows[column], strict=True))
                if not pd.isna(value)
            ]
            assert [(e.step, e.value) for e in found.pop(tag, [])] == expected, tag
        seen += len(rows)
        told_apart = {t: [e.value for e in v] for t, v in found.items() if "outcome/" in t}
        assert told_apart["outcome/recovered"] == [float(v) for v in rows["recovered"]]
        for tag, values in told_apart.items():
            assert values == [float(o == tag.partition("/")[2]) for o in rows["outcome"]]
        left = {t: v for t, v in found.items() if t not in told_apart}
        assert {t: (v[0].step, v[0].value) for t, v in left.items()} == {
            t: (0, np.float32(v)) for t, v in session.summary.values.items()
        }
    assert seen == len(frame)


def test_hparams_are_messages_of_the_plugin(tmp_path: Path) -> None:
    trials = [*detection_trials(), dataclasses.replace(make_trial(9), simulated=True)]
    run = make_run(trials)
    board = board_of([run])
    out = write([run], tmp_path / "board")
    experiment = read_hparams(out)["_hparams_/experiment"].experiment
    assert [info.name for info in experiment.hparam_infos] == [p.name for p in board.parameters]
    assert [info.name.tag for info in experiment.metric_infos] == list(board.metrics)
    kinds = {info.name: info.type for info in experiment.hparam_infos}
    assert (kinds["fault"], kinds["simulated"], kinds["watchdog_s"]) == (1, 2, 3)
    for info, parameter in zip(experiment.hparam_infos, board.parameters, strict=True):
        assert list(info.domain_discrete) == list(parameter.values) and info.differs
    assert experiment.metric_infos[0].display_name == "recovery_s, median"
    for session in board.sessions:
        messages = read_hparams(out / session.directory)
        start = messages["_hparams_/session_start_info"].session_start_info
        values = {
            name: getattr(value, str(value.WhichOneof("kind")))
            for name, value in start.hparams.items()
        }
        assert values == session.hparams
        assert {n: type(v) for n, v in values.items()} == {
            n: type(v) for n, v in session.hparams.items()
        }
        assert start.group_name == session.name
        end = messages["_hparams_/session_end_info"].session_end_info
        assert end.status == {"unknown": 0, "success": 1, "failure": 2}[session.status]


def test_values_are_of_the_kind_that_every_loader_shows() -> None:
    """TensorBoard's fast loader leaves out scalars of double precision, and says nothing."""
    pytest.importorskip("tensorboard")
    kinds = set()
    for _, events in event_streams(told(default_trials())):
        for event in events:
            kinds |= {
                v.WhichOneof("value")
                for v in event.summary.value
                if not v.tag.startswith("_hparams_/")
            }
    assert kinds == {"simple_value"}


def test_steps_never_go_back_within_a_tag(tmp_path: Path) -> None:
    """A step back is a restart to TensorBoard, which drops what came after that step."""
    pytest.importorskip("tensorboard")
    trials = [make_trial(i, rep=9 - i) for i in range(10)]
    found = read(write([make_run(trials)], tmp_path / "b") / "quick-20260301-120000" / "elastic")
    assert [event.step for event in found["recovery_s"]] == list(range(10))


# --- the directory ------------------------------------------------------------------------


def files(root: Path) -> dict[str, bytes]:
    found = sorted(path for path in root.rglob("*") if path.is_file())
    return {str(path.relative_to(root)): path.read_bytes() for path in found}


def test_the_same_runs_are_the_same_bytes(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    runs = [make_run(name="a"), make_run(name="b")]
    first, second = (files(write(runs, tmp_path / name)) for name in ("x", "deep/er/y"))
    assert first == second and len(first) == 7
    assert "events.out.tfevents.1772366400.recoverybench" in first
    mask = os.umask(0)
    os.umask(mask)
    assert (tmp_path / "x").stat().st_mode & 0o777 == 0o777 & ~mask
    assert sorted(p.name for p in tmp_path.iterdir()) == ["deep", "x"]


def test_hostile_names_make_directories_inside(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    cells = [make_cell(strategy=name) for name in HOSTILE]
    trials = [dataclasses.replace(make_trial(i), cell=cell) for i, cell in enumerate(cells)]
    run = make_run(trials, run_id="..\x1b[2J\udcff", label="\udcff")
    out = write([run, make_run()], tmp_path / "in" / "board")
    assert [p.name for p in tmp_path.iterdir()] == ["in"]
    assert [p.name for p in (tmp_path / "in").iterdir()] == ["board"]
    assert len(files(out)) == 1 + len(HOSTILE) + 3
    assert all(path.count("/") == 2 for path in files(out) if not path.startswith("events"))


@pytest.mark.parametrize("made", ["file", "directory", "link"])
def test_what_is_there_is_left_alone(tmp_path: Path, made: str) -> None:
    pytest.importorskip("tensorboard")
    out = tmp_path / "board"
    if made == "file":
        out.write_text("mine")
    elif made == "directory":
        out.mkdir()
    else:
        out.symlink_to(tmp_path / "nowhere")
    with pytest.raises(UsageError, match="expected a directory that does not exist yet"):
        write([make_run()], out)
    assert [p.name for p in tmp_path.iterdir()] == ["board"]
    assert out.is_symlink() == (made == "link") and out.is_dir() == (made == "directory")


def test_a_place_that_is_no_directory(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    (tmp_path / "file").write_text("mine")
    with pytest.raises(UsageError, match="expected a directory that can be written"):
        write([make_run()], tmp_path / "file" / "board")
    with pytest.raises(UsageError, match=r"can be written \(File name too long\)"):
        write([make_run()], tmp_path / ("x" * 300))
    assert [p.name for p in tmp_path.iterdir()] == ["file"]


def broken_off(error: BaseException) -> Callable[[Board], Iterator[Any]]:
    """Events that end in an error when half of them are there."""

    def streams(board: Board) -> Iterator[Any]:
        yield from itertools.islice(event_streams(board), 2)
        raise error

    return streams


@pytest.mark.parametrize(
    ("error", "raised"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), UsageError),
        (KeyboardInterrupt(), KeyboardInterrupt),
        (ValueError(), ValueError),
    ],
)
def test_half_of_it_is_nothing(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    error: BaseException,
    raised: type[BaseException],
) -> None:
    pytest.importorskip("tensorboard")
    monkeypatch.setattr(directory, "event_streams", broken_off(error))
    with pytest.raises(raised) as caught:
        write([make_run()], tmp_path / "board")
    assert list(tmp_path.iterdir()) == []
    if raised is UsageError:
        assert "a directory that can be written (No space left on device)" in str(caught.value)


def test_a_directory_that_somebody_makes_meanwhile_is_theirs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("tensorboard")
    out = tmp_path / "board"

    def slow(board: Board) -> Iterator[Any]:
        out.mkdir()
        (out / "theirs").write_text("x")
        return event_streams(board)

    monkeypatch.setattr(directory, "event_streams", slow)
    with pytest.raises(UsageError, match="does not exist yet"):
        write([make_run()], out)
    assert [p.name for p in tmp_path.iterdir()] == ["board"]
    assert files(out) == {"theirs": b"x"}


# --- the verb -----------------------------------------------------------------------------


def call(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = cli.call(["export", *arguments])
    said = capsys.readouterr()
    return code, said.out, said.err


def test_export(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    out = tmp_path / "board"
    runs = [str(SAMPLES / "v3"), str(SAMPLES / "v1")]
    assert call(capsys, *runs, "--format", "tensorboard", "-o", str(out)) == (0, f"{out}\n", "")
    found = sorted({path.partition("/")[0] for path in files(out)})
    assert len(found) == 3 and found[0].startswith("events.out.tfevents.")
    code, said, err = call(capsys, *runs, "--format", "tensorboard", "-o", str(out))
    assert (code, said, err.count("\n")) == (2, "", 1)
    assert f"--out = {str(out)!r}: expected a directory that does not exist yet" in err


def test_what_it_needs_is_said_in_one_line(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, out = str(SAMPLES / "v3"), tmp_path / "board"
    code, said, err = call(capsys, run, "--format", "tensorboard")
    assert (code, said, err.count("\n")) == (2, "", 1)
    assert "--out = None: expected a new directory" in err
    monkeypatch.setitem(sys.modules, "tensorboard", None)
    code, said, err = call(capsys, run, "--format", "tensorboard", "-o", str(out))
    assert (code, said, err.count("\n")) == (2, "", 1)
    assert "tensorboard, which is not installed: install recoverybench[tensorboard]" in err
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(UsageError):
        boards.check_installed()


@pytest.mark.parametrize("output", ["csv", "json", "parquet", "tensorboard"])
@pytest.mark.parametrize("again", ["same", "dots", "link", "absolute"])
def test_a_run_twice_is_refused(
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    output: str,
    again: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "results").mkdir()
    (tmp_path / "results" / "r").symlink_to(SAMPLES / "v3")
    (tmp_path / "link").symlink_to(tmp_path / "results" / "r")
    spelled = {
        "same": "results/r",
        "dots": "./results/../results/r/",
        "link": "link",
        "absolute": str(SAMPLES / "v3"),
    }[again]
    for first, second in [("results/r", spelled), (spelled, "r")]:
        code, said, err = call(
            capsys, first, str(SAMPLES / "v1"), second, "--format", output, "-o", "out"
        )
        assert (code, said, err.count("\n")) == (2, "", 1)
        assert "RUN = " in err and "expected each run once (it is " in err
    assert not (tmp_path / "out").exists()


def test_a_copy_of_a_run_is_a_run(capsys: pytest.CaptureFixture[str]) -> None:
    code, said, _ = call(capsys, str(SAMPLES / "v3"), str(SAMPLES / "v1"), "--format", "json")
    assert code == 0 and said.startswith("[")
