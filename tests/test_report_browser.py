"""The report in a real browser: every figure is drawn, nothing fails, nothing is fetched."""

from __future__ import annotations

import csv
import dataclasses
import html
import io
import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from recoverybench.records import Verification
from recoverybench.report import render
from recoverybench.results.store import Run
from tests.sample_run import (
    default_trials,
    detection_trials,
    failed_trial,
    grown_trial,
    make_cell,
    make_run,
    make_trial,
    refusing,
    sweep_trials,
    timed_out_trial,
)
from tests.test_report import HOSTILE, hostile_run

BROWSER = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)

pytestmark = pytest.mark.skipif(BROWSER is None, reason="no Chromium on this machine")


def opened(
    page: str, folder: Path, *, address: str = "", size: str = "1280,6000"
) -> tuple[str, str]:
    """The page's elements after its scripts ran, and what the browser said meanwhile."""
    assert BROWSER
    file = folder / "report.html"
    file.write_text(page, encoding="utf-8")
    done = subprocess.run(
        [
            BROWSER,
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            f"--window-size={size}",
            f"--user-data-dir={folder / 'profile'}",
            "--virtual-time-budget=8000",
            "--enable-logging=stderr",
            "--v=0",
            "--dump-dom",
            file.as_uri() + address,
        ],
        capture_output=True,
        text=True,
        timeout=90,
        check=True,
    )
    return done.stdout, done.stderr


def part(dom: str, name: str) -> str:
    """What lies inside the chart of this id: up to where the page's own text goes on."""
    start = dom.index(f'id="{name}"')
    ends = [dom.find(mark, start) for mark in ("</section>", "<nav", 'class="facts')]
    return dom[start : min(end for end in ends if end > 0)]


def marks(dom: str, name: str) -> int:
    return len(re.findall(r'<g class="point"|<path class="point', part(dom, name)))


def complaints(log: str) -> list[str]:
    return [line for line in log.splitlines() if "CONSOLE" in line or "Content Security" in line]


def test_every_figure_is_drawn_and_nothing_fails(tmp_path: Path) -> None:
    trials = [*default_trials(), timed_out_trial(20, rep=3), failed_trial(21, rep=4)]
    dom, log = opened(render([make_run(trials)]), tmp_path)
    assert complaints(log) == []
    assert marks(dom, "recovery") == len(trials)
    assert marks(dom, "stack") == 3 * 9
    assert marks(dom, "lanes") > 20
    assert 'id="facts"' in dom
    assert "kept their process" in dom
    for text in ("3/5 recovered", "median 0.59 s", "hot-spare"):
        assert text in part(dom, "recovery")


@pytest.mark.parametrize("size", ["1280,9000", "390,9000"])
def test_what_only_some_runs_have_is_drawn(tmp_path: Path, size: str) -> None:
    trials = [*detection_trials(), *sweep_trials()]
    trials = [dataclasses.replace(t, trial=f"{i:04d}") for i, t in enumerate(trials)]
    run = refusing(make_run([*trials, grown_trial(80)]), "no nftables here")
    dom, log = opened(render([run]), tmp_path, size=size, address="#trial=0/0080")
    assert complaints(log) == []
    assert marks(dom, "detection") == 2
    assert "grown back after step 33, held up for 1.2 s" in dom
    assert "memory and peer" in dom


@pytest.mark.parametrize(
    ("outcome", "there", "absent"),
    [("invalid", "nothing was injected", "kept their process"), ("diverged", "3d1dd433…", "None")],
)
def test_the_facts_say_only_what_was(tmp_path: Path, outcome: str, there: str, absent: str) -> None:
    whole = make_trial()
    said = f"final state is {'3d1dd433' * 4}"
    check = Verification(False, "r", 1, 1, 1, True, said)
    trial = (
        dataclasses.replace(failed_trial(0, outcome=outcome), pids=whole.pids, exits=whole.exits)
        if outcome == "invalid"
        else dataclasses.replace(whole, outcome=outcome, error=said, verify=check)
    )
    dom, log = opened(render([make_run([trial])]), tmp_path, address="#trial=0/0000")
    assert complaints(log) == []
    facts = dom[dom.index('id="facts"') : dom.index('id="settings"')]
    assert there in facts
    assert absent not in facts
    assert facts.count("3d1dd433") == (outcome == "diverged")


