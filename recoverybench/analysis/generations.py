"""Generations of a job: which one was broken, which recovered it, and who takes part in each.

A job is set up anew when a strategy recovers it, and also when nothing is broken: a
``transition`` resumes it before the injection, or grows it back after a recovery with fewer
workers. A recovery is the last generation that was begun to recover.
"""

from __future__ import annotations

from collections.abc import Sequence

from recoverybench.analysis.history import PASSED, History, Line, attempts_in, rank_of


def broken_generation(history: History) -> int:
    """The generation that the injection broke; without one, the last that was set up healthy.

    Journals of older releases do not say; there it was generation 0.
    """
    if injects := history.named("inject"):
        return int(injects[0].get("generation", 0))
    return max((line["generation"] for line in history.named("transition")), default=0)


def begun_generation(history: History, inject: Line) -> int | None:
    """The last generation that a worker or the strategy began after the injection, to recover.

    One that failed on its way is passed over for the next: what it took lies between the
    strategy's act and the moment the old attempts were out of the way.
    """
    broken = inject.get("generation", 0)
    planned = {line["generation"] for line in history.named("transition")}
    begun = {line["generation"] for line in history.named(*PASSED)}
    begun |= {line["generation"] for line in history.named("act") if line["t"] >= inject["t"]}
    return max((g for g in begun - planned if g > broken), default=None)


def legs(history: History, generation: int | None) -> tuple[int, ...]:
    """The generations from the recovery (or, without one, the broken one) to the job's end."""
    start = broken_generation(history) if generation is None else generation
    later = {line["generation"] for line in history.named("transition")}
    return (start, *sorted(g for g in later if g > start))


def members_of(history: History, workers: int, generation: int) -> Sequence[int]:
    """The ranks that a generation consists of: all, unless the strategy went on with others."""
    for line in history.named("act"):
        if line["generation"] == generation and line.get("ranks") is not None:
            return tuple(line["ranks"])
    return range(workers)


def first_other(history: History, workers: int) -> int | None:
    """The first generation on another topology than the job's: with fewer workers, with fewer
    slices of one controller, or with a mesh of its own.
    """
    whole = max((len(line.get("slices", ())) for line in history.named("up")), default=0)
    return min(
        [
            *(
                line["generation"]
                for line in history.named("act")
                if line.get("topology") is not None
                or len(members_of(history, workers, line["generation"])) < workers
            ),
            *(
                line["generation"]
                for line in history.named("up")
                if 0 < len(line.get("slices", ())) < whole
            ),
        ],
        default=None,
    )


def restores_in(history: History, workers: int, generation: int) -> list[Line]:
    """The `restore` line of each worker that has one in that generation, by rank."""
    current = attempts_in(history, workers, generation)
    lines = {
        line["worker"]: line
        for line in history.named("restore")
        if line["generation"] == generation and current.get(line["worker"]) == rank_of(line)
    }
    return [lines[rank] for rank in sorted(lines)]


def restored_step(history: History, workers: int, generation: int) -> int | None:
    """The step that a generation came back from; None: from the beginning."""
    restores = restores_in(history, workers, generation)
    return restores[0].get("step") if restores else None
