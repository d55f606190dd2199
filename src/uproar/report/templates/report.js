// Values at the pointer, lines hidden by their entry in the legend, and the choice of what images show.
(() => {
  "use strict";
  const tip = document.getElementById("tip");
  const REACH = 24;

  document.addEventListener("pointermove", (event) => {
    const figure = event.target.closest?.("svg.drawn");
    let nearest = null, least = REACH;
    for (const title of figure ? figure.querySelectorAll("use > title") : []) {
      const box = title.parentNode.getBoundingClientRect();
      const distance = Math.hypot(box.left + box.width / 2 - event.clientX, box.top + box.height / 2 - event.clientY);
      if (box.width && distance < least) { least = distance; nearest = title; }
    }
    tip.hidden = !nearest;
    if (!nearest) return;
    tip.textContent = nearest.textContent;
    tip.style.left = `${Math.max(4, Math.min(event.pageX + 14, scrollX + innerWidth - tip.offsetWidth - 8))}px`;
    tip.style.top = `${event.pageY + 14}px`;
  });

  document.addEventListener("click", (event) => {
    const entry = event.target.closest?.("[data-legend]");
    if (!entry) return;
    const figure = entry.closest("svg"), off = !entry.classList.contains("off");
    for (const part of figure.querySelectorAll("[data-series], [data-legend]")) {
      if (part.dataset.legend === entry.dataset.legend) part.classList.toggle("off", off);
      if (part.dataset.series === entry.dataset.legend) part.style.display = off ? "none" : "";
    }
  });

  // show, hide and order images as their form asks
  for (const form of document.querySelectorAll(".choices")) {
    const images = form.parentNode, rows = [...images.querySelectorAll("tr[data-label]")];
    form.addEventListener("submit", (event) => event.preventDefault());
    form.addEventListener("input", () => {
      const chosen = (name) => form.querySelector(`[data-choose="${name}"]`);
      const show = chosen("show")?.selectedIndex ?? 0, metric = chosen("metric")?.selectedIndex ?? 0;
      const method = chosen("method").value.toLowerCase();
      for (const tile of images.querySelectorAll("[data-show]")) tile.hidden = Number(tile.dataset.show) !== show;
      for (const value of images.querySelectorAll("[data-metric]")) value.hidden = Number(value.dataset.metric) !== metric;
      for (const cell of images.querySelectorAll("[data-method]")) cell.hidden = !cell.dataset.method.toLowerCase().includes(method);
      for (const row of rows) row.hidden = ["label", "answer"].some((name) => ![row.dataset[name], ""].includes(chosen(name)?.value ?? ""));
      const sorted = chosen("disagreement").checked ? [...rows].sort((a, b) => b.dataset.disagreement - a.dataset.disagreement) : rows;
      for (const row of sorted) row.parentNode.append(row);
    });
  }
  addEventListener("beforeprint", () => document.querySelectorAll("details").forEach((part) => { part.open = true; }));
})();
