// A graph: nodes in the colours of their labels, joined by their edges; a click goes to a node.

import { byId, colour, drawing, later, name, position, view } from "./server.js";

const MARGIN = 30;

export function drawGraph(choose) {
  const box = byId("graph");
  const { places, edges, names } = view.shown;
  box.toggleAttribute("hidden", !places);
  if (!places) return;
  const width = box.clientWidth || 600, height = 340;
  const [low, high] = [0, 1].map((axis) => [Math.min(...places.map((p) => p[axis])), Math.max(...places.map((p) => p[axis]))]).reduce(
    ([lows, highs], [least, most]) => [[...lows, least], [...highs, most]], [[], []]);
  // One scale for both axes, so that distances stay what they are.
  const scale = Math.min((width - 2 * MARGIN) / (high[0] - low[0] || 1), (height - 2 * MARGIN - 14) / (high[1] - low[1] || 1));
  const x = (p) => width / 2 + (p[0] - (low[0] + high[0]) / 2) * scale;
  const y = (p) => (height - 14) / 2 + (p[1] - (low[1] + high[1]) / 2) * scale;
  const made = edges.map(([a, b]) => drawing("line", { x1: x(places[a]), y1: y(places[a]), x2: x(places[b]), y2: y(places[b]) }));
  places.forEach((place, t) => {
    const own = position(t);
    if (!own) return;
    const group = drawing("g", { class: `${own.from}${t === view.cursor ? " cursor" : ""}`, "data-t": t });
    const radius = places.length > 80 ? 6 : 11;
    const circle = drawing("circle", { cx: x(place), cy: y(place), r: radius });
    circle.style.fill = `color-mix(in srgb, ${colour(own.label) ?? "var(--card)"} ${Math.round(25 + 65 * (own.p ?? 1.15))}%, var(--chip))`;
    circle.append(drawing("title", {}, `${names[t]}: ${name(own) ?? "not known"}${own.p === null ? "" : ` ${own.p.toFixed(2)}`}`));
    group.append(circle);
    if (places.length <= 80) group.append(drawing("text", { x: x(place) + radius + 2, y: y(place) + radius + 8 }, `${names[t]}`.slice(0, 14)));
    group.addEventListener("click", () => later(() => choose(t)));
    made.push(group);
  });
  box.setAttribute("viewBox", `0 0 ${width} ${height}`);
  box.replaceChildren(...made);
}
