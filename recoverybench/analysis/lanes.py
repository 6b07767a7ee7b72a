"""What is shown of each process: its attempts and pids, how they ended, what they were doing."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Final

from recoverybench.analysis.history import History, Journal, Line, name_of, rank_of
from recoverybench.analysis.timeline import Timeline
from recoverybench.records import Exit, Span

SPANS_KEPT: Final = 400
"""Spans that a record keeps; `harness["spans_dropped"]` counts the others."""

_LEAD_NS: Final = 1_000_000_000
"""Spans that ended longer than that before the injection are not for the waterfall."""


def exit_of(line: Line) -> Exit:
    """How an attempt ended, from its `exit` line."""
    return Exit(
        worker=line["worker"],
        attempt=line["attempt"],
        pid=line["pid"],
        code=line.get("code"),
        signal=line.get("signal"),
        ours=bool(line.get("ours")),
        reason=str(line.get("reason", "own")),
    )


def pids_of(journals: Iterable[Journal], history: History, workers: int) -> dict[str, list[int]]:
    """Worker -> pids of its attempts in order.

    A standby's file begins in a slot beyond the ranks and goes on as the rank it took: its
    pid counts for that rank.
    """
    pids = {rank_of(line): line["pid"] for line in history.named("spawn")}
    for journal in journals:
        heads = [line for line in journal.lines if line.get("event") == "journal"]
        # The supervisor's file speaks of workers too, and is nobody's attempt.
        if not heads or heads[0].get("worker") is None:
            continue
        ranks = {rank_of(line) for line in journal.lines if line.get("worker") is not None}
        pids.update({rank: heads[0]["pid"] for rank in ranks})
    found: dict[str, list[int]] = defaultdict(list)
    for rank, attempt in sorted(pids):
        if rank < workers:
            found[str(rank)].append(pids[rank, attempt])
    return dict(found)


def _adopted(history: History) -> dict[tuple[int, int], tuple[int, int]]:
    """Standby -> the worker and attempt that it became, both as (worker, attempt).

    What it did before it had a rank belongs to the same process, so to the same lane.
    """
    ranks = {line["slot"]: rank_of(line) for line in history.named("assigned")}
    return {(slot, 0): rank for slot, rank in ranks.items()}


def spans_of(history: History, line: Timeline) -> tuple[tuple[Span, ...], int]:
    """Spans for the waterfall by their start, and how many were left out.

    Of more than `SPANS_KEPT`, those inside the recovery stay before others, and long ones
    before short ones.
    """
    t, adopted = line.t_inject, _adopted(history)
    if t is None:
        return (), 0
    end = line.marks[-1].t
    lines = [s for s in history.named("span", "step") if s["t"] > t - _LEAD_NS]
    lines.sort(key=lambda s: (not (s["t"] >= t and s["t0"] <= end), s["t0"] - s["t"]))
    kept = sorted(lines[:SPANS_KEPT], key=lambda s: s["t0"])
    spans = tuple(
        Span(
            *adopted.get((s["worker"], s["attempt"]), (s["worker"], s["attempt"])),
            name_of(s),
            (s["t0"] - t) / 1e9,
            (s["t"] - t) / 1e9,
        )
        for s in kept
    )
    return spans, len(lines) - len(kept)
