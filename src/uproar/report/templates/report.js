(() => {
  "use strict";
  const figures = JSON.parse(document.getElementById("figures").textContent);
  const night = matchMedia("(prefers-color-scheme: dark)");
  const fine = matchMedia("(pointer: fine)").matches;
  const hidden = {};
  let ready = false;

  const dark = () => night.matches;
  const colour = (style) => (dark() ? style.dark : style.light);
  const ink = () => (dark() ? "#eef1f4" : "#16191d");
  const soft = () => (dark() ? "#b5bec9" : "#4a5361");
  const line = () => (dark() ? "#2b323a" : "#e1e5ea");
  const card = () => (dark() ? "#171b20" : "#ffffff");
  const faded = (hex, alpha) => {
    const [r, g, b] = [1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16));
    return `rgba(${r},${g},${b},${alpha})`;
  };
  const plain = (name) => name.replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");
  const scaled = (values, share) => (share ? values.map((v) => (v === null ? null : 100 * v)) : values);
  const value = (v, share) => (v === null ? "–" : share ? `${(100 * v).toFixed(1)} %` : v.toFixed(3));
  const scales = {
    diverging: () => (dark() ? [[0, "#4db2ec"], [0.5, "#171b20"], [1, "#ff8a3d"]] : [[0, "#0072b2"], [0.5, "#ffffff"], [1, "#d55e00"]]),
    changes: () => (dark() ? [[0, "#ff5cc8"], [0.5, "#171b20"], [1, "#2fd3e3"]] : [[0, "#d1008f"], [0.5, "#ffffff"], [1, "#00a5b8"]]),
    sequential: () => (dark() ? [[0, "#171b20"], [1, "#4db2ec"]] : [[0, "#ffffff"], [1, "#0072b2"]]),
  };

  function band(series, chart) {
    const there = series.x.map((_, i) => i).filter((i) => series.low[i] !== null && series.high[i] !== null);
    const back = [...there].reverse();
    return {
      x: scaled([...there, ...back].map((i) => series.x[i]), chart.percent[0]),
      y: scaled([...there.map((i) => series.high[i]), ...back.map((i) => series.low[i])], chart.percent[1]),
      fill: "toself", fillcolor: faded(colour(series.style), 0.12), line: { width: 0 }, mode: "lines",
      hoverinfo: "skip", showlegend: false, legendgroup: series.label, meta: series.label,
    };
  }

  function readout(series, chart) {
    const [across, upright] = chart.percent;
    const where = (x, i) => (series.names[i] ? plain(series.names[i]) : typeof x === "string" ? plain(x) : value(x, across).replace(".0 %", " %"));
    return {
      name: plain(series.label), meta: series.label, showlegend: series.label !== "", legendgroup: series.label,
      customdata: series.x.map((x, i) => [`${where(x, i)} ${chart.done}`, value(series.y[i], upright),
        (series.low[i] === null ? "" : `<br>95 % interval ${value(series.low[i], upright)} to ${value(series.high[i], upright)}`) +
        (series.n.length ? `<br>n = ${series.n[i]}` : "")]),
      hovertemplate: `<b>%{fullData.name}</b><br>%{customdata[0]}<br>${plain(chart.noun)} <b>%{customdata[1]}</b>%{customdata[2]}<extra></extra>`,
    };
  }

  function trace(series, chart, small) {
    const tint = colour(series.style);
    const y = scaled(series.y, chart.percent[1]);
    const about = readout(series, chart);
    if (chart.kind === "bars") {
      const ends = { high: scaled(series.high, chart.percent[1]), low: scaled(series.low, chart.percent[1]) };
      const error = ends.high.some((v) => v !== null) ? { type: "data", symmetric: false, color: soft(), thickness: 1.3,
        array: ends.high.map((v, i) => (v === null ? 0 : v - y[i])), arrayminus: ends.low.map((v, i) => (v === null ? 0 : y[i] - v)) } : undefined;
      return { ...about, type: "bar", x: series.x.map((v) => plain(String(v))), y, marker: { color: tint }, error_y: error };
    }
    const open = series.style.marker === "circle-open";
    return { ...about, x: scaled(series.x, chart.percent[0]), y, mode: chart.kind === "lines" ? "lines+markers" : "markers",
      line: { color: tint, dash: series.style.dash, width: series.reference ? 3 : 2.2 },
      marker: { color: open ? card() : tint, symbol: series.style.marker.replace("-open", ""), size: small ? 5 : 7.5,
        maxdisplayed: series.x.length > 25 ? 12 : 0, line: { color: tint, width: open ? 1.8 : 0 } } };
  }

  function traces(chart, group, small) {
    if (chart.kind === "heatmap") {
      return [{ type: "heatmap", x: chart.columns.map(plain), y: chart.rows.map(plain), z: chart.values, zmin: chart.limits[0], zmax: chart.limits[1],
        colorscale: scales[chart.scale](), showscale: false, xgap: 2, ygap: 2,
        text: chart.words, texttemplate: "%{text}", hovertemplate: "%{y}<br>%{x}<br><b>%{text}</b><extra></extra>" }];
    }
    const shown = chart.series.filter((s) => !(hidden[group] && hidden[group].has(s.label)));
    const ordered = [...shown.filter((s) => !s.reference), ...shown.filter((s) => s.reference)];
    const line = chart.fit ? [{ x: scaled(chart.fit[0], chart.percent[0]), y: scaled(chart.fit[1], chart.percent[1]), mode: "lines",
      line: { color: soft(), width: 1.5 }, hoverinfo: "skip", showlegend: false }] : [];
    return [...(chart.kind === "lines" ? ordered.map((s) => band(s, chart)) : []), ...ordered.map((s) => trace(s, chart, small)), ...line];
  }

  function layout(chart, legend, small) {
    const heat = chart.kind === "heatmap";
    const [across, upright] = chart.percent || [false, false];
    const axis = { gridcolor: line(), zeroline: false, linecolor: line(), tickcolor: line(),
      tickfont: { color: soft(), size: small ? 10 : 12.5 }, fixedrange: small || !fine, automargin: !small };
    const title = (text) => (small || !text ? undefined : { text: plain(text), font: { color: soft(), size: 13 }, standoff: 12 });
    const level = heat || chart.level === null ? null : scaled([chart.level], upright)[0];
    return {
      paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", barmode: "group",
      margin: small ? { l: 38, r: 6, t: 4, b: 22 } : { l: 20, r: 10, t: 10, b: 20 },
      font: { family: "system-ui, -apple-system, Segoe UI, Roboto, Helvetica Neue, Arial, sans-serif", color: ink() },
      xaxis: { ...axis, showgrid: false, title: title(chart.x_label), nticks: small ? 4 : 8, ticks: heat ? "" : "outside", ticklen: 4,
        type: heat || chart.kind === "bars" ? "category" : "linear", ticksuffix: across ? " %" : "",
        ...(chart.x_range ? { range: scaled(chart.x_range, across) } : {}) },
      yaxis: { ...axis, title: title(chart.y_label), nticks: small ? 5 : 8, showgrid: !heat, ticksuffix: upright ? " %" : "",
        ...(heat ? { type: "category", autorange: "reversed" } : chart.y_range ? { range: scaled(chart.y_range, upright) } : {}) },
      showlegend: legend && !heat && !small && chart.series.some((s) => s.label !== ""),
      legend: { orientation: "h", y: -0.25, font: { color: soft(), size: 12 } },
      hovermode: "closest", hoverdistance: 30, dragmode: small || heat || !fine ? false : "zoom",
      hoverlabel: { bgcolor: card(), bordercolor: line(), font: { color: ink(), size: 13 }, align: "left" },
      shapes: level === null ? [] : [{ type: "line", xref: "paper", x0: 0, x1: 1, y0: level, y1: level, line: { color: soft(), width: 1, dash: "dot" } }],
      annotations: level === null ? [] : [{ xref: "paper", x: 1, y: level, text: plain(chart.level_label), showarrow: false,
        xanchor: "right", yanchor: "bottom", font: { size: 11, color: soft() } }],
    };
  }

  function draw(place) {
    if (!ready || place.closest("[hidden]")) return;
    const figure = figures[place.dataset.figure];
    const chart = figure.plots[Number(place.dataset.plot)];
    const small = place.classList.contains("small");
    Plotly.react(place, traces(chart, small ? null : figure.group, small), layout(chart, figure.legend, small), { displayModeBar: false });
  }

  const drawAll = (root) => root.querySelectorAll(".plot").forEach(draw);

  function emphasise(group, label) {
    document.querySelectorAll(".plot:not(.small)").forEach((place) => {
      if (!place.data || figures[place.dataset.figure].group !== group) return;
      const strength = place.data.map((trace) => (label === null || trace.meta === label ? 1 : 0.13));
      Plotly.restyle(place, { opacity: strength });
    });
  }

  function legend(bar) {
    const group = bar.dataset.legend;
    const buttons = [...bar.querySelectorAll("[data-series]")];
    const refresh = () => {
      hidden[group] = new Set(buttons.filter((b) => b.getAttribute("aria-pressed") === "false").map((b) => b.dataset.series));
      document.querySelectorAll(".plot:not(.small)").forEach((place) => {
        if (figures[place.dataset.figure].group === group) draw(place);
      });
    };
    buttons.forEach((button) => {
      button.addEventListener("click", () => {
        button.setAttribute("aria-pressed", String(button.getAttribute("aria-pressed") === "false"));
        refresh();
      });
      if (!fine) return;
      button.addEventListener("mouseenter", () => emphasise(group, button.dataset.series));
      button.addEventListener("mouseleave", () => emphasise(group, null));
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

  // Plotly comes compressed; a browser that cannot unpack it keeps the drawings that are there
  async function unpack() {
    if (!window.DecompressionStream) return false;
    const packed = Uint8Array.from(atob(document.getElementById("plotly").textContent), (c) => c.charCodeAt(0));
    const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
    const script = document.createElement("script");
    script.textContent = await new Response(stream).text();
    document.head.append(script);
    return Boolean(window.Plotly);
  }

  const wide = () => document.querySelectorAll(".scroll").forEach((box) => {
    box.classList.toggle("wide", box.scrollWidth > box.clientWidth + 4);
  });

  const fitted = new ResizeObserver((entries) => entries.forEach(({ target, contentRect }) => {
    if (target.data && Math.abs(contentRect.width - target._fullLayout.width) > 1 && contentRect.width > 0) Plotly.Plots.resize(target);
  }));

  const start = () => {
    ready = true;
    document.documentElement.classList.add("scripted");
    document.querySelectorAll("[data-legend]").forEach(legend);
    drawAll(document);
    document.querySelectorAll(".plot").forEach((place) => fitted.observe(place));
    night.addEventListener("change", () => drawAll(document));
  };

  document.querySelectorAll("[data-group]").forEach(choices);
  wide();
  addEventListener("resize", wide);
  document.querySelectorAll("details").forEach((box) => box.addEventListener("toggle", wide));
  if (document.querySelector(".plot")) unpack().then((there) => { if (there) start(); });
})();
