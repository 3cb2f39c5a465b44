// The page: label, correct, refit. What the keys and buttons do.

import { DOUBTFUL, WORDS_AT_ONCE, ask, byId, element, end, later, marked, position, tell, title, view } from "./server.js";
import { doubtful, drawMarks, drawWords, followPointer, letters, points, showCursor, spanAt } from "./words.js";
import { drawEntry, drawLabels, drawQueue, drawState, ordered } from "./panels.js";
import { drawTimeline, followTimeline, whereMarked } from "./timeline.js";
import { drawGraph } from "./graph.js";
import { render } from "./guidelines.js";
import { sentences } from "./explain.js";

const CLOSEST = 20, FARTHEST = 400; // positions of a time line that are drawn at once
let tour = null; // places that are looked at one by one: {kind, places, at}

// ---- drawing

function draw() {
  const { shown, state } = view;
  drawWords();
  byId("text").hidden = !shown.text;
  byId("text").textContent = shown.text ?? "";
  for (const side of ["before", "after"]) {
    byId(side).hidden = !shown[side];
    byId(side).textContent = shown[side] ?? "";
  }
  drawLegend();
  byId("pages").hidden = shown.length <= WORDS_AT_ONCE && state.shape !== "line";
  byId("closer").hidden = byId("farther").hidden = state.shape !== "line";
  byId("parts").hidden = !shown.begins;
  byId("flag").setAttribute("aria-pressed", String(shown.flag !== null));
  drawTimeline();
  drawGraph(async (t) => { view.mark = null; view.cursor = t; draw(); });
  drawPlace();
}

// What the marks on the screen mean, of those that are there.
function drawLegend() {
  const { positions } = view.shown;
  const marks = [];
  if (positions.some((own) => own.from === "predicted")) marks.push("dashed and pale: predicted");
  if (positions.some(doubtful)) marks.push(`dots: predicted, with a probability below ${DOUBTFUL}`);
  if (positions.some((own) => own.suspect !== undefined)) marks.push("waves: the label may be wrong");
  if (view.changed.size) marks.push("framed: your last label changed this prediction");
  if (view.shown.aside) marks.push("set aside: one of a tenth of the items that no fit uses, so that they judge each refit; label it as all others");
  byId("legend").textContent = view.state.shape === "line" ? "" : marks.join(" · ");
}

// What changes as the cursor moves, and no more than that.
function drawPlace() {
  const { shown, state } = view;
  const notes = [`${title(shown)}${shown.name === null ? "" : `, ${shown.item + 1}`} of ${state.items}`];
  if (shown.aside) notes.push("set aside");
  if (shown.flag) notes.push(`⚑ ${shown.flag}`);
  if (shown.broken) notes.push("known labels break a rule of the field: correct one for predictions");
  if (state.shape === "line" && view.mark !== null) notes.push(whereMarked());
  byId("where").textContent = notes.join(", ");
  byId("earlier").disabled = view.first === 0;
  byId("later").disabled = end() === shown.length;
  byId("span").textContent = `${view.first + 1} to ${end()} of ${shown.length}`;
  drawLabels(pressed, byId("search").value);
}

function redrawMarks() {
  drawMarks();
  drawTimeline();
  drawPlace();
}

// ---- items

async function open(item, at = 0) {
  const other = view.shown?.item !== item;
  if (other) view.count = WORDS_AT_ONCE;
  view.cursor = at;
  view.first = Math.floor(at / view.count) * view.count;
  view.shown = await ask("item", { item, first: view.first });
  view.mark = null;
  view.changed = new Set();
  drawer(false);
  byId("more").replaceChildren();
  draw();
  drawQueue(open);
}
view.reopen = () => open(view.shown.item, view.cursor);

async function scrollTo(from) {
  view.first = Math.max(0, Math.min(from, view.shown.length - 1));
  const { shown } = view;
  if (view.first < shown.first || end() > shown.first + shown.positions.length) {
    view.shown = await ask("item", { item: shown.item, first: view.first });
  }
  draw();
}

