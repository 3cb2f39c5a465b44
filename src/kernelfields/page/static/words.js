// Words with their spans, words with a label each, and tables: how positions are drawn and marked.

import { DOUBTFUL, byId, element, end, later, marked, name, paint, position, view } from "./server.js";

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
  if (own.from === "nothing") piece.classList.add("unknown");
  piece.title = told(own);
  piece.setAttribute("aria-label", `${word(t)}: ${told(own)}`);
  return piece;
}

function word(t) {
  return (view.shown.words ?? view.shown.names ?? [])[t - view.shown.first] ?? String(t);
}

function spanPieces() {
  const made = [];
  let open = null;
  for (let t = view.first; t < end(); t++) {
    const own = position(t);
    const piece = token(t);
    piece.append(element("span", "word", word(t)));
    if (own.kind === null) {
      made.push(piece, " ");
      continue;
    }
    if (own.begins || t === view.first) {
      open = element("span", `span ${own.from === "predicted" ? "predicted" : "known"}`);
      open.dataset.kind = own.kind;
      paint(open, own.kind, own);
      made.push(open, " ");
    } else {
      open.append(" ");
    }
    open.append(piece);
    const next = t + 1 < end() ? position(t + 1) : null;
    if (!next || next.kind === null || next.begins) {
      const share = own.p === null ? "" : ` ${own.p.toFixed(2)}`;
      open.append(element("span", "kind", own.kind + share));
    }
  }
  return made;
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

// Dragging marks; a click on a span marks it. ``choose`` is called when a label is held.
export function followPointer(choose) {
  const box = byId("tokens");
  let dragging = false;
  const at = (event) => {
    const piece = document.elementFromPoint(event.clientX, event.clientY)?.closest(".token");
    return piece ? Number(piece.dataset.t) : null;
  };
  box.addEventListener("pointerdown", (event) => {
    const t = at(event);
    if (t === null || event.button) return;
    const from = event.shiftKey ? (view.mark ?? view.cursor) : t;
    dragging = true;
    later(async () => {
      view.mark = from;
      view.cursor = t;
      drawMarks();
    });
  });
  box.addEventListener("pointermove", (event) => {
    if (!dragging || !event.buttons) return;
    const t = at(event);
    if (t !== null) later(async () => { if (t !== view.cursor) { view.cursor = t; drawMarks(); } });
  });
  window.addEventListener("pointerup", () => {
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
  window.addEventListener("pointercancel", () => { dragging = false; });
}
