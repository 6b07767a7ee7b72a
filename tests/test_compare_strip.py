"""The drawings of a comparison: axes, dots, both distributions of a cell, ratios, their order."""

from __future__ import annotations

import dataclasses
import itertools
import math
import random
import xml.etree.ElementTree as ET
from collections.abc import Sequence

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from recoverybench.compare.axis import LOG_FROM, axis_of
from recoverybench.compare.forest import forest
from recoverybench.compare.model import Comparison, Distribution, NotCompared, OutcomeChange
from recoverybench.compare.order import GROUPS, gravest_first, grouped, worst_first
from recoverybench.compare.page import to_html
from recoverybench.compare.strip import strip, thinned_words
from recoverybench.compare.swarm import MOST_DOTS, stacked, thinned
from recoverybench.stats import Interval
from tests.sample_run import timed_out_trial
from tests.sides import CELLS, compared, side, trials, with_outcome

times = st.lists(st.floats(1e-6, 1e6), min_size=1, max_size=40)
EVIL = '"><script>alert(1)</script>\x1b[31m‮\n'


def of(*times_s: float, censored: int = 0, limit_s: float = 60.0) -> Distribution:
    return Distribution(times_s, censored, limit_s)


def drawn(base: Distribution, new: Distribution, label: str = "restart") -> ET.Element:
    """The drawing, read as XML: what is not well-formed raises."""
    return ET.fromstring(str(strip(label, ("v1", "v2"), (base, new))))


def named(picture: ET.Element, kind: str) -> list[ET.Element]:
    return [one for one in picture.iter("g") if kind in one.attrib["class"].split()]


def words_in(picture: ET.Element) -> str:
    return " | ".join("".join(text.itertext()) for text in picture.iter("text"))


# Axes


@settings(max_examples=200)
@given(times)
@example([0.0, 0.0])
@example([0.0, 3.0])
@example([1.0, 10.0])
@example([5e-324, 1e15])
@example([59.999999, 60.0])
def test_an_axis_holds_every_value_and_a_few_ticks_in_order(values: list[float]) -> None:
    axis = axis_of(values)
    ordered = sorted(values)
    parts = [axis.part(value) for value in ordered]
    assert parts == sorted(parts)
    assert all(0 <= part <= 1 for part in parts)
    assert axis.logarithmic == (ordered[0] > 0 and ordered[-1] >= LOG_FROM * ordered[0])
    assert ("logarithmic" in axis.label) == axis.logarithmic
    places = [axis.part(value) for value, _ in axis.ticks]
    assert places == sorted(set(places))
    assert len({text for _, text in axis.ticks}) == len(axis.ticks) <= 7
    assert len(axis.ticks) >= 2 or ordered[-1] == 0


def test_an_axis_says_its_unit_and_where_it_begins() -> None:
    assert axis_of([0.01, 0.05]).unit == "milliseconds"
    assert axis_of([1.0, 2.0]).label == "recovery time, seconds (not from 0)"
    assert axis_of([1.0, 4.0]).label == "recovery time, seconds"
    assert axis_of([1.0, 40.0]).label == "recovery time, seconds (logarithmic)"
    assert [text for _, text in axis_of([1.0, 40.0]).ticks] == ["1", "2", "5", "10", "20"]
    assert axis_of([700.0, 1500.0]).unit == "minutes"
    assert axis_of([]).ticks == ()


def test_a_spread_of_one_per_cent_does_not_fill_the_axis() -> None:
    axis = axis_of([1.0, 1.01])
    assert axis.part(1.01) - axis.part(1.0) < 0.05


# Dots


@given(st.lists(st.floats(0.001, 100.0), max_size=400))
def test_thinning_keeps_the_ends_and_the_order(values: list[float]) -> None:
    kept = thinned(values)
    assert len(kept) == min(len(values), MOST_DOTS)
    assert kept == sorted(kept)
    if values:
        assert (kept[0], kept[-1]) == (min(values), max(values))


