"""The report: what it says, that hostile names stay text, and that it is one whole file."""

from __future__ import annotations

import base64
import dataclasses
import gzip
import json
import math
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from recoverybench.records import TrialRecord, Verification
from recoverybench.report import render, write_report
from recoverybench.report.answer import answer, verified
from recoverybench.report.data import MOST_LANES, payload
from recoverybench.report.detection import detection_figure, settings_tried
from recoverybench.report.figures import phases_figure, recovery_figure
from recoverybench.report.prose import marks_in_words
from recoverybench.report.rows import rows_of
from recoverybench.report.saves import sweeps
from recoverybench.results.store import Run
from recoverybench.vocabulary import OUTCOMES, PHASES
from recoverybench.web.embed import embed
from tests.sample_run import (
    default_trials,
    detection_trials,
    failed_trial,
    grown_trial,
    make_cell,
    make_run,
    make_trial,
    refusing,
    soak_trials,
    sweep_trials,
    timed_out_trial,
)

HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(2)>"


class Page(HTMLParser):
    """What a browser would see: elements with their attributes, and text by element."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.scripts: dict[str, str] = {}
        self._script: str | None = None
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        self._script = None
        if tag in ("script", "style"):
            self._script = dict(attrs).get("id") or f"{tag}{len(self.elements)}"
            self.scripts[self._script] = ""

    def handle_endtag(self, tag: str) -> None:
        if tag in ("script", "style"):
            self._script = None

    def handle_data(self, data: str) -> None:
        if self._script is None:
            self.text += data
        else:
            self.scripts[self._script] += data

    def data(self, name: str) -> Any:
        """What `web.embed.pack` put into that element."""
        return json.loads(gzip.decompress(base64.b64decode(self.scripts[name])))


def words(html: str) -> str:
    return " ".join(Page(html).text.split())


def sentence(*runs: Run) -> str:
    return words(str(answer(rows_of(runs))))


def hostile_trial(trial: TrialRecord) -> TrialRecord:
    """A trial that carries markup in every free string."""
    evidence = dataclasses.replace(trial.detection_evidence[0], detail=HOSTILE, mechanism=HOSTILE)
    return dataclasses.replace(
        trial,
        trial=HOSTILE,
        error=HOSTILE,
        cell=make_cell(workload=HOSTILE, strategy=HOSTILE, fault=HOSTILE),
        detected_by=HOSTILE,
        detection_evidence=(evidence,),
        spans=(*trial.spans, dataclasses.replace(trial.spans[-1], name=HOSTILE)),
        restore_tried=(HOSTILE,),
        verify=Verification(False, HOSTILE, 1, 1, 1, False, HOSTILE),
        outcome="diverged",
    )


def hostile_run() -> Run:
    run = make_run([hostile_trial(make_trial()), *default_trials(1)], name=HOSTILE)
    return make_run(
        run.trials,
        name=HOSTILE,
        run_id=HOSTILE,
        label=HOSTILE,
        status=HOSTILE,
        launcher=HOSTILE,
        command=[HOSTILE],
        machine={HOSTILE: HOSTILE, "system": HOSTILE},
        environment={HOSTILE: HOSTILE},
        created=HOSTILE,
    )


# ---- the answer ----------------------------------------------------------------------------


def test_answer_names_every_strategy_with_its_numbers() -> None:
    assert sentence(make_run()) == (
        "In 3 of 3 trials each, hot-spare was training again in a median of 0.59 s after a worker "
        "was killed; elastic took 1.4 s; restart 4.9 s."
    )


def test_answer_says_how_often_when_some_trials_failed() -> None:
    restart, elastic = make_cell(strategy="restart"), make_cell(strategy="elastic")
    trials = [make_trial(0, cell=restart), make_trial(1, cell=elastic)]
    trials += [make_trial(2, rep=1, cell=restart), timed_out_trial(3, rep=1, cell=elastic)]
    said = sentence(make_run(trials))
    # One of two was not back after 60 s: the median is more than (1.4 + 60) / 2.
    assert said == (
        "restart was training again in a median of 4.9 s after a worker was killed "
        "(2 of 2 trials); elastic took more than 31 s (1 of 2 trials)."
    )


def test_answer_names_a_cell_that_never_came_back() -> None:
    trials = [make_trial(0), failed_trial(1, cell=make_cell(strategy="restart"))]
    assert "restart did not come back (0 of 1 trial)" in sentence(make_run(trials))


def test_answer_when_nothing_recovered() -> None:
    said = sentence(make_run([timed_out_trial(0), failed_trial(1, rep=1)]))
    assert said == "None of 2 trials recovered after a worker was killed: 1 × timeout, " + (
        "1 × not recovered."
    )


def test_answer_of_a_single_trial_says_so() -> None:
    said = sentence(make_run([make_trial()]))
    assert said.startswith("In one trial, elastic was training again 1.4 s after a worker")
    assert said.endswith("One trial says nothing about the spread.")


def test_answer_without_any_trial() -> None:
    assert sentence(make_run([])) == "No trial has finished yet, so there is no answer."
    assert verified([]) == ""


def test_answer_when_no_trial_can_be_judged() -> None:
    said = sentence(make_run([failed_trial(0, outcome="invalid")]))
    assert said == "No trial could be judged, so there is no answer: 1 × invalid."


def test_answer_over_many_cells_names_the_extremes_and_the_failures() -> None:
    cells = [make_cell(strategy=s, interval=i) for s in ("restart", "elastic") for i in (5, 10, 20)]
    trials = [make_trial(i, cell=c) for i, c in enumerate(cells)]
    trials.append(failed_trial(9, rep=1, cell=cells[0]))
    said = sentence(make_run(trials))
    assert said.startswith("6 of 7 trials recovered after a worker was killed, over 6 cells.")
    assert re.search(r"Fastest was elastic · checkpoint every \d+ steps at 1\.\d s", said)
    assert said.endswith("The others: 1 × not recovered.")


def test_verified_says_what_was_compared_and_where_it_differed() -> None:
    assert verified(rows_of([make_run()])).endswith("everything was equal.")
    bad = dataclasses.replace(
        make_trial(1, rep=1), verify=Verification(False, "r", 3, 1, 64, True, "loss at step 21")
    )
    text = verified(rows_of([make_run([make_trial(), bad])]))
    assert "63 losses" in text
    assert text.endswith("equal in 1 of 2 trials.")


def test_verified_counts_apart_what_was_compared_within_a_tolerance() -> None:
    text = verified(rows_of([make_run([grown_trial(), make_trial(1, rep=1)])]))
    assert "100 losses bit for bit and 20 within a tolerance" in text
    assert text.endswith("everything agreed, in part within a tolerance.")


def test_cells_are_ranked_within_one_fault_and_trigger() -> None:
    kills = [make_cell(strategy=s) for s in ("restart", "elastic", "hot-spare")]
    others = [make_cell(fault="hang"), make_cell(trigger="random")]
    trials = [make_trial(i, cell=c) for i, c in enumerate([*kills, *others])]
    quick = dataclasses.replace(trials[3], recovery_s=0.01)
    said = sentence(make_run([*trials[:3], quick, trials[4]]))
    assert "Of the 3 that recovered from kill at step:25, fastest was hot-spare" in said
    assert "slowest restart" in said
    alone = [make_cell(fault=f) for f in ("kill", "hang", "nan", "exit", "stuck")]
    said = sentence(make_run([make_trial(i, cell=c) for i, c in enumerate(alone)]))
    assert "No two of the cells that recovered have one fault and trigger" in said
    assert "astest" not in said


def simulated_run(*more: TrialRecord) -> Run:
    cell = make_cell(strategy="pathways:shrink")
    return make_run([dataclasses.replace(make_trial(cell=cell), simulated=True), *more])


def test_a_simulated_loss_is_said_to_be_one() -> None:
    text = words(render([simulated_run()]))
    assert "A slice is lost during distributed JAX training" in text
    assert " s after a slice was lost (simulated)" in text
    assert "one controller over 3 slices with 1 device each" in text
    assert "Under “pathways” one process, the controller," in text
    for wrong in ("a worker was killed", "3 workers", "Workers are separate processes"):
        assert wrong not in text
    mixed = words(render([simulated_run(make_trial(1))]))
    assert "after a worker was killed, or a slice was lost (simulated)" in mixed
    assert "Workers are separate processes" in mixed


def test_the_method_speaks_of_what_was_run() -> None:
    once = words(render([make_run()]))
    assert "is started, broken once on purpose at the moment that its trigger names" in once
    assert "“random”" not in once
    assert "broken again and again at moments" in words(render([make_run(soak_trials())]))
    other = words(render([make_run([make_trial(cell=make_cell(trigger="random"))])]))
    assert "“random” breaks it" in other and "“step:25” holds" not in other


def test_a_suite_is_not_described_where_options_replaced_its_factors() -> None:
    described = "one worker dies; three strategies bring it back"
    for command in (["recoverybench", "run", "quick"], ["recoverybench", "run", "--trials", "1"]):
        page = render([make_run(command=command)])
        assert described in words(page.split("<details>")[0])
    command = ["recoverybench", "run", "--strategy=elastic", "--heartbeat", "5s"]
    text = words(render([make_run(command=command)]).split("<details>")[0])
    assert described not in text
    assert "replaced by options--strategy, --heartbeat" in text


# ---- figures -------------------------------------------------------------------------------


def coloured(value: Any, key: str = "") -> Any:
    """A figure with the page's colour variables put in place."""
    if isinstance(value, dict):
        return {k: coloured(v, k) for k, v in value.items()}
    if isinstance(value, list):
        return [coloured(v, key) for v in value]
    return "#123456" if key == "color" and str(value).startswith("--") else value


