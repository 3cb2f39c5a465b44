// What stands around an item: the list, the labels with their keys, progress, the learning curve.

import { byId, colour, drawing, element, later, name, position, title, view } from "./server.js";

const LISTED = 40; // labels that are listed without a search
const KEYS = "1234567890";

// Labels in the order of their keys: always the same, or by likelihood if one asks for it.
export function ordered(wanted = "") {
  const { labels, spans } = view.state;
  const text = wanted.toLowerCase();
  if (text) return labels.filter((label) => String(label).toLowerCase().includes(text));
  const own = position(view.cursor);
  const ranked = own ? (spans ? own.kinds : own.top) : null;
  if (!byId("likely").checked || !ranked?.length) return labels;
  const likely = ranked.map(([label]) => label).filter((label) => label !== null);
  return [...likely, ...labels.filter((label) => !likely.includes(label))];
}

export function drawLabels(choose, wanted = "") {
  const { state } = view;
  const own = view.shown && position(view.cursor);
  const chances = new Map(own ? (state.spans ? own.kinds : own.top) : []);
  const current = own ? name(own) : null;
  const listed = ordered(wanted).slice(0, LISTED).map((label, number) => {
    const button = element("button");
    button.style.setProperty("--c", colour(label));
    if (KEYS[number]) button.append(element("kbd", "", KEYS[number]));
    button.append(element("span", "", String(label)));
    const chance = chances.get(label);
    if (chance !== undefined && chance >= 0.005) button.append(element("span", "chance", `p ${chance.toFixed(2)}`));
    button.append(element("span", "count", String(state.counts[state.labels.indexOf(label)])));
    button.dataset.label = JSON.stringify(label);
    button.setAttribute("aria-pressed", String(view.held === label));
    if (label === current) button.setAttribute("aria-current", "true");
    button.addEventListener("click", (event) => later(() => choose(label, event)));
    return button;
  });
  if (state.labels.length > LISTED && !wanted) listed.push(element("span", "count", `${state.labels.length} labels: search with /`));
  byId("candidates").replaceChildren(...listed);
}

// Of a recording the name says more than the number of its positions.
function isHeaded(entry) {
  return view.state.shape === "line" && entry.name !== null;
}

function note(entry) {
  const notes = [isHeaded(entry) ? entry.text : title(entry), entry.left === 0 ? "done" : entry.left === entry.length ? "new" : `${entry.left} left`];
  if (entry.score) notes.push(entry.score.toFixed(2)); // nats of doubt per position, or in favour of another label
  if (entry.flag !== null) notes.push(`⚑ ${entry.flag}`);
  return notes.join(" · ");
}

export function drawQueue(open) {
  byId("queue").replaceChildren(
    ...view.queue.map((entry) => {
      const row = element("li", entry.left ? "" : "done");
      row.dataset.item = entry.item;
      if (view.shown && entry.item === view.shown.item) row.setAttribute("aria-current", "true");
      const button = element("button");
      button.append(element("span", "snippet", isHeaded(entry) ? entry.name : entry.text), element("span", "note", note(entry)));
      button.addEventListener("click", () => later(() => open(entry.item)));
      row.append(button);
      return row;
    }),
  );
  byId("queue").querySelector("[aria-current]")?.scrollIntoView({ block: "nearest" });
}

// Bring the line of an item in the list up to date.
export function drawEntry(item, left) {
  const entry = view.queue.find((each) => each.item === item);
  const row = byId("queue").querySelector(`[data-item="${item}"]`);
  if (!entry || !row) return;
  entry.left = left;
  row.className = left ? "" : "done";
  row.querySelector(".note").textContent = note(entry);
}

export function drawState() {
  const { state } = view;
  byId("name").textContent = state.name;
  byId("bar").value = state.items ? state.done / state.items : 0;
  const unsaved = state.file && !state.saved ? ", not saved" : "";
  byId("progress").textContent = `${state.done} of ${state.items} done${unsaved}`;
  const found = [];
  if (state.disagreements) found.push(`x decides ${state.disagreements} disagreements`);
  if (state.changed) found.push("v looks at what changed");
  if (state.findings) found.push("l looks at labels that may be wrong");
  byId("status").textContent = [state.status, ...found].filter(Boolean).join(" · ");
  byId("undo").disabled = !state.undo;
  byId("redo").disabled = !state.redo;
  byId("save").disabled = !state.file;
  byId("outside").textContent = state.spans ? "No span" : "Forget";
  byId("same").hidden = !state.spans;
  byId("ranked").hidden = state.labels.length < 2;
  const chosen = byId("with").value;
  byId("with").replaceChildren(...[["", "any label"], ...state.labels.slice(0, LISTED).map((label) => [JSON.stringify(label), String(label)])].map(([value, text]) => {
    const option = element("option", "", text);
    option.value = value;
    return option;
  }));
  byId("with").value = chosen;
  drawFinished();
  drawCurve();
}

// What comes after the last item.
function drawFinished() {
  const { state } = view;
  const box = byId("finished");
  box.hidden = !state.items || state.done < state.items;
  if (box.hidden) return;
  const told = [element("strong", "", `All done: nothing is left to label in ${state.name}.`)];
  if (!state.file) told.push(element("p", "", "Take the labels in Python: server.labelling.labels()."));
  else if (!state.saved) told.push(element("p", "", "Save first (s): the file does not have your last labels yet."));
  for (const [what, command] of Object.entries(state.next)) told.push(element("p", "", `To ${what}, in a terminal:`), element("code", "", command));
  box.replaceChildren(...told);
}

function drawCurve() {
  const { curve, forecast, measure, score } = view.state;
  const points = curve.filter((point) => point.right !== null);
  const lines = [];
  if (score) lines.push(score);
  if (forecast) {
    const range = forecast.high === undefined ? `${forecast.low} or more` : `${forecast.low} to ${forecast.high}`;
    lines.push(`about ${forecast.more} more items to ${measure} ${forecast.mark.toFixed(2)} (${range})`);
  } else if (points.length) {
    lines.push("too few refits to tell how many more it takes");
  }
  byId("score").textContent = lines.join("; ");
  const box = byId("curve");
  box.toggleAttribute("hidden", points.length < 2);
  if (points.length < 2) return;
  const most = points[points.length - 1].items;
  const x = (items) => 34 + (216 * items) / most;
  const y = (share) => 120 - 110 * share;
  const made = [drawing("path", { class: "axis", d: "M34 10V120H250" })];
  for (const share of [0, 0.5, 1]) made.push(drawing("text", { x: 4, y: y(share) + 4 }, share.toFixed(1)));
  for (const items of [0, most]) made.push(drawing("text", { x: x(items) - 8, y: 133 }, String(items)));
  made.push(drawing("text", { x: 90, y: 146 }, `items labelled, ${measure}`));
  for (const point of points) if (point.low !== null) made.push(drawing("path", { class: "range", d: `M${x(point.items)} ${y(point.low)}V${y(point.high)}` }));
  made.push(drawing("path", { d: points.map((point, k) => `${k ? "L" : "M"}${x(point.items)} ${y(point.right)}`).join("") }));
  box.replaceChildren(...made);
}