@given(st.lists(st.floats(0.0, 1.0), max_size=60), st.floats(0.001, 0.2))
def test_dots_of_one_level_do_not_touch_and_no_level_is_left_out(
    places: list[float], width: float
) -> None:
    places.sort()
    levels = stacked(places, width)
    assert levels == stacked(places, width)
    for level in set(levels):
        here = [place for place, at in zip(places, levels, strict=True) if at == level]
        assert all(b - a >= width for a, b in itertools.pairwise(here))
    used = {2 * level - 1 if level > 0 else -2 * level for level in levels}
    assert used == set(range(len(used)))


# Both distributions


@settings(max_examples=60)
@given(times, times, st.integers(0, 3), st.integers(0, 90))
def test_every_trial_has_a_mark_of_its_own(
    base: list[float], new: list[float], late: int, later: int
) -> None:
    picture = drawn(of(*base, censored=late), of(*new, censored=later))
    for number, values in enumerate((base, new)):
        [dots] = named(picture, f"s{number}")
        places = [(dot.attrib["cx"], dot.attrib["cy"]) for dot in dots]
        assert len(set(places)) == len(places) == len(values)
    assert len(named(picture, "triangles")) == (late > 0) + (later > 0)
    text = words_in(picture)
    for count in filter(None, (late, later)):
        assert f"{count} not back within 60 s" in text
        assert f"{count} not back within 60 s" in picture.attrib["aria-label"]


def test_equal_values_lie_beside_one_another() -> None:
    picture = drawn(of(*[1.5] * 50), of(*[1.5] * 3))
    heights = sorted(float(dot.attrib["cy"]) for dot in named(picture, "s0")[0])
    assert min(b - a for a, b in itertools.pairwise(heights)) >= 1.0


def test_more_dots_than_there_is_room_for_are_thinned_and_that_is_said() -> None:
    rng = random.Random(0)
    many = of(*(rng.lognormvariate(0, 0.3) for _ in range(400)))
    picture = drawn(many, of(1.0, 2.0))
    assert len(named(picture, "s0")[0]) == MOST_DOTS
    assert "400 trials, median " in words_in(picture)
    assert "120 of them drawn" in picture.attrib["aria-label"]
    assert "evenly from the fastest" in thinned_words((many, of(1.0)))
    assert thinned_words((of(1.0), of(2.0))) == ""


def test_the_numbers_are_said_in_words() -> None:
    picture = drawn(of(*[1.0, 1.1, 1.2, 1.3, 1.4, 1.5, 1.6]), of(2.0, 2.5, censored=9))
    said = picture.attrib["aria-label"]
    assert "Recovery times of restart. Base, v1: 7 trials, median 1.3 s (1.0 s to 1.6 s)" in said
    assert "from 1.0 s to 1.6 s." in said
    assert "New, v2: 11 trials, median > 60 s" in said.replace("1 min 00 s", "60 s")


def test_an_interval_that_does_not_fit_is_in_the_description_only() -> None:
    picture = drawn(of(*[70.0 + i for i in range(8)]), of(1.0))
    assert "8 trials, median 1 min 14 s |" in words_in(picture)
    assert "1 min 14 s (1 min 10 s to 1 min 17 s)" in picture.attrib["aria-label"]


@pytest.mark.parametrize(
    ("found", "said", "dots"),
    [
        (of(), "no trial says how long it took", 0),
        (of(1.25), "1 trial, 1.2 s", 1),
        (of(0.0, 0.0), "2 trials, median 0 ms", 2),
        (of(censored=4), "4 trials, median > ", 0),
        (of(1e300), "1 trial, ", 1),
    ],
)
def test_samples_of_next_to_nothing(found: Distribution, said: str, dots: int) -> None:
    for picture in (drawn(found, found), drawn(of(1.0, 2.0), found)):
        assert said in words_in(picture)
        assert len(list(picture.iter("circle"))) in (2 * dots, dots + 2)
        assert "nan" not in ET.tostring(picture, "unicode")
        assert "inf%" not in ET.tostring(picture, "unicode")


def test_names_are_text_in_a_drawing() -> None:
    picture = strip(EVIL, (EVIL, EVIL), (of(1.0), of(2.0)))
    ET.fromstring(str(picture))
    assert "<script" not in picture
    assert not {"\x1b", "‮", "\n"} & set(picture)


