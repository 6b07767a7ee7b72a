"""The page of a report: hostile names stay text, and it is one whole file."""

from __future__ import annotations

import dataclasses
import json
import math
import re
from pathlib import Path
from typing import Any

import pytest

from recoverybench.records import TrialRecord
from recoverybench.report import render, write_report
from recoverybench.report.data import MOST_LANES, payload
from recoverybench.report.rows import rows_of
from recoverybench.results.store import Run
from recoverybench.vocabulary import OUTCOMES, PHASES
from recoverybench.web.embed import embed
from tests.pages import HOSTILE, Page, hostile_run, words
from tests.sample_run import (
    default_trials,
    failed_trial,
    grown_trial,
    make_cell,
    make_run,
    make_trial,
    refusing,
    soak_trials,
    timed_out_trial,
)

# ---- the page ------------------------------------------------------------------------------


def every_outcome() -> Run:
    trials = [make_trial(), timed_out_trial(1, rep=1)]
    trials += [failed_trial(10 + i, rep=2 + i, outcome=o) for i, o in enumerate(OUTCOMES)]
    return make_run(trials)


RUNS = {
    "none": [make_run([])],
    "one": [make_run([make_trial()])],
    "failed": [make_run([failed_trial(0)])],
    "outcomes": [every_outcome()],
    "default": [make_run()],
    "two": [make_run(), make_run(name="later")],
    "bare": [make_run(git=None, machine={}, environment={"jax": None}, command=[], created="")],
}


@pytest.mark.parametrize("runs", RUNS.values(), ids=RUNS.keys())
def test_page_holds_every_trial_and_refers_to_nothing_outside(runs: list[Run]) -> None:
    page = Page(render(runs))
    assert page.data("payload")["count"] == sum(len(run.trials) for run in runs)
    for tag, attributes in page.elements:
        for name in ("src", "href", "action", "data", "poster", "srcset"):
            target = attributes.get(name) or ""
            assert target == "data:," or target[:1] in ("", "#"), (tag, name, target)
    styles = [text for name, text in page.scripts.items() if name.startswith("style")]
    assert styles
    assert not re.search(r"@import|url\(", "".join(styles))
    ids = [a["id"] for _, a in page.elements if a.get("id")]
    assert len(ids) == len(set(ids))


def test_first_screen_answers_the_question() -> None:
    text = words(render([make_run()]))
    start = text[text.index("A worker dies") :][:800]
    assert "In 3 of 3 trials each, hot-spare was training again" in start
    assert "3 workers with 1 device each" in start
    assert "540 losses" in start
    assert "no claim about TPUs or GPUs" in start


def test_every_phase_is_explained_and_in_order() -> None:
    legend = re.search(r'<ul class="legend".*?</ul>', render([make_run()]), re.S)
    assert legend
    assert re.findall(r"--phase-(\w+)", legend[0]) == list(PHASES)


def test_every_outcome_that_occurred_is_explained() -> None:
    text = words(render([every_outcome()]))
    for outcome in OUTCOMES:
        assert f"{outcome.replace('_', ' ')}: " in text


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"status": "interrupted"}, "is interrupted: 9 of 9 trials are here"),
        ({"status": "running"}, "is running: 9 of 9 trials are here"),
    ],
)
def test_a_run_that_was_cut_off_says_so(changes: dict[str, Any], said: str) -> None:
    assert said in words(render([make_run(**changes)]))


def test_dropped_lines_and_simulated_faults_are_told() -> None:
    trials = [dataclasses.replace(t, simulated=True) for t in default_trials(1)]
    text = words(render([dataclasses.replace(make_run(trials), dropped=2)]))
    assert "2 half-written line(s) were dropped" in text
    assert "the fault was simulated in 3 trial(s)" in text


def test_what_only_some_runs_have_is_only_in_their_pages() -> None:
    plainly = render([make_run()])
    for part in ("noticing", "saves", "soaks", "unmeasured"):
        assert f'id="{part}"' not in plainly
    text = words(render([refusing(make_run(soak_trials()), "no nftables here <b>")]))
    assert "3 of 3" in text and "87.4 %" in text and "900" in text
    assert "no nftables here <b>" in text and "f0" in text
    assert "held up by" not in text
    grown = words(render([make_run([grown_trial(), make_trial(1)])]))
    assert "growing back, s" in grown and "1.24" in grown
    assert "equal in 1 of 1, in part within a tolerance" in grown


