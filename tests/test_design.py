"""Which trials a campaign runs: blocks, precision, budget, and going on after a cut."""

from __future__ import annotations

import dataclasses
import math
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recoverybench.blocks import first_effect, trials_text
from recoverybench.campaign.design import Place, ended, known_of, next_places
from recoverybench.cells import Cell
from recoverybench.errors import UsageError
from recoverybench.plan.suite import Overrides, Suite, load_suite
from recoverybench.plan.trials import AUTO_MOST, AUTO_PRECISION, read_amount
from recoverybench.records import TrialRecord
from tests.sample_run import make_cell, make_trial

CELLS = tuple(make_cell(strategy=name) for name in ("restart", "elastic", "hot-spare"))


def suite(trials: int = 3, cells: tuple[Cell, ...] = CELLS, **changes: object) -> Suite:
    plain = Suite("s", "", trials, 0, 60.0, 45, cells)
    return dataclasses.replace(plain, **changes)  # type: ignore[arg-type]


def record(
    place: Place, time_s: float | None, *, wall_s: float = 5.0, index: int = 0
) -> TrialRecord:
    return dataclasses.replace(
        make_trial(index, cell=place.cell),
        outcome="timeout" if time_s is None else "recovered",
        rep=place.rep,
        block=place.block,
        position=place.position,
        recovery_s=time_s,
        wall_s=wall_s,
    )


def lived(wanted: Suite, records: list[TrialRecord] | None = None) -> list[TrialRecord]:
    """A campaign to its end; times follow from the cell and the repetition alone."""
    records = list(records or [])
    while places := next_places(wanted, records):
        for place in places:
            time_s = random.Random(f"{place.cell.key}/{place.rep}").lognormvariate(0.0, 0.3)
            records.append(record(place, time_s, index=len(records)))
    return records


def order(records: list[TrialRecord]) -> list[tuple[str, int, int | None, int | None]]:
    return [(r.cell.strategy, r.rep, r.block, r.position) for r in records]


def test_every_block_holds_every_cell_once_in_an_order_of_its_own() -> None:
    records = lived(suite(20))
    blocks = [records[i : i + 3] for i in range(0, 60, 3)]
    for number, block in enumerate(blocks):
        assert {r.cell for r in block} == set(CELLS)
        assert [r.position for r in block] == [0, 1, 2]
        assert {r.block for r in block} == {r.rep for r in block} == {number}
    assert len({tuple(r.cell.strategy for r in block) for block in blocks}) > 3
    assert order(records) == order(lived(suite(20)))
    assert order(records) != order(lived(suite(20, seed=1)))


@given(cut=st.integers(0, 40), budget=st.sampled_from([None, 100.0, 260.0]), auto=st.booleans())
@settings(max_examples=60, deadline=None)
def test_a_cut_changes_nothing(cut: int, budget: float | None, auto: bool) -> None:
    wanted = suite(12, budget_s=budget, precision=0.5 if auto else None)
    whole = lived(wanted)
    assert order(lived(wanted, whole[:cut])) == order(whole)


def test_auto_ends_a_cell_when_its_median_is_known_well_enough() -> None:
    wanted = suite(50, precision=0.10)
    spreads = {"restart": 0.001, "elastic": 0.05, "hot-spare": 2.0}
    records: list[TrialRecord] = []
    draw = random.Random(3)
    while places := next_places(wanted, records):
        for place in places:
            time_s = draw.lognormvariate(0.0, spreads[place.cell.strategy])
            records.append(record(place, time_s, index=len(records)))
    counts = {c.strategy: sum(r.cell == c for r in records) for c in CELLS}
    assert counts["restart"] == 6  # no interval of fewer has 95 %
    assert 6 < counts["elastic"] < 50 == counts["hot-spare"]
    known = known_of(CELLS, records)
    assert known[CELLS[1]].width <= 0.10 < known[CELLS[2]].width
    assert [ended(wanted, records, over=False)[c.key] for c in CELLS] == [
        "precision",
        "precision",
        "trials",
    ]


def test_a_cell_that_never_comes_back_ends_when_that_is_known() -> None:
    wanted = suite(50, CELLS[:1], precision=0.10)
    records: list[TrialRecord] = []
    while places := next_places(wanted, records):
        records += [record(p, None, index=len(records)) for p in places]
    assert len(records) == 6
    assert ended(wanted, records, over=False) == {CELLS[0].key: "unreached"}


def test_a_trial_that_says_nothing_of_time_counts_against_the_most_alone() -> None:
    wanted = suite(9, CELLS[:1], precision=0.10)
    records: list[TrialRecord] = []
    while places := next_places(wanted, records):
        made = record(places[0], 1.0, index=len(records))
        records.append(dataclasses.replace(made, outcome="invalid"))
    assert len(records) == 9
    assert math.isinf(known_of(CELLS, records)[CELLS[0]].width)


@given(
    walls=st.lists(st.floats(1.0, 30.0), min_size=3, max_size=3),
    budget=st.floats(20.0, 400.0),
)
@settings(max_examples=60, deadline=None)
def test_a_budget_is_kept_to_within_one_trial(walls: list[float], budget: float) -> None:
    wanted = suite(1000, budget_s=budget)
    wall = dict(zip(CELLS, walls, strict=True))
    records: list[TrialRecord] = []
    while places := next_places(wanted, records):
        for place in places:
            if sum(r.wall_s for r in records) >= budget:
                break  # the campaign's own clock, which no design can know
            records.append(record(place, 1.0, wall_s=wall[place.cell], index=len(records)))
        else:
            continue
        break
    spent = sum(r.wall_s for r in records)
    assert budget <= spent < budget + max(walls)
    assert set(ended(wanted, records, over=True).values()) == {"budget"}


