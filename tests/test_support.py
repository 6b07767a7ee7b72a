"""What is refused before anything starts, and why."""

from __future__ import annotations

import dataclasses

import pytest

from recoverybench import capabilities
from recoverybench.plan import catalogue
from recoverybench.plan.support import missing_capability, needs, unsupported
from tests.sample_run import make_cell

CELL = make_cell(workload="mlp:tiny", watchdog_s=5.0, coordinator="worker0")


def why(**changes: object) -> str | None:
    return unsupported(dataclasses.replace(CELL, **changes))  # type: ignore[arg-type]


@pytest.mark.parametrize("strategy", ["restart", "warm-restart", "suspend-resume"])
def test_what_is_in_memory_does_not_outlive_the_processes(strategy: str) -> None:
    assert "memory of the workers" in str(why(strategy=strategy, state_source="peer"))
    assert why(strategy=strategy, state_source="storage") is None


@pytest.mark.parametrize("trigger", ["rendezvous", "restore", "compile"])
def test_a_resumed_job_has_nothing_in_memory(trigger: str) -> None:
    assert "resumes the job" in str(why(state_source="peer", trigger=trigger))


def test_a_source_that_saves_nothing_has_no_save_to_strike_in() -> None:
    assert "saves nothing" in str(why(state_source="peer", trigger="save"))
    assert why(state_source="peer", trigger="random") is None


def test_agreement_needs_survivors() -> None:
    assert "agreement" in str(why(strategy="restart", agreement="on"))
    assert why(strategy="elastic", agreement="on") is None


def test_a_smaller_mesh_must_divide_the_batch() -> None:
    assert "batch" in str(why(strategy="shrink", topology="6x1"))
    assert why(strategy="shrink", topology="4x1") is None


def test_a_missing_capability_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(capabilities.MISSING, "nftables", lambda: "no nft command")
    monkeypatch.setitem(capabilities.MISSING, "network-namespaces", lambda: None)
    assert "nftables" in needs("faults", "partition")
    assert missing_capability("faults", "partition") == (
        "fault partition needs nftables: no nft command"
    )
    assert why(fault="partition") == "fault partition needs nftables: no nft command"


def test_the_trigger_on_file_operations_needs_the_gate(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(capabilities.MISSING, "user-notification", lambda: "no such system call")
    assert "user-notification" in str(why(trigger="save:3"))
    assert why(trigger="save") is None


def test_every_need_is_a_capability_that_can_be_tried() -> None:
    for kind in ("faults", "strategies"):
        for name in catalogue.names(kind):
            assert set(needs(kind, name)) <= capabilities.MISSING.keys(), name


def test_every_fault_says_what_it_needs_and_is_documented() -> None:
    for entry in catalogue.entries("faults"):
        assert catalogue.literal("faults", entry.name, "NEEDS") is not None, entry.name
        assert entry.path is not None
        assert len(entry.path.read_text().split('"""')[1].splitlines()) > 3, entry.name
        assert entry.name in _documentation(), f"{entry.name} is not in docs/suites.md"


def _documentation() -> str:
    return (catalogue.workloads_dir().parent / "docs" / "suites.md").read_text()
