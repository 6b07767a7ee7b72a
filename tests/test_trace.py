"""One trial as a trace: slices nest, flows have both ends, and hostile data is valid JSON."""

from __future__ import annotations

import dataclasses
import gzip
import itertools
import json
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recoverybench import cli
from recoverybench.analysis.journal import Journal
from recoverybench.errors import UsageError
from recoverybench.labels import phase_name
from recoverybench.pieces import pieces, unfinished
from recoverybench.records import Span, TrialRecord
from recoverybench.results.lookup import find_trial
from recoverybench.results.store import load
from recoverybench.trace import trace_of, write
from recoverybench.trace.build import build
from recoverybench.trace.journals import Journals, of_files, read_journals
from recoverybench.trace.lanes import Timed, nested
from recoverybench.trace.render import render
from recoverybench.vocabulary import MILESTONES
from tests.sample_run import (
    failed_trial,
    make_cell,
    make_run,
    make_trial,
    soak_trials,
    timed_out_trial,
)
from tests.strategies import records

SAMPLES = Path(__file__).parent / "samples"
QUICK = Path(__file__).parent.parent / "results/quick-0.1.0"
HOSTILE = "</script>\udc80\u202e\x1b[2J\"'{}\\\n\0🙂\\"
S = 10**9


def slices(trace: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [event for event in trace["traceEvents"] if event["ph"] == "X"]


def named(trace: Mapping[str, Any], name: str) -> list[dict[str, Any]]:
    return [event for event in trace["traceEvents"] if event["name"] == name]


def processes(trace: Mapping[str, Any]) -> dict[str, int]:
    return {event["args"]["name"]: event["pid"] for event in named(trace, "process_name")}


def tracks(trace: Mapping[str, Any], process: str) -> dict[str, list[str]]:
    """Track -> names of what is on it."""
    pid = processes(trace)[process]
    events = [e for e in trace["traceEvents"] if e.get("pid") == pid]
    names = {e["tid"]: e["args"]["name"] for e in events if e["name"] == "thread_name"}
    found: dict[str, list[str]] = {}
    for event in events:
        if event["ph"] in "Xi":
            found.setdefault(names[event["tid"]], []).append(event["name"])
    return found


def check(trace: Mapping[str, Any]) -> None:
    """What every trace is, whatever it was made of."""
    text = json.dumps(trace, allow_nan=False, ensure_ascii=False)
    assert json.loads(text.encode()) == trace
    events = trace["traceEvents"]
    timed = [e for e in events if e["ph"] != "M"]
    assert [e["ts"] for e in timed] == sorted(e["ts"] for e in timed)
    assert all(type(e["ts"]) is int and 0 <= e["ts"] < 2**53 for e in timed)
    pids = [e["pid"] for e in named(trace, "process_name")]
    assert len(pids) == len(set(pids)) and {e["pid"] for e in events} == set(pids)
    threads = [(e["pid"], e["tid"]) for e in events if e["name"] == "thread_name"]
    assert len(threads) == len(set(threads))
    assert {(e["pid"], e["tid"]) for e in timed if e["ph"] != "C"} <= set(threads)
    _check_nesting(events)
    _check_flows(events)
    _check_values(events)


def _check_nesting(events: Iterable[dict[str, Any]]) -> None:
    open_ends: dict[tuple[int, int], list[int]] = {}
    for event in events:
        if event["ph"] == "X":
            assert event["dur"] >= 1
            ends = open_ends.setdefault((event["pid"], event["tid"]), [])
            while ends and ends[-1] <= event["ts"]:
                ends.pop()
            assert not ends or event["ts"] + event["dur"] <= ends[-1], event
            ends.append(event["ts"] + event["dur"])


def _check_flows(events: list[dict[str, Any]]) -> None:
    flows: dict[int, str] = {}
    for number, event in enumerate(events):
        if event["ph"] in "stf":
            flows[event["id"]] = flows.get(event["id"], "") + event["ph"]
            # Right behind the slice that it is bound to, or behind other flows of that one.
            holder = next(e for e in reversed(events[:number]) if e["ph"] not in "stf")
            assert holder["ph"] == "X"
            assert [holder[k] for k in ("pid", "tid", "ts")] == [
                event[k] for k in ("pid", "tid", "ts")
            ]
    for shape in flows.values():
        assert shape[0] == "s" and shape[-1] == "f" and set(shape[1:-1]) <= {"t"}


def _check_values(events: Iterable[dict[str, Any]]) -> None:
    for event in events:
        assert isinstance(event["name"], str) and not event["name"].endswith("\\")
        for value in event.get("args", {}).values():
            assert value is None or isinstance(value, bool | int | float | str)
            assert not (isinstance(value, str) and value.endswith("\\"))
        if event["ph"] == "C":
            assert all(isinstance(v, int | float) for v in event["args"].values())


def without_journals(record: TrialRecord) -> dict[str, Any]:
    return render(build(record, Journals(), {}))


# What may stand in a journal: the words of our own writers, and anything else.
TEXT = st.sampled_from(["verify", "save", HOSTILE, "", "\\"]) | st.text(max_size=5)
WHEN = st.integers(0, 200).map(lambda n: n * S // 100) | st.sampled_from([-(2**63), 2**63, 10**30])
VALUE = st.none() | st.booleans() | st.integers() | st.floats() | TEXT | st.lists(TEXT, max_size=2)


@st.composite
def lines(draw: st.DrawFn, worker: int | None) -> dict[str, Any]:
    """A journal's line, whole or not."""
    events = ["span", "step", "up", "restored", "error", "digest", "assigned", "made up", "save"]
    if worker is None:
        events = ["span", "spawn", "exit", "inject", "evidence", "act", "mark", "end", "undone"]
    t = draw(WHEN)
    line = {"t": t, "event": draw(st.sampled_from(events)), "worker": worker, "attempt": 0}
    line |= {"t0": draw(WHEN), "name": draw(TEXT), "generation": draw(st.integers(0, 2))}
    line |= {"step": draw(st.integers(0, 9)), "loss_bits": "0", "samples": [1], "pid": 7}
    line |= {"what": draw(TEXT), "digest": "d", "slot": 3, "rank": 1, "mechanism": draw(TEXT)}
    line |= {"code": draw(VALUE), "signal": draw(VALUE), "loss": draw(VALUE), "tried": []}
    line |= {"message": draw(VALUE), draw(TEXT): draw(VALUE)}
    line |= {"t": t, "event": line["event"]} if isinstance(line.get("event"), str) else {}
    if worker is None and line["event"] in ("spawn", "exit", "mark"):
        line["worker"] = draw(st.integers(0, 3))
    return line


@st.composite
def files(draw: st.DrawFn) -> list[Journal]:
    found = []
    for slot in (None, 0, 1, 3):
        head = {"t": 0, "event": "journal", "worker": slot, "attempt": 0, "pid": draw(VALUE)}
        body = draw(st.lists(lines(slot), max_size=6))
        found.append(Journal(slot, 0, (head, *body), 0))
    return found


@settings(max_examples=60)
@given(records(), files(), st.booleans())
def test_whatever_a_run_holds_is_a_trace(
    record: TrialRecord, journals: list[Journal], there: bool
) -> None:
    check(render(build(record, of_files(journals, record) if there else Journals(), {})))


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 12)), max_size=25))
def test_slices_that_overlap_get_lines_of_their_own(found: list[tuple[int, int]]) -> None:
    timed = [Timed(start, start + length, n) for n, (start, length) in enumerate(found)]
    lanes = nested(timed)
    assert sorted(one.what for lane in lanes for one in lane) == list(range(len(found)))
    for lane in lanes:
        assert [one.start for one in lane] == sorted(one.start for one in lane)
        for n, one in enumerate(lane):
            for other in lane[n + 1 :]:
                assert other.start >= one.end or other.end <= one.end
    # No more lines than slices that are open at once.
    most = max((sum(a.start <= b.start < a.end for a in timed) for b in timed), default=0)
    empty = sum(one.start == one.end for one in timed)
    assert len(lanes) <= max(1, most) + empty


