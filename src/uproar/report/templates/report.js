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

  // show and hide what a form of choices asks for
  function choose(images) {
    const chosen = (name) => images.querySelector(`[data-choose="${name}"]`);
    const show = chosen("show")?.selectedIndex ?? 0, metric = chosen("metric")?.selectedIndex ?? 0;
    const has = (text, name) => text.toLowerCase().includes((chosen(name)?.value ?? "").toLowerCase());
    for (const image of images.querySelectorAll("[data-show]")) image.hidden = Number(image.dataset.show) !== show;
    for (const value of images.querySelectorAll("[data-metric]")) value.hidden = Number(value.dataset.metric) !== metric;
    for (const cell of images.querySelectorAll("[data-method]")) cell.hidden = !has(cell.dataset.method, "method");
    const rows = [...images.querySelectorAll("[data-image]")];
    for (const row of rows) row.hidden = !has(row.dataset.image, "image");
    const spread = (row) => Number(row.querySelector(`[data-metric="${metric}"]`)?.dataset.spread ?? 0);
    if (metric) rows.sort((a, b) => spread(b) - spread(a)).forEach((row) => row.parentNode.append(row));
  }
  for (const form of document.querySelectorAll(".choices")) {
    form.addEventListener("input", () => choose(form.parentNode));
    form.addEventListener("submit", (event) => event.preventDefault());
  }
})();
