// Charts with a row a cell: those rows that the filters let through, one page of them at a time.

const figures = {}; // id -> figure, once they are unpacked
const filters = [...document.querySelectorAll("#filters select")].map((select) => ({
  select, of: select.dataset.of.split(",").map(Number),
}));
const ROWS_AT_ONCE = 24;
let firstRow = 0;
let share = false; // the phases as parts of the recovery, and not in seconds

const wanted = (row) => filters.every(({ select, of }) => select.value === "" || of[row] === Number(select.value));

// Positions on the axis of a figure whose rows are wanted.
const wantedRows = (figure) => figure.rows.map((row, y) => [row, y]).filter(([row]) => wanted(row)).map(([, y]) => y);

// A figure of another kind: the series with a row that is wanted.
const ofWanted = (figure) => ({ ...figure, data: figure.data.filter((t) => !Array.isArray(t.meta) || t.meta.some(wanted)) });

// What stands in tables, maps and lists of one cell.
function hideUnwanted() {
  for (const node of document.querySelectorAll("tr[data-row], option[data-row]")) {
    node.hidden = !wanted(Number(node.dataset.row));
  }
  for (const field of document.querySelectorAll("td[data-row]")) field.classList.toggle("out", !wanted(Number(field.dataset.row)));
  for (const map of document.querySelectorAll(".map")) map.hidden = !map.querySelector("td[data-row]:not(.out)");
  for (const node of document.querySelectorAll("li[data-rows]")) node.hidden = !node.dataset.rows.split(",").map(Number).some(wanted);
  for (const select of document.querySelectorAll("select[data-chooses]")) {
    const there = [...select.options].filter((option) => !option.hidden);
    if (!there.length || !select.selectedOptions[0].hidden) continue;
    select.value = there[0].value;
    byId(select.dataset.chooses).dataset.figure = select.value; // drawn with all others, after this
  }
}

// The same figure with these of its rows alone, from the top.
function picked(figure, shown) {
  const place = new Map(shown.map((y, i) => [y, i]));
  const pick = (list) => shown.map((y) => list[y]);
  const layout = structuredClone(figure.layout);
  const high = (layout.height - 84) / Math.max(figure.rows.length, 1); // of a row, in pixels
  const data = figure.data.flatMap((trace) => {
    if (trace.meta == null) return [{ ...trace, x: pick(trace.x), y: shown.map((_, i) => i), customdata: pick(trace.customdata) }];
    if (!place.has(trace.meta)) return [];
    const by = place.get(trace.meta) - trace.meta;
    return [{ ...trace, y: trace.y.map((y) => y + by) }];
  });
  layout.height = high * Math.max(shown.length, 1) + 84;
  layout.yaxis.tickvals = shown.map((_, i) => i);
  layout.yaxis.ticktext = pick(layout.yaxis.ticktext);
  layout.yaxis.range = [Math.max(shown.length, 1) - 0.5, -0.5];
  layout.annotations = layout.annotations.filter((a) => place.has(a.y)).map((a) => ({ ...a, y: place.get(a.y) }));
  return { data, layout };
}

function asShares(fig) {
  const data = fig.data.filter((t) => t.legendgroup !== "catch_up");
  const totals = fig.layout.yaxis.tickvals.map((_, i) => data.reduce((sum, t) => sum + (t.x[i] || 0), 0));
  return {
    data: data.map((t) => ({ ...t, x: t.x.map((v, i) => (v == null || !totals[i] ? null : (100 * v) / totals[i])) })),
    layout: { ...fig.layout, xaxis: { title: { text: "share of the phases' sum, %" }, range: [0, 100] } },
  };
}

// Print has no buttons: it takes as many rows as fit on a few sheets.
const atOnce = () => ("print" in root.dataset ? 60 : ROWS_AT_ONCE);

function drawRows(box) {
  const figure = figures[box.dataset.figure];
  const rows = wantedRows(figure);
  if (!rows.length) {
    Plotly.purge(box);
    box.textContent = figure.rows.length ? "No cell has all of this." : "No trial to show.";
    return null;
  }
  if (!box.classList.contains("js-plotly-plot")) box.textContent = "";
  let fig = picked(figure, rows.slice(firstRow, firstRow + atOnce()));
  if (box.id === "stack" && share) fig = asShares(fig);
  const narrow = box.clientWidth < NARROW;
  return drawFigure(box, fig, plain, (made) => {
    made.layout.margin.r = besideWidth(made.layout.annotations || []);
    return narrow ? narrowed(made, box.clientWidth) : made;
  });
}

// Where there are more rows than one page of them, every such chart has buttons below it.
function drawPager(box) {
  let pager = box.nextElementSibling;
  if (!pager || !pager.classList.contains("pager")) {
    pager = element("p", null, { class: "pager" });
    for (const [by, sign, name] of [[-1, "←", "cells before"], [1, "→", "cells after"]]) {
      const button = element("button", sign, { type: "button", "aria-label": name });
      button.addEventListener("click", () => turn(by));
      pager.append(button);
    }
    pager.children[0].after(" ", element("span"), " ");
    box.after(pager);
  }
  const count = wantedRows(figures[box.dataset.figure]).length;
  const last = Math.min(firstRow + ROWS_AT_ONCE, count);
  pager.hidden = count <= ROWS_AT_ONCE;
  pager.querySelector("span").textContent = `cells ${firstRow + 1} to ${last} of ${count}, the fastest first`;
  pager.children[0].disabled = firstRow === 0;
  pager.lastElementChild.disabled = last === count;
}

function turn(by) {
  firstRow = Math.max(0, firstRow + by * ROWS_AT_ONCE);
  drawCharts();
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
    if (trace.mode !== "lines" || trace.y[0] === trace.y[1]) continue; // only uprights
    const middle = (trace.y[0] + trace.y[1]) / 2;
    trace.y = [middle - 18 / high, middle + 18 / high];
  }
  layout.yaxis.showticklabels = false;
  layout.yaxis.range = [rows.length - 0.5, -top];
  layout.height = high * (rows.length - 0.5 + top) + 54;
  layout.margin = { l: 6, r: 6, t: 8, b: 46 };
  for (const key of Object.keys(layout)) {
    const title = key.startsWith("xaxis") && layout[key].title;
    if (title && title.text) title.text = title.text.replace(/ \(logarithmic.*\)/, ", logarithmic").replace(/ \(.*\)/, "").replace("no recovery time", "no time");
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
