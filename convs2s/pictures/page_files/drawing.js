"use strict";

// The page of `convs2s plot-attention`. Text of the data goes into text nodes only, never into markup.

const content = JSON.parse(document.getElementById("data").textContent);
const element = (id) => document.getElementById(id);
const MEAN = "mean of heads";

// Colors from 0 to the largest weight, and from the most negative to the most positive contribution.
// Lightness alone orders the first; the second is orange and purple, which all readers tell apart.
const RAMPS = {
  light: {
    plain: ["#ffffff", "#d6e6f4", "#85bcdc", "#2f7ebc", "#08306b"],
    signed: ["#7f3b08", "#e08214", "#f7f7f7", "#8073ac", "#2d004b"],
  },
  dark: {
    plain: ["#14171c", "#173f66", "#1f78b4", "#7cc4e8", "#fff7d6"],
    signed: ["#ffb75e", "#b35806", "#14171c", "#7a5fb8", "#d5c6ff"],
  },
};

// What is shown. `map` and `head` are indexes; head -1 is the mean of all heads. `row` and `column` are
// the marked cell, or -1.
const state = {
  sentence: 0, map: 0, head: 0, beside: "", view: "map", scale: "map", row: -1, column: -1,
};

const sentence = () => content.sentences[state.sentence];

function titleOf(entry) {
  const model = content.models.length > 1 ? `${content.models[entry.model]}: ` : "";
  return `${model}${entry.name}, ${entry.description}`;
}

/** Whether heads need a name: there are several, or their mean was chosen. */
const hasHeads = (entry) => entry.layer !== "mean" && (entry.heads.length > 1 || entry.heads[0] === "mean");

function headName(entry, head) {
  return head < 0 || entry.heads[head] === "mean" ? MEAN : `head ${entry.heads[head]}`;
}

function captionOf(entry, head) {
  return hasHeads(entry) ? `${titleOf(entry)}, ${headName(entry, head)}` : titleOf(entry);
}

function weightsOf(entry, head) {
  if (head >= 0) return entry.weights[head];
  const sum = (q, k) => entry.weights.reduce((total, one) => total + one[q][k], 0);
  return entry.weights[0].map((row, q) => row.map((_, k) => sum(q, k) / entry.weights.length));
}

const largestOf = (rows) => Math.max(...rows.map((row) => Math.max(...row.map(Math.abs))));

/** The number to which each row is relative: its weights over it are from -1 to 1. */
function scalesOf(rows, signed) {
  const whole = state.scale === "one" && !signed ? 1 : largestOf(rows);
  return rows.map((row) => (state.scale === "row" ? largestOf([row]) : whole) || 1);
}

const theme = () => document.documentElement.dataset.theme;

function rgb(share, signed) {
  const ramp = RAMPS[theme()][signed ? "signed" : "plain"];
  const at = Math.min(Math.max(signed ? (share + 1) / 2 : share, 0), 1) * (ramp.length - 1);
  const low = Math.min(Math.floor(at), ramp.length - 2);
  const channel = (color, i) => parseInt(color.slice(1 + 2 * i, 3 + 2 * i), 16);
  return [0, 1, 2].map((i) => {
    const [from, to] = [channel(ramp[low], i), channel(ramp[low + 1], i)];
    return Math.round(from + (at - low) * (to - from));
  });
}

const css = (color) => `rgb(${color.join(",")})`;
const isLight = (color) => 0.299 * color[0] + 0.587 * color[1] + 0.114 * color[2] > 140;

/** A new element in a parent. */
function add(parent, name, attributes = {}, text = "") {
  const svg = ["svg", "g", "rect", "text", "tspan", "title", "line"].includes(name);
  const made = svg
    ? document.createElementNS("http://www.w3.org/2000/svg", name)
    : document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text) made.textContent = text;
  parent.append(made);
  return made;
}

/** A text without the characters after `limit`. */
function shorten(text, limit) {
  const characters = [...text];
  return characters.length > limit ? `${characters.slice(0, limit - 1).join("")}…` : text;
}

const ruler = document.createElement("canvas").getContext("2d");

