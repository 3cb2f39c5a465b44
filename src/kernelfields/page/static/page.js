// The page: label, correct, refit. All text is set as text, never as markup.

const token = new URLSearchParams(location.search).get("token");
const byId = (name) => document.getElementById(name);
const WINDOW = 400; // positions that are drawn at once

let state = null; // of the labelling
let shown = null; // the item on the screen
let cursor = 0; // position in the item
let mark = null; // other end of a span, null for none
let queue = [];
let changed = new Set();
let first = 0; // first position that is drawn

async function ask(question, body = {}) {
  const answer = await fetch(`/api/${question}`, {
    method: "POST",
    headers: { "Content-Type": "application/json", "X-Kernelfields-Token": token },
    body: JSON.stringify(body),
  });
  const found = await answer.json();
  if (answer.status === 409) {
    await open(shown.item, cursor);
    tell(found.error);
    throw new Error(found.error);
  }
  if (!answer.ok) {
    tell(found.error);
    throw new Error(found.error);
  }
  tell(null);
  return found;
}

function tell(line) {
  byId("error").hidden = !line;
  byId("error").textContent = line ?? "";
}

function element(name, className, text) {
  const made = document.createElement(name);
  if (className) made.className = className;
  if (text !== undefined) made.textContent = text;
  return made;
}

// ---- labels and their colours

function kind(label) {
  const text = String(label);
  return state.scheme && text.includes("-") ? text.slice(text.indexOf("-") + 1) : text;
}

function colour(label) {
  if (label === null || label === "O") return "transparent";
  let hash = 0;
  for (const letter of kind(label)) hash = (hash * 31 + letter.codePointAt(0)) % 360;
  return `hsl(${hash} 60% 50% / 35%)`;
}

// Labels of a span of a type, as the scheme writes it.
function written(type, length) {
  if (!state.scheme) return Array(length).fill(type);
  if (type === "O") return Array(length).fill("O");
  const tags = { bio: ["B", "I", "I", "B"], iob1: ["I", "I", "I", "I"], bioes: ["B", "I", "E", "S"], bilou: ["B", "I", "L", "U"] };
  const [begin, inside, end, single] = tags[state.scheme];
  if (length === 1) return [`${single}-${type}`];
  return [`${begin}-${type}`, ...Array(length - 2).fill(`${inside}-${type}`), `${end}-${type}`];
}

// ---- drawing

function position(t) {
  return shown.positions[t - shown.first];
}

function draw() {
  const box = byId("tokens");
  const last = Math.min(first + WINDOW, shown.length);
  const made = [];
  for (let t = first; t < last; t++) {
    const own = position(t);
    const piece = element("span", `token ${own.from}`);
    piece.dataset.t = t;
    piece.setAttribute("role", "option");
    if (t === cursor) piece.classList.add("cursor");
    if (mark !== null && t >= Math.min(mark, cursor) && t <= Math.max(mark, cursor)) piece.classList.add("marked");
    if (changed.has(t)) piece.classList.add("changed");
    const label = own.set && own.set.length > 1 ? own.set.join("|") : own.label;
    if (own.suspect !== undefined) piece.classList.add("suspect");
    if (state.shape !== "line") {
      piece.append(element("span", "word", (shown.words ?? shown.names)[t - shown.first]));
      for (const cell of shown.cells?.[t - shown.first] ?? []) piece.append(element("span", "cell", String(cell ?? "")));
      const chip = element("span", "label", label === null ? "" : String(label));
      chip.style.background = colour(own.label);
      piece.append(chip);
    } else {
      piece.classList.add("strip");
      piece.style.background = colour(own.label);
    }
    piece.title = own.p === null ? `${label ?? "nothing"} (${own.from})` : `${label} ${own.p}`;
    if (own.suspect !== undefined) piece.title += `, perhaps ${own.suspect}`;
    made.push(piece);
  }
  box.classList.toggle("table", state.shape === "table");
  if (shown.heads?.length) {
    const head = element("span", "heads");
    head.append(element("span", "word"), ...shown.heads.map((name) => element("span", "cell", name)), element("span", "label"));
    made.unshift(head);
  }
  box.replaceChildren(...made);
  byId("text").hidden = !shown.text;
  byId("text").textContent = shown.text ?? "";
  byId("pages").hidden = shown.length <= WINDOW;
  byId("span").textContent = `${first + 1} to ${last} of ${shown.length}`;
  const broken = shown.broken ? ", known labels break a rule of the field: correct one for predictions" : "";
  byId("where").textContent = `item ${shown.item + 1} of ${state.items}${shown.aside ? ", set aside: it judges refits" : ""}${broken}`;
  drawCandidates("");
  drawColumns(last);
  box.querySelector(".cursor")?.scrollIntoView({ block: "nearest" });
}

