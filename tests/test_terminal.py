"""The terminal: tables and timelines at two widths, and a display that leaves no trace."""

from __future__ import annotations

import dataclasses
import io
import json
import unicodedata
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from recoverybench.labels import seconds
from recoverybench.records import Exit, Stop, Transition, TrialRecord, Verification
from recoverybench.results.store import Run
from recoverybench.terminal import Progress, run_table, trial_timeline
from recoverybench.visible import clean
from recoverybench.vocabulary import OUTCOMES, PHASES
from tests.pages import hostile_trial
from tests.sample_run import (
    default_trials,
    failed_trial,
    grown_trial,
    make_cell,
    make_run,
    make_trial,
    refusing,
    soak_trials,
    timed_out_trial,
)

WIDTHS = (80, 120)
ESCAPE = "\x1b[2J\x1b]0;owned\x07\r\u202e[bold red]x[/]\n"


def console(width: int) -> Console:
    return Console(width=width, file=io.StringIO(), color_system=None, legacy_windows=False)


def printed(out: Console) -> str:
    assert isinstance(out.file, io.StringIO)
    return out.file.getvalue()


def table(run: Run, width: int = 80) -> str:
    out = console(width)
    run_table(run, out)
    return printed(out)


def timeline(record: TrialRecord, width: int = 80, **more: object) -> str:
    out = console(width)
    trial_timeline(record, out, **more)  # type: ignore[arg-type]
    return printed(out)


def check_plain(text: str, width: int) -> None:
    for line in text.split("\n"):
        assert len(line) <= width, line
        assert not [c for c in line if unicodedata.category(c)[0] == "C"], line


def many_cells() -> Run:
    cells = [
        make_cell(strategy=s, fault=f)
        for s in ("restart", "hot-spare")
        for f in ("kill", "hang", "preempt")
    ]
    trials = [make_trial(i, cell=cell) for i, cell in enumerate(cells)]
    trials.append(timed_out_trial(10, rep=1, cell=cells[1]))
    trials.append(failed_trial(11, rep=1, cell=cells[5]))
    return make_run(trials)


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize(
    "run",
    [
        make_run(),
        make_run([]),
        many_cells(),
        make_run([failed_trial(0)]),
        make_run([failed_trial(i, rep=i, outcome=o) for i, o in enumerate(OUTCOMES)]),
        make_run([hostile_trial(make_trial())], run_id=ESCAPE),
        make_run([make_trial(cell=make_cell(workload=ESCAPE)), make_trial(1)]),
    ],
)
def test_a_table_fits_and_is_plain_text(run: Run, width: int) -> None:
    check_plain(table(run, width), width)


def test_a_table_says_the_numbers_of_each_cell() -> None:
    text = table(make_run())
    lines = [line.split() for line in text.splitlines()]
    assert ["hot-spare", "3/3", "0.59", "(0.58", "to", "0.61)", "0.80", "5"] in lines
    assert "9 of 9 trials" in text
    phases = next(line for line in lines if line[:1] == ["restart"] and len(line) == 10)
    assert [float(x) for x in phases[1:]] == pytest.approx(
        [0.04, 0.01, 0.35, 3.82, 0.11, 0.20, 0.41, 0.05, 0.24], abs=0.011
    )
    assert "what became of the trials" not in text


def test_only_factors_that_differ_name_the_cells() -> None:
    text = table(many_cells())
    assert "hot-spare · preempt" in text
    assert "workload transformer:tiny" in text
    assert "restart" not in text.split("\n\n")[0]


def test_trials_that_did_not_recover_are_counted() -> None:
    text = table(many_cells())
    assert "restart · hang: 1 recovered (9 to 91 %), 1 timeout (9 to 91 %)" in text
    assert "hot-spare · preempt: 1 recovered (9 to 91 %), 1 not recovered (9 to 91 %)" in text


def test_a_median_beyond_the_deadline_is_a_bound() -> None:
    lines = [line.split() for line in table(many_cells(), 120).splitlines()]
    (hang,) = (line for line in lines if line[:3] == ["restart", "·", "hang"] and "1/2" in line)
    assert hang[hang.index("1/2") + 1 :][:2] == [">", "32.41"]  # (4.81 + 60) / 2
    assert "at least that" in table(many_cells())
    assert "at least that" not in table(make_run())


