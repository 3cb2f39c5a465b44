// A time line: a band of labels with their names, a lane for each column, axes; spans are dragged, edges moved.

import { byId, colour, end, later, marked, position, view } from "./server.js";

const LEFT = 84, RIGHT = 8, BAND = 34, AXIS = 26, LANE = 64, MOST_LANES = 8, NEAR = 6;
const WIDEST = 10; // a step of so many usual ones is a gap
const APART = 120; // pixels from tick to tick of the clock
const SECOND = 1000, MINUTE = 60 * SECOND, HOUR = 60 * MINUTE, DAY = 24 * HOUR;
const TICKS = [
  ...[1, 2, 5, 10, 20, 50, 100, 200, 500], ...[1, 2, 5, 10, 15, 30].map((each) => each * SECOND),
  ...[1, 2, 5, 10, 15, 30].map((each) => each * MINUTE), ...[1, 2, 3, 6, 12].map((each) => each * HOUR),
  ...[1, 2, 7, 14, 30, 91, 365, 3650].map((each) => each * DAY),
];

// Where positions of the window begin and stop on the axis: times where they grow, else numbers of positions.
let begins = [], stops = [];

function layOut() {
  const times = view.shown.times?.slice(view.first - view.shown.first, end() - view.shown.first);
  if (!times || !times.every((each, k) => k === 0 || each > times[k - 1])) {
    begins = Array.from({ length: end() - view.first }, (_, k) => view.first + k);
    stops = begins.map((each) => each + 1);
    return;
  }
  const steps = times.slice(1).map((each, k) => each - times[k]);
  const usual = [...steps].sort((a, b) => a - b)[steps.length >> 1] ?? 1;
  begins = times;
  stops = times.map((each, k) => (steps[k] > WIDEST * usual || steps[k] === undefined ? each + usual : times[k + 1]));
}

// Bands of neighbours with one label: [begin, end, label, from, least probability].
function bands() {
  const found = [];
  for (let t = view.first; t < end(); t++) {
    const own = position(t);
    const open = found[found.length - 1];
    if (open && open.label === own.label && open.from === own.from) {
      open.end = t + 1;
      open.p = Math.min(open.p, own.p ?? 1);
    } else {
      found.push({ begin: t, end: t + 1, label: own.label, from: own.from, p: own.p ?? 1 });
    }
  }
  return found;
}

const width = () => byId("columns").clientWidth - LEFT - RIGHT;
const range = () => stops[stops.length - 1] - begins[0] || 1;

// Where a place of the axis is drawn.
const across = (value) => LEFT + ((value - begins[0]) / range()) * width();

// Where a position begins and stops, no farther than the window.
const place = (t) => across(begins[Math.max(0, Math.min(t - view.first, begins.length - 1))]);
const placeAfter = (t) => across(stops[Math.max(0, Math.min(t - view.first, stops.length - 1))]);

// Yield the pixels that positions cover, gaps left out.
function* pieces(begin, stop) {
  for (let from = begin, t = begin; t < stop; t++) {
    if (t + 1 < stop && begins[t + 1 - view.first] === stops[t - view.first]) continue;
    yield [place(from), placeAfter(t)];
    from = t + 1;
  }
}

// The time or number where a position begins; of the clock with its day, unless it is that of ``beside``.
function when(t, beside = null) {
  const value = view.shown.times?.[t - view.shown.first];
  if (value === undefined || value === null) return String(t);
  if (!view.state.axis.clock) return String(Math.round(value * 1000) / 1000);
  const other = beside === null ? null : view.shown.times[beside - view.shown.first];
  return stamp(value, other, value % SECOND ? 1 : SECOND);
}

// A time of the clock as text, as fine as ticks of a step need, with its day where that is not the other's.
function stamp(value, other, step) {
  const [day, clock] = new Date(value).toISOString().slice(0, -1).split("T");
  if (step >= DAY) return day;
  const text = clock.slice(0, step >= MINUTE ? 5 : step >= SECOND ? 8 : 12);
  return other !== null && Math.floor(other / DAY) === Math.floor(value / DAY) ? text : `${day} ${text}`;
}

