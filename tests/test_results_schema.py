"""docs/schema.md: every field and every column, as the code has them."""

from __future__ import annotations

import dataclasses
import json
import re
from pathlib import Path

import pytest

import recoverybench as rb
from recoverybench.records import TrialRecord
from recoverybench.results import schema
from recoverybench.results.columns import dtypes

ROOT = Path(__file__).parents[1]
TYPES = [cls for _, classes in schema.FILES.values() for cls in classes]


def test_the_file_is_what_the_types_say() -> None:
    written = (ROOT / "docs/schema.md").read_text(encoding="utf-8")
    assert written == schema.markdown(), "run: make docs"


@pytest.mark.parametrize("cls", TYPES)
def test_every_field_has_a_meaning(cls: type) -> None:
    said = schema.meanings(cls)
    assert list(said) == [field.name for field in dataclasses.fields(cls)]
    assert all(said.values())


def test_every_column_is_there() -> None:
    _, _, tables = schema.markdown().partition("## Columns of a table")
    rows = re.findall(r"^\| `(\w+)` \| `(\w+)` \| [^|]* \| (.+) \|$", tables, re.MULTILINE)
    assert {name: dtype for name, dtype, _ in rows} == dtypes()


def test_every_key_of_a_real_run_is_there() -> None:
    """What is written has no field that the page does not have."""
    page = schema.markdown()
    run = ROOT / "tests" / "samples" / "v4"
    files = [run / "run.json", *run.glob("reference/*.json")]
    texts = [path.read_text() for path in files] + [
        (run / "trials.jsonl").read_text().split("\n")[0]
    ]
    for text in texts:
        assert all(f"`{key}`" in page for key in json.loads(text))


@dataclasses.dataclass
class Sample:
    """A class.

    Attributes:
        one: first; of many. two, three: a pair (two: not
            again). four: ``x: y`` | z;
            five: last.
    """

    one: int | None
    two: tuple[float, ...]
    three: dict[str, list[int]]
    four: tuple[float, int]
    five: str


def test_how_a_docstring_is_read() -> None:
    assert schema.meanings(Sample) == {
        "one": "first; of many",
        "two": "a pair (two: not again)",
        "three": "a pair (two: not again)",
        "four": "`x: y` | z",
        "five": "last",
    }
    assert schema.words(int | None) == "whole number or null"
    assert schema.words(tuple[float, ...]) == "list of number"
    assert schema.words(tuple[float, int]) == "list of number and whole number"
    assert schema.words(dict[str, list[int]]) == "object of list of whole number"
    assert schema.words(TrialRecord) == "[TrialRecord](#trialrecord)"
    assert [schema.unit(n) for n in ("save_s", "t_inject", "x_ns", "rep")] == ["s", "ns", "ns", ""]


def test_what_is_public_works() -> None:
    run = rb.load(str(ROOT / "tests" / "samples" / "v4"))
    assert len(run.trials) == len(run.frame()) == 2
    assert list(run.frame().columns) == list(dtypes())
