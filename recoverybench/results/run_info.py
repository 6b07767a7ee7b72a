"""What `run.json` holds: what was run, on what, by which code."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from recoverybench import machine
from recoverybench.plan.suite import Suite
from recoverybench.records import TrialRecord
from recoverybench.results import provenance
from recoverybench.results.shapes import check_shape
from recoverybench.vocabulary import SCHEMA_VERSION

STATUSES = ("running", "complete", "interrupted", "failed")


@dataclass(frozen=True, slots=True)
class RunInfo:
    """What `run.json` holds.

    Attributes:
        schema: version of the format. run_id: name of the run.
        created: ISO-8601, UTC. status: one of `STATUSES`; a run that was cut off stays
            ``running``.
        wall_s: seconds spent on it, all sessions together.
        suite: as resolved, every default filled in.
        environment: version of ``python`` and of each package that counts
            (`provenance.PACKAGES`); None where it is not installed.
        machine: ``system``, ``kernel``, ``cpu``, ``cores_usable``, ``memory_total_bytes``, limits
            of the control group and more, as `machine.describe` finds them; of accelerators also
            ``device_kind``, and ``devices``: their ``topology``, ``runtime`` and ``libtpu`` as the
            first trial says (`TrialRecord.devices`).
        git: ``commit`` of the checkout that measured, and whether its files differed (``dirty``);
            None: it ran from no checkout.
        seed: of the run. label: a name for people, such as a release, or None.
        command: words of the command line. launcher: name of the launcher.
        environments: of each environment that is not the supervisor's own: ``python``,
            ``packages`` (name -> version of everything that is installed there) and their
            ``sha256``.
        workloads: name -> fingerprint of its files (SHA-256); empty in runs of before they were
            kept.
        ended: of each cell (`Cell.key`) that gets no more trials: ``trials`` (the number that
            was asked for), ``precision`` (its median is known well enough) or ``budget``.
    """

    schema: int
    run_id: str
    created: str
    status: str
    wall_s: float
    suite: Suite
    environment: dict[str, str | None]
    machine: dict[str, Any]
    git: dict[str, Any] | None
    seed: int
    label: str | None
    command: list[str]
    launcher: str
    environments: dict[str, dict[str, Any]] = field(default_factory=dict)
    workloads: dict[str, str] = field(default_factory=dict)
    ended: dict[str, str] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """Plain JSON data."""
        plain = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}
        return {**plain, "suite": self.suite.as_dict()}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> RunInfo:
        """The inverse of `as_dict`; `ShapeError` on foreign data."""
        check_shape(_paired(data), cls)
        return cls(**{**data, "suite": Suite.from_dict(data["suite"])})


def _paired(data: Mapping[str, Any]) -> Mapping[str, Any]:
    """`data` with the suite's unsupported cells as pairs, which is what a `Suite` holds."""
    suite = data.get("suite") if isinstance(data, dict) else None
    entries = suite.get("unsupported") if isinstance(suite, dict) else None
    if not isinstance(suite, dict) or not isinstance(entries, list):
        return data
    names = ["cell", "reason"]
    pairs = [[e[n] for n in names] if isinstance(e, dict) and [*e] == names else e for e in entries]
    return {**data, "suite": {**suite, "unsupported": pairs}}


def describe_run(
    suite: Suite,
    run_id: str,
    *,
    command: list[str],
    launcher: str,
    label: str | None = None,
    workloads: Mapping[str, str] | None = None,
    environments: Mapping[str, dict[str, Any]] | None = None,
) -> RunInfo:
    """A `RunInfo` for a run that starts now, here. Its label is, by default, the release that git
    describes: a tag, or the nearest one with the commits since.
    """
    return RunInfo(
        schema=SCHEMA_VERSION,
        run_id=run_id,
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        status="running",
        wall_s=0.0,
        suite=suite,
        environment=provenance.versions(),
        machine=machine.describe(),
        git=provenance.git_state(),
        seed=suite.seed,
        label=provenance.release() if label is None else label,
        command=command,
        launcher=launcher,
        workloads=dict(workloads or {}),
        environments=dict(environments or {}),
    )


def with_devices(info: RunInfo, record: TrialRecord) -> RunInfo:
    """`info` with what a trial says of its accelerators, if it is the first that says something.

    Devices that are no more than their platform add nothing. Another environment may have other
    versions, which stand in its own trials.
    """
    devices = record.devices
    kind = devices.get("kind")
    known = "device_kind" in info.machine or record.cell.environment is not None
    if known or kind is None or kind == devices.get("platform"):
        return info
    of_a_job = ("platform", "kind", "local", "total")
    added = {
        "device_kind": " or ".join(kind) if isinstance(kind, list) else kind,
        "devices": {name: value for name, value in devices.items() if name not in of_a_job},
    }
    return dataclasses.replace(info, machine={**info.machine, **added})


def default_run_id(suite: Suite, now: datetime, results: Path) -> str:
    """``quick-20261201-143005``, in UTC; with ``-2``, ``-3`` … where `results` holds it already."""
    base = f"{suite.name}-{now.astimezone(UTC):%Y%m%d-%H%M%S}"
    candidate, number = base, 1
    while os.path.lexists(results / candidate):
        number += 1
        candidate = f"{base}-{number}"
    return candidate
