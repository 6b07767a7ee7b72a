"""What a section of the report is, and what it is made from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from recoverybench.report.rows import Row
from recoverybench.results.store import Run

Figure = dict[str, Any]
"""A Plotly figure as plain data: ``data`` and ``layout``. Colours may be names of the page's CSS
variables. With ``rows``, the index of a row for each number on its vertical axis, the page shows
only rows that its filters let through, some at a time; a trace of one row names it as ``meta``. In
a figure without, a trace whose ``meta`` is a list of rows is there while one of them is.
"""


@dataclass(frozen=True, slots=True)
class Material:
    """What every section may read.

    Attributes:
        runs: of the report. rows: their cells, see `rows_of`.
    """

    runs: Sequence[Run]
    rows: Sequence[Row]

    @property
    def several(self) -> bool:
        """The report is of more than one run."""
        return len(self.runs) > 1


@dataclass(frozen=True, slots=True)
class Section:
    """One section of the page.

    Attributes:
        id: its address in the page, and the name of its template, ``sections/<id>.html.j2``.
        name: in the list of sections.
        data: what its template reads, as ``d``.
        figures: id -> figure. The template has ``<div class="chart" data-figure="ID">`` for each.
    """

    id: str
    name: str
    data: Mapping[str, Any] = field(default_factory=dict)
    figures: Mapping[str, Figure] = field(default_factory=dict)

    @property
    def template(self) -> str:
        """Its template's name."""
        return f"report/sections/{self.id}.html.j2"