def test_the_end_of_a_long_name_is_kept() -> None:
    names = "results/releases-0.1.0@jax==0.8.3", "results/releases-0.1.0@jax==0.10.2"
    picture = ET.fromstring(str(strip("x", names, (of(1.0), of(2.0)))))
    assert "@jax==0.8.3" in words_in(picture)
    assert "@jax==0.10.2" in words_in(picture)


# Ratios


def test_ratios_are_on_one_axis_with_1_in_the_middle() -> None:
    changed = [t for at, factor in enumerate((1.5, 1.0, 0.5))
               for t in trials(10, factor, cells=[CELLS[at]], seed=1)]  # fmt: skip
    cells = compared(side(trials(10)), side(changed, "new")).cells
    found = forest(cells, 0.1)
    assert found is not None
    assert found.one == 50.0
    dots = [line.dot or 0 for line in found.lines]
    assert dots[0] > 50 and dots[2] < dots[1] < dots[0]
    assert all(ends[0] <= dot <= ends[1] for dot, line in zip(dots, found.lines, strict=True)
               if (ends := line.ends))  # fmt: skip
    assert found.band[0] < 50 < found.band[0] + found.band[1]
    places = [at for at, _ in found.ticks]
    assert all(b - a >= 10 for a, b in itertools.pairwise(places))


def test_an_interval_without_an_end_leaves_the_axis() -> None:
    base = trials(10, cells=CELLS[:1])
    late = [timed_out_trial(int(t.trial), rep=t.rep, cell=t.cell) for t in base[:4]]
    cells = compared(side(base), side([*late, *base[4:]], "new")).cells
    found = forest(cells, 0.1)
    assert found is not None
    assert found.lines[0].beyond == (False, True)
    assert forest(compared(side(late), side(late, "new")).cells, 0.1) is None


# Order


def mixed() -> Comparison:
    """One cell each that is better, the same, slower, undecided, diverged, and slower in a part."""
    names = ("better", "same", "slower", "undecided", "diverged", "part")
    cells = [dataclasses.replace(CELLS[0], strategy=name) for name in names]
    base = trials(12, cells=cells)
    new = trials(12, cells=cells, seed=1)
    rng = random.Random(1)
    factors = {"better": 0.5, "slower": 1.5}
    made = []
    for one in new:
        factor = factors.get(one.cell.strategy, 1.0)
        if one.cell.strategy == "undecided":
            factor = rng.lognormvariate(0, 1)
        phases = {name: factor * value for name, value in one.phases.items()}
        if one.cell.strategy == "part":
            phases["restore"] *= 3
        one = dataclasses.replace(one, phases=phases, recovery_s=factor * (one.recovery_s or 0))
        if one.cell.strategy == "diverged" and one.rep == 0:
            one = with_outcome([one], "diverged", 1)[0]
        made.append(one)
    return compared(side(base), side(made, "new"))


def test_the_worst_change_comes_first() -> None:
    found = grouped(worst_first(mixed()))
    assert list(found) == list(GROUPS)
    shown = {group: [cell.cell.strategy for cell in cells] for group, cells in found.items()}
    assert shown == {
        "worse": ["diverged", "slower", "part"],
        "undecided": ["undecided"],
        "better": ["better"],
        "same": ["same"],
    }


@given(st.permutations(range(6)))
def test_the_order_does_not_depend_on_that_of_the_cells(order: Sequence[int]) -> None:
    found = MIXED
    moved = dataclasses.replace(found, cells=tuple(found.cells[i] for i in order))
    assert worst_first(moved) == worst_first(found)


MIXED = mixed()


def test_the_gravest_outcome_is_told_first() -> None:
    kinds = ("lost", "broken", "divergence", "lost")
    changes = [
        OutcomeChange(f"cell {i}", "x", kind, (0, 5), (1, 5)) for i, kind in enumerate(kinds)
    ]
    found = [change.label for change in gravest_first(changes)]
    assert found == ["cell 2", "cell 1", "cell 0", "cell 3"]


# The page


def test_cells_that_were_not_compared_come_before_those_that_are_no_worse() -> None:
    one = NotCompared("gone", "base", "only in the base")
    text = to_html(dataclasses.replace(MIXED, not_compared=(one,)))
    ids = [text.index(f'id="{name}"') for name in ("undecided", "not-compared", "better", "same")]
    assert ids == sorted(ids)
    alone = to_html(dataclasses.replace(MIXED, cells=(), not_compared=(one,)))
    assert alone.count('id="not-compared"') == text.count('id="not-compared"') == 1


