// The viewer: state in the address, data in scripts that are loaded when they are asked for, pictures on canvas.
(() => {
  "use strict";
  const NONE = 65535, BIT = 1000, PER_PAGE = 60, KEPT = 120;
  const get = (id) => document.getElementById(id);
  const TYPES = { uint8: Uint8Array, uint16: Uint16Array, float32: Float32Array };
  const NAMES = ["setting", "method", "against", "protocol", "fraction", "replicate", "class", "mistakes", "disagreement", "order", "image", "page"];
  let index = null, state = {}, turn = 0, found = [];

  // data: each file is a script that calls received(name, content)

  const files = new Map(), waiting = new Map();
  window.received = (name, content) => { waiting.get(name)?.(content); };

  function load(name) {
    if (files.has(name)) { const known = files.get(name); files.delete(name); files.set(name, known); return known; }
    const asked = new Promise((resolve, reject) => {
      waiting.set(name, resolve);
      const script = document.createElement("script");
      script.src = `data/${name}.js${index?.live ? `?${index.version}` : ""}`;
      script.onload = () => script.remove();
      script.onerror = () => { script.remove(); files.delete(name); reject(new Error(`The file data/${name}.js cannot be read.`)); };
      document.head.append(script);
    }).then(decoded);
    files.set(name, asked);
    if (files.size > KEPT) files.delete(files.keys().next().value);
    return asked;
  }

  function bytes(text) {
    if (Uint8Array.fromBase64) return Uint8Array.fromBase64(text);
    const letters = atob(text), found = new Uint8Array(letters.length);
    for (let i = 0; i < found.length; i += 1) found[i] = letters.charCodeAt(i);
    return found;
  }

  async function decoded(content) {
    if (content.png) return sheet(content);
    for (const [name, value] of Object.entries(content)) {
      if (value && value.bytes !== undefined && TYPES[value.type]) content[name] = { ...value, values: new TYPES[value.type](bytes(value.bytes).buffer) };
    }
    return content;
  }

  // a sheet of pictures as RGBA bytes
  async function sheet(content) {
    const picture = await createImageBitmap(new Blob([bytes(content.png)], { type: "image/png" }), { colorSpaceConversion: "none" });
    const canvas = document.createElement("canvas");
    canvas.width = picture.width;
    canvas.height = picture.height;
    const pen = canvas.getContext("2d", { willReadFrequently: true });
    pen.drawImage(picture, 0, 0);
    return { ...content, rgba: pen.getImageData(0, 0, picture.width, picture.height).data };
  }

  // one picture of a sheet
  function picture(sheets, number) {
    const size = sheets.width * sheets.height * 4;
    return { width: sheets.width, height: sheets.height, rgba: sheets.rgba.subarray(number * size, (number + 1) * size) };
  }

  // the address holds the state, so that a view can be linked to

  function readAddress() {
    const given = new URLSearchParams(location.hash.slice(1));
    return Object.fromEntries(NAMES.map((name) => [name, given.get(name) || ""]));
  }

  function go(changes, replace = false) {
    const next = Object.fromEntries(NAMES.map((name) => [name, String(changes[name] ?? state[name])]));
    const asked = new URLSearchParams(NAMES.filter((name) => next[name] !== "").map((name) => [name, next[name]]));
    const address = `#${asked}`;
    if (replace) history.replaceState(null, "", address); else history.pushState(null, "", address);
    state = next;
    return render();
  }

  const settingNumber = () => (index.settings[Number(state.setting)] ? Number(state.setting) : 0);
  const setting = () => index.settings[settingNumber()];
  const at = (list, name) => Math.max(0, list.findIndex((one) => one.name === name));
  const method = () => at(setting().methods, state.method || firstMethod());
  const against = () => setting().methods.findIndex((one) => one.name === state.against);
  const protocol = () => at(setting().protocols, state.protocol);
  const fraction = () => Math.max(0, setting().fractions.indexOf(Number(state.fraction)));
  const replicate = () => Math.max(0, setting().seeds.indexOf(Number(state.replicate)));
  const place = () => `s${settingNumber()}`;

  function firstMethod() {
    const methods = ordered();
    return (methods.find((one) => one.standing === "use") || methods.find((one) => !one.network_free) || methods[0]).name;
  }

  // the best method first, then what never looks at the network
  const ordered = () => [...setting().methods].sort((a, b) => (a.place ?? 1e6) - (b.place ?? 1e6));

  // small helpers for elements: text is always text, never markup

  function made(tag, attributes = {}, ...children) {
    const one = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) {
      if (name === "onclick") one.addEventListener("click", value);
      else if (value !== null && value !== undefined && value !== false) one.setAttribute(name, value === true ? "" : value);
    }
    one.append(...children.filter((child) => child !== null && child !== undefined));
    return one;
  }

  const sentence = (text) => text.split("`").map((part, i) => (i % 2 ? made("code", {}, part) : part));
  const percent = (share, digits = 1) => (share === null || share === undefined || Number.isNaN(share) ? "–" : `${(100 * share).toFixed(digits)} %`);
  const share = (t) => `${Number((100 * t).toPrecision(6))} %`;
  const number = (value) => (value === null || value === undefined || Number.isNaN(value) ? "–" : String(Number(value.toPrecision(3))).replace("-", "−"));
  const className = (k) => (k === NONE ? "–" : setting().classes[k] ?? String(k));

  function patch(one) {
    const dot = made("i", { class: "patch" });
    dot.style.setProperty("--light", one.light);
    dot.style.setProperty("--dark", one.dark);
    return dot;
  }

  function fillSelect(id, options, chosen) {
    get(id).replaceChildren(...options.map(([value, text]) => made("option", { value }, text)));
    get(id).value = chosen;
  }

  // what networks said: classes and bits by replicate, fraction and image

  const missing = { absent: true };
  const answers = (p, m) => (setting().protocols.length ? load(`${place()}-answers-${p}-${m}`) : Promise.resolve(missing));
  const base = () => load(`${place()}-base`);

  function cell(column, r, f, i) {
    const [, fractions, images] = column.shape;
    return column.values[(r * fractions + f) * images + i];
  }

  const said = (one, r, f, i) => cell(one.classes, r, f, i);
  const inBits = (value) => (value === NONE ? NaN : value / BIT);
  const bitsOf = (one, r, f, i) => inBits(cell(one.bits, r, f, i));
  const saidBefore = (column, r, i) => column.values[r * column.shape[1] + i];

  // what the networks of a protocol are asked for: the label, or the answer of the explained network
  const truth = (known, p, r, i) => (setting().protocols[p]?.target === "answer" ? saidBefore(known.classes, r, i) : known.labels.values[i]);

  // page parts

  async function render() {
    const mine = (turn += 1);
    try {
      showVerdict();
      showMethods();
      showControls();
      const known = await base();
      const own = await answers(protocol(), method());
      const other = against() >= 0 ? await answers(protocol(), against()) : null;
      const rest = state.disagreement === "protocols" ? await Promise.all(setting().protocols.map((_, p) => answers(p, method()))) : null;
      const values = state.order.startsWith("metric:") ? await load(`${place()}-values-${method()}`) : null;
      if (mine !== turn) return;
      found = chosen(known, own, other, rest, values);
      showGrid(known, own, mine);
      if (mine === turn) await showEvidence(known, mine);
      if (mine === turn) { get("problem").hidden = true; document.body.dataset.shown = location.hash; }
    } catch (error) {
      if (mine === turn) complain(error);
    }
  }

  function complain(error) {
    get("problem").textContent = error.message;
    get("problem").hidden = false;
  }

  function showVerdict() {
    const here = setting();
    document.title = `${index.study}: ${state.image === "" ? "images" : `image ${state.image}`}, ${setting().methods[method()].name}`;
    get("study").textContent = index.study;
    get("setting-choice").hidden = index.settings.length < 2;
    fillSelect("setting", index.settings.map((one, k) => [String(k), `${one.task}, ${one.model}`]), String(settingNumber()));
    get("verdict").replaceChildren(...sentence(here.sentence));
    get("details").replaceChildren(...here.details.map((line) => made("li", {}, ...sentence(line))));
    get("network").textContent = [here.network, here.warning].filter(Boolean).join(" ");
  }

  function showMethods() {
    const here = setting(), p = here.protocols[protocol()], judges = here.judges;
    get("methods-reading").textContent = p
      ? `Methods that share a letter are not significantly different. Under the judges: against the best ranking that ignores the network. Not checked: nobody asked for the check (--metrics randomisation, --metrics sensitivity_max, --protocols evaluator:encoding). Numbers: mean accuracy of the networks of ${p.label} with that share of the pixels ${p.keeps ? "kept" : "removed"}; ${p.higher_is_better ? "higher" : "lower"} is better.`
      : "No network of this run says a class: maps, changed images and metrics are shown.";
    const heads = [made("th", { scope: "col" }, "group"), made("th", { scope: "col", class: "name" }, "method"), made("th", { scope: "col" }, "compare"),
      ...judges.map(([judge, able, why]) => made("th", { scope: "col", title: able ? null : why }, able ? judge : `${judge}: unable`)), ...(p ? here.fractions.map((t) => made("th", { scope: "col", class: "number" }, share(t))) : []), made("th", { scope: "col" }, "flags")];
    let before = null;
    const rows = ordered().map((one) => {
      const begins = before !== null && (one.begins || (before.place !== null && one.place === null));
      before = one;
      return methodRow(one, judges, p, begins);
    });
    get("methods").replaceChildren(made("thead", {}, made("tr", {}, ...heads)), made("tbody", {}, ...rows));
  }

  function methodRow(one, judges, p, begins) {
    const here = setting(), m = here.methods.indexOf(one), chosenOne = m === method();
    const cells = judges.map(([judge, able]) => {
      const cell = one.judged[judge];
      return made("td", {}, cell ? made("span", { class: able ? `chip ${cell[0]}` : "unable", title: cell[2] ? `against ${cell[2]}` : null }, cell[1]) : "–");
    });
    const numbers = p ? here.fractions.map((t, f) => made("td", { class: "number" }, accuracyButton(one, p, m, f, t))) : [];
    const flags = one.flags.map(([kind, why]) => made("span", { class: "chip worse", title: why }, kind));
    return made("tr", { class: [begins ? "begins" : "", chosenOne ? "chosen" : ""].join(" ").trim() || null },
      made("td", {}, one.group || "–"),
      made("th", { scope: "row", class: "name" }, patch(one), made("button", { type: "button", "aria-pressed": String(chosenOne), "data-method": one.name, title: one.name, onclick: () => go({ method: one.name, page: "" }) }, one.name)),
      made("td", {}, made("button", { type: "button", "aria-pressed": String(m === against()), "aria-label": `compare with ${one.name}`, "data-against": one.name, disabled: chosenOne, onclick: () => go({ against: m === against() ? "" : one.name, page: "" }) }, "beside")),
      ...cells, ...numbers, made("td", {}, ...flags, ...(one.not_checked ? [made("small", {}, one.not_checked)] : flags.length ? [] : ["–"])));
  }

  function accuracyButton(one, p, m, f, t) {
    const accuracy = p.accuracy[m][f];
    if (accuracy === null) return "–";
    const here = m === method() && f === fraction();
    return made("button", { type: "button", "aria-pressed": String(here), "aria-label": `${one.name} at ${share(t)}: accuracy ${percent(accuracy)}`, "data-cell": `${one.name}/${t}`, onclick: () => go({ method: one.name, fraction: t, page: "" }) }, percent(accuracy));
  }

  function showControls() {
    const here = setting();
    fillSelect("protocol", here.protocols.map((p) => [p.name, p.label]), here.protocols[protocol()]?.name ?? "");
    get("protocol").title = here.protocols[protocol()]?.summary ?? "";
    fillSelect("fraction", here.fractions.map((t) => [String(t), share(t)]), String(here.fractions[fraction()] ?? ""));
    fillSelect("replicate", here.seeds.map((seed) => [String(seed), `seed ${seed}`]), String(here.seeds[replicate()]));
    fillSelect("against", [["", "no other method"], ...here.methods.filter((_, m) => m !== method()).map((one) => [one.name, one.name])], against() >= 0 ? state.against : "");
    fillSelect("class", [["", "all classes"], ...here.classes.map((name, k) => [String(k), name])], state.class);
    fillSelect("order", orders(), orders().some(([value]) => value === state.order) ? state.order : "");
    get("mistakes").value = state.mistakes;
    get("disagreement").value = state.disagreement;
    for (const id of ["class", "mistakes", "disagreement", "protocol"]) get(id).disabled = here.classes.length === 0;
    get("disagreement").querySelector("[value=methods]").disabled = against() < 0;
  }

  function orders() {
    const found = [["", "number"], ["unsure", "least sure first"], ["sure", "surest first"]];
    if (against() >= 0) found.push(["gap", "largest difference of the two methods"]);
    for (const metric of setting().metrics) found.push([`metric:${metric.name}`, `best under ${metric.name} first`]);
    return found;
  }

  // the numbers of the images that the filters leave, in order
  function chosen(known, own, other, rest, values) {
    const r = replicate(), f = fraction(), p = protocol(), list = [];
    const mistakes = {
      "": () => true,
      network: (i) => saidBefore(known.classes, r, i) !== known.labels.values[i],
      changed: (i) => !own.absent && isWrong(known, own, p, r, f, i),
      flipped: (i) => !own.absent && saidBefore(known.classes, r, i) === known.labels.values[i] && isWrong(known, own, p, r, f, i),
      held: (i) => !own.absent && saidBefore(known.classes, r, i) === known.labels.values[i] && !isWrong(known, own, p, r, f, i),
    }[state.mistakes] || (() => true);
    const differ = {
      "": () => true,
      replicates: (i) => !own.absent && new Set(setting().seeds.map((_, k) => said(own, k, f, i))).size > 1,
      methods: (i) => other !== null && !other.absent && !own.absent && said(own, r, f, i) !== said(other, r, f, i),
      protocols: (i) => new Set(rest.filter((one) => !one.absent).map((one) => said(one, r, f, i))).size > 1,
    }[state.disagreement] || (() => true);
    for (let i = 0; i < setting().images; i += 1) {
      if (state.class !== "" && known.labels.values[i] !== Number(state.class)) continue;
      if (mistakes(i) && differ(i)) list.push(i);
    }
    const key = sortKey(own, other, values, r, f);
    return key ? list.map((i) => [key(i), i]).sort((a, b) => a[0] - b[0] || a[1] - b[1]).map((pair) => pair[1]) : list;
  }

  const isWrong = (known, own, p, r, f, i) => said(own, r, f, i) !== truth(known, p, r, i);

  // what images are ordered by, the smallest first; what is not known comes last
  function sortKey(own, other, values, r, f) {
    const last = (value) => (Number.isNaN(value) ? Infinity : value);
    if (state.order === "unsure" && !own.absent) return (i) => last(-bitsOf(own, r, f, i));
    if (state.order === "sure" && !own.absent) return (i) => last(bitsOf(own, r, f, i));
    if (state.order === "gap" && other && !other.absent && !own.absent) return (i) => last(-Math.abs(bitsOf(own, r, f, i) - bitsOf(other, r, f, i)));
    if (state.order.startsWith("metric:") && values && !values.absent) {
      const k = setting().metrics.findIndex((one) => `metric:${one.name}` === state.order), up = setting().metrics[k]?.higher_is_better ? -1 : 1;
      return k < 0 ? null : (i) => last(up * meanValue(values, k, i));
    }
    return null;
  }

  function meanValue({ values }, k, i) {
    const [, seeds, images] = values.shape;
    const there = setting().seeds.map((_, r) => values.values[(k * seeds + r) * images + i]).filter((v) => !Number.isNaN(v));
    return there.length ? there.reduce((a, b) => a + b, 0) / there.length : NaN;
  }

  const labelOf = (known, i) => (known.titles.length ? known.titles[i] : className(known.labels.values[i]));
  const thumbs = () => (Math.max(...setting().shape.slice(0, 2)) > 48 ? "thumbs" : "images");
  const chunkOf = (i) => Math.floor(i / setting().chunk);

  function showGrid(known, own, mine) {
    const pages = Math.max(1, Math.ceil(found.length / PER_PAGE)), page = Math.min(Math.max(1, Number(state.page) || 1), pages);
    const shown = found.slice((page - 1) * PER_PAGE, page * PER_PAGE), here = setting();
    const total = here.images < here.images_in_run ? `${here.images} images (of ${here.images_in_run} in the run)` : `${here.images} images`;
    get("count").textContent = `${found.length} of ${total}` + (here.protocols.length ? `; border and second line: what the network of ${here.protocols[protocol()].label} says with ${share(here.fractions[fraction()])} ${here.protocols[protocol()].keeps ? "kept" : "removed"} by ${here.methods[method()].name}, seed ${here.seeds[replicate()]}.` : ".");
    get("page-number").textContent = `page ${page} of ${pages}`;
    get("earlier").disabled = page <= 1;
    get("later").disabled = page >= pages;
    const items = shown.map((i) => [i, tile(known, own, i)]);
    get("grid").replaceChildren(...items.map(([, item]) => item));
    const paintChunk = async (chunk) => {
      const sheets = await load(`${place()}-${thumbs()}-${chunk}`);
      if (mine !== turn) return;
      for (const [i, item] of items) if (chunkOf(i) === chunk) paint(item.querySelector("canvas"), picture(sheets, i % setting().chunk));
    };
    Promise.all([...new Set(shown.map(chunkOf))].map(paintChunk)).catch(complain); // words first, pictures as they come
  }

  function tile(known, own, i) {
    const r = replicate(), f = fraction(), label = labelOf(known, i);
    const word = own.absent ? null : said(own, r, f, i), says = word === null || word === NONE ? null : className(word);
    const right = says === null ? null : !isWrong(known, own, protocol(), r, f, i);
    return made("li", {}, made("button", { type: "button", "data-image": i, "data-right": right === null ? null : right ? "yes" : "no", "aria-current": String(i) === state.image ? "true" : null,
      "aria-label": `image ${i}, ${label}${says === null ? "" : `, the network says ${says}, ${right ? "right" : "wrong"}`}`, onclick: () => open(i) },
      made("canvas", { "aria-hidden": "true" }), made("span", {}, `${i}: ${label}`), made("span", {}, says === null ? "–" : `${right ? "✓" : "✕"} ${says}`)));
  }

  async function open(i) {
    await go({ image: i });
    get("evidence-title").focus();
    get("evidence").scrollIntoView({ block: "start" });
  }

  function paint(canvas, { width, height, rgba }) {
    canvas.width = width;
    canvas.height = height;
    canvas.getContext("2d").putImageData(new ImageData(new Uint8ClampedArray(rgba), width, height), 0, 0);
  }

  // the evidence of one image

  async function showEvidence(known, mine) {
    const i = Number(state.image), there = state.image !== "" && Number.isInteger(i) && i >= 0 && i < setting().images;
    get("evidence").hidden = !there;
    if (!there) return;
    const here = setting(), p = here.protocols[protocol()], t = here.fractions[fraction()];
    get("evidence-title").textContent = `Image ${i}: ${labelOf(known, i)}`;
    get("evidence-reading").textContent = `With ${share(t)} of the pixels removed or kept, seed ${here.seeds[replicate()]}; map: red speaks for the class, blue against it, each scaled alone; removed pixels are filled: ${here.fill.name}.` + (p && !p.own_mask ? ` Networks of ${p.label} see another mask than the image's own, which is drawn here.` : "");
    const position = found.indexOf(i);
    get("previous").disabled = position <= 0;
    get("next").disabled = position < 0 || position >= found.length - 1;
    const methods = against() >= 0 ? [method(), against()] : [method()];
    const strips = await Promise.all(methods.map((m) => strip(m, i)));
    const answered = await Promise.all(methods.map((m) => Promise.all(here.protocols.map((_, k) => answers(k, m)))));
    const values = here.metrics.length ? await Promise.all(methods.map((m) => load(`${place()}-values-${m}`))) : [];
    if (mine !== turn) return;
    get("answered").hidden = here.protocols.length === 0;
    get("pictures").replaceChildren(made("div", { class: "pair" }, ...strips));
    showOverFractions(known, methods, answered, i);
    showSaid(known, methods, answered, i);
    showValues(methods, values, i);
  }

  async function strip(m, i) {
    const here = setting(), chunk = chunkOf(i), inChunk = i % here.chunk, s = place(), r = replicate();
    const [images, maps, levels] = await Promise.all([load(`${s}-images-${chunk}`), load(`${s}-maps-${m}-${r}-${chunk}`), load(`${s}-levels-${m}-${r}-${chunk}`)]);
    const whole = picture(images, inChunk), t = share(here.fractions[fraction()]);
    const map = maps.absent ? null : mapColours(picture(maps, inChunk));
    const shown = (keeps) => (here.fill.colour ? (levels.absent ? null : composed(whole, picture(levels, inChunk), keeps)) : changedSheet(m, i, keeps));
    const [removed, kept] = await Promise.all([shown(false), shown(true)]);
    const name = here.methods[m].name, drawn = [[whole, "the image"], [map, `map of ${name}`], [removed, `${t} removed`], [kept, `only ${t} kept`]];
    return made("div", { class: "shown" }, made("h3", {}, patch(here.methods[m]), name), made("div", { class: "strip" }, ...drawn.map(([one, words]) => figure(one, words, name, i))));
  }

  function figure(one, words, name, i) {
    if (!one) return made("figure", {}, made("p", { class: "absent" }, "not in the store"), made("figcaption", {}, words));
    const canvas = made("canvas", { role: "img", "aria-label": `image ${i}: ${words}, ${name}` });
    paint(canvas, one);
    return made("figure", {}, canvas, made("figcaption", {}, words));
  }

  async function changedSheet(m, i, keeps) {
    if (replicate() !== 0) return null; // filled images are kept for the first replicate
    const sheets = await load(`${place()}-changed-${m}-${fraction()}-${keeps ? 1 : 0}-${chunkOf(i)}`);
    return sheets.absent ? null : picture(sheets, i % setting().chunk);
  }

  // the image with the important pixels removed, or nothing but them kept
  function composed(whole, levels, keeps) {
    const colour = setting().fill.colour, f = fraction(), rgba = new Uint8ClampedArray(whole.rgba);
    for (let k = 0; k < rgba.length; k += 4) {
      for (let c = 0; c < 3; c += 1) {
        const important = levels.rgba[k + c] <= f;
        if (important !== keeps) rgba[k + c] = colour[Math.min(c, colour.length - 1)];
      }
    }
    return { ...whole, rgba };
  }

  // blue below zero, white at zero, red above, grey for what is no number
  function mapColours(one) {
    const rgba = new Uint8ClampedArray(one.rgba.length), mix = (end, share) => end.map((v) => 247 + (v - 247) * share);
    for (let k = 0; k < rgba.length; k += 4) {
      const v = (one.rgba[k] - 128) / 127;
      const [red, green, blue] = one.rgba[k] === 0 ? [128, 128, 128] : mix(v < 0 ? [5, 48, 97] : [103, 0, 31], Math.abs(v) ** 0.8);
      rgba.set([red, green, blue, 255], k);
    }
    return { ...one, rgba };
  }

  function mark(right, words, small) {
    return made("span", { class: right ? "yes" : "no" }, `${right ? "✓" : "✕"} ${words}`, small ? made("small", {}, small) : null);
  }

  function answerCell(known, one, p, r, f, i) {
    const word = one.absent ? NONE : said(one, r, f, i);
    if (word === NONE) return made("td", {}, made("span", { class: "absent" }, "not run"));
    const bits = bitsOf(one, r, f, i), target = truth(known, p, r, i);
    return made("td", {}, mark(word === target, className(word), `p(${className(target)}) ${percent(2 ** -bits, 0)}, ${number(bits)} bits`));
  }

  function showOverFractions(known, methods, answered, i) {
    const here = setting(), p = protocol();
    const heads = here.fractions.map((t, f) => made("th", { scope: "col" }, made("button", { type: "button", "aria-pressed": String(f === fraction()), "data-fraction": t, onclick: () => go({ fraction: t }) }, share(t))));
    const rows = methods.map((m, k) => made("tr", {}, made("th", { scope: "row", class: "name" }, patch(here.methods[m]), here.methods[m].name),
      ...here.fractions.map((_, f) => made("td", {}, rightOf(known, answered[k][p], p, f, i)))));
    get("over-fractions").replaceChildren(made("caption", { hidden: true }, "Replicates whose network is right, by fraction"), made("thead", {}, made("tr", {}, made("th", { scope: "col" }, here.protocols[p] ? `networks of ${here.protocols[p].label} that are right` : ""), ...heads)), made("tbody", {}, ...rows));
  }

  function rightOf(known, one, p, f, i) {
    if (!one || one.absent) return "–";
    const there = setting().seeds.map((_, r) => [said(one, r, f, i), truth(known, p, r, i)]).filter(([word]) => word !== NONE);
    return there.length ? `${there.filter(([word, target]) => word === target).length} of ${there.length}` : "–";
  }

  function showSaid(known, methods, answered, i) {
    const here = setting(), several = methods.length > 1;
    get("said-reading").textContent = `At ${share(here.fractions[fraction()])}. Class, probability of the class asked for, and its negative logarithm in bits, calibrated.`;
    const heads = methods.flatMap((m) => here.seeds.map((seed) => made("th", { scope: "col" }, several ? `${here.methods[m].name}, seed ${seed}` : `seed ${seed}`)));
    const before = made("tr", {}, made("th", { scope: "row", class: "name" }, "unchanged image, explained network"), ...methods.flatMap(() => here.seeds.map((_, r) => beforeCell(known, r, i))));
    const rows = here.protocols.map((one, p) => made("tr", { class: p === protocol() ? "chosen" : null }, made("th", { scope: "row", class: "name", title: one.summary }, one.label),
      ...methods.flatMap((_, k) => here.seeds.map((__, r) => answerCell(known, answered[k][p], p, r, fraction(), i)))));
    get("said").replaceChildren(made("thead", {}, made("tr", {}, made("th", { scope: "col", class: "name" }, "protocol"), ...heads)), made("tbody", {}, ...(here.classes.length ? [before] : []), ...rows));
  }

  function beforeCell(known, r, i) {
    const word = saidBefore(known.classes, r, i);
    if (word === NONE) return made("td", {}, made("span", { class: "absent" }, "not run"));
    const bits = inBits(saidBefore(known.bits, r, i)), label = known.labels.values[i];
    return made("td", {}, mark(word === label, className(word), `p(${className(label)}) ${percent(2 ** -bits, 0)}, ${number(bits)} bits`));
  }

  function showValues(methods, values, i) {
    const here = setting();
    get("values-title").hidden = get("values").parentElement.hidden = here.metrics.length === 0;
    const rows = here.metrics.map((metric, k) => {
      const means = values.map((one) => (one.absent ? NaN : meanValue(one, k, i)));
      const best = means.length > 1 && means[0] !== means[1] ? (means[0] > means[1]) === metric.higher_is_better ? 0 : 1 : -1;
      return made("tr", {}, made("th", { scope: "row", class: "name" }, `${metric.name} ${metric.higher_is_better ? "↑" : "↓"}`),
        ...means.map((mean, m) => made("td", { class: "number" }, m === best ? made("b", {}, number(mean)) : number(mean))));
    });
    const heads = [made("th", { scope: "col", class: "name" }, "metric, mean over replicates"), ...methods.map((m) => made("th", { scope: "col", class: "number" }, here.methods[m].name))];
    get("values").replaceChildren(made("thead", {}, made("tr", {}, ...heads)), made("tbody", {}, ...rows));
  }

  // what a person does

  function move(step) {
    const position = found.indexOf(Number(state.image)), next = found[position + step];
    if (state.image === "" || position < 0 || next === undefined) return;
    go({ image: next, page: String(Math.floor((position + step) / PER_PAGE) + 1) }, true);
  }

  function close() {
    const last = state.image;
    go({ image: "" }).then(() => (document.querySelector(`[data-image="${CSS.escape(last)}"]`) || get("images-title")).focus());
  }

  function listen() {
    for (const id of ["protocol", "fraction", "replicate", "against", "class", "mistakes", "disagreement", "order"]) {
      get(id).addEventListener("change", () => go({ [id]: get(id).value, page: "" }));
    }
    get("setting").addEventListener("change", () => go({ ...Object.fromEntries(NAMES.map((name) => [name, ""])), setting: get("setting").value }));
    get("controls").addEventListener("submit", (event) => event.preventDefault());
    get("clear").addEventListener("click", () => go({ class: "", mistakes: "", disagreement: "", order: "", page: "" }));
    const turned = (step) => go({ page: (Number(state.page) || 1) + step });
    get("earlier").addEventListener("click", () => turned(-1));
    get("later").addEventListener("click", () => turned(1));
    get("previous").addEventListener("click", () => move(-1));
    get("next").addEventListener("click", () => move(1));
    get("close").addEventListener("click", close);
    addEventListener("popstate", () => { state = readAddress(); render(); });
    addEventListener("keydown", pressed);
  }

  function pressed(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.matches("select, input, .scroll")) return;
    const { fractions } = setting(), next = fractions[fraction() + { "[": -1, "]": 1 }[event.key]];
    if (event.key === "ArrowLeft") move(-1);
    else if (event.key === "ArrowRight") move(1);
    else if (event.key === "Escape" && state.image !== "") close();
    else if (next !== undefined) go({ fraction: next }, true);
  }

  // while a run goes on: how far it is, and new cells

  async function watch() {
    try {
      const told = await (await fetch("progress.json", { cache: "no-store" })).json();
      get("progress").textContent = told.words;
      if (told.version !== index.version) {
        files.clear();
        index.version = told.version;
        index = await load("index");
        await render();
      }
      setTimeout(watch, told.running ? 2000 : 10000);
    } catch {
      get("progress").textContent = "The server has ended: start uproar view again.";
      setTimeout(watch, 10000);
    }
  }

  load("index").then((content) => {
    index = content;
    state = readAddress();
    if (!index.settings.length) throw new Error("This run has no cells yet.");
    listen();
    render();
    if (index.live) watch();
  }).catch(complain);
})();
