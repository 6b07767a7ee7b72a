"""What the profiled trials say: where the time of each worker's restore and first step went."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from recoverybench.labels import NONE, outcome_name, phase_name, seconds
from recoverybench.profiles.model import KINDS, PARTS, Part, WorkerProfile
from recoverybench.profiles.reading import CellProfile, Overhead, profiles_of
from recoverybench.report.rows import Row
from recoverybench.report.section import Figure, Material, Section
from recoverybench.results.store import Run

MOST: Final = 8
"""Profiled trials that are shown."""

MOST_PROFILES: Final = 16
"""Workers' profiles of one trial that are shown."""

MOST_OPERATIONS: Final = 5
"""Operations and spans of a phase that are named; a summary has more."""

MOST_NAME: Final = 60
"""Characters of an operation's name."""

_NAMES: Final = {
    "compile": ("compile or load", "--phase-compile"),
    "device": ("device", "--phase-first_step"),
    "collective": ("exchange between workers", "--phase-rendezvous"),
    "input": ("input", "--phase-teardown"),
    "host": ("host", "--phase-replace"),
    "idle": ("waiting", "--phase-unnamed"),
}
"""Kind of instant -> its name and its colour."""

_ROW_PX: Final = 26
_GAP: Final = 0.6
"""Between two workers, in rows."""


@dataclass(frozen=True, slots=True)
class Line:
    """A phase of one worker, as the table shows it.

    Attributes:
        profile: of the worker. part: the phase.
    """

    profile: WorkerProfile
    part: Part

    @property
    def who(self) -> str:
        """The worker."""
        return who(self.profile)

    @property
    def phase(self) -> str:
        """The phase's name."""
        return phase_name(self.part.name)

    @property
    def split(self) -> list[str]:
        """Time of each kind, in their order."""
        return [seconds(s) if (s := self.part.split.get(kind, 0.0)) else NONE for kind in KINDS]

    @property
    def total(self) -> str:
        """How long it took."""
        return seconds(self.part.seconds)

    @property
    def spans(self) -> list[tuple[str, str]]:
        """What the worker was doing, by its own words, but for the phase itself."""
        found = [(n, s) for n, s in self.part.spans.items() if n != self.part.name]
        return [(name, seconds(s)) for name, s in found[:MOST_OPERATIONS]]

    @property
    def operations(self) -> list[tuple[str, str, str]]:
        """The longest: name, kind and time."""
        return [
            (_shortened(one.name), _NAMES[one.kind][0], seconds(one.seconds))
            for one in self.part.operations[:MOST_OPERATIONS]
        ]


@dataclass(frozen=True, slots=True)
class Shown:
    """A profiled trial that is shown.

    Attributes:
        position: of its run in the report. run: it is of.
        row: of its cell; None: the cell has no other trial. label: of the cell.
        profile: what is known.
    """

    position: int
    run: Run
    row: Row | None
    label: str
    profile: CellProfile

    @property
    def id(self) -> str:
        """Of its figure."""
        return f"profile-{self.position}-{self.profile.trial}"

    @property
    def name(self) -> str:
        """For the list to choose from."""
        return f"{self.label}: trial {self.profile.trial}"

    @property
    def key(self) -> str | None:
        """What the page's address calls the trial."""
        return None if self.row is None else self.row.trial_key(self.profile.record)

    @property
    def outcome(self) -> str:
        """What became of it, in words."""
        return outcome_name(self.profile.record.outcome)

    @property
    def workers(self) -> tuple[WorkerProfile, ...]:
        """Those that are shown."""
        return self.profile.workers[:MOST_PROFILES]

    @property
    def lines(self) -> list[Line]:
        """The phases of the workers."""
        return [Line(worker, part) for worker in self.workers for part in worker.parts]

    @property
    def slowest(self) -> list[Line]:
        """Of each phase that of the worker that took longest for it: the others wait for it."""
        lines = [line for line in self.lines if line.profile.generation == self._last]
        found = []
        for name in PARTS:
            own = [line for line in lines if line.part.name == name]
            if own:
                found.append(max(own, key=lambda line: line.part.seconds))
        return found

    @property
    def _last(self) -> int:
        return max((worker.generation for worker in self.workers if worker.parts), default=0)

    @property
    def problems(self) -> list[str]:
        """What there is no profile of, and what went otherwise than it should."""
        own = [self.profile.problem] if self.profile.problem else []
        left = len(self.profile.workers) - len(self.workers)
        return [
            *own,
            *(f"{who(w)}: {w.problem}" for w in self.workers if w.problem is not None),
            *(f"{who(w)}: {text}" for w in self.workers for text in w.warnings),
            *([f"{left} profiles more are in the run's files"] if left else []),
        ]

    @property
    def overhead(self) -> list[tuple[str, Overhead]]:
        """What profiling cost, by the name of the phase."""
        return [(phase_name(one.phase), one) for one in self.profile.overhead]


