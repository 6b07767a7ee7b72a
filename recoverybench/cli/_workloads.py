"""What `recoverybench list workloads` shows: every preset with its sizes."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import click

from recoverybench.errors import HarnessError, RecoverybenchError, bad_value
from recoverybench.external.spec import shipped
from recoverybench.plan import catalogue
from recoverybench.plan.sizes import Sizes, bytes_words, count_words
from recoverybench.plan.workloads import why_not_on
from recoverybench.topology import Topology

NUMBERS = ("parameters", "state_bytes", "checkpoint_bytes", "batch_size")
"""What is said of each preset, by the names of `plan.sizes.Sizes`."""


def read_topologies(texts: Sequence[str]) -> list[Topology]:
    """The option ``--topology``.

    Raises:
        UsageError: one cannot be read.
    """
    found = []
    for text in texts:
        try:
            found.append(Topology.of(text))
        except ValueError as error:
            raise bad_value("--topology", text, str(error)) from None
    return found


def described(families: Sequence[str], topologies: Sequence[Topology]) -> dict[str, dict[str, Any]]:
    """Of each family ``presets``, as plain data, and ``problem``: why it has none, or None.

    A preset that cannot be made has its own ``problem`` and no numbers.
    """
    from recoverybench.campaign.sizes import sizes_of

    presets: dict[str, list[str]] = {}
    problems: dict[str, str] = {}
    for family in families:
        try:
            presets[family] = [f"{family}:{preset}" for preset in catalogue.presets(family)]
        except HarnessError as error:
            presets[family], problems[family] = [], str(error)
    progress = _Progress()
    found = sizes_of([name for names in presets.values() for name in names], told=progress.say)
    progress.done()
    return {
        family: {
            "presets": [_described(name, found[name], topologies) for name in names],
            "problem": problems.get(family),
        }
        for family, names in presets.items()
    }


def commands() -> list[dict[str, Any]]:
    """The training commands that ship, like families, but with no preset: nobody sees inside."""
    return [
        {
            "name": name,
            "summary": text,
            "source": f"workloads/{name}.toml",
            "presets": [],
            "problem": None,
        }
        for name, text in shipped()
    ]


def _described(
    name: str, sizes: Sizes | RecoverybenchError, topologies: Sequence[Topology]
) -> dict[str, Any]:
    if isinstance(sizes, RecoverybenchError):
        nothing = dict.fromkeys(NUMBERS)
        return {"name": name, **nothing, "axes": [], "problem": str(sizes), "topologies": []}
    numbers = {key: getattr(sizes, key) for key in NUMBERS}
    on = [_on(name, sizes, topology) for topology in topologies]
    return {"name": name, **numbers, "axes": list(sizes.axes), "problem": None, "topologies": on}


def _on(name: str, sizes: Sizes, topology: Topology) -> dict[str, Any]:
    why = why_not_on(name, topology) or sizes.why_not_on(topology)
    count = None if why else sizes.device_bytes(topology)
    return {"topology": str(topology), "device_bytes": count, "problem": why}


def table(family: dict[str, Any], topologies: Sequence[Topology]) -> list[str]:
    """Lines of one family of `described`: a head, and a line a preset, in aligned columns."""
    presets = family["presets"]
    if not presets:
        return [f"  {family['problem']}"] if family["problem"] else []
    heads = ["", "parameters", "state", "checkpoint", "batch"]
    heads += [f"a device of {topology}" for topology in topologies]
    rows, reasons = [heads], []
    for preset in presets:
        rows.append(_row(preset, len(heads)))
        if preset["problem"] is not None:
            reasons.append(f"  {preset['name']}: {preset['problem']}")
        for on in preset["topologies"]:
            if on["problem"] is not None:
                reasons.append(
                    f"  {preset['name']} not on {on['topology']}: expected {on['problem']}"
                )
    widths = [max(len(row[place]) for row in rows) for place in range(len(heads))]
    lines = [
        "  ".join(
            [f"  {row[0]:<{widths[0]}}"]
            + [f"{cell:>{w}}" for cell, w in zip(row[1:], widths[1:], strict=True)]
        ).rstrip()
        for row in rows
    ]
    return lines + reasons


def _row(preset: dict[str, Any], length: int) -> list[str]:
    name, batch = preset["name"], preset["batch_size"]
    if preset["problem"] is not None:
        return [name, *["—"] * (length - 1)]
    parameters = preset["parameters"]
    return [
        name,
        "—" if parameters is None else count_words(parameters),
        bytes_words(preset["state_bytes"]),
        bytes_words(preset["checkpoint_bytes"]),
        str(batch),
        *("—" if on["problem"] else bytes_words(on["device_bytes"]) for on in preset["topologies"]),
    ]


class _Progress:
    """One line on stderr that is written over and at last removed; nothing without a terminal."""

    def __init__(self) -> None:
        self._said = False

    def say(self, name: str) -> None:
        if sys.stderr.isatty():
            click.echo(f"\r\033[Kfinding out the sizes of {name} …", nl=False, err=True)
            self._said = True

    def done(self) -> None:
        if self._said:
            click.echo("\r\033[K", nl=False, err=True)
