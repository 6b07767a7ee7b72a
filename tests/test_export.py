"""Runs as one table in a file: what is read back is what was written, and nothing is run."""

from __future__ import annotations

import csv
import dataclasses
import io
import json
import math
import sys
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from recoverybench import cli
from recoverybench.errors import UsageError
from recoverybench.results import export
from recoverybench.results.columns import dtypes, rows, table
from recoverybench.results.store import Run, load
from tests.sample_run import make_cell, make_run, make_trial, soak_trials
from tests.strategies import records

SAMPLES = Path(__file__).parent / "samples"
HOSTILE = ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", "'=1", "''@x", "＝1"]  # noqa: RUF001


def read_csv(text: str) -> pd.DataFrame:
    return pd.read_csv(
        io.StringIO(text),
        dtype=dtypes(),
        keep_default_na=False,
        na_values=[""],
    )


def read_json(text: str) -> pd.DataFrame:
    found = pd.DataFrame(json.loads(text), columns=list(dtypes()), dtype=object)
    return found.astype(dtypes())


def read_parquet(runs: list[Run], folder: Path) -> pd.DataFrame:
    path = folder / "t.parquet"
    path.unlink(missing_ok=True)
    return pd.read_parquet(export.export(runs, "parquet", path))


def same(found: pd.DataFrame, expected: pd.DataFrame) -> None:
    pd.testing.assert_frame_equal(found, expected, check_exact=True)


@settings(max_examples=8, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(records(), max_size=3, unique_by=lambda r: r.trial))
def test_each_format_is_read_back_with_the_same_values_and_types(
    tmp_path: Path, trials: list[Any]
) -> None:
    runs = [make_run(trials), make_run([make_trial(0)], name="other", label="NA", git=None)]
    runs = [dataclasses.replace(r, info=dataclasses.replace(r.info)) for r in runs]
    expected = table(runs)
    assert len(expected) == len(trials) + 1
    assert {name: str(dtype) for name, dtype in expected.dtypes.items()} == dtypes()
    same(read_json("".join(export.texts(runs, "json"))), expected)
    same(read_parquet(runs, tmp_path), expected)
    texts = [n for n, dtype in dtypes().items() if dtype == "str"]
    if not any(str(v).startswith(("=", "+", "-", "@", "'")) for n in texts for v in expected[n]):
        # CSV has no difference between an empty text and a missing one.
        empty = expected[texts].mask(expected[texts] == "")
        same(read_csv("".join(export.texts(runs, "csv"))), expected.assign(**empty))


def test_whole_numbers_keep_every_digit() -> None:
    late = 2**53 + 1  # after 104 days of a machine's uptime
    runs = [make_run([dataclasses.replace(make_trial(0), t_inject=late), *soak_trials(1)])]
    assert table(runs)["t_inject_ns"][0] == late
    assert read_json("".join(export.texts(runs, "json")))["t_inject_ns"][0] == late
    assert read_csv("".join(export.texts(runs, "csv")))["t_inject_ns"][0] == late


def test_rows_and_table_are_the_same() -> None:
    runs = [load(SAMPLES / name) for name in ("v1", "v2-command", "v3")]
    found = table(runs)
    plain = [
        {k: None if pd.isna(v) else v for k, v in row.items()} for row in found.to_dict("records")
    ]
    assert plain == list(rows(runs))
    same(runs[2].frame(), table([runs[2]]))
    assert found.columns[0] == "run"
    assert list(found["run"].unique()) == [run.info.run_id for run in runs]


def test_what_one_groups_by_is_there() -> None:
    one = make_run([make_trial(0), make_trial(1, cell=make_cell(environment="jax==0.10.1"))])
    kept = {"jax==0.10.1": {"python": "3.12.1", "packages": {"jax": "0.10.1"}, "sha256": "0"}}
    info = dataclasses.replace(one.info, environments=kept, label="v1.4")
    found = table([dataclasses.replace(one, info=info)])
    assert list(found["label"]) == ["v1.4"] * 2
    assert found["environment"].isna().tolist() == [True, False]
    assert list(found["version_jax"]) == ["0.10.2", "0.10.1"]
    assert list(found["version_python"]) == ["3.11.11", "3.12.1"]
    assert found["version_orbax_checkpoint"].tolist()[0] == "0.12.8"
    assert found["version_orbax_checkpoint"].isna().tolist() == [False, True]
    assert list(found["machine_cpu"]) == ["test CPU"] * 2
    assert list(found["machine_cores"]) == [2, 2]
    assert found.groupby(["environment", "label"], dropna=False).size().sum() == 2


def test_every_trial_is_a_row_whatever_became_of_it() -> None:
    """One of three that failed is in the rate, and an unset factor drops no row."""
    trials = [make_trial(0), make_trial(1), dataclasses.replace(make_trial(2), outcome="timeout")]
    found = table([make_run(trials)])
    rates = found.groupby(["strategy", "victim"], dropna=False)["recovered"].agg(["sum", "count"])
    assert rates.to_numpy().tolist() == [[2, 3]]


