"""What TensorBoard itself answers about an exported directory, over HTTP."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from recoverybench.board import Board, board_of, write
from recoverybench.results.store import Run
from tests.sample_run import default_trials, make_cell, make_run, make_trial, timed_out_trial
from tests.tensorboards import asked, served

pytestmark = pytest.mark.timeout(120)

HOSTILE = "</script><script>alert(1)</script>"


def runs() -> list[Run]:
    hostile = make_cell(strategy=HOSTILE, watchdog_s=2.5)
    trials = [*default_trials(), make_trial(9, cell=hostile), timed_out_trial(10, rep=1)]
    trials[-1] = dataclasses.replace(trials[-1], cell=hostile)
    return [make_run(trials, label="v1"), make_run(name="other", label="v2")]


@pytest.fixture(scope="module")
def board() -> Board:
    return board_of(runs())


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    pytest.importorskip("tensorboard")
    root: Path = tmp_path_factory.mktemp("board")
    out = write(runs(), root / "board")
    with served(out, root) as found:
        yield found


def test_it_shows_every_scalar_of_every_trial(address: str, board: Board) -> None:
    tags = asked(address, "scalars", "tags")
    assert set(tags) == {session.directory for session in board.sessions}
    for session in board.sessions:
        points = [session.summary, *session.trials]
        known = {tag for point in points for tag in point.values}
        assert set(tags[session.directory]) == known
    for session in board.sessions:
        answer = asked(address, "scalars", "scalars", run=session.directory, tag="recovery_s")
        assert answer == [
            [point.wall_time_s, point.step, float(np.float32(point.values["recovery_s"]))]
            for point in session.trials
            if "recovery_s" in point.values
        ]
    (late,) = [s for s in board.sessions if s.hparams["strategy"] == HOSTILE]
    answer = asked(address, "scalars", "scalars", run=late.directory, tag="outcome/recovered")
    assert [value for _, _, value in answer] == [1, 0]


def test_hparams_has_a_row_a_cell(address: str, board: Board) -> None:
    experiment = asked(address, "hparams", "experiment", request="{}")
    columns = {info["name"]: info["domainDiscrete"] for info in experiment["hparamInfos"]}
    assert columns == {p.name: list(p.values) for p in board.parameters}
    assert set(columns) == {"run", "label", "strategy", "watchdog_s"}
    assert [info["name"]["tag"] for info in experiment["metricInfos"]] == list(board.metrics)

    found = groups(address)
    assert set(found) == {session.name for session in board.sessions}
    for session in board.sessions:
        group = found[session.name]
        assert group["hparams"] == session.hparams
        metrics = {one["name"]["tag"]: one["value"] for one in group["metricValues"]}
        assert metrics == {t: float(np.float32(v)) for t, v in session.summary.values.items()}
        (one,) = group["sessions"]
        assert one["status"] == f"STATUS_{session.status.upper()}"


def test_hparams_sorts_and_filters(address: str, board: Board) -> None:
    metric = {"group": "", "tag": "summary/median_recovery_s"}
    fastest = list(groups(address, {"metric": metric, "order": "ORDER_ASC"}))
    tag = metric["tag"]
    known = [s for s in board.sessions if tag in s.summary.values]
    expected = sorted(known, key=lambda session: (session.summary.values[tag], session.name))
    assert [name for name in fastest if name in {s.name for s in known}] == [
        session.name for session in expected
    ]
    chosen = groups(address, {"hparam": "strategy", "filterDiscrete": ["elastic"]})
    assert [group["hparams"]["strategy"] for group in chosen.values()] == ["elastic"] * 2


def groups(address: str, *columns: dict[str, Any]) -> dict[str, Any]:
    """Name of a session group -> what HParams says of it, in its order."""
    request = {
        "experimentName": "",
        "allowedStatuses": ["STATUS_UNKNOWN", "STATUS_SUCCESS", "STATUS_FAILURE"],
        "colParams": list(columns),
        "startIndex": 0,
        "sliceSize": 100,
    }
    answer = asked(address, "hparams", "session_groups", request=json.dumps(request))
    assert answer["totalSize"] == len(answer["sessionGroups"])
    return {group["name"]: group for group in answer["sessionGroups"]}
