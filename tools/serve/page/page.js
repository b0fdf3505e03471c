"use strict";

const $ = (id) => document.getElementById(id);
const notice = (text) => { $("notice").textContent = text; };

// The key stays in this tab.
$("key").value = sessionStorage.getItem("key") ?? "";
$("key").addEventListener("change", () => { sessionStorage.setItem("key", $("key").value); begin(); });
$("key-form").addEventListener("submit", (event) => { event.preventDefault(); $("key").dispatchEvent(new Event("change")); });

async function ask(path, body, signal) {
  const headers = {};
  if ($("key").value) headers.authorization = "Bearer " + $("key").value;
  if (body) headers["content-type"] = "application/json";
  const answer = await fetch(path, { method: body ? "POST" : "GET", headers, body: body && JSON.stringify(body), signal });
  if (answer.ok) return answer;
  const told = await answer.json().catch(() => ({}));
  const message = typeof told.error === "string" ? told.error : told.error?.message;
  throw new Error(message ?? `The server answered ${answer.status}.`);
}

function tell(error) {
  if (error.name !== "AbortError") notice(error.message);
}

// Tabs, by mouse and by arrow keys.
const tabs = [...document.querySelectorAll("[role=tab]")];
function show(tab) {
  for (const other of tabs) {
    other.setAttribute("aria-selected", String(other === tab));
    other.tabIndex = other === tab ? 0 : -1;
    $(other.getAttribute("aria-controls")).hidden = other !== tab;
  }
}
for (const [index, tab] of tabs.entries()) {
  tab.addEventListener("click", () => show(tab));
  tab.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    const next = step ? tabs[(index + step + tabs.length) % tabs.length] : { Home: tabs[0], End: tabs.at(-1) }[event.key];
    if (!next) return;
    event.preventDefault();
    show(next);
    next.focus();
  });
}

// What was chosen stays so where it is still there.
function fill(select, options) {
  const before = select.value;
  select.replaceChildren(...options.map(({ value, text }) => new Option(text, value)));
  if (options.some(({ value }) => String(value) === before)) select.value = before;
}

let languages = [];
const titleOf = (code) => {
  const name = languages.find((language) => language.code === code)?.name ?? code;
  return name === code ? code : `${name} (${code})`;
};
function fillTargets() {
  const from = languages.filter((language) => ["auto", language.code].includes($("from").value));
  const codes = [...new Set(from.flatMap((language) => language.targets))];
  fill($("to"), codes.map((code) => ({ value: code, text: titleOf(code) })));
}

async function begin() {
  try {
    const models = (await (await ask("v1/models")).json()).data;
    const names = (kind) => models.filter((model) => model.kind === kind).map((model) => ({ value: model.id, text: model.id }));
    fill($("chat-model"), names("language"));
    fill($("search-model"), names("embeddings"));
    languages = await (await ask("languages")).json();
    const sources = languages.filter((from) => from.targets.length).map(({ code }) => ({ value: code, text: titleOf(code) }));
    const { paths } = await (await ask("openapi.json")).json();
    const detecting = sources.length && paths["/detect"] ? [{ value: "auto", text: "Detect" }] : [];
    fill($("from"), [...detecting, ...sources]);
    fillTargets();
    notice(models.every((model) => model.ready) ? "" : "Models are being loaded.");
    if (!models.every((model) => model.ready)) setTimeout(begin, 1000);
    const first = [["language", "tab-chat"], ["translation", "tab-translate"], ["embeddings", "tab-search"]]
      .find(([kind]) => models.some((model) => model.kind === kind));
    if (first && !document.querySelector("main section:not([hidden]) select").options.length) show($(first[1]));
  } catch (error) {
    tell(error);
  }
}

// Events of a stream: what "data: " lines say, without the last.
async function* events(answer) {
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    const lines = (rest + value).split("\n");
    rest = lines.pop();
    for (const line of lines)
      if (line.startsWith("data: ") && line !== "data: [DONE]") yield JSON.parse(line.slice(6));
  }
}

// Chat.
let conversation = [];
let running = null;

function say(role, text) {
  const article = document.createElement("article");
  const name = document.createElement("h2");
  const words = document.createElement("p");
  article.className = role;
  name.textContent = role === "user" ? "You" : "Model";
  words.textContent = text;
  article.append(name, words);
  $("talk").append(article);
  $("talk").scrollTop = $("talk").scrollHeight;
  return words;
}

async function send() {
  const text = $("message").value.trim();
  if (!text || running) return;
  notice("");
  $("message").value = "";
  conversation.push({ role: "user", content: text });
  say("user", text);
  const words = say("assistant", "");
  running = new AbortController();
  $("send").disabled = true;
  $("stop").disabled = false;
  let said = "";
  try {
    const body = { model: $("chat-model").value, messages: conversation, stream: true, temperature: Number($("temperature").value) };
    for await (const event of events(await ask("v1/chat/completions", body, running.signal))) {
      if (event.error) throw new Error(event.error.message);
      const atEnd = $("talk").scrollHeight - $("talk").scrollTop - $("talk").clientHeight < 40;
      said += event.choices[0]?.delta.content ?? "";
      words.textContent = said;
      if (atEnd) $("talk").scrollTop = $("talk").scrollHeight;
    }
  } catch (error) {
    tell(error);
  }
  if (said) conversation.push({ role: "assistant", content: said });
  else {
    conversation.pop();
    words.parentElement.remove();
  }
  $("spoken").textContent = said;  // as a whole, for who listens
  running = null;
  $("send").disabled = false;
  $("stop").disabled = true;
}

