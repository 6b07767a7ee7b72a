"""The feed of a site: what RFC 4287 asks of one, and what it says."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recoverybench.results.store import Run
from recoverybench.site import publish, sources
from recoverybench.site.feed import identity, rfc3339, xml
from tests.sample_run import make_cell
from tests.site_runs import put, release

ATOM = "{http://www.w3.org/2005/Atom}"
XHTML = "{http://www.w3.org/1999/xhtml}"
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    def report_of(run: Run) -> bytes:
        return b"page"

    monkeypatch.setattr(sources, "report_of", report_of)


def assert_valid(feed: ET.Element) -> None:
    """The rules of RFC 4287 for the elements that are there."""
    assert feed.tag == f"{ATOM}feed"
    known = {"title", "id", "updated", "author", "generator", "link", "entry"}
    assert {child.tag for child in feed} <= {ATOM + name for name in known}
    for one in (feed, *feed.findall(f"{ATOM}entry")):
        for name in ("title", "id", "updated"):
            (found,) = one.findall(ATOM + name)  # exactly one
            assert found.text
        assert TIME.fullmatch(str(one.findtext(f"{ATOM}updated")))
        assert urlsplit(str(one.findtext(f"{ATOM}id"))).scheme in ("https", "urn")
        alternates = [
            (link.get("type"), link.get("hreflang"))
            for link in one.findall(f"{ATOM}link")
            if link.get("rel", "alternate") == "alternate"
        ]
        assert len(alternates) == len(set(alternates)) == 1
        assert all(link.get("href") for link in one.findall(f"{ATOM}link"))
    assert feed.findtext(f"{ATOM}author/{ATOM}name")
    ids = [entry.findtext(f"{ATOM}id") for entry in feed.findall(f"{ATOM}entry")]
    assert len(ids) == len(set(ids))
    for content in feed.iter(f"{ATOM}content"):
        assert content.get("type") == "xhtml"
        (div,) = content
        assert div.tag == f"{XHTML}div"


def feed_of(results: Path, site: Path, url: str | None = None) -> ET.Element:
    publish(results, site, url=url)
    return ET.fromstring((site / "feed.xml").read_bytes())


def entries(feed: ET.Element) -> list[dict[str, str]]:
    return [
        {
            "title": str(entry.findtext(f"{ATOM}title")),
            "id": str(entry.findtext(f"{ATOM}id")),
            "updated": str(entry.findtext(f"{ATOM}updated")),
            "link": str(entry.find(f"{ATOM}link").get("href")),  # type: ignore[union-attr]
            "text": " | ".join("".join(li.itertext()) for li in entry.iter(f"{XHTML}li")),
        }
        for entry in feed.findall(f"{ATOM}entry")
    ]


def test_a_site_without_changes_has_a_feed(tmp_path: Path) -> None:
    put(tmp_path / "r", release(0, "0.1", 1.0))
    feed = feed_of(tmp_path / "r", tmp_path / "s")
    assert_valid(feed)
    assert entries(feed) == []
    assert feed.findtext(f"{ATOM}updated") == "2026-01-01T00:00:00Z"


def test_an_entry_for_every_comparison_in_which_something_changed(tmp_path: Path) -> None:
    for day, median_s in enumerate([1.0, 1.0, 1.6, 1.6, 1.0]):
        put(tmp_path / "r", release(day, f"0.{day + 7}", median_s, 4.0))
    feed = feed_of(tmp_path / "r", tmp_path / "s")
    assert_valid(feed)
    better, worse = entries(feed)
    assert worse["title"] == "0.9 against 0.8: 1 cell worse"
    assert better["title"] == "0.11 against 0.10: 1 cell better"
    assert worse["updated"] == "2026-01-03T00:00:00Z"
    assert worse["link"] == "compare/0.8..0.9.html"
    assert "elastic is worse: recovery " in worse["text"]
    assert " → 1.6 s; most of it in replace " in worse["text"]
    assert worse["id"].startswith("urn:uuid:")
    # One more run: what was there has the same id, and the new entry is the first.
    put(tmp_path / "r", release(5, "0.12", 2.0, 4.0))
    after = entries(feed_of(tmp_path / "r", tmp_path / "s"))
    assert after[1:] == [better, worse]
    assert after[0]["updated"] > better["updated"]


def test_with_an_address_everything_is_absolute(tmp_path: Path) -> None:
    for day, median_s in enumerate([1.0, 1.6]):
        put(tmp_path / "r", release(day, f"0.{day}", median_s))
    feed = feed_of(tmp_path / "r", tmp_path / "s", "https://example.org/recovery")
    assert_valid(feed)
    (entry,) = entries(feed)
    assert entry["id"] == entry["link"] == "https://example.org/recovery/compare/0.0..0.1.html"
    links = {link.get("rel"): link.get("href") for link in feed.findall(f"{ATOM}link")}
    assert links == {
        "self": "https://example.org/recovery/feed.xml",
        "alternate": "https://example.org/recovery/",
    }


def test_hostile_names_are_text_in_it(tmp_path: Path) -> None:
    name = "]]><x/>&amp;\"'\x00\x1b\ufffe\U0010ffff\ud800"
    cell = make_cell(strategy=name.replace("\ud800", ""), workload="a<b>:c")
    for day in range(2):
        label = f"{name}{day}"
        put(tmp_path / "r", release(day, label, 1.0 + day, cells=[cell], created="never"))
    feed = feed_of(tmp_path / "r", tmp_path / "s")
    assert_valid(feed)
    (entry,) = entries(feed)
    assert "]]><x/>&amp;" in entry["title"]
    assert entry["updated"] == "1970-01-01T00:00:00Z"
    assert "a<b>:c" in entry["text"]


@given(st.text(alphabet=st.characters()))
def test_any_text_is_text(text: str) -> None:
    found = ET.fromstring(f"<a b='{xml(text)}'>{xml(text)}</a>")
    assert found.text == found.get("b") or not text
    if text.isascii() and text.isprintable():
        assert (found.text or "") == text


@given(st.datetimes(timezones=st.just(UTC)))
def test_moments_are_as_the_standard_has_them(when: datetime) -> None:
    assert TIME.fullmatch(rfc3339(when))


def test_ids_depend_on_the_page_alone() -> None:
    assert identity("a", None) == identity("a", None) != identity("b", None)
    assert identity("a", "https://example.org/") == "https://example.org/a"