def mixed_run() -> Run:
    return make_run([*default_trials(), timed_out_trial(50, rep=3), failed_trial(51, rep=4)])


@pytest.mark.parametrize("run", [make_run(), make_run([]), mixed_run(), hostile_run()])
def test_plotly_accepts_the_figures(run: Run) -> None:
    graph_objects = pytest.importorskip("plotly.graph_objects")
    for figure in (recovery_figure(rows_of([run])), phases_figure(rows_of([run]))):
        graph_objects.Figure(coloured(figure))


def test_detection_latency_stands_against_false_alarms() -> None:
    settings = settings_tried([make_run(detection_trials())])
    assert [(s.label, s.share_text) for s in settings] == [
        ("watchdog 0.5 s", "1 of 2"),
        ("watchdog 5 s", "0 of 2"),
    ]
    [first], [second] = (s.latencies for s in settings)
    assert (first.fault, first.noticed, first.trials) == ("hang", 2, 2)
    assert first.median_s == pytest.approx(0.67)
    assert second.median_s == pytest.approx(5.15)
    figure = detection_figure(settings)
    assert figure is not None
    assert figure["data"][0]["y"] == [50.0, 0.0]
    assert figure["data"][0]["text"] == ["watchdog 0.5 s", "watchdog 5 s"]
    graph_objects = pytest.importorskip("plotly.graph_objects")
    graph_objects.Figure(coloured(figure))


