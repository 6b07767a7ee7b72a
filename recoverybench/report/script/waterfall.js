// One trial: its lanes, phases and milestones.

// A span has the colour of the phase in which it ended.
function spanColour(trial, span) {
  if (span.name === "verify") return "--verify";
  const at = data.milestones.slice(1).findIndex((m) => {
    const t = since(trial, m);
    return t != null && span.end <= t + 1e-6;
  });
  if (span.end < 0 || at < 0) return "--span";
  return `--phase-${since(trial, data.milestones[at]) == null ? "unnamed" : data.phases[at]}`;
}

const since = (trial, name) =>
  name in trial.milestones && trial.t_inject != null
    ? (trial.milestones[name] - trial.t_inject) / 1e9 : null;

// The time between two milestones that are known: a phase, or unnamed where one between them
// is not. Of a restore whose beginning a command marks, only its end is a milestone.
function piecesOf(trial) {
  const known = data.milestones.map((name, i) => ({ name, i, at: since(trial, name) })).filter((m) => m.at != null);
  const found = [];
  known.slice(1).forEach((mark, i) => {
    let from = known[i].at;
    const split = mark.name === "restored" && "unnamed" in trial.phases;
    if (mark.i === known[i].i + 1 && !split) {
      found.push([data.phases[mark.i - 1], from, mark.at]);
      return;
    }
    const restore = mark.name === "restored" ? trial.phases.restore ?? 0 : 0;
    if (mark.at - restore > from) found.push(["unnamed", from, mark.at - restore]);
    if (restore) found.push(["restore", mark.at - restore, mark.at]);
  });
  return found;
}

// Lanes top to bottom: the supervisor, then each worker's attempts in order.
function lanesOf(trial) {
  const lanes = new Map();
  for (const [worker, attempt, name, start, end] of trial.spans) {
    const key = `${worker == null ? -1 : worker}/${attempt}`;
    if (!lanes.has(key)) lanes.set(key, { worker, attempt, spans: [] });
    lanes.get(key).spans.push({ name, start, end });
  }
  const list = [...lanes.values()];
  list.sort((a, b) => (a.worker ?? -1) - (b.worker ?? -1) || a.attempt - b.attempt);
  for (const lane of list) place(lane);
  return list;
}

// Spans that overlap in one lane, nested ones above all, go to rows of their own below.
function place(lane) {
  const ends = [];
  lane.spans.sort((a, b) => a.start - b.start || b.end - a.end);
  for (const span of lane.spans) {
    let row = ends.findIndex((end) => span.start >= end - 1e-6);
    if (row < 0) row = ends.length;
    ends[row] = span.end;
    span.row = row;
  }
  lane.rows = Math.max(1, ends.length);
}

function laneName(lane) {
  if (lane.worker == null) return "supervisor";
  return `worker ${lane.worker}` + (lane.attempt ? `, attempt ${lane.attempt}` : "");
}

function waterfallFigure(trial, width) {
  const lanes = lanesOf(trial);
  const end = windowEnd(trial);
  const pixels = Math.max(200, width - 150);
  const ticks = [[0, "<b>phases</b>"]];
  const bars = [];
  const shapes = [];
  const bar = (y, start, stop, name, label, colour, high, pattern) => bars.push({
    y, start, stop, colour, high, hover: label, pattern: pattern || "",
    edge: ((stop - start) / end) * pixels > 4 ? 1 : 0, // an edge would hide a bar of a few pixels
    text: !pattern && ((stop - start) / end) * pixels * 0.94 > name.length * 7 + 8 ? text(name) : "",
  });
  for (const [phase, from, to] of piecesOf(trial)) {
    const own = phase === "unnamed" ? to - from : trial.phases[phase] ?? to - from;
    const checks = to - from - own;
    bar(0, from, to, words(phase), `phase <b>${words(phase)}</b><br>${seconds(own, (trial.clock_bound_s || {})[phase])}` +
      (checks > 1e-5 ? `<br>and ${seconds(checks)} of verification, not counted` : ""),
    `--phase-${phase}`, 0.8, phase === "catch_up" ? "/" : "");
  }
  let y = 1.25;
  for (const lane of lanes) {
    ticks.push([y + (lane.rows - 1) * 0.31, text(laneName(lane))]);
    for (const span of lane.spans) {
      bar(y + span.row * 0.62, span.start, span.end, words(span.name),
        `<b>${text(words(span.name))}</b>, ${text(laneName(lane))}` +
        `<br>${seconds(span.end - span.start)}, from ${seconds(span.start)} to ${seconds(span.end)}`,
        spanColour(trial, span), lane.rows > 1 ? 0.56 : 0.62);
    }
    y += lane.rows * 0.62 + 0.42;
    shapes.push({ type: "line", xref: "paper", x0: 0, x1: 1, y0: y - 0.52, y1: y - 0.52, layer: "below", line: { color: "--line", width: 1 } });
  }
  const marks = marksOf(trial);
  for (const mark of marks) {
    shapes.push({
      type: "line", x0: mark.at, x1: mark.at, y0: -0.55, y1: y - 0.5, layer: "below",
      line: { color: mark.name === "inject" ? "--bad" : "--soft", width: mark.name === "inject" ? 2 : 1, dash: mark.name === "inject" ? "solid" : "dot" },
    });
  }
  const layout = {
    height: Math.max(180, y * 44 + 90), shapes, bargap: 0, barmode: "overlay", hovermode: "closest",
    showlegend: false, margin: { l: 8, r: 12, t: 8, b: 46 }, dragmode: width < 560 ? false : "zoom",
    uniformtext: { minsize: 9, mode: "hide" },
    xaxis: { title: { text: "seconds since the failure" }, range: [-0.05 * end, 1.03 * end], fixedrange: width < 560 },
    yaxis: { tickmode: "array", tickvals: ticks.map((t) => t[0]), ticktext: ticks.map((t) => t[1]), range: [y - 0.45, -1.15], fixedrange: true },
    annotations: marks.length ? [{ x: 0, y: -0.6, yanchor: "bottom", xanchor: "left", text: "<b>failure</b>", showarrow: false, font: { color: "--bad", size: 13 } }] : [],
  };
  return { data: [barTrace(bars), markTrace(marks)], layout };
}

