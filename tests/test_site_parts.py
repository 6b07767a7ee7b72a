"""Parts of a site, each by itself: addresses, the order of releases, trends, the directory."""

from __future__ import annotations

import dataclasses
import json
import os
import random
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recoverybench.errors import UsageError
from recoverybench.site import addresses
from recoverybench.site.publish import read_url
from recoverybench.site.releases import Dated, in_order, instant, natural, version_of
from recoverybench.site.summary import RunSummary, summarise
from recoverybench.site.tree import JOURNAL, MANIFEST, Tree
from recoverybench.site.trends import pairs_of, releases_of, trends_of
from recoverybench.site.wording import conditions
from tests.sample_run import make_cell, make_run, timed_out_trial
from tests.site_runs import release, timed

names = st.one_of(
    st.text(max_size=120),
    st.text(alphabet="ab01.:_-+~@/ A", max_size=8),
    st.from_regex(r"[a-z0-9._:+-]{1,12}", fullmatch=True),
)


@given(names, names)
def test_two_names_never_have_one_address(a: str, b: str) -> None:
    made = addresses.name_of(a), addresses.name_of(b)
    assert (made[0].lower() == made[1].lower()) == (a == b)


@given(names, names, names, names)
def test_neither_have_two_comparisons(a: str, b: str, c: str, d: str) -> None:
    one = addresses.comparison_page(addresses.label_name(a), addresses.label_name(b))
    other = addresses.comparison_page(addresses.label_name(c), addresses.label_name(d))
    assert (one == other) == ((a, b) == (c, d))


@given(names, names)
def test_a_label_is_no_run(label: str, run: str) -> None:
    assert addresses.label_name(label) != addresses.unlabelled_name(run)


@given(names)
def test_an_address_is_safe_everywhere(name: str) -> None:
    for page in (addresses.run_page(name), addresses.workload_page(name), addresses.run_data(name)):
        folder, _, file = page.rpartition("/")
        assert re.fullmatch(r"(?!\.)[a-z0-9._+~-]{1,100}\.(html|json)", file)
        assert folder in ("runs", "workloads", "data/runs")


def test_usual_names_stay_as_they_are() -> None:
    assert addresses.run_page("quick-20261201-143005") == "runs/quick-20261201-143005.html"
    assert addresses.workload_page("transformer:tiny") == "workloads/transformer__tiny.html"
    pair = addresses.label_name("v0.9"), addresses.label_name("v0.10-3-gabc1234")
    assert addresses.comparison_page(*pair) == "compare/v0.9..v0.10-3-gabc1234.html"


@pytest.mark.parametrize(
    "ordered",
    [
        ["0.9", "0.10", "0.10.1", "1.0"],
        ["v1.0.dev1", "v1.0a2", "v1.0b1", "v1.0rc1", "v1.0rc2", "v1.0", "v1.0-3-gabc1234", "v1.1"],
        ["release-1.9", "release-1.10"],
        ["1.0-2-gaaaaaaa", "1.0-10-gaaaaaaa"],
        ["2026-03-01", "2026-03-02", "2026-11-01"],
        ["1.0", "1.0-dirty", "1.0.1"],
    ],
)
def test_versions_are_in_their_own_order(ordered: list[str]) -> None:
    known = {label: version_of(label) for label in ordered}
    assert None not in known.values()
    assert sorted(ordered, key=lambda label: known[label] or ()) == ordered


@pytest.mark.parametrize(
    "label", ["main", "nightly", "4c463fd0", "123456", "1e10", "20260301", "", "jax-0.9", "1" * 40]
)
def test_what_is_no_version_is_none(label: str) -> None:
    assert version_of(label) is None


def _dated(label: str, day: int) -> Dated:
    return Dated(label, f"label {label}", datetime(2026, 1, 1, tzinfo=UTC) + timedelta(days=day))


def _labels(*items: Dated) -> list[str | None]:
    shuffled = list(items)
    random.Random(0).shuffle(shuffled)
    return [item.label for item in in_order(shuffled)]


def test_a_release_of_an_old_line_does_not_come_last() -> None:
    assert _labels(_dated("0.9", 1), _dated("0.10", 5), _dated("0.9.5", 9)) == [
        "0.9",
        "0.9.5",
        "0.10",
    ]


def test_what_has_no_version_is_where_it_was_measured() -> None:
    items = [_dated("first", 0), _dated("0.9", 1), _dated("nightly", 3), _dated("0.10", 5)]
    assert _labels(*items, _dated("main", 7)) == ["first", "0.9", "nightly", "0.10", "main"]