async function zoom(by) {
  if (view.state.shape !== "line") return;
  view.count = Math.max(CLOSEST, Math.min(FARTHEST, Math.round(view.count * by)));
  await scrollTo(Math.max(0, view.cursor - Math.floor(view.count / 2)));
}

async function goTo(t, extend) {
  if (extend && view.mark === null) view.mark = view.cursor;
  if (!extend) view.mark = null;
  view.cursor = Math.max(0, Math.min(view.shown.length - 1, t));
  if (view.cursor < view.first || view.cursor >= end()) await scrollTo(Math.floor(view.cursor / view.count) * view.count);
  else {
    redrawMarks();
    showCursor();
    if (view.state.shape === "graph") draw();
  }
}

const move = (by, extend) => goTo(view.cursor + by, extend);

async function loadQueue() {
  view.queue = await ask("queue", {
    order: byId("order").value,
    item: view.shown ? view.shown.item : view.state.first,
    text: byId("find").value,
    part: byId("part").value,
    label: byId("with").value ? JSON.parse(byId("with").value) : null,
  });
  drawQueue(open);
}

async function next(by) {
  await loadQueue();
  const { queue, shown } = view;
  const filtered = byId("find").value || byId("part").value !== "all" || byId("with").value;
  if (byId("order").value === "given" && !filtered) {
    const other = shown.item + by;
    if (other >= 0 && other < view.state.items) await open(other);
    return;
  }
  const place = queue.findIndex((entry) => entry.item === shown.item);
  const listed = byId("order").value === "given";
  const other = by > 0 && !listed ? queue.find((entry) => entry.item !== shown.item) : queue[Math.max(place, listed ? -1 : 0) + by];
  if (other) await open(other.item);
}

// ---- changes

async function act(question, body) {
  const { shown } = view;
  const before = new Map(shown.positions.map((own, k) => [shown.first + k, own]));
  view.shown = await ask(question, { item: shown.item, version: shown.version, first: view.first, ...body });
  view.changed = new Set();
  view.shown.positions.forEach((own, k) => {
    const old = before.get(view.shown.first + k);
    if (old && own.from === "predicted" && old.from === "predicted" && old.label !== own.label) view.changed.add(view.shown.first + k);
  });
  drawEntry(shown.item, view.shown.left);
}

async function refresh() {
  view.state = await ask("state");
  drawState();
}

async function give(begin, stop, label) {
  await act("mark", { begin, end: stop, kind: label });
  view.mark = null;
  if (!view.state.labels.includes(label)) await refresh();
  draw();
  refresh().then(() => drawLabels(pressed, byId("search").value), () => {});
}

// Give a label to what is marked, or to the word at the cursor, and go on behind it.
async function choose(label) {
  const [begin, stop] = marked();
  await give(begin, stop, label);
  byId("search").value = "";
  if (view.shown.length === 1) await next(1);
  else if (stop < view.shown.length) await goTo(stop, false);
  else redrawMarks();
}

// A label that is clicked: for what is marked, or to be held.
async function pressed(label, event) {
  if (event?.shiftKey && !view.state.spans) return allow(label);
  if (view.mark === null && (view.state.spans || view.state.shape === "line")) {
    view.held = view.held === label ? null : label;
    return drawLabels(pressed, byId("search").value);
  }
  return choose(label);
}

// One more of the labels of which one is right, or one fewer.
async function allow(label) {
  const possible = new Set(position(view.cursor).set ?? []);
  if (!possible.delete(label)) possible.add(label);
  await act("change", { changes: [[view.cursor, possible.size ? [...possible] : null]] });
  draw();
  await refresh();
}

// Cut words at places of the text, and mark the words between the first and the last.
async function cut(...places) {
  const { shown } = view;
  view.shown = await ask("split", { item: shown.item, version: shown.version, first: view.first, places });
  view.changed = new Set();
  const { begins, first } = view.shown;
  const [begin, stop] = [places[0], places[places.length - 1]];
  const from = begins.findIndex((each) => each >= begin);
  const until = begins.findLastIndex((each) => each < stop);
  byId("more").replaceChildren();
  if (begin < stop && from >= 0 && until >= from) [view.mark, view.cursor] = [first + from, first + until];
  else [view.mark, view.cursor] = [null, first + Math.max(from, 0)];
  draw();
  byId("tokens").focus({ preventScroll: true });
  if (view.mark !== null && view.held !== null) await choose(view.held);
  await refresh();
}