def test_a_page_of_300_cells_is_small() -> None:
    found = compared(
        side(trials(50, cells=CELLS[:1])), side(trials(50, 1.5, cells=CELLS[:1], seed=1), "new")
    )
    cells = [dataclasses.replace(found.cells[0], label=f"cell {i}") for i in range(300)]
    text = to_html(dataclasses.replace(found, cells=tuple(cells)))
    assert text.count("<circle") >= 300 * 100
    assert len(text.encode()) <= 5_000_000


def test_what_lies_beyond_the_axis_is_an_arrow_and_open_ends_are_open() -> None:
    cells = compared(side(trials(10)), side(trials(10, 1.2, seed=1), "new")).cells
    row = cells[0].rows[0]
    assert row.effect is not None
    made = []
    for ratio, low, high, confidence in [
        (50.0, 40.0, math.inf, 0.96),
        (0.001, 0.0, 0.01, 0.96),
        (1.0, 0.0, math.inf, 0.96),
        (2.0, 0.5, 9.0, 0.9),
        (0.0, 0.0, 0.0, 0.96),
    ]:
        interval = Interval(low, high, confidence)
        effect = dataclasses.replace(row.effect, ratio=ratio, interval=interval)
        rows = (dataclasses.replace(row, effect=effect), *cells[0].rows[1:])
        made.append(dataclasses.replace(cells[0], rows=rows))
    none = dataclasses.replace(row, effect=dataclasses.replace(row.effect, ratio=None))
    made.append(dataclasses.replace(cells[0], rows=(none,)))
    made.append(dataclasses.replace(cells[0], rows=(dataclasses.replace(row, effect=None),)))
    found = forest(made, 0.1)
    assert found is not None
    assert [line.arrow for line in found.lines] == [1, -1, 0, 0, -1, 0, 0]
    assert [line.dot is None for line in found.lines] == [
        True,
        True,
        False,
        False,
        True,
        True,
        True,
    ]
    assert [line.beyond for line in found.lines[:3]] == [(False, True), (True, False), (True, True)]
    assert found.lines[3].ends is None  # 90 % are not 95
    assert all(3 <= at <= 97 for line in found.lines for at in (line.ends or ()))
    whole = compared(side(trials(10)), side(trials(10, 1.2, seed=1), "new"))
    text = to_html(dataclasses.replace(whole, cells=tuple(made)))
    assert text.count('class="beyond"') >= 6


def test_an_interval_without_an_end_is_an_arrow() -> None:
    late = drawn(of(*[1.0 + i / 10 for i in range(8)], censored=4), of(1.0, 2.0))
    whole = drawn(of(*[1.0 + i / 10 for i in range(8)]), of(1.0))
    ends = [sum(path.get("class") == "open" for path in one.iter("path")) for one in (late, whole)]
    assert ends == [1, 0]


@given(
    st.lists(
        st.tuples(
            st.one_of(st.none(), st.floats(0, 1e18)), st.floats(0, 1e18), st.floats(0, math.inf)
        ),
        min_size=1,
        max_size=6,
    ),
    st.floats(0.01, 2.0),
)
def test_a_forest_of_any_ratios_is_drawn(
    values: list[tuple[float | None, float, float]], margin: float
) -> None:
    cell = MIXED.cells[0]
    row = cell.rows[0]
    assert row.effect is not None
    cells = []
    for ratio, low, high in values:
        interval = Interval(min(low, high), max(low, high), 0.96)
        effect = dataclasses.replace(row.effect, ratio=ratio, interval=interval)
        cells.append(dataclasses.replace(cell, rows=(dataclasses.replace(row, effect=effect),)))
    found = forest(cells, margin)
    assert (found is None) == (not any(ratio for ratio, _, _ in values))
    if found is not None:
        places = [line.dot for line in found.lines if line.dot is not None]
        places += [at for line in found.lines for at in (line.ends or ())]
        assert all(3 <= at <= 97 for at in places)
        assert all(b[0] - a[0] >= 10 for a, b in itertools.pairwise(found.ticks))