// The ticks of the axis: [pixel, text].
function ticks() {
  const most = Math.max(1, Math.floor(width() / APART));
  if (view.state.axis?.clock && begins[0] === view.shown.times?.[view.first - view.shown.first]) {
    const step = TICKS.find((each) => range() / each <= most) ?? TICKS[TICKS.length - 1];
    const first = Math.ceil(begins[0] / step) * step;
    const found = Array.from({ length: Math.max(0, Math.floor((begins[0] + range() - first) / step) + 1) }, (_, k) => first + k * step);
    if (found.length) return found.map((each, k) => [across(each), stamp(each, found[k - 1] ?? null, step)]);
  }
  return Array.from({ length: most + 1 }, (_, k) => {
    const t = Math.min(view.first + Math.round((k * (end() - view.first)) / most), end() - 1);
    return [place(t), when(t)];
  });
}

export function drawTimeline() {
  const canvas = byId("columns");
  canvas.hidden = !view.shown.columns;
  if (!view.shown.columns) return;
  layOut();
  const drawn = view.shown.columns.slice(0, MOST_LANES).map((values, k) => ({ values, name: view.state.columns?.[k] ?? String(k) }));
  const height = BAND + drawn.length * LANE + AXIS;
  const ratio = window.devicePixelRatio || 1;
  canvas.style.height = `${height}px`;
  canvas.width = canvas.clientWidth * ratio;
  canvas.height = height * ratio;
  const pen = canvas.getContext("2d");
  const style = getComputedStyle(document.documentElement);
  const shade = (each) => style.getPropertyValue(each).trim();
  pen.scale(ratio, ratio);
  pen.font = "12px system-ui, sans-serif";
  for (const band of bands()) {
    const found = colour(band.label);
    if (found === null) continue;
    for (const [x, until] of pieces(band.begin, band.end)) {
      const width = until - x;
      pen.globalAlpha = 0.16;
      pen.fillStyle = found;
      pen.fillRect(x, BAND, width, height - BAND - AXIS);
      pen.globalAlpha = 1;
      pen.fillStyle = shade("--chip");
      pen.fillRect(x, 4, width, BAND - 8);
      pen.globalAlpha = band.from === "predicted" ? 0.25 + 0.65 * band.p : 1;
      pen.fillStyle = found;
      pen.fillRect(x, 4, width, BAND - 8);
      pen.globalAlpha = 1;
      if (band.from !== "predicted") {
        pen.strokeStyle = shade("--ink");
        pen.lineWidth = 2;
        pen.strokeRect(x + 1, 5, Math.max(width - 2, 1), BAND - 10);
      }
      pen.fillStyle = shade("--on-chip");
      const text = String(band.label);
      if (pen.measureText(text).width + 6 < width) pen.fillText(text, x + 5, BAND / 2 + 4);
    }
  }
  drawn.forEach((lane, number) => drawLane(pen, lane, BAND + number * LANE, shade));
  pen.fillStyle = shade("--muted");
  pen.fillText("label", 6, BAND / 2 + 4);
  for (const [x, text] of ticks()) {
    pen.fillRect(x, height - AXIS, 1, 5);
    pen.fillText(text, Math.min(x, canvas.clientWidth - pen.measureText(text).width - 2), height - 6);
  }
  pen.fillText(view.state.axis?.name.slice(0, 12) ?? "position", 6, height - 6);
  const [begin, stop] = marked();
  pen.strokeStyle = shade("--accent");
  pen.lineWidth = 2;
  pen.strokeRect(place(begin), 1, Math.max(placeAfter(stop - 1) - place(begin), 2), height - AXIS - 2);
  canvas.setAttribute("aria-label", `positions ${begin} to ${stop - 1}`);
}