// The letters of the word at the cursor, with a button for each place where it can be cut.
function parts() {
  const { begins, words, first } = view.shown;
  const own = begins && letters(words[view.cursor - first]);
  if (!own) return tell("words are cut in items that were read from a text");
  if (own.length < 2) return tell("this word has one letter: there is nothing to cut");
  const box = element("p", "cut");
  box.dir = "auto";
  const buttons = [];
  let place = begins[view.cursor - first];
  own.forEach((letter, k) => {
    if (k) {
      const at = place, button = element("button", "", "|");
      button.setAttribute("aria-label", `cut between ${own.slice(0, k).join("")} and ${own.slice(k).join("")}`);
      button.addEventListener("click", () => later(() => cut(at)));
      buttons.push(button);
      box.append(button);
    }
    box.append(element("span", "", letter));
    place += points(letter);
  });
  box.addEventListener("keydown", (event) => {
    const by = { ArrowRight: across(1), ArrowLeft: across(-1) }[event.key];
    if (event.key === "Escape") { byId("more").replaceChildren(); byId("tokens").focus(); }
    else if (by) buttons[Math.max(0, Math.min(buttons.length - 1, buttons.indexOf(event.target) + by))].focus();
    else return;
    event.preventDefault();
    event.stopPropagation();
  });
  byId("more").replaceChildren(element("p", "", "Where is the word cut? Arrows, then enter; or drag over letters with Alt."), box);
  buttons[(buttons.length - 1) >> 1].focus();
  return undefined;
}

async function accept() {
  const [begin, stop] = marked();
  const span = spanAt(stop - 1);
  await act("accept", { begin, end: stop });
  view.mark = null;
  draw();
  if (view.shown.length === 1) await next(1);
  else await goTo(Math.max(stop, span ? span[1] : 0), false);
  refresh().catch(() => {});
}

async function done() {
  await act("done", {});
  await refresh();
  const last = view.shown.item;
  await next(1);
  if (view.shown.item === last) draw();
}

// No span here; without spans, nothing is known.
async function outside(forgetting) {
  let [begin, stop] = marked();
  if (view.mark === null && spanAt(view.cursor)) [begin, stop] = spanAt(view.cursor);
  if (view.state.spans && !forgetting) await act("mark", { begin, end: stop, kind: null });
  else await act("change", { changes: Array.from({ length: stop - begin }, (_, k) => [begin + k, null]) });
  view.mark = null;
  draw();
  await refresh();
}

async function turn(question) {
  const from = view.shown.item;
  view.shown = await ask(question, { first: view.first });
  view.first = view.shown.first;
  view.cursor = view.shown.at ?? Math.max(view.first, Math.min(view.cursor, end() - 1));
  view.mark = null;
  view.changed = new Set();
  draw();
  if (view.shown.item !== from) await loadQueue();
  await refresh();
}

async function same() {
  const [begin, stop] = spanAt(view.cursor) ?? marked();
  const kind = position(begin)?.kind ?? view.held;
  if (!kind) return tell("mark a span and give it a type first: then all the same words can have it, too");
  const body = { item: view.shown.item, begin, end: stop, kind };
  const found = await ask("repeats", body);
  const box = element("div");
  box.append(element("p", "", `${found.count} more times ${found.words}, without a label`));
  const list = element("ul");
  list.append(...found.places.map((place) => element("li", "", `${place.title}: … ${place.text} …`)));
  const button = element("button", "", `All ${found.count} as ${kind}`);
  button.addEventListener("click", () => later(async () => {
    await ask("repeats", { ...body, apply: true });
    await refresh();
    await open(view.shown.item, view.cursor);
    await loadQueue();
  }));
  box.append(list, ...(found.count ? [button] : []));
  byId("more").replaceChildren(box);
  button.focus();
}

