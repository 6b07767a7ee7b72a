// What there is to say about one trial, beside its lanes.

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
  return `${how} (${Object.hasOwn(data.reasons, e.reason) ? data.reasons[e.reason] : e.reason})`;
}

function facts(trial) {
  const box = byId("facts");
  const injected = trial.t_inject != null; // without it there was nothing to survive
  const survivors = Object.entries(trial.pids).filter(([, p]) => p.length === 1 && trial.exits.some((e) => e.pid === p[0] && e.reason === "end")).map(([w]) => w);
  box.replaceChildren(
    factTable("Result", [
      ["outcome", words(trial.outcome)],
      ...(trial.error ? [["error", shortDigests(trial.error)]] : []),
      ...(injected ? [["victim", trial.victim_words]] : [["injection", "nothing was injected"]]),
      ["recovery time", seconds(trial.recovery_s, (trial.clock_bound_s || {}).recovery_s)],
      ["time to progress", seconds(trial.time_to_progress_s, (trial.clock_bound_s || {}).time_to_progress_s)],
      ["unattributed", seconds(trial.unattributed_s)],
      ["steps", `${trial.step_before ?? NONE} before, back at ${trial.restored_step ?? NONE}, lost ${trial.lost_steps ?? NONE}`],
      ["same training", verdict(trial.verify, trial.error)],
      ...(trial.recoveries > 1 ? [["recoveries begun", `${trial.recoveries}, the last one counts`]] : []),
      ...(trial.harmless ? [["false alarms", trial.false_alarms]] : []),
      ...trial.notes.map((note) => ["also", note]),
      ...(injected ? [["kept their process", survivors.length ? survivors.map((w) => `worker ${w}`).join(", ") : "none"]] : []),
    ]),
    factTable("Milestones", marksOf(trial).map((m) => [words(m.name), seconds(m.at)])),
    factTable("What noticed it", trial.detection_evidence.map((e) => [
      called(data.mechanisms, e.mechanism), `${seconds(e.after_s, e.bound_s)}, ${who(e.observer)}: ${e.detail}`])),
    factTable("How processes ended", trial.exits.map((e) => [
      `worker ${e.worker}, attempt ${e.attempt}`, `pid ${e.pid} ${exitWords(e)}`])),
  );
}
