"""The answer in one sentence: what this run says a failure costs, in words and with numbers."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence

from markupsafe import Markup

from recoverybench.labels import (
    NONE,
    losses_words,
    one_controller,
    outcome_name,
    short_digests,
    struck_words,
)
from recoverybench.report.rows import Row
from recoverybench.visible import clean
from recoverybench.workload_name import short_name

_SPELLED_OUT = 4
"""Up to this many cells are named one by one; beyond it the fastest and the slowest."""


def answer(rows: Sequence[Row]) -> Markup:
    """One or two sentences over all cells, safe HTML; honest about failures and small numbers."""
    return Markup(clean(_answer(rows)))


def _answer(rows: Sequence[Row]) -> Markup:
    n, k = sum(r.n for r in rows), sum(r.recovered for r in rows)
    if not rows:
        return Markup("No trial has finished yet, so there is no answer.")
    if n == 0:
        return Markup("No trial could be judged, so there is no answer: {}.").format(
            _outcomes(rows)
        )
    when = _when(rows)
    back = sorted((r for r in rows if r.recovered), key=lambda r: r.at_least_s or 0.0)
    lost = [r for r in rows if not r.recovered and r.n]
    if not back:
        text = Markup("None of {} recovered {}: {}.").format(
            _count(n, "trial"), when, _outcomes(rows)
        )
        return text + _why(lost)
    if len(rows) > _SPELLED_OUT:
        return _extremes(rows, back, k, n, when)
    return _each(back, lost, when)


def _why(lost: Sequence[Row]) -> Markup:
    """What these trials say of themselves, where more than half of them say the same."""
    said = Counter(short_digests(t.error) for row in lost for t in row.trials if t.error)
    reason, count = said.most_common(1)[0] if said else ("", 0)
    if 2 * count <= sum(said.values()):
        return Markup("")
    head = "The reason" if len(said) == 1 else f"In {count} of {sum(said.values())}"
    return Markup(" {}: {}.").format(head, reason.rstrip("."))


def verified(rows: Sequence[Row]) -> str:
    """What stands behind the word "recovered" in this run: how much was compared, and how."""
    checks = [t.verify for r in rows for t in r.trials if t.verify is not None]
    judged = [v for v in checks if v.passed is not None]
    if not rows:
        return ""
    if not judged:
        return "No trial could be compared with a fault-free reference."
    losses = sum(v.losses_compared for v in judged)
    digests = sum(v.digests_compared for v in judged)
    samples = sum(v.samples_checked for v in judged)
    passed = sum(v.passed is True for v in judged)
    within = sum(v.losses_within for v in judged)
    near = any(v.tolerance is not None for v in judged)
    equal = "everything agreed" if near else "everything was equal"
    some = "" if passed == len(judged) else f" in {passed} of {len(judged)} trials"
    verdict = equal + some + (", in part within a tolerance" if near else "")
    return (
        f"Compared with fault-free training: {losses_words(losses, within)}, {digests:,} state "
        f"digests and {samples:,} samples; {verdict}."
    )


def _when(rows: Sequence[Row]) -> str:
    """What was done, where all rows have one fault; under one controller it is another thing."""
    faults = {(r.cell.fault.partition(":")[0], one_controller(r.cell)) for r in rows}
    if len({name for name, _ in faults}) > 1:
        return "after a failure"
    first = {one_controller(r.cell): struck_words(r.cell) for r in rows}
    return "after " + ", or ".join(first[kind] for kind in sorted(first))


def _each(back: Sequence[Row], lost: Sequence[Row], when: str) -> Markup:
    alike = not lost and len({r.n for r in back}) == 1 and all(r.recovered == r.n for r in back)
    first, rest = back[0], back[1:]
    verb = "was training again in a median of" if first.timed > 1 else "was training again"
    text = Markup("<code>{}</code> {} <strong>{}</strong>").format(
        first.label, verb, first.median_text
    )
    text += Markup(" {}{}").format(when, "" if alike else f" ({_rate(first)})")
    for row in rest:
        text += Markup("; <code>{}</code> {}<strong>{}</strong>{}").format(
            row.label,
            "took " if row is rest[0] else "",
            row.median_text,
            "" if alike else f" ({_rate(row)})",
        )
    for row in lost:
        text += Markup("; <code>{}</code> did not come back ({})").format(row.label, _rate(row))
    if alike and first.n > 1:
        each = " each" if rest else ""
        text = Markup("In {0} of {0} trials{1}, ").format(first.n, each) + text
    elif alike:
        text = Markup("In one trial{}, ").format(" each" if rest else "") + text
    text += "."
    text += _progress(back)
    if max(r.n for r in (*back, *lost)) == 1:
        text += " One trial says nothing about the spread."
    return text


def _progress(back: Sequence[Row]) -> Markup:
    """How long until the work that was lost was done again, where any was; in the same order."""
    if all(row.lost_text in (NONE, "0") for row in back):
        return Markup("")
    steps = " or ".join(dict.fromkeys(row.lost_text for row in back))
    times = [row.progress_text for row in back]
    listed = times[0] if len(times) == 1 else f"{', '.join(times[:-1])} and {times[-1]}"
    return Markup(" With the steps that were lost ({}) done again it was {}{}.").format(
        steps, listed, ", in this order" if len(times) > 1 else ""
    )


def _extremes(rows: Sequence[Row], back: Sequence[Row], k: int, n: int, when: str) -> Markup:
    text = Markup("{} of {} trials recovered {}, over {} cells. ").format(k, n, when, len(rows))
    text += _ranked(rows, back)
    if k < n:
        text += Markup(" The others: {}.").format(_outcomes(rows, failures=True))
    return text


def _ranked(rows: Sequence[Row], back: Sequence[Row]) -> Markup:
    """The fastest and the slowest cell, among those with one task.

    A task is a fault at one moment of one job; it is the one with the most recovered cells.
    """
    groups: dict[tuple[str, ...], list[Row]] = defaultdict(list)
    for row in back:
        groups[_task(row)].append(row)
    alike = max(groups.values(), key=len)
    if len(alike) < 2:
        return Markup(
            "No two of the cells that recovered have one workload, topology, fault and trigger to "
            "rank by."
        )
    fast, slow = alike[0], alike[-1]
    everywhere = len({_task(row) for row in rows}) == 1
    text = Markup("")
    if not everywhere:
        named = [part for i, part in enumerate(_task(fast)) if len({_task(r)[i] for r in rows}) > 1]
        text = Markup("Of the {} cells that recovered with ").format(len(alike))
        text += Markup(", ").join(Markup("<code>{}</code>").format(part) for part in named)
        text += ", "
    text += Markup("{} was <code>{}</code> at <strong>{}</strong> ({})").format(
        "Fastest" if everywhere else "fastest", fast.label, fast.median_text, _rate(fast)
    )
    return text + Markup(", slowest <code>{}</code> at <strong>{}</strong> ({}).").format(
        slow.label, slow.median_text, _rate(slow)
    )


def _task(row: Row) -> tuple[str, ...]:
    """What had to be recovered: times of another task are not of the same race."""
    cell = row.cell
    return short_name(cell.workload), cell.topology, cell.fault, cell.trigger


def _rate(row: Row) -> str:
    return f"{row.recovered} of {_count(row.n, 'trial')}"


def _count(n: int, noun: str) -> str:
    return f"{n} {noun}" if n == 1 else f"{n} {noun}s"


def _outcomes(rows: Sequence[Row], *, failures: bool = False) -> str:
    counts = Counter(t.outcome for r in rows for t in r.trials)
    named = [(o, c) for o, c in counts.most_common() if not (failures and o == "recovered")]
    return ", ".join(f"{c} × {outcome_name(o)}" for o, c in named)