def test_calls_within_calls_stay_on_one_line() -> None:
    timed = [Timed(0, 9, "a"), Timed(0, 4, "b"), Timed(4, 9, "c"), Timed(5, 6, "d")]
    assert [[one.what for one in lane] for lane in nested(timed)] == [["a", "b", "c", "d"]]
    timed = [Timed(0, 5, "a"), Timed(3, 8, "b"), Timed(5, 9, "c")]
    assert [[one.what for one in lane] for lane in nested(timed)] == [["a", "c"], ["b"]]


@settings(max_examples=40)
@given(records())
def test_pieces_lie_between_milestones(record: TrialRecord) -> None:
    found = list(pieces(record))
    for before, after in itertools.pairwise(found):
        assert before.end_ns == after.start_ns
    reached = [name for name in MILESTONES if name in record.milestones]
    assert len(found) == max(0, len(reached) - 1)
    assert (unfinished(record) is None) == (not reached or reached[-1] == MILESTONES[-1])


def test_a_real_trial_has_everything() -> None:
    run = load(QUICK)
    record = find_trial(run, "1")
    trace = trace_of(run, record)
    check(trace)
    job = tracks(trace, "trial 0001: recovered")
    assert job["phases"] == [phase_name(piece.phase) for piece in pieces(record)]
    assert {"injection: kill", "up", "progress"} <= set(job["milestones"])
    assert sum(name.startswith("noticed") for name in job["milestones"]) == 3
    victim = tracks(trace, "worker 1, attempt 0")
    assert victim["fault"] == ["injection: kill"]
    assert victim["process"] == ["process 678", "exit: SIGKILL, the injection"] or any(
        name.startswith("exit: SIGKILL") for name in victim["process"]
    )
    assert "import jax" in tracks(trace, "worker 1, attempt 1")["work"]
    assert "step 11, again" in tracks(trace, "worker 0, attempt 0")["work"]
    assert tracks(trace, "supervisor")["strategy"] == ["elastic acts"]
    at = trace["otherData"]["injection_ts_us"]
    assert named(trace, "injection: kill")[0]["ts"] == at > 0
    assert trace["otherData"]["origin_ns"] + at * 1000 == pytest.approx(record.t_inject, abs=1000)
    # The last step of every worker, from its journal.
    steps = [e["args"]["step"] for e in named(trace, "last completed")]
    assert max(steps) == run.info.suite.steps
    assert [e["args"]["sort_index"] for e in named(trace, "process_sort_index")] == list(range(6))