@pytest.mark.parametrize("run", [make_run(), make_run([])])
def test_cells_that_were_not_measured_are_named_with_the_reason(run: Run) -> None:
    text = table(refusing(run, "no nftables here", "no root", "no nftables here"), 120)
    kept = text[text.index("not measured") :].split("\n")
    assert kept[0] == "not measured: 3 cells"
    assert [line for line in kept if "f0" in line and "f2" in line]
    assert "  unsupported: no nftables here" in kept and "  unsupported: no root" in kept
    assert "not measured" not in table(run)
    check_plain(table(refusing(run, ESCAPE)), 80)


def test_a_soak_is_one_trial_of_the_suite_with_many_injections() -> None:
    text = table(make_run(soak_trials()))
    assert "1 of 3 trials with 3 injections" in " ".join(text.split())
    assert "with" not in table(make_run()).splitlines()[0]


def test_a_timeline_says_what_only_some_trials_have() -> None:
    record = dataclasses.replace(
        make_trial(),
        recoveries=2,
        transitions=(Transition("grow", 2, 33, 1.24, {"rendezvous": 0.1}),),
        restore_tier="memory+peer",
        restore_received_bytes=4096,
        harmless=True,
        false_alarms=2,
        preemption_save=False,
        stopped=Stop(7, "write", "20/d/abc", True),
        soak={"index": 1, "injections": 9, "goodput": 0.5, "wall_s": 9.0, "steps": 99},
        verify=Verification(True, "r", 60, 3, 1280, True, None, 20, 3.8e-5, 1.1e-6, 7),
    )
    text = " ".join(timeline(record, 120).split())
    for said in (
        "2 recoveries were begun; the last one is timed, lost steps are of all (before format 6: ",
        "grown back after step 33, held up for 1.2 s",
        "state from memory and peer, 4096 bytes received from other workers",
        "nothing was lost by the fault; false alarms: 2",
        "elastic does not save on a notice",
        "struck at file operation 7, write 20/d/abc, torn in the middle",
        "injection 2 of 9 in this job, goodput of the whole job 50.0 %",
        "20 losses within a relative tolerance of at most 3.8e-05; the largest difference is "
        "1.1e-06; 7 later losses only among the workers, bit for bit",
    ):
        assert said in text
    plainly = timeline(make_trial(), 120)
    for word in (
        "recoveries",
        "grown",
        "bytes received",
        "alarms",
        "the notice",
        "struck",
        "goodput",
    ):
        assert word not in plainly


def test_a_timeline_names_every_reason_for_which_a_process_ended() -> None:
    reasons = {
        "inject": "the injection",
        "teardown": "ended by the strategy",
        "resume": "ended before the injection, to resume",
        "end": "end of the job",
        "own": "on its own",
    }
    exits = tuple(Exit(0, 0, 41, None, "SIGKILL", r != "own", r) for r in reasons)
    text = timeline(dataclasses.replace(make_trial(), exits=exits), 120)
    for said in reasons.values():
        assert text.count(f"by SIGKILL, {said}\n") == 1


def test_a_strategy_that_saves_on_a_notice_is_told_from_one_that_does_not() -> None:
    def said(strategy: str, saved: bool) -> str:
        record = make_trial(cell=make_cell(strategy=strategy))
        return timeline(dataclasses.replace(record, preemption_save=saved), 120)

    assert "after the notice every worker saved" in said("suspend-resume", True)
    assert "after the notice not every worker saved" in said("suspend-resume", False)
    assert "restart does not save on a notice" in said("restart", False)


def test_a_trial_without_an_injection_says_nothing_of_what_came_after_it() -> None:
    whole = make_trial()
    record = dataclasses.replace(
        failed_trial(0, outcome="invalid"), pids=whole.pids, exits=whole.exits
    )
    text = timeline(record)
    assert text.count("nothing was injected") == 3
    for word in ("kept its process", "from the failure", "  nothing\n"):
        assert word not in text


