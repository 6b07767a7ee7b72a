"""A run that somebody else made: whatever stands in it, opening it is safe and ends in one line."""

from __future__ import annotations

import dataclasses
import functools
import json
import os
import re
import shutil
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from recoverybench import cli, damage, received
from recoverybench.analysis.journal import JournalError, read_journal
from recoverybench.campaign.reference import load_reference
from recoverybench.errors import HarnessError, UsageError
from recoverybench.results.store import load, record_line

SAMPLE = Path(__file__).parent / "samples" / "v4"
HOSTILE = [
    "</script><script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "[bold]x[/bold]\x1b[2J\x1b]0;title\x07",
    "a\nb\r\nc\x00d\x85e\u2028f",
    "\u202egpj.exe",
    "lone \ud800 half",
    "=cmd|'/c calc'!A1",
    "x" * 5000,
]


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run of two real trials; the sample has a profiled one behind them."""
    path = tmp_path / "results" / "run"
    shutil.copytree(SAMPLE, path)
    *two, _ = (path / "trials.jsonl").read_bytes().splitlines(keepends=True)
    (path / "trials.jsonl").write_bytes(b"".join(two))
    return path


def change_info(run: Path, change: Callable[[dict[str, Any]], object]) -> None:
    data = json.loads((run / "run.json").read_text())
    change(data)
    (run / "run.json").write_text(json.dumps(data))


def change_trial(run: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """Changes the second of two."""
    first, second = (run / "trials.jsonl").read_bytes().splitlines(keepends=True)
    data = json.loads(second)
    change(data)
    (run / "trials.jsonl").write_bytes(first + json.dumps(data).encode() + b"\n")


def write_as_now(run: Path) -> None:
    """Its trials as this version writes them: what is older is migrated when it is read."""
    content = b"".join(map(record_line, load(run).trials))
    (run / "trials.jsonl").write_bytes(content)


def refused(run: Path) -> str:
    with pytest.raises(UsageError) as caught:
        load(run)
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 500 + len(str(run))
    return str(caught.value).replace(str(run), "RUN")


def open_it(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> dict[str, str]:
    """All that show, report and export say of a run; each works, or ends in one line."""
    said: dict[str, str] = {}
    outside = sorted(p for p in tmp_path.iterdir() if p.name not in ("out", "results"))
    capsys.readouterr()
    for name, arguments in {
        "show": ["show", str(run)],
        "show json": ["show", str(run), "--format", "json"],
        "trial": ["show", str(run), "--trial", "0001"],
        "report": ["report", str(run), "-o", str(tmp_path / "out" / "r.html")],
        "csv": ["export", str(run)],
        "json": ["export", str(run), "--format", "json"],
        "parquet": ["export", str(run), "-o", str(tmp_path / "out" / "t.parquet")],
    }.items():
        code = cli.call(arguments)
        found = capsys.readouterr()
        assert code == 0 or (code == 2 and found.err.count("\n") == 1), (name, code, found.err)
        said[name] = found.out + found.err
    assert outside == sorted(p for p in tmp_path.iterdir() if p.name not in ("out", "results"))
    said["html"] = (
        (tmp_path / "out" / "r.html").read_text(errors="replace")
        if (tmp_path / "out" / "r.html").exists()
        else ""
    )
    return said


def texts_replaced(value: Any, text: str, keep: tuple[str, ...], key: str = "") -> Any:
    if isinstance(value, dict):
        return {k: texts_replaced(v, text, keep, k) for k, v in value.items()}
    if isinstance(value, list):
        return [texts_replaced(v, text, keep, key) for v in value]
    return text if isinstance(value, str) and key not in keep else value


CHECKED = ("trial", "outcome", "status", "run_id", "topology", "created")
"""What may not be any text. `topology` and `created` are read, and tested below."""


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_texts_everywhere(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str
) -> None:
    info = json.loads((run / "run.json").read_text())
    (run / "run.json").write_text(json.dumps(texts_replaced(info, text, CHECKED)))
    change_trial(run, lambda d: d.update(texts_replaced(d, text, CHECKED)))
    change_trial(run, lambda d: d["harness"].update({text: text}))
    change_trial(run, lambda d: d.update(pids={text: [1]}, compile_cache={text: text}))
    change_info(run, lambda d: d["machine"].update({text: text}))
    said = open_it(run, tmp_path, capsys)
    for name in ("show", "trial", "report"):
        harmful = re.findall(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u202e]", said[name])
        assert not harmful, (name, harmful)
    assert "<script>alert" not in said["html"] and "<img src=x" not in said["html"]
    assert json.loads(said["json"])[1]["cell"]
    assert not re.search(r"(^|,)\"?=cmd", said["csv"], re.MULTILINE)


@pytest.mark.parametrize("name", ["created", "topology"])
@pytest.mark.parametrize("text", [*HOSTILE[:4], "", "9999999999x9999999999", "0x0"])
def test_hostile_texts_where_text_is_read(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, text: str
) -> None:
    if name == "created":
        change_info(run, lambda d: d.update(created=text))
    else:
        change_info(run, lambda d: [cell.update(topology=text) for cell in d["suite"]["cells"]])
        change_trial(run, lambda d: d["cell"].update(topology=text))
    open_it(run, tmp_path, capsys)


@pytest.mark.parametrize("value", [None, [], {}, "x", 1, True, -1.5, [[1]], {"a": None}])
def test_free_form_data_of_any_kind(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], value: object
) -> None:
    """Where a type says only that it is an object, any value may stand below it."""

    def change(data: dict[str, Any]) -> None:
        data["machine"] = {**{key: value for key in data["machine"]}, "cgroup": value}
        data["git"] = {"commit": value, "dirty": value}
        data["environments"] = {"jax==1": {"python": value, "packages": value, "sha256": value}}
        data["label"] = "v1"

    change_info(run, change)
    change_trial(run, lambda d: d.update(harness={"problem": value, "command": value}))
    open_it(run, tmp_path, capsys)


IDS = ["", ".", "..", "../x", "a/b", "/etc/passwd", "x\0", "0001\n", "a b", "x" * 65, "a.b", "é"]


@pytest.mark.parametrize("name", [*IDS, "\x1b[2J", "0001.cut-1", "-"])
def test_no_trial_id_is_a_path(run: Path, name: str) -> None:
    change_trial(run, lambda d: d.update(trial=name))
    message = refused(run)
    assert message.startswith(f"RUN/trials.jsonl:2: trial = {name[:60]!r}"[:60])
    assert "expected letters, digits" in message


@pytest.mark.parametrize("name", ["", ".", "..", "../../x", "/etc/passwd", "a/b", "x\0", "x" * 256])
def test_no_run_id_is_a_path(run: Path, name: str) -> None:
    change_info(run, lambda d: d.update(run_id=name))
    assert refused(run).startswith("RUN/run.json: run_id = ")


def test_an_id_that_is_asked_for_is_no_path(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("../../etc/passwd", "/etc/passwd", "..", "*"):
        assert cli.call(["show", str(run), "--trial", name]) == 2
        assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999", "1" * 20, "1" * 5000])
@pytest.mark.parametrize("field", ["recovery_s", "rep", "harness", "spans"])
def test_numbers_that_nobody_can_count_with(run: Path, field: str, number: str) -> None:
    values: dict[str, Any] = {"harness": {"x": "HERE"}}
    values["spans"] = [{"worker": 0, "attempt": 0, "name": "n", "start_s": "HERE", "end_s": 0.0}]
    change_trial(run, lambda d: d.update({field: values.get(field, "HERE")}))
    text = (run / "trials.jsonl").read_text()
    (run / "trials.jsonl").write_text(text.replace('"HERE"', number))
    try:
        spans = load(run).trials[1].spans
    except UsageError as error:
        assert str(error).startswith(f"{run}/trials.jsonl:2: ")
    else:
        assert field == "spans"
        with pytest.raises(UsageError, match=r"trials\.jsonl:2: "):
            len(spans)


TIMES: dict[str, Callable[[dict[str, Any], float], object]] = {
    "recovery_s": lambda d, s: d.update(recovery_s=s),
    "wall_s": lambda d, s: d.update(wall_s=s),
    "phases.detect": lambda d, s: d["phases"].update(detect=s),
    "detection_evidence[0].after_s": lambda d, s: d["detection_evidence"][0].update(after_s=s),
    "cell.heartbeat_s": lambda d, s: d["cell"].update(heartbeat_s=s),
    "spans[0].end_s": lambda d, s: d["spans"][0].update(end_s=s),
}


@pytest.mark.parametrize("place", TIMES)
@pytest.mark.parametrize("time", [1.1e9, -1.1e9, 1e300, 1.7e308, 10**12])
def test_a_time_of_nothing_is_named(run: Path, place: str, time: float) -> None:
    change_trial(run, lambda d: TIMES[place](d, 1e9))
    assert load(run).trials[1].spans[0]
    change_trial(run, lambda d: TIMES[place](d, time))
    with pytest.raises(UsageError) as caught:
        len(load(run).trials[1].spans)
    said = str(caught.value).replace(str(run), "RUN")
    assert said.startswith(f"RUN/trials.jsonl:2: not a trial record: {place} = ")
    assert said.endswith("expected the time of something, from -1e+09 to 1e+09 s")


BOUNDS: dict[str, Callable[[dict[str, Any], float], object]] = {
    "clock_bound_s.detect": lambda d, s: d["clock_bound_s"].update(detect=s),
    "detection_evidence[0].bound_s": lambda d, s: d["detection_evidence"][0].update(bound_s=s),
}


@pytest.mark.parametrize("place", BOUNDS)
@pytest.mark.parametrize("bound", [-1e-9, -1, 1.1e9, 1e308, 10**12])
def test_a_bound_of_no_clock_is_named(run: Path, place: str, bound: float) -> None:
    write_as_now(run)
    change_trial(run, lambda d: BOUNDS[place](d, 0.5))
    assert len(load(run).trials) == 2
    change_trial(run, lambda d: BOUNDS[place](d, bound))
    with pytest.raises(UsageError) as caught:
        load(run)
    said = str(caught.value).replace(str(run), "RUN")
    assert said.startswith(f"RUN/trials.jsonl:2: not a trial record: {place} = ")
    assert said.endswith("expected the time of something, from 0 to 1e+09 s")


@pytest.mark.parametrize("number", [1e300, -1e300, 5e-324, 0.0, -0.0, 2**62, -(2**63)])
def test_numbers_beyond_all_measure(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], number: float
) -> None:
    def change(value: Any) -> Any:
        if isinstance(value, dict):
            return {k: change(v) for k, v in value.items() if k != "schema"} | (
                {"schema": 3} if "schema" in value else {}
            )
        if isinstance(value, list):
            return [change(v) for v in value]
        if type(value) is float or (type(value) is int and type(number) is int):
            return number
        return value

    change_trial(run, lambda d: d.update(change(d)))
    change_info(run, lambda d: d.update(change({k: v for k, v in d.items() if k != "schema"})))
    open_it(run, tmp_path, capsys)


def test_spans_that_are_none_are_named_when_they_are_looked_at(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_as_now(run)
    for spans, words in [
        ([{"worker": 0}], "spans[0].attempt is missing"),
        ([3], "spans[0] = 3: expected an object"),
        ({"a": 1}, "spans = {'a': 1}: expected a list"),
        (None, "spans = None: expected a list"),
    ]:
        change_trial(run, functools.partial(dict.update, spans=spans))
        read = load(run)
        assert len(read.frame()) == 2, "a table needs none"
        with pytest.raises(
            UsageError, match=re.escape(f"trials.jsonl:2: not a trial record: {words}")
        ):
            len(read.trials[1].spans)
        assert cli.call(["show", str(run), "--trial", "1"]) == 2
        assert capsys.readouterr().err.count("\n") == 1


def test_the_quick_way_and_the_slow_one_agree(run: Path) -> None:
    write_as_now(run)
    quick = load(run).trials
    path = run / "trials.jsonl"
    lines = [json.loads(line) for line in path.read_bytes().splitlines()]
    path.write_text("".join(json.dumps({**one, "schema": 2}) + "\n" for one in lines))
    slow = load(run).trials
    assert quick == slow and slow == quick
    assert type(quick[0].spans) is not tuple and type(slow[0].spans) is tuple
    assert quick[0].as_dict() == slow[0].as_dict()
    assert dataclasses.replace(quick[0], rep=7).spans == slow[0].spans


@pytest.mark.parametrize(
    "change",
    [
        {"cell": {"x": 1}},
        {"verify": {"passed": True}},
        {"workers": 1.0},
        {"soak": {}},
        {"soak": {"index": 0, "injections": 1, "goodput": "x", "wall_s": 1.0, "steps": 1}},
        {"harness": [1]},
        {"exits": [{"worker": 0}]},
        {"block": True},
    ],
)
def test_a_record_lacks_nothing_and_adds_nothing(run: Path, change: dict[str, Any]) -> None:
    change_trial(run, lambda d: d.update(change))
    assert refused(run).startswith("RUN/trials.jsonl:2: not a trial record: ")


@pytest.mark.parametrize("field", ["harness", "machine", "spans"])
@pytest.mark.parametrize("depth", [40, 900, 100_000])
def test_data_that_nests_deeply(run: Path, field: str, depth: int) -> None:
    deep = '{"a":' * depth + "1" + "}" * depth
    if field == "machine":
        change_info(run, lambda d: d.update(machine="HERE"))
        path = run / "run.json"
    else:
        change_trial(run, lambda d: d.update({field: "HERE"}))
        path = run / "trials.jsonl"
    path.write_text(path.read_text().replace('"HERE"', deep))
    with pytest.raises(UsageError) as caught:
        len(load(run).trials[1].spans)
    assert "\n" not in str(caught.value)


def test_of_keys_that_are_there_twice_the_last_one_counts(run: Path) -> None:
    path = run / "trials.jsonl"
    path.write_text(path.read_text().replace('"rep": 1', '"rep": 5, "rep": 6'))
    assert load(run).trials[1].rep == 6
    info = (run / "run.json").read_text()
    (run / "run.json").write_text(info.replace('"seed":', '"seed": 9, "seed":', 1))
    assert load(run).info.seed != 9


@pytest.mark.parametrize("content", [b"\xff\xfe", b'{"schema": 3, "trial": "\xff"}'])
def test_what_is_no_utf_8(run: Path, content: bytes) -> None:
    with (run / "trials.jsonl").open("ab") as file:
        file.write(content + b"\n")
    assert refused(run).startswith("RUN/trials.jsonl:3: ")
    (run / "run.json").write_bytes(content)
    assert refused(run).startswith("RUN/run.json: ")


FILES = ["run.json", "trials.jsonl", "trials.jsonl.dropped"]


@pytest.mark.parametrize("name", FILES)
def test_links_out_of_the_run_are_not_followed(run: Path, tmp_path: Path, name: str) -> None:
    outside = tmp_path / "secret"
    shutil.copy(run / name, outside) if (run / name).exists() else outside.write_text("x\n")
    (run / name).unlink(missing_ok=True)
    (run / name).symlink_to(outside)
    assert f"RUN/{name}: a link that leads out of RUN: expected a file in it" == refused(run)
    (run / name).unlink()
    (run / name).symlink_to(name)
    refused(run)
    (run / name).unlink()
    shutil.copy(outside, run / "kept")
    (run / name).symlink_to("kept")
    load(run)  # inside is inside


def test_a_run_may_be_a_link_itself(run: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(run)
    assert load(tmp_path / "link").trials == load(run).trials


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("kind", ["pipe", "socket", "device", "directory"])
def test_what_is_no_file_is_not_opened(run: Path, name: str, kind: str) -> None:
    path = run / name
    path.unlink(missing_ok=True)
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "socket":
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(os.path.relpath(path))
    elif kind == "device":
        path.symlink_to("/dev/zero")
    else:
        path.mkdir()
    assert refused(run).startswith(f"RUN/{name}: ")


def test_a_long_line_is_refused_before_it_is_in_memory(run: Path) -> None:
    for size in (received.LINE_LIMIT + 1, 2**30):
        with (run / "trials.jsonl").open("r+b") as file:
            file.truncate(file.seek(0, 2) + size)  # a hole: no byte of it is on the disk
        assert refused(run) == "RUN/trials.jsonl:3: more than 16 MiB: expected a shorter line"


@pytest.mark.parametrize(
    ("name", "limit"), [("run.json", 64), ("trials.jsonl", 4096), ("trials.jsonl.dropped", 4096)]
)
def test_a_long_file_is_refused(run: Path, name: str, limit: int) -> None:
    with (run / name).open("ab") as file:
        file.truncate(limit * 2**20 + 1)
    assert refused(run) == f"RUN/{name}: more than {limit} MiB: expected a shorter file"


def test_journals_references_and_settings_are_read_with_the_same_care(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    journal = run / "journal" / "0001" / "supervisor.0.jsonl"
    (reference,) = (run / "reference").glob("*.json")
    (run / "commands").mkdir()
    settings = run / "commands" / "mine.json"
    for path in (journal, reference, settings):
        outside = tmp_path / f"outside-{path.name}"
        outside.write_bytes(path.read_bytes() if path.exists() else b"{}")
        path.unlink(missing_ok=True)
        path.symlink_to(outside)
    with pytest.raises(JournalError, match="leads out of"):
        read_journal(journal)
    with pytest.raises(HarnessError, match="leads out of"):
        load_reference(reference)
    open_it(run, tmp_path, capsys)
    for path in (journal, reference, settings):
        path.unlink()
        os.mkfifo(path)
    with pytest.raises(JournalError, match="a pipe"):
        read_journal(journal)
    with pytest.raises(HarnessError, match="a pipe"):
        load_reference(reference)
    (tmp_path / "out" / "r.html").unlink()
    (tmp_path / "out" / "t.parquet").unlink()
    open_it(run, tmp_path, capsys)


def test_a_folder_of_journals_that_leads_out_is_not_followed(run: Path, tmp_path: Path) -> None:
    shutil.move(run / "journal", tmp_path / "elsewhere")
    (run / "journal").symlink_to(tmp_path / "elsewhere")
    path = run / "journal" / "0001" / "supervisor.0.jsonl"
    with path.open("a") as file:
        line = {"t": 1, "event": "damage", "worker": None, "attempt": 0, "what": "secret"}
        file.write(json.dumps(line) + "\n")
    assert damage.damage_words(run, "0001") == []
    (run / "journal").unlink()
    shutil.move(tmp_path / "elsewhere", run / "journal")
    assert damage.damage_words(run, "0001") == ["damaged: secret"]


def test_a_plain_file_is_read_whole_and_by_lines(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_bytes(b"a\nb")
    assert received.read_file(path, within=tmp_path) == b"a\nb"
    assert list(received.read_lines(path, within=tmp_path)) == [b"a\n", b"b"]
    with pytest.raises(UsageError):
        received.read_file(path, within=tmp_path, limit=2)
    with pytest.raises(OSError):
        received.read_file(tmp_path / "none", within=tmp_path)