function drawCandidates(wanted) {
  const own = position(cursor);
  const all = state.labels.map((label) => [label, null]);
  const likely = own && own.top.length ? own.top : all;
  const text = wanted.toLowerCase();
  const found = (text ? all.filter(([label]) => String(label).toLowerCase().includes(text)) : likely).slice(0, 9);
  byId("candidates").replaceChildren(
    ...found.map(([label, chance], number) => {
      const button = element("button");
      button.append(element("kbd", "", String(number + 1)), document.createTextNode(String(label)));
      if (chance !== null) button.append(document.createTextNode(` ${chance.toFixed(2)}`));
      button.dataset.label = JSON.stringify(label);
      button.addEventListener("click", (event) => later(() => (event.shiftKey ? allow(label) : choose(label))));
      return button;
    }),
  );
}

function drawColumns(last) {
  const canvas = byId("columns");
  canvas.hidden = !shown.columns;
  if (!shown.columns) return;
  const pen = canvas.getContext("2d");
  pen.clearRect(0, 0, canvas.width, canvas.height);
  const step = canvas.width / Math.max(last - first, 1);
  for (let t = first; t < last; t++) {
    pen.fillStyle = colour(position(t).label);
    pen.fillRect((t - first) * step, 0, step, canvas.height);
  }
  shown.columns.slice(0, 8).forEach((column, number) => {
    const values = column.slice(first - shown.first, last - shown.first).filter((value) => value !== null);
    const low = Math.min(...values), high = Math.max(...values);
    pen.strokeStyle = `hsl(${number * 47} 70% 45%)`;
    pen.beginPath();
    for (let t = first; t < last; t++) {
      const value = column[t - shown.first];
      if (value === null) continue;
      const y = canvas.height * (1 - (value - low) / (high - low || 1));
      pen.lineTo((t - first + 0.5) * step, y);
    }
    pen.stroke();
  });
  pen.strokeStyle = getComputedStyle(canvas).color;
  pen.strokeRect((cursor - first) * step, 0, Math.max(step, 1), canvas.height);
}

function drawState() {
  byId("name").textContent = state.name;
  byId("progress").textContent = `${state.known} of ${state.positions} labels known${state.saved ? "" : ", not saved yet"}`;
  byId("status").textContent = state.status;
  byId("undo").disabled = !state.undo;
  const points = state.curve.filter((point) => point.right !== null);
  const canvas = byId("curve");
  canvas.hidden = points.length < 2;
  if (points.length < 2) return;
  const pen = canvas.getContext("2d");
  pen.clearRect(0, 0, canvas.width, canvas.height);
  pen.strokeStyle = "#2156a5";
  pen.beginPath();
  const most = points[points.length - 1].known;
  points.forEach((point) => pen.lineTo((point.known / most) * (canvas.width - 10) + 5, canvas.height - 5 - point.right * (canvas.height - 10)));
  pen.stroke();
}

function drawQueue() {
  byId("queue").replaceChildren(
    ...queue.map((entry) => {
      const row = element("li", entry.left ? "" : "done");
      row.dataset.item = entry.item;
      if (shown && entry.item === shown.item) row.setAttribute("aria-current", "true");
      // What a look may bring: nats of doubt per position, or in favour of another label.
      const score = entry.score ? ` · ${entry.score.toFixed(2)}` : "";
      row.append(element("span", "", `item ${entry.item + 1}`), element("span", "", (entry.left ? `${entry.left} left` : "done") + score));
      row.addEventListener("click", () => later(() => open(entry.item)));
      return row;
    }),
  );
}

// ---- what the keys do

async function open(item, at = 0) {
  cursor = at;
  first = Math.floor(at / WINDOW) * WINDOW;
  shown = await ask("item", { item, first });
  mark = null;
  changed = new Set();
  byId("more").replaceChildren();
  draw();
  drawQueue();
}

