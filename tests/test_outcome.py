"""Facts to outcomes, as a table; and which deaths spoil a measurement."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recoverybench.analysis.history import History
from recoverybench.analysis.outcome import RULES, Facts, classify, doubt, foreign_death
from recoverybench.vocabulary import OUTCOMES
from tests.histories import INJECT, at, journals, recovery, with_line

RECOVERED = Facts(
    problem=None,
    injected=True,
    noticed=True,
    acted=True,
    finished=True,
    deadline=False,
    restored_step=20,
    tried_in_vain=False,
    committed=True,
    as_saved=True,
    passed=True,
)

# What is changed in a recovered trial, and the outcome.
TABLE: list[tuple[dict[str, Any], str]] = [
    ({}, "recovered"),
    # invalid, whatever else there is
    ({"problem": "a clock fault"}, "invalid"),
    ({"problem": "a clock fault", "finished": False, "deadline": True}, "invalid"),
    ({"injected": False}, "invalid"),
    ({"passed": None}, "invalid"),
    # nothing had to recover
    ({"acted": False, "restored_step": None, "as_saved": None}, "no_effect"),
    ({"acted": False, "restored_step": None, "noticed": False}, "no_effect"),
    ({"acted": False, "restored_step": None, "passed": False}, "diverged"),
    # the deadline
    ({"finished": False, "deadline": True, "noticed": False, "acted": False}, "undetected"),
    ({"finished": False, "deadline": True}, "timeout"),
    ({"finished": False, "deadline": True, "acted": False}, "timeout"),
    ({"finished": False, "deadline": True, "passed": False}, "timeout"),
    ({"finished": False, "deadline": True, "tried_in_vain": True}, "timeout"),
    ({"deadline": True}, "recovered"),  # it came after the job was done
    # the job ended
    ({"finished": False}, "not_recovered"),
    ({"finished": False, "acted": False, "noticed": False, "passed": None}, "not_recovered"),
    ({"finished": False, "restored_step": None}, "not_recovered"),
    ({"finished": False, "passed": False}, "not_recovered"),
    # where the state came from
    (
        {"finished": False, "restored_step": None, "tried_in_vain": True},
        "no_usable_checkpoint",
    ),
    ({"restored_step": None, "tried_in_vain": True}, "no_usable_checkpoint"),
    ({"restored_step": None, "committed": False}, "no_usable_checkpoint"),
    ({"restored_step": 0, "committed": False}, "no_usable_checkpoint"),
    ({"restored_step": None}, "restarted_from_scratch"),
    ({"restored_step": 0}, "restarted_from_scratch"),
    ({"restored_step": None, "passed": False}, "restarted_from_scratch"),
    # what it was worth
    ({"as_saved": False, "passed": False}, "silent_corruption"),
    ({"as_saved": False}, "silent_corruption"),
    ({"passed": False}, "diverged"),
    ({"passed": False, "as_saved": None}, "diverged"),
]


@pytest.mark.parametrize(("changes", "outcome"), TABLE)
def test_outcomes(changes: dict[str, Any], outcome: str) -> None:
    assert classify(dataclasses.replace(RECOVERED, **changes)) == outcome


def test_the_table_has_every_outcome_and_the_rules_too() -> None:
    assert {outcome for _, outcome in TABLE} == set(OUTCOMES)
    assert sorted(name for name, _ in RULES) == sorted(OUTCOMES)


FACTS = st.builds(
    Facts,
    problem=st.sampled_from([None, None, None, "p"]),
    injected=st.sampled_from([True, True, True, False]),
    noticed=st.booleans(),
    acted=st.booleans(),
    finished=st.booleans(),
    deadline=st.booleans(),
    restored_step=st.sampled_from([None, 0, 20]),
    tried_in_vain=st.booleans(),
    committed=st.booleans(),
    as_saved=st.sampled_from([None, True, False]),
    passed=st.sampled_from([None, True, False]),
)


@given(FACTS)
def test_every_trial_has_an_outcome_and_recovered_is_earned(facts: Facts) -> None:
    outcome = classify(facts)
    assert outcome in OUTCOMES
    if outcome == "recovered":
        assert facts.acted and facts.finished and facts.restored_step
        assert facts.passed is True and facts.as_saved is not False
    if outcome == "invalid":
        assert doubt(facts) is not None


def exits(*lines: tuple[float, dict[str, Any]]) -> History:
    files = recovery()
    for ms, fields in lines:
        body = {"worker": 0, "pid": 100, "code": None, "signal": None, "ours": False} | fields
        files = with_line(files, None, 0, ms, "exit", **body)
    return History.of(journals(files))


@pytest.mark.parametrize(
    ("ms", "fields", "words"),
    [
        # Before the injection every death is one too many, a clean one as well.
        (-5, {"signal": "SIGKILL"}, "exit (worker 0, attempt 0) by SIGKILL 0.005 s before"),
        (-5, {"signal": "SIGABRT"}, "by SIGABRT"),
        (-5, {"code": 0}, "by code 0"),
        (-5, {"code": 1}, "by code 1"),
        (-5, {"signal": "SIGKILL", "ours": True}, None),
        # After it, workers may crash, be aborted or give up.
        (5, {"signal": "SIGABRT"}, None),
        (5, {"signal": "SIGSEGV"}, None),
        (5, {"code": 1}, None),
        # Somebody else killed one.
        (5, {"signal": "SIGKILL"}, "by SIGKILL, which neither we nor the fault sent"),
        (5, {"signal": "SIGTERM"}, "by SIGTERM"),
        (5, {"signal": "SIGKILL", "worker": 1}, None),  # the victim
        (5, {"signal": "SIGKILL", "ours": True}, None),
    ],
)
def test_deaths_that_neither_we_nor_the_fault_caused(
    ms: float, fields: dict[str, Any], words: str | None
) -> None:
    text = foreign_death(exits((ms, fields)), INJECT, victim=1)
    if words is None:
        assert text is None
    else:
        assert text is not None and words in text


def test_the_instant_of_the_injection_belongs_to_the_fault() -> None:
    assert at(0) == INJECT
    assert foreign_death(exits((0, {"signal": "SIGABRT"})), INJECT, victim=1) is None
