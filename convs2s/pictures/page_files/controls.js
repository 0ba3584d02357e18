"use strict";

// What is marked, the controls and the overview.

let panels = [];

/** Mark a cell, a row (column -1) or a column (row -1), and say its weights. */
function mark(row, column) {
  Object.assign(state, { row, column });
  for (const panel of panels) panel.update();
  element("value").textContent = panels.map((panel) => describe(panel.view)).filter(Boolean).join(" · ");
}

/** A token and its position, or its weight, isolated from text in the other direction. */
const quoted = (token, number) => `\u2068“${token}”\u2069 ${number}`;

function describe(view) {
  const { queries, keys, rows } = view;
  const [q, k] = [state.row, state.column];
  if (q >= queries.length || k >= keys.length || (q < 0 && k < 0)) return "";
  const prefix = panels.length > 1 ? `${view.caption}: ` : "";
  const strongest = (pairs) => pairs.sort((a, b) => Math.abs(b[1]) - Math.abs(a[1])).slice(0, 3)
    .map(([token, weight]) => quoted(token, weight.toFixed(3))).join(", ");
  const [query, key] = [quoted(queries[q], `(${q + 1})`), quoted(keys[k], `(${k + 1})`)];
  if (q < 0) return `${prefix}${key} has most weight for ${strongest(rows.map((row, i) => [queries[i], row[k]]))}`;
  if (k < 0) return `${prefix}${query} has most weight on ${strongest(rows[q].map((weight, i) => [keys[i], weight]))}`;
  const total = rows[q].reduce((sum, weight) => sum + weight, 0);
  const sum = view.signed ? `; the row adds up to ${total.toFixed(3)}` : "";
  return `${prefix}${query} ← ${key}: ${rows[q][k].toFixed(4)}${sum}`;
}

function move(event, view) {
  const last = [view.queries.length - 1, view.keys.length - 1];
  let [q, k] = [state.row, state.column];
  if (event.key === "PageUp" || event.key === "PageDown") {
    const count = sentence().maps.length;
    event.preventDefault();
    choose((state.map + (event.key === "PageDown" ? 1 : count - 1)) % count, state.head);
    element("panels").querySelector("svg").focus();
    return;
  }
  const steps = {
    ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1],
    Home: [0, -Infinity], End: [0, Infinity], Escape: [],
  };
  if (!(event.key in steps) || event.ctrlKey || event.altKey || event.metaKey) return;
  event.preventDefault();
  if (event.key === "Escape") return mark(-1, -1);
  if (q < 0 && k < 0) return mark(0, state.view === "lines" ? -1 : 0);
  const [down, right] = steps[event.key];
  const inside = (value, limit) => Math.min(Math.max(value, 0), limit);
  if (state.view === "lines" && (q < 0) !== (k < 0)) {
    // One token is marked: up and down go along its side, left and right to the other side.
    if (right) return mark(...(right < 0 ? [-1, inside(k < 0 ? q : k, last[1])] : [inside(q < 0 ? k : q, last[0]), -1]));
    return mark(...(q < 0 ? [-1, inside(k + down, last[1])] : [inside(q + down, last[0]), -1]));
  }
  mark(inside(Math.max(q, 0) + down, last[0]), inside(Math.max(k, 0) + right, last[1]));
}

function legend(figure, view) {
  const bar = add(figure, "div", { class: "legend" });
  const shares = view.signed ? [-1, -0.5, 0, 0.5, 1] : [0, 0.25, 0.5, 0.75, 1];
  const stops = shares.map((share) => css(rgb(share, view.signed))).join(",");
  const end = state.scale === "row" ? "largest of the row" : Math.max(...view.scales).toFixed(2);
  add(bar, "span", {}, view.signed ? `−${end}` : "0");
  add(bar, "span", { class: "bar", style: `background:linear-gradient(90deg,${stops})` });
  add(bar, "span", {}, end);
}

/** Draw the chosen map, and the one beside it. */
function draw() {
  const shown = [[state.map, state.head]];
  if (state.beside) shown.push(state.beside.split(".").map(Number));
  element("panels").replaceChildren();
  panels = shown.map(([index, head]) => {
    const view = viewOf(index, head);
    const figure = add(element("panels"), "figure");
    add(figure, "figcaption", {}, view.caption);
    const update = (state.view === "map" ? heatMap : lines)(figure, view);
    legend(figure, view);
    return { view, update };
  });
  for (const button of thumbnails()) {
    const checked = button.dataset.choice === `${state.map}.${state.head}`;
    button.setAttribute("aria-checked", checked);
    button.tabIndex = checked ? 0 : -1;
  }
  mark(state.row, state.column);
}

const thumbnails = () => [...element("overview").querySelectorAll("button")];

function fill(select, choices, value) {
  select.replaceChildren();
  let group = select;
  for (const [name, text, heading] of choices) {
    if (heading && group.label !== heading) group = add(select, "optgroup", { label: heading });
    add(group, "option", { value: name }, text);
  }
  select.value = value;
}

