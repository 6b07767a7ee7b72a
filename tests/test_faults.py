"""Faults before anything starts: their names, arguments, documentation, and what they refuse."""

from __future__ import annotations

import ast
import dataclasses
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recoverybench import capabilities
from recoverybench.errors import UsageError
from recoverybench.faults import base, kill_many
from recoverybench.plan import catalogue
from tests.sample_run import make_cell

NAMES = catalogue.names("faults")

CELL = make_cell(
    workload="mlp:tiny", trigger="step:17", interval=5, watchdog_s=5.0, coordinator="worker0"
)

FROM_STORAGE = (
    "bit-flip",
    "truncate",
    "missing-file",
    "missing-file:manifest",
    "empty-step",
    "leftover-tmp",
    "wrong-step",
    "lost-data-state",
)
IN_THE_LOOP = (
    "async-exception",
    "bit-flip-memory",
    "exit",
    "lock-gil",
    "nan",
    "oom",
    "raise",
    "slow",
    "stuck",
)


def made(text: str) -> base.Fault:
    name, _, argument = text.partition(":")
    fault: base.Fault = catalogue.load("faults", name).create(argument or None)
    return fault


def refused(text: str, **factors: Any) -> str | None:
    return made(text).unsupported(dataclasses.replace(CELL, fault=text, **factors))


@pytest.mark.parametrize("name", NAMES)
def test_a_fault_documents_itself(name: str) -> None:
    path = catalogue.find("faults", name).path
    assert path is not None
    words = (ast.get_docstring(ast.parse(path.read_bytes())) or "").split("\n\n", 1)
    assert len(words) == 2, f"{path.name} says in one line what it is, and nothing more"
    assert "needs" in words[1].lower(), f"{path.name} does not say what it needs"
    needs = catalogue.literal("faults", name, "NEEDS")
    assert needs is not None, f"{path.name} does not say what it needs"
    assert set(needs) <= capabilities.MISSING.keys()
    assert catalogue.load("faults", name).__name__.endswith(path.stem)


@pytest.mark.parametrize(
    "text",
    [
        *(name for name in IN_THE_LOOP),
        *FROM_STORAGE,
        "segv",
        "abort",
        "interrupt",
        "kill-all",
        "kill-coordinator",
        "kill-many",
        "kill-many:2",
        "cache-lost",
        "cache-corrupt",
        "exit:3",
        "exit:clean",
        "exit:clean-255",
        "raise:MemoryError",
        "oom:cgroup",
        "oom:rlimit",
        "slow:1.5",
        "slow:10:250ms",
        "bit-flip-memory:7",
        "preempt:unhandled",
        "missing-file:metadata",
    ],
)
def test_what_is_allowed_after_the_colon(text: str) -> None:
    assert made(text).name == text.partition(":")[0]


@pytest.mark.parametrize(
    "text",
    [
        *(f"{name}:x" for name in NAMES if name not in ("replay", "poisson")),
        "exit:0",
        "exit:256",
        "exit:clean-0",
        "exit:-1",
        "exit:①",
        "kill-many:1",
        "kill-many:0",
        "raise:KeyboardInterrupt",
        "raise:UnicodeDecodeError",
        "raise:print",
        "slow:1",
        "slow:nan",
        "slow:inf",
        "slow:5:0s",
        "slow:5:never",
        "oom:swap",
        "bit-flip-memory:-1",
        "missing-file:data",
    ],
)
def test_what_is_not_allowed_is_refused_in_one_line(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        made(text)
    assert "\n" not in str(caught.value)
    assert "expected" in str(caught.value) or "known" in str(caught.value)


@pytest.mark.parametrize("text", FROM_STORAGE)
def test_damage_to_a_checkpoint_needs_one_that_is_read(text: str) -> None:
    assert refused(text) is None
    for source in ("local", "snapshot", "peer"):
        assert source in (refused(text, state_source=source) or "")
    assert "no checkpoint" in (refused(text, trigger="step:5", interval=5) or "")
    assert refused(text, trigger="step:6", interval=5) is None
    for trigger in ("time:1s", "random", "save", "save:3:torn"):
        assert "stand still" in (refused(text, trigger=trigger) or "")
    for trigger in ("rendezvous", "restore", "compile"):
        assert refused(text, trigger=trigger) is None


@pytest.mark.parametrize("text", IN_THE_LOOP)
def test_who_breaks_the_loop_needs_one(text: str) -> None:
    assert refused(text) is None
    for trigger in ("rendezvous", "restore", "compile"):
        assert "training loop" in (refused(text, trigger=trigger) or "")
    for trigger in ("random", "time:1s", "save"):
        assert refused(text, trigger=trigger) is None


def test_other_cells_that_cannot_be() -> None:
    assert "nobody" in (refused("kill-many:3") or "")
    assert refused("kill-many:2") is None
    assert refused("kill-many:2", topology="2x3") is not None
    for fault in ("cache-lost", "cache-corrupt"):
        assert "compile cache" in (refused(fault, compile_cache="off") or "")
        assert refused(fault, compile_cache="persistent") is None
    assert "preemption" in (refused("preempt:unhandled", strategy="suspend-resume") or "")
    assert refused("preempt:1s", strategy="suspend-resume") is None


def test_only_a_straggler_is_harmless() -> None:
    harmless = {name for name in NAMES if getattr(_class(name), "harmless", False)}
    assert harmless == {"slow"}


def _class(name: str) -> type[base.Fault]:
    module = catalogue.load("faults", name)
    return next(
        value
        for value in vars(module).values()
        if isinstance(value, type)
        and issubclass(value, base.Fault)
        and value.__module__ == module.__name__
    )


def test_a_preemption_that_nobody_handles_turns_the_service_off() -> None:
    @dataclasses.dataclass(frozen=True)
    class Spec:
        preemption_service: bool = True

    spec: Any = Spec()
    assert made("preempt:unhandled").spec(spec).preemption_service is False
    assert made("preempt:1s").spec(spec) is spec


@given(
    workers=st.integers(2, 40),
    victim=st.integers(0, 39),
    count=st.integers(2, 40),
    seed=st.integers(),
)
def test_who_is_killed_with_the_victim(workers: int, victim: int, count: int, seed: int) -> None:
    victim %= workers
    ranks: list[Any] = [SimpleNamespace(rank=rank) for rank in range(workers)]
    others = [m for m in ranks if m.rank not in (0, victim)]
    chosen = kill_many.chosen_with(ranks[victim], others, count, seed)
    killed = [m.rank for m in chosen]
    assert killed[0] == victim and len(set(killed)) == len(killed)
    assert 0 not in killed[1:]
    assert len(killed) == min(count, 1 + len(others))
    assert chosen == kill_many.chosen_with(ranks[victim], others, count, seed)


def test_the_seed_decides_who_is_killed() -> None:
    ranks: list[Any] = [SimpleNamespace(rank=rank) for rank in range(20)]
    drawn = {
        tuple(m.rank for m in kill_many.chosen_with(ranks[1], ranks[2:], 3, seed))
        for seed in range(40)
    }
    assert len(drawn) > 20
