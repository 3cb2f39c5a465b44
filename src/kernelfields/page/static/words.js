// Words with their spans, words with a label each, and tables: how positions are drawn and marked.

import { DOUBTFUL, byId, element, end, later, marked, name, paint, position, view } from "./server.js";

const LONG = 120; // words from which on an item is a document, in smaller type

export function doubtful(own) {
  return own.from === "predicted" && own.p !== null && own.p < DOUBTFUL;
}

function told(own) {
  const label = name(own) ?? (own.from === "nothing" ? "not known" : "no span");
  const from = own.p === null ? own.from : `predicted, ${own.p.toFixed(2)}`;
  return `${label} (${from})` + (own.suspect === undefined ? "" : `, perhaps ${own.suspect}`);
}

function token(t) {
  const own = position(t);
  const piece = element("span", `token ${own.from}`);
  piece.dataset.t = t;
  piece.setAttribute("role", "option");
  if (view.changed.has(t)) piece.classList.add("changed");
  if (own.suspect !== undefined) piece.classList.add("suspect");
  if (doubtful(own)) piece.classList.add("doubtful");
  piece.title = told(own);
  piece.setAttribute("aria-label", `${word(t)}: ${told(own)}`);
  return piece;
}

function word(t) {
  return (view.shown.words ?? view.shown.names ?? [])[t - view.shown.first] ?? String(t);
}

// The text between two words, or in front of the first and behind the last: a space where there are words alone.
function gap(t) {
  const { gaps, first } = view.shown;
  if (!gaps) return t > view.first && t < end() ? " " : "";
  const text = gaps[t - first] ?? "";
  return (t === view.first || t === end()) && !text.trim() ? "" : text;
}

function spanPieces() {
  const made = [];
  let open = null;
  for (let t = view.first; t < end(); t++) {
    const own = position(t);
    const piece = token(t);
    piece.append(element("span", "word", word(t)));
    if (own.kind === null) {
      made.push(gap(t), piece);
      continue;
    }
    if (own.begins || t === view.first) {
      open = element("span", `span ${own.from === "predicted" ? "predicted" : "known"}`);
      open.dataset.kind = own.kind;
      paint(open, own.kind, own);
      made.push(gap(t), open);
    } else {
      open.append(gap(t));
    }
    open.append(piece);
    const next = t + 1 < end() ? position(t + 1) : null;
    if (!next || next.kind === null || next.begins) {
      const share = own.p === null ? "" : ` ${own.p.toFixed(2)}`;
      open.append(element("span", "kind", own.kind + share));
    }
  }
  return [...made, gap(end())];
}

const asTable = () => ["table", "graph"].includes(view.state.shape);

function tagPieces() {
  const made = [];
  for (let t = view.first; t < end(); t++) {
    const own = position(t);
    const piece = token(t);
    piece.append(element("span", "word", word(t)));
    for (const cell of view.shown.cells?.[t - view.shown.first] ?? []) piece.append(element("span", "cell", String(cell ?? "")));
    const label = name(own);
    const chip = element("span", "label", label === null ? " " : String(label));
    piece.append(chip);
    if (own.label !== null) {
      const painted = asTable() ? chip : piece; // a word is coloured, and of a table the label
      painted.classList.add("tagged");
      paint(painted, own.label, own);
    }
    made.push(piece);
  }
  if (view.shown.heads?.length) {
    const head = element("span", "heads");
    head.append(element("span", "word"), ...view.shown.heads.map((each) => element("span", "cell", each)), element("span", "label"));
    made.unshift(head);
  }
  return made;
}

export function drawWords() {
  const box = byId("tokens");
  const { shape, spans } = view.state;
  box.className = shape === "line" ? "line" : asTable() ? "table" : spans ? "text" : "tags";
  if (view.shown.length > LONG) box.classList.add("long");
  box.replaceChildren(...(shape === "line" ? [] : spans && !asTable() ? spanPieces() : tagPieces()));
  drawMarks();
  showCursor();
}

// Bring the cursor into sight; a graph above its table shows it already.
export function showCursor() {
  if (!view.shown.places) byId("tokens").querySelector(".cursor")?.scrollIntoView({ block: "nearest" });
}

export function drawMarks() {
  const [begin, stop] = marked();
  for (const piece of byId("tokens").querySelectorAll(".token")) {
    const t = Number(piece.dataset.t);
    const inside = view.mark !== null && t >= begin && t < stop;
    piece.classList.toggle("cursor", t === view.cursor);
    piece.classList.toggle("marked", inside);
    piece.setAttribute("aria-selected", String(inside || t === view.cursor));
  }
}

// The span that a position belongs to, [begin, end), or null.
export function spanAt(t) {
  if (!view.state.spans || position(t)?.kind == null) return null;
  let begin = t, stop = t + 1;
  while (begin > view.shown.first && !position(begin).begins) begin--;
  while (stop < view.shown.first + view.shown.positions.length && position(stop).kind !== null && !position(stop).begins) stop++;
  return [begin, stop];
}