def test_time_that_does_not_last_for_all_goes_to_the_least_certain() -> None:
    draw = random.Random(0)
    spreads = {"restart": 0.01, "elastic": 0.3, "hot-spare": 0.02}
    records = [
        record(
            Place(cell, rep, rep, at),
            draw.lognormvariate(0.0, spreads[cell.strategy]),
            wall_s=10.0,
            index=3 * rep + at,
        )
        for rep in range(8)
        for at, cell in enumerate(CELLS)
    ]
    enough = [p.cell.strategy for p in next_places(suite(50, budget_s=280.0), records)]
    assert sorted(enough) == ["elastic", "hot-spare", "restart"]
    scarce = [p.cell.strategy for p in next_places(suite(50, budget_s=261.0), records)]
    assert sorted(scarce) == ["elastic", "hot-spare"]
    assert [p.cell.strategy for p in next_places(suite(50, budget_s=241.0), records)] == ["elastic"]
    assert next_places(suite(50, budget_s=240.0), records) == []


def test_what_trials_take_side_by_side_is_counted_once() -> None:
    """Three cells that took ten seconds at the same time have used ten seconds of the budget."""
    records = [
        dataclasses.replace(
            record(Place(cell, 0, 0, at), 1.0, wall_s=10.0, index=at), neighbours=len(CELLS) - 1
        )
        for at, cell in enumerate(CELLS)
    ]
    assert len(next_places(suite(50, budget_s=20.5), records)) == len(CELLS)
    alone = [dataclasses.replace(r, neighbours=0) for r in records]
    assert next_places(suite(50, budget_s=20.5), alone) == []


def test_a_run_from_before_there_were_blocks_goes_on() -> None:
    old = [
        dataclasses.replace(
            record(Place(cell, rep, 0, 0), 1.0, index=3 * rep + at), block=None, position=None
        )
        for rep in range(2)
        for at, cell in enumerate(CELLS)
    ]
    left = next_places(suite(3), old[:4])
    assert {(p.cell, p.rep) for p in left} == {(CELLS[1], 1), (CELLS[2], 1)}
    assert {(p.cell, p.rep) for p in next_places(suite(3), old)} == {(c, 2) for c in CELLS}


# What is said of it


def test_the_first_trials_of_blocks_are_compared_with_the_rest_of_their_cell() -> None:
    times = {0: 2.0, 1: 1.0, 2: 1.0}
    records = [
        record(Place(CELLS[(at + block) % 3], block, block, at), times[at], index=3 * block + at)
        for block in range(6)
        for at in range(3)
    ]
    effect = first_effect(records)
    assert effect is not None
    assert (effect.ratio.median, effect.ratio.n) == (2.0, 6)
    assert first_effect(records[:1]) is None
    assert first_effect([dataclasses.replace(r, position=None) for r in records]) is None


# How a suite says it


def amount(trials: object, precision: object = None, budget: object = None) -> tuple[object, ...]:
    found = read_amount((trials, "--trials"), (precision, "--precision"), (budget, "--budget"))
    return found.trials, found.precision, found.budget_s


def test_amounts_that_can_be_used() -> None:
    assert amount(3) == (3, None, None)
    assert amount("auto") == (AUTO_MOST, AUTO_PRECISION, None)
    assert amount("auto", "5%", "10m") == (AUTO_MOST, 0.05, 600.0)
    assert amount("7", None, 30) == (7, None, 30.0)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("many",), "--trials = 'many': expected a whole number from 1 to 10000, or \"auto\""),
        ((0,), "--trials = 0: expected"),
        ((3, "10%"), "--precision = '10%': expected trials = \"auto\" beside it"),
        (("auto", "0"), "--precision = '0': expected a part of the median from"),
        (("auto", "nan"), "--precision = 'nan'"),
        (("auto", "200%"), "--precision = '200%'"),
        (("auto", True), "--precision = True"),
        ((3, None, "-1s"), "--budget = '-1s': expected a positive duration"),
    ],
)
def test_amounts_that_cannot(arguments: tuple[object, ...], said: str) -> None:
    with pytest.raises(UsageError) as raised:
        amount(*arguments)
    assert str(raised.value).startswith(said)


def test_options_over_a_suite() -> None:
    def of(**options: str) -> tuple[int, float | None, float | None]:
        found = load_suite("quick", Overrides(**options), device_limit=16)  # type: ignore[arg-type]
        return found.trials, found.precision, found.budget_s

    assert of() == (3, None, None)
    assert of(budget="1m") == (AUTO_MOST, AUTO_PRECISION, 60.0)
    assert of(precision="20%") == (AUTO_MOST, 0.20, None)
    assert of(budget="1m", trials="4") == (4, None, 60.0)
    assert of(trials="auto") == (AUTO_MOST, AUTO_PRECISION, None)
    assert trials_text(load_suite("quick", Overrides(budget="1m"), device_limit=16)) == (
        "until its median is known to 0.1 of itself, at most 50, for 1m in all"
    )