async function window_(from) {
  first = Math.max(0, Math.min(from, shown.length - 1));
  if (first < shown.first || Math.min(first + WINDOW, shown.length) > shown.first + shown.positions.length) {
    shown = await ask("item", { item: shown.item, first });
  }
  draw();
}

async function move(by, extend) {
  if (extend && mark === null) mark = cursor;
  if (!extend) mark = null;
  cursor = Math.max(0, Math.min(shown.length - 1, cursor + by));
  if (cursor < first || cursor >= first + WINDOW) await window_(Math.floor(cursor / WINDOW) * WINDOW);
  else draw();
}

async function change(changes) {
  const before = new Map(shown.positions.map((own, k) => [shown.first + k, own.label]));
  shown = await ask("change", { item: shown.item, version: shown.version, changes, first });
  const fixed = new Set(changes.map(([t]) => t));
  changed = new Set(shown.positions.map((own, k) => [shown.first + k, own]).filter(([t, own]) => !fixed.has(t) && before.has(t) && before.get(t) !== own.label).map(([t]) => t));
  draw();
  refreshState();
}

function span() {
  return mark === null ? [cursor, cursor] : [Math.min(mark, cursor), Math.max(mark, cursor)];
}

async function choose(label) {
  const [begin, end] = span();
  const labels = mark === null ? [label] : written(kind(label), end - begin + 1);
  await change(labels.map((own, k) => [begin + k, [own]]));
  mark = null;
  byId("search").value = "";
  if (shown.length === 1) await next(1);
  else await move(1, false);
}

// One more of the labels of which one is right, or one fewer.
async function allow(label) {
  const own = position(cursor);
  const possible = new Set(own.set ?? []);
  if (!possible.delete(label)) possible.add(label);
  await change([[cursor, possible.size ? [...possible] : null]]);
}

async function accept(whole) {
  const changes = [];
  if (whole) {
    for (let from = 0; from < shown.length; from += WINDOW) {
      const part = await ask("item", { item: shown.item, first: from });
      part.positions.forEach((own, k) => { if (own.from === "predicted") changes.push([part.first + k, [own.label]]); });
    }
  } else {
    const [begin, end] = span();
    for (let t = begin; t <= end; t++) if (position(t)?.from === "predicted") changes.push([t, [position(t).label]]);
  }
  if (changes.length) await change(changes);
  if (whole || shown.length === 1) await next(1);
  else await move(1, false);
}

async function forget() {
  const [begin, end] = span();
  await change(Array.from({ length: end - begin + 1 }, (_, k) => [begin + k, null]));
}

async function loadQueue() {
  queue = await ask("queue", { order: byId("order").value, item: shown ? shown.item : 0 });
  drawQueue();
}

async function next(by) {
  await loadQueue();
  if (byId("order").value === "given") {
    const other = shown.item + by;
    if (other >= 0 && other < state.items) await open(other);
    return;
  }
  const place = queue.findIndex((entry) => entry.item === shown.item);
  const other = by > 0 ? queue.find((entry) => entry.item !== shown.item) : queue[place - 1];
  if (other) await open(other.item);
}

async function undo() {
  shown = await ask("undo", { first });
  first = shown.first;
  cursor = Math.max(first, Math.min(cursor, first + shown.positions.length - 1));
  changed = new Set();
  draw();
  drawQueue();
  refreshState();
}

async function best() {
  const found = await ask("best", { item: shown.item });
  const table = element("table");
  found.forEach((own) => {
    const row = element("tr");
    const button = element("button", "", own.p.toFixed(3));
    button.addEventListener("click", () => later(() => change(own.labels.map((label, t) => [t, [label]]))));
    const cell = element("td");
    cell.append(button);
    row.append(cell, element("td", "", own.labels.join(" ")));
    table.append(row);
  });
  byId("more").replaceChildren(table);
}

async function explain() {
  const found = await ask("explain", { item: shown.item, position: cursor });
  const table = element("table");
  const head = element("tr");
  head.append(element("th", "", `${found.label} over ${found.other ?? found.against ?? "the next"}`));
  table.append(head);
  (found.contributions ?? []).slice(0, 8).forEach((own) => {
    const row = element("tr");
    row.append(element("td", "", String(own.name ?? own.kind)), element("td", "", own.amount === null ? "∞" : Number(own.amount).toFixed(3)));
    table.append(row);
  });
  byId("more").replaceChildren(table);
}