def test_a_simulated_loss_is_said_to_be_one() -> None:
    cell = make_cell(strategy="pathways:shrink,back=1s")
    record = dataclasses.replace(make_trial(cell=cell), simulated=True)
    said = "a slice was lost (simulated)"
    text = timeline(record)
    assert said in text and "victim slice 1" in text
    line = next(x for x in table(make_run([record])).splitlines() if said in x)
    assert line.rstrip().endswith("one controller over 3 slices")
    assert "simulated" not in table(make_run()) + timeline(make_trial())


def test_what_was_compared_within_a_tolerance_is_counted_apart() -> None:
    text = " ".join(timeline(grown_trial(), 120).split())
    assert "equal, in part within a tolerance: 40 losses bit for bit and 20 within" in text


def test_digests_are_short_and_a_difference_is_said_once() -> None:
    said = f"step 45: final state is {'3d1dd433' * 4}, expected {'35ca577b' * 4}"
    check = Verification(False, "r", 1, 1, 1, True, said)
    record = dataclasses.replace(make_trial(), outcome="diverged", error=said, verify=check)
    text = timeline(record, 120)
    assert text.count("final state is 3d1dd433…, expected 35ca577b…") == 1
    assert "3d1dd433…" in table(make_run([record]), 120)


def test_a_state_that_came_from_elsewhere_than_its_source_says_is_shown() -> None:
    def said(source: str, tier: str) -> str:
        record = make_trial(cell=make_cell(state_source=source))
        return timeline(dataclasses.replace(record, restore_tier=tier), 120)

    assert "state from storage, and not from peer" in said("peer", "storage")
    assert "state from memory\n" in said("snapshot", "memory")
    assert "state from storage\n" not in said("storage", "storage")


def test_damage_in_the_journal_is_told(tmp_path: Path) -> None:
    folder = tmp_path / "journal" / "0000"
    folder.mkdir(parents=True)
    lines = [
        {"t": 1, "event": "journal", "worker": None, "attempt": 0, "schema": 1},
        {"t": 2, "event": "damage", "worker": None, "attempt": 0, "what": "bit-flip", "step": 10,
         "file": "10/state/d/9a", "offset": 574, "bit": 0, "array": "optimizer.0.mu"},
    ]  # fmt: skip
    text = "".join(json.dumps(line) + "\n" for line in lines)
    (folder / "supervisor.0.jsonl").write_text(text, "utf-8")
    shown = " ".join(timeline(make_trial(), 120, run_path=tmp_path).split())
    assert (
        "damaged: bit-flip, step 10, array optimizer.0.mu, file 10/state/d/9a at byte 574" in shown
    )


def test_names_in_a_table_are_broken_between_words() -> None:
    cells = [
        make_cell(strategy="suspend-resume", state_source="snapshot", fault="preempt:500ms"),
        make_cell(strategy="pathways:shrink,back=1s", state_source="storage", fault="kill"),
    ]
    text = table(make_run([make_trial(i, cell=c) for i, c in enumerate(cells)]))
    for word in ("suspend-resume", "preempt:500ms", "pathways:shrink,", "back=1s"):
        assert text.count(word) == 2
    assert "rdv rendezvous" in text
    assert "rdv rendezvous" not in table(make_run(), 120)


def test_a_table_says_that_a_trial_had_more_than_one_recovery() -> None:
    trials = [dataclasses.replace(make_trial(i), recoveries=1 + i % 2) for i in range(4)]
    said = "more than one recovery in 2 trials (0001, 0003): lost steps are of all (before"
    assert said in " ".join(table(make_run(trials)).split())
    assert "more than one recovery" not in table(make_run(trials[:1]))


def test_a_soak_says_what_its_jobs_came_to() -> None:
    trials = soak_trials(2)
    again = Exit(2, 0, 77, None, "SIGKILL", True, "inject")
    trials[1] = dataclasses.replace(trials[1], exits=(*trials[1].exits, again))
    said = "job 0000, elastic: goodput 87.4 %, 2 of 2 injections recovered, "
    assert f"{said}further kills in recoveries: 1" in table(make_run(trials), 120)
    assert "1 further kill struck in its recovery" in timeline(trials[1])
    assert "further kill" not in timeline(trials[0])


