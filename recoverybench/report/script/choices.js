// A list that chooses which figure a chart shows: its values are the figures' ids.

for (const select of document.querySelectorAll("select[data-chooses]")) {
  const box = byId(select.dataset.chooses);
  select.value = box.dataset.figure; // and not what the browser kept from before a reload
  select.addEventListener("change", () => {
    box.dataset.figure = select.value;
    drawChart(box);
  });
}
