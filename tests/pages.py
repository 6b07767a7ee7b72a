"""Pages as text and as elements, and runs whose names are markup."""

from __future__ import annotations

import base64
import dataclasses
import gzip
import json
from html.parser import HTMLParser
from typing import Any

from recoverybench.records import TrialRecord, Verification
from recoverybench.results.store import Run
from tests.sample_run import (
    default_trials,
    make_cell,
    make_run,
    make_trial,
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
