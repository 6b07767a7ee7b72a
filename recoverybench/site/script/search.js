"use strict";
(() => {
  const SHOWN = 12;
  const entries = JSON.parse(document.getElementById("entries").textContent);
  for (const entry of entries) {
    entry.lower = entry.title.toLowerCase();
    entry.all = `${entry.lower} ${entry.detail.toLowerCase()} ${entry.kind}`;
  }
  const form = document.getElementById("search");
  const box = document.getElementById("sought");
  const list = document.getElementById("found");
  const said = document.getElementById("said");
  form.hidden = false;

  /** Entries that hold every word, those whose title begins with or holds them first. */
  const find = (text) => {
    const words = text.toLowerCase().split(/\s+/).filter(Boolean);
    if (!words.length) return [];
    const whole = words.join(" ");
    const rank = (entry) => {
      if (entry.lower === whole) return 0;
      if (entry.lower.startsWith(whole)) return 1;
      return words.every((word) => entry.lower.includes(word)) ? 2 : 3;
    };
    return entries
      .filter((entry) => words.every((word) => entry.all.includes(word)))
      .map((entry, at) => [rank(entry), at, entry])
      .sort((a, b) => a[0] - b[0] || a[1] - b[1])
      .map((ranked) => ranked[2]);
  };

  const span = (name, text) => {
    const made = document.createElement("span");
    made.className = name;
    made.textContent = text;
    return made;
  };

  const show = () => {
    const found = find(box.value);
    list.replaceChildren(...found.slice(0, SHOWN).map((entry) => {
      const link = document.createElement("a");
      link.href = entry.href;
      link.append(span("kind", entry.kind), span("title", entry.title), span("detail", entry.detail));
      const item = document.createElement("li");
      item.append(link);
      return item;
    }));
    list.hidden = !found.length;
    const more = found.length > SHOWN ? `, the first ${SHOWN} shown` : "";
    const count = found.length ? `${found.length} found${more}` : "nothing found";
    said.textContent = box.value.trim() ? count : "";
  };

  const links = () => [...list.querySelectorAll("a")];

  box.addEventListener("input", show);
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const first = links()[0];
    if (first) first.click();
  });
  form.addEventListener("keydown", (event) => {
    const all = links();
    const at = all.indexOf(document.activeElement);
    if (event.key === "Escape") {
      box.value = "";
      show();
      box.focus();
    } else if (event.key === "ArrowDown" && all.length) {
      all[Math.min(at + 1, all.length - 1)].focus();
    } else if (event.key === "ArrowUp" && at >= 0) {
      (at ? all[at - 1] : box).focus();
    } else {
      return;
    }
    event.preventDefault();
  });
  document.addEventListener("keydown", (event) => {
    const typing = /^(INPUT|TEXTAREA|SELECT)$/.test(document.activeElement.tagName);
    if (event.key !== "/" || typing || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    box.focus();
  });
})();