/** The lines of a label: long words are broken, and labels of more than four lines end in dots. */
function linesOf(token) {
  const length = innerWidth < 640 ? 12 : 18;
  const characters = [...shorten(token, 4 * length)];
  const lines = [];
  while (characters.length) lines.push(characters.splice(0, length).join(""));
  return lines.length ? lines : [""];
}

const LINE_HEIGHT = 1.1;

/** The height of the label with the most lines, in pixels. */
const labelHeight = (tokens, size) => LINE_HEIGHT * size * Math.max(...tokens.map((token) => linesOf(token).length));

/** The room for the longest of some labels, in pixels. Marked labels are bold. */
function labelWidth(tokens, size) {
  ruler.font = `700 ${size}px ${getComputedStyle(document.body).fontFamily}`;
  const width = (line) => ruler.measureText(line).width;
  return Math.max(...tokens.map((token) => Math.max(...linesOf(token).map(width)))) + 12;
}

/** A label whose lines are centered at its place. */
function label(svg, attributes, token) {
  const lines = linesOf(token);
  const text = add(svg, "text", { "dominant-baseline": "central", ...attributes });
  lines.forEach((line, number) => {
    const dy = number ? LINE_HEIGHT : (LINE_HEIGHT * (1 - lines.length)) / 2;
    add(text, "tspan", { x: attributes.x, dy: `${dy}em` }, line);
  });
  if (lines.join("") !== token) add(text, "title", {}, token);
}

/** What one panel shows. */
function viewOf(index, head) {
  const entry = sentence().maps[index];
  const rows = weightsOf(entry, head);
  return {
    entry, rows, caption: captionOf(entry, head), signed: entry.signed, scales: scalesOf(rows, entry.signed),
    queries: sentence()[entry.queries], keys: sentence()[entry.keys],
  };
}

function heatMap(figure, view) {
  const { queries, keys, rows } = view;
  // Two maps are narrower, so that they are side by side if their cells do not get tiny.
  const room = (element("panels").clientWidth || 1000) - 24;
  const size = innerWidth < 640 || keys.length > 24 || queries.length > 24 ? 12 : 14;
  const left = labelWidth(queries, size);
  // The last label leans to the right of its column.
  const leaning = labelWidth(keys.slice(-1), size) * 0.6;
  const cellIn = (width) => Math.floor((width - left - leaning - 12) / keys.length);
  const half = cellIn(room / 2);
  const least = Math.max(14, Math.ceil(labelHeight([...queries, ...keys], size)));
  const cell = Math.max(least, Math.min(46, state.beside && half >= 18 ? half : cellIn(room)));
  // Labels of narrow columns are steeper, so that they do not overlap.
  const degrees = cell < 20 ? 75 : 52;
  const angle = (degrees * Math.PI) / 180;
  const thickness = labelHeight(keys, size);
  const below = thickness * Math.cos(angle) / 2 + 2;
  const top = labelWidth(keys, size) * Math.sin(angle) + 2 * below;
  // How far a label reaches to the right of its column, or of the last one.
  const reaches = keys.map((token, k) => (
    labelWidth([token], size) * Math.cos(angle) + thickness * Math.sin(angle) / 2 - (keys.length - k - 0.5) * cell
  ));
  const [width, height] = [left + keys.length * cell + Math.max(0, ...reaches), top + queries.length * cell + 4];
  const svg = add(figure, "svg", {
    width, height, viewBox: `0 0 ${width} ${height}`, tabindex: 0, role: "application",
    "aria-roledescription": "heat map", "font-size": size, "aria-describedby": "value",
    "aria-label": `${view.caption}: ${queries.length} rows, ${keys.length} columns`,
  });
  keys.forEach((token, k) => {
    const [x, y] = [left + (k + 0.5) * cell, top - below];
    label(svg, { x, y, "data-key": k, transform: `rotate(-${degrees} ${x} ${y})` }, token);
  });
  rows.forEach((row, q) => {
    const y = top + q * cell;
    label(svg, { x: left - 6, y: y + cell / 2, "text-anchor": "end", "data-query": q }, queries[q]);
    row.forEach((weight, k) => {
      const color = rgb(weight / view.scales[q], view.signed);
      const x = left + k * cell;
      const box = add(svg, "rect", { x: x + 0.5, y: y + 0.5, width: cell - 1, height: cell - 1, fill: css(color), class: "cell" });
      box.addEventListener("pointerenter", () => mark(q, k));
      const text = view.signed ? weight.toFixed(1) : weight.toFixed(2).replace(/^0/, "");
      if (cell >= 34 && Number(text) !== 0) {
        add(svg, "text", { x: x + cell / 2, y: y + cell / 2, "text-anchor": "middle", "dominant-baseline": "central", "font-size": 11, class: "value", style: `fill:${isLight(color) ? "#111" : "#fff"}` }, text);
      }
    });
  });
  const frame = add(svg, "rect", { class: "mark", width: cell, height: cell, visibility: "hidden" });
  svg.addEventListener("keydown", (event) => move(event, view));
  return () => {
    const shown = state.row >= 0 && state.row < queries.length && state.column < keys.length;
    frame.setAttribute("visibility", shown ? "visible" : "hidden");
    frame.setAttribute("x", left + state.column * cell);
    frame.setAttribute("y", top + state.row * cell);
    markLabels(svg);
  };
}

