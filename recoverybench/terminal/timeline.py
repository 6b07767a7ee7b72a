"""One trial in the terminal: phases and spans as bars to scale, and what became of it."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from pathlib import Path

from rich.console import Console
from rich.text import Text

from recoverybench.damage import damage_words
from recoverybench.devices import device_words, health_words
from recoverybench.labels import (
    FACTOR_NAMES,
    NONE,
    exit_reason,
    factor_value,
    losses_words,
    mechanism_name,
    notice_words,
    one_controller,
    outcome_name,
    phase_name,
    processes_words,
    seconds,
    short_digests,
    stop_words,
    struck_again,
    struck_words,
    tier_words,
    tolerance_words,
    transition_words,
    victim_words,
)
from recoverybench.records import Exit, Span, TrialRecord, Verification
from recoverybench.terminal.text import plain
from recoverybench.visible import clean
from recoverybench.vocabulary import MILESTONES, PHASES, UNNAMED

_NAME, _TIME, _GAP = 30, 8, 2
"""Columns for a name, for a duration, and between them and the bar."""
_MIN_BAR, _MAX_BAR = 20, 80
_NAMES_SHOWN = 10
"""Names of spans in a lane that get a line each; those that took longest."""
_COLOURS = dict(
    zip(
        PHASES,
        ("red", "magenta", "yellow", "blue", "cyan", "green", "bright_magenta", "bright_cyan", ""),
        strict=True,
    )
) | {UNNAMED: "dim"}


def trial_timeline(record: TrialRecord, console: Console, *, run_path: Path | None = None) -> None:
    """Print one trial: outcome, phases, a lane for each attempt, evidence, exits, files.

    Args:
        record: the trial.
        console: where to; 80 columns are enough.
        run_path: the run's directory, to name the files of this trial and to say what its
            journal knows of damage.
    """
    damage = [] if run_path is None else damage_words(run_path, record.trial)
    _print(console, [*_head(record), *(plain(text) for text in damage)])
    for part in (_phases(record, console), _lanes(record, console)):
        _print(console, part)
    _print(console, _evidence(record))
    _print(console, _verification(record))
    _print(console, _processes(record))
    if run_path is not None:
        _print(console, _files(record, run_path))


def _print(console: Console, lines: Iterable[Text]) -> None:
    for line in lines:
        console.print(line)
    console.print()


def _head(record: TrialRecord) -> list[Text]:
    good = record.outcome == "recovered"
    first = plain(f"trial {record.trial}", "bold")
    first.append("  ").append(outcome_name(record.outcome), "bold green" if good else "bold red")
    if record.recovery_s is not None:
        first.append(f"  back after {_time(record, 'recovery_s', record.recovery_s)}")
    if record.time_to_progress_s is not None:
        progress = _time(record, "time_to_progress_s", record.time_to_progress_s)
        first.append(f", progress after {progress}")
    cell = record.cell.as_dict()
    factors = (f"{FACTOR_NAMES[f]} {factor_value(f, value)}" for f, value in cell.items())
    lines = [first, plain(", ".join(factors), "dim")]
    if record.error:
        lines.append(plain(f"error: {short_digests(record.error)}", "red"))
    if record.t_inject is None:
        lines.append(Text("nothing was injected", style="yellow"))
    else:
        lines.append(
            Text(
                f"victim {victim_words(record)}, last step before {_or_none(record.step_before)}, "
                f"back at {_or_none(record.restored_step)}, "
                f"lost steps {_or_none(record.lost_steps)}"
            )
        )
    lines += [plain(text) for text in _more(record)]
    if record.simulated:
        lines.append(plain(_simulated(record), "yellow"))
    return lines


def _simulated(record: TrialRecord) -> str:
    """What was simulated."""
    if one_controller(record.cell):
        return f"{struck_words(record.cell)}; {processes_words(record.cell)}"
    return "the fault was simulated"


def _more(record: TrialRecord) -> Iterator[str]:
    """What only some trials have."""
    if beside := record.neighbours:
        yield f"up to {beside} {'trial' if beside == 1 else 'trials'} of this run went on beside it"
    if devices := device_words(record.devices):
        yield f"on {devices}"
    yield from health_words(record)
    if record.stopped is not None:
        yield stop_words(record.stopped)
    if record.recoveries > 1:
        said = f"{record.recoveries} recoveries were begun; the last one is timed"
        yield f"{said}, lost steps are of all (before format 6: of one)"
    for transition in record.transitions:
        yield transition_words(transition)
    if tier := tier_words(record):
        yield tier
    if record.harmless:
        yield f"nothing was lost by the fault; false alarms: {record.false_alarms}"
    if notice := notice_words(record):
        yield notice
    if soak := record.soak:
        goodput = NONE if soak["goodput"] is None else f"{100 * soak['goodput']:.1f} %"
        number = f"injection {soak['index'] + 1} of {soak['injections']}"
        yield f"{number} in this job, goodput of the whole job {goodput}"
        if again := struck_again(record):
            yield f"{again} further {'kill' if again == 1 else 'kills'} struck in its recovery"


def _phases(record: TrialRecord, console: Console) -> list[Text]:
    marks = _marks(record)
    lines = [Text("phases", style="bold")]
    if len(marks) < 2:
        return [*lines, Text("no phase was completed")]
    window = _window(record)
    for phase, start, end in _pieces(record, marks):
        # Our own verification is inside the bar, and not in the phase.
        duration = end - start if phase == UNNAMED else record.phases.get(phase)
        bar = _bars([(start, end)], window, console)
        said = _time(record, phase, duration)
        lines.append(_line(phase_name(phase), said, bar, _COLOURS[phase]))
    rest = (("unattributed", record.unattributed_s), ("our own verification", record.verify_s))
    lines += [_line(name, seconds(value), "", "dim") for name, value in rest if value is not None]
    return lines


def _pieces(record: TrialRecord, marks: dict[str, float]) -> Iterator[tuple[str, float, float]]:
    """The time between two milestones that are known: a phase, or unnamed where one between them
    is not. Of a restore whose beginning a command marks, only its end is a milestone.
    """
    known = [name for name in MILESTONES if name in marks]
    for a, b in itertools.pairwise(known):
        split = b == "restored" and UNNAMED in record.phases
        if MILESTONES.index(b) == MILESTONES.index(a) + 1 and not split:
            yield PHASES[MILESTONES.index(a)], marks[a], marks[b]
            continue
        restore = record.phases.get("restore", 0.0) if b == "restored" else 0.0
        if marks[b] - restore > marks[a]:
            yield UNNAMED, marks[a], marks[b] - restore
        if restore:
            yield "restore", marks[b] - restore, marks[b]


def _lanes(record: TrialRecord, console: Console) -> list[Text]:
    """For each attempt, its spans between injection and progress, to the phases' scale.

    Spans of one name share a line.
    """
    low, high = window = _window(record)
    if record.t_inject is None:
        return [
            Text("what each process was doing", style="bold"),
            Text("nothing was injected, so there is no moment to count from"),
        ]
    lines = [Text(f"what each process was doing, {_scale(window)}", style="bold")]
    inside = [s for s in record.spans if s.end_s > low and s.start_s < high]
    inside.sort(key=_lane)
    for _, group in groupby(inside, key=_lane):
        spans = list(group)
        lines.append(plain(_owner(record, spans[0]), "bold dim"))
        by_name: dict[str, list[Span]] = {}
        for span in sorted(spans, key=lambda s: (s.start_s, -s.end_s)):
            by_name.setdefault(span.name, []).append(span)
        longest = sorted(by_name, key=lambda name: -_total(by_name[name]))[:_NAMES_SHOWN]
        for name, same in by_name.items():
            if name in longest:
                bar = _bars([(s.start_s, s.end_s) for s in same], window, console)
                times = f" ×{len(same)}" if len(same) > 1 else ""
                style = _span_style(record, same[-1])
                lines.append(_line(f"  {name}{times}", seconds(_total(same)), bar, style))
        if left := len(by_name) - len(longest):
            lines.append(Text(f"  and {left} more that took less", style="dim"))
    if not inside:
        lines.append(Text("no span was recorded"))
    return lines


def _evidence(record: TrialRecord) -> list[Text]:
    lines = [Text("what noticed it", style="bold")]
    for item in sorted(record.detection_evidence, key=lambda e: e.after_s):
        by = "supervisor" if item.observer is None else f"worker {item.observer}"
        first = " (first)" if item is _first(record) else ""
        lines.append(
            plain(
                f"  {seconds(item.after_s, item.bound_s):>8}  {mechanism_name(item.mechanism)}, "
                f"{by}: {item.detail}{first}"
            )
        )
    nothing = "  nothing" if record.t_inject is not None else "  nothing was injected"
    return lines if len(lines) > 1 else [*lines, Text(nothing)]


def _verification(record: TrialRecord) -> list[Text]:
    lines = [Text("is it the same training", style="bold")]
    check = record.verify
    if check is None or check.passed is None:
        lines.append(Text("  nothing could be compared", style="yellow"))
    else:
        lines.append(_verdict(check))
    if check is not None and check.tolerance is not None:
        lines.append(plain(f"  {tolerance_words(check)}"))
    if check is not None and check.first_difference and check.first_difference != record.error:
        lines.append(plain(f"  first difference: {short_digests(check.first_difference)}"))
    lines += [plain(f"  restore tried: {short_digests(text)}") for text in record.restore_tried]
    return lines


def _verdict(check: Verification) -> Text:
    near = "" if check.tolerance is None else ", in part within a tolerance"
    verdict = Text(f"  equal{near}" if check.passed else "  different")
    verdict.stylize("green" if check.passed else "bold red")
    return verdict.append(
        f": {losses_words(check.losses_compared, check.losses_within)}, "
        f"{check.digests_compared} state digests, {check.samples_checked} samples compared",
        "not bold default",
    )


def _processes(record: TrialRecord) -> list[Text]:
    lines = [Text("processes", style="bold")]
    broken = record.t_inject is not None  # without it there was nothing to survive
    to_the_end = {item.pid for item in record.exits if item.reason == "end" and broken}
    for worker, pids in sorted(record.pids.items()):
        kept = ", kept its process" if len(pids) == 1 and pids[0] in to_the_end else ""
        lines.append(plain(f"  worker {worker}: pid {' then '.join(map(str, pids))}{kept}"))
    lines += [plain(f"  {_exit_words(item)}") for item in record.exits]
    return lines if len(lines) > 1 else [*lines, Text("  none recorded")]


def _files(record: TrialRecord, run_path: Path) -> list[Text]:
    job = record.trial.partition(".")[0]  # all records of a soak are of one job
    return [
        Text("files", style="bold"),
        *(plain(f"  {run_path / name / job}") for name in ("journal", "logs")),
    ]


def _exit_words(item: Exit) -> str:
    how = f"code {item.code}" if item.code is not None else "ended, nobody says how"
    if item.signal:
        how = f"by {item.signal}"
    attempt = f"worker {item.worker}, attempt {item.attempt} (pid {item.pid})"
    return f"{attempt}: {how}, {exit_reason(item.reason)}"


def _first(record: TrialRecord) -> object:
    evidence = record.detection_evidence
    return min(evidence, key=lambda e: e.after_s) if evidence else None


def _marks(record: TrialRecord) -> dict[str, float]:
    """Milestone -> seconds from the injection, those that were reached."""
    if record.t_inject is None:
        return {}
    return {m: (record.milestones[m] - record.t_inject) / 1e9 for m in record.milestones}


def _window(record: TrialRecord) -> tuple[float, float]:
    """What the bars span: the injection to progress, or to the last that is known."""
    ends = list(_marks(record).values())
    if "progress" not in record.milestones:
        ends += [span.end_s for span in record.spans]
    end = max(ends, default=0.0)
    return (0.0, end if end > 0 else 1.0)


def _scale(window: Sequence[float]) -> str:
    return f"from the failure to {seconds(window[1])} after it"


def _bars(
    parts: Iterable[tuple[float, float]], window: tuple[float, float], console: Console
) -> str:
    """Bars to scale on one line, with blanks around; each at least one character."""
    free = console.width - _NAME - _TIME - _GAP - 1
    width = max(_MIN_BAR, min(_MAX_BAR, free))
    low, high = window
    cells = [" "] * width
    full = "█" if console.encoding.lower().startswith("utf") else "#"
    for start, end in parts:
        first = round(width * (max(start, low) - low) / (high - low))
        last = round(width * (min(end, high) - low) / (high - low))
        first = min(first, width - 1)
        last = min(max(last, first + 1), width)
        cells[first:last] = full * (last - first)
    return "".join(cells).rstrip()


def _total(spans: Iterable[Span]) -> float:
    return sum(span.end_s - span.start_s for span in spans)


def _time(record: TrialRecord, name: str, value: float | None) -> str:
    """A duration of that name, as far as the clocks let it be known."""
    return seconds(value, record.clock_bound_s.get(name, 0.0))


def _line(name: str, duration: str, bar: str, style: str) -> Text:
    label = clean(name)
    if len(label) > _NAME:
        label = label[: _NAME - 1] + "…"
    line = Text(f"{label:<{_NAME}}{duration:>{_TIME}}{'':{_GAP}}", no_wrap=True)
    return line.append(bar, style)


def _span_style(record: TrialRecord, span: Span) -> str:
    """The colour of the phase in which a span ended."""
    if span.name == "verify":
        return "dim"
    marks = _marks(record)
    for phase, start, end in zip(PHASES, MILESTONES[:-1], MILESTONES[1:], strict=True):
        if end in marks and span.end_s <= marks[end] + 1e-6:
            return _COLOURS[phase if start in marks else UNNAMED]
    return ""


def _lane(span: Span) -> tuple[int, int]:
    return (-1 if span.worker is None else span.worker, span.attempt)


def _owner(record: TrialRecord, span: Span) -> str:
    if span.worker is None:
        return "supervisor"
    pids = record.pids.get(str(span.worker), [])
    pid = f" (pid {pids[span.attempt]})" if 0 <= span.attempt < len(pids) else ""
    return f"worker {span.worker}, attempt {span.attempt}{pid}"


def _or_none(value: int | None) -> str:
    return NONE if value is None else str(value)
