// What happens when: charts are drawn when they come near the window, data is unpacked after that.

const charts = [...document.querySelectorAll(".chart[data-figure]")];
const seen = new Set();

function drawChart(box) {
  if (!seen.has(box)) return;
  if (!box.classList.contains("rows")) { drawFigure(box, ofWanted(figures[box.dataset.figure])); return; }
  const done = drawRows(box);
  drawPager(box);
  if (done && box.id === "recovery") done.then(listen);
}

// To a trial or to some of them, also where the address says so already.
function goTo(hash) {
  if (location.hash === hash) fromHash();
  else location.hash = hash;
}

function followed(event) {
  const link = event.target.closest('a[href^="#trial"]');
  if (!link) return;
  event.preventDefault();
  goTo(link.getAttribute("href"));
}

// A click on a dot opens its trial.
function listen(box) {
  box.removeAllListeners("plotly_click");
  box.on("plotly_click", (event) => {
    const point = event.points[0].customdata;
    if (point && point[4]) goTo("#trial=" + encodeURIComponent(point[4]));
  });
}

function drawCharts() { for (const box of charts) drawChart(box); }

function redraw() {
  drawCharts();
  if (drawn >= 0) show(drawn);
}

function scale(toShare) {
  share = toShare;
  byId("in-share").setAttribute("aria-pressed", String(share));
  byId("in-seconds").setAttribute("aria-pressed", String(!share));
  drawChart(byId("stack"));
}

function filtered() {
  firstRow = 0;
  hideUnwanted();
  const count = data.labels.filter((_, row) => wanted(row)).length;
  const some = filters.some(({ select }) => select.value !== "");
  byId("filtered").textContent = some ? `${count} of ${data.labels.length} cells; the answer above is of all` : "";
  byId("filters").querySelector("button").hidden = !some;
  chosen.row = null;
  chosen.first = 0;
  drawCharts();
  if (byId("trials")) fillTable();
}

function fromHash() {
  let hash = "";
  try { hash = decodeURIComponent(location.hash.slice(1)); } catch { return; }
  if (hash.startsWith("trials=") && byId("trials")) chooseTrials(hash.slice(7));
  if (!hash.startsWith("trial=")) return;
  for (let i = 0; i < data.all; i += 1) {
    if (keyOf(i) !== hash.slice(6)) continue;
    for (const box of charts) seen.add(box); // one drawn on the way would move what was scrolled to
    drawCharts();
    show(i);
    byId("waterfall").scrollIntoView();
    return;
  }
}

function startControls() {
  if (byId("stack")) {
    byId("in-seconds").addEventListener("click", () => scale(false));
    byId("in-share").addEventListener("click", () => scale(true));
  }
  byId("json").addEventListener("click", () =>
    save(fileName("json"), "application/json", JSON.stringify({ runs: data.runs, trials: records() }, null, 1)));
  byId("csv").addEventListener("click", () => save(fileName("csv"), "text/csv", csv()));
  for (const id of ["json", "csv"]) byId(id).disabled = !data.count;
  if (byId("filters")) {
    byId("filters").addEventListener("change", filtered);
    byId("filters").addEventListener("reset", () => setTimeout(filtered)); // once they are empty
  }
  addEventListener("hashchange", fromHash);
  document.addEventListener("click", followed);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
  addEventListener("beforeprint", () => {
    root.dataset.print = "";
    for (const box of charts) seen.add(box);
    if (drawn < 0 && data.count) show(firstShown());
    redraw();
  });
  addEventListener("afterprint", () => { delete root.dataset.print; redraw(); });
  let timer = 0;
  let width = innerWidth;
  addEventListener("resize", () => {
    if (innerWidth === width) return;
    width = innerWidth;
    clearTimeout(timer);
    timer = setTimeout(() => { redraw(); reachable(); }, 150);
  });
}

async function start() {
  const [made] = await Promise.all([unpack("figures"), loadPlotly()]);
  Object.assign(figures, JSON.parse(made));
  for (const box of charts) lazily(box, () => { seen.add(box); drawChart(box); });
  data = JSON.parse(await unpack("payload"));
  if (byId("trials")) startTable();
  startWaterfall();
  startControls();
  fromHash();
  reachable();
  root.dataset.ready = "";
}

start().catch((error) => {
  const trouble = byId("trouble");
  trouble.textContent = "DecompressionStream" in window
    ? `The charts cannot be drawn: ${error.message}` : "The charts need a browser of 2023 or later.";
  trouble.hidden = false;
  console.error(error);
});