function barTrace(bars) {
  return {
    type: "bar", orientation: "h", base: bars.map((b) => b.start), x: bars.map((b) => b.stop - b.start),
    y: bars.map((b) => b.y), width: bars.map((b) => b.high), customdata: bars.map((b) => b.hover),
    text: bars.map((b) => b.text), textposition: "inside", insidetextanchor: "middle", textangle: 0,
    insidetextfont: { size: 12 }, hovertemplate: "%{customdata}<extra></extra>",
    marker: { color: bars.map((b) => b.colour), line: { color: "--card", width: bars.map((b) => b.edge) }, pattern: { shape: bars.map((b) => b.pattern), size: 6 } },
  };
}

function markTrace(marks) {
  return {
    type: "scatter", mode: "markers", x: marks.map((m) => m.at), y: marks.map(() => -0.55),
    customdata: marks.map((m) => `<b>${words(m.name)}</b><br>${seconds(m.at)} after the failure`),
    hovertemplate: "%{customdata}<extra></extra>",
    marker: { symbol: "triangle-down", size: 9, color: marks.map((m) => (m.name === "inject" ? "--bad" : "--soft")) },
  };
}

const marksOf = (trial) => data.milestones
  .map((name) => ({ name, at: since(trial, name) })).filter((m) => m.at != null);

function windowEnd(trial) {
  const marks = marksOf(trial).map((m) => m.at);
  const last = Math.max(0, ...marks);
  const spans = trial.spans.reduce((m, s) => Math.max(m, s[4]), 0);
  const whole = "progress" in trial.milestones ? last : Math.max(last, spans);
  return whole > 0 ? whole : 1;
}

// ---- choosing a trial ----------------------------------------------------------------------

let drawn = -1;
let ofRow = []; // trials of the chosen cell

function fillCells() {
  for (const [row, label] of data.labels.entries()) byId("cell").append(new Option(label, String(row)));
}

function fillTrials(row) {
  ofRow = [];
  for (let i = 0; i < data.all; i += 1) if (data.row[i] === row) ofRow.push(i);
  byId("trial").replaceChildren(...ofRow.map((i) => {
    const outcome = value("outcome", i);
    const time = value("recovery_s", i);
    const said = time == null ? called(data.outcomes, outcome) : seconds(time);
    const profiled = value("profiled", i) ? " · profiled" : "";
    return new Option(`${value("trial", i)} · ${said}${profiled}`, String(i));
  }));
}

function show(index) {
  if (!(index >= 0 && index < data.all)) return;
  const row = data.row[index];
  if (byId("cell").value !== String(row) || !ofRow.length) fillTrials(row);
  byId("cell").value = String(row);
  byId("trial").value = String(index);
  if (drawn !== index) Plotly.purge(byId("lanes")); // else a double-click would go back to the trial before
  drawn = index;
  const trial = trialAt(index);
  const box = byId("lanes");
  const note = byId("lanes-note");
  note.hidden = trial.drawable;
  note.textContent = `This page has lanes of ${Object.keys(data.lanes.of).length} of its ${data.count} trials, and this is none of them: the phases are here, and the lanes are in the run's files (recoverybench show RUN --trial ${trial.trial}).`;
  const bar = { ...plain, displayModeBar: "hover", modeBarButtons: [["zoomIn2d", "zoomOut2d", "pan2d", "zoom2d", "resetScale2d", "toImage"]] };
  if (trial.spans.length || marksOf(trial).length) {
    if (!box.classList.contains("js-plotly-plot")) box.textContent = "";
    drawFigure(box, waterfallFigure(trial, box.clientWidth), bar);
  } else {
    box.textContent = "This trial reached no milestone, so there is nothing to draw.";
  }
  facts(trial);
}

function choose(index) {
  history.replaceState(null, "", `#trial=${encodeURIComponent(keyOf(index))}`);
  show(index);
}

function stepTo(by) {
  const next = (ofRow.indexOf(drawn) + by + ofRow.length) % ofRow.length;
  choose(ofRow[next]);
}

function startWaterfall() {
  fillCells();
  for (const id of ["cell", "trial", "previous", "next"]) byId(id).disabled = !data.count;
  if (!data.count) {
    byId("lanes").textContent = "No trial to show.";
    return;
  }
  lazily(byId("waterfall"), () => { if (drawn < 0) show(firstShown()); });
  byId("cell").addEventListener("change", () => { fillTrials(Number(byId("cell").value)); choose(ofRow[0]); });
  byId("trial").addEventListener("change", () => choose(Number(byId("trial").value)));
  byId("previous").addEventListener("click", () => stepTo(-1));
  byId("next").addEventListener("click", () => stepTo(1));
}

// The trial in the middle of the first cell that is shown.
function firstShown() {
  const row = Math.max(0, data.labels.findIndex((_, i) => wanted(i)));
  return data.middles[row] ?? Math.max(0, data.row.indexOf(row));
}