def test_there_is_no_detection_figure_where_nothing_varies_or_nothing_is_harmless() -> None:
    assert settings_tried([make_run()]) == []
    real = [t for t in detection_trials() if not t.harmless]
    settings = settings_tried([make_run(real)])
    assert [s.share for s in settings] == [None, None]
    assert detection_figure(settings) is None
    assert "No setting has both" in render([make_run(real)])


def test_a_sweep_over_a_save_is_a_table_of_its_operations() -> None:
    [sweep] = sweeps([make_run([*sweep_trials(), make_trial(90)])])
    assert sweep.label == ""
    assert [(line.operation, line.what) for line in sweep.lines] == [
        (1, "mkdir 20.tmp"),
        (2, "write abc"),
        (3, "rename 20"),
    ]
    found = [[m.outcomes if m else None for m in line.moments] for line in sweep.lines]
    assert found == [["recovered"] * 3, ["recovered", "diverged", "recovered"], ["recovered"] * 3]
    before, torn, after = sweep.lines[2].moments
    assert before is not None and torn is not None and after is not None
    assert (before.restored, after.restored, after.good) == ("10", "20", True)
    assert sweep.lines[1].moments[1] is not None and not sweep.lines[1].moments[1].good


def test_sweeps_of_several_kinds_stand_apart_and_what_was_not_tried_is_left_open() -> None:
    some = [t for t in sweep_trials() if not t.cell.trigger.endswith("torn")]
    others = [
        dataclasses.replace(
            t, trial=f"x{t.trial}", cell=dataclasses.replace(t.cell, strategy="restart")
        )
        for t in some
    ]
    found = sweeps([make_run([*some, *others])])
    assert [sweep.label for sweep in found] == ["elastic", "restart"]
    assert found[0].lines[0].moments[1] is None
    assert sweeps([make_run()]) == []