function lines(figure, view) {
  const { queries, keys, rows } = view;
  const usual = Math.max(queries.length, keys.length) > 20 ? 20 : 26;
  const step = Math.max(usual, labelHeight([...queries, ...keys], 14) + 2);
  const [left, right] = [labelWidth(keys, 14), labelWidth(queries, 14)];
  const room = (element("panels").clientWidth || 1000) - 24;
  const gap = Math.min(260, Math.max(90, room - left - right));
  const [width, height] = [left + gap + right, step * Math.max(queries.length, keys.length) + 8];
  const svg = add(figure, "svg", {
    width, height, viewBox: `0 0 ${width} ${height}`, tabindex: 0, role: "application",
    "aria-roledescription": "lines between tokens", "font-size": 14, "aria-describedby": "value",
    "aria-label": `${view.caption}: ${keys.length} tokens on the left, ${queries.length} on the right`,
  });
  const group = add(svg, "g");
  const y = (index) => step * (index + 0.5) + 4;
  const drawn = rows.map((row, q) => row.map((weight, k) => {
    const share = Math.abs(weight) / view.scales[q];
    if (share < 0.02) return null;
    const color = css(rgb(view.signed ? Math.sign(weight) * 0.75 : theme() === "dark" ? 0.75 : 0.8, view.signed));
    const line = add(group, "line", { x1: left + 4, y1: y(k), x2: left + gap - 4, y2: y(q), stroke: color, "stroke-width": 1 + 3 * share, "stroke-linecap": "round" });
    return { line, share };
  }));
  const labels = [[keys, left - 4, "end", "data-key", (k) => mark(-1, k)], [queries, left + gap + 4, "start", "data-query", (q) => mark(q, -1)]];
  for (const [tokens, x, anchor, name, marks] of labels) {
    tokens.forEach((token, index) => {
      label(svg, { x, y: y(index), "text-anchor": anchor, [name]: index }, token);
      const hit = add(svg, "rect", { class: "hit", x: anchor === "end" ? 0 : x, y: y(index) - step / 2, width: anchor === "end" ? left : right, height: step });
      hit.addEventListener("pointerenter", () => marks(index));
    });
  }
  svg.addEventListener("keydown", (event) => move(event, view));
  return () => {
    drawn.forEach((row, q) => row.forEach((found, k) => {
      if (!found) return;
      const chosen = (state.row < 0 || state.row === q) && (state.column < 0 || state.column === k);
      found.line.setAttribute("stroke-opacity", chosen ? Math.sqrt(found.share) : 0.03);
    }));
    markLabels(svg);
  };
}

function markLabels(svg) {
  for (const [name, index] of [["query", state.row], ["key", state.column]]) {
    for (const found of svg.querySelectorAll(`text[data-${name}]`)) {
      found.classList.toggle("marked", Number(found.dataset[name]) === index);
    }
  }
}

