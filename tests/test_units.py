"""Durations and triggers: what is read, what is refused, and what people get to see."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recoverybench.errors import EXIT_USAGE, UsageError
from recoverybench.plan.triggers import MOMENTS, Moment, Trigger, parse_trigger
from recoverybench.plan.units import format_duration, parse_duration


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("60s", 60.0),
        ("10m", 600.0),
        ("1.5h", 5400.0),
        ("250ms", 0.25),
        ("1m30s", 90.0),
        ("2h05m", 7500.0),
        ("1m5ms", 60.005),
        (" 5s ", 5.0),
        ("7", 7.0),
        ("0.5", 0.5),
        (3, 3.0),
        (0.1, 0.1),
    ],
)
def test_durations_that_are_read(text: object, seconds: float) -> None:
    assert parse_duration(text, "deadline") == pytest.approx(seconds, rel=1e-12)


@pytest.mark.parametrize(
    "value",
    [
        *("", "s", "ten", "5 s", "-5s", "0", "0s", "5d", "1e3", "5s1m", "1s1s", "5S", "٣s", "1.s"),
        *(0, -1, 0.0, math.inf, math.nan, 10**400, "9" * 400, True, None, [5], {}),
    ],
)
def test_durations_that_are_refused(value: object) -> None:
    with pytest.raises(UsageError) as caught:
        parse_duration(value, "quick.toml: suite.deadline")
    message = str(caught.value)
    assert message.startswith("quick.toml: suite.deadline = ")
    assert "expected a positive duration" in message
    assert "\n" not in message
    assert caught.value.exit_code == EXIT_USAGE


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.0, "0ms"),
        (0.25, "250ms"),
        (0.99949, "999ms"),
        (0.9996, "1s"),
        (1.523, "1.52s"),
        (59.94, "59.9s"),
        (59.96, "1m"),
        (90, "1m30s"),
        (3599.6, "1h"),
        (7500, "2h05m"),
        (-1.5, "-1.5s"),
        (math.inf, "inf"),
    ],
)
def test_durations_as_people_see_them(seconds: float, text: str) -> None:
    assert format_duration(seconds) == text


@given(st.floats(0.001, 1e6))
def test_a_duration_that_was_written_is_read_back(seconds: float) -> None:
    again = parse_duration(format_duration(seconds), "x")
    assert again == pytest.approx(seconds, rel=0.0085)


@given(st.text(max_size=12))
def test_any_text_is_a_duration_or_a_usage_error(text: str) -> None:
    try:
        assert parse_duration(text, "x") > 0
    except UsageError as error:
        assert "\n" not in str(error)


@given(st.integers(1, 10**9 - 1))
def test_a_trigger_is_read_back(step: int) -> None:
    assert parse_trigger(str(Trigger("step", step))) == Trigger("step", step)


@given(st.integers(1, 10**6 - 1), st.sampled_from(MOMENTS))
def test_an_operation_of_a_save_is_read_back(operation: int, moment: Moment) -> None:
    trigger = Trigger("save", operation=operation, moment=moment)
    assert parse_trigger(str(trigger)) == trigger


@pytest.mark.parametrize("kind", ["random", "save", "rendezvous", "restore", "compile"])
def test_a_trigger_without_an_argument_is_read_back(kind: str) -> None:
    assert str(parse_trigger(kind)) == kind


def test_what_a_trigger_needs_of_a_job() -> None:
    assert parse_trigger("step:7").needed_steps(5) == 8
    assert parse_trigger("save").needed_steps(5) == 11
    assert parse_trigger("random").needed_steps(5) == 16
    assert parse_trigger("time:250ms").time_s == 0.25


@pytest.mark.parametrize(
    ("value", "part"),
    [
        ("step:0", "step:N"),
        ("step:-1", "step:N"),
        ("step:", "step:N"),
        ("step", "step:N"),
        ("step:ten", "step:N"),
        ("step:1.5", "step:N"),
        ("step:" + "9" * 5000, "step:N"),
        ("stepp:3", "did you mean 'step'?"),
        ("time", "time:T"),
        ("time:soon", "time:T"),
        ("random:1", "random without"),
        ("save:0", "save:K"),
        ("save:1:late", "save:K"),
        ("restore:now", "restore without"),
        (25, "step:N"),
        (None, "step:N"),
    ],
)
def test_triggers_that_are_refused(value: object, part: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_trigger(value, "--trigger")
    assert str(caught.value).startswith("--trigger = ")
    assert part in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("text", ["time:278h", "time:1000000s", "time:1.23456789s", "time:250ms"])
def test_a_time_is_read_back_to_the_nanosecond(text: str) -> None:
    trigger = parse_trigger(text)
    assert parse_trigger(str(trigger)) == trigger