def test_a_run_without_trials_and_with_lost_lines_says_so() -> None:
    text = table(dataclasses.replace(make_run([]), dropped=1))
    assert "No trial has finished yet." in text
    assert "1 half-written line(s) dropped" in " ".join(text.split())


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize(
    "record",
    [
        make_trial(),
        timed_out_trial(1),
        failed_trial(2),
        default_trials()[0],
        default_trials()[2],
        dataclasses.replace(make_trial(), spans=(), milestones={}, phases={}),
    ],
)
def test_a_timeline_is_plain_text_and_its_bars_fit(record: TrialRecord, width: int) -> None:
    text = timeline(record, width)
    check_plain(text, width)
    assert f"trial {record.trial}" in text


def test_hostile_strings_do_nothing_in_a_terminal() -> None:
    trial = hostile_trial(make_trial())
    span = dataclasses.replace(trial.spans[0], name=ESCAPE, start_s=0.1, end_s=0.3)
    trial = dataclasses.replace(trial, trial=ESCAPE, error=ESCAPE, spans=(span, *trial.spans))
    text = timeline(trial)
    check_plain(text, 80)
    assert "\\x1b[2J" in text
    assert "[bold red]x[/]" in text
    assert clean("a\tb\u202e") == "a\\tb\\u202e"
    assert clean("é漢·") == "é漢·"


def bars(text: str, name: str) -> tuple[int, int]:
    """Where the first bar of this name starts and ends, in columns."""
    line = next(line for line in text.splitlines() if line.strip().startswith(name))
    return line.index("█"), line.rindex("█") + 1


def test_bars_are_to_scale_and_phases_follow_one_another() -> None:
    record = make_trial(cell=make_cell(strategy="restart"))
    text = timeline(record, 120)
    total = record.time_to_progress_s
    assert total
    last = None
    for phase in PHASES:
        start, end = bars(text, phase.replace("_", " "))
        assert end - start == pytest.approx(80 * record.phases[phase] / total, abs=1.01)
        assert last is None or abs(start - last) <= 1
        last = end


def test_a_timeline_shows_survivors_evidence_exits_and_verification() -> None:
    record = make_trial(cell=make_cell(strategy="hot-spare"))
    text = timeline(record, 120)
    assert "worker 0: pid 4100, kept its process" in text
    assert "worker 1: pid 4101 then 4200" in text
    assert "worker 1, attempt 1 (pid 4200)" in text
    assert "process exit, supervisor: worker 1 ended by SIGKILL (first)" in text
    assert "equal: 60 losses, 3 state digests, 1280 samples compared" in text
    assert "worker 1, attempt 0 (pid 4101): by SIGKILL, the injection" in text
    assert f"back after {seconds(record.recovery_s)}" in text


def test_a_timeline_names_its_files_when_told_where_the_run_is() -> None:
    run = make_run()
    assert str(run.path / "journal" / "0000") in timeline(run.trials[0], run_path=run.path)


def test_bars_need_no_unicode() -> None:
    raw = io.BytesIO()
    out = Console(width=80, file=io.TextIOWrapper(raw, encoding="ascii", errors="replace"))
    trial_timeline(make_trial(), out)
    out.file.flush()
    assert b"######" in raw.getvalue()


# ---- progress ------------------------------------------------------------------------------


class Clock:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def terminal() -> Console:
    return Console(file=io.StringIO(), force_terminal=True, width=80, color_system=None)


def follow(progress: Progress) -> None:
    for index, record in enumerate(default_trials(1)):
        progress.trial("elastic · kill", record.rep, index)
        progress.phase("waiting for step 25")
        progress.trial_done(record)
    progress.note("half the budget is used")


@pytest.mark.parametrize("out", [console(80), terminal()], ids=["no terminal", "a terminal"])
def test_quiet_progress_says_nothing(out: Console) -> None:
    with Progress(3, quiet=True, console=out) as progress:
        follow(progress)
    assert printed(out) == ""


def test_progress_in_a_log_is_a_line_a_trial() -> None:
    clock, out = Clock(), console(40)
    with Progress(3, console=out, clock=clock) as progress:
        clock.now += 30
        follow(progress)
    first, *_, last = printed(out).splitlines()
    assert first == "[1/3, 0:30, about 1:00 left]  0000  restart · kill  recovered  5.1 s"
    assert last == "half the budget is used"
    assert "\x1b" not in printed(out)


