"""The matrix of a suite -> cells: product, exclude, include, and what no cell may be."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from recoverybench.cells import FACTORS as CELL_FIELDS
from recoverybench.cells import Cell
from recoverybench.errors import UsageError, bad_value
from recoverybench.plan import launchers
from recoverybench.plan.factors import FACTORS, REQUIRED, Factor, check_keys, parse_topology
from recoverybench.plan.support import Judge
from recoverybench.plan.triggers import parse_trigger
from recoverybench.plan.workloads import why_not_on


@dataclass(frozen=True, slots=True)
class Candidate:
    """A cell that is not checked yet.

    Attributes:
        values: by `Cell` field.
        places: where each value stands (``quick.toml: matrix.interval``, ``--interval``).
    """

    values: dict[str, Any]
    places: dict[str, str]

    def key(self) -> tuple[Any, ...]:
        """Its identity: the values in the order of `cells.FACTORS`."""
        return tuple(self.values[name] for name in CELL_FIELDS)


MOST_CELLS = 10_000
"""A larger matrix is a slip: at a few seconds a trial it would run for days."""


def read_matrix(
    table: Mapping[str, Any],
    options: Mapping[str, tuple[str, ...]],
    shown: str,
    steps: int,
    device_limit: int | None,
    launcher: str = launchers.DEFAULT,
    isolation: str = launchers.EXCLUSIVE,
) -> tuple[tuple[Cell, ...], tuple[tuple[Cell, str], ...]]:
    """The cells of one suite: those that can be measured here, and those that cannot, with why.

    Args:
        table: ``[matrix]``.
        options: factors of the command line by TOML key; each replaces the table's list.
        shown: the file, for messages.
        steps: length of the job. device_limit: devices that a job may have; None: not known.
        launcher: how workers are started. isolation: of the suite.

    Raises:
        UsageError: a key, a value or a combination that cannot be used.
    """
    check_keys(table, (*FACTORS, "exclude", "include"), f"{shown}: matrix.")
    lists, places = {}, {}
    for key, factor in FACTORS.items():
        place = factor.option if key in options else f"{shown}: matrix.{key}"
        lists[factor.name] = _read_list(factor, options.get(key, table.get(key)), place)
        places[factor.name] = place
    size = math.prod(len(values) for values in lists.values())
    if size > MOST_CELLS:
        raise bad_value(f"{shown}: matrix", f"{size} cells", f"at most {MOST_CELLS}")
    candidates = product(lists, places)
    for rule, place in _rules(table, "exclude", shown):
        kept = [c for c in candidates if not matches(c.values, rule)]
        # A rule that drops nothing is a slip, unless the command line took away what it dropped.
        if len(kept) == len(candidates) and not options:
            raise bad_value(place, _spell(rule), "keys that together match a cell of the matrix")
        candidates = kept
    first = {name: values[0] for name, values in lists.items()}
    chosen = {FACTORS[key].name: lists[FACTORS[key].name] for key in options}
    for rule, place in _rules(table, "include", shown):
        where = {f.name: f"{place}.{f.key}" for f in FACTORS.values() if f.name in rule}
        for added in product({**{n: (v,) for n, v in first.items()}, **rule}, {**places, **where}):
            if matches(added.values, chosen):
                candidates.append(added)
    unique: dict[tuple[Any, ...], Candidate] = {}
    for candidate in candidates:
        unique.setdefault(candidate.key(), candidate)
    if not unique:
        raise bad_value(f"{shown}: matrix", _spell(first), "at least one cell that is not excluded")
    cells = [_check(c, steps, device_limit) for c in unique.values()]
    judge = Judge(launcher, isolation)
    refused = {cell: reason for cell in cells if (reason := judge.unsupported(cell)) is not None}
    if len(refused) == len(cells):
        first_reason = next(iter(refused.values()))
        raise UsageError(f"{shown}: no cell can be measured: unsupported: {first_reason}")
    return tuple(c for c in cells if c not in refused), tuple(refused.items())


def product(lists: Mapping[str, Iterable[Any]], places: dict[str, str]) -> list[Candidate]:
    """Every combination, the last factor varying fastest, in the order of `cells.FACTORS`."""
    combinations = itertools.product(*(lists[name] for name in CELL_FIELDS))
    return [Candidate(dict(zip(CELL_FIELDS, c, strict=True)), places) for c in combinations]


def matches(values: Mapping[str, Any], rule: Mapping[str, Iterable[Any]]) -> bool:
    """Whether each factor of the rule has one of the rule's values; an empty rule matches all."""
    return all(values[name] in tuple(allowed) for name, allowed in rule.items())