def test_a_digest_that_looks_like_a_number_is_none() -> None:
    items = [_dated("0.9", 1), _dated("123456", 2), _dated("1e10", 3), _dated("0.10", 4)]
    assert _labels(*items) == ["0.9", "123456", "1e10", "0.10"]


@given(
    st.lists(
        st.tuples(st.sampled_from(["0.9", "0.10", "1.0", "main", "x", "y"]), st.integers(0, 9)),
        unique_by=lambda pair: pair[0],
    ),
    st.randoms(use_true_random=False),
)
def test_the_order_is_one_and_of_all(pairs: list[tuple[str, int]], rng: random.Random) -> None:
    items = [_dated(*pair) for pair in pairs]
    found = in_order(items)
    rng.shuffle(items)
    assert in_order(items) == found
    assert sorted(i.name for i in found) == sorted(i.name for i in items)
    # One more release, whatever it is, changes the order of no two others.
    more = in_order([*items, _dated("0.9.9", rng.randint(0, 9))])
    without = [i for i in more if i.label != "0.9.9"]
    versions = [i for i in found if version_of(i.label or "")]
    assert [i for i in without if version_of(i.label or "")] == versions


@given(st.text())
def test_any_text_has_an_instant_and_a_place(text: str) -> None:
    assert instant(text).tzinfo is UTC
    natural(text)
    version_of(text)


def _summary(*args: object, **changes: object) -> RunSummary:
    return summarise(release(*args, **changes))  # type: ignore[arg-type]


def test_a_summary_is_the_same_after_it_was_kept() -> None:
    cell = make_cell()
    trials = [*timed(cell, 1.2, 3), timed_out_trial(9, cell=cell)]
    found = summarise(make_run(trials, machine={"cpu": "x", "cgroup": {"cpu_cores": 2.5}}))
    kept = RunSummary.from_dict(json.loads(json.dumps(found.as_dict())))
    assert kept == found
    assert (kept.cells[0].late, kept.cells[0].recovered, kept.cells[0].judged) == (1, 3, 4)


def test_a_run_that_nothing_can_be_said_of_is_no_run() -> None:
    run = make_run()
    bare = dataclasses.replace(run.info, suite=dataclasses.replace(run.info.suite, cells=()))
    with pytest.raises(UsageError, match="no cell"):
        summarise(dataclasses.replace(run, info=bare, trials=()))


def test_a_machine_that_is_described_by_anything_is_one() -> None:
    found = summarise(make_run(machine={"cpu": ["a", "list"]}))
    assert dict(found.machine)["processor"] == '["a", "list"]'


def test_runs_with_one_label_are_one_release() -> None:
    runs = [_summary(3, "0.9", 1.0), _summary(1, "0.10", 1.0), _summary(2, "0.9", 1.0)]
    found = releases_of([*runs, _summary(4, None, 1.0)])
    assert [(r.name, len(r.runs)) for r in found] == [("0.9", 2), ("0.10", 1), ("quick-004", 1)]
    assert [run.run_id for run in found[0].runs] == ["quick-002", "quick-003"]
    (trend,) = trends_of(found)
    assert [p.trials for p in trend.points] == [16, 8, 8]


def test_another_machine_is_another_line() -> None:
    other = {"cpu": "test CPU", "system": "Linux", "cores_usable": 64}
    one = {**other, "cores_usable": 2}
    runs = [_summary(day, f"0.{day}", 1.0, machine=one if day % 2 else other) for day in range(5)]
    (trend,) = trends_of(releases_of(runs))
    assert [[p.release.name for p in line.points] for line in trend.lines] == [
        ["0.0", "0.2", "0.4"],
        ["0.1", "0.3"],
    ]
    assert conditions(trend) == ["usable cores 64", "usable cores 2"]
    pairs = pairs_of([trend])
    assert [(a, b) for a, b in pairs] == [(0, 2), (1, 3), (2, 4)]


@pytest.mark.parametrize(
    "changes", [{"seed": 7}, {"launcher": "ray"}, {"workloads": {"transformer:tiny": "b" * 64}}]
)
def test_other_settings_are_another_line(changes: dict[str, object]) -> None:
    files = {"workloads": {"transformer:tiny": "a" * 64}}
    runs = [_summary(0, "0.9", 1.0, **files), _summary(1, "0.10", 1.0, **(files | changes))]
    (trend,) = trends_of(releases_of(runs))
    assert len(trend.lines) == 2
    assert not pairs_of([trend])


