// Questions to the server, and what all parts of the page share. All text is set as text, never as markup.

const token = new URLSearchParams(location.search).get("token");

export const WORDS_AT_ONCE = 400; // positions that are drawn at once
export const DOUBTFUL = 0.9; // predictions below this are doubtful

export const view = {
  state: null, // of the labelling
  shown: null, // the item on the screen
  cursor: 0, // position in the item
  mark: null, // other end of a span, null for none
  held: null, // the label that every drag gives, null for none
  first: 0, // first position that is drawn
  count: WORDS_AT_ONCE, // how many are
  queue: [],
  changed: new Set(), // positions that the last fix has changed
  reopen: null, // shows the newest version of the item
};

export const byId = (name) => document.getElementById(name);

export function element(name, className, text) {
  const made = document.createElement(name);
  if (className) made.className = className;
  if (text !== undefined) made.textContent = text;
  return made;
}

export function drawing(name, attributes, text) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text !== undefined) made.textContent = text;
  return made;
}

export function tell(line) {
  byId("error").hidden = !line;
  byId("error").textContent = line ?? "";
}

export async function ask(question, body = {}) {
  let answer;
  try {
    answer = await fetch(`/api/${question}`, {
      method: "POST",
      headers: { "Content-Type": "application/json", "X-Kernelfields-Token": token },
      body: JSON.stringify(body),
    });
  } catch (error) {
    tell("the server does not answer: start it again, nothing that was labelled is lost");
    throw error;
  }
  const found = await answer.json();
  if (answer.status === 409) await view.reopen();
  if (!answer.ok) {
    tell(found.error);
    throw new Error(found.error);
  }
  tell(null);
  return found;
}

// Keys and clicks wait for those before them: fast typing is never lost.
let last = Promise.resolve();
export function later(action) {
  const mine = last.then(action).catch(() => {});
  last = mine;
  document.body.dataset.busy = "true";
  mine.then(() => { if (mine === last) document.body.dataset.busy = "false"; });
}

// ---- what is on the screen

export function position(t) {
  return view.shown.positions[t - view.shown.first];
}

export function marked() {
  const { mark, cursor } = view;
  return mark === null ? [cursor, cursor + 1] : [Math.min(mark, cursor), Math.max(mark, cursor) + 1];
}

export function end() {
  return Math.min(view.first + view.count, view.shown.length);
}

// The name of an item, or its number.
export const title = (own) => own.name ?? `item ${own.item + 1}`;

// The label of a position as people read it: the type of its span, or its label or labels.
export function name(own) {
  if (view.state.spans) return own.kind;
  return own.set && own.set.length > 1 ? own.set.join("|") : own.label;
}

export function colour(label) {
  const place = view.state.labels.indexOf(label);
  return place < 0 ? null : view.state.colours[place];
}

// Paint a thing in the colour of a label: known ones in full, predicted ones as sure as they are.
export function paint(thing, label, own) {
  const found = colour(label);
  if (found === null) return;
  thing.style.setProperty("--c", found);
  if (own && own.p !== null) thing.style.setProperty("--share", `${Math.round(25 + 65 * own.p)}%`);
}