def test_runs_of_one_name_are_told_apart() -> None:
    run = make_run([make_trial(0)])
    other = dataclasses.replace(run, path=Path("elsewhere/x"))
    assert list(table([run, other])["run"]) == [str(run.path), "elsewhere/x"]
    assert [row["run"] for row in rows([run, other])] == [str(run.path), "elsewhere/x"]


@pytest.mark.parametrize("text", HOSTILE)
def test_no_spreadsheet_runs_a_cell(text: str) -> None:
    run = make_run([dataclasses.replace(make_trial(0), error=text, recovery_s=-1.5)], label=text)
    (row,) = csv.DictReader(io.StringIO("".join(export.texts([run], "csv")), newline=""))
    assert row["error"] == row["label"] == f"'{text}"
    assert row["recovery_s"] == "-1.5", "a number is a number"
    (plain,) = json.loads("".join(export.texts([run], "json")))
    assert plain["error"] == text


def test_texts_without_utf_8_are_escaped(tmp_path: Path) -> None:
    run = make_run([make_trial(0)], label="a\udcffb", run_id="r\udcff")
    for found in (table([run]), read_parquet([run], tmp_path)):
        assert found["label"][0] == "a\\udcffb"
    assert "a\\\\udcffb" in "".join(export.texts([run], "json"))
    assert export.export([run], "csv", tmp_path / "t.csv").read_bytes()


def test_no_trials_are_a_table_with_no_rows(tmp_path: Path) -> None:
    run = make_run([])
    assert "".join(export.texts([run], "json")) == "[]\n"
    same(read_csv("".join(export.texts([run], "csv"))), table([run]))
    same(read_parquet([run], tmp_path), table([run]))


def test_missing_times_are_not_zero() -> None:
    run = make_run([dataclasses.replace(make_trial(0), recovery_s=None, phases={})])
    assert math.isnan(table([run])["recovery_s"][0])
    assert json.loads("".join(export.texts([run], "json")))[0]["phase_detect_s"] is None


def call(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = cli.call(["export", *arguments])
    said = capsys.readouterr()
    return code, said.out, said.err


def test_the_verb(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    runs = [str(SAMPLES / "v1"), str(SAMPLES / "v3")]
    code, out, _ = call(capsys, *runs)
    assert code == 0 and len(read_csv(out)) == 5
    code, out, _ = call(capsys, *runs, "--format", "json")
    assert code == 0 and len(json.loads(out)) == 5
    for name in ("a/t.csv", "t.json", "t.parquet", "t"):
        code, out, err = call(capsys, *runs, "-o", str(tmp_path / name))
        assert (code, out, err) == (0, f"{tmp_path / name}\n", "")
    assert read_csv((tmp_path / "t").read_text()).shape[0] == 5
    assert pd.read_parquet(tmp_path / "t.parquet").shape[0] == 5
    code, out, err = call(capsys, *runs, "-o", str(tmp_path / "t.xlsx"))
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "expected a name that ends in .csv, .json, .parquet, or --format" in err
    assert not (tmp_path / "t.xlsx").exists()


def test_nothing_is_overwritten(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    mine = tmp_path / "t.csv"
    mine.write_text("mine")
    dangling = tmp_path / "d.csv"
    dangling.symlink_to(tmp_path / "nowhere")
    for path, words in [
        (mine, "expected a file that does not exist yet"),
        (dangling, "expected a file that does not exist yet"),
        (mine / "t.csv", "expected a file that can be written"),
    ]:
        code, out, err = call(capsys, str(SAMPLES / "v3"), "-o", str(path))
        assert (code, out, err.count("\n")) == (2, "", 1)
        assert f"--out = {str(path)!r}: {words}" in err
    assert mine.read_text() == "mine" and not (tmp_path / "nowhere").exists()


def test_what_cannot_be_exported(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = str(SAMPLES / "v3")
    code, _, err = call(capsys, run, "--format", "parquet")
    assert (code, err.count("\n")) == (2, 1) and "--out = None: expected a file" in err
    code, out, err = call(capsys, run, str(tmp_path))
    assert (code, out) == (2, "") and "a run's directory" in err, "none is skipped"
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    path = tmp_path / "t.parquet"
    code, _, err = call(capsys, run, "-o", str(path))
    assert code == 2 and "install recoverybench[parquet]" in err and err.count("\n") == 1
    assert not path.exists()
    with pytest.raises(UsageError):
        export.export([load(run)], "xls", path)


def test_a_table_that_fails_half_way_leaves_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(runs: object) -> Any:
        yield {"run": "r"}
        raise ValueError

    monkeypatch.setattr(export, "rows", broken)
    with pytest.raises(ValueError):
        export.export([load(SAMPLES / "v3")], "csv", tmp_path / "t.csv")
    assert not (tmp_path / "t.csv").exists()