def test_every_trial_has_its_mark() -> None:
    run = mixed_run()
    data = recovery_figure(rows_of([run]))["data"]
    marks = [key[-1] for trace in data for key in trace.get("customdata", [])]
    assert sorted(marks) == sorted(f"0/{t.trial}" for t in run.trials)


def test_only_what_never_trained_again_is_a_cross() -> None:
    outcomes = ("diverged", "silent_corruption", "no_effect", "invalid", "not_recovered")
    trials = [failed_trial(i, rep=i, outcome=o) for i, o in enumerate(outcomes)]
    rows = rows_of([make_run(trials)])
    lane = recovery_figure(rows)["data"][-1]
    symbols = dict(zip((d[1] for d in lane["customdata"]), lane["marker"]["symbol"], strict=True))
    assert symbols == {
        "diverged": "circle",
        "silent corruption": "circle",
        "no effect": "circle-open",
        "invalid": "circle",
        "not recovered": "x-thin",
    }
    said = marks_in_words(rows)
    assert "cross" in said and "orange dot" in said and "open circle" in said
    assert marks_in_words(rows_of([make_run()])) == ""
    assert "cross" not in marks_in_words(rows_of([make_run(trials[:3])]))


def test_success_rate_stands_beside_every_median() -> None:
    notes = [a["text"] for a in recovery_figure(rows_of([mixed_run()]))["layout"]["annotations"]]
    assert notes == [
        "<b>3/3 recovered</b><br>median 0.59 s",
        "<b>3/5 recovered</b><br>median 1.4 s",
        "<b>3/3 recovered</b><br>median 4.9 s",
    ]


def test_axis_is_logarithmic_only_when_times_differ_by_more_than_ten() -> None:
    def axis(*times: float) -> dict[str, Any]:
        trials = [
            dataclasses.replace(make_trial(i, rep=i), recovery_s=t) for i, t in enumerate(times)
        ]
        found: dict[str, Any] = recovery_figure(rows_of([make_run(trials)]))["layout"]["xaxis"]
        return found

    assert "type" not in axis(1.0, 9.9)
    wide = axis(0.3, 31.0)
    assert wide["type"] == "log"
    assert wide["ticktext"] == ["0.5", "1", "2", "5", "10", "20"]
    assert 10 ** wide["range"][0] < 0.3 < 31.0 < 10 ** wide["range"][1]


def test_labels_that_look_like_numbers_stay_labels_in_the_order_of_the_runs() -> None:
    names = ["0.9", "0.10", "1e10", "123456"]
    runs = [make_run([make_trial()], label=name) for name in names]
    layout = recovery_figure(rows_of(runs))["layout"]
    assert [text.split(" · ")[0] for text in layout["yaxis"]["ticktext"]] == names
    assert layout["yaxis"]["tickvals"] == [0, 1, 2, 3]


def test_runs_of_one_name_are_told_apart() -> None:
    labels = [row.label for row in rows_of([make_run([make_trial()]), make_run([make_trial()])])]
    assert labels == [
        "quick-20260301-120000 (1) · elastic",
        "quick-20260301-120000 (2) · elastic",
    ]


def test_a_cell_with_a_factor_of_none_keeps_its_row() -> None:
    cells = [make_cell(watchdog_s=None), make_cell(watchdog_s=5.0)]
    trials = [make_trial(i, cell=cell) for i, cell in enumerate(cells)]
    labels = [row.label for row in rows_of([make_run(trials)])]
    assert len(labels) == 2
    assert any("watchdog none" in label for label in labels)


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
    start = text[text.index("A machine dies") :][:700]
    assert "In 3 of 3 trials each, hot-spare was training again" in start
    assert "3 workers with 1 device each" in start
    assert "540 losses" in start


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