def _shortened(name: str) -> str:
    return name if len(name) <= MOST_NAME else f"{name[: MOST_NAME - 1]}…"


def who(profile: WorkerProfile) -> str:
    """Whose profile it is."""
    text = f"worker {profile.worker}"
    if profile.attempt:
        text += f", attempt {profile.attempt}"
    return text if profile.generation == 1 else f"{text}, generation {profile.generation}"


def shown_profiles(material: Material) -> list[Shown]:
    """The profiled trials of these runs, `MOST` of them."""
    found: list[Shown] = []
    for position, run in enumerate(material.runs):
        rows = {row.cell: row for row in material.rows if row.run == position}
        for profile in profiles_of(run)[: MOST - len(found)]:
            row = rows.get(profile.cell)
            label = row.label if row is not None else profile.cell.strategy
            found.append(Shown(position, run, row, label, profile))
    return found


def profiles_section(material: Material) -> Section | None:
    """The section; None where no trial was profiled."""
    shown = shown_profiles(material)
    if not shown:
        return None
    drawn = [one for one in shown if one.lines]
    return Section(
        "profile",
        "Profiles",
        {
            "shown": shown,
            "drawn": drawn,
            "left_out": sum(len(run.profiled) for run in material.runs) - len(shown),
            "kinds": [(*_NAMES[kind], kind) for kind in KINDS],
            "directories": [str(run.path / "profile") for run in material.runs if run.profiled],
            "tools": _tools([w for one in drawn for w in one.workers if w.parts]),
            "extra": _extra,
            "seconds": seconds,
        },
        {one.id: profile_figure(one) for one in drawn},
    )


def _tools(workers: Sequence[WorkerProfile]) -> str:
    """What xprof's tables know of these traces, in words; empty: there are none."""
    if not workers:
        return ""
    devices = " and ".join(sorted({w.device for w in workers if w.device})) or "these devices"
    known = {name for w in workers for name, rows in w.tools.items() if rows}
    silent = sorted({name for w in workers for name in w.tools} - known)
    empty = f"; of {devices}, its tables {', '.join(silent)} are empty" if silent else ""
    return f"Read with xprof{empty}."


def _extra(one: Overhead) -> str:
    """How much longer it took, in words."""
    sign = "+" if one.extra_s >= 0 else "−"
    ratio = "" if one.ratio is None else f", {one.ratio:.2f} ×"
    return f"{sign}{seconds(abs(one.extra_s))}{ratio}"


def profile_figure(shown: Shown) -> Figure:
    """A bar for each worker and phase, of what its time went into."""
    lines, places, at = shown.lines, [], 0.0
    for number, line in enumerate(lines):
        if number and line.profile is not lines[number - 1].profile:
            at += _GAP
        places.append(at)
        at += 1
    data = [
        {
            "type": "bar",
            "orientation": "h",
            "name": _NAMES[kind][0],
            "x": [line.part.split.get(kind, 0.0) for line in lines],
            "y": places,
            "width": 0.8,
            "customdata": [
                [seconds(line.part.split.get(kind, 0.0)), line.who, line.phase] for line in lines
            ],
            "hovertemplate": f"{_NAMES[kind][0]}: <b>%{{customdata[0]}}</b>"
            "<br>%{customdata[1]}, %{customdata[2]}<extra></extra>",
            "marker": {"color": _NAMES[kind][1], "line": {"color": "--card", "width": 0.5}},
        }
        for kind in KINDS
    ]
    return {"data": data, "layout": _layout(lines, places, at)}


def _layout(lines: Sequence[Line], places: Sequence[float], high: float) -> dict[str, Any]:
    first = [n == 0 or line.profile is not lines[n - 1].profile for n, line in enumerate(lines)]
    text = [
        f"<b>{line.who}</b>  {line.phase}" if begins else line.phase
        for line, begins in zip(lines, first, strict=True)
    ]
    return {
        "height": round(_ROW_PX * high) + 70,
        "showlegend": False,
        "hovermode": "closest",
        "barmode": "stack",
        "margin": {"l": 8, "r": 16, "t": 8, "b": 46},
        "xaxis": {"title": {"text": "seconds"}, "rangemode": "tozero", "nticks": 6},
        "yaxis": {
            "tickmode": "array",
            "tickvals": list(places),
            "ticktext": text,
            "range": [high - 0.5, -0.5],
            "fixedrange": True,
        },
    }
