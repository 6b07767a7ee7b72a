// The trials: columns of values, made into records where one is looked at.

let data = null; // once it is unpacked

const LISTS = { // fields whose parts have names
  detection_evidence: ["mechanism", "after_s", "observer", "detail", "bound_s"],
  exits: ["worker", "attempt", "pid", "code", "signal", "ours", "reason"],
};

// What a name of the data is called; a string of a run may be the name of what every object has.
const called = (names, name) => (Object.hasOwn(names, name) ? names[name] : words(name));

const value = (name, i) => (name in data.columns ? data.columns[name][i] : data.defaults[name]);
const named = (names, list) => Object.fromEntries(names.map((name, i) => [name, list[i]]));
const keyOf = (i) => `${data.run[i]}/${value("trial", i)}`;

// Spans of a trial: worker, attempt, name, start and end in seconds since the failure; null: this
// page has none of it.
function spansOf(i) {
  const packed = data.lanes.of[i];
  if (!packed) return null;
  let start = 0;
  return packed[0].map((lane, k) => {
    start += packed[2][k];
    return [...data.lanes.attempts[lane], data.lanes.names[packed[1][k]], start / 1e6, (start + packed[3][k]) / 1e6];
  });
}

// Everything that is known of a trial, as the scripts of this page read it.
function trialAt(i) {
  const trial = Object.fromEntries(Object.keys(data.defaults).map((name) => [name, value(name, i)]));
  for (const [name, parts] of Object.entries(LISTS)) trial[name] = trial[name].map((one) => named(parts, one));
  const start = trial.t_inject ?? 0;
  trial.milestones = Object.fromEntries(Object.entries(data.milestones_us[i]).map(([m, us]) => [m, start + us * 1000]));
  return { ...trial, index: i, run: data.run[i], cell: data.cell[i], spans: spansOf(i) || [],
    drawable: spansOf(i) !== null, victim_words: data.victims[i], notes: data.notes[i] || [] };
}
