"""The feed of a site: an entry for each comparison in which something changed (RFC 4287). Pure."""

from __future__ import annotations

import re
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from markupsafe import Markup

from recoverybench.site.catalogue import Catalogue, Change
from recoverybench.site.releases import instant
from recoverybench.site.trends import Pair
from recoverybench.site.verdicts import BETTER, WORSE
from recoverybench.site.wording import cell_text, cells_text
from recoverybench.visible import clean
from recoverybench.web.templating import render

_ENTRIES: Final = 100
"""Of the newest changes; older ones stay on the site."""

_SPACE: Final = uuid.UUID("6b8f3f0a-4f4e-5f57-9b0c-6f3d2f1c7a21")
"""In which names of pages are turned into ids, where no address of the site is known."""

_FORBIDDEN: Final = re.compile("[^\t\n\r -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""What XML 1.0 cannot hold."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry.

    Attributes:
        id: the same for ever. title: one line. link: address of the comparison.
        updated: RFC 3339. lines: a phrase a change.
    """

    id: str
    title: str
    link: str
    updated: str
    lines: tuple[str, ...]


def feed(catalogue: Catalogue, url: str | None) -> str:
    """The feed as XML.

    Args:
        catalogue: what is on the site.
        url: address of the site, with ``/`` at its end; None: links are relative to the feed, and
            ids are made of the names of pages.
    """
    entries = entries_of(catalogue, url)
    made = [_newest(release.runs) for release in catalogue.releases]
    text = render(
        "site/feed.xml.j2",
        id=identity("feed.xml", url),
        self_link=None if url is None else f"{url}feed.xml",
        link=url or "index.html",
        updated=rfc3339(max(made)),
        entries=entries,
        xml=xml,
    )
    return text + "\n"


def entries_of(catalogue: Catalogue, url: str | None) -> list[Entry]:
    """The entries, the newest first."""
    changes: dict[str, list[Change]] = {}
    for change in catalogue.changes:
        changes.setdefault(change.step.page, []).append(change)
    dated = []
    for one in catalogue.compared:
        if found := changes.get(one.page):
            pair = one.pair
            updated = _newest([r for r in pair.new.runs if r.run_id in pair.runs[1]])
            entry = Entry(
                id=identity(one.page, url),
                title=_title(pair, found),
                link=f"{url or ''}{one.page}",
                updated=rfc3339(updated),
                lines=tuple(_line(change) for change in found),
            )
            dated.append((updated, pair.new.at, one.page, entry))
    dated.sort(key=lambda item: item[:3], reverse=True)
    return [entry for *_, entry in dated[:_ENTRIES]]


def identity(page: str, url: str | None) -> str:
    """The id of something with this address, an IRI that never changes."""
    return f"urn:uuid:{uuid.uuid5(_SPACE, page)}" if url is None else f"{url}{page}"


def rfc3339(when: datetime) -> str:
    """A moment in UTC, to the second."""
    return when.strftime("%Y-%m-%dT%H:%M:%SZ").rjust(20, "0")


def xml(text: str) -> Markup:
    """Text of a run that XML can hold, wherever it stands."""
    shown = clean(text)
    shown = _FORBIDDEN.sub(lambda found: ascii(found[0])[1:-1], shown)
    return Markup.escape(shown)


def _newest(runs: Sequence[object]) -> datetime:
    return max(instant(str(getattr(run, "created", ""))) for run in runs)


def _title(pair: Pair, changes: Sequence[Change]) -> str:
    counts = []
    for word in (WORSE, BETTER):
        number = sum(c.step.verdict is not None and c.step.verdict.verdict == word for c in changes)
        if number:
            counts.append(f"{cells_text(number)} {word}")
    at = "" if pair.environment is None else f" on {pair.environment}"
    return f"{pair.new.name} against {pair.base.name}{at}: {', '.join(counts)}"


def _line(change: Change) -> str:
    assert change.step.verdict is not None
    verdict = change.step.verdict
    return f"{cell_text(change)} is {verdict.verdict}: {'; '.join(verdict.reasons)}"
