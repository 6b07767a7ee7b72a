"""Soaks: one job with many injections, cut into a trial for each. Pure.

The cuts are the injections. A part holds what was written between the moment the job was
back from the injection before and the next injection, and of the generation that was broken
all there is. A job that is struck again before it is back is still in the same trial.
"""

from __future__ import annotations

import dataclasses
import itertools
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from recoverybench.analysis.generations import members_of
from recoverybench.analysis.history import History, Journal, Line
from recoverybench.analysis.record import WARM_UP, analyse
from recoverybench.records import TrialRecord

_ALWAYS: Final = (
    *("journal", "clock", "spawn", "assigned", "digest", "committed", "act", "restore"),
    *("devices", "health"),
)
"""Events of earlier that a part cannot do without: who is who, who took part, what was saved and
restored, and on what.
"""


_EVER: Final = -(2**63)
"""Before every instant."""


@dataclass(frozen=True, slots=True)
class _Part:
    """One file's lines of one part; what `history.Journal` asks for."""

    lines: tuple[Line, ...]
    dropped: int


@dataclass(frozen=True, slots=True)
class _Cut:
    """One injection and what belongs to it.

    Attributes:
        inject: its line. begin: the job was back from the one before, ns.
        end: the next injection, ns; None: there is none.
    """

    inject: Line
    begin: int
    end: int | None


def analyse_soak(
    journals: Iterable[Journal], *, trial: str, wall_s: float, **arguments: Any
) -> list[TrialRecord]:
    """One record for each injection of a job, called ``TRIAL.000``, ``TRIAL.001``, …

    Each is classified by itself. All but the last are over when the job runs again, and
    compared as far as the next injection; the last one takes the job's end. `soak` of every
    record holds its index and the sums of the whole job.

    Args:
        journals: all journals of the job, in any order.
        trial: id of the job.
        wall_s: the whole job; the records share it.
        arguments: as of `record.analyse`, the same for all.
    """
    journals = tuple(journals)
    history = History.of(journals)
    cuts = _cuts(history, arguments["workers"])
    whole = summary(history) | {"injections": len(cuts)}
    if not cuts:
        record = analyse(journals, trial=f"{trial}.000", wall_s=wall_s, **arguments)
        return [dataclasses.replace(record, soak={"index": 0, **whole})]
    first = min((line["t"] for line in history.named("spawn", "inject")), default=0)
    begins = [first, *(cut.begin for cut in cuts[1:])]
    shares = [(b - a) / 1e9 for a, b in itertools.pairwise(begins)]
    shares.append(max(0.0, wall_s - sum(shares)))
    return [
        dataclasses.replace(
            analyse(
                [_part(journal, cut) for journal in journals],
                trial=f"{trial}.{index:03d}",
                wall_s=share,
                ends=cut.end is None,
                **arguments,
            ),
            soak={"index": index, **whole},
        )
        for index, (cut, share) in enumerate(zip(cuts, shares, strict=True))
    ]


def summary(history: History) -> dict[str, Any]:
    """What a whole job came to.

    Returns:
        `steps`: distinct steps completed. `wall_s`: from the first completed step to the end
        of training, s. `goodput`: the part of that time in which a job without faults would
        have completed the steps after the first, at the pace that this job had before its
        first injection (or, if it had none there, over all); None where nothing can be said.
    """
    steps = history.named("step")
    distinct = {line["step"] for line in steps}
    if not steps:
        return {"steps": 0, "wall_s": None, "goodput": None}
    first = min(line["t"] for line in steps)
    ends = history.named("done") or history.named("deadline") or history.named("end") or steps
    wall_s = (max(line["t"] for line in ends) - first) / 1e9
    injected = min((line["t"] for line in history.named("inject")), default=None)
    paces = _steady(line for line in steps if injected is None or line["t"] <= injected)
    paces = paces or _steady(steps)
    goodput = None
    if paces and wall_s > 0:
        goodput = (len(distinct) - 1) * statistics.median(paces) / wall_s
    return {"steps": len(distinct), "wall_s": wall_s, "goodput": goodput}


def _steady(steps: Iterable[Line]) -> list[float]:
    """Seconds of every step that is not among a worker's first ones of a generation."""
    own: dict[tuple[int, int], list[Line]] = {}
    for line in steps:
        own.setdefault((line["worker"], line["generation"]), []).append(line)
    return [(s["t"] - s["t0"]) / 1e9 for lines in own.values() for s in lines[WARM_UP:]]


def _cuts(history: History, workers: int) -> list[_Cut]:
    """The injections that begin a trial, each with its bounds."""
    found: list[tuple[Line, int]] = []
    for inject in history.named("inject"):
        back = _back(history, workers, inject)
        if not found:
            found.append((inject, _EVER))
        elif back is not None and inject.get("generation", 0) > found[-1][0].get("generation", 0):
            found.append((inject, back))
    ends: Sequence[int | None] = [*(inject["t"] for inject, _ in found[1:]), None]
    return [_Cut(i, begin, end) for (i, begin), end in zip(found, ends, strict=False)]


def _back(history: History, workers: int, inject: Line) -> int | None:
    """When the generation that was broken had completed its first step; None: it had not."""
    generation = inject.get("generation", 0)
    firsts = {
        line["worker"]: line["t"]
        for line in history.named("first_step")
        if line["generation"] == generation and line["t"] <= inject["t"]
    }
    there = firsts.keys() >= set(members_of(history, workers, generation))
    return max(firsts.values()) if there else None


def _part(journal: Journal, cut: _Cut) -> _Part:
    """What of one file belongs to a cut; injections that only struck again are ``again``."""
    kept: list[Line] = []
    for line in journal.lines:
        if cut.end is not None and line["t"] >= cut.end:
            continue
        if not (line["event"] in _ALWAYS or _own(line, cut)):
            continue
        again = line["event"] == "inject" and line["t"] != cut.inject["t"]
        kept.append({**line, "event": "again"} if again else line)
    return _Part(tuple(kept), journal.dropped if cut.end is None else 0)


def _own(line: Line, cut: _Cut) -> bool:
    """Whether a line from before the cut's end is of the generation that was broken, or later."""
    if line["event"] in ("inject", "transition") or "generation" not in line:
        return bool(line["t"] >= cut.begin)
    return cut.begin == _EVER or bool(line["generation"] >= cut.inject.get("generation", 0))