def test_without_journals_the_record_is_shown(tmp_path: Path) -> None:
    run = load(QUICK)
    record = find_trial(run, "0001")
    trace = without_journals(record)
    check(trace)
    assert trace["otherData"]["journals"] == "not there"
    assert tracks(trace, "worker 1, attempt 0")["fault"] == ["injection: kill"]
    assert len(slices(trace)) >= len(record.spans)
    assert read_journals(tmp_path, record) == Journals()


def test_a_command_is_shown_by_what_was_seen_of_it() -> None:
    run = load(SAMPLES / "v2-command")
    trace = trace_of(run, run.trials[0])
    check(trace)
    assert tracks(trace, "worker 0, attempt 1")["process"][0] == "process"
    assert "step 24" in tracks(trace, "supervisor")["marks"]
    assert "unnamed" in tracks(trace, "trial 0000: recovered")["phases"]
    assert len(named(trace, "training")) > 20


@pytest.mark.parametrize(
    "record",
    [failed_trial(0), timed_out_trial(0), make_trial(0, cell=make_cell(strategy="pathways"))],
    ids=["never injected", "timeout", "pathways"],
)
def test_trials_that_went_otherwise(record: TrialRecord) -> None:
    trace = without_journals(record)
    check(trace)
    assert processes(trace)
    if record.t_inject is None:
        assert trace["otherData"]["injection_ts_us"] is None
        assert slices(trace)[0]["dur"] == round(record.wall_s * 1e6)


def test_a_phase_that_did_not_end_is_shown_to_the_deadline() -> None:
    record = timed_out_trial(0)
    t = record.milestones["closed"]
    head = {"t": 0, "event": "journal", "worker": None, "attempt": 0, "pid": 5}
    end = {"t": t + 7 * S, "event": "deadline", "worker": None, "attempt": 0}
    trace = render(build(record, of_files([Journal(None, 0, (head, end), 0)], record), {}))
    check(trace)
    assert named(trace, "replace, not ended")[0]["dur"] == 7_000_000


