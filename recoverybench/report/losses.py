"""Losses across the fault: one telling trial of each cell, over the reference, as figures."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from recoverybench.labels import NONE, outcome_name
from recoverybench.records import TrialRecord
from recoverybench.report.loss_reading import Losses, Point, read_losses
from recoverybench.report.rows import Row
from recoverybench.report.section import Figure, Material, Section

MOST: Final = 12
"""Cells that are shown: those with a trial that went wrong first, then from the fastest on."""

_LOOKED_AT: Final = 200
"""Cells whose trials are looked for on the disk, at most."""

_POINTS: Final = 600
"""Losses that one series draws: all near the fault, and others evenly."""

_NEAR: Final = 100
"""Steps around the fault of which every loss is drawn."""


@dataclass(frozen=True, slots=True)
class Shown:
    """One trial that is shown.

    Attributes:
        row: its cell. trial: the trial. losses: of it.
    """

    row: Row
    trial: TrialRecord
    losses: Losses

    @property
    def id(self) -> str:
        """Of its figure."""
        return f"losses-{self.row.index}"

    @property
    def key(self) -> str:
        """What the page's address calls the trial."""
        return self.row.trial_key(self.trial)

    @property
    def outcome(self) -> str:
        """What became of it, in words."""
        return outcome_name(self.trial.outcome)

    @property
    def name(self) -> str:
        """For the list to choose from."""
        return f"{self.row.label}: trial {self.trial.trial}, {self.outcome}"

    @property
    def different(self) -> int:
        """Losses after the fault that are not the reference's."""
        return sum(self.losses.differs(p) for p in self.losses.after)

    @property
    def compared(self) -> int:
        """Losses after the fault of whose step the reference has one."""
        return sum(bool(self.losses.reference.get(p.step)) for p in self.losses.after)

    @property
    def largest(self) -> str:
        """The largest difference from the reference after the fault, in words."""
        if not self.compared:
            return NONE
        if not self.different:
            return "none, bit for bit"
        found = [abs(d) for p in self.losses.after if (d := self.losses.difference(p)) is not None]
        size = f"{max(found):.2g}" if any(found) else ""
        odd = sum(not math.isfinite(p.loss) for p in self.losses.after)
        said = [size] if size else []
        return ", ".join([*said, *([f"{odd} not a number"] if odd else [])]) or NONE

    @property
    def ends(self) -> tuple[tuple[str, str], ...]:
        """Step and loss with the reference's: the last before, the first and the last after."""
        before, after = self.losses.before[-1:], self.losses.after
        return tuple(
            self._said(points[0]) if points else (NONE, NONE)
            for points in (before, after[:1], after[-1:])
        )

    def _said(self, point: Point) -> tuple[str, str]:
        expected = self.losses.reference.get(point.step)
        return (
            f"{point.step:,}: {_loss(point.loss)}",
            f"reference {_loss(expected[0][0])}" if expected else "no reference",
        )


def _loss(value: float) -> str:
    return f"{value:.6g}" if math.isfinite(value) else "not a number"


def shown_losses(material: Material) -> list[Shown]:
    """At most `MOST` trials whose journals hold losses, in the order of the rows."""
    told = [(row, trial) for row in material.rows if (trial := telling(row)) is not None]
    ranked = sorted(told, key=lambda pair: pair[1].outcome == "recovered")
    found: list[Shown] = []
    for row, trial in ranked[:_LOOKED_AT]:
        if len(found) == MOST:
            break
        losses = read_losses(material.runs[row.run].path, trial)
        if losses is not None:
            found.append(Shown(row, trial, losses))
    return sorted(found, key=lambda one: one.row.index)


