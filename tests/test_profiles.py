"""Profiles: what a trace is split into, which traces there should be, and what is read back."""

from __future__ import annotations

import dataclasses
import itertools
import json
import shutil
import sys
import tempfile
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recoverybench import leftovers
from recoverybench.analysis.journal import read_trial
from recoverybench.campaign.design import ended, next_places, profile_places
from recoverybench.campaign.profiled import profilable
from recoverybench.cli import main
from recoverybench.errors import UsageError
from recoverybench.journal_writer import Journal
from recoverybench.plan.suite import Overrides, Suite, load_suite
from recoverybench.profiles import summarise as summarising
from recoverybench.profiles.events import Event, innermost, parts_of, split
from recoverybench.profiles.model import KINDS, PARTS, Summary
from recoverybench.profiles.reading import load_summary, profiles_of
from recoverybench.profiles.summarise import convert, expected_profiles, summarise
from recoverybench.protocol import PROFILE_PREFIX
from recoverybench.results.lookup import find_trial
from recoverybench.results.store import RunDir, load
from tests.real_support import BASE
from tests.sample_run import make_cell, make_trial

SAMPLE = Path(__file__).parent / "samples" / "v4"
PROFILED = "0002"

# --- what a trace is split into ---------------------------------------------------------

MAIN, POOL = 1, 2
MS = 1000.0


def event(name: str, start: float, length: float, tid: int = MAIN, **args: Any) -> dict[str, Any]:
    """An event of the trace viewer; times in ms."""
    return {
        "ph": "X",
        "pid": 7,
        "tid": tid,
        "name": name,
        "ts": start * MS,
        "dur": length * MS,
        "args": args,
    }


def ours(name: str, start: float, length: float) -> dict[str, Any]:
    return event(PROFILE_PREFIX + name, start, length)


def trace(*events: dict[str, Any]) -> dict[str, Any]:
    return {"traceEvents": list(events)}


def in_ms(seconds: dict[str, float]) -> dict[str, float]:
    return {name: round(s * 1000, 6) for name, s in seconds.items() if s}


def test_a_first_step_is_split_by_what_goes_on_in_each_instant() -> None:
    [part] = parts_of(
        trace(
            ours("first_step", 100, 50),
            event("$steps.py:133 _advance", 100, 50),
            ours("input", 101, 4),
            event("np.asarray(jax.Array)", 108, 42),
            event("fusion.1", 110, 10, POOL, hlo_op="fusion.1"),
            event("all-reduce", 118, 20, POOL, hlo_op="all-reduce"),
            event("end: all-reduce", 118, 20, POOL, hlo_op="all-reduce"),
            event("$compiler.py:1 backend_compile", 140, 3),
        )
    )
    assert part.name == "first_step" and part.seconds == pytest.approx(0.050)
    # 110 to 120 an operation runs, and to 138 workers exchange; to 110 and from there on, but for
    # what is compiled, the thread waits for the loss.
    assert in_ms(part.split) == {
        "compile": 3,
        "device": 10,
        "collective": 18,
        "input": 4,
        "host": 4,
        "idle": 11,
    }
    by_name = {one.name: one for one in part.operations}
    assert by_name["fusion.1"].kind == "device" and by_name["fusion.1"].count == 1
    assert by_name["all-reduce"].seconds == pytest.approx(0.020)
    assert by_name["np.asarray(jax.Array)"].kind == "idle"
    assert "end: all-reduce" not in by_name
    assert not any(name.startswith(PROFILE_PREFIX) for name in by_name)
    assert in_ms(part.spans) == {"first_step": 46, "input": 4}


def test_a_restore_says_which_of_its_own_spans_took_the_time() -> None:
    [part] = parts_of(
        trace(
            ours("restore", 0, 40),
            ours("read the checkpoint", 5, 30),
            ours("agree on the checkpoint", 25, 5),
            event("$<unknown> acquire", 6, 19),
        )
    )
    assert in_ms(part.spans) == {
        "read the checkpoint": 25,
        "restore": 10,
        "agree on the checkpoint": 5,
    }
    assert in_ms(part.split) == {"host": 21, "idle": 19}