def test_long_labels_leave_room_for_what_stands_beside_them(tmp_path: Path) -> None:
    cells = [make_cell(strategy="pathways:shrink,back=1s", fault=f) for f in ("kill", "hang")]
    cells += [make_cell(strategy=s, fault="kill") for s in ("suspend-resume", "elastic")]
    trials = [make_trial(i, cell=c) for i, c in enumerate(cells)]
    dom, log = opened(render([make_run(trials)]), tmp_path, size="500,6000")
    assert complaints(log) == []
    chart = part(dom, "recovery")
    assert marks(dom, "recovery") == len(cells)
    assert "pathways:shrink,back=1s" in chart and "1.4 s · 1/1" in chart


def test_a_trial_can_be_opened_by_its_address(tmp_path: Path) -> None:
    trials = [*default_trials(1), failed_trial(3)]
    dom, log = opened(render([make_run(trials)]), tmp_path, address="#trial=0/0003")
    assert complaints(log) == []
    assert "This trial reached no milestone" in part(dom, "lanes")
    assert "worker 0 died, and the coordination service with it" in dom


@pytest.mark.parametrize("size", ["1280,6000", "390,9000"])
def test_hostile_strings_do_nothing_in_a_browser(tmp_path: Path, size: str) -> None:
    dom, log = opened(render([hostile_run()]), tmp_path, size=size)
    assert complaints(log) == []
    assert len(re.findall(r"<script\b", dom.split('<script type="application/json"')[0])) == 0
    assert not re.search(r"<img[^>]*onerror", dom.split('<script type="application/json"')[0])
    assert html.escape(HOSTILE, quote=False) in dom
    assert marks(dom, "lanes") > 20


@pytest.mark.parametrize("trials", [[], [failed_trial(0)]], ids=["none", "failed"])
def test_a_run_without_any_recovery_opens(tmp_path: Path, trials: list[object]) -> None:
    dom, log = opened(render([make_run(trials)]), tmp_path)  # type: ignore[arg-type]
    assert complaints(log) == []
    assert ("No trial to show." in part(dom, "recovery")) == (not trials)
    assert marks(dom, "recovery") == len(trials)


PROBE = """<script>
for (const name of ["json", "csv"]) {
  const RealBlob = Blob;
  window.Blob = function (parts, options) {
    const box = document.createElement("pre");
    box.id = `saved-${name}`;
    box.textContent = parts.join("");
    document.body.append(box);
    return new RealBlob(parts, options);
  };
  document.getElementById(name).click();
  window.Blob = RealBlob;
}
</script></body>"""


def saved(run: Run, folder: Path) -> dict[str, str]:
    """What the page's two buttons save, as a script beside the page's own sees it."""
    page = re.sub(r"<meta http-equiv=.*?>", "", render([run]), count=1)
    dom, _ = opened(page.replace("</body>", PROBE), folder)
    found = re.findall(r'<pre id="saved-(\w+)">(.*?)</pre>', dom, re.S)
    return {name: html.unescape(text) for name, text in found}


def test_the_data_can_be_saved_and_no_spreadsheet_runs_it(tmp_path: Path) -> None:
    formula = '=HYPERLINK("http://example.org","x")'
    run = make_run(
        [*default_trials(1), dataclasses.replace(failed_trial(3), error=formula)],
    )
    files = saved(run, tmp_path)
    records = json.loads(files["json"])["trials"]
    assert [r["trial"] for r in records] == [t.trial for t in run.trials]
    assert records[0]["cell"] == run.trials[0].cell.as_dict()
    assert records[0]["spans"][0]["name"] == run.trials[0].spans[0].name
    rows = list(csv.DictReader(io.StringIO(files["csv"])))
    assert [r["outcome"] for r in rows] == ["recovered"] * 3 + ["not_recovered"]
    assert float(rows[0]["recovery_s"]) == run.trials[0].recovery_s
    assert float(rows[0]["replace_s"]) == run.trials[0].phases["replace"]
    assert rows[3]["recovery_s"] == ""
    assert rows[3]["error"] == "'" + formula
    assert records[3]["error"] == formula
