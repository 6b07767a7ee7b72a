"""A site as a whole: what is on it, and that publishing again comes to the same."""

from __future__ import annotations

import dataclasses
import json
import os
import random
import shutil
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest

from recoverybench import cli
from recoverybench.cells import Cell
from recoverybench.errors import UsageError
from recoverybench.results.store import Run
from recoverybench.site import Published, publish, sources
from recoverybench.site.comparisons import Runs
from recoverybench.site.tree import JOURNAL, MANIFEST, Tree
from tests.sample_run import failed_trial, make_cell, timed_out_trial
from tests.site_runs import Seen, files_of, put, release

HOSTILE = '"><img src=x onerror=alert(1)></script><script>alert(2)</script>\u202e\x1b[31m&{{7*7}}'


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Reports that take no time; the list says which were made."""
    made: list[str] = []

    def report_of(run: Run) -> bytes:
        made.append(run.info.run_id)
        return f"<!doctype html><title>{len(run.trials)} trials</title>".encode()

    monkeypatch.setattr(sources, "report_of", report_of)
    return made


def history() -> list[Run]:
    """Five releases, of which the fourth is slower in its first cell, and a nightly build."""
    return [
        release(0, "0.8", 1.0, 4.0),
        release(2, "0.9", 1.0, 4.0),
        release(4, "0.10", 1.0, 4.0),
        release(6, "0.11", 1.6, 4.0),
        release(8, "nightly", 1.6, 4.0),
        release(9, "0.11", 1.6, 4.0),
    ]


def index_of(done: Published) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((done.index.parent / "index.json").read_text())
    return found


@pytest.mark.parametrize("seed", range(4))
def test_run_by_run_comes_to_the_same_as_all_at_once(
    tmp_path: Path, quick: list[str], seed: int
) -> None:
    runs = history()
    for run in runs:
        put(tmp_path / "all", run)
    publish(tmp_path / "all", tmp_path / "at-once", url="https://example.org/")
    random.Random(seed).shuffle(runs)
    quick.clear()
    for run in runs:
        put(tmp_path / "some", run)
        publish(tmp_path / "some", tmp_path / "by-and-by", url="https://example.org/")
    assert files_of(tmp_path / "by-and-by") == files_of(tmp_path / "at-once")
    assert sorted(quick) == sorted(run.info.run_id for run in runs)  # each page made once


def test_the_same_with_real_reports(tmp_path: Path) -> None:
    for run in history()[:2]:
        put(tmp_path / "all", run)
    publish(tmp_path / "all", tmp_path / "a")
    page = (tmp_path / "a/runs/quick-000.html").read_text()
    assert 'src="../assets/plotly-' in page
    assert len(page) < 400_000
    (tmp_path / "a/runs/quick-000.html").write_bytes(b"")
    done = publish(tmp_path / "all", tmp_path / "a")
    assert done.files.written == ("runs/quick-000.html",)
    assert (tmp_path / "a/runs/quick-000.html").read_text() == page
    assert str(tmp_path) not in page


def test_nothing_is_made_twice(tmp_path: Path, quick: list[str]) -> None:
    for run in history():
        put(tmp_path / "r", run)
    publish(tmp_path / "r", tmp_path / "s")
    before = {p: p.stat().st_mtime_ns for p in (tmp_path / "s").rglob("*.*") if p.is_file()}
    quick.clear()
    done = publish(tmp_path / "r", tmp_path / "s")
    assert not quick
    assert (done.files.written, done.files.removed) == ((), ())
    before.pop(tmp_path / "s" / MANIFEST)
    assert all(path.stat().st_mtime_ns == then for path, then in before.items())


def test_one_more_run_writes_what_it_changes(tmp_path: Path, quick: list[str]) -> None:
    *first, last = history()[:4]
    for run in first:
        put(tmp_path / "r", run)
    publish(tmp_path / "r", tmp_path / "s")
    quick.clear()
    put(tmp_path / "r", last)
    done = publish(tmp_path / "r", tmp_path / "s")
    assert quick == [last.info.run_id]
    assert [p for p in done.files.written if p.startswith(("runs/", "compare/"))] == [
        "compare/0.10..0.11.html",
        "runs/quick-006.html",
    ]
    assert not done.files.removed


def test_a_run_that_went_is_gone_and_what_others_put_there_stays(
    tmp_path: Path, quick: list[str]
) -> None:
    for run in history():
        put(tmp_path / "r", run)
    publish(tmp_path / "r", tmp_path / "s")
    (tmp_path / "s/CNAME").write_text("example.org")
    (tmp_path / "s/runs/mine.html").write_text("mine")
    shutil.rmtree(tmp_path / "r/quick-004")
    done = publish(tmp_path / "r", tmp_path / "s")
    assert "runs/quick-004.html" in done.files.removed
    publish(tmp_path / "r", tmp_path / "new")
    left = files_of(tmp_path / "s")
    assert left.pop("CNAME") == b"example.org"
    assert left.pop("runs/mine.html") == b"mine"
    assert left == files_of(tmp_path / "new")


@pytest.mark.parametrize("at", range(5))
def test_ended_anywhere_the_next_one_completes_it(
    tmp_path: Path, quick: list[str], monkeypatch: pytest.MonkeyPatch, at: int
) -> None:
    for run in history():
        put(tmp_path / "r", run)
    publish(tmp_path / "r", tmp_path / "whole")
    write, count = Tree.write, iter(range(1000))

    def ended(self: Tree, path: str, content: bytes, made_of: str = "") -> None:
        if next(count) == 1 + 6 * at:
            raise KeyboardInterrupt
        write(self, path, content, made_of)

    monkeypatch.setattr(Tree, "write", ended)
    with pytest.raises(KeyboardInterrupt):
        publish(tmp_path / "r", tmp_path / "s")
    monkeypatch.setattr(Tree, "write", write)
    assert (tmp_path / "s" / JOURNAL).exists()
    publish(tmp_path / "r", tmp_path / "s")
    assert files_of(tmp_path / "s") == files_of(tmp_path / "whole")


def test_a_change_is_marked_where_it_is(tmp_path: Path, quick: list[str]) -> None:
    for run in history():
        put(tmp_path / "r", run)
    done = publish(tmp_path / "r", tmp_path / "s")
    index = index_of(done)
    assert [r["name"] for r in index["releases"]] == ["0.8", "0.9", "0.10", "0.11", "nightly"]
    assert index["releases"][3]["runs"] == ["quick-006", "quick-009"]
    elastic, restart = index["cells"]
    (change,) = elastic["changes"]
    assert (change["base"], change["new"], change["verdict"]) == ("0.10", "0.11", "worse")
    assert change["page"] == "compare/0.10..0.11.html"
    assert 1.5 < change["ratio"] < 1.7
    assert not restart["changes"]
    assert done.regressions == 1
    (line,) = elastic["lines"]
    assert [p["trials"] for p in line["points"]] == [8, 8, 8, 16, 8]
    assert all(p["low_s"] <= p["median_s"] <= p["high_s"] for p in line["points"])
    first = Seen((tmp_path / "s/index.html").read_text())
    assert "compare/0.10..0.11.html" in first.links
    workload = Seen((tmp_path / "s/workloads/transformer__tiny.html").read_text())
    assert "../compare/0.10..0.11.html" in workload.links
    assert {cell["page"].partition("#")[2] for cell in index["cells"]} <= set(workload.ids)


def test_nothing_is_compared_across_machines(tmp_path: Path, quick: list[str]) -> None:
    for day, cores in enumerate([2, 2, 64, 64]):
        machine = {"cpu": "test CPU", "cores_usable": cores}
        put(tmp_path / "r", release(day, f"0.{day}", 1.0 if cores == 2 else 3.0, machine=machine))
    index = index_of(publish(tmp_path / "r", tmp_path / "s"))
    assert [c["page"] for c in index["comparisons"]] == [
        "compare/0.0..0.1.html",
        "compare/0.2..0.3.html",
    ]
    (cell,) = index["cells"]
    assert [len(line["points"]) for line in cell["lines"]] == [2, 2]
    assert not cell["changes"]
    page = (tmp_path / "s/workloads/transformer__tiny.html").read_text()
    assert 'class="gap"' in page
    assert "usable cores 64" in page


def test_a_comparison_begins_with_what_is_worse(tmp_path: Path, quick: list[str]) -> None:
    put(tmp_path / "r", release(0, "0.1", 1.0, 1.0, 1.0))
    put(tmp_path / "r", release(1, "0.2", 1.0, 1.5, 3.0))
    publish(tmp_path / "r", tmp_path / "s")
    page = (tmp_path / "s/compare/0.1..0.2.html").read_text()
    heads = [page.index(f"<h3>{name}</h3>") for name in ("hot-spare", "restart", "elastic")]
    assert heads == sorted(heads)


def test_two_releases_on_two_machines_have_a_comparison_of_each(
    tmp_path: Path, quick: list[str]
) -> None:
    for day, (label, cores) in enumerate([("0.1", 2), ("0.1", 64), ("0.2", 2)]):
        machine = {"cpu": "test CPU", "cores_usable": cores}
        put(tmp_path / "r", release(day, label, 1.0, machine=machine))
    before = index_of(publish(tmp_path / "r", tmp_path / "s"))
    assert [c["page"] for c in before["comparisons"]] == ["compare/0.1..0.2.html"]
    machine = {"cpu": "test CPU", "cores_usable": 64}
    put(tmp_path / "r", release(3, "0.2", 1.0, machine=machine))
    after = index_of(publish(tmp_path / "r", tmp_path / "s"))
    assert len(after["comparisons"]) == 2
    chooser = Seen((tmp_path / "s/compare/0.1..0.2.html").read_text())
    assert {f"../{c['page']}" for c in after["comparisons"]} < set(chooser.links)


def test_what_never_recovers_is_on_its_trend(tmp_path: Path, quick: list[str]) -> None:
    cell = make_cell()
    late = [timed_out_trial(i, cell=cell) for i in range(5)]
    lost = [failed_trial(i, cell=cell) for i in range(5)]
    put(tmp_path / "r", release(0, "0.1", 1.0, cells=[cell]))
    for day, trials in ((1, late), (2, lost)):
        run = release(day, f"0.{day + 1}", 1.0, cells=[cell])
        put(tmp_path / "r", dataclasses.replace(run, trials=tuple(trials)))
    index = index_of(publish(tmp_path / "r", tmp_path / "s"))
    points = index["cells"][0]["lines"][0]["points"]
    assert [p["recovered"] for p in points] == [8, 0, 0]
    assert (points[1]["median_s"], points[1]["beyond_s"]) == (None, 60.0)
    assert points[2]["median_s"] is None
    assert [c["new"] for c in index["cells"][0]["changes"]] == ["0.2"]
    page = (tmp_path / "s/index.html").read_text()
    assert 'class="late"' in page
    assert 'class="lost"' in page


def test_one_run_alone_is_a_site(tmp_path: Path, quick: list[str]) -> None:
    put(tmp_path / "r", release(0, None, 1.0))
    done = publish(tmp_path / "r", tmp_path / "s")
    assert (done.runs, done.releases, done.comparisons) == (1, 1, 0)
    assert "nothing yet to compare" in done.index.read_text()


def test_a_run_that_has_just_begun_is_on_the_site(tmp_path: Path, quick: list[str]) -> None:
    begun = dataclasses.replace(release(0, "0.1", 1.0, status="running"), trials=())
    put(tmp_path / "r", begun)
    done = publish(tmp_path / "r", tmp_path / "s")
    assert done.runs == 1
    assert "In 0.1 nothing is measured yet" in done.index.read_text()
    assert index_of(done)["cells"] == []
    put(tmp_path / "r", release(1, "0.0", 1.0))
    assert (
        "In 0.1 nothing is measured yet"
        in publish(tmp_path / "r", tmp_path / "s").index.read_text()
    )


def test_a_name_that_is_no_text_is_shown(tmp_path: Path, quick: list[str]) -> None:
    put(tmp_path / "r", release(0, "0.1", 1.0))
    os.mkdir(os.fsencode(tmp_path / "r") + b"/\xff\xfe")
    done = publish(tmp_path / "r", tmp_path / "s")
    assert r"\udcff\udcfe" in done.index.read_text()
    assert index_of(done)["skipped"][0]["directory"] == "\udcff\udcfe"


def test_unlabelled_runs_stand_for_themselves(tmp_path: Path, quick: list[str]) -> None:
    for day in range(3):
        put(tmp_path / "r", release(day, None, 1.0))
    index = index_of(publish(tmp_path / "r", tmp_path / "s"))
    assert [c["page"] for c in index["comparisons"]] == [
        "compare/run-quick-000..run-quick-001.html",
        "compare/run-quick-001..run-quick-002.html",
    ]


def test_what_cannot_be_read_is_listed(tmp_path: Path, quick: list[str]) -> None:
    results = tmp_path / "r"
    put(results, release(0, "0.1", 1.0))
    newer = put(results, release(1, "0.2", 1.0))
    text = json.loads((newer / "run.json").read_text())
    (newer / "run.json").write_text(json.dumps(text | {"schema": 999}))
    (put(results, release(2, "0.3", 1.0)) / "run.json").write_text("{")
    with (put(results, release(3, "0.4", 1.0)) / "trials.jsonl").open("a") as trials:
        trials.write('{"nothing": 1}\n')
    (put(results, release(4, "0.5", 1.0)) / "trials.jsonl").unlink()
    (results / "notes").mkdir()
    (results / ".cache").mkdir()
    (results / "README.md").write_text("mine")
    put(results, release(5, "0.6", 1.0, machine={"cpu": {"a": "dict"}}))
    done = publish(results, tmp_path / "s")
    reasons = {one.name: one.reason for one in done.skipped}
    assert [*reasons] == ["notes", "quick-001", "quick-002", "quick-003", "quick-004"]
    assert "999" in reasons["quick-001"]
    assert reasons["quick-002"].startswith("quick-002/run.json")
    assert "trials.jsonl:9" in reasons["quick-003"]
    page = done.index.read_text()
    assert all(name in page for name in reasons)
    assert index_of(done)["skipped"][0] == {"directory": "notes", "reason": "no run.json in it"}


def test_a_page_that_cannot_be_made_skips_its_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def report_of(run: Run) -> bytes:
        if run.info.run_id == "quick-001":
            raise ZeroDivisionError("by nothing")
        return b"page"

    monkeypatch.setattr(sources, "report_of", report_of)
    for day in range(3):
        put(tmp_path / "r", release(day, f"0.{day}", 1.0))
    done = publish(tmp_path / "r", tmp_path / "s")
    assert [(s.name, s.reason) for s in done.skipped] == [
        ("quick-001", "what is in it is not what a run holds, and nothing can be made of it")
    ]
    assert [c["page"] for c in index_of(done)["comparisons"]] == ["compare/0.0..0.2.html"]


def test_the_same_run_counts_once(tmp_path: Path, quick: list[str]) -> None:
    run = release(0, "0.1", 1.0)
    put(tmp_path / "r", run, "b")
    put(tmp_path / "r", run, "a")
    part = dataclasses.replace(run, trials=run.trials[:3])
    put(tmp_path / "r", part, "c")
    for _ in range(2):
        done = publish(tmp_path / "r", tmp_path / "s")
        assert [(s.name, s.reason.partition(",")[0]) for s in done.skipped] == [
            ("b", "a copy of a"),
            ("c", "it has the id of the run in a"),
        ]
        assert index_of(done)["runs"][0]["trials"] == 8
        assert quick == ["quick-000"]


def test_an_empty_directory_is_refused_and_makes_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "r/notes").mkdir(parents=True)
    for results in (tmp_path / "r", tmp_path / "none"):
        assert cli.call(["publish", str(results), "-o", str(tmp_path / "s")]) == 2
        said = capsys.readouterr().err
        assert said.count("\n") == 1
        assert "RESULTS_DIR" in said
    assert not (tmp_path / "s").exists()


def test_runs_that_are_all_damaged_make_no_site(tmp_path: Path) -> None:
    (put(tmp_path / "r", release(0, "0.1", 1.0)) / "run.json").write_text("[]")
    with pytest.raises(UsageError, match=r"RESULTS_DIR = .* \(quick-000: "):
        publish(tmp_path / "r", tmp_path / "s")
    assert not (tmp_path / "s").exists()


def test_a_site_among_the_runs_is_no_run(tmp_path: Path, quick: list[str]) -> None:
    put(tmp_path / "r", release(0, "0.1", 1.0))
    for _ in range(2):
        assert not publish(tmp_path / "r", tmp_path / "r/site").skipped


def hostile_run(day: int) -> Run:
    cell = make_cell(workload=f"{HOSTILE}:x", strategy=HOSTILE, fault=HOSTILE, trigger=HOSTILE)
    name = f"{HOSTILE}{day}".replace("/", "_")
    return release(
        day,
        f"{HOSTILE}{day}",
        1.0 + day,
        cells=[cell],
        run_id=name,
        created=HOSTILE,
        environment={HOSTILE: HOSTILE},
        machine={"cpu": HOSTILE, "system": HOSTILE},
        status="complete",
    )


def test_names_of_a_run_are_text(tmp_path: Path) -> None:
    for day in range(3):
        put(tmp_path / "r", hostile_run(day), f"r{day}")
    (tmp_path / "r" / f"{HOSTILE.replace('/', '_')}").mkdir()
    done = publish(tmp_path / "r", tmp_path / "s", url="https://example.org/")
    assert (done.runs, done.comparisons) == (3, 2)
    pages = [path for path in (tmp_path / "s").rglob("*.html")]
    assert len(pages) == 2 + 3 + 1 + 2
    for page in pages:
        text = page.read_text()
        seen = Seen(text)
        assert "img" not in seen.tags
        assert not seen.handlers
        assert seen.policy.startswith("default-src 'none'")
        if page.parent.name != "runs":
            assert "\u202e" not in text
            assert "\x1b" not in text
            assert seen.tags.count("script") <= 2
            assert "49" not in text.partition("<main")[2][:2000] or "7*7" in text


def test_no_link_is_absolute_and_each_leads_somewhere(tmp_path: Path) -> None:
    for run in history():
        put(tmp_path / "r", run)
    put(tmp_path / "r", release(10, "0.12", 1.0, cells=[make_cell(workload="my/train.py:make")]))
    put(tmp_path / "r", hostile_run(11), "hostile")
    site = publish(tmp_path / "r", tmp_path / "s").index.parent
    for path in site.rglob("*.html"):
        seen = Seen(path.read_text())
        for link in seen.links:
            parts = urlsplit(link)
            if link.startswith(("data:", "#")):
                continue
            assert not parts.scheme, link
            assert not parts.netloc, link
            assert not link.startswith("/")
            target = path.parent / unquote(parts.path)
            assert target.resolve().is_relative_to(site.resolve())
            assert target.exists(), f"{path.name} leads to {link}"
            if parts.fragment and target.suffix == ".html":
                assert parts.fragment in Seen(target.read_text()).ids
    assert (site / ".nojekyll").read_bytes() == b""


def test_only_a_few_runs_are_held(tmp_path: Path) -> None:
    runs = Runs(lambda name: release(int(name), None, 1.0))
    for day in range(20):
        found = runs.get(str(day))
        assert found.trials[0].spans == ()
    assert len(runs._held) < 6
    assert runs.get("19") is found


def test_the_schema_is_documented(tmp_path: Path, quick: list[str], repository: Path) -> None:
    for run in history():
        put(tmp_path / "r", run)
    (tmp_path / "r/notes").mkdir()
    index = index_of(publish(tmp_path / "r", tmp_path / "s"))
    text = (repository / "docs/site.md").read_text()
    cell = index["cells"][0]
    for one in (
        index,
        index["releases"][0],
        index["runs"][0],
        index["comparisons"][0],
        index["skipped"][0],
        cell,
        cell["lines"][0],
        cell["lines"][0]["points"][0],
        cell["changes"][0],
    ):
        missing = [name for name in one if f"`{name}`" not in text]
        assert not missing


def test_the_command(
    tmp_path: Path,
    quick: list[str],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    for run in history()[:2]:
        put(Path("results"), run)
    (tmp_path / "results/notes").mkdir()
    assert cli.call(["publish"]) == 0
    said = capsys.readouterr()
    assert said.out.splitlines()[-1] == "reports/site/index.html"
    assert said.err == "recoverybench: notes is skipped: no run.json in it\n"
    assert cli.call(["publish", "results", "-o", "other", "--format", "json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["index"] == "other/index.html"
    assert (data["runs"], data["comparisons"]) == (2, 1)
    (tmp_path / "full").mkdir()
    (tmp_path / "full/x").write_text("mine")
    for arguments in (["-o", "full"], ["--url", "nowhere"], ["results/quick-000"]):
        assert cli.call(["publish", *arguments]) == 2
        assert capsys.readouterr().err.count("\n") == 1
    assert os.listdir("full") == ["x"]


def test_cells_have_one_label_each(tmp_path: Path, quick: list[str]) -> None:
    cells = [
        make_cell(strategy=s, fault=f) for s in ("elastic", "restart") for f in ("kill", "hang")
    ]
    put(tmp_path / "r", release(0, "0.1", 1.0, 1.0, 1.0, 1.0, cells=cells))
    index = index_of(publish(tmp_path / "r", tmp_path / "s"))
    labels = [cell["label"] for cell in index["cells"]]
    assert labels == ["elastic · kill", "elastic · hang", "restart · kill", "restart · hang"]
    assert {Cell.from_dict(cell["factors"]) for cell in index["cells"]} == set(cells)


def test_a_foreign_file_in_the_place_of_a_page_is_refused(tmp_path: Path, quick: list[str]) -> None:
    put(tmp_path / "r", release(0, "0.1", 1.0))
    publish(tmp_path / "r", tmp_path / "s")
    put(tmp_path / "r", release(1, "0.2", 1.0))
    (tmp_path / "s/runs/quick-001.html").write_text("mine")
    with pytest.raises(UsageError, match=r"quick-001\.html: not a file of this site"):
        publish(tmp_path / "r", tmp_path / "s")
    assert (tmp_path / "s/runs/quick-001.html").read_text() == "mine"