def step(worker: int, t: int, number: int, **more: Any) -> dict[str, Any]:
    fields = {"generation": 0, "loss_bits": "0", "samples": [], "loss": 1.0, "t0": t - S // 10}
    line = {"t": t, "event": "step", "worker": worker, "attempt": 0, "step": number}
    return {**line, **fields, **more}


def test_of_a_soak_its_part_of_the_job() -> None:
    records_ = [
        dataclasses.replace(r, t_inject=n * 100 * S) for n, r in enumerate(soak_trials(), 1)
    ]
    record = dataclasses.replace(records_[1], milestones={"inject": 200 * S}, spans=())
    inject = {"event": "inject", "worker": 1, "attempt": 0, "fault": "poisson"}
    own = [{"t": n * 100 * S, **inject} for n in (1, 2, 3)]
    spawn = {"t": 5 * S, "event": "spawn", "worker": 0, "attempt": 0, "pid": 8}
    heads = [{"t": 0, "event": "journal", "worker": w, "attempt": 0, "pid": 7} for w in (None, 0)]
    steps = [step(0, n * 10 * S, n) for n in range(1, 40)]
    journals = [
        Journal(None, 0, (heads[0], spawn, *own), 0),
        Journal(0, 0, (heads[1], *steps), 0),
    ]
    trace = render(build(record, of_files(journals, record), {}))
    check(trace)
    shown = [name for name in tracks(trace, "worker 0, attempt 0")["work"]]
    assert shown == [f"step {n}" for n in range(10, 31)]
    life = next(e for e in slices(trace) if e["name"].startswith("process"))
    assert life["dur"] == 200_000_000 and life["args"]["since_its_start_s"] == 295.0


def test_a_standby_is_the_worker_that_it_became() -> None:
    record = dataclasses.replace(make_trial(0, cell=make_cell(strategy="hot-spare")), spans=())
    head = {"t": 0, "event": "journal", "worker": 3, "attempt": 0, "pid": 77}
    taken = {"t": 2 * S, "event": "assigned", "worker": 1, "attempt": 1, "slot": 3, "rank": 1}
    body = (head, taken, step(1, 3 * S, 26, attempt=1))
    trace = render(build(record, of_files([Journal(3, 0, body, 0)], record), {}))
    pid = processes(trace)["worker 1, attempt 1"]
    labels = {e["pid"]: e["args"]["labels"] for e in named(trace, "process_labels")}
    assert pid == 77 and "had stood by in slot 3" in labels[pid]
    assert "step 26" in tracks(trace, "worker 1, attempt 1")["work"]


def test_nothing_is_clamped_and_what_is_no_time_of_it_is_counted() -> None:
    record = dataclasses.replace(
        make_trial(0),
        spans=(
            Span(0, 0, "backwards", 2.0, 1.0),
            Span(0, 0, "far", 1.0, 1e18),
            Span(0, 0, "no time", float("inf"), float("nan")),
        ),
    )
    trace = without_journals(record)
    check(trace)
    (event,) = named(trace, "backwards")
    assert event["ph"] == "i" and event["args"]["end_before_start_s"] == -1.0
    assert not named(trace, "far") and not named(trace, "no time")
    assert trace["otherData"]["left_out"] == 1


def test_pids_that_two_processes_had_are_told_apart() -> None:
    record = dataclasses.replace(make_trial(0), pids={str(w): [1] for w in range(3)}, exits=())
    trace = without_journals(record)
    check(trace)
    assert len(set(processes(trace).values())) == len(processes(trace))


def call(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = cli.call(["trace", *arguments])
    said = capsys.readouterr()
    return code, said.out, said.err


def test_the_verb(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copytree(QUICK, tmp_path / "results/mine", ignore=shutil.ignore_patterns("logs"))
    assert call(capsys, "mine", "--trial", "1") == (0, "0001.trace.json\n", "")
    first = Path("0001.trace.json").read_bytes()
    check(json.loads(first))
    code, out, err = call(capsys, "mine", "--trial", "0001")
    assert (code, out, err.count("\n")) == (2, "", 1) and "does not exist yet" in err
    assert Path("0001.trace.json").read_bytes() == first
    assert call(capsys, "mine", "--trial", "1", "-o", "a/b.json.gz")[0] == 0
    assert gzip.decompress(Path("a/b.json.gz").read_bytes()) == first
    for path in ("a", "0001.trace.json/x.json"):
        code, _, err = call(capsys, "mine", "--trial", "1", "-o", path)
        assert code == 2 and err.count("\n") == 1 and "--out = " in err
    shutil.rmtree("results/mine/journal")
    code, out, err = call(capsys, "mine", "--trial", "1", "-o", "c.json")
    assert (code, out) == (0, "c.json\n") and "not there; the record alone" in err


def test_what_cannot_be_traced(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    for trial in ("0099", "x", "", HOSTILE):
        code, out, err = call(capsys, str(QUICK), "--trial", trial)
        assert (code, out, err.count("\n")) == (2, "", 1)
        assert "--trial = " in err and "known: 0000, 0001, 0002" in err and "and 3 more" in err
    code, _, err = call(capsys, str(tmp_path), "--trial", "1")
    assert code == 2 and "a run's directory" in err
    run = make_run(soak_trials(3))
    with pytest.raises(UsageError, match=r"one of its injections: 0000\.000, 0000\.001, 0000\.002"):
        find_trial(run, "0")
    assert find_trial(run, "0.2").trial == "0000.002"


def test_journals_that_cannot_be_read_are_not(tmp_path: Path) -> None:
    run = load(QUICK)
    record = find_trial(run, "0001")
    damaged = tmp_path / "r/journal/0001"
    damaged.mkdir(parents=True)
    (damaged / "0.0.jsonl").write_text("no\n")
    found = read_journals(tmp_path / "r", record)
    assert not found.known and "is not a line of JSON" in found.said
    shutil.rmtree(damaged)
    damaged.symlink_to(QUICK / "journal/0001")
    assert "leads out of the run" in read_journals(tmp_path / "r", record).said


def test_half_a_trace_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(TypeError):
        write({"traceEvents": [{"name": object()}]}, tmp_path / "x.json")
    assert not (tmp_path / "x.json").exists()