const stop = () => running?.abort();
$("chat-form").addEventListener("submit", (event) => { event.preventDefault(); send(); });
$("message").addEventListener("keydown", (event) => {
  if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
    event.preventDefault();
    send();
  }
});
$("chat").addEventListener("keydown", (event) => { if (event.key === "Escape") stop(); });
$("stop").addEventListener("click", stop);
$("chat-clear").addEventListener("click", () => {
  stop();
  conversation = [];
  $("talk").replaceChildren();
  $("message").focus();
});

// Translation as one types: what is older than the last letter is given up.
let pending = null;
let timer = 0;
let translated = "";
let translatedFrom = "";
async function translate() {
  pending?.abort();
  pending = new AbortController();
  const q = $("source").value.split("\n");
  const source = $("from").value, target = $("to").value;
  if (!target || !q.join("").trim()) {
    $("target").textContent = $("detected").textContent = translated = translatedFrom = "";
    look();
    return;
  }
  try {
    const answer = await (await ask("translate", { q, source, target }, pending.signal)).json();
    translated = q.join("\n");
    $("target").textContent = answer.translatedText.join("\n");
    translatedFrom = answer.detectedLanguage?.[0].language ?? source;
    $("detected").textContent = answer.detectedLanguage ? titleOf(translatedFrom) : "";
    notice("");
    look();
  } catch (error) {
    tell(error);
  }
}

// Attention of the line with the cursor, where people look at it.
const MOST_LOOKED_AT = 256;  // bytes, as the server has it
let maps = null;
let looking = null;
let looked = "";
const lineAtCursor = () => {
  const { value, selectionStart } = $("source");
  const begin = selectionStart ? value.lastIndexOf("\n", selectionStart - 1) + 1 : 0;
  const end = value.indexOf("\n", begin);
  return value.slice(begin, end < 0 ? value.length : end);
};

function cell(kind, text, scope) {
  const made = document.createElement(kind);
  made.textContent = text;
  if (scope) made.scope = scope;
  return made;
}

function draw() {
  $("map").replaceChildren();
  if (!maps) return;
  if (!maps.layers.length) {
    $("map").textContent = "This model writes without attention.";
    return;
  }
  const { source, written, layers } = maps;
  const chosen = Number($("layer").value);
  const share = (row, column) =>
    chosen ? layers[chosen - 1][row][column] : layers.reduce((sum, layer) => sum + layer[row][column], 0) / layers.length;
  const table = document.createElement("table");
  const head = table.createTHead().insertRow();
  head.append(document.createElement("td"), ...source.map((token) => cell("th", token, "col")));
  const body = table.createTBody();
  for (const [row, token] of written.entries()) {
    const line = body.insertRow();
    line.append(cell("th", token, "row"));
    for (const column of source.keys()) {
      const made = cell("td", String(Math.round(100 * share(row, column))));
      made.style.setProperty("--share", share(row, column));
      line.append(made);
    }
  }
  $("map").append(table);
}

async function look() {
  looking?.abort();
  const q = lineAtCursor();
  const target = $("to").value;
  if (!$("attention").open) return;
  looked = q;
  if (!target || !translatedFrom || !q.trim() || new TextEncoder().encode(q).length > MOST_LOOKED_AT) {
    maps = null;
    draw();
    if (q.trim() && translatedFrom) $("map").textContent = `Only lines of at most ${MOST_LOOKED_AT} bytes are looked at.`;
    return;
  }
  looking = new AbortController();
  try {
    const body = { q, source: translatedFrom, target, attention: true };
    maps = (await (await ask("translate", body, looking.signal)).json()).attention;
    const count = maps.layers.length;
    if ($("layer").options.length !== count + 1) {
      fill($("layer"), Array.from({ length: count + 1 }, (_, i) => ({ value: i, text: i ? String(i) : "Mean of all" })));
    }
    draw();
  } catch (error) {
    if (error.name === "AbortError") return;
    maps = null;
    draw();
    tell(error);
  }
}

$("source").addEventListener("input", () => { clearTimeout(timer); timer = setTimeout(translate, 200); });
document.addEventListener("selectionchange", () => {  // to another line; while one types, the translation comes first
  if (document.activeElement !== $("source") || $("source").value !== translated || lineAtCursor() === looked) return;
  clearTimeout(timer);
  timer = setTimeout(look, 200);
});
$("attention").addEventListener("toggle", look);
$("layer").addEventListener("change", draw);
$("from").addEventListener("change", () => { fillTargets(); translate(); });
$("to").addEventListener("change", translate);

// Search: the texts whose vectors are nearest to the query's.
async function search() {
  const texts = $("texts").value.split("\n").map((text) => text.trim()).filter(Boolean);
  const query = $("query").value.trim();
  if (!texts.length || !query) return;
  try {
    const answer = await ask("v1/embeddings", { model: $("search-model").value, input: [query, ...texts] });
    const vectors = (await answer.json()).data.map((item) => item.embedding);
    const dot = (a, b) => a.reduce((sum, x, i) => sum + x * b[i], 0);
    const cosine = (a, b) => dot(a, b) / Math.sqrt(dot(a, a) * dot(b, b));
    const scored = texts.map((text, i) => ({ text, score: cosine(vectors[0], vectors[i + 1]) })).sort((a, b) => b.score - a.score);
    $("found").replaceChildren(...scored.map(({ text, score }) => {
      const item = document.createElement("li");
      const number = document.createElement("span");
      number.textContent = score.toFixed(3);
      item.append(number, text);
      return item;
    }));
    notice("");
  } catch (error) {
    tell(error);
  }
}
$("search-form").addEventListener("submit", (event) => { event.preventDefault(); search(); });

begin();
