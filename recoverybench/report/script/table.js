// The table of trials: those of the wanted cells, or of one that was clicked, a page at a time.

const TRIALS_AT_ONCE = 20;
const chosen = { row: null, outcome: "", order: "wrong", first: 0 };

const isWrong = (outcome) => outcome !== "recovered" && outcome !== "no_effect";

function trialsWanted() {
  const found = [];
  for (let i = 0; i < data.count; i += 1) {
    const here = chosen.row == null ? wanted(data.row[i]) : data.row[i] === chosen.row;
    if (here && (!chosen.outcome || value("outcome", i) === chosen.outcome)) found.push(i);
  }
  const time = (i) => value("recovery_s", i) ?? Infinity;
  const sorts = {
    wrong: (a, b) => isWrong(value("outcome", b)) - isWrong(value("outcome", a)) || a - b,
    slow: (a, b) => (time(b) === time(a) ? a - b : time(b) - time(a)),
    fast: (a, b) => (time(b) === time(a) ? a - b : time(a) - time(b)),
    order: (a, b) => a - b,
  };
  return found.sort(sorts[chosen.order]);
}

const fixedSeconds = (s) => (s == null ? NONE : s.toFixed(2));

function trialLine(i) {
  const line = element("tr");
  const name = element("th", null, { scope: "row" });
  name.append(element("a", value("trial", i), { href: `#trial=${encodeURIComponent(keyOf(i))}` }));
  const outcome = value("outcome", i);
  const mechanism = value("detected_by", i);
  line.append(
    name,
    element("td", data.labels[data.row[i]]),
    element("td", called(data.outcomes, outcome), isWrong(outcome) ? { class: "bad" } : {}),
    element("td", fixedSeconds(value("recovery_s", i)), { class: "num" }),
    element("td", fixedSeconds(value("time_to_progress_s", i)), { class: "num" }),
    element("td", value("lost_steps", i) ?? NONE, { class: "num" }),
    element("td", mechanism ? called(data.mechanisms, mechanism) : NONE),
    element("td", shortDigests(value("error", i) || "")),
  );
  return line;
}

function fillTable() {
  const found = trialsWanted();
  chosen.first = Math.max(0, Math.min(chosen.first, Math.floor((found.length - 1) / TRIALS_AT_ONCE) * TRIALS_AT_ONCE));
  const last = Math.min(chosen.first + TRIALS_AT_ONCE, found.length);
  byId("trials-table").tBodies[0].replaceChildren(...found.slice(chosen.first, last).map(trialLine));
  const pager = byId("trials-pager");
  pager.querySelector("span").textContent = found.length
    ? `trials ${chosen.first + 1} to ${last} of ${found.length}` : "no trial of this kind";
  const [before, after] = pager.querySelectorAll("button");
  before.disabled = chosen.first === 0;
  after.disabled = last >= found.length;
  const chip = byId("trials-cell");
  chip.hidden = chosen.row == null;
  chip.querySelector("b").textContent = chosen.row == null ? "" : data.labels[chosen.row];
}

// `ROW:OUTCOME`, as the numbers of the matrix say.
function chooseTrials(address) {
  const [row, outcome] = address.split(":");
  if (!data.labels[row] || !Object.hasOwn(data.outcomes, outcome)) return;
  Object.assign(chosen, { row: Number(row), outcome, first: 0 });
  byId("trials-outcome").value = outcome;
  fillTable();
  byId("trials").scrollIntoView();
}

function startTable() {
  const there = new Set(Array.from({ length: data.count }, (_, i) => value("outcome", i)));
  const select = byId("trials-outcome");
  for (const name of there) select.append(new Option(called(data.outcomes, name), name));
  const again = (change) => () => { Object.assign(chosen, { first: 0 }, change()); fillTable(); };
  select.addEventListener("change", again(() => ({ outcome: select.value })));
  byId("trials-order").addEventListener("change", again(() => ({ order: byId("trials-order").value })));
  byId("trials-cell").querySelector("button").addEventListener("click", again(() => ({ row: null })));
  for (const button of byId("trials-pager").querySelectorAll("button")) {
    button.addEventListener("click", () => { chosen.first += Number(button.dataset.by) * TRIALS_AT_ONCE; fillTable(); });
  }
  fillTable();
}
