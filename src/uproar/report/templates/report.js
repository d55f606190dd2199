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
  const percent = (v) => (v === null ? "–" : `${(100 * v).toFixed(1)} %`);
  const times = (values) => values.map((v) => (v === null ? null : 100 * v));
  const value = (v, figure) => (v === null ? "–" : figure.plain ? v.toFixed(3) : percent(v));
  const heights = (values, figure) => (figure.plain ? values : times(values));
  const plain = (name) => name.replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");

  function band(series, tint, figure) {
    const there = series.x.map((_, i) => i).filter((i) => series.low[i] !== null && series.high[i] !== null);
    const back = [...there].reverse();
    return {
      x: times([...there.map((i) => series.x[i]), ...back.map((i) => series.x[i])]),
      y: heights([...there.map((i) => series.high[i]), ...back.map((i) => series.low[i])], figure),
      fill: "toself", fillcolor: faded(tint, 0.12), line: { width: 0 }, mode: "lines",
      hoverinfo: "skip", showlegend: false, meta: series.label,
    };
  }

  function stroke(series, style, name, word, figure) {
    const tint = colour(style);
    const small = word === "";
    return {
      x: times(series.x), y: heights(series.mean, figure), name: plain(name), meta: series.label, mode: "lines+markers",
      line: { color: tint, dash: style.dash, width: series.reference ? 3 : 2.2 },
      marker: { color: style.marker === "circle-open" ? card() : tint, symbol: style.marker.replace("-open", ""),
        size: small ? 5 : 7.5, maxdisplayed: series.x.length > 25 ? 12 : 0, line: { color: tint, width: style.marker === "circle-open" ? 1.8 : 0 } },
      customdata: series.x.map((x, i) => [percent(x).replace(".0", ""), value(series.mean[i], figure),
        series.low[i] === null ? "–" : `${value(series.low[i], figure)} to ${value(series.high[i], figure)}`, series.n[i]]),
      hovertemplate: "<b>%{fullData.name}</b><br>%{customdata[0]} " + word +
        "<br>" + (figure.noun || "accuracy") + " <b>%{customdata[1]}</b><br>95 % interval %{customdata[2]}<br>n = %{customdata[3]}<extra></extra>",
    };
  }

  function layout(figure, small) {
    const axis = { gridcolor: line(), zeroline: false, linecolor: line(), tickcolor: line(), ticksuffix: " %",
      tickfont: { color: soft(), size: small ? 10 : 12.5 }, fixedrange: small || !fine, automargin: !small };
    const title = (text) => (small ? undefined : { text, font: { color: soft(), size: 13 }, standoff: 12 });
    return {
      paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", showlegend: false,
      margin: small ? { l: 38, r: 6, t: 4, b: 22 } : { l: 20, r: 10, t: 10, b: 20 },
      font: { family: "system-ui, -apple-system, Segoe UI, Roboto, Helvetica Neue, Arial, sans-serif" },
      xaxis: { ...axis, showgrid: false, title: title(figure.x_label), nticks: small ? 4 : 8, ticks: "outside", ticklen: 4,
        ...(figure.x_range ? { range: times(figure.x_range) } : {}) },
      yaxis: { ...axis, title: title(figure.y_label), range: heights(figure.y_range, figure), ticksuffix: figure.plain ? "" : " %", nticks: small ? 5 : 8 },
      hovermode: "closest", hoverdistance: 30, dragmode: small || !fine ? false : "zoom",
      hoverlabel: { bgcolor: card(), bordercolor: line(), font: { color: ink(), size: 13 }, align: "left" },
      shapes: figure.chance ? [{ type: "line", xref: "paper", x0: 0, x1: 1, y0: heights([figure.chance], figure)[0],
        y1: heights([figure.chance], figure)[0], line: { color: soft(), width: 1, dash: "dot" } }] : [],
      annotations: figure.chance ? [{ xref: "paper", x: 1, y: heights([figure.chance], figure)[0], text: figure.chance_label || "chance",
        showarrow: false, xanchor: "right", yanchor: "bottom", font: { size: 11, color: soft() } }] : [],
    };
  }

  function curveTraces(figure, group) {
    const shown = figure.series.filter((s) => !(hidden[group] && hidden[group].has(s.label)));
    const ordered = [...shown.filter((s) => !s.reference), ...shown.filter((s) => s.reference)];
    return [...ordered.map((s) => band(s, colour(s.style), figure)),
      ...ordered.map((s) => stroke(s, s.style, s.label, figure.word, figure))];
  }

  function pairTraces(pair, figure) {
    const solid = { ...pair.style, dash: "solid", marker: "circle" };
    const dotted = { ...pair.style, dash: "dot", marker: "circle-open" };
    return [band(pair.asked, colour(pair.style), figure), band(pair.retrained, colour(pair.style), figure),
      stroke(pair.asked, dotted, "original network", "", figure), stroke(pair.retrained, solid, "retrained", "", figure)];
  }

  const scales = {
    diverging: () => (dark() ? [[0, "#4db2ec"], [0.5, "#171b20"], [1, "#ff8a3d"]] : [[0, "#0072b2"], [0.5, "#ffffff"], [1, "#d55e00"]]),
    changes: () => (dark() ? [[0, "#ff5cc8"], [0.5, "#171b20"], [1, "#2fd3e3"]] : [[0, "#d1008f"], [0.5, "#ffffff"], [1, "#00a5b8"]]),
    sequential: () => (dark() ? [[0, "#171b20"], [1, "#4db2ec"]] : [[0, "#ffffff"], [1, "#0072b2"]]),
  };

  function auditTraces(figure) {
    const sign = (v) => (figure.scale === "changes" && v > 0 ? "+" : "");
    const share = (v) => (v === null ? "–" : sign(v) + (figure.percent ? (100 * v).toFixed(1) : v.toFixed(2)));
    if (figure.audit === "heatmap") {
      const lowest = figure.scale !== "sequential" ? -figure.largest : Math.min(0, ...figure.values.flat().filter((v) => v !== null));
      return [{ type: "heatmap", x: figure.columns.map(plain), y: figure.rows.map(plain), z: figure.values, zmin: lowest, zmax: figure.largest,
        colorscale: scales[figure.scale](), showscale: false, xgap: 2, ygap: 2,
        text: figure.values.map((row) => row.map(share)), texttemplate: "%{text}", hovertemplate: "%{y}<br>%{x}<br><b>%{text}</b><extra></extra>" }];
    }
    const traces = [];
    figure.series.forEach((s) => {
      const tint = colour(s.style);
      const looks = { name: plain(s.label), meta: s.label, showlegend: s.label !== "", legendgroup: s.label,
        text: s.names.map(plain), hovertemplate: "<b>%{fullData.name}</b> %{text}<br>%{y}<extra></extra>" };
      if (figure.audit === "bars") {
        const error = s.high.some((v) => v !== null) ? { type: "data", symmetric: false, color: soft(), thickness: 1.3,
          array: s.high.map((v, i) => (v === null ? 0 : v - s.y[i])), arrayminus: s.low.map((v, i) => (v === null ? 0 : s.y[i] - v)) } : undefined;
        traces.push({ ...looks, type: "bar", x: s.x.map((v) => plain(String(v))), y: s.y, marker: { color: tint }, error_y: error });
        return;
      }
      if (figure.audit === "lines" && s.low.some((v) => v !== null)) {
        const there = s.x.map((_, i) => i).filter((i) => s.low[i] !== null && s.high[i] !== null);
        const back = [...there].reverse();
        traces.push({ x: [...there, ...back].map((i) => s.x[i]), y: [...there.map((i) => s.high[i]), ...back.map((i) => s.low[i])],
          fill: "toself", fillcolor: faded(tint, 0.12), line: { width: 0 }, mode: "lines", hoverinfo: "skip", showlegend: false, legendgroup: s.label });
      }
      traces.push({ ...looks, x: s.x, y: s.y, mode: figure.audit === "lines" ? "lines+markers" : "markers",
        line: { color: tint, dash: s.style.dash, width: 2.2 }, marker: { color: tint, symbol: s.style.marker, size: 8 } });
    });
    if (figure.fit) traces.push({ x: figure.fit[0], y: figure.fit[1], mode: "lines", line: { color: soft(), width: 1.5 }, hoverinfo: "skip", showlegend: false });
    return traces;
  }

  function auditLayout(figure) {
    const axis = { gridcolor: line(), zeroline: false, linecolor: line(), tickfont: { color: soft(), size: 12 }, fixedrange: !fine, automargin: true };
    const title = (text) => ({ text, font: { color: soft(), size: 13 }, standoff: 12 });
    const heat = figure.audit === "heatmap";
    return {
      paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", margin: { l: 20, r: 10, t: 10, b: 20 }, barmode: "group",
      font: { family: "system-ui, -apple-system, Segoe UI, Roboto, Helvetica Neue, Arial, sans-serif", color: ink() },
      xaxis: { ...axis, title: title(figure.x_label), showgrid: false, type: heat ? "category" : undefined },
      yaxis: { ...axis, title: heat ? undefined : title(figure.y_label), autorange: heat ? "reversed" : true, type: heat ? "category" : undefined,
        showgrid: !heat, tickformat: figure.percent && !heat ? ".0%" : undefined },
      showlegend: figure.series.some((s) => s.label !== ""), legend: { orientation: "h", y: -0.25, font: { color: soft(), size: 12 } },
      hovermode: "closest", dragmode: false, hoverlabel: { bgcolor: card(), bordercolor: line(), font: { color: ink(), size: 13 }, align: "left" },
      shapes: figure.reference === null ? [] : [{ type: "line", xref: "paper", x0: 0, x1: 1, y0: figure.reference, y1: figure.reference, line: { color: soft(), width: 1, dash: "dot" } }],
      annotations: figure.reference === null ? [] : [{ xref: "paper", x: 1, y: figure.reference, text: plain(figure.reference_label), showarrow: false, xanchor: "right", yanchor: "bottom", font: { size: 11, color: soft() } }],
    };
  }

  function draw(place) {
    if (!ready || place.closest("[hidden]")) return;
    const figure = figures[place.dataset.figure];
    if (figure.audit) {
      Plotly.react(place, auditTraces(figure), auditLayout(figure), { displayModeBar: false });
      return;
    }
    const small = place.dataset.pair !== undefined;
    const traces = small ? pairTraces(figure.pairs[Number(place.dataset.pair)], figure) : curveTraces(figure, figure.group);
    Plotly.react(place, traces, layout(figure, small), { displayModeBar: false });
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
