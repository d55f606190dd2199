(() => {
  "use strict";
  const figures = JSON.parse(document.getElementById("figures").textContent);
  const hidden = {};

  const places = (group) => [...document.querySelectorAll(".plot:not(.small)")].filter((place) => figures[place.dataset.figure].group === group);

  function draw(place) {
    if (place.closest("[hidden]")) return;
    const figure = figures[place.dataset.figure];
    const small = place.classList.contains("small");
    const left = small ? new Set() : figure.legend ? (place.left ||= new Set()) : hidden[figure.group] || new Set();
    charts.draw(place, figure.plots[Number(place.dataset.plot)], left, small);
    if (figure.legend && !small) ownLegend(place, figure.plots[Number(place.dataset.plot)]);
  }

  const drawAll = (root) => root.querySelectorAll(".plot").forEach(draw);

  // the legend of a figure that shares none: made once, below the chart
  function ownLegend(place, chart) {
    const named = (chart.series || []).filter((series) => series.label !== "");
    if (!named.length || place.querySelector(".legend")) return;
    const bar = Object.assign(document.createElement("div"), { className: "legend own" });
    bar.setAttribute("role", "group");
    bar.setAttribute("aria-label", "Series shown");
    for (const series of named) {
      const button = Object.assign(document.createElement("button"), { type: "button" });
      const patch = Object.assign(document.createElement("i"), { className: "patch" });
      patch.style.cssText = `--light:${series.style.light};--dark:${series.style.dark}`;
      button.append(patch, Object.assign(document.createElement("code"), { textContent: series.label }));
      button.setAttribute("aria-pressed", "true");
      button.addEventListener("click", () => {
        const shown = toggle(button);
        place.left[shown ? "delete" : "add"](series.label);
        draw(place);
      });
      hover(button, () => [place], series.label);
      bar.append(button);
    }
    place.append(bar);
  }

  function toggle(button) {
    const shown = button.getAttribute("aria-pressed") === "false";
    button.setAttribute("aria-pressed", String(shown));
    return shown;
  }

  function hover(button, over, label) {
    if (!charts.fine) return;
    button.addEventListener("mouseenter", () => over().forEach((place) => charts.emphasise(place, label)));
    button.addEventListener("mouseleave", () => over().forEach((place) => charts.emphasise(place, null)));
  }

  function legend(bar) {
    const group = bar.dataset.legend;
    const buttons = [...bar.querySelectorAll("[data-series]")];
    const refresh = () => {
      hidden[group] = new Set(buttons.filter((b) => b.getAttribute("aria-pressed") === "false").map((b) => b.dataset.series));
      places(group).forEach(draw);
    };
    buttons.forEach((button) => {
      button.addEventListener("click", () => { toggle(button); refresh(); });
      hover(button, () => places(group), button.dataset.series);
    });
    bar.querySelectorAll("[data-all]").forEach((quick) => quick.addEventListener("click", () => {
      buttons.forEach((b) => b.setAttribute("aria-pressed", String(quick.dataset.all === "true" || b.dataset.series === "random")));
      refresh();
    }));
  }

  function choices(box) {
    const buttons = [...box.querySelectorAll("[data-axis]")];
    buttons.forEach((button) => button.addEventListener("click", () => {
      buttons.filter((b) => b.dataset.axis === button.dataset.axis)
        .forEach((b) => b.setAttribute("aria-pressed", String(b === button)));
      const state = buttons.filter((b) => b.getAttribute("aria-pressed") === "true")
        .sort((a, b) => a.dataset.axis - b.dataset.axis).map((b) => b.dataset.value).join("/");
      box.querySelectorAll("[data-when]").forEach((panel) => { panel.hidden = panel.dataset.when !== state; });
      drawAll(box);
      wide();
    }));
  }

  // a page opened from a folder has no clipboard interface in some browsers: the older command is the second try
  async function copyText(button) {
    const text = document.getElementById(button.dataset.copy).textContent;
    let done = false;
    try { await navigator.clipboard.writeText(text); done = true; } catch { done = copySelected(button.dataset.copy); }
    button.textContent = done ? "copied" : "select and copy it";
    setTimeout(() => { button.textContent = "copy"; }, 2000);
  }

  function copySelected(id) {
    getSelection().selectAllChildren(document.getElementById(id));
    return document.execCommand("copy");
  }

  const wide = () => document.querySelectorAll(".scroll").forEach((box) => {
    box.classList.toggle("wide", box.scrollWidth > box.clientWidth + 4);
  });

  const fitted = new ResizeObserver((entries) => entries.forEach(({ target, contentRect }) => {
    if (contentRect.width > 0 && Math.abs(contentRect.width - (target.width || 0)) > 1) { target.width = contentRect.width; draw(target); }
  }));

  document.querySelectorAll("[data-group]").forEach(choices);
  document.querySelectorAll("[data-copy]").forEach((button) => button.addEventListener("click", () => copyText(button)));
  document.documentElement.classList.add("scripted");
  document.querySelectorAll("[data-legend]").forEach(legend);
  drawAll(document);
  document.querySelectorAll(".plot").forEach((place) => { place.width = place.clientWidth; fitted.observe(place); });
  wide();
  addEventListener("resize", wide);
  document.querySelectorAll("details").forEach((box) => box.addEventListener("toggle", () => { wide(); drawAll(box); }));
})();