function flag() {
  const { shown } = view;
  if (shown.flag !== null) return setFlag(null);
  const box = element("p", "row");
  const note = element("input");
  note.placeholder = "why? (enter)";
  note.setAttribute("aria-label", "Note");
  note.addEventListener("keydown", (event) => {
    if (event.key === "Enter") later(() => setFlag(note.value.trim()));
    if (event.key === "Escape") byId("more").replaceChildren();
  });
  const button = element("button", "", "Flag it");
  button.addEventListener("click", () => later(() => setFlag(note.value.trim())));
  box.append(note, button);
  byId("more").replaceChildren(box);
  note.focus();
  return undefined;
}

async function setFlag(note) {
  view.shown.flag = (await ask("flag", { item: view.shown.item, note })).flag;
  byId("more").replaceChildren();
  draw();
  await loadQueue();
}

// ---- one by one

async function look(kind) {
  const places = await ask("places", { kind });
  tour = places.length ? { kind, places, at: -1 } : null;
  byId("tour").hidden = !tour;
  const disputed = kind === "disagreements";
  byId("one").hidden = byId("other").hidden = !disputed;
  byId("take").hidden = disputed;
  byId("keep").textContent = disputed ? "Neither" : "Keep";
  ["one", "other"].forEach((id, side) => { byId(id).textContent = `${"←→"[side]} ${view.state.annotators[side] ?? ""}`; });
  if (tour) await onward();
}

async function onward() {
  if (++tour.at >= tour.places.length) return leave();
  const place = tour.places[tour.at];
  await open(place.item, place.begin);
  view.mark = place.begin;
  view.cursor = place.end - 1;
  redrawMarks();
  byId("finding").textContent = `${tour.at + 1} of ${tour.places.length}: ${place.title}, ${place.text}`;
  return undefined;
}

async function take() {
  if (!tour) return;
  const place = tour.places[tour.at];
  if (place.labels) await act("change", { changes: place.labels.map((label, k) => [place.begin + k, [label]]) });
  else await act("accept", { begin: place.begin, end: place.end });
  await refresh();
  await onward();
}

// The labels of one of two annotators, and the next place.
async function decide(side) {
  if (tour?.kind !== "disagreements") return;
  const place = tour.places[tour.at];
  await act("change", { changes: place.sides[side].map((labels, k) => [place.begin + k, labels]) });
  await refresh();
  await onward();
}

async function leave() {
  tour = null;
  byId("tour").hidden = true;
}

// The next doubtful word, in this item or in another one that is not done.
async function nextDoubt() {
  const tried = new Set();
  for (let from = view.cursor + 1; ; from = 0) {
    for (let t = Math.max(from, view.shown.first); t < view.shown.first + view.shown.positions.length; t++) {
      if (doubtful(position(t))) return goTo(t, false);
    }
    tried.add(view.shown.item);
    await loadQueue();
    const other = view.queue.find((entry) => entry.left && !tried.has(entry.item) && (byId("order").value !== "given" || entry.item > view.shown.item));
    if (!other) return tell("no doubtful words are left in the items of the list");
    await open(other.item);
    if (doubtful(position(0) ?? {})) return undefined;
  }
}

async function best() {
  const found = await ask("best", { item: view.shown.item });
  const table = element("table");
  found.forEach((own) => {
    const row = element("tr");
    const button = element("button", "", own.p.toFixed(3));
    button.addEventListener("click", () => later(async () => {
      await act("change", { changes: own.labels.map((label, t) => [t, [label]]) });
      draw();
      await refresh();
    }));
    const cell = element("td");
    cell.append(button);
    const told = own.spans ? own.spans.map(([kind, words]) => `[${words}] ${kind}`).join(" ") || "no span" : own.labels.join(" ");
    row.append(cell, element("td", "", told));
    table.append(row);
  });
  byId("more").replaceChildren(table);
}