def test_operations_of_a_device_are_known_by_their_process() -> None:
    name = {"ph": "M", "pid": 9, "name": "process_name", "args": {"name": "/device:TPU:0"}}
    on_device = {**event("%fusion.7", 2, 6, 3), "pid": 9}
    [part] = parts_of(trace(name, ours("first_step", 0, 10), on_device))
    assert in_ms(part.split) == {"device": 6, "host": 4}


def test_a_mark_that_outlives_the_call_which_set_it_has_the_time() -> None:
    """The profiler's own marks begin inside ``__enter__`` and do not nest with it."""
    events = [
        Event(0, 10, "$contextlib.py __enter__", (7, MAIN), False),
        Event(5, 100, "mark", (7, MAIN), False),
        Event(20, 30, "inner", (7, MAIN), False),
    ]
    found = [(a, b, e.name) for a, b, e in innermost(events, (0.0, 120.0))]
    assert found == [
        (0, 5, "$contextlib.py __enter__"),
        (5, 20, "mark"),
        (20, 30, "inner"),
        (30, 100, "mark"),
    ]


@pytest.mark.parametrize(
    "data",
    [
        {},
        trace({"ph": "X"}, {"ph": "X", "name": 3, "ts": 0, "dur": 1}, {"ph": "M", "args": None}),
        {"traceEvents": ["x", 3, None]},
        trace(event("restore", 0, 5)),
        trace(ours("verify", 0, 5)),
    ],
)
def test_a_trace_without_our_marks_has_no_parts(data: dict[str, Any]) -> None:
    assert parts_of(data) == ()


intervals = st.lists(st.tuples(st.floats(-5, 15), st.floats(0, 8)).map(lambda p: (p[0], sum(p))))


@given(st.dictionaries(st.sampled_from(KINDS[:-1]), intervals), st.floats(0.001, 12))
def test_kinds_share_the_time_and_leave_none(
    found: dict[str, list[tuple[float, float]]], length: float
) -> None:
    seconds = split((0.0, length), found)
    assert tuple(seconds) == KINDS
    assert all(s >= 0 for s in seconds.values())
    assert sum(seconds.values()) == pytest.approx(length / 1e6, abs=1e-8)
    # The first kind has all that it covers, whatever else there is.
    alone = split((0.0, length), {KINDS[0]: found.get(KINDS[0], [])})
    assert seconds[KINDS[0]] == pytest.approx(alone[KINDS[0]], abs=1e-8)


@given(st.lists(st.tuples(st.integers(0, 40), st.integers(0, 20)), max_size=12))
def test_an_instant_is_of_one_event(found: list[tuple[int, int]]) -> None:
    events = [
        Event(start, start + length, str(i), (1, 1), False)
        for i, (start, length) in enumerate(found)
    ]
    owned = innermost(events, (5.0, 35.0))
    assert all(5 <= a < b <= 35 for a, b, _ in owned)
    assert all(before[1] <= after[0] for before, after in itertools.pairwise(owned))
    assert all(event.start <= a and b <= event.end for a, b, event in owned)
    for a, b, owner in owned:
        going_on = [e for e in events if e.start <= a and e.end >= b]
        assert owner.start == max(e.start for e in going_on)
    covered = {t for e in events for t in range(int(e.start), int(e.end)) if 5 <= t < 35}
    assert sum(b - a for a, b, _ in owned) == pytest.approx(len(covered))


# --- which traces there should be -------------------------------------------------------


@dataclasses.dataclass
class Trial:
    """A trial whose journals are written by hand.

    Attributes:
        run: the run's directory.
    """

    run: Path

    def worker(self, slot: int, *states: str, worker: int | None = None, **fields: Any) -> None:
        """A worker of generation 1 that says these states of its trace."""
        journal = Journal(self.journals / f"{slot}.0.jsonl", slot, 0)
        journal.become(slot if worker is None else worker, fields.pop("attempt", 0), 1)
        for state in states:
            journal.log("profile", state=state, **fields)
        journal.close()

    def exits(self, worker: int, **fields: Any) -> None:
        journal = Journal(self.journals / "supervisor.0.jsonl", None, 0)
        journal.log("exit", worker=worker, attempt=0, pid=1, ours=True, **fields)
        journal.close()

    def trace(self, who: str, content: bytes = b"x") -> Path:
        folder = self.run / "profile" / PROFILED / who / "plugins" / "profile" / "generation-1"
        folder.mkdir(parents=True)
        (folder / "vm.xplane.pb").write_bytes(content)
        return folder / "vm.xplane.pb"

    @property
    def journals(self) -> Path:
        folder = self.run / "journal" / PROFILED
        folder.mkdir(parents=True, exist_ok=True)
        return folder


