// The data as files.

function records() {
  return Array.from({ length: data.count }, (_, i) => {
    const { index, run, cell, spans, drawable, victim_words, notes, ...rest } = trialAt(i);
    const lanes = spans.map((span) => named(["worker", "attempt", "name", "start_s", "end_s"], span));
    return { run: data.runs[run].run_id, cell: data.cells[cell], ...rest, spans: drawable ? lanes : null };
  });
}

function csvField(value) {
  if (value == null) return "";
  if (typeof value === "number") return String(value);
  let content = typeof value === "string" ? value : JSON.stringify(value);
  if (/^[=+\-@\t\r]/.test(content)) content = `'${content}`; // a spreadsheet must not run it
  return /[",\n\r]/.test(content) ? `"${content.replace(/"/g, '""')}"` : content;
}

function csv() {
  const own = ["rep", "seed", "outcome", "broken", "recovery_s", "time_to_progress_s", "unattributed_s",
    "verify_s", "step_before", "restored_step", "lost_steps", "detected_by", "wall_s", "window_s", "steady_step_s", "simulated", "recoveries", "restore_tier",
    "restore_received_bytes", "harmless", "false_alarms", "preemption_save", "error"];
  const factors = Object.keys(data.cells[0] || {});
  const head = ["run", "trial", ...factors, ...own, ...data.shown_phases.map((p) => `phase_${p}_s`), "verified"];
  const lines = records().map((t) => [t.run, t.trial, ...factors.map((f) => t.cell[f]), ...own.map((k) => (k === "broken" ? t.victim : t[k])),
    ...data.shown_phases.map((p) => t.phases[p]), t.verify ? t.verify.passed : null].map(csvField).join(","));
  return [head.join(","), ...lines].join("\r\n") + "\r\n";
}

const fileName = (ending) => {
  const name = data.runs.length === 1 ? data.runs[0].run_id : "runs";
  return `${String(name).replace(/[^\w.-]+/g, "-").slice(0, 80)}.${ending}`;
};