async function explain() {
  const found = await ask("explain", { item: view.shown.item, position: view.cursor });
  const table = element("table");
  (found.contributions ?? []).slice(0, 8).forEach((own) => {
    const row = element("tr");
    row.append(element("td", "", String(own.name ?? own.kind)), element("td", "", own.amount === null ? "∞" : Number(own.amount).toFixed(3)));
    table.append(row);
  });
  const all = element("details");
  all.append(element("summary", "", "all contributions, in nats"), table);
  byId("more").replaceChildren(element("p", "why", sentences(found)), all);
}

// A refit, or a check for label errors, beside the labelling.
async function work(question) {
  await ask(question);
  await refresh();
  while (view.state.busy) {
    await new Promise((done_) => setTimeout(done_, 300));
    await refresh();
  }
  await open(view.shown.item, view.cursor);
  await loadQueue();
}

async function check() {
  await work("check");
  await look("findings");
}

async function save() {
  const found = await ask("save");
  await refresh();
  byId("status").textContent = found.status;
}

function help() {
  const hidden = byId("help").toggleAttribute("hidden");
  byId("helper").setAttribute("aria-expanded", String(!hidden));
}

function guide(open_ = byId("guidelines").hidden) {
  if (!view.state.guidelines) return tell("there are no guidelines: kernelfields label FILE --guidelines FILE.md shows them here");
  byId("guidelines").hidden = !open_;
  byId("guide").setAttribute("aria-expanded", String(open_));
  return undefined;
}

// Guidelines are open at first where there is room for them.
async function loadGuidelines() {
  if (!view.state.guidelines) return;
  byId("guide").hidden = false;
  byId("guidelines").replaceChildren(...render((await ask("guidelines")).text));
  guide(matchMedia("(min-width: 60rem)").matches);
}

function escape() {
  if (!byId("guidelines").hidden && !matchMedia("(min-width: 60rem)").matches) return guide(false);
  if (tour) return leave();
  if (view.mark !== null || view.held !== null) {
    view.mark = view.held = null;
    return redrawMarks();
  }
  return byId("undo").focus();
}

// ---- keys

const across = (by) => (byId("tokens").matches(":dir(rtl)") ? -by : by);
const rows = () => (["table", "graph"].includes(view.state.shape) ? 1 : 10);
const KEYS = {
  ArrowRight: (event) => (tour?.kind === "disagreements" ? decide(1) : move(across(1), event.shiftKey)),
  ArrowLeft: (event) => (tour?.kind === "disagreements" ? decide(0) : move(across(-1), event.shiftKey)),
  ArrowDown: (event) => move(rows(), event.shiftKey),
  ArrowUp: (event) => move(-rows(), event.shiftKey),
  Home: (event) => goTo(0, event.shiftKey),
  End: (event) => goTo(view.shown.length - 1, event.shiftKey),
  Enter: (event) => (event.shiftKey ? done() : accept()),
  Backspace: (event) => outside(event.shiftKey),
  Delete: (event) => outside(event.shiftKey),
  Escape: escape,
  d: done,
  o: () => outside(false),
  u: () => turn("undo"),
  n: () => next(1),
  p: () => next(-1),
  j: () => byId("jump").focus(),
  f: () => byId("find").focus(),
  a: same,
  g: flag,
  w: parts,
  b: best,
  e: explain,
  r: () => work("refit"),
  c: check,
  l: () => look("findings"),
  v: () => look("changed"),
  x: () => look("disagreements"),
  y: take,
  k: () => (tour ? onward() : undefined),
  s: save,
  "+": () => zoom(0.5),
  "-": () => zoom(2),
  i: () => guide(),
  "?": help,
  "/": () => byId("search").focus(),
};

function searchKey(event) {
  if (event.key === "Enter") {
    const typed = byId("search").value.trim();
    const [found] = ordered(typed);
    if (typed) later(() => choose(found ?? typed));
    byId("search").blur();
  } else if (event.key === "Escape") {
    byId("search").value = "";
    byId("search").blur();
    drawLabels(pressed);
  }
}

