// Charts as SVG: curves with bands, points, bars and heat maps; values under the pointer, zoom, keyboard.
const charts = (() => {
  "use strict";
  const MARKERS = {} /* marker paths */;
  const DASHES = {} /* dash arrays */;
  const REACH = 30; // pixels from the pointer to a point it reads
  const fine = matchMedia("(pointer: fine)").matches;
  const readout = document.createElement("div");
  readout.className = "readout";
  readout.setAttribute("role", "status");
  readout.hidden = true;

  function element(tag, attributes = {}, ...children) {
    const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const [name, value] of Object.entries(attributes)) if (value !== null) made.setAttribute(name, value);
    made.append(...children);
    return made;
  }

  const number = (v, digits) => String(Number(v.toFixed(digits))).replace("-", "−");
  const value = (v, share) => (v === null ? "–" : share ? `${(100 * v).toFixed(1)} %` : v.toFixed(3)).replace("-", "−");
  const shortened = (name, most) => (name.length > most ? `${name.slice(0, most - 1)}…` : name);
  const there = (values) => values.filter((v) => v !== null && Number.isFinite(v));
  const colours = (style) => `--light:${style.light};--dark:${style.dark}`;

  // a few round numbers between two ends, at most so many
  function ticks(low, high, most) {
    const rough = (high - low) / Math.max(most, 1);
    const power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].map((k) => k * power).find((s) => s >= rough * 0.999);
    const first = Math.ceil(low / step - 1e-9);
    const found = [];
    for (let k = first; k * step <= high + step * 1e-9; k += 1) found.push(k * step);
    return found;
  }

  function tickTexts(values, share) {
    const shown = share ? values.map((v) => 100 * v) : values;
    const step = shown.length > 1 ? Math.abs(shown[1] - shown[0]) : 1;
    const digits = Math.min(6, Math.max(0, -Math.floor(Math.log10(step) + 1e-9)));
    return shown.map((v) => number(v, digits) + (share ? " %" : ""));
  }

  function extent(values, margin) {
    const known = there(values);
    if (!known.length) return [0, 1];
    const low = Math.min(...known), high = Math.max(...known);
    const room = margin * (high - low) || 0.05 * Math.abs(high) || 0.05;
    return [low - room, high + room];
  }

  function limits(chart, series) {
    const y = series.flatMap((s) => [...s.y, ...s.low, ...s.high]);
    if (chart.level !== null) y.push(chart.level);
    if (chart.kind === "bars") y.push(0);
    const x = chart.kind === "bars" ? [] : series.flatMap((s) => s.x);
    if (chart.fit) { x.push(...chart.fit[0]); y.push(...chart.fit[1]); }
    return { x: chart.x_range || extent(x, chart.kind === "lines" && !chart.path ? 0.02 : 0.06), y: chart.y_range || extent(y, 0.06) };
  }

  const categories = (chart) => [...new Set(chart.series.flatMap((s) => s.x.map(String)))];

  // where things are: the frame in pixels, and the two axes from values to pixels
  function frame(chart, series, size, view, small) {
    const ends = view || limits(chart, series);
    const words = (text, share) => tickTexts(text, share);
    const rows = ticks(...ends.y, small ? 4 : 7);
    const names = chart.kind === "bars" ? categories(chart).map((name) => shortened(name, 18)) : [];
    const wide = Math.max(...words(rows, chart.percent[1]).map((t) => t.length), 1) * (small ? 5.6 : 7.2);
    const left = wide + (small ? 8 : 14) + (small || !chart.y_label ? 0 : 20);
    const slant = Math.max(0, ...names.map((t) => t.length)) * 4.6 + 8;
    const bottom = (small ? 20 : chart.kind === "bars" ? slant : 24) + (small || !chart.x_label ? 0 : 22);
    const box = { left, top: small ? 6 : 12, right: size.width - (small ? 6 : 12), bottom: size.height - bottom, foot: size.height };
    const scale = (domain, from, to) => (v) => from + ((v - domain[0]) / (domain[1] - domain[0])) * (to - from);
    const unscale = (domain, from, to) => (p) => domain[0] + ((p - from) / (to - from)) * (domain[1] - domain[0]);
    const across = [box.left, box.right], upright = [box.bottom, box.top];
    return { box, ends, rows, names, x: scale(ends.x, ...across), y: scale(ends.y, ...upright),
      unX: unscale(ends.x, ...across), unY: unscale(ends.y, ...upright) };
  }

  function axes(chart, at, small) {
    const { box } = at;
    const made = element("g", { class: "axes" });
    tickTexts(at.rows, chart.percent[1]).forEach((text, i) => {
      const y = at.y(at.rows[i]);
      made.append(element("line", { class: "grid", x1: box.left, x2: box.right, y1: y, y2: y }),
        element("text", { x: box.left - 6, y: y + 4, "text-anchor": "end" }, text));
    });
    if (chart.kind === "bars") made.append(...slanted(at.names, (i) => box.left + ((i + 0.5) / at.names.length) * (box.right - box.left), box.bottom + 12));
    else {
      const columns = ticks(Math.min(...at.ends.x), Math.max(...at.ends.x), small ? 3 : (box.right - box.left) / 80);
      tickTexts(columns, chart.percent[0]).forEach((text, i) => made.append(
        element("line", { class: "tick", x1: at.x(columns[i]), x2: at.x(columns[i]), y1: box.bottom, y2: box.bottom + 4 }),
        element("text", { x: at.x(columns[i]), y: box.bottom + 16, "text-anchor": "middle" }, text)));
    }
    made.append(element("line", { class: "base", x1: box.left, x2: box.right, y1: box.bottom, y2: box.bottom }));
    if (!small) made.append(...titles(chart, at));
    return made;
  }

  const slanted = (names, place, y) => names.map((name, i) =>
    element("text", { "text-anchor": "end", transform: `translate(${place(i) + 4} ${y}) rotate(-35)` }, name));

  function titles(chart, { box }) {
    const found = [];
    if (chart.x_label) found.push(element("text", { class: "title", x: (box.left + box.right) / 2, y: box.foot - 6, "text-anchor": "middle" }, chart.x_label));
    if (chart.y_label) found.push(element("text", { class: "title", transform: `translate(13 ${(box.top + box.bottom) / 2}) rotate(-90)`, "text-anchor": "middle" }, chart.y_label));
    return found;
  }

  function level(chart, at, small) {
    if (chart.level === null) return [];
    const y = at.y(chart.level);
    const line = element("line", { class: "level", x1: at.box.left, x2: at.box.right, y1: y, y2: y });
    return small ? [line] : [line, element("text", { class: "level-label", x: at.box.right, y: y - 4, "text-anchor": "end" }, chart.level_label)];
  }

  // lines break where a value is not known
  function lineData(xs, ys) {
    let pen = "M", text = "";
    xs.forEach((x, i) => {
      if (ys[i] === null || x === null) { pen = "M"; return; }
      text += `${pen}${x.toFixed(1)} ${ys[i].toFixed(1)}`;
      pen = "L";
    });
    return text;
  }

  function marker(style, x, y, size) {
    const open = style.marker.endsWith("-open");
    return element("path", { class: open ? "marker open" : "marker", d: MARKERS[style.marker] || MARKERS.circle, transform: `translate(${x.toFixed(1)} ${y.toFixed(1)}) scale(${size})` });
  }

  function drawLine(series, chart, at, small) {
    const xs = series.x.map((x) => at.x(x));
    const of = (values) => values.map((v) => (v === null ? null : at.y(v)));
    const [ys, lows, highs] = [of(series.y), of(series.low), of(series.high)];
    const known = xs.map((_, i) => i).filter((i) => lows[i] !== null && highs[i] !== null);
    const band = [...known.map((i) => `${xs[i].toFixed(1)} ${highs[i].toFixed(1)}`), ...known.reverse().map((i) => `${xs[i].toFixed(1)} ${lows[i].toFixed(1)}`)];
    const every = Math.max(1, Math.ceil(xs.length / (small ? 8 : 12)));
    const marks = xs.map((x, i) => (ys[i] !== null && i % every === 0 ? marker(series.style, x, ys[i], small ? 0.65 : 0.95) : "")).filter(Boolean);
    const ring = chart.path && ys[0] !== null ? [element("circle", { class: "ring", cx: xs[0], cy: ys[0], r: 8 })] : [];
    return [...(band.length ? [element("path", { class: "band", d: `M${band.join("L")}Z` })] : []),
      element("path", { class: "line", d: lineData(xs, ys), "stroke-dasharray": DASHES[series.style.dash], "stroke-width": (small ? 1.6 : 2.2) + (series.reference ? 0.8 : 0) }), ...marks, ...ring];
  }

  function drawPoints(series, chart, at, small) {
    return series.x.flatMap((x, i) => {
      if (series.y[i] === null) return [];
      const error = series.low[i] === null || series.high[i] === null ? [] : [element("line", { class: "error", x1: at.x(x), x2: at.x(x), y1: at.y(series.low[i]), y2: at.y(series.high[i]) })];
      return [...error, marker(series.style, at.x(x), at.y(series.y[i]), small ? 0.8 : 1.1)];
    });
  }

  // the place of one bar: left end, width and middle
  function barPlace(chart, shown, at, series, i) {
    const names = categories(chart), wide = (at.box.right - at.box.left) / names.length, own = (0.8 * wide) / shown.length;
    const left = at.box.left + names.indexOf(String(series.x[i])) * wide + 0.1 * wide + shown.indexOf(series) * own;
    return { left: left + 0.05 * own, width: 0.9 * own, middle: left + own / 2 };
  }

  function drawBars(series, chart, at, small, shown) {
    return series.x.flatMap((_, i) => {
      if (series.y[i] === null) return [];
      const place = barPlace(chart, shown, at, series, i), zero = at.y(Math.max(0, at.ends.y[0])), top = at.y(series.y[i]);
      const bar = element("rect", { class: "bar-drawn", x: place.left, width: Math.max(place.width, 1), y: Math.min(zero, top), height: Math.max(Math.abs(zero - top), 0.5) });
      const error = series.low[i] === null || series.high[i] === null ? [] : [element("line", { class: "error plain", x1: place.middle, x2: place.middle, y1: at.y(series.low[i]), y2: at.y(series.high[i]) })];
      return [bar, ...error];
    });
  }

  // every point that can be read: where it is, and what it says
  function points(chart, shown, at) {
    return shown.flatMap((series) => series.x.map((x, i) => {
      if (series.y[i] === null) return null;
      const px = chart.kind === "bars" ? barPlace(chart, shown, at, series, i).middle : at.x(x);
      return { px, py: at.y(series.y[i]), lines: said(series, chart, i) };
    })).filter((point) => point && point.px >= at.box.left - 1 && point.px <= at.box.right + 1 && point.py >= at.box.top - 1 && point.py <= at.box.bottom + 1);
  }

  function said(series, chart, i) {
    const [across, upright] = chart.percent, x = series.x[i];
    const where = series.names[i] || (typeof x === "string" ? x : value(x, across).replace(".0 %", " %"));
    const lines = [series.label, `${where} ${chart.done}`.trim(), `${chart.noun} ${value(series.y[i], upright)}`];
    if (series.low[i] !== null && series.high[i] !== null) lines.push(`95 % interval ${value(series.low[i], upright)} to ${value(series.high[i], upright)}`);
    if (series.n.length) lines.push(`n = ${series.n[i]}`);
    return lines.filter(Boolean);
  }

  function chartSvg(place, chart, hidden, size, small) {
    const shown = chart.series.filter((s) => !hidden.has(s.label));
    const at = frame(chart, shown.length ? shown : chart.series, size, place.view, small);
    const clip = `clip-${charts.count += 1}`;
    const body = element("g", { "clip-path": `url(#${clip})` });
    const drawn = { lines: drawLine, points: drawPoints, bars: drawBars }[chart.kind];
    if (chart.fit) body.append(element("path", { class: "fit", d: lineData(chart.fit[0].map(at.x), chart.fit[1].map(at.y)) }));
    for (const series of [...shown.filter((s) => !s.reference), ...shown.filter((s) => s.reference)]) {
      body.append(element("g", { class: "series", "data-label": series.label, style: colours(series.style) }, ...drawn(series, chart, at, small, shown)));
    }
    const { left, top, right, bottom } = at.box;
    const window = element("clipPath", { id: clip }, element("rect", { x: left - 6, y: top - 6, width: right - left + 12, height: bottom - top + 12 }));
    place.at = at;
    place.points = points(chart, shown, at);
    return [element("defs", {}, window), axes(chart, at, small), ...level(chart, at, small), body];
  }

  function heatSvg(place, chart, size) {
    const left = Math.min(Math.max(...chart.rows.map((r) => r.length)) * 7 + 14, size.width * 0.36);
    const foot = Math.min(Math.max(...chart.columns.map((c) => Math.min(c.length, 18))) * 4.6 + 20, 110);
    const wide = (size.width - left - 8) / chart.columns.length, high = (size.height - foot - 8) / chart.rows.length;
    const top = Math.max(Math.abs(chart.limits[0]), Math.abs(chart.limits[1])) || 1;
    const made = [element("g", { class: "axes" }, ...slanted(chart.columns.map((c) => shortened(c, 18)), (i) => left + (i + 0.5) * wide, size.height - foot + 16))];
    place.points = [];
    chart.rows.forEach((row, i) => {
      const y = 4 + i * high;
      made.push(element("g", { class: "axes" }, element("text", { class: "row-name", x: left - 8, y: y + high / 2 + 4, "text-anchor": "end" }, shortened(row, Math.floor(left / 7)))));
      chart.columns.forEach((column, j) => {
        const v = chart.values[i][j], share = v === null ? 0 : Math.round(Math.min(1, Math.abs(v) / top) * 100), x = left + j * wide;
        made.push(element("rect", { class: `cell ${v === null ? "none" : v < 0 ? "low" : "high"}`, style: `--share:${share}%`, x: x + 1, y: y + 1, width: Math.max(wide - 2, 1), height: Math.max(high - 2, 1) }),
          element("text", { class: share > 60 ? "cell-text strong" : "cell-text", x: x + wide / 2, y: y + high / 2 + 4, "text-anchor": "middle", style: `font-size:${Math.min(12.5, Math.max(7, wide / (chart.words[i][j].length * 0.62 + 0.5))).toFixed(1)}px` }, chart.words[i][j]));
        place.points.push({ px: x + wide / 2, py: y + high / 2, lines: [row, column, chart.words[i][j]], reach: Math.max(wide, high) });
      });
    });
    return made;
  }

  // draw a plot into its place; `hidden` are the labels left out, `small` one of many
  function draw(place, chart, hidden, small) {
    if (!place.clientWidth) return; // inside something closed: drawn when that opens
    const before = place.querySelector(":scope > .chart");
    const made = before || element("svg", { class: "chart", "aria-hidden": "true" });
    if (!before) { place.append(made); place.classList.add("drawn"); }
    const size = { width: place.clientWidth, height: made.clientHeight || 300 };
    made.setAttribute("viewBox", `0 0 ${size.width} ${size.height}`);
    const heat = chart.kind === "heatmap";
    if (heat) made.setAttribute("data-scale", chart.scale);
    made.replaceChildren(...(heat ? heatSvg(place, chart, size) : chartSvg(place, chart, hidden, size, small)));
    place.again = () => draw(place, chart, hidden, small);
    if (!before) listen(place, made, !heat && !small && chart.kind !== "bars");
    back(place);
  }

  // reading values: pointer, finger or arrow keys

  function show(place, point) {
    place.querySelectorAll(".here").forEach((old) => old.remove());
    readout.hidden = !point;
    if (!point) return;
    const box = place.querySelector(".chart").getBoundingClientRect();
    place.querySelector(".chart").append(element("circle", { class: "here", cx: point.px, cy: point.py, r: 9 }));
    readout.replaceChildren(...point.lines.map((text, i) => Object.assign(document.createElement(i ? "span" : "b"), { textContent: text })));
    if (!readout.isConnected) document.body.append(readout);
    const wide = readout.offsetWidth, x = box.left + point.px + 14;
    readout.style.left = `${Math.max(4, x + wide > innerWidth - 4 ? x - wide - 28 : x) + scrollX}px`;
    readout.style.top = `${Math.max(4, box.top + point.py - readout.offsetHeight - 8) + scrollY}px`;
  }

  function nearest(place, x, y) {
    let best = null, least = Infinity;
    for (const point of place.points || []) {
      const distance = Math.hypot(point.px - x, point.py - y);
      if (distance < least && distance < (point.reach || REACH)) { least = distance; best = point; }
    }
    return best;
  }

  const inside = (event, made) => {
    const box = made.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  };

  function listen(place, made, zooms) {
    place.tabIndex = 0;
    let from = null, current = -1;
    const leave = () => { if (from === null) show(place, null); };
    place.addEventListener("pointermove", (event) => {
      const [x, y] = inside(event, made);
      if (from) drag(place, made, from, [x, y]);
      else show(place, nearest(place, x, y));
    });
    place.addEventListener("pointerdown", (event) => {
      const [x, y] = inside(event, made);
      if (event.pointerType !== "mouse") show(place, nearest(place, x, y));
      else if (zooms && event.button === 0) from = [x, y];
    });
    addEventListener("pointerup", (event) => {
      if (from) zoom(place, from, inside(event, made));
      from = null;
      made.querySelectorAll(".drag").forEach((old) => old.remove());
    });
    place.addEventListener("pointerleave", leave);
    place.addEventListener("blur", leave);
    place.addEventListener("dblclick", () => reset(place));
    place.addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
      if (event.key === "Escape") { show(place, null); reset(place); }
      if (!step || !place.points.length || event.target !== place) return;
      event.preventDefault();
      current = (current + step + place.points.length) % place.points.length;
      show(place, place.points[current]);
    });
  }

  function drag(place, made, from, to) {
    made.querySelectorAll(".drag").forEach((old) => old.remove());
    made.append(element("rect", { class: "drag", x: Math.min(from[0], to[0]), y: Math.min(from[1], to[1]), width: Math.abs(to[0] - from[0]), height: Math.abs(to[1] - from[1]) }));
  }

  function zoom(place, from, to) {
    if (Math.abs(to[0] - from[0]) < 8 || Math.abs(to[1] - from[1]) < 8) return;
    const ordered = (a, b, like) => ((like[1] > like[0]) === (b > a) ? [a, b] : [b, a]);
    const { unX, unY, ends } = place.at;
    place.view = { x: ordered(unX(from[0]), unX(to[0]), ends.x), y: ordered(unY(from[1]), unY(to[1]), ends.y) };
    place.again();
  }

  function reset(place) {
    if (!place.view) return;
    place.view = null;
    place.again();
  }

  // a button that shows all again, while a part is shown
  function back(place) {
    const old = place.querySelector(":scope > .whole-view");
    if (!place.view) { if (old) old.remove(); return; }
    if (old) return;
    const button = Object.assign(document.createElement("button"), { type: "button", className: "whole-view", textContent: "show all" });
    button.addEventListener("click", () => { reset(place); place.focus(); });
    place.append(button);
  }

  function emphasise(place, label) {
    place.querySelectorAll(".series").forEach((one) => one.classList.toggle("faint", label !== null && one.dataset.label !== label));
  }

  return { draw, emphasise, fine, count: 0 };
})();
