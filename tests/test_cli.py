"""The command line's frame: what it imports, how it fails, and what it says."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

import click
import pytest

import recoverybench
from recoverybench import capabilities, cli
from recoverybench.cli import reference
from recoverybench.cli.list import KINDS
from recoverybench.errors import HarnessError, UsageError
from recoverybench.plan import catalogue
from tests.sample_run import make_run

HEAVY = ("jax", "jaxlib", "flax", "orbax", "numpy", "pandas", "plotly", "rich", "jinja2", "scipy")


@pytest.fixture
def in_tmp(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder to be in, and no tracebacks asked for."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv(cli.DEBUG_VARIABLE, raising=False)
    return tmp_path


def python(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={**os.environ, **environment},
    )


def run_dir(path: Path) -> Path:
    """A run as it lies on disk."""
    run = make_run()
    path.mkdir(parents=True)
    (path / "run.json").write_text(json.dumps(run.info.as_dict()))
    lines = [json.dumps(trial.as_dict()) + "\n" for trial in run.trials]
    (path / "trials.jsonl").write_text("".join(lines))
    return path


# Start-up


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], [], ["list", "faults"]])
def test_start_imports_nothing_heavy(arguments: list[str]) -> None:
    code = (
        "import sys; from recoverybench.cli import call; "
        f"code = call({arguments!r}); "
        f"print([m for m in {HEAVY!r} if m in sys.modules], file=sys.stderr); sys.exit(code)"
    )
    done = python("-c", code)
    assert done.returncode == 0, done.stderr
    assert done.stderr.strip() == "[]"


def test_import_of_the_package_imports_nothing_of_it() -> None:
    code = "import sys, recoverybench; print([m for m in sys.modules if 'recoverybench.' in m])"
    assert python("-c", code).stdout.strip() == "[]"


def test_help_starts_as_fast_as_an_import_of_click() -> None:
    """No absolute time: the machine may be slow or busy. Click's import is the floor."""

    def seconds(*arguments: str) -> float:
        start = time.perf_counter()
        assert python(*arguments).returncode == 0
        return time.perf_counter() - start

    pairs = [
        (seconds("-m", "recoverybench", "--help"), seconds("-c", "import click, runpy, traceback"))
        for _ in range(9)
    ]
    ours, floor = (statistics.median(column) for column in zip(*pairs, strict=True))
    assert ours < 2 * floor, f"--help took {ours:.3f} s, an import of click {floor:.3f} s"


def test_every_verb_has_the_help_that_the_list_shows() -> None:
    ctx = click.Context(cli.group)
    for verb, line in cli.VERBS.items():
        command = cli.group.get_command(ctx, verb)
        assert command is not None
        assert command.name == verb
        assert command.short_help == line
        assert command.help


def test_help_works_after_every_verb_was_imported(capsys: pytest.CaptureFixture[str]) -> None:
    """The verb `list` has a module of that name, beside a builtin of that name."""
    assert cli.call(["list", "faults"]) == 0
    assert cli.call(["--help"]) == 0
    assert "doctor" in capsys.readouterr().out


def test_documentation_is_the_commands_help(repository: Path) -> None:
    written = (repository / "docs/cli.md").read_text(encoding="utf-8")
    assert written == reference.markdown(), "run: make docs"


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.call(["--version"]) == 0
    assert capsys.readouterr().out == f"recoverybench {recoverybench.__version__}\n"