@pytest.fixture
def trial(tmp_path: Path) -> Trial:
    return Trial(tmp_path / "run")


def test_a_worker_that_was_killed_while_it_traced_has_no_profile(trial: Trial) -> None:
    """A SIGKILL leaves no file: that is said, and nothing is linked that is not there."""
    trial.worker(1, "begun")
    trial.exits(1, code=None, signal="SIGKILL", reason="inject")
    (found,) = summarise(trial.run, PROFILED).profiles
    assert (found.file, found.bytes, found.problem) == (None, None, "no profile: killed")
    assert load_summary(trial.run, PROFILED).profiles == (found,)


@pytest.mark.parametrize(
    ("exits", "said"),
    [
        ({"code": None, "signal": "SIGABRT"}, "no profile: ended by SIGABRT"),
        ({"code": 3, "signal": None}, "no profile: ended with exit code 3"),
        (None, "no profile: it was not stopped"),
    ],
)
def test_other_ends_of_a_trace(trial: Trial, exits: dict[str, Any] | None, said: str) -> None:
    trial.worker(1, "begun")
    if exits is not None:
        trial.exits(1, reason="own", **exits)
    (found,) = summarise(trial.run, PROFILED).profiles
    assert found.problem == said


def test_an_error_of_the_profiler_is_told(trial: Trial) -> None:
    trial.worker(0, "begun", "failed", problem="RuntimeError: only one profile")
    (found,) = summarise(trial.run, PROFILED).profiles
    assert found.problem == "no profile: RuntimeError: only one profile"


def test_a_trace_that_was_kept_and_is_gone_is_no_link(trial: Trial) -> None:
    trial.worker(0, "begun", "kept")
    (found,) = summarise(trial.run, PROFILED).profiles
    assert (found.file, found.problem) == (None, "no profile: its file is not there any more")


def test_traces_are_grouped_by_trial_whenever_they_were_begun(trial: Trial) -> None:
    """Hosts that start in different seconds have directories of one name, by generation."""
    for worker in (0, 2):
        trial.worker(worker, "begun", "kept")
        trial.trace(f"{worker}.0")
    trial.worker(3, "begun", "kept", worker=1, attempt=1)  # a standby took the rank of worker 1
    trial.trace("1.1")
    found = summarise(trial.run, PROFILED).profiles
    assert [(p.worker, p.attempt, p.generation) for p in found] == [(0, 0, 1), (1, 1, 1), (2, 0, 1)]
    assert [p.file for p in found] == [
        f"profile/{PROFILED}/{who}/plugins/profile/generation-1/vm.xplane.pb"
        for who in ("0.0", "1.1", "2.0")
    ]


def test_a_file_that_is_no_trace_is_told_and_the_others_are_read(trial: Trial) -> None:
    """xprof itself, in its process: what it does not take costs nobody anything."""
    trial.worker(0, "begun", "kept")
    trial.trace("0.0", b"\x00no trace\xff")
    (found,) = summarise(trial.run, PROFILED).profiles
    assert found.problem is not None and "\n" not in found.problem and found.parts == ()
    assert found.file is not None
    assert sorted(p.name for p in (trial.run / found.file).parent.iterdir()) == ["vm.xplane.pb"]


def test_a_trial_without_journals_has_an_empty_summary(trial: Trial) -> None:
    assert summarise(trial.run, PROFILED) == Summary(PROFILED, None, ())


PYTHON = sys.executable


def fake(monkeypatch: pytest.MonkeyPatch, folder: Path, code: str) -> None:
    """The converter is this Python instead; `files` are what it is asked for."""
    program = folder / "python"
    program.write_text(f"#!{PYTHON}\nimport json, os, sys\nfiles = sys.argv[3:]\n{code}\n")
    program.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(program))


def files(folder: Path, count: int) -> list[Path]:
    made = [folder / f"{i}.pb" for i in range(count)]
    for file in made:
        file.write_bytes(b"x")
    return made


