"""Pairs of releases, compared; a pair whose runs are as they were is not compared again."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from recoverybench.compare import words
from recoverybench.compare.build import compare
from recoverybench.compare.page import to_html
from recoverybench.compare.sides import Side
from recoverybench.plan.environments import THIS
from recoverybench.results.store import Run
from recoverybench.site import addresses
from recoverybench.site.program import program
from recoverybench.site.scan import Skipped, said
from recoverybench.site.sources import as_bytes
from recoverybench.site.tree import Tree
from recoverybench.site.trends import Pair
from recoverybench.site.verdicts import Verdict, verdicts_of

SCHEMA: Final = 1

_HELD: Final = 4
"""Runs whose trials are kept for the next comparison; neighbours share a side."""


@dataclass(frozen=True, slots=True)
class Compared:
    """A pair, and what came of it.

    Attributes:
        pair: what was compared. page: address of the comparison.
        answer: one sentence. verdicts: `Cell.key` -> what became of it; a cell that is missing
            could not be compared.
        not_compared: how many could not be.
    """

    pair: Pair
    page: str
    answer: str
    verdicts: dict[str, Verdict]
    not_compared: int


class Runs:
    """Runs as they are needed, without what no comparison looks at; a few are held."""

    def __init__(self, load: Callable[[str], Run]) -> None:
        """`load` reads a run by its id."""
        self._load = load
        self._held: OrderedDict[str, Run] = OrderedDict()

    def get(self, run_id: str) -> Run:
        """The run with that id, its trials without spans."""
        run = self._held.pop(run_id, None) or _slim(self._load(run_id))
        self._held[run_id] = run
        while len(self._held) > _HELD:
            self._held.popitem(last=False)
        return run


def compare_all(
    pairs: Mapping[tuple[int, int], Mapping[str, Pair]],
    runs: Runs,
    fingerprints: Mapping[str, str],
    tree: Tree,
    folder: Path,
    say: Callable[[str], None],
) -> tuple[list[Compared], list[Skipped]]:
    """Every pair, each with its page and its data in the tree; and those that cannot be compared.

    Args:
        pairs: as of `trends.pairs_of`. runs: where their trials are from.
        fingerprints: of the files of each run, by its id.
        tree: where pages go. folder: the results directory, for messages.
        say: is told what is being made.
    """
    found, failed = [], []
    for parts in pairs.values():
        for part, pair in sorted(parts.items()):
            page = addresses.comparison_page(
                pair.base.address, pair.new.address, part if len(parts) > 1 else None
            )
            made_of = _made_of(pair, page, fingerprints)
            data = _kept(page, made_of, tree)
            if data is None:
                say(_name(pair))
                try:
                    data, text, content = _made(pair, page, runs)
                except Exception as error:  # whatever is in two runs, the others are compared
                    failed.append(Skipped(_name(pair), said(error, folder)))
                    continue
                tree.write(page, text, made_of)
                tree.write(addresses.comparison_data(page), content, made_of)
            found.append(_read(pair, page, data))
    return found, failed


def _name(pair: Pair) -> str:
    at = "" if pair.environment is None else f" on {pair.environment}"
    return f"{pair.base.name} and {pair.new.name}{at}"


def _kept(page: str, made_of: str, tree: Tree) -> dict[str, Any] | None:
    """What is there already, and stays."""
    kept = tree.read(addresses.comparison_data(page), made_of)
    if kept is None or not tree.has(page, made_of):
        return None
    data: dict[str, Any] = json.loads(kept)
    return data


def _made(pair: Pair, page: str, runs: Runs) -> tuple[dict[str, Any], bytes, bytes]:
    """What a pair comes to, its page and its data. Whatever is raised, it cannot be compared."""
    comparison = compare(_side(pair, 0, runs), _side(pair, 1, runs))
    data = {
        "schema": SCHEMA,
        "page": page,
        "base": pair.base.name,
        "new": pair.new.name,
        "environment": pair.environment,
        "answer": words.answer(comparison),
        "cells": {k: v.as_dict() for k, v in verdicts_of(comparison).items()},
        "comparison": comparison.as_dict(),
    }
    text = to_html(comparison, home=f"../{addresses.INDEX}").encode("utf-8", "backslashreplace")
    return data, text, as_bytes(data)


def _read(pair: Pair, page: str, data: Mapping[str, Any]) -> Compared:
    return Compared(
        pair=pair,
        page=page,
        answer=data["answer"],
        verdicts={key: Verdict.from_dict(one) for key, one in data["cells"].items()},
        not_compared=len(data["comparison"]["not_compared"]),
    )


def _side(pair: Pair, which: int, runs: Runs) -> Side:
    release = (pair.base, pair.new)[which]
    found = tuple(runs.get(run_id) for run_id in pair.runs[which])
    if pair.environment is None:
        return Side(release.name, found, None, True)
    only = None if pair.environment == THIS else pair.environment
    return Side(f"{release.name}@{pair.environment}", found, only, False)


def _made_of(pair: Pair, page: str, fingerprints: Mapping[str, str]) -> str:
    """Digest of all that the page of a pair depends on."""
    sides = [
        [release.name, [[run, fingerprints[run]] for run in runs]]
        for release, runs in zip((pair.base, pair.new), pair.runs, strict=True)
    ]
    text = json.dumps([program(), page, sides, pair.environment])
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _slim(run: Run) -> Run:
    """The run without what is nine tenths of it."""
    trials = tuple(
        dataclasses.replace(t, spans=(), exits=(), pids={}, milestones={}) for t in run.trials
    )
    return dataclasses.replace(run, trials=trials)