def test_hostile_strings_stay_text_everywhere() -> None:
    plain = Page(render([make_run(default_trials(1))]))
    hostile = Page(render([hostile_run()]))
    assert [t for t, _ in hostile.elements].count("script") == 4
    assert not [t for t, _ in hostile.elements if t == "img"]
    for _, attributes in hostile.elements:
        assert not [name for name in attributes if name.startswith("on")]
    assert HOSTILE in hostile.text
    assert HOSTILE not in plain.text
    columns = hostile.data("payload")["columns"]
    assert columns["trial"][0] == columns["error"][0] == HOSTILE
    assert hostile.data("payload")["runs"][0]["run_id"] == HOSTILE
    shown = json.dumps(hostile.data("figures"))
    key = json.dumps(f"0/{HOSTILE}")  # the address of a trial, which is never drawn
    assert "<img" not in shown.replace(key, "")


def test_only_the_page_s_own_scripts_may_run() -> None:
    page = Page(render([hostile_run()]))
    policy = next(
        a["content"] or "" for t, a in page.elements if a.get("http-equiv") and t == "meta"
    )
    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    assert policy.count("sha256-") == 2
    assert "unsafe-inline" not in policy.split("style-src")[0]


@pytest.mark.parametrize(
    "value",
    ["</script>", "<!--<script>", "\u2028\u2029", "\ud800", "é 漢", "&amp;", '"\\'],
)
def test_embed_keeps_any_string(value: str) -> None:
    text = embed({"x": value})
    assert not set("<>&\u2028\u2029") & set(text)
    text.encode("utf-8")
    expected = value if value != "\ud800" else "\ud800"
    assert json.loads(text)["x"] == expected


def test_embed_has_no_number_that_json_lacks() -> None:
    text = embed([math.nan, math.inf, -math.inf, {"a": (1, None)}])
    assert json.loads(text) == ["nan", "inf", "-inf", {"a": [1, None]}]


@pytest.mark.parametrize("trials", [default_trials(1), [grown_trial()], soak_trials()])
def test_payload_has_every_field_and_every_lane(trials: list[TrialRecord]) -> None:
    data = Page(render([make_run(trials)])).data("payload")
    fields = {f.name for f in dataclasses.fields(TrialRecord)} - {"cell", "spans", "milestones"}
    assert data["defaults"].keys() == fields
    for i, trial in enumerate(trials):
        plain = json.loads(json.dumps(trial.as_dict()))
        for name in ("outcome", "seed", "pids", "transitions", "soak", "restore_tier", "load"):
            column = data["columns"].get(name)
            assert (data["defaults"][name] if column is None else column[i]) == plain[name]
        assert lanes(data, i) == [
            (s.worker, s.attempt, s.name, round(s.start_s * 1e6), round(s.end_s * 1e6))
            for s in sorted(
                trial.spans,
                key=lambda s: (-1 if s.worker is None else s.worker, s.attempt, s.start_s),
            )
        ]


def lanes(data: dict[str, Any], i: int) -> list[tuple[int | None, int, str, int, int]]:
    """Spans of a trial, microseconds, as the page reads them."""
    found, start = [], 0
    for attempt, name, since, length in zip(*data["lanes"]["of"][str(i)], strict=True):
        start += since
        worker, number = data["lanes"]["attempts"][attempt]
        found.append((worker, number, data["lanes"]["names"][name], start, start + length))
    return found


def test_lanes_of_many_trials_are_those_that_tell_most() -> None:
    cells = [make_cell(strategy=s) for s in ("elastic", "restart")]
    trials = [make_trial(i, rep=i // 2, cell=cells[i % 2]) for i in range(MOST_LANES + 100)]
    trials[-1] = timed_out_trial(len(trials) - 1, cell=cells[1])
    rows = rows_of([make_run(trials)])
    data = payload([make_run(trials)], rows)["lanes"]
    assert len(data["of"]) == MOST_LANES and not data["whole"]
    assert str(len(trials) - 1) in data["of"]
    for row in rows:
        back = sorted(row.summary.recovery_s.values) if row.summary.recovery_s else []
        shown = {trials[int(i)].recovery_s for i in data["of"]}
        assert {back[0], back[-1], back[len(back) // 2]} <= shown


def test_much_data_is_small() -> None:
    """What 10,000 trials come to is in the README; here it is a bound on each of them."""
    trials = [make_trial(i, rep=i) for i in range(2000)]
    few, many = (len(render([make_run(t)])) for t in (trials[:1000], trials))
    assert (many - few) / 1000 < 600


def test_write_report_replaces_whole_files_and_leaves_none_behind(tmp_path: Path) -> None:
    out = tmp_path / "report.html"
    out.write_text("before")
    assert write_report([make_run()], str(out)) == out
    assert out.read_text().startswith("<!doctype html>")
    assert [p.name for p in tmp_path.iterdir()] == ["report.html"]
    with pytest.raises(OSError):
        write_report([make_run()], tmp_path / "missing" / "report.html")
