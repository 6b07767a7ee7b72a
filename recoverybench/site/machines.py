"""``index.json``: all that a site shows, as data. Pure."""

from __future__ import annotations

import math
from typing import Any, Final

from recoverybench import __version__
from recoverybench.site import addresses
from recoverybench.site.catalogue import Catalogue, Shown, Step
from recoverybench.site.trends import Point, Release

FORMAT: Final = "recoverybench site index"
SCHEMA: Final = 1


def index(catalogue: Catalogue, url: str | None) -> dict[str, Any]:
    """Plain JSON data; docs/site.md says what each field means."""
    return {
        "format": FORMAT,
        "schema": SCHEMA,
        "recoverybench": __version__,
        "url": url,
        "feed": addresses.FEED,
        "releases": [_release(release) for release in catalogue.releases],
        "runs": [
            _run(release, number, catalogue)
            for release in catalogue.releases
            for number in range(len(release.runs))
        ],
        "cells": [_cell(shown) for shown in catalogue.shown],
        "comparisons": [
            {
                "base": one.pair.base.name,
                "new": one.pair.new.name,
                "runs": [list(runs) for runs in one.pair.runs],
                "environment": one.pair.environment,
                "page": one.page,
                "data": addresses.comparison_data(one.page),
                "answer": one.answer,
                "compared": len(one.verdicts),
                "not_compared": one.not_compared,
            }
            for one in catalogue.compared
        ],
        "skipped": [{"directory": one.name, "reason": one.reason} for one in catalogue.skipped],
        "failed": [{"comparison": one.name, "reason": one.reason} for one in catalogue.failed],
    }


def _release(release: Release) -> dict[str, Any]:
    return {
        "name": release.name,
        "kind": "label" if release.labelled else "run",
        "created": release.created,
        "runs": [run.run_id for run in release.runs],
    }


def _run(release: Release, number: int, catalogue: Catalogue) -> dict[str, Any]:
    run = release.runs[number]
    return {
        "run_id": run.run_id,
        "label": run.label,
        "created": run.created,
        "status": run.status,
        "suite": run.suite,
        "cells": len(run.cells),
        "trials": run.trials,
        "recovered": run.recovered,
        "page": addresses.run_page(run.run_id),
        "data": addresses.run_data(run.run_id),
        "fingerprint": catalogue.fingerprints[run.run_id],
    }


def _cell(shown: Shown) -> dict[str, Any]:
    trend = shown.trend
    return {
        "label": shown.label,
        "workload": trend.cell.workload,
        "page": shown.page,
        "factors": trend.cell.as_dict() | {"environment": trend.environment},
        "lines": [
            {
                "machine": dict(line.points[-1].key.machine),
                "settings": dict(line.points[-1].key.settings),
                "workload_sha256": line.points[-1].key.workload,
                "factors": line.cell.as_dict() | {"environment": trend.environment},
                "points": [_point(point) for point in line.points],
            }
            for line in trend.lines
        ],
        "changes": [_change(step) for step in shown.changes],
    }


def _point(point: Point) -> dict[str, Any]:
    found = point.recovery
    interval = None if found is None else found.interval
    return {
        "release": point.release.name,
        "runs": list(point.runs),
        "trials": point.trials,
        "judged": point.judged,
        "recovered": point.recovered,
        "outcomes": point.outcomes,
        "median_s": found and found.median,
        "beyond_s": found and found.bound,
        "low_s": interval and interval.low,
        "high_s": interval.high if interval and math.isfinite(interval.high) else None,
        "confidence": interval and round(interval.confidence, 6),
    }


def _change(step: Step) -> dict[str, Any]:
    assert step.verdict is not None
    return {
        "base": step.base.release.name,
        "new": step.new.release.name,
        "verdict": step.verdict.verdict,
        "ratio": step.verdict.ratio,
        "reasons": list(step.verdict.reasons),
        "page": step.page,
    }