// ---- parts of words: places in the text count code points, as Python does, and texts of the page UTF-16 units

export const points = (text) => Array.from(text).length;

// The letters of a word as people see them: marks belong to the letter before them.
export function letters(text) {
  if (!Intl.Segmenter) return Array.from(text);
  return [...new Intl.Segmenter(undefined, { granularity: "grapheme" }).segment(text)].map((own) => own.segment);
}

// How far a pointer is from a box, lines above and below farther than all else.
function distance(event, box) {
  const away = (value, low, high) => Math.max(low - value, value - high, 0);
  return away(event.clientX, box.left, box.right) + 100 * away(event.clientY, box.top, box.bottom);
}

// The token that is nearest to a pointer.
function tokenNear(event) {
  const under = document.elementFromPoint(event.clientX, event.clientY)?.closest(".token");
  if (under) return under;
  const pieces = [...byId("tokens").querySelectorAll(".token")];
  const far = pieces.map((piece) => Math.min(...[...piece.getClientRects()].map((box) => distance(event, box))));
  return pieces[far.indexOf(Math.min(...far))];
}

// The place in the text between two letters that is nearest to a pointer.
function placeAt(event) {
  const piece = view.shown.begins && tokenNear(event);
  const text = piece?.querySelector(".word")?.firstChild;
  if (!text) return null;
  const t = Number(piece.dataset.t), range = document.createRange();
  let place = view.shown.begins[t - view.shown.first], units = 0, nearest = null;
  for (const letter of letters(text.data)) {
    range.setStart(text, units);
    range.setEnd(text, (units += letter.length));
    for (const box of range.getClientRects()) {
      const turned = getComputedStyle(piece).direction === "rtl";
      const near = event.clientX < (box.left + box.right) / 2;
      const beside = distance(event, box);
      if (nearest === null || beside < nearest.beside) nearest = { beside, place: near === turned ? place + points(letter) : place };
    }
    place += points(letter);
  }
  return nearest && nearest.place;
}

// Mark what is drawn between two places of the text, without a cut.
function drawEdges(begin, stop) {
  if (!CSS.highlights) return;
  CSS.highlights.delete("part");
  if (begin === null || begin === stop) return;
  const found = [];
  for (const piece of byId("tokens").querySelectorAll(".token")) {
    const text = piece.querySelector(".word").firstChild;
    const from = view.shown.begins[Number(piece.dataset.t) - view.shown.first], own = Array.from(text.data);
    const first = Math.max(begin - from, 0), last = Math.min(stop - from, own.length);
    if (first >= last) continue;
    const range = document.createRange();
    range.setStart(text, own.slice(0, first).join("").length);
    range.setEnd(text, own.slice(0, last).join("").length);
    found.push(range);
  }
  CSS.highlights.set("part", new Highlight(...found));
}

// Dragging marks; a click on a span marks it. ``choose`` is called when a label is held.
// With the key Alt it marks letters: ``cut`` is called with their places in the text.
export function followPointer(choose, cut) {
  const box = byId("tokens");
  let dragging = false, exact = null;
  const at = (event) => {
    const piece = document.elementFromPoint(event.clientX, event.clientY)?.closest(".token");
    return piece ? Number(piece.dataset.t) : null;
  };
  box.addEventListener("pointerdown", (event) => {
    const t = at(event);
    if (t === null || event.button) return;
    exact = event.altKey ? placeAt(event) : null;
    if (exact !== null) {
      box.setPointerCapture(event.pointerId);
      return;
    }
    const from = event.shiftKey ? (view.mark ?? view.cursor) : t;
    dragging = true;
    later(async () => {
      view.mark = from;
      view.cursor = t;
      drawMarks();
    });
  });
  box.addEventListener("pointermove", (event) => {
    if (exact !== null) {
      const place = placeAt(event);
      if (place !== null) drawEdges(Math.min(exact, place), Math.max(exact, place));
      return;
    }
    if (!dragging || !event.buttons) return;
    const t = at(event);
    if (t !== null) later(async () => { if (t !== view.cursor) { view.cursor = t; drawMarks(); } });
  });
  window.addEventListener("pointerup", (event) => {
    if (exact !== null) {
      const places = [exact, placeAt(event) ?? exact].sort((a, b) => a - b);
      exact = null;
      drawEdges(null);
      if (places[0] < places[1]) later(() => cut(...places));
      return;
    }
    if (!dragging) return;
    dragging = false;
    later(async () => {
      const clicked = view.mark === view.cursor;
      const found = clicked ? spanAt(view.cursor) : null;
      if (found) {
        [view.mark, view.cursor] = [found[0], found[1] - 1];
        drawMarks();
      } else if (view.held !== null) {
        await choose(view.held);
      } else if (clicked && !view.state.spans) {
        view.mark = null; // of a single position the cursor says the same
        drawMarks();
      }
    });
  });
  window.addEventListener("pointercancel", () => { dragging = false; exact = null; });
}
