"use strict";
(() => {
  const byId = (id) => document.getElementById(id);
  const read = (id) => JSON.parse(byId(id).textContent);
  const data = read("payload");
  const figures = read("figures");
  const root = document.documentElement;
  const NONE = "–";

  // ---- theme -----------------------------------------------------------------------------

  const paint = (name) => getComputedStyle(root).getPropertyValue(name).trim() || "#888888";

  // A copy of a figure with the CSS variables named by its colours put in place.
  function painted(value, key) {
    if (Array.isArray(value)) return value.map((v) => painted(v, key));
    if (value && typeof value === "object") {
      return Object.fromEntries(Object.entries(value).map(([k, v]) => [k, painted(v, k)]));
    }
    const isColour = key === "color" && typeof value === "string" && value.startsWith("--");
    return isColour ? paint(value) : value;
  }

  function axis(extra) {
    return {
      gridcolor: paint("--line"), linecolor: paint("--line"), zeroline: false, automargin: true,
      ticks: "", fixedrange: true, ...extra,
      title: { font: { size: 13, color: paint("--soft") }, standoff: 10, ...(extra.title || {}) },
    };
  }

  function themed(layout) {
    const out = {
      paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", dragmode: false,
      font: { family: getComputedStyle(document.body).fontFamily, size: 14, color: paint("--ink") },
      margin: { l: 8, r: 150, t: 6, b: 46 },
      modebar: { bgcolor: "rgba(0,0,0,0)", color: paint("--soft"), activecolor: paint("--accent") },
      hoverlabel: {
        bgcolor: paint("--card"), bordercolor: paint("--line"), align: "left",
        font: { color: paint("--ink"), family: getComputedStyle(document.body).fontFamily, size: 13 },
      },
      ...layout,
    };
    for (const key of Object.keys(out)) {
      if (key.startsWith("xaxis")) out[key] = axis(out[key]);
    }
    out.yaxis = { ...axis(out.yaxis || {}), showgrid: false, tickfont: { size: 14 } };
    return out;
  }

  // On a narrow screen labels and rates move from the sides to lines above each row.
  function narrowed(fig, width) {
    const layout = fig.layout;
    const rows = layout.yaxis.tickvals;
    const rates = new Map((layout.annotations || []).map((a) => [a.y, shortened(a.text)]));
    const labels = rows.map((y, i) =>
      stacked(layout.yaxis.ticktext[i].split("<br>"), rates.get(y) || "", Math.floor((width - 12) / 7.8)));
    const lines = Math.max(1, ...labels.map((label) => label.length));
    const high = 54 + 18 * lines; // of a row, in pixels
    const head = (y, x, anchor, text) => ({
      xref: "paper", x, y: y - 22 / high, xanchor: anchor, yanchor: "bottom", align: anchor,
      showarrow: false, text, font: { size: 13 },
    });
    layout.annotations = rows.flatMap((y, i) => [
      head(y, 0, "left", labels[i].map((line) => `<b>${line}</b>`).join("<br>")),
      ...(rates.has(y) ? [head(y, 1, "right", rates.get(y))] : []),
    ]);
    const top = (22 + 18 * lines + 4) / high;
    for (const trace of fig.data) { // what fills a row stays below its label
      if (trace.type === "bar") trace.width = 34 / high;
      if (trace.mode !== "lines") continue;
      const middle = (trace.y[0] + trace.y[1]) / 2;
      trace.y = [middle - 18 / high, middle + 18 / high];
    }
    layout.yaxis.showticklabels = false;
    layout.yaxis.range = [rows.length - 0.5, -top];
    layout.height = high * (rows.length - 0.5 + top) + 54;
    layout.margin = { l: 6, r: 6, t: 8, b: 46 };
    for (const key of Object.keys(layout)) {
      const title = key.startsWith("xaxis") && layout[key].title;
      if (title && title.text) title.text = title.text.replace(/ \(.*\)/, "").replace("no recovery time", "no time");
    }
    return fig;
  }

  // A label on lines of `room` characters, of which the last one leaves room for what is beside it.
  function stacked(parts, beside, room) {
    const last = room - beside.replace(/<[^>]*>/g, "").length - 2;
    const lines = [];
    for (const part of parts.map((one) => clipped(one, room))) {
      const joined = lines.length ? `${lines[lines.length - 1]} · ${part}` : "";
      if (joined && plainLength(joined) <= room) lines[lines.length - 1] = joined;
      else lines.push(part);
    }
    if (plainLength(lines[lines.length - 1]) > last) lines.push("");
    return lines.map((line) => line || "&nbsp;");
  }

  const unescaped = (html) => html.replace(/&lt;/g, "<").replace(/&gt;/g, ">").replace(/&amp;/g, "&");
  const plainLength = (html) => unescaped(html).length;
  const clipped = (html, room) =>
    (plainLength(html) <= room ? html : `${text(unescaped(html).slice(0, room - 1))}…`);

  // The two lines beside a row as one short one: "median 0.59 s" and "3/3 recovered" -> "0.59 s · 3/3".
  function shortened(twoLines) {
    const [first, second] = twoLines.replace(/<\/?b>/g, "").split("<br>");
    const rated = first.endsWith(" recovered") && second !== "none recovered";
    const parts = rated ? [second.replace("median ", ""), first] : [first];
    return parts.join(" · ").replace(" recovered", "");
  }

  function besideWidth(annotations) {
    const lines = annotations.flatMap((a) => a.text.replace(/<\/?b>/g, "").split("<br>"));
    return 24 + 8.2 * Math.max(12, ...lines.map((l) => l.length));
  }

  const plain = { displayModeBar: false, responsive: true, displaylogo: false };

  function draw(id, figure, config) {
    const box = byId(id);
    let fig = painted(figure);
    fig.layout = themed(fig.layout);
    const overview = id === "recovery" || id === "stack" || id === "fractions";
    if (overview) fig.layout.margin.r = besideWidth(fig.layout.annotations || []);
    if (overview && box.clientWidth < 560) fig = narrowed(fig, box.clientWidth);
    const done = Plotly.react(box, fig.data, fig.layout, config || plain);
    return done.then(() => box);
  }

  // ---- the two overviews -----------------------------------------------------------------

  let share = false;

  function stackFigure() {
    const fig = structuredClone(figures.phases);
    if (share) {
      fig.data = fig.data.filter((t) => t.legendgroup !== "catch_up");
      const totals = fig.layout.yaxis.tickvals.map((_, i) =>
        fig.data.reduce((sum, t) => sum + (t.x[i] || 0), 0));
      for (const trace of fig.data) {
        trace.x = trace.x.map((v, i) => (v == null || !totals[i] ? null : (100 * v) / totals[i]));
      }
      fig.layout.xaxis = { title: { text: "share of the phases' sum, %" }, range: [0, 100] };
    }
    return fig;
  }

  function drawOverviews() {
    if (!data.trials.length) {
      for (const id of ["recovery", "stack"]) byId(id).textContent = "No trial to show.";
      return;
    }
    draw("recovery", figures.recovery).then((box) => {
      box.removeAllListeners("plotly_click");
      box.on("plotly_click", (event) => {
        const point = event.points[0].customdata;
        if (point && point[4]) location.hash = "trial=" + encodeURIComponent(point[4]);
      });
    });
    draw("stack", stackFigure());
    drawDetection();
    if (byId("fractions")) draw("fractions", figures.restores);
    if (byId("by-size")) draw("by-size", figures.sizes);
  }

  function drawDetection() {
    const box = byId("detection");
    if (!box) return;
    if (!figures.detection) {
      box.textContent = "No setting has both a failure that was noticed and a trial in which nothing was lost.";
      return;
    }
    const fig = structuredClone(figures.detection);
    if (box.clientWidth < 560) for (const trace of fig.data) trace.mode = "lines+markers";
    draw("detection", fig);
  }

  function scale(toShare) {
    share = toShare;
    byId("in-share").setAttribute("aria-pressed", String(share));
    byId("in-seconds").setAttribute("aria-pressed", String(!share));
    draw("stack", stackFigure());
  }

  // ---- one trial -------------------------------------------------------------------------

  const text = (value) => String(value).replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");
  const words = (name) => String(name).replace(/_/g, " ");

  function seconds(value) {
    if (value == null) return NONE;
    const size = Math.abs(value);
    if (size < 0.0995) return `${(value * 1e3).toPrecision(2).replace(/\.0$/, "")} ms`;
    return size < 9.995 ? `${value.toFixed(2)} s` : `${value.toFixed(1)} s`;
  }

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
      bar(0, from, to, words(phase), `phase <b>${words(phase)}</b><br>${seconds(own)}` +
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
      xaxis: { title: { text: "seconds since the failure (drag to zoom, double click to go back)" }, range: [-0.05 * end, 1.03 * end], fixedrange: width < 560 },
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

  // ---- the facts beside the waterfall ----------------------------------------------------

  function element(tag, content, attributes) {
    const node = document.createElement(tag);
    if (content != null) node.textContent = content;
    for (const [k, v] of Object.entries(attributes || {})) node.setAttribute(k, v);
    return node;
  }

  function factTable(title, rows) {
    const box = element("div");
    box.append(element("h3", title));
    const table = element("table");
    const body = element("tbody");
    for (const [name, value] of rows) {
      const row = element("tr");
      row.append(element("th", name, { scope: "row" }), element("td", value));
      body.append(row);
    }
    table.append(body);
    box.append(table);
    return box;
  }

  const who = (worker) => (worker == null ? "the supervisor" : `worker ${worker}`);

  // Eight digits of each digest: enough for people, who compare them by eye.
  const shortDigests = (value) => String(value).replace(/\b([0-9a-f]{8})[0-9a-f]{24,}\b/g, "$1…");

  function verdict(v, error) {
    if (!v || v.passed == null) return "nothing could be compared";
    if (!v.passed) {
      return v.first_difference && v.first_difference === error
        ? "different, see the error" : `different: ${shortDigests(v.first_difference || "see the data")}`;
    }
    const exact = v.losses_compared - v.losses_within;
    const losses = v.losses_within ? `${exact} losses bit for bit and ${v.losses_within} within a tolerance` : `${exact} losses`;
    const what = `${losses}, ${v.digests_compared} digests, ${v.samples_checked} samples`;
    if (v.tolerance == null) return `equal: ${what}`;
    const beyond = v.losses_beyond ? `, ${v.losses_beyond} later losses only among the workers` : "";
    return `equal, in part within a tolerance of at most ${v.tolerance.toExponential(1)}: ${what}${beyond}`;
  }

  function exitWords(e) {
    const how = e.signal ? `by ${e.signal}` : e.code == null ? "ended, nobody says how" : `with code ${e.code}`;
    return `${how} (${data.reasons[e.reason] || e.reason})`;
  }

  function facts(trial) {
    const box = byId("facts");
    const position = data.trials.indexOf(trial);
    const injected = trial.t_inject != null; // without it there was nothing to survive
    const survivors = Object.entries(trial.pids).filter(([, p]) => p.length === 1 && trial.exits.some((e) => e.pid === p[0] && e.reason === "end")).map(([w]) => w);
    box.replaceChildren(
      factTable("Result", [
        ["outcome", words(trial.outcome)],
        ...(trial.error ? [["error", shortDigests(trial.error)]] : []),
        ...(injected ? [["victim", data.victims[position]]] : [["injection", "nothing was injected"]]),
        ["recovery time", seconds(trial.recovery_s)],
        ["time to progress", seconds(trial.time_to_progress_s)],
        ["unattributed", seconds(trial.unattributed_s)],
        ["steps", `${trial.step_before ?? NONE} before, back at ${trial.restored_step ?? NONE}, lost ${trial.lost_steps ?? NONE}`],
        ["same training", verdict(trial.verify, trial.error)],
        ...(trial.recoveries > 1 ? [["recoveries begun", `${trial.recoveries}, the last one counts`]] : []),
        ...(trial.harmless ? [["false alarms", trial.false_alarms]] : []),
        ...data.notes[position].map((note) => ["also", note]),
        ...(injected ? [["kept their process", survivors.length ? survivors.map((w) => `worker ${w}`).join(", ") : "none"]] : []),
      ]),
      factTable("Milestones", marksOf(trial).map((m) => [words(m.name), seconds(m.at)])),
      factTable("What noticed it", trial.detection_evidence.map((e) => [
        data.mechanisms[e.mechanism] || words(e.mechanism), `${seconds(e.after_s)}, ${who(e.observer)}: ${e.detail}`])),
      factTable("How processes ended", trial.exits.map((e) => [
        `worker ${e.worker}, attempt ${e.attempt}`, `pid ${e.pid} ${exitWords(e)}`])),
    );
  }

  // ---- choosing a trial ------------------------------------------------------------------

  const chooser = byId("trial");
  const keys = data.trials.map((t) => `${t.run}/${t.trial}`);
  let drawn = -1;

  function fillChooser() {
    const several = data.runs.length > 1;
    data.trials.forEach((trial, i) => {
      const cell = data.cells[trial.cell];
      const time = trial.recovery_s == null ? words(trial.outcome) : seconds(trial.recovery_s);
      const run = several ? `${data.runs[trial.run].run_id} · ` : "";
      chooser.append(new Option(`${run}${trial.trial} · ${cell.strategy} · ${cell.fault} · ${time}`, String(i)));
    });
    const empty = !data.trials.length;
    for (const id of ["trial", "previous", "next", "json", "csv"]) byId(id).disabled = empty;
    if (empty) byId("lanes").textContent = "No trial to show.";
  }

  function show(index) {
    if (!data.trials[index]) return;
    chooser.value = String(index);
    drawn = index;
    const trial = data.trials[index];
    const box = byId("lanes");
    const bar = { ...plain, displayModeBar: "hover", modeBarButtons: [["resetScale2d", "toImage"]] };
    if (trial.spans.length || marksOf(trial).length) {
      if (!box.classList.contains("js-plotly-plot")) box.textContent = "";
      draw("lanes", waterfallFigure(trial, box.clientWidth), bar);
    } else {
      Plotly.purge(box);
      box.textContent = "This trial reached no milestone, so there is nothing to draw.";
    }
    facts(trial);
  }

  function fromHash() {
    let key = null;
    try { key = decodeURIComponent(location.hash.replace(/^#trial=/, "")); } catch { return; }
    const index = keys.indexOf(key);
    if (index < 0) return;
    show(index);
    byId("waterfall").scrollIntoView();
  }

  const choose = (index) => { history.replaceState(null, "", `#trial=${encodeURIComponent(keys[index])}`); show(index); };
  const step = (by) => choose((drawn + by + keys.length) % keys.length);

  // ---- the data as files -----------------------------------------------------------------

  function records() {
    return data.trials.map(({ run, cell, spans, ...rest }) => ({
      run: data.runs[run].run_id, cell: data.cells[cell], ...rest,
      spans: spans.map(([worker, attempt, name, start_s, end_s]) => ({ worker, attempt, name, start_s, end_s })),
    }));
  }

  function csvField(value) {
    if (value == null) return "";
    if (typeof value === "number") return String(value);
    let content = typeof value === "string" ? value : JSON.stringify(value);
    if (/^[=+\-@\t\r]/.test(content)) content = `'${content}`; // a spreadsheet must not run it
    return /[",\n\r]/.test(content) ? `"${content.replace(/"/g, '""')}"` : content;
  }

  function csv() {
    const own = ["rep", "seed", "outcome", "victim", "recovery_s", "time_to_progress_s", "unattributed_s",
      "verify_s", "step_before", "restored_step", "lost_steps", "detected_by", "wall_s", "window_s", "steady_step_s", "simulated", "recoveries", "restore_tier",
      "restore_received_bytes", "harmless", "false_alarms", "preemption_save", "error"];
    const factors = Object.keys(data.cells[0] || {});
    const head = ["run", "trial", ...factors, ...own, ...data.shown_phases.map((p) => `${p}_s`), "verified"];
    const lines = records().map((t) => [t.run, t.trial, ...factors.map((f) => t.cell[f]), ...own.map((k) => t[k]),
      ...data.shown_phases.map((p) => t.phases[p]), t.verify ? t.verify.passed : null].map(csvField).join(","));
    return [head.join(","), ...lines].join("\r\n") + "\r\n";
  }

  function save(name, type, content) {
    const url = URL.createObjectURL(new Blob([content], { type }));
    const link = element("a", null, { href: url, download: name });
    document.body.append(link);
    link.click();
    link.remove();
    setTimeout(() => URL.revokeObjectURL(url), 1000);
  }

  const fileName = (ending) =>
    `${String(data.runs[0]?.run_id ?? "runs").replace(/[^\w.-]+/g, "-").slice(0, 80)}.${ending}`;

  // ---- start -----------------------------------------------------------------------------

  function redraw() {
    drawOverviews();
    if (drawn >= 0) show(drawn);
  }

  function lazily(box, action) {
    if (!("IntersectionObserver" in window)) { action(); return; }
    const watcher = new IntersectionObserver((entries) => {
      if (!entries.some((e) => e.isIntersecting)) return;
      watcher.disconnect();
      action();
    }, { rootMargin: "400px" });
    watcher.observe(box);
  }

  fillChooser();
  drawOverviews();
  lazily(byId("waterfall"), () => { if (drawn < 0) show(0); });
  fromHash();
  chooser.addEventListener("change", () => choose(Number(chooser.value)));
  byId("previous").addEventListener("click", () => step(-1));
  byId("next").addEventListener("click", () => step(1));
  byId("in-seconds").addEventListener("click", () => scale(false));
  byId("in-share").addEventListener("click", () => scale(true));
  byId("json").addEventListener("click", () =>
    save(fileName("json"), "application/json", JSON.stringify({ runs: data.runs, trials: records() }, null, 1)));
  byId("csv").addEventListener("click", () => save(fileName("csv"), "text/csv", csv()));
  addEventListener("hashchange", fromHash);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
  addEventListener("beforeprint", () => { root.dataset.print = ""; if (drawn < 0) show(0); redraw(); });
  addEventListener("afterprint", () => { delete root.dataset.print; redraw(); });
  let timer = 0;
  let width = innerWidth;
  addEventListener("resize", () => {
    if (innerWidth === width) return;
    width = innerWidth;
    clearTimeout(timer);
    timer = setTimeout(redraw, 150);
  });
})();