async function refreshState() {
  state = await ask("state");
  drawState();
}

// A refit, or a check for label errors, beside the labelling.
async function work(question) {
  await ask(question);
  await refreshState();
  while (state.busy) {
    await new Promise((done) => setTimeout(done, 300));
    await refreshState();
  }
  await open(shown.item, cursor);
  await loadQueue();
}

async function save() {
  const found = await ask("save");
  await refreshState();
  byId("status").textContent = found.status;
}

const KEYS = {
  ArrowRight: (event) => move(byId("tokens").matches(":dir(rtl)") ? -1 : 1, event.shiftKey),
  ArrowLeft: (event) => move(byId("tokens").matches(":dir(rtl)") ? 1 : -1, event.shiftKey),
  ArrowDown: (event) => move(state.shape === "table" ? 1 : 10, event.shiftKey),
  ArrowUp: (event) => move(state.shape === "table" ? -1 : -10, event.shiftKey),
  Enter: (event) => accept(event.shiftKey),
  Backspace: forget,
  Delete: forget,
  u: undo,
  n: () => next(1),
  p: () => next(-1),
  b: best,
  e: explain,
  r: () => work("refit"),
  c: () => work("check"),
  s: save,
  "/": () => byId("search").focus(),
};

// Keys wait for those before them: fast typing is never lost.
let last = Promise.resolve();
function later(action) {
  const mine = last.then(action).catch(() => {});
  last = mine;
  document.body.dataset.busy = "true";
  mine.then(() => { if (mine === last) document.body.dataset.busy = "false"; });
}

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || !shown) return;
  if (event.target === byId("search")) {
    if (event.key === "Enter") {
      const found = byId("candidates").firstElementChild;
      const typed = byId("search").value.trim();
      if (found) later(() => choose(JSON.parse(found.dataset.label)));
      else if (typed) later(() => choose(typed));
      byId("search").blur();
    } else if (event.key === "Escape") {
      byId("search").value = "";
      byId("search").blur();
      drawCandidates("");
    }
    return;
  }
  if (["INPUT", "SELECT", "TEXTAREA"].includes(event.target.tagName)) return;
  if (/^(Digit|Numpad)[1-9]$/.test(event.code)) {
    const place = Number(event.code.at(-1)) - 1;
    event.preventDefault();
    later(() => {
      const button = byId("candidates").children[place];
      return button ? (event.shiftKey ? allow : choose)(JSON.parse(button.dataset.label)) : undefined;
    });
    return;
  }
  const action = KEYS[event.key];
  if (!action) return;
  event.preventDefault();
  later(() => action(event));
});

byId("search").addEventListener("input", () => drawCandidates(byId("search").value));
byId("tokens").addEventListener("mousedown", (event) => {
  const piece = event.target.closest(".token");
  if (!piece) return;
  later(async () => { mark = event.shiftKey ? (mark ?? cursor) : null; cursor = Number(piece.dataset.t); draw(); });
});
byId("columns").addEventListener("mousedown", (event) => {
  const place = (event.clientX - byId("columns").getBoundingClientRect().left) / byId("columns").clientWidth;
  const at = first + Math.floor(place * Math.min(WINDOW, shown.length - first));
  later(async () => { mark = at; cursor = at; draw(); });
});
byId("columns").addEventListener("mousemove", (event) => {
  if (!event.buttons || mark === null) return;
  const place = (event.clientX - byId("columns").getBoundingClientRect().left) / byId("columns").clientWidth;
  const at = first + Math.floor(place * Math.min(WINDOW, shown.length - first));
  later(async () => { cursor = Math.max(0, Math.min(shown.length - 1, at)); draw(); });
});
byId("order").addEventListener("change", () => later(async () => {
  byId("order").blur();
  if (byId("order").value === "suspicious") await work("check");
  await loadQueue();
}));
byId("earlier").addEventListener("click", () => later(() => window_(first - WINDOW)));
byId("later").addEventListener("click", () => later(() => window_(first + WINDOW)));
byId("undo").addEventListener("click", () => later(undo));
byId("refit").addEventListener("click", () => later(() => work("refit")));
byId("save").addEventListener("click", () => later(save));

later(async () => {
  await refreshState();
  await loadQueue();
  if (queue.length) await open(queue[0].item);
});
