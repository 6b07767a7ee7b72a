"""Is the recovered training still the same training? Compares a trial with its reference.

The reference is the same job without a fault. With the same workers the comparison is bit
for bit: every step's loss on every worker in every generation, joined on the step; the
restored state's digest with the one taken when that step was saved; the final state's with
the reference's; and the account of samples, in which each one since the restored step must
appear exactly once, at the step at which the reference saw it.

Work that was thrown away is not compared: a step that was logged after the injection and
that a later generation did again. A fault in the numbers poisons just those.

From the first generation on another topology on, bits cannot be equal, for its workers sum in
another order: losses and the norms of the final state's leaves are compared within a
tolerance, and only as far as that says anything (see `closeness`). Losses and final states of
the workers must be equal among themselves, bit for bit, all the way; restored states and
samples are exact there, too.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from recoverybench.analysis.closeness import HORIZON, Closeness, number_of, tolerance
from recoverybench.analysis.generations import first_other, legs, members_of, restored_step
from recoverybench.analysis.history import History, Line
from recoverybench.analysis.reference import Reference, reference_of
from recoverybench.records import Verification

__all__ = ["Reference", "check", "reference_of", "restored_as_saved"]

_Difference = tuple[tuple[int, int, int, int], str]
"""(generation, step, order of the check, worker), and the line for people."""


@dataclass(frozen=True, slots=True)
class _Leg:
    """One generation of what has to be right to the end.

    Attributes:
        generation: its number. since: the step that it came back from. members: its ranks.
    """

    generation: int
    since: int
    members: Sequence[int]


@dataclass(frozen=True, slots=True)
class _Comparison:
    """A trial beside its reference.

    Attributes:
        history, reference: the two. legs: from the recovery on, in order.
        other: the first generation on another topology; None: there is none.
        close: what is compared within a tolerance from there on.
        within, beyond: steps that were, and steps that are too far for it.
        shared: (generation, step) -> the loss bits that the first worker has there; of the
            final state (generation, None) -> its digest.
    """

    history: History
    reference: Reference
    legs: tuple[_Leg, ...]
    other: int | None
    close: Closeness
    within: set[int] = field(default_factory=set)
    beyond: set[int] = field(default_factory=set)
    shared: dict[tuple[int, int | None], str] = field(default_factory=dict)

    @property
    def exact(self) -> bool:
        """Bits are compared to the very end."""
        return self.other is None

    def loss_differs(self, line: Line, wanted: str) -> str | None:
        """What is wrong with the loss of a step, or None."""
        bits = line["loss_bits"]
        if self.other is None or line["generation"] < self.other:
            return None if bits == wanted else f"loss bits are {bits}, expected {wanted}"
        if other := self._alone(line, line["step"], bits):
            return f"loss bits are {bits}, and another worker has {other}"
        if not self.close.reaches(line["step"]):
            self.beyond.add(line["step"])
            return None
        self.within.add(line["step"])
        found, expected = number_of(bits), number_of(wanted)
        difference = self.close.differs(found, expected, line["step"])
        if difference is None:
            return None
        return (
            f"loss is {found!r}, expected {expected!r}, a relative difference of {difference:.2g}"
        )

    def _alone(self, line: Line, step: int | None, value: str) -> str | None:
        """What the workers before have in its place, where it is something else."""
        first = self.shared.setdefault((line["generation"], step), value)
        return None if first == value else first

    def final_differs(self, line: Line) -> str | None:
        """What is wrong with a final state, or None."""
        if self.exact:
            found, wanted = line["digest"], self.reference.final
            return None if found == wanted else f"final state is {found}, expected {wanted}"
        if other := self._alone(line, None, line["digest"]):
            return f"final state is {line['digest']}, and another worker has {other}"
        if not self.close.reaches(self.reference.steps):
            return None
        norms, expected = line.get("norms") or (), self.reference.norms or ()
        if len(norms) != len(expected):
            return f"final state has {len(norms)} norms, expected {len(expected)}"
        for leaf, (a, b) in enumerate(zip(norms, expected, strict=True)):
            difference = self.close.differs(a, b, self.reference.steps)
            if difference is not None:
                what = f"norm {leaf} of the final state is {a!r}, expected {b!r}"
                return f"{what}, a relative difference of {difference:.2g}"
        return None


def check(
    history: History,
    reference: Reference | None,
    *,
    workers: int,
    generation: int | None,
    restored: int | None,
    ends: bool = True,
) -> Verification:
    """Compares a trial with its reference.

    What a worker has not done yet is no difference, unless it says that it is done: then
    every step since the restored one, and the final digest, must be there.

    Args:
        history: every line of the trial's journals.
        reference: of the same workload, topology and seed; None: nothing is compared.
        workers: processes of the job.
        generation: the recovery's, None if there was none (then the broken one is checked).
        restored: step the state came back from in it, None if from the beginning.
        ends: the job is to come to its end; else only up to where the journals end.
    """
    if reference is None:
        return Verification(None, None, 0, 0, 0, None, None)
    both = _comparison(history, reference, workers, generation, restored)
    samples = [item for leg in both.legs for item in _samples(both, leg)]
    states = [item for leg in both.legs for item in _restored(both, leg)]
    losses = dict(_losses(both, history.named("inject")))
    since = both.close.since
    near = both.close.reaches(reference.steps)
    can_end = both.exact or not near or reference.norms is not None
    finals = list(_finals(both, both.legs[-1])) if can_end else []
    found: list[_Difference] = [
        *(d for ds in losses.values() for d in ds),
        *_gaps(both, both.legs[-1]),
        *(d for _, d in samples if d),
        *(d for d in (*states, *finals) if d),
    ]
    # What a job that did not end had done may well be equal; that it is the same training
    # only its end can show.
    proven = bool(finals) if ends else bool(samples)
    return Verification(
        passed=False if found else (True if proven else None),
        reference=reference.id,
        losses_compared=len((losses.keys() & reference.losses.keys()) - both.beyond),
        digests_compared=len(states) + len(finals),
        samples_checked=sum(count for count, _ in samples),
        samples_ok=not any(d for _, d in samples) if samples else None,
        first_difference=min(found)[1] if found else None,
        losses_within=len(both.within),
        tolerance=None if both.exact else tolerance(min(HORIZON, reference.steps - since)),
        largest_difference=both.close.largest,
        losses_beyond=len(both.beyond - both.within),
    )


def _comparison(
    history: History,
    reference: Reference,
    workers: int,
    generation: int | None,
    restored: int | None,
) -> _Comparison:
    found = []
    for g in legs(history, generation):
        since = restored if g == generation else restored_step(history, workers, g)
        begin = min(reference.losses) - 1 if g == 0 else 0
        found.append(_Leg(g, since or begin, members_of(history, workers, g)))
    other = first_other(history, workers)
    return _Comparison(history, reference, tuple(found), other, Closeness(_equal(history, other)))


def _equal(history: History, other: int | None) -> int:
    """The last step that all workers had a part in, of the state with which fewer went on."""
    if other is None:
        return 0
    restored = [
        line.get("step") or 0 for line in history.named("restore") if line["generation"] == other
    ]
    steps = [line["step"] for line in history.named("step") if line["generation"] >= other]
    return min(restored, default=min(steps, default=1) - 1)


def restored_as_saved(
    history: History, reference: Reference | None, generation: int | None
) -> bool | None:
    """Whether every restored state is the one that was saved; None: there is none to compare."""
    if generation is None:
        return None
    counted = legs(history, generation)
    pairs = [
        (line["digest"], _saved_before(history, reference, line))
        for line in history.named("digest")
        if line["what"] == "restored" and line["generation"] in counted
    ]
    if not pairs or any(saved is None for _, saved in pairs):
        return None
    return all(restored == saved for restored, saved in pairs)


def _losses(both: _Comparison, injects: Sequence[Line]) -> Iterator[tuple[int, list[_Difference]]]:
    """Step -> what is wrong with its losses, for every step that counts."""
    steps = both.history.named("step")
    struck = min((line["t"] for line in injects), default=None)
    again: dict[int, int] = {}
    for line in steps:
        again[line["step"]] = max(again.get(line["step"], 0), line["generation"])
    seen: set[tuple[int, int, int]] = set()
    found: dict[int, list[_Difference]] = defaultdict(list)
    for line in steps:
        g, step, worker = line["generation"], line["step"], line["worker"]
        if struck is not None and line["t"] > struck and g < again[step]:
            continue
        where = f"step {step}, worker {worker}, generation {g}"
        differences = found[step]
        if (g, step, worker) in seen:
            differences.append(((g, step, 0, worker), f"{where}: the step is there twice"))
        seen.add((g, step, worker))
        wanted = both.reference.losses.get(step)
        text = "the reference has no such step"
        text_or_none = text if wanted is None else both.loss_differs(line, wanted)
        if text_or_none:
            differences.append(((g, step, 1, worker), f"{where}: {text_or_none}"))
    yield from found.items()


def _gaps(both: _Comparison, leg: _Leg) -> Iterator[_Difference]:
    """Steps that a worker which is done has not logged."""
    g, since, history = leg.generation, leg.since, both.history
    for done in history.named("done"):
        if done["generation"] != g:
            continue
        worker = done["worker"]
        own = {
            line["step"]
            for line in history.named("step")
            if line["worker"] == worker and line["generation"] == g
        }
        if missing := set(range(since + 1, done["step"] + 1)) - own:
            step = min(missing)
            text = f"step {step}, worker {worker}, generation {g}: the step is missing"
            yield (g, step, 2, worker), text
        if early := {step for step in own if step <= since}:
            step = min(early)
            text = f"step {step}, worker {worker}, generation {g}: restored state is of {since}"
            yield (g, step, 2, worker), text


def _samples(both: _Comparison, leg: _Leg) -> Iterator[tuple[int, _Difference | None]]:
    """For each step that all workers have come past: samples in its account, what is wrong."""
    g, since, reference = leg.generation, leg.since, both.reference
    by_step: dict[int, dict[int, list[int]]] = defaultdict(lambda: defaultdict(list))
    reach = dict.fromkeys(leg.members, since)
    for line in both.history.named("step"):
        step, worker = line["step"], line["worker"]
        if line["generation"] == g and step > since and worker in reach:
            by_step[step][worker] += line["samples"]
            reach[worker] = max(reach[worker], step)
    for step in range(since + 1, min(reach.values(), default=since) + 1):
        by_worker = by_step[step]
        if step not in reference.samples:
            continue
        seen = Counter(i for ids in by_worker.values() for i in ids)
        wanted = Counter(reference.samples[step])
        difference: _Difference | None = None
        if seen != wanted:
            sample = min(i for i in seen | wanted if seen[i] != wanted[i])
            owners = [w for w, ids in sorted(by_worker.items()) if sample in ids]
            text = (
                f"step {step}, worker {_shown(owners)}, generation {g}: "
                f"sample {sample} was seen {seen[sample]} times, expected {wanted[sample]}"
            )
            difference = (g, step, 3, min(owners, default=0)), text
        yield seen.total(), difference


def _restored(both: _Comparison, leg: _Leg) -> Iterator[_Difference | None]:
    """One item for each digest of the state that a generation restored."""
    g, expected, history = leg.generation, leg.since, both.history
    if g == 0 or not expected:
        return
    lines = [
        line
        for line in history.named("digest")
        if line["what"] == "restored" and line["generation"] == g
    ]
    done = [line for line in history.named("done") if line["generation"] == g]
    if done and not lines:
        worker = done[0]["worker"]
        text = f"step {expected}: no worker has a digest of the restored state"
        yield (g, expected, 0, worker), text
    for line in lines:
        step, worker = line["step"], line["worker"]
        wanted = _saved_before(history, both.reference, line)
        key = (g, step, 0, worker)
        where = f"step {step}, worker {worker}, generation {g}"
        if step != expected:
            yield key, f"{where}: restored state is of step {step}, expected {expected}"
        elif wanted is None:
            yield key, f"{where}: nobody has a digest of the state saved there"
        elif line["digest"] != wanted:
            yield key, f"{where}: restored state is {line['digest']}, expected {wanted}"
        else:
            yield None


def _saved_before(history: History, reference: Reference | None, restored: Line) -> str | None:
    """Digest of the save that `restored` came from: own worker's first, then anybody's.

    The last one of an earlier generation. The order in time says nothing: what was restored
    is only hashed once nothing is timed any more.
    """
    step = restored["step"]
    saved = [
        line
        for line in history.named("digest")
        if line["what"] == "saved"
        and line["step"] == step
        and line["generation"] < restored["generation"]
    ]
    own = [line for line in saved if line["worker"] == restored["worker"]]
    if own or saved:
        return str((own or saved)[-1]["digest"])
    return reference.digests.get(step) if reference else None


def _finals(both: _Comparison, leg: _Leg) -> Iterator[_Difference | None]:
    """One item for each worker of a generation that is done or has a final digest."""
    g, history, last = leg.generation, both.history, both.reference.steps
    digests = {
        line["worker"]: line
        for line in history.named("digest")
        if line["what"] == "final" and line["generation"] == g
    }
    done = {line["worker"]: line["step"] for line in history.named("done")}
    ended = {line["worker"] for line in history.named("done") if line["generation"] == g}
    for worker in sorted(set(digests) | ended):
        step = done.get(worker, last)
        key, where = (g, step, 4, worker), f"step {step}, worker {worker}, generation {g}"
        if step != last:
            yield key, f"{where}: the job ended there, expected the end at {last}"
        elif worker not in digests:
            yield key, f"{where}: no digest of the final state"
        elif text := both.final_differs(digests[worker]):
            yield key, f"{where}: {text}"
        else:
            yield None


def _shown(workers: list[int]) -> str:
    return ", ".join(map(str, workers)) or "none"
