"""Profiles: which traces there should be, and what is made of those that there are."""

from __future__ import annotations

import dataclasses
import sys
import tempfile
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from recoverybench import leftovers
from recoverybench.analysis.journal import read_trial
from recoverybench.journal_writer import Journal
from recoverybench.profiles import summarise as summarising
from recoverybench.profiles.model import Summary
from recoverybench.profiles.reading import load_summary
from recoverybench.profiles.summarise import convert, expected_profiles, summarise

PROFILED = "0002"


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


def test_expected_profiles_read_no_other_lines(trial: Trial) -> None:
    trial.worker(0, "warned", problem="the workload starts a trace of its own")
    journals = read_trial(trial.journals).all
    (found,) = expected_profiles(journals, trial.run, PROFILED)
    assert found.warnings == ("the workload starts a trace of its own",)
