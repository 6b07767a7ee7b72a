// What every page of ours needs: colours of the theme, Plotly, compressed data, small elements.

const byId = (id) => document.getElementById(id);
const root = document.documentElement;
const NONE = "–";
const NARROW = 560; // of a chart, in pixels: below it, labels stand above their rows

// Strings of a run: no character that acts instead of being read, as `visible.clean` has it.
const ACTS = /[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]/gu;
const hex = (code, digits) => code.toString(16).padStart(digits, "0");
const visible = (value) => String(value).replace(ACTS, (char) => {
  const code = char.codePointAt(0);
  return code < 256 ? `\\x${hex(code, 2)}` : code < 65536 ? `\\u${hex(code, 4)}` : `\\U${hex(code, 8)}`;
});

const text = (value) => visible(value).replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");
const words = (name) => String(name).replace(/_/g, " ");

// A time that is shorter than what clocks may be wrong by is only known to be below that.
function seconds(value, bound) {
  if (value == null) return NONE;
  if (value < bound) return `< ${seconds(bound)}`;
  const size = Math.abs(value);
  if (size < 0.0995) return `${(value * 1e3).toPrecision(2).replace(/\.0$/, "")} ms`;
  return size < 9.995 ? `${value.toFixed(2)} s` : `${value.toFixed(1)} s`;
}

function element(tag, content, attributes) {
  const node = document.createElement(tag);
  if (content != null) node.textContent = visible(content);
  for (const [k, v] of Object.entries(attributes || {})) node.setAttribute(k, v);
  return node;
}

// Bytes of an element that `web.embed.pack` filled.
async function unpack(id) {
  const packed = atob(byId(id).textContent);
  const bytes = new Uint8Array(packed.length);
  for (let i = 0; i < packed.length; i += 1) bytes[i] = packed.charCodeAt(i);
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(stream).text();
}

// plotly.js is inside the page, compressed, or beside it, as a file of its site.
async function loadPlotly() {
  if (byId("plotly")) {
    const script = element("script");
    script.textContent = await unpack("plotly");
    document.head.append(script);
    script.remove();
  }
  if (!window.Plotly) throw new Error("plotly.js did not run");
}

// What does not fit and scrolls by itself can be reached by keys; what fits is no stop on the way.
function reachable() {
  for (const box of document.querySelectorAll(".scroll")) {
    if (box.scrollWidth > box.clientWidth) box.tabIndex = 0;
    else box.removeAttribute("tabindex");
  }
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

function save(name, type, content) {
  const url = URL.createObjectURL(new Blob([content], { type }));
  const link = element("a", null, { href: url, download: name });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(url), 1000);
}

// ---- theme ---------------------------------------------------------------------------------

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
  if (!out.yaxis) out.yaxis = {};
  for (const key of Object.keys(out)) {
    if (key.startsWith("xaxis")) out[key] = axis(out[key]);
    if (key.startsWith("yaxis")) out[key] = axis({ showgrid: false, tickfont: { size: 14 }, ...out[key] });
  }
  return out;
}

const plain = { displayModeBar: false, responsive: true, displaylogo: false };

// Draws a figure whose colours are names of CSS variables; `prepare` changes it beforehand.
function drawFigure(box, figure, config, prepare) {
  let fig = painted(figure);
  fig.layout = themed(fig.layout);
  if (prepare) fig = prepare(fig);
  return Plotly.react(box, fig.data, fig.layout, config || plain).then(() => box);
}
