"""Runs on their way to a site: which ones count, what they come to, and the page of each."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Final

from recoverybench.errors import UsageError
from recoverybench.results import store as results
from recoverybench.site import addresses
from recoverybench.site.program import program
from recoverybench.site.scan import Found, Skipped, said
from recoverybench.site.summary import RunSummary, summarise
from recoverybench.site.tree import Tree

SCHEMA: Final = 1


@dataclass(slots=True)
class Sources:
    """The runs of a site.

    Attributes:
        runs: what each comes to, by id. found: where each is, by id.
        skipped: what is left out, with the reason.
    """

    runs: dict[str, RunSummary] = field(default_factory=dict)
    found: dict[str, Found] = field(default_factory=dict)
    skipped: list[Skipped] = field(default_factory=list)

    def load(self, run_id: str) -> results.Run:
        """Read a run again."""
        return results.load(self.found[run_id].path)

    @property
    def fingerprints(self) -> dict[str, str]:
        """Of each run that is there, by its id."""
        return {name: found.fingerprint for name, found in self.found.items()}


def read_sources(
    found: Sequence[Found],
    skipped: Iterable[Skipped],
    tree: Tree,
    folder: Path,
    say: Callable[[str], None],
) -> Sources:
    """Read what is new, take over what is not, and make the page of each run.

    A run that cannot be read, or of which no page can be made, is left out with the reason; so
    is a copy of another one, and every run but one of those with the same id.

    Args:
        found: directories with runs. skipped: what was left out already.
        tree: where pages go. folder: the results directory, for messages.
        say: is told what is being made.
    """
    sources = Sources(skipped=list(skipped))
    for one in _each_once(found, sources.skipped, folder):
        made_of = hashlib.sha256(f"{program()} {one.fingerprint}".encode()).hexdigest()
        summary = _kept(made_of, tree)
        pages: tuple[bytes, bytes] | None = None
        if summary is None:
            say(one.path.name)
            try:
                summary, *made = _made(one)
                pages = (made[0], made[1])
            except Exception as error:  # whatever one run has in it, the others are shown
                sources.skipped.append(Skipped(one.path.name, said(error, folder)))
                continue
        if summary.run_id in sources.found:
            sources.skipped.append(_same_id(one, sources.found[summary.run_id]))
            continue
        if pages is not None:
            tree.write(addresses.run_page(summary.run_id), pages[0], made_of)
            tree.write(addresses.run_data(summary.run_id), pages[1], made_of)
        sources.runs[summary.run_id] = summary
        sources.found[summary.run_id] = one
    if sources.runs:
        _put_charts(tree)
    sources.skipped.sort(key=lambda skipped: skipped.name)
    return sources


def _each_once(found: Sequence[Found], skipped: list[Skipped], folder: Path) -> list[Found]:
    """One directory of each run: copies, and other states of a run, are skipped."""
    by_content: dict[str, Found] = {}
    for one in found:
        first = by_content.setdefault(one.fingerprint, one)
        if first is not one:
            skipped.append(Skipped(one.path.name, f"a copy of {first.path.name}"))
    by_id: dict[str | None, list[Found]] = defaultdict(list)
    for one in by_content.values():
        by_id[one.run_id].append(one)
    chosen = by_id.pop(None, [])
    for same in by_id.values():
        best = same[0] if len(same) == 1 else _best(same)
        chosen.append(best)
        skipped += [_same_id(one, best) for one in same if one is not best]
    return sorted(chosen, key=lambda one: one.path.name)


def _best(same: Sequence[Found]) -> Found:
    """Of several states of a run, the one that got furthest."""

    def far(one: Found) -> tuple[bool, int, str]:
        try:
            run = results.load(one.path)
        except Exception:  # said once more, and shown, if it is the best of them
            return (False, -1, one.path.name)
        return (run.info.status == "complete", len(run.trials), one.path.name)

    return max(same, key=far)


def _same_id(one: Found, shown: Found) -> Skipped:
    reason = f"it has the id of the run in {shown.path.name}, which is shown, and other content"
    return Skipped(one.path.name, reason)


def _kept(made_of: str, tree: Tree) -> RunSummary | None:
    """What a run comes to whose page and data are there already, and stay; else None."""
    at = tree.find("data/runs", made_of)
    kept = None if at is None else tree.peek(at, made_of)
    if at is None or kept is None:
        return None
    summary = RunSummary.from_dict(json.loads(kept)["run"])
    both = tree.has(addresses.run_page(summary.run_id), made_of) and tree.has(at, made_of)
    return summary if both else None


def _made(one: Found) -> tuple[RunSummary, bytes, bytes]:
    """What a run comes to, with its page and its data.

    Raises:
        UsageError: it cannot be used. Exception: no page can be made of it.
    """
    run = results.load(one.path)
    summary = summarise(run)
    data = {"schema": SCHEMA, "fingerprint": one.fingerprint, "run": summary.as_dict()}
    content = as_bytes(data)
    # As it will be read the next time, so that both times come to the same.
    return RunSummary.from_dict(json.loads(content)["run"]), report_of(run), content


def report_of(run: results.Run) -> bytes:
    """The report of a run as a page of the site, which shares plotly.js with the others."""
    from recoverybench.report import render

    # Where the run lies on this machine is nobody's business.
    run = dataclasses.replace(run, path=Path(run.info.run_id))
    text = render([run], chart_script=f"../{_plotly()[0]}", home=f"../{addresses.INDEX}")
    return text.encode("utf-8", "backslashreplace")


def _put_charts(tree: Tree) -> None:
    """Put plotly.js where all reports find it."""
    known = tree.find("assets", program())
    if known is None or not tree.has(known, program()):
        path, content = _plotly()
        tree.write(path, content, program())


@cache
def _plotly() -> tuple[str, bytes]:
    """Its address, of which the name says what is there, and its content."""
    from recoverybench.web.charts import plotly

    content = plotly().encode()
    return f"assets/plotly-{hashlib.sha256(content).hexdigest()[:16]}.js", content


def as_bytes(data: Any) -> bytes:
    """JSON as it is kept on a site: compact, the same for the same data, and no NaN in it."""
    text = json.dumps(_finite(data), ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return text.encode() + b"\n"


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if abs(value) != float("inf") and value == value else None
    if isinstance(value, dict):
        return {str(key): _finite(item) for key, item in value.items()}
    return [_finite(item) for item in value] if isinstance(value, list | tuple) else value


def none_to_show(results_dir: Path, skipped: Sequence[Skipped]) -> UsageError:
    """That there is nothing to publish."""
    first = f" ({skipped[0].name}: {skipped[0].reason})" if skipped else ""
    return UsageError(f"RESULTS_DIR = {str(results_dir)!r}: expected a directory of runs{first}")
