"use strict";
(() => {
  // A server shows this page at any address; ours are one folder below the site's root.
  const parts = location.pathname.split("/").slice(0, -1);
  const at = parts.findIndex((part) => /^(runs|workloads|compare|data|assets)$/.test(part));
  const up = at < 0 ? 0 : parts.length - at;
  const home = document.getElementById("home");
  if (up && home.getAttribute("href") === "./") home.setAttribute("href", "../".repeat(up));
})();
