# mypy: disable-error-code="import-untyped"
"""What TensorBoard reads of it, the directory, and the verb that writes it."""

from __future__ import annotations

import dataclasses
import errno
import itertools
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from recoverybench import board as boards
from recoverybench import cli
from recoverybench.board import Board, board_of, directory, event_streams, write
from recoverybench.board.scalars import COLUMN_OF
from recoverybench.cells import FACTORS
from recoverybench.errors import UsageError
from recoverybench.results.store import load
from tests.sample_boards import HOSTILE, RUNS, SAMPLES, told
from tests.sample_run import (
    default_trials,
    detection_trials,
    make_cell,
    make_run,
    make_trial,
)

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
