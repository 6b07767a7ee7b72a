"""A trial against its reference: what is equal, and every kind of difference."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recoverybench.analysis.history import History
from recoverybench.analysis.verify import Reference, check, reference_of, restored_as_saved
from recoverybench.errors import HarnessError
from recoverybench.records import Verification
from tests.histories import (
    RESTORED,
    STEPS,
    WORKERS,
    Files,
    faultless,
    journals,
    patched,
    recovery,
    reference,
    until,
    with_line,
    without,
)


def verified(files: Files, **changes: Any) -> Verification:
    arguments: dict[str, Any] = {
        "workers": WORKERS,
        "generation": 1,
        "restored": RESTORED,
    }
    given_reference = changes.pop("reference", reference())
    return check(History.of(journals(files)), given_reference, **(arguments | changes))


def test_a_reference_and_its_json() -> None:
    made = reference()
    assert (made.steps, made.final, made.digests[20]) == (30, "state30", "state20")
    assert made.samples[7] == [7000, 7001, 7002, 7003, 7004, 7005]
    assert made.losses[7] == "40000007"
    assert Reference.from_dict(json.loads(json.dumps(made.as_dict()))) == made


@pytest.mark.parametrize(
    ("files", "words"),
    [
        ({}, "no step"),
        (patched(faultless(), {"event": "step", "step": 9, "worker": 1}, loss_bits="0"), "step 9"),
        (without(faultless(), event="step", step=9), "worker 0, 1, 2 has no loss of step 9"),
        (without(faultless(), event="step", step=9, worker=2), "worker 2 has no loss of step 9"),
        (without(faultless(), event="done", worker=1), "worker 1 has no last step"),
        (
            patched(faultless(), {"event": "digest", "what": "final", "worker": 2}, digest="x"),
            "no one final state",
        ),
        (without(faultless(), event="digest", what="final"), "no one final state"),
        (
            patched(faultless(), {"event": "digest", "step": 10, "worker": 2}, digest="x"),
            "disagree on the state saved at step 10",
        ),
        (recovery(), "generation 1"),
        (
            with_line(
                faultless(),
                0,
                0,
                900,
                "step",
                step=3,
                loss_bits="1",
                samples=[],
                t0=0,
                generation=0,
            ),
            "worker 0 has step 3 twice",
        ),
        (patched(faultless(), {"event": "step", "step": 9}, samples=None), "samples is not a list"),
    ],
)
def test_what_is_no_reference(files: Files, words: str) -> None:
    with pytest.raises(HarnessError, match=re.escape(words)):
        reference_of(journals(files), "r")


@pytest.mark.parametrize("strategy", ["restart", "elastic", "hot-spare"])
def test_the_same_training(strategy: str) -> None:
    found = verified(recovery(strategy))
    assert found == Verification(
        passed=True,
        reference="tiny-3x1-0",
        losses_compared=30,
        digests_compared=6,
        samples_checked=60,
        samples_ok=True,
        first_difference=None,
    )
    assert restored_as_saved(History.of(journals(recovery(strategy))), reference(), 1) is True


STEP_23 = {"event": "step", "step": 23, "worker": 2, "generation": 1}
EXTRA = {"step": 25, "loss_bits": "40000019", "samples": [], "t0": 0, "generation": 1}
DIFFERENCES: list[tuple[Files, str]] = [
    (
        patched(recovery(), STEP_23, loss_bits="40000016"),
        "step 23, worker 2, generation 1: loss bits are 40000016, expected 40000017",
    ),
    (
        patched(recovery(), {"event": "step", "step": 4, "worker": 1}, loss_bits="3f800000"),
        "step 4, worker 1, generation 0: loss bits are 3f800000, expected 40000004",
    ),
    (
        patched(recovery(), STEP_23, samples=[23004, 23003]),
        "step 23, worker 1, 2, generation 1: sample 23003 was seen 2 times, expected 1",
    ),
    (
        patched(recovery(), STEP_23, samples=[23004]),
        "step 23, worker none, generation 1: sample 23005 was seen 0 times, expected 1",
    ),
    (
        patched(recovery(), STEP_23, samples=[23004, 23005, 7]),
        "step 23, worker 2, generation 1: sample 7 was seen 1 times, expected 0",
    ),
    (without(recovery(), **STEP_23), "step 23, worker 2, generation 1: the step is missing"),
    (
        with_line(recovery(), 2, 0, 290, "step", **EXTRA),
        "step 25, worker 2, generation 1: the step is there twice",
    ),
    (
        with_line(recovery(), 2, 0, 290, "step", **(EXTRA | {"step": 31})),
        "step 31, worker 2, generation 1: the reference has no such step",
    ),
    (
        with_line(recovery(), 2, 0, 290, "step", **(EXTRA | {"step": 19, "loss_bits": "40000013"})),
        "step 19, worker 2, generation 1: restored state is of 20",
    ),
    (
        patched(recovery(), {"what": "restored", "worker": 1}, digest="bad"),
        "step 20, worker 1, generation 1: restored state is bad, expected state20",
    ),
    (
        patched(recovery(), {"what": "restored", "worker": 1}, step=10),
        "step 10, worker 1, generation 1: restored state is of step 10, expected 20",
    ),
    (
        without(recovery(), what="restored"),
        "step 20: no worker has a digest of the restored state",
    ),
    (
        patched(recovery(), {"what": "final", "worker": 0}, digest="bad"),
        "step 30, worker 0, generation 1: final state is bad, expected state30",
    ),
    (
        without(recovery(), what="final", worker=0),
        "step 30, worker 0, generation 1: no digest of the final state",
    ),
    (
        patched(without(recovery(), event="step", step=30), {"event": "done"}, step=29),
        "step 29, worker 0, generation 1: the job ended there, expected the end at 30",
    ),
]


@pytest.mark.parametrize(("files", "text"), DIFFERENCES, ids=[text for _, text in DIFFERENCES])
def test_a_difference_is_found_and_named(files: Files, text: str) -> None:
    found = verified(files)
    assert found.passed is False
    assert found.first_difference == text
    assert found.samples_ok is not ("sample" in text or "missing" in text)


def test_a_step_that_ran_twice_saw_its_samples_twice() -> None:
    body = EXTRA | {"samples": [25004, 25005]}
    assert verified(with_line(recovery(), 2, 0, 290, "step", **body)).samples_ok is False


def test_the_first_difference_is_the_earliest_one() -> None:
    files = patched(recovery(), {"event": "step", "step": 27, "worker": 0}, loss_bits="0")
    files = patched(files, {"event": "step", "step": 24, "worker": 2}, samples=[1])
    files = patched(files, {"event": "step", "step": 24, "worker": 1}, loss_bits="0")
    text = verified(files).first_difference
    # Step 24 of generation 0 comes before anything in generation 1.
    assert text is not None and text.startswith("step 24, worker 1, generation 0: loss")


def test_the_saved_digest_of_this_trial_is_what_counts() -> None:
    # State 20 was saved with another digest here (say, a fault before the save): what was
    # restored is compared with that, and with the reference only where nothing was saved.
    files = patched(recovery(), {"what": "saved", "step": 20}, digest="other")
    assert verified(files).first_difference == (
        "step 20, worker 0, generation 1: restored state is state20, expected other"
    )
    assert verified(without(recovery(), what="saved", step=20)).passed is True
    bare = Reference.from_dict(reference().as_dict() | {"digests": {}})
    text = verified(without(recovery(), what="saved", step=20), reference=bare).first_difference
    assert text is not None and "nobody has a digest of the state saved there" in text


def test_a_state_saved_again_after_the_recovery_does_not_count() -> None:
    body = {"what": "saved", "step": 20, "digest": "later", "leaves": 4, "generation": 1}
    assert verified(with_line(recovery(), 0, 0, 200, "digest", **body)).passed is True


def test_a_trial_that_was_cut_off_differs_in_nothing_and_proves_nothing() -> None:
    found = verified(until(recovery(), 195))
    assert (found.passed, found.losses_compared, found.first_difference) == (None, 25, None)
    assert (found.samples_ok, found.samples_checked) == (True, 18)


def test_nothing_to_compare() -> None:
    assert verified(recovery(), reference=None) == Verification(None, None, 0, 0, 0, None, None)
    found = verified({}, generation=None, restored=None)
    assert (found.passed, found.samples_ok) == (None, None)


def test_a_job_that_needed_no_recovery_is_compared_as_it_is() -> None:
    found = verified(faultless(), generation=None, restored=None)
    assert (found.passed, found.samples_checked, found.digests_compared) == (True, 180, 3)


@given(
    st.integers(0, WORKERS - 1),
    st.integers(RESTORED + 1, STEPS),
    st.sampled_from(["loss_bits", "samples", "missing", "twice"]),
)
def test_no_single_difference_is_missed(worker: int, step: int, what: str) -> None:
    files = recovery()
    where = {"event": "step", "worker": worker, "step": step, "generation": 1}
    if what == "missing":
        files = without(files, **where)
    elif what == "twice":
        line = next(x for lines in files.values() for x in lines if where.items() <= x.items())
        files[None, 0].append(dict(line))
    else:
        files = patched(files, where, **{what: "0" if what == "loss_bits" else [0, 1]})
    found = verified(files)
    assert found.passed is False
    assert found.first_difference is not None
    assert f"step {step}" in found.first_difference