# Errors


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["shwo"], "command = 'shwo': did you mean 'show'?"),
        (["--bogus"], "--bogus"),
        (["list"], "KIND"),
        (["list", "fualts"], "'fualts' is not one of 'workloads', 'faults'"),
        (["show"], "RUN"),
        (["report"], "RUN..."),
        (["show", "nowhere"], "nowhere"),
        (["report", "nowhere"], "nowhere"),
        (["list", "faults", "--format", "xml"], "'xml' is not one of 'text', 'json'"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(
    arguments: list[str], said: str, in_tmp: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.call(arguments) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("recoverybench: error: ")
    assert err.count("\n") == 1
    assert said in err
    assert list(in_tmp.iterdir()) == []


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (UsageError("two\nlines"), 2, "two lines"),
        (HarnessError("broken"), 3, "broken"),
        (RuntimeError("boom"), 3, "unexpected RuntimeError: boom (at "),
        (KeyboardInterrupt(), 130, "interrupted"),
    ],
)
def test_each_exception_has_its_exit_code(
    error: BaseException,
    code: int,
    said: str,
    in_tmp: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def fail(kind: str) -> None:
        raise error

    monkeypatch.setattr("recoverybench.plan.catalogue.entries", fail)
    assert cli.call(["list", "faults"]) == code
    err = capsys.readouterr().err.strip()
    assert err.startswith(f"recoverybench: error: {said}")
    assert "\n" not in err
    monkeypatch.setenv(cli.DEBUG_VARIABLE, "1")
    assert cli.call(["list", "faults"]) == code
    assert "Traceback" in capsys.readouterr().err


def test_module_and_script_are_the_same_command(tmp_path: Path) -> None:
    script = Path(sys.executable).with_name("recoverybench")
    by_module = python("-m", "recoverybench", "list", "nonsense")
    assert by_module.returncode == 2
    if not script.exists():
        pytest.skip("recoverybench is not installed beside this interpreter")
    by_script = subprocess.run(
        [script, "list", "nonsense"], capture_output=True, text=True, timeout=60, check=False
    )
    assert (by_script.returncode, by_script.stderr) == (by_module.returncode, by_module.stderr)


def test_a_terminal_that_cannot_show_a_character_is_no_error() -> None:
    done = python("-m", "recoverybench", "report", "--help", PYTHONIOENCODING="latin-1")
    assert done.returncode == 0, done.stderr
    assert "\\u2026" in done.stdout


@pytest.mark.parametrize("how", ["| true", ">&-", "2>&-", "<&-", ">&- 2>&- <&-"])
@pytest.mark.parametrize("verb", ["show", "export", "compare"])
def test_streams_that_nobody_reads_end_no_command(verb: str, how: str, repository: Path) -> None:
    run = str(repository / "results" / "quick-0.1.0")
    said = {
        "show": run,
        "export": f"{run} --format csv",
        "compare": " ".join(
            f"{repository}/results/releases-0.1.0@jax==0.{v}" for v in ("8.3", "9.2")
        ),
    }
    done = bash(
        f"{sys.executable} -m recoverybench {verb} {said[verb]} {how}; exit ${{PIPESTATUS[0]}}"
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_stdout_without_room_is_said() -> None:
    done = bash(f"{sys.executable} -m recoverybench --help > /dev/full")
    assert done.returncode == 2
    assert done.stderr == (
        "recoverybench: error: stdout: expected a place that can be written "
        "(No space left on device)\n"
    )


def bash(line: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["bash", "-c", line], capture_output=True, text=True, timeout=60, check=False
    )


# list


@pytest.mark.parametrize("kind", KINDS)
def test_list(kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.call(["list", kind]) == 0
    text = capsys.readouterr().out
    assert cli.call(["list", kind, "--format", "json"]) == 0
    entries = json.loads(capsys.readouterr().out)
    assert entries
    # What a part needs stands below it, behind blanks.
    lines = [line for line in text.splitlines() if not line.startswith(" ")]
    assert [line.split()[0] for line in lines] == [e["name"] for e in entries]
    assert all(e["summary"] and e["source"] for e in entries)


@pytest.mark.parametrize("missing", [None, "this machine was built without it"])
def test_list_says_what_a_fault_needs_and_whether_it_is_here(
    missing: str | None, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(capabilities.MISSING, "user-notification", lambda: missing)
    entry = catalogue.KINDS["faults"].folder / "disk_full.py"
    one = catalogue.Entry("disk-full", "A full disk.", "x", entry, "recoverybench.faults.disk_full")
    monkeypatch.setattr(catalogue, "entries", lambda kind: [one])
    assert cli.call(["list", "faults"]) == 0
    lines = capsys.readouterr().out.splitlines()
    reason = missing and f"user-notification: {missing}"
    state = f"missing here: {reason}" if reason else "this machine has it"
    assert lines[1].strip() == f"needs user-notification; {state}"
    assert cli.call(["list", "faults", "--format", "json"]) == 0
    [found] = json.loads(capsys.readouterr().out)
    assert found["needs"] == ["user-notification"]
    assert found["missing"] == reason


# show


def test_show_as_json_is_the_run_as_it_was_written(
    in_tmp: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = run_dir(in_tmp / "results" / "a-run")
    expected = [json.loads(line) for line in (path / "trials.jsonl").read_text().splitlines()]
    assert cli.call(["show", str(path), "--format", "json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["trials"] == expected
    assert shown["dropped_lines"] == 0
    trial = expected[1]["trial"]
    assert cli.call(["show", "a-run", "--trial", trial, "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out) == expected[1]


def test_show_prints_a_table_and_a_timeline(
    in_tmp: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = run_dir(in_tmp / "a-run")
    assert cli.call(["show", str(path)]) == 0
    assert "elastic" in capsys.readouterr().out
    assert cli.call(["show", str(path), "--trial", "0000"]) == 0
    assert "restore" in capsys.readouterr().out


def test_show_refuses_a_trial_that_is_not_there(
    in_tmp: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = run_dir(in_tmp / "a-run")
    assert cli.call(["show", str(path), "--trial", "9999"]) == 2
    assert "--trial = '9999'" in capsys.readouterr().err


# report


def test_report_takes_a_free_name_and_overwrites_nothing(
    in_tmp: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = run_dir(in_tmp / "results" / "a-run")
    run_id = json.loads((path / "run.json").read_text())["run_id"]
    names = [f"reports/{run_id}.html", f"reports/{run_id}-2.html", f"reports/{run_id}-3.html"]
    for name in names:
        assert cli.call(["report", "a-run"]) == 0
        assert capsys.readouterr().out == f"{name}\n"
        assert (in_tmp / name).read_text(encoding="utf-8").startswith("<!")
    assert sorted(p.name for p in (in_tmp / "reports").iterdir()) == sorted(
        name.removeprefix("reports/") for name in names
    )


@pytest.mark.parametrize("again", ["results/r", "./results/../results/r/", "link", "r"])
def test_report_refuses_a_run_that_is_given_twice(
    in_tmp: Path, capsys: pytest.CaptureFixture[str], again: str
) -> None:
    run_dir(in_tmp / "results" / "r")
    (in_tmp / "link").symlink_to(in_tmp / "results" / "r")
    assert cli.call(["report", "results/r", again, "-o", "new/out.html"]) == 2
    said = capsys.readouterr()
    assert (said.out, said.err.count("\n")) == ("", 1)
    assert "RUN = " in said.err and "expected each run once (it is 'results/r' again)" in said.err
    assert not (in_tmp / "new").exists()


def test_report_refuses_a_file_that_exists(
    in_tmp: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = run_dir(in_tmp / "a-run")
    mine = in_tmp / "mine.html"
    mine.write_text("mine")
    assert cli.call(["report", str(path), "-o", str(mine)]) == 2
    assert "--out = " in capsys.readouterr().err
    assert mine.read_text() == "mine"
    dangling = in_tmp / "dangling.html"
    dangling.symlink_to(in_tmp / "elsewhere")
    assert cli.call(["report", str(path), "-o", str(dangling)]) == 2
    assert not (in_tmp / "elsewhere").exists()
    assert cli.call(["report", str(path), "-o", str(mine / "below-a-file.html")]) == 2
    assert cli.call(["report", str(path), "-o", str(in_tmp / "new" / "folder.html")]) == 0
    assert not (in_tmp / "no").exists()


def test_report_leaves_nothing_behind_when_it_fails(
    in_tmp: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*arguments: object) -> None:
        raise RuntimeError("boom")

    monkeypatch.setattr("recoverybench.report.render", fail)
    path = run_dir(in_tmp / "a-run")
    assert cli.call(["report", str(path), "-o", "new.html"]) == 3
    assert not (in_tmp / "new.html").exists()


def test_the_message_names_the_option_that_named_the_file(
    in_tmp: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (in_tmp / "mine.html").write_text("mine")
    assert cli.call(["run", "--report", "mine.html"]) == 2
    assert "--report = 'mine.html': expected a file that does not exist" in capsys.readouterr().err
    assert [path.name for path in in_tmp.iterdir()] == ["mine.html"]


def test_report_as_json(in_tmp: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = run_dir(in_tmp / "a-run")
    assert cli.call(["report", str(path), "-o", "new.html", "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["report"] == "new.html"


def test_profiles_cannot_be_added_to_a_run_that_was_begun_without(
    in_tmp: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is said first, and not that the default suite has another number of trials."""
    path = run_dir(in_tmp / "a-run")
    before = sorted(p.name for p in path.iterdir())
    assert cli.call(["run", "--resume", "--out", str(path), "--profile"]) == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1 and "--profile = True: expected a run that was begun with it" in err
    assert sorted(p.name for p in path.iterdir()) == before
