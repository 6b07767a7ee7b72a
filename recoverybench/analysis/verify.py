"""Is the recovered training still the same training? Compares a trial with its reference.

The reference is the same job without a fault. On the same topology the comparison is bit
for bit: every step's loss on every worker in every generation, joined on the step; the
restored state's digest with the one taken when that step was saved; the final state's with
the reference's; and the account of samples, in which each one since the restored step must
appear exactly once, at the step at which the reference saw it.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Self

from recoverybench.analysis.history import History, Journal, Line
from recoverybench.errors import HarnessError
from recoverybench.records import Verification

_Difference = tuple[tuple[int, int, int, int], str]
"""(generation, step, order of the check, worker), and the line for people."""


@dataclass(frozen=True, slots=True)
class Reference:
    """What a trial without a fault came to.

    Attributes:
        id: names it in records.
        losses: step -> bit pattern of the loss (hex), the same on every worker.
        samples: step -> ids of the samples of the global batch, in the order of the ranks.
        digests: step -> digest of the state that was saved there (rank 0).
        final: digest of the state at the end.
        steps: the last step.
    """

    id: str
    losses: Mapping[int, str]
    samples: Mapping[int, list[int]]
    digests: Mapping[int, str]
    final: str
    steps: int

    def as_dict(self) -> dict[str, Any]:
        """Plain JSON data; steps become text, as JSON has no other keys."""
        return {
            "id": self.id,
            "losses": {str(k): v for k, v in self.losses.items()},
            "samples": {str(k): list(v) for k, v in self.samples.items()},
            "digests": {str(k): v for k, v in self.digests.items()},
            "final": self.final,
            "steps": self.steps,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """The inverse of `as_dict`. Raises KeyError, TypeError or ValueError on foreign data."""
        return cls(
            id=str(data["id"]),
            losses={int(k): str(v) for k, v in data["losses"].items()},
            samples={int(k): [int(i) for i in v] for k, v in data["samples"].items()},
            digests={int(k): str(v) for k, v in data["digests"].items()},
            final=str(data["final"]),
            steps=int(data["steps"]),
        )


def reference_of(journals: Iterable[Journal], reference_id: str) -> Reference:
    """The reference that a trial without a fault makes.

    Raises:
        HarnessError: a line is malformed, workers disagree, a step is missing or twice, the
            job did not end, or it recovered from something. One line says which.
    """
    history = History.of(journals)
    if history.problem:
        raise _unfit(history.problem)
    if not history.named("step"):
        raise _unfit("no step was completed")
    if late := next((s for s in history.named("step") if s["generation"] != 0), None):
        raise _unfit(f"worker {late['worker']} was in generation {late['generation']}")
    workers = sorted({line["worker"] for line in history.named("step")})
    last = _agreed(history.named("done"), workers, "last step", "step")
    by_step: dict[int, dict[int, Line]] = defaultdict(dict)
    for line in history.named("step"):
        if line["worker"] in by_step[line["step"]]:
            raise _unfit(f"worker {line['worker']} has step {line['step']} twice")
        by_step[line["step"]][line["worker"]] = line
    first = min(by_step)
    losses: dict[int, str] = {}
    samples: dict[int, list[int]] = {}
    for step in range(first, max(last, max(by_step)) + 1):
        lines = by_step[step].values()
        losses[step] = _agreed(lines, workers, f"loss of step {step}", "loss_bits")
        samples[step] = [i for worker in workers for i in by_step[step][worker]["samples"]]
    saved, final = _digests_of(history, "saved"), _digests_of(history, "final")
    for step, by_worker in saved.items():
        if len(set(by_worker.values())) > 1:
            raise _unfit(f"workers disagree on the state saved at step {step}: {by_worker}")
    finals = {worker: digest for by in final.values() for worker, digest in by.items()}
    if len(set(finals.values())) != 1:
        raise _unfit(f"the workers have no one final state: {finals}")
    return Reference(
        id=reference_id,
        losses=losses,
        samples=samples,
        digests={step: by[min(by)] for step, by in sorted(saved.items())},
        final=next(iter(finals.values())),
        steps=last,
    )


def check(
    history: History,
    reference: Reference | None,
    *,
    workers: int,
    generation: int | None,
    restored_step: int | None,
) -> Verification:
    """Compares a trial with its reference.

    What a worker has not done yet is no difference, unless it says that it is done: then
    every step since the restored one, and the final digest, must be there.

    Args:
        history: every line of the trial's journals.
        reference: of the same workload, topology and seed; None: nothing is compared.
        workers: processes of the job.
        generation: the recovery's, None if there was none (then generation 0 is checked).
        restored_step: step the state came back from, None if from the beginning.
    """
    if reference is None:
        return Verification(None, None, 0, 0, 0, None, None)
    g = generation or 0
    since = (restored_step or 0) if g else min(reference.losses) - 1
    samples = list(_samples(history, reference, g, since, workers))
    restored = list(_restored(history, reference, g, restored_step)) if g else []
    finals = list(_finals(history, reference, g))
    found: list[_Difference] = [
        *_losses(history, reference),
        *_gaps(history, g, since),
        *(d for _, d in samples if d),
        *(d for d in restored if d),
        *(d for d in finals if d),
    ]
    compared = {line["step"] for line in history.named("step")} & set(reference.losses)
    digests = len(restored) + len(finals)
    # What a job that did not end had done may well be equal; that it is the same training
    # only its end can show.
    passed = False if found else (True if finals else None)
    return Verification(
        passed=passed,
        reference=reference.id,
        losses_compared=len(compared),
        digests_compared=digests,
        samples_checked=sum(count for count, _ in samples),
        samples_ok=not any(d for _, d in samples) if samples else None,
        first_difference=min(found)[1] if found else None,
    )


def restored_as_saved(
    history: History, reference: Reference | None, generation: int | None
) -> bool | None:
    """Whether every restored state is the one that was saved; None: there is none to compare."""
    if generation is None:
        return None
    pairs = [
        (line["digest"], _saved_before(history, reference, line))
        for line in history.named("digest")
        if line["what"] == "restored" and line["generation"] == generation
    ]
    if not pairs or any(saved is None for _, saved in pairs):
        return None
    return all(restored == saved for restored, saved in pairs)


def _losses(history: History, reference: Reference) -> Iterator[_Difference]:
    seen: set[tuple[int, int, int]] = set()
    for line in history.named("step"):
        g, step, worker = line["generation"], line["step"], line["worker"]
        where = f"step {step}, worker {worker}, generation {g}"
        if (g, step, worker) in seen:
            yield (g, step, 0, worker), f"{where}: the step is there twice"
        seen.add((g, step, worker))
        wanted = reference.losses.get(step)
        if wanted is None:
            yield (g, step, 1, worker), f"{where}: the reference has no such step"
        elif line["loss_bits"] != wanted:
            text = f"{where}: loss bits are {line['loss_bits']}, expected {wanted}"
            yield (g, step, 1, worker), text


def _gaps(history: History, g: int, since: int) -> Iterator[_Difference]:
    """Steps that a worker which is done has not logged."""
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


def _samples(
    history: History, reference: Reference, g: int, since: int, workers: int
) -> Iterator[tuple[int, _Difference | None]]:
    """For each step that all workers have come past: samples in its account, what is wrong."""
    by_step: dict[int, dict[int, list[int]]] = defaultdict(lambda: defaultdict(list))
    reach = dict.fromkeys(range(workers), since)
    for line in history.named("step"):
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


def _restored(
    history: History, reference: Reference, g: int, restored_step: int | None
) -> Iterator[_Difference | None]:
    """One item for each digest of a restored state in generation g."""
    if restored_step is None:
        return
    lines = [
        line
        for line in history.named("digest")
        if line["what"] == "restored" and line["generation"] == g
    ]
    done = [line for line in history.named("done") if line["generation"] == g]
    if done and not lines:
        worker = done[0]["worker"]
        text = f"step {restored_step}: no worker has a digest of the restored state"
        yield (g, restored_step, 0, worker), text
    for line in lines:
        step, worker = line["step"], line["worker"]
        wanted = _saved_before(history, reference, line)
        key = (g, step, 0, worker)
        where = f"step {step}, worker {worker}, generation {g}"
        if step != restored_step:
            yield key, f"{where}: restored state is of step {step}, expected {restored_step}"
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


def _finals(history: History, reference: Reference, g: int) -> Iterator[_Difference | None]:
    """One item for each worker of generation g that is done or has a final digest."""
    digests = {
        line["worker"]: line["digest"]
        for line in history.named("digest")
        if line["what"] == "final" and line["generation"] == g
    }
    done = {line["worker"]: line["step"] for line in history.named("done")}
    ended = {line["worker"] for line in history.named("done") if line["generation"] == g}
    for worker in sorted(set(digests) | ended):
        step = done.get(worker, reference.steps)
        key, where = (g, step, 4, worker), f"step {step}, worker {worker}, generation {g}"
        if step != reference.steps:
            yield key, f"{where}: the job ended there, expected the end at {reference.steps}"
        elif worker not in digests:
            yield key, f"{where}: no digest of the final state"
        elif digests[worker] != reference.final:
            text = f"{where}: final state is {digests[worker]}, expected {reference.final}"
            yield key, text
        else:
            yield None


def _agreed(lines: Iterable[Line], workers: list[int], what: str, key: str) -> Any:
    """The value that all workers have in `key`."""
    values = {line["worker"]: line[key] for line in lines}
    if missing := [worker for worker in workers if worker not in values]:
        raise _unfit(f"worker {_shown(missing)} has no {what}")
    if len(set(values.values())) > 1:
        raise _unfit(f"workers disagree on the {what}: {values}")
    return next(iter(values.values()))


def _digests_of(history: History, what: str) -> dict[int, dict[int, str]]:
    """Digests by step and worker."""
    found: dict[int, dict[int, str]] = defaultdict(dict)
    for line in history.named("digest"):
        if line["what"] == what:
            found[line["step"]][line["worker"]] = line["digest"]
    return found


def _shown(workers: list[int]) -> str:
    return ", ".join(map(str, workers)) or "none"


def _unfit(why: str) -> HarnessError:
    return HarnessError(f"this trial is no reference: {why}")