def test_a_setting_that_changed_is_the_same_cell_on_another_line() -> None:
    cells = [make_cell(heartbeat_s=10.0), make_cell(heartbeat_s=5.0)]
    runs = [_summary(0, "0.9", 1.0, cells=cells[:1]), _summary(1, "0.10", 1.0, cells=cells[1:])]
    (trend,) = trends_of(releases_of(runs))
    assert trend.cells == tuple(cells)
    assert [line.cell.heartbeat_s for line in trend.lines] == [10.0, 5.0]
    assert trend.cell == cells[1]
    assert conditions(trend) == ["heartbeat 10 s", "heartbeat 5 s"]


def test_settings_that_are_compared_within_a_run_are_cells_of_their_own() -> None:
    cells = [make_cell(heartbeat_s=10.0), make_cell(heartbeat_s=5.0)]
    runs = [_summary(day, f"0.{day}", 1.0, 2.0, cells=cells) for day in range(2)]
    assert [trend.cells for trend in trends_of(releases_of(runs))] == [(c,) for c in cells]


def test_environments_of_one_release_are_trends_of_their_own() -> None:
    cells = [make_cell(), make_cell(environment="jax==0.10.1")]
    runs = [_summary(day, f"0.{day}", 1.0, 1.0, cells=cells) for day in range(2)]
    trends = trends_of(releases_of(runs))
    assert [trend.environment for trend in trends] == ["this", "jax==0.10.1"]
    (parts,) = pairs_of(trends).values()
    assert {pair.environment for pair in parts.values()} == {"this", "jax==0.10.1"}


def test_a_release_that_is_an_environment_is_on_the_line_of_its_cell() -> None:
    runs = [
        _summary(0, "0.10.1", 1.0, cells=[make_cell(environment="jax==0.10.1")]),
        _summary(1, "0.10.2", 1.0, cells=[make_cell(environment="jax==0.10.2")]),
    ]
    (trend,) = trends_of(releases_of(runs))
    assert trend.environment is None
    assert len(trend.lines) == 1


def test_a_cell_is_compared_with_where_it_was_measured_last() -> None:
    elastic, restart = make_cell(), make_cell(strategy="restart")
    runs = [
        _summary(0, "0.1", 1.0, 1.0, cells=[elastic, restart]),
        _summary(1, "0.2", 1.0, cells=[restart]),
        _summary(2, "0.3", 1.0, 1.0, cells=[elastic, restart]),
    ]
    assert [*pairs_of(trends_of(releases_of(runs)))] == [(0, 1), (0, 2), (1, 2)]


# The directory


def test_a_file_is_written_once(tmp_path: Path) -> None:
    with Tree(tmp_path / "site") as tree:
        tree.write("a/b.html", b"1", "x")
        assert tree.finish().written == ("a/b.html",)
    with Tree(tmp_path / "site") as tree:
        assert tree.read("a/b.html", "y") is None
        assert tree.read("a/b.html", "x") == b"1"
        done = tree.finish()
    assert (done.written, done.kept, done.removed) == ((), ("a/b.html",), ())
    with Tree(tmp_path / "site") as tree:
        assert tree.finish().removed == ("a/b.html",)
    assert os.listdir(tmp_path / "site") == [MANIFEST]


def test_the_same_content_of_other_origin_is_not_written(tmp_path: Path) -> None:
    with Tree(tmp_path) as tree:
        tree.write("a", b"1", "x")
        tree.finish()
    before = (tmp_path / "a").stat()
    with Tree(tmp_path) as tree:
        tree.write("a", b"1", "y")
        assert tree.finish().kept == ("a",)
    assert (tmp_path / "a").stat().st_ino == before.st_ino
    with Tree(tmp_path) as tree:
        assert tree.has("a", "y")
        tree.finish()