SAY = 'print(json.dumps({"at": files[0][-4]}), flush=True)'


def test_a_converter_that_dies_at_a_file_goes_on_behind_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    code = f"if files[0].endswith('1.pb'): os.kill(os.getpid(), 11)\n{SAY}\nos._exit(0)"
    fake(monkeypatch, tmp_path, code)
    # It reads one file each time, and dies at the second.
    said = convert(files(tmp_path, 2))
    assert said == [{"at": "0"}, {"problem": "what reads it ended with exit code 0"}]
    fake(monkeypatch, tmp_path, "os.kill(os.getpid(), 11)")
    said = convert(files(tmp_path, 2))
    assert said == [{"problem": "what reads it was ended by signal 11"}] * 2


def test_a_converter_that_hangs_is_waited_for_so_long_and_no_longer(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    fake(monkeypatch, tmp_path, "import time\ntime.sleep(60)")
    monkeypatch.setattr(summarising, "PATIENCE_S", 0.3)
    first, *rest = convert(files(tmp_path, 3))
    assert "needed more than" in first["problem"]
    assert all("took more than" in one["problem"] for one in rest)


@pytest.mark.parametrize("answer", ["no json", "3", "[]", '{"a": NaN}'])
def test_what_a_converter_says_is_checked(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, answer: str
) -> None:
    fake(monkeypatch, tmp_path, f"print({answer!r})")
    assert convert(files(tmp_path, 1)) == [{"problem": "what reads it ended with exit code 0"}]


KEEP = """
import signal, tempfile, time
os.mkdir(os.path.join(tempfile.gettempdir(), "kept by xprof"))
"""
WAYS = {
    "needs too long": "time.sleep(60)",
    "is killed": "os.kill(os.getpid(), signal.SIGKILL)",
    "is interrupted": "os.kill(os.getppid(), signal.SIGINT)\ntime.sleep(60)",
}


@pytest.mark.parametrize("how", WAYS)
def test_a_converter_that_does_not_end_by_itself_leaves_nothing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, how: str
) -> None:
    fake(monkeypatch, tmp_path, KEEP + WAYS[how])
    patience_s = 20.0 if how == "is interrupted" else 0.5
    monkeypatch.setattr(summarising, "PATIENCE_S", patience_s)

    def ours() -> set[Path]:
        mark = f"{leftovers.PREFIX}{leftovers.owner_mark()}-*"
        return {path for base in ("/tmp", tempfile.gettempdir()) for path in Path(base).glob(mark)}

    before = ours()
    expected = pytest.raises(KeyboardInterrupt) if how == "is interrupted" else nullcontext()
    with expected:
        convert(files(tmp_path, 1))
    assert ours() == before


def test_what_a_converter_keeps_is_found_when_its_supervisor_was_killed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Its folder and its process carry the mark of the supervisor."""
    fake(monkeypatch, tmp_path, "print(json.dumps(dict(os.environ)))")
    (found,) = convert(files(tmp_path, 1))
    mark = leftovers.owner_mark()
    assert Path(found["TMPDIR"]).name.startswith(f"{leftovers.PREFIX}{mark}-")
    assert found[leftovers.OWNER_VARIABLE] == mark
    assert not Path(found["TMPDIR"]).exists()


def test_a_trace_that_is_too_large_is_not_read(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(summarising, "MOST_BYTES", 0)
    fake(monkeypatch, tmp_path, "sys.exit('it was read')")
    assert convert(files(tmp_path, 1)) == [{"problem": "more than 0 MiB: not read"}]


def test_a_converter_that_cannot_be_started_is_told(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(sys, "executable", str(tmp_path / "none"))
    (said,) = convert(files(tmp_path, 1))
    assert said == {"problem": "what reads it cannot be started (No such file or directory)"}


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
        assert directory.profile_dir(PROFILED).is_dir()
    assert (run / "profile" / f"{PROFILED}.cut-1" / "summary.json").exists()


def test_expected_profiles_read_no_other_lines(trial: Trial) -> None:
    trial.worker(0, "warned", problem="the workload starts a trace of its own")
    journals = read_trial(trial.journals).all
    (found,) = expected_profiles(journals, trial.run, PROFILED)
    assert found.warnings == ("the workload starts a trace of its own",)
