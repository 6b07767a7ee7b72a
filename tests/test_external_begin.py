"""Commands whose run says nothing: they begin in the middle, or have no loss to compare."""

from __future__ import annotations

import pytest

from recoverybench.external.losses import CommandReference
from recoverybench.external.marks import Mark, Split
from recoverybench.external.record import _began_late
from recoverybench.external.reference import _no_number


def mark(step: int) -> Mark:
    return Mark(t=step, what="step", step=step, loss="1.0", who=None, attempt=0, again=False)


@pytest.mark.parametrize(("steps", "late"), [((1, 2), False), ((5, 10), False), ((41, 42), True)])
def test_a_job_that_found_another_runs_checkpoint_is_not_trusted(
    steps: tuple[int, ...], late: bool
) -> None:
    marks = [mark(step) for step in steps]
    split = Split(None, 0, tuple(marks), ())
    reference = CommandReference("r", 1, 45, {})
    said = _began_late([split], reference, 10)
    assert (said is not None) == late
    if said:
        assert said.startswith("the job began with step 41, and without a fault with step 1: it")
    assert _began_late([split], None, 10) is None


def test_a_reference_has_numbers() -> None:
    assert _no_number(CommandReference("r", 1, 2, {None: {1: ["0.5"], 2: ["1e3"]}})) is None
    assert _no_number(CommandReference("r", 1, 2, {0: {1: ["0.5"], 2: ["nan"]}})) == "nan at step 2"
