"""A results directory -> a static site."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from recoverybench.compare.folder import is_run
from recoverybench.errors import bad_value
from recoverybench.site import addresses, machines, pages
from recoverybench.site.catalogue import Catalogue, catalogue_of
from recoverybench.site.comparisons import Runs, compare_all
from recoverybench.site.feed import feed
from recoverybench.site.scan import Skipped, scan
from recoverybench.site.sources import Sources, as_bytes, none_to_show, read_sources
from recoverybench.site.tree import Changes, Tree
from recoverybench.site.trends import pairs_of, releases_of, trends_of

_URL: Final = re.compile(r"""[-A-Za-z0-9._~:/@!$&'()*+,;=%\[\]]{1,2000}""")
"""What may stand in an address without a query or a fragment (RFC 3986)."""


@dataclass(frozen=True, slots=True)
class Published:
    """A site that was written.

    Attributes:
        index: its first page. runs, releases, comparisons: how many it shows.
        regressions: cells that got worse between two neighbours, on the whole site.
        skipped: what lies among the runs and is not shown. failed: pairs of neighbours that
            cannot be compared.
        files: what was done to the site's files.
    """

    index: Path
    runs: int
    releases: int
    comparisons: int
    regressions: int
    skipped: tuple[Skipped, ...]
    failed: tuple[Skipped, ...]
    files: Changes


def publish(
    results: str | Path,
    out: str | Path,
    *,
    url: str | None = None,
    say: Callable[[str], None] = lambda _: None,
) -> Published:
    """Write a site over all runs in a directory, or bring it up to date.

    What is there already and is made of the same files by the same program is left as it is.

    Args:
        results: the directory of runs.
        out: the site's directory: new, empty, or one that this function wrote.
        url: address that the site will have, for its feed; None: the feed has relative links.
        say: is told what is being made, a few words.

    Raises:
        UsageError: there is no run, `out` holds something else or is being written by another
            process or is in a run, there is no room for the site, or `url` is no address.
        OSError: the site cannot be written.
    """
    results, out = Path(results), Path(out)
    base = None if url is None else read_url(url)
    for folder in (out.absolute(), *out.absolute().parents):
        if is_run(folder):
            raise bad_value("--out", str(out), f"a directory outside of runs ({folder} is one)")
    found, skipped = scan(results, site=out)
    if not found:
        raise none_to_show(results, skipped)
    with Tree(out) as tree:
        try:
            sources = read_sources(found, skipped, tree, results, say)
            if not sources.runs:
                raise none_to_show(results, sources.skipped)
            catalogue = _catalogue(sources, tree, results, say)
            say("the first page")
            _write(catalogue, base, tree)
            files = tree.finish()
        except OSError as error:
            raise tree.no_room(error) or error from None
    return Published(
        index=out / addresses.INDEX,
        runs=len(sources.runs),
        releases=len(catalogue.releases),
        comparisons=len(catalogue.compared),
        regressions=sum(
            change.step.verdict is not None and change.step.verdict.verdict == "worse"
            for change in catalogue.changes
        ),
        skipped=catalogue.skipped,
        failed=catalogue.failed,
        files=files,
    )


def read_url(text: str) -> str:
    """The address of a site, with ``/`` at its end.

    Raises:
        UsageError: it is none.
    """
    allowed = "an address such as https://example.org/recovery/"
    if not _URL.fullmatch(text):
        raise bad_value("--url", text, allowed)
    try:
        parts = urlsplit(text)
        port_is_one = parts.port is None or parts.port > 0
    except ValueError:
        raise bad_value("--url", text, allowed) from None
    plain = not (parts.username or parts.password) and port_is_one
    if parts.scheme not in ("http", "https") or not parts.hostname or not plain:
        raise bad_value("--url", text, allowed)
    return text if text.endswith("/") else f"{text}/"


def _catalogue(sources: Sources, tree: Tree, folder: Path, say: Callable[[str], None]) -> Catalogue:
    releases = releases_of(sources.runs.values())
    trends = trends_of(releases)
    prints = sources.fingerprints
    compared, failed = compare_all(pairs_of(trends), Runs(sources.load), prints, tree, folder, say)
    return catalogue_of(releases, trends, compared, prints, sources.skipped, failed)


def _write(catalogue: Catalogue, url: str | None, tree: Tree) -> None:
    """Everything but reports and comparisons, which are there already."""

    def put(path: str, text: str) -> None:
        tree.write(path, text.encode("utf-8", "backslashreplace"))

    for page, compared in catalogue.choices.items():
        put(page, pages.choice_page(compared))
    for workload in catalogue.workloads:
        put(addresses.workload_page(workload), pages.workload_page(catalogue, workload))
    put(addresses.NO_JEKYLL, "")
    put(addresses.NOT_FOUND, pages.not_found_page(url))
    put(addresses.FEED, feed(catalogue, url))
    tree.write(addresses.MACHINES, as_bytes(machines.index(catalogue, url)))
    put(addresses.INDEX, pages.index_page(catalogue))
