"use strict";

// The page of `convs2s serve`. Text of the server goes into text nodes only, never into markup.

const { models, about } = JSON.parse(document.getElementById("data").textContent);
const element = (id) => document.getElementById(id);

/** A new element in a parent. */
function add(parent, name, attributes = {}, text = "") {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.textContent = text;
  parent.append(made);
  return made;
}

// What cancels the requests before the latest ones.
const latest = {};

/** The attribute of a language, if browsers know its name. */
const tagged = (language) => (/^[a-z]{2,3}(-|$)/.test(language) ? { lang: language } : {});

/** The response to a request; an error has the server's sentence. */
async function ask(address, content, signal) {
  let response;
  try {
    const headers = { "Content-Type": "application/json" };
    response = await fetch(address, { method: "POST", headers, body: JSON.stringify(content), signal });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Error("The server does not answer: it may have ended. Start it again.");
  }
  if (response.ok) return response;
  const text = await response.text();
  let sentence = text;
  try { sentence = JSON.parse(text).error; } catch { /* The text of another program. */ }
  throw new Error(sentence || `The server answered ${response.status}.`);
}

/** Do a kind of work in place of what still runs of that kind, and show what goes wrong. */
async function instead(kind, work) {
  latest[kind]?.abort();
  const controller = latest[kind] = new AbortController();
  element("error").textContent = "";
  try {
    await work(controller.signal);
  } catch (error) {
    if (controller.signal.aborted) return;
    element("status").textContent = "";
    element("error").textContent = error.message;
  }
}

const counted = (count, name) => `${count} ${name}${count === 1 ? "" : "s"}`;

function translate() {
  const lines = element("lines").value.split("\n").map((line) => line.trim()).filter(Boolean);
  if (!lines.length) {
    element("error").textContent = "There is no text to translate: write some.";
    element("lines").focus();
    return;
  }
  latest.attention?.abort();
  instead("translate", async (signal) => {
    element("status").textContent = "Translating …";
    const start = performance.now();
    const wanted = Number(element("nbest").value);
    const answers = await Promise.all(models.map(async ({ name, beam }) => {
      const content = { lines, model: name, nbest: Math.min(wanted, beam) };
      return (await (await ask("translate", content, signal)).json()).translations;
    }));
    const seconds = ((performance.now() - start) / 1000).toFixed(2);
    closeAttention();
    element("results").replaceChildren();
    lines.forEach((line, number) => showLine(line, answers.map((answer) => answer[number])));
    element("status").textContent = `${counted(lines.length, "line")} translated in ${seconds} seconds.`;
  });
}

/** Show a line with the translations by each model. */
function showLine(line, translations) {
  const article = add(element("results"), "article");
  add(article, "h2", { dir: "auto" }, line);
  const columns = add(article, "div", { class: "models" });
  translations.forEach((found, number) => {
    const { name, target } = models[number];
    const column = add(columns, "section");
    if (models.length > 1) add(column, "h3", {}, name);
    if (found.nbest.length > 1) {
      const list = add(column, "ol");
      for (const each of found.nbest) {
        const item = add(list, "li");
        add(item, "span", { ...tagged(target), dir: "auto" }, each.text);
        item.append(" ");
        add(item, "span", { class: "score" }, each.score.toFixed(3));
      }
    } else {
      add(column, "p", { ...tagged(target), dir: "auto" }, found.text);
    }
    if (found.is_cut_off) add(column, "p", { class: "score" }, "It may be cut off: it is as long as the server allows.");
    const label = `Attention of ${name}: ${line}`;
    const button = add(column, "button", { type: "button", "aria-label": label }, "Attention");
    button.addEventListener("click", () => showAttention(button, name, line, found.text));
  });
}

function showAttention(button, model, line, target) {
  instead("attention", async (signal) => {
    element("status").textContent = "Computing attention …";
    const page = await (await ask("attention", { line, target, model }, signal)).text();
    element("status").textContent = "";
    element("attention").hidden = false;
    element("attention").opener = button;
    element("attention_title").textContent = `Attention: ${line}`;
    element("frame").srcdoc = page;
    element("attention_title").focus();
  });
}

function closeAttention() {
  latest.attention?.abort();
  element("attention").hidden = true;
  element("frame").removeAttribute("srcdoc");
}

/** Let the frame be as high as its content. */
function fitFrame() {
  const frame = element("frame");
  const content = frame.contentDocument?.documentElement;
  if (!content) return;
  new ResizeObserver(() => { frame.style.height = `${content.scrollHeight + 4}px`; }).observe(content);
}

function setTheme(name) {
  document.documentElement.dataset.theme = name;
  element("theme").textContent = name === "dark" ? "Light" : "Dark";
}

function start() {
  const dark = matchMedia("(prefers-color-scheme: dark)");
  setTheme(dark.matches ? "dark" : "light");
  dark.addEventListener("change", () => setTheme(dark.matches ? "dark" : "light"));
  element("theme").addEventListener("click", () => {
    setTheme(document.documentElement.dataset.theme === "dark" ? "light" : "dark");
  });
  const most = Math.max(...models.map(({ beam }) => beam));
  for (const count of [1, 3, 5, 10].filter((each) => each <= most)) add(element("nbest"), "option", { value: count }, count);
  if (models.every(({ source }) => source === models[0].source)) Object.assign(element("lines"), tagged(models[0].source));
  element("about").textContent = about;
  element("about").hidden = !about;
  element("form").addEventListener("submit", (event) => { event.preventDefault(); translate(); });
  element("lines").addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) { event.preventDefault(); translate(); }
  });
  element("frame").addEventListener("load", fitFrame);
  element("close").addEventListener("click", () => { closeAttention(); element("attention").opener?.focus(); });
}

start();
