"""A cell: one combination of factors, and its spelling."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

from recoverybench.topology import Topology

FACTORS = (
    "workload",
    "topology",
    "strategy",
    "state_source",
    "fault",
    "trigger",
    "interval",
    "victim",
    "heartbeat_s",
    "watchdog_s",
    "coordinator",
    "compile_cache",
    "watchdog_factor",
    "replica_check",
    "agreement",
    "restore_topology",
    "checkpoint",
    "page_cache",
    "environment",
)
"""Every factor of a matrix, in the order in which reports show them."""

_ALWAYS = FACTORS.index("agreement") + 1
"""How many of them are always in a cell's key. Later ones are only where they are asked for: a
trial's seed depends on the key, and a new factor must not change the trials of old suites.
"""


@dataclass(frozen=True, slots=True)
class Cell:
    """One combination of factors. Plain data: it names parts, and holds none.

    Attributes:
        workload: ``family:preset``.
        topology: ``WxD`` or ``WxD:axis=n,…``, see `topology.Topology`.
        strategy: name of a strategy.
        state_source: name of a state source.
        fault: ``name`` or ``name:argument``.
        trigger: ``kind:argument``.
        interval: steps between checkpoints.
        victim: the worker that is broken; None lets the seed choose.
        heartbeat_s: the coordination service's heartbeat timeout, seconds.
        watchdog_s: no step for that long is evidence of a hang, seconds; None: no watchdog.
        coordinator: where the coordination service lives: ``worker0`` | ``external``.
        compile_cache: ``executable`` | ``persistent`` | ``off``.
        watchdog_factor: no step for that many of the job's own steps is evidence of a hang.
        replica_check: when workers compare their copies of the state: ``off`` | ``save``.
        agreement: whether workers that can rejoin keep agreeing on who is left: ``off`` | ``on``.
        restore_topology: topology that the recovery brings the job back on; None: the same.
        checkpoint: options of checkpoints, as `plan.checkpoints` spells them.
        page_cache: ``warm`` | ``cold``: whether the checkpoints are in memory at the injection.
        environment: what the workers run on: requirements such as ``jax==0.10.1``, several with
            one space between them, or ``python:PATH``; None: what runs the supervisor.
    """

    workload: str
    topology: str
    strategy: str
    state_source: str
    fault: str
    trigger: str
    interval: int
    victim: int | None
    heartbeat_s: float
    watchdog_s: float | None
    coordinator: str
    compile_cache: str
    watchdog_factor: float | None = None
    replica_check: str = "off"
    agreement: str = "off"
    restore_topology: str | None = None
    checkpoint: str = "default"
    page_cache: str = "warm"
    environment: str | None = None

    @property
    def mesh(self) -> Topology:
        """The topology, read."""
        return Topology.of(self.topology)

    def as_dict(self) -> dict[str, Any]:
        """Every factor by name, in the order of `FACTORS`."""
        return {name: getattr(self, name) for name in FACTORS}

    @property
    def key(self) -> str:
        """A stable, readable identity: the factors joined by ``/``."""
        values = self.as_dict()
        always = ["-" if values[name] is None else str(values[name]) for name in FACTORS[:_ALWAYS]]
        usual = {f.name: f.default for f in dataclasses.fields(self)}
        asked = [f"{n}={values[n]}" for n in FACTORS[_ALWAYS:] if values[n] != usual[n]]
        return "/".join([*always, *asked])

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Cell:
        """The inverse of `as_dict`; unknown keys raise `KeyError`, missing ones `TypeError`."""
        names = {f.name for f in dataclasses.fields(cls)}
        if unknown := set(data) - names:
            raise KeyError(f"unknown factor {sorted(unknown)[0]!r}")
        return cls(**data)