def test_a_foreign_directory_is_refused(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("mine")
    with pytest.raises(UsageError, match=r"--out = .*thesis\.tex"):
        Tree(tmp_path)
    assert os.listdir(tmp_path) == ["thesis.tex"]
    with pytest.raises(UsageError, match="a directory"):
        Tree(tmp_path / "thesis.tex")


@pytest.mark.parametrize(
    "content", [b"", b"{}", b"[]", b'{"format": "other", "schema": 1, "files": {}}', b"\xff"]
)
def test_a_manifest_that_is_none_is_not_trusted(tmp_path: Path, content: bytes) -> None:
    (tmp_path / MANIFEST).write_bytes(content)
    with pytest.raises(UsageError, match=MANIFEST):
        Tree(tmp_path)


def test_a_newer_manifest_is_refused(tmp_path: Path) -> None:
    data = {"format": "recoverybench site", "schema": 99, "files": {}}
    (tmp_path / MANIFEST).write_text(json.dumps(data))
    with pytest.raises(UsageError, match="schema = 99"):
        Tree(tmp_path)


@pytest.mark.parametrize("name", ["../x", "/etc/passwd", "a/../../x", "", ".", MANIFEST])
def test_a_manifest_cannot_name_what_is_outside(tmp_path: Path, name: str) -> None:
    site = tmp_path / "site"
    site.mkdir()
    (tmp_path / "x").write_text("mine")
    files = {name: {"sha256": "0", "made_of": ""}}
    data = {"format": "recoverybench site", "schema": 1, "files": files}
    (site / MANIFEST).write_text(json.dumps(data))
    with Tree(site) as tree:
        assert tree.finish().removed == ()
    assert (tmp_path / "x").read_text() == "mine"


def test_what_somebody_put_there_stays(tmp_path: Path) -> None:
    with Tree(tmp_path / "s") as tree:
        tree.write("runs/a.html", b"1")
        tree.finish()
    (tmp_path / "s/CNAME").write_text("example.org")
    (tmp_path / "s/runs/b.html").write_text("mine")
    with Tree(tmp_path / "s") as tree:
        with pytest.raises(UsageError, match=r"b\.html: not a file of this site"):
            tree.write("runs/b.html", b"2")
        tree.finish()
    assert (tmp_path / "s/runs/b.html").read_text() == "mine"
    assert (tmp_path / "s/CNAME").read_text() == "example.org"
    assert not (tmp_path / "s/runs/a.html").exists()


def test_no_link_leads_out(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "a.html").write_text("mine")
    with Tree(tmp_path / "s") as tree:
        tree.write("runs/a.html", b"1", "x")
        tree.finish()
    (tmp_path / "s/runs/a.html").unlink()
    (tmp_path / "s/runs").rmdir()
    (tmp_path / "s/runs").symlink_to(outside)
    with Tree(tmp_path / "s") as tree:
        assert tree.read("runs/a.html", "x") is None
        with pytest.raises(UsageError, match="not a folder of this site"):
            tree.write("runs/a.html", b"2")
    with Tree(tmp_path / "s") as tree:
        tree.finish()
    assert (outside / "a.html").read_text() == "mine"


def test_one_process_at_a_time(tmp_path: Path) -> None:
    with Tree(tmp_path / "s"), pytest.raises(UsageError, match="no other process"):
        Tree(tmp_path / "s")
    with Tree(tmp_path / "s"):
        pass


def test_a_publication_that_was_ended_is_gone_on_with(tmp_path: Path) -> None:
    with Tree(tmp_path / "s") as tree:
        tree.write("a", b"1", "x")
        tree.write("b", b"2", "y")  # and then it was killed
    site = tmp_path / "s"
    (site / "b").write_bytes(b"")  # of which not all reached the disk
    with (site / JOURNAL).open("a") as journal:
        journal.write('["c", "0", "z"]\n["d", "0')
    (site / ".c.recoverybench-tmp").write_bytes(b"half")
    with Tree(site) as tree:
        assert tree.has("a", "x")
        assert not tree.has("b", "y")
        tree.write("b", b"2", "y")
        assert tree.finish().written == ("b",)
    assert sorted(os.listdir(site)) == [MANIFEST, "a", "b"]


def test_nothing_is_left_where_nothing_came_of_it(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError), Tree(tmp_path / "s"):
        raise RuntimeError
    assert not (tmp_path / "s").exists()


@pytest.mark.parametrize(
    "url", ["https://example.org/a", "http://localhost:8000", "https://[::1]:80/x/"]
)
def test_an_address_ends_in_a_slash(url: str) -> None:
    assert read_url(url) == url.rstrip("/") + "/"


@pytest.mark.parametrize(
    "url",
    [
        "",
        "example.org",
        "ftp://example.org",
        "javascript:alert(1)",
        "https://",
        "https://a b",
        "https://a/?q",
        "https://a/#f",
        'https://a/"><script>',
        "https://user:secret@example.org/",
        "https://example.org:99999/",
        "https://[::1/",
        "https://exämple.org/",
    ],
)
def test_what_is_no_address_is_refused(url: str) -> None:
    with pytest.raises(UsageError, match="--url"):
        read_url(url)