def telling(row: Row) -> TrialRecord | None:
    """The trial that says most: one that is not the same training any more, else the median one of
    those that recovered, else the first that was struck.
    """
    struck = [t for t in row.trials if t.t_inject is not None]
    wrong = [t for t in struck if t.outcome in ("diverged", "silent_corruption")]
    back = sorted(
        (t for t in struck if t.outcome == "recovered"), key=lambda t: t.recovery_s or 0.0
    )
    return next(iter([*wrong[:1], *back[(len(back) - 1) // 2 :][:1], *struck[:1]]), None)


def losses_section(material: Material) -> Section | None:
    """The section; None where no journal of a trial is there."""
    found = shown_losses(material)
    drawn = [one for one in found if one.losses.before or one.losses.after]
    if not drawn:
        return None
    first = next((one for one in drawn if one.different), drawn[0])
    data = {
        "shown": found,
        "drawn": drawn,
        "first": first.id,
        "left_out": max(len(material.rows) - len(found), 0),
        "troubles": [one for one in found if one.losses.trouble],
    }
    return Section(
        "losses", "Loss across the fault", data, {one.id: loss_figure(one) for one in drawn}
    )


def loss_figure(one: Shown) -> Figure:
    """The reference as a line, losses before and after the fault as rings and dots over it; below,
    how far they are from it, where they are not the same.
    """
    losses, trial = one.losses, one.trial
    before, after = (_thinned(points, trial) for points in (losses.before, losses.after))
    apart = any(losses.difference(p) for p in (*before, *after))
    steps = [p.step for p in (*losses.before, *losses.after)]
    low, high = min(steps), max(steps)
    data = []
    if line := _reference(losses, low, high, trial):
        data.append(line)
    data += [
        _series(points, name, losses) for points, name in ((before, "before"), (after, "after"))
    ]
    odd = [p for p in (*before, *after) if not math.isfinite(p.loss)]
    if odd:
        data.append(_odd(odd))
    if apart:
        data += [
            _differences(p, name, losses) for p, name in ((before, "before"), (after, "after"))
        ]
    room = max(0.02 * (high - low), 0.5)
    layout: dict[str, Any] = {
        "height": 470 if apart else 360,
        "showlegend": False,
        "hovermode": "closest",
        "margin": {"l": 8, "r": 16, "t": 52, "b": 46},
        "xaxis": {"title": {"text": "step"}, "range": [low - room, high + room], "anchor": "y2"}
        if apart
        else {"title": {"text": "step"}, "range": [low - room, high + room]},
        "yaxis": {
            "title": {"text": "loss"},
            "showgrid": True,
            "domain": [0.36, 1] if apart else [0, 1],
        }
        | _scale([p.loss for p in (*before, *after)]),
        "shapes": [],
        "annotations": [],
    }
    if apart:
        layout["yaxis2"] = {
            "title": {"text": "difference"},
            "domain": [0, 0.26],
            "showgrid": True,
            "zeroline": True,
            "zerolinecolor": "rgba(128,128,128,0.6)",
            "exponentformat": "e",
            "nticks": 4,
        }
    if odd:
        over = {"overlaying": "y", "range": [0, 1], "showticklabels": False, "showgrid": False}
        layout["yaxis3"] = over | {"domain": layout["yaxis"]["domain"]}
    _marks(layout, trial, low, high)
    return {"data": data, "layout": layout}


def _thinned(points: Sequence[Point], trial: TrialRecord) -> list[Point]:
    """At most about `_POINTS`, with all of them near the fault."""
    if len(points) <= _POINTS:
        return list(points)
    near = {s for s in (trial.step_before, trial.restored_step) if s is not None}
    stride = math.ceil(len(points) / (_POINTS // 2))
    last = len(points) - 1
    return [
        p
        for i, p in enumerate(points)
        if i % stride == 0 or i == last or any(abs(p.step - s) <= _NEAR // 2 for s in near)
    ]


def _reference(losses: Losses, low: int, high: int, trial: TrialRecord) -> dict[str, Any] | None:
    found = [
        Point(0, 0, step, expected[0][0], "")
        for step, expected in sorted(losses.reference.items())
        if low <= step <= high and expected
    ]
    if not found:
        return None
    line = _thinned(found, trial)
    return {
        "type": "scatter",
        "mode": "lines",
        "name": "reference",
        "x": [p.step for p in line],
        "y": [_drawable(p.loss) for p in line],
        "hoverinfo": "skip",
        "line": {"color": "--soft", "width": 2},
    }


def _series(points: Sequence[Point], name: str, losses: Losses) -> dict[str, Any]:
    """Rings before the fault, dots after it: where both are, a dot is in its ring."""
    is_before = name == "before"
    colour = "--run-0" if is_before else "--run-1"
    return {
        "type": "scatter",
        "mode": "markers",
        "name": f"{name} the fault",
        "x": [p.step for p in points],
        "y": [_drawable(p.loss) for p in points],
        "customdata": [_hover(p, losses) for p in points],
        "hovertemplate": f"step %{{x}}, {name} the fault: <b>%{{customdata[0]}}</b>"
        "<br>%{customdata[1]}<extra></extra>",
        "marker": {
            "symbol": "circle-open" if is_before else "circle",
            "size": 10 if is_before else 6,
            "color": colour,
            "line": {"width": 1.5 if is_before else 0, "color": colour},
        },
    }


def _hover(point: Point, losses: Losses) -> list[str]:
    """The loss as it was written, and how it compares."""
    expected = losses.reference.get(point.step)
    if not expected:
        return [_loss(point.loss), "no reference"]
    if not losses.differs(point):
        return [_loss(point.loss), "equal to the reference"]
    return [_loss(point.loss), f"reference {_loss(expected[0][0])}"]


def _odd(points: Sequence[Point]) -> dict[str, Any]:
    """What is no number stands as a cross at the upper edge."""
    return {
        "type": "scatter",
        "mode": "markers",
        "name": "not a number",
        "yaxis": "y3",
        "x": [p.step for p in points],
        "y": [0.97] * len(points),
        "hovertemplate": "step %{x}: <b>not a number</b><extra></extra>",
        "marker": {
            "symbol": "x-thin",
            "size": 8,
            "color": "--bad",
            "line": {"width": 2, "color": "--bad"},
        },
    }


def _differences(points: Sequence[Point], name: str, losses: Losses) -> dict[str, Any]:
    apart = [(p, d) for p in points if (d := losses.difference(p)) is not None]
    is_before = name == "before"
    return {
        "type": "scatter",
        "mode": "markers",
        "name": f"difference {name} the fault",
        "yaxis": "y2",
        "x": [p.step for p, _ in apart],
        "y": [float(f"{d:.5g}") for _, d in apart],
        "customdata": [[f"{d:.3g}"] for _, d in apart],
        "hovertemplate": "step %{x}: the loss less the reference's is <b>%{customdata[0]}</b>"
        "<extra></extra>",
        "marker": {
            "symbol": "circle-open" if is_before else "circle",
            "size": 8 if is_before else 5,
            "color": "--run-0" if is_before else "--run-1",
        },
    }


def _scale(values: Sequence[float]) -> dict[str, Any]:
    """A logarithmic axis where losses go over more than two decades."""
    known = [v for v in values if math.isfinite(v)]
    if known and min(known) > 0 and max(known) > 100 * min(known):
        return {"type": "log", "title": {"text": "loss (logarithmic)"}}
    return {}


def _marks(layout: dict[str, Any], trial: TrialRecord, low: int, high: int) -> None:
    """Where the fault struck, and the step that came back: each with a line of text of its own."""
    struck, back = trial.step_before, trial.restored_step
    marks = []
    if struck is not None:
        marks.append((struck + 0.5, 26, f"fault after step {struck:,}", "solid"))
    if back is not None:
        marks.append((back + 0.5, 4, f"back at step {back:,}", "dot"))
    for at, above, said, dash in marks:
        if not low - 1 <= at <= high + 1:
            continue
        layout["shapes"].append(
            {
                "type": "line",
                "x0": at,
                "x1": at,
                "yref": "paper",
                "y0": 0,
                "y1": 1,
                "line": {"color": "--ink", "width": 1.5, "dash": dash},
            }
        )
        # Away from the other line, where there is room for that on a phone, too.
        part = (at - low) / max(high - low, 1)
        right = part > (0.7 if at == marks[0][0] else 0.3)
        layout["annotations"].append(
            {
                "x": at,
                "xanchor": "right" if right else "left",
                "yref": "paper",
                "y": 1,
                "yshift": above,
                "yanchor": "bottom",
                "showarrow": False,
                "text": said,
                "font": {"size": 13, "color": "--ink"},
            }
        )


def _drawable(value: float) -> float | None:
    """Seven digits; None: it is no number."""
    return float(f"{value:.7g}") if math.isfinite(value) else None