function drawLane(pen, lane, top, shade) {
  const values = lane.values.slice(view.first - view.shown.first, end() - view.shown.first);
  const finite = values.filter((value) => value !== null);
  const low = Math.min(...finite), high = Math.max(...finite);
  const bottom = top + LANE - 8;
  pen.strokeStyle = shade("--line");
  pen.lineWidth = 1;
  pen.strokeRect(LEFT, top, pen.canvas.clientWidth - LEFT - RIGHT, LANE);
  pen.fillStyle = shade("--ink");
  pen.fillText(lane.name.slice(0, 12), 6, top + LANE / 2 + 4);
  pen.fillStyle = shade("--muted");
  if (finite.length) {
    pen.fillText(high.toPrecision(3), LEFT - 6 - pen.measureText(high.toPrecision(3)).width, top + 12);
    pen.fillText(low.toPrecision(3), LEFT - 6 - pen.measureText(low.toPrecision(3)).width, bottom);
  }
  pen.strokeStyle = shade("--ink");
  pen.lineWidth = 1.5;
  pen.beginPath();
  let broken = true; // where a value is missing
  values.forEach((value, k) => {
    if (value === null) { broken = true; return; }
    if (k && begins[k] !== stops[k - 1]) broken = true; // behind a gap
    const x = across((begins[k] + stops[k]) / 2), y = bottom - ((value - low) / (high - low || 1)) * (LANE - 16);
    if (broken) pen.moveTo(x, y);
    else pen.lineTo(x, y);
    broken = false;
  });
  pen.stroke();
}

export function whereMarked() {
  const [begin, stop] = marked();
  return `marked ${when(begin)} to ${when(stop - 1, begin)}, ${stop - begin} positions`;
}

// Dragging marks positions, or moves the edge of a band. ``choose`` labels what is marked, ``give`` positions.
export function followTimeline(choose, give, redraw) {
  const canvas = byId("columns");
  let edge = null, dragging = false;
  const at = (event) => {
    const x = event.clientX - canvas.getBoundingClientRect().left - canvas.clientLeft - LEFT;
    const value = begins[0] + (x / width()) * range();
    const after = begins.findIndex((each) => each > value);
    return after < 0 ? end() - 1 : view.first + Math.max(after - 1, 0);
  };
  const edgeAt = (event) => {
    const box = canvas.getBoundingClientRect();
    if (event.clientY - box.top > BAND) return null;
    const all = bands();
    const found = all.findIndex((band, k) => k && Math.abs(place(band.begin) - (event.clientX - box.left)) <= NEAR);
    return found < 0 ? null : { t: all[found].begin, before: all[found - 1], after: all[found] };
  };
  canvas.addEventListener("pointerdown", (event) => {
    if (event.button) return;
    canvas.setPointerCapture(event.pointerId);
    const t = at(event), found = edgeAt(event);
    dragging = true;
    later(async () => {
      edge = found;
      view.mark = event.shiftKey ? (view.mark ?? view.cursor) : t;
      view.cursor = t;
      redraw();
    });
  });
  canvas.addEventListener("pointermove", (event) => {
    canvas.style.cursor = edgeAt(event) ? "col-resize" : "crosshair";
    if (!dragging || !event.buttons) return;
    const t = at(event);
    later(async () => { if (t !== view.cursor) { view.cursor = t; redraw(); } });
  });
  canvas.addEventListener("pointerup", (event) => {
    if (!dragging) return;
    dragging = false;
    const t = at(event);
    later(async () => {
      if (edge) {
        const grows = t < edge.t ? edge.after.label : edge.before.label;
        const [begin, stop] = t < edge.t ? [t, edge.t] : [edge.t, t];
        edge = null;
        view.mark = null;
        if (stop > begin) await give(begin, stop, grows);
        else redraw();
      } else if (view.mark === view.cursor) {
        const band = bands().find((each) => each.begin <= t && t < each.end);
        if (band && band.label !== null) [view.mark, view.cursor] = [band.begin, band.end - 1];
        redraw();
      } else if (view.held !== null) {
        await choose(view.held);
      }
    });
  });
}