const KINDS = {
  source: "attention to the source",
  encoder: "self-attention of the encoder",
  decoder: "self-attention of the decoder",
  contributions: "contributions to the logit",
};

/** Every map with every head; layers with several heads also have their mean. */
const choices = () => sentence().maps.flatMap((entry, index) => {
  const heads = entry.heads.map((_, head) => head);
  return (heads.length > 1 ? [...heads, -1] : heads).map((head) => [index, head]);
});

function choose(map, head) {
  const entry = sentence().maps[map];
  state.map = map;
  state.head = Math.min(head, entry.heads.length - 1);
  if (entry.heads.length === 1) state.head = 0;
  element("layer").value = map;
  const heads = choices().filter(([index]) => index === map).map(([, one]) => one);
  fill(element("head"), heads.map((one) => [one, headName(entry, one)]), state.head);
  element("head").disabled = heads.length === 1;
  draw();
}

function thumbnail(row, index, head) {
  const { entry, rows, caption, signed, scales } = viewOf(index, head);
  const button = add(row, "button", { type: "button", role: "radio", "data-choice": `${index}.${head}`, "aria-label": caption, title: caption });
  const canvas = add(button, "canvas", { width: rows[0].length, height: rows.length, "aria-hidden": true });
  const context = canvas.getContext("2d");
  const image = context.createImageData(rows[0].length, rows.length);
  rows.forEach((row, q) => row.forEach((weight, k) => {
    image.data.set([...rgb(weight / scales[q], signed), 255], 4 * (q * row.length + k));
  }));
  context.putImageData(image, 0, 0);
  add(button, "span", {}, entry.heads.length === 1 ? entry.layer : head < 0 ? "mean" : headName(entry, head));
  button.addEventListener("click", () => choose(index, head));
}

/** A row for each layer with several heads, and rows of the other layers of a kind. */
function overview() {
  element("overview").replaceChildren();
  let [row, last] = [null, null];
  for (const [index, head] of choices()) {
    const entry = sentence().maps[index];
    const heading = entry.heads.length > 1 ? titleOf(entry) : KINDS[entry.kind];
    if (heading !== last) {
      add(element("overview"), "h3", {}, heading);
      row = add(element("overview"), "div", { class: "row" });
    }
    last = heading;
    thumbnail(row, index, head);
  }
}

/** Show another sentence, with the same layer and head if it has them. */
function show(number) {
  const wanted = sentence().maps[state.map].name;
  Object.assign(state, { sentence: number, row: -1, column: -1 });
  const { maps } = sentence();
  for (const side of ["source", "target"]) {
    const [text, tokens] = [sentence()[`${side}_text`], sentence()[side]];
    element(`${side}_text`).textContent = text;
    element(`${side}_text`).hidden = text === tokens.slice(0, -1).join(" ");
    element(side).textContent = tokens.join(" ");
  }
  const named = maps.map((entry, index) => [index, titleOf(entry), KINDS[entry.kind]]);
  fill(element("layer"), named, 0);
  const pairs = choices();
  const beside = pairs.map(([index, head]) => [`${index}.${head}`, captionOf(maps[index], head)]);
  fill(element("beside"), [["", "nothing"], ...beside], state.beside);
  if (element("beside").selectedIndex < 0) state.beside = element("beside").value = "";
  overview();
  choose(Math.max(0, maps.findIndex((entry) => entry.name === wanted)), state.head);
}

function setTheme(name) {
  document.documentElement.dataset.theme = name;
  element("theme").textContent = name === "dark" ? "Light" : "Dark";
}

function start() {
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const redraw = () => { overview(); draw(); };
  setTheme(dark.matches ? "dark" : "light");
  dark.addEventListener("change", () => { setTheme(dark.matches ? "dark" : "light"); redraw(); });
  element("theme").addEventListener("click", () => { setTheme(theme() === "dark" ? "light" : "dark"); redraw(); });
  fill(element("sentence"), content.sentences.map((one, i) => [i, `${i + 1}: ${shorten(one.source_text, 40)}`]), 0);
  const on = (id, change) => element(id).addEventListener("change", (event) => change(event.target.value));
  on("sentence", (value) => show(Number(value)));
  on("layer", (value) => choose(Number(value), state.head));
  on("head", (value) => choose(state.map, Number(value)));
  on("beside", (value) => { state.beside = value; draw(); });
  on("scale", (value) => { state.scale = value; redraw(); });
  element("controls").addEventListener("change", (event) => {
    if (event.target.name !== "view") return;
    Object.assign(state, { view: event.target.value, row: -1, column: -1 });
    draw();
  });
  element("controls").addEventListener("submit", (event) => event.preventDefault());
  element("overview").addEventListener("keydown", (event) => {
    const step = { ArrowLeft: -1, ArrowUp: -1, ArrowRight: 1, ArrowDown: 1 }[event.key];
    if (!step) return;
    event.preventDefault();
    const all = thumbnails();
    const next = all[(all.indexOf(document.activeElement) + step + all.length) % all.length];
    next.click();
    next.focus();
  });
  addEventListener("resize", draw);
  show(0);
}

start();
