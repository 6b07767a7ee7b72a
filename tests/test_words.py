"""Numbers in words, whatever the number, and lines on stderr, whatever is in them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recoverybench import cli
from recoverybench.labels import NONE, fixed, seconds


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (None, NONE),
        (float("nan"), NONE),
        (float("inf"), NONE),
        (0.0581, "58 ms"),
        (125.2, "2 min 05 s"),
        (-125.2, "-2 min 05 s"),
        (1e308, "1.0e+308 s"),
    ],
)
def test_a_duration_in_words(value: float | None, said: str) -> None:
    assert seconds(value) == said


@given(st.floats(), st.floats(0, 10))
def test_every_number_has_words(value: float, bound_s: float) -> None:
    for said in (seconds(value, bound_s), fixed(value, bound_s)):
        assert said and said.isprintable()


def test_an_error_does_nothing_to_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.call(["show", "x\x1b]0;owned\x07\u202e"]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1 and said.rstrip("\n").isprintable()