def _read_list(factor: Factor, raw: object, place: str) -> tuple[Any, ...]:
    """The values of one factor; a lone value is a list of one, None means not given."""
    if raw is None:
        if factor.default is REQUIRED:
            raise UsageError(f"{place} is missing: expected a list of values")
        return (factor.default,)
    items = list(raw) if isinstance(raw, list | tuple) else [raw]
    if not items:
        raise bad_value(place, raw, "at least one value")
    values: list[Any] = []
    for item in items:
        value = factor.read(item, place)
        if value in values:
            raise bad_value(place, item, f"each value once, and it is there twice in {items!r}")
        values.append(value)
    return tuple(values)


def _rules(
    table: Mapping[str, Any], key: str, shown: str
) -> list[tuple[dict[str, tuple[Any, ...]], str]]:
    """The ``exclude`` or ``include`` tables, read: `Cell` field -> values, and the place."""
    raw = table.get(key, [])
    if not isinstance(raw, list) or not all(isinstance(rule, dict) for rule in raw):
        raise bad_value(f"{shown}: matrix.{key}", raw, f"tables [[matrix.{key}]]")
    rules = []
    for number, rule in enumerate(raw):
        place = f"{shown}: matrix.{key}[{number}]"
        if not rule:
            raise bad_value(place, rule, "at least one factor")
        check_keys(rule, tuple(FACTORS), f"{place}.")
        read = {FACTORS[k].name: _read_list(FACTORS[k], v, f"{place}.{k}") for k, v in rule.items()}
        rules.append((read, place))
    return rules


def _spell(values: Mapping[str, Any]) -> dict[str, Any]:
    return {k: v[0] if isinstance(v, tuple) and len(v) == 1 else v for k, v in values.items()}


def _check(candidate: Candidate, steps: int, device_limit: int | None) -> Cell:
    """A cell that can be run on this machine.

    Raises:
        UsageError: naming the factor that is to blame.
    """
    cell, places = Cell(**candidate.values), candidate.places
    topology = parse_topology(cell.topology)
    if topology.workers < 2:
        allowed = "at least 2 workers, so that one can fail and others notice"
        raise bad_value(places["topology"], cell.topology, allowed)
    for factor in ("topology", "restore_topology"):
        asked = parse_topology(getattr(cell, factor) or cell.topology)
        if device_limit is not None and asked.total > device_limit:
            allowed = f"at most {device_limit} devices in all, which is what this machine has"
            raise bad_value(places[factor], f"{asked}", f"{allowed} ({asked.total} asked)")
    for factor in ("topology", "restore_topology"):
        text = getattr(cell, factor)
        why = None if text is None else why_not_on(cell.workload, parse_topology(text))
        if why is not None:
            raise bad_value(places[factor], text, why)
    if cell.victim is not None and cell.victim >= topology.workers:
        allowed = f"a worker of topology {topology}: 0 to {topology.workers - 1}"
        raise bad_value(places["victim"], cell.victim, allowed)
    needed = parse_trigger(cell.trigger).needed_steps(cell.interval)
    if needed > steps:
        allowed = f"a step before the last, so below {steps} (steps = {steps})"
        if not cell.trigger.startswith("step"):
            allowed = f"a job of at least {needed} steps at interval {cell.interval}, not {steps}"
        raise bad_value(places["trigger"], cell.trigger, allowed)
    return cell