document.addEventListener("keydown", (event) => {
  if (event.altKey || !view.shown) return;
  if (event.ctrlKey || event.metaKey) {
    const wanted = { z: () => turn(event.shiftKey ? "redo" : "undo"), y: () => turn("redo"), s: save }[event.key.toLowerCase()];
    if (wanted && event.target.tagName !== "INPUT") {
      event.preventDefault();
      later(wanted);
    }
    return;
  }
  if (event.target === byId("search")) return searchKey(event);
  if (["INPUT", "SELECT", "TEXTAREA"].includes(event.target.tagName)) {
    if (event.key === "Escape") byId("tokens").focus();
    return;
  }
  if (event.target.tagName === "BUTTON" && ["Enter", " "].includes(event.key)) return; // it is pressed
  if (event.key === "Tab") {
    if (event.shiftKey || ![byId("tokens"), document.body].includes(document.activeElement) || !view.state.model) return;
    event.preventDefault();
    later(nextDoubt);
    return;
  }
  if (/^(Digit|Numpad)[0-9]$/.test(event.code)) {
    const place = (Number(event.code.at(-1)) + 9) % 10;
    event.preventDefault();
    later(() => {
      const label = ordered()[place];
      if (label === undefined) return undefined;
      return event.shiftKey && !view.state.spans ? allow(label) : choose(label);
    });
    return;
  }
  const action = KEYS[event.key];
  if (!action) return;
  event.preventDefault();
  later(() => action(event));
});

// ---- buttons

const BUTTONS = {
  undo: () => turn("undo"), redo: () => turn("redo"), refit: () => work("refit"), check, save, done, flag, same, parts, take, leave,
  outside: () => outside(false), keep: () => (tour ? onward() : undefined), previous: () => next(-1), next: () => next(1),
  earlier: () => scrollTo(view.first - view.count), later: () => scrollTo(view.first + view.count),
  closer: () => zoom(0.5), farther: () => zoom(2), helper: help, guide: () => guide(),
  one: () => decide(0), other: () => decide(1),
};
for (const [id, action] of Object.entries(BUTTONS)) byId(id).addEventListener("click", () => later(action));
function drawer(open_) {
  byId("list").classList.toggle("open", open_);
  byId("drawer").setAttribute("aria-expanded", String(open_));
}
byId("drawer").addEventListener("click", () => drawer(!byId("list").classList.contains("open")));
document.querySelector("section").addEventListener("pointerdown", () => drawer(false));
byId("search").addEventListener("input", () => drawLabels(pressed, byId("search").value));
byId("likely").addEventListener("change", () => drawLabels(pressed));
byId("find").addEventListener("input", () => later(loadQueue));
for (const id of ["part", "with"]) byId(id).addEventListener("change", () => later(async () => { byId(id).blur(); await loadQueue(); }));
byId("order").addEventListener("change", () => later(async () => {
  byId("order").blur();
  if (byId("order").value === "suspicious") await work("check");
  await loadQueue();
}));
byId("jump").addEventListener("keydown", (event) => {
  if (event.key !== "Enter") return;
  const item = Number(byId("jump").value) - 1;
  byId("jump").value = "";
  byId("tokens").focus();
  later(() => (item >= 0 && item < view.state.items ? open(item).then(loadQueue) : tell(`there are items 1 to ${view.state.items}`)));
});
followPointer(choose, cut);
followTimeline(choose, give, redrawMarks);
byId("tokens").addEventListener("pointerup", () => later(async () => drawPlace()));
byId("columns").addEventListener("wheel", (event) => {
  if (!event.deltaX && !event.shiftKey) return;
  event.preventDefault();
  const by = Math.sign(event.deltaX || event.deltaY) * Math.ceil(view.count / 10);
  later(() => scrollTo(Math.min(view.first + by, Math.max(0, view.shown.length - view.count))));
}, { passive: false });
window.addEventListener("resize", () => later(async () => { if (view.shown) draw(); }));

later(async () => {
  await refresh();
  await loadGuidelines();
  await loadQueue();
  if (view.state.items) await open(view.state.first);
  byId("tokens").focus({ preventScroll: true });
  if (view.state.disagreements) await look("disagreements");
});