def test_progress_goes_to_stderr(capfd: pytest.CaptureFixture[str]) -> None:
    with Progress(3) as progress:
        progress.note("a note")
    assert capfd.readouterr() == ("", "a note\n")


def test_progress_leaves_a_line_for_each_trial() -> None:
    out = terminal()
    with Progress(3, console=out) as progress:
        follow(progress)
    text = printed(out)
    assert "0000  restart · kill  recovered  5.1 s" in text
    assert "half the budget is used" in text


@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError])
def test_progress_restores_the_terminal_on_an_error(error: type[BaseException]) -> None:
    out = terminal()
    with pytest.raises(error), Progress(3, console=out) as progress:
        progress.trial("elastic", 0, 0)
        raise error
    text = printed(out)
    assert text.count("\x1b[?25l") == text.count("\x1b[?25h") == 1
    assert text.rindex("\x1b[?25h") > text.rindex("\x1b[?25l")


def test_progress_shows_the_trial_its_phase_and_the_time_left() -> None:
    clock, out = Clock(), terminal()
    progress = Progress(4, console=out, clock=clock)
    with progress:
        assert progress.left_s() is None
        clock.now += 30
        progress.trial_done(make_trial())
        progress.trial("elastic · kill", 2, 1)
        progress.phase("waiting for step 25")
        clock.now += 10
        assert progress.left_s() == pytest.approx(80)
    assert "trial 2 of 4: elastic · kill, repetition 3  waiting for step 25" in printed(out)
    assert "0:40, about 1:20 left" in printed(out)
    clock.now += 1000
    assert progress.left_s() == 0.0


def test_hostile_strings_do_nothing_in_the_progress() -> None:
    out = terminal()
    with Progress(1, console=out) as progress:
        progress.trial(ESCAPE, 0, 0)
        progress.phase(ESCAPE)
        progress.note(ESCAPE)
        progress.trial_done(make_trial())
    assert "\x1b]0;" not in printed(out)
    assert "\x07" not in printed(out)


# ---- numbers -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "–"),
        (0.0, "0 ms"),
        (0.0043, "4.3 ms"),
        (0.058, "58 ms"),
        (0.0994, "99 ms"),
        (0.0996, "0.10 s"),
        (0.584, "0.58 s"),
        (0.9949, "0.99 s"),
        (0.996, "1.0 s"),
        (4.93, "4.9 s"),
        (9.96, "10 s"),
        (59.4, "59 s"),
        (59.6, "1 min 00 s"),
        (125.2, "2 min 05 s"),
    ],
)
def test_seconds_have_two_digits_that_count(value: float | None, text: str) -> None:
    assert seconds(value) == text


def command_trial(index: int, **changes: Any) -> TrialRecord:
    """A trial of a command: between the evidence and the restore nothing has a name."""
    cell = make_cell(workload="external/jax-loop", strategy="own")
    t = 1_000_000_000
    record = make_trial(index, cell=cell)
    fields: dict[str, Any] = {
        "t_inject": t,
        "milestones": {
            "inject": t,
            "evidence": t + 10**9,
            "restored": t + 4 * 10**9,
            "first_step": t + 5 * 10**9,
        },
        "phases": {"detect": 1.0, "unnamed": 3.0, "restore": 1.0},
        "recovery_s": 5.0,
        "spans": (),
    }
    return dataclasses.replace(record, **{**fields, **changes})


def test_time_that_no_mark_names_is_shown_as_that() -> None:
    record = command_trial(0)
    text = table(make_run([record]), 100)
    assert "unnamed" in text and "not verified" not in text
    assert "unnam unnamed" in table(make_run([record]), 80)
    assert "unnamed" not in table(make_run([make_trial(0)]), 100)
    lines = timeline(record).split("\n")
    named = [line.split()[0] for line in lines if line.startswith(("detect", "unnamed", "restore"))]
    assert named == ["detect", "unnamed", "restore", "unnamed"]
    assert [line.split()[1] for line in lines if line.startswith("unnamed")] == ["2.0", "1.0"]


def test_what_was_not_verified_is_said() -> None:
    verify = make_trial(0).verify
    assert verify is not None
    record = command_trial(0, verify=dataclasses.replace(verify, passed=None))
    assert "own: not verified, nothing was compared" in table(make_run([record]), 100)
