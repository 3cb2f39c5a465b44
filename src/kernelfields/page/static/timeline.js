// A time line: a band of labels with their names, a lane for each column, axes; spans are dragged, edges moved.

import { byId, colour, end, later, marked, position, view } from "./server.js";

const LEFT = 84, RIGHT = 8, BAND = 34, AXIS = 26, LANE = 64, MOST_LANES = 8, NEAR = 6;
const TIME = /^(t|time|times|timestamp|second|seconds|date)$/i;

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

function scale() {
  const canvas = byId("columns");
  return (canvas.clientWidth - LEFT - RIGHT) / Math.max(end() - view.first, 1);
}

function place(t) {
  return LEFT + (t - view.first) * scale();
}

function timeColumn() {
  const names = view.state.columns ?? [];
  const at = names.findIndex((each) => TIME.test(each));
  return at >= 0 && names.length > 1 ? at : null;
}

// When a position begins: by the column of times, or its number.
function when(t) {
  const column = timeColumn();
  const value = column === null ? t : view.shown.columns[column][t - view.shown.first];
  return value === undefined || value === null ? String(t) : String(Math.round(value * 1000) / 1000);
}

export function drawTimeline() {
  const canvas = byId("columns");
  canvas.hidden = !view.shown.columns;
  if (!view.shown.columns) return;
  const time = timeColumn();
  const lanes = view.shown.columns.map((values, k) => ({ values, name: view.state.columns?.[k] ?? String(k), k }));
  const drawn = lanes.filter((lane) => lane.k !== time).slice(0, MOST_LANES);
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
  const step = scale();
  for (const band of bands()) {
    const x = place(band.begin), width = (band.end - band.begin) * step;
    const found = colour(band.label);
    if (found !== null) {
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
  const ticks = Math.max(2, Math.floor((canvas.clientWidth - LEFT) / 110));
  for (let k = 0; k <= ticks; k++) {
    const t = Math.min(view.first + Math.round((k * (end() - view.first)) / ticks), end() - 1);
    const x = place(t), text = when(t);
    pen.fillRect(x, height - AXIS, 1, 5);
    pen.fillText(text, Math.min(x, canvas.clientWidth - pen.measureText(text).width - 2), height - 6);
  }
  pen.fillText(time === null ? "position" : view.state.columns[time], 6, height - 6);
  const [begin, stop] = marked();
  pen.strokeStyle = shade("--accent");
  pen.lineWidth = 2;
  pen.strokeRect(place(begin), 1, Math.max((stop - begin) * step, 2), height - AXIS - 2);
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
    const x = place(view.first + k + 0.5), y = bottom - ((value - low) / (high - low || 1)) * (LANE - 16);
    if (broken) pen.moveTo(x, y);
    else pen.lineTo(x, y);
    broken = false;
  });
  pen.stroke();
}

export function whereMarked() {
  const [begin, stop] = marked();
  return `marked ${when(begin)} to ${when(stop - 1)}, ${stop - begin} positions`;
}

// Dragging marks positions, or moves the edge of a band. ``choose`` labels what is marked, ``give`` positions.
export function followTimeline(choose, give, redraw) {
  const canvas = byId("columns");
  let edge = null, dragging = false;
  const at = (event) => {
    const x = event.clientX - canvas.getBoundingClientRect().left - canvas.clientLeft - LEFT;
    return Math.max(view.first, Math.min(end() - 1, view.first + Math.floor(x / scale())));
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
