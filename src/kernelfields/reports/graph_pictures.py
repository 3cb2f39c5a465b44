"""Labelled graphs: nodes in the colours of their labels, with the probabilities of all labels.

    crf.show(x)          a LabelledGraph: print it, or let a notebook show it

A grid whose nodes are numbered row by row is drawn as an image of cells, the true labels beside the predicted ones.
Other graphs are drawn as nodes and lines: where the user says, or so that distances on paper are those along edges
(majorisation of the stress, from classical scaling; components beside each other). Graphs that are too large for that
are drawn as cells in the order of their nodes, without edges. A colour is stronger where the label is more probable;
hovering tells the probabilities, a wrong label has a frame and, in drawings with lines, a cross.

    stress = sum_{u < v} (|p_u - p_v| - d_uv)^2 / d_uv^2,      d_uv the number of edges between u and v

Arrays: edges, name of a type -> (m, k) numbers of nodes, k >= 2; positions (n, 2). Cost: O(n^3) for the distances,
O(n^2) per step of the layout. Fails: ValueError naming the part that does not fit.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.sparse
from scipy.sparse.csgraph import connected_components, shortest_path

from kernelfields.reports.label_colours import Palette
from kernelfields.reports.sequences import LabelledSequence
from kernelfields.reports.tables import Markup, element, printable

_MOST_DRAWN = 400
_MOST_CELLS = 10_000
_STEPS = 80
_EDGE = 46.0
_MARGIN = 26.0
_WIDEST, _HIGHEST = 920.0, 620.0
_RADIUS = 11.0
_MOST_NAMES = 80
_DASHES = (None, "5 3", "2 3", "8 3 2 3")
_FAINTEST = 0.3


@dataclass(frozen=True, eq=False)
class LabelledGraph(LabelledSequence):
    """Labels of the nodes of one graph, its edges by type, and where to draw the nodes if that is known.

    ``tokens`` are the names of the nodes.
    """

    edges: Mapping[str, Any] = field(default_factory=dict)
    positions: Any = None

    def __post_init__(self) -> None:
        super().__post_init__()
        n_nodes = len(self.labels)
        known = {str(name): np.asarray(members, dtype=np.int64) for name, members in self.edges.items()}
        for name, members in known.items():
            if members.ndim != 2 or (members.size and not 0 <= members.min() <= members.max() < n_nodes):
                raise ValueError(f"edges of {name!r} must be rows of nodes from 0 to {n_nodes - 1}")
        object.__setattr__(self, "edges", known)
        if self.positions is not None:
            places = np.asarray(self.positions, dtype=float)
            if places.shape != (n_nodes, 2) or not np.isfinite(places).all():
                raise ValueError(f"positions must be {n_nodes} rows of two finite numbers, got shape {places.shape}")
            object.__setattr__(self, "positions", places)

    def markup(self) -> Markup:
        """Return the graph as a figure for a page, which has the style for it."""
        palette = Palette(self.marginals, list(self.classes), list(self.labels))
        notes = []
        shape = self.grid_shape() if self.positions is None else None
        if shape is None and self.positions is None and len(self) > _MOST_DRAWN:
            side = int(np.ceil(np.sqrt(len(self))))
            shape = (int(np.ceil(len(self) / side)), side)
            notes.append("nodes in their order, row by row; edges are not drawn")
        if shape is not None and len(self) > _MOST_CELLS:
            notes.append(f"the first {_MOST_CELLS:,} nodes")
        drawing = self._drawn_graph(palette) if shape is None else self._drawn_cells(palette, shape)
        caption = f"{self.caption}: {self._heading()}" if self.caption else self._heading()
        heading = element("figcaption", element("bdi", caption))
        legend = palette.legend(Counter(map(str, self.labels)), notes)
        return element("figure", heading, drawing, legend, class_="kf-sequence")

    def to_dict(self) -> dict[str, Any]:
        """Return all nodes and edges as plain values that JSON can hold."""
        plain = super().to_dict()
        edges = {name: members.tolist() for name, members in self.edges.items()}
        return {"caption": plain["caption"], "nodes": plain["positions"], "edges": edges}

    def grid_shape(self) -> tuple[int, int] | None:
        """Return rows and columns if the edges are those of a grid of nodes, numbered row by row; else None."""
        pairs = [np.sort(members, axis=1) for members in self.edges.values() if members.shape[1] == 2]
        if len(pairs) < len(self.edges) or not pairs:
            return None
        known = np.unique(np.concatenate(pairs), axis=0)
        steps = np.unique(known[:, 1] - known[:, 0]).tolist()
        for columns in (step for step in steps if step > 1 and len(self) % step == 0):
            rows = len(self) // columns
            if rows > 1 and self._is_grid(known, rows, columns):
                return rows, columns
        return None

    def _is_grid(self, known: np.ndarray, rows: int, columns: int) -> bool:
        row, column = np.divmod(known, columns)
        down, right = np.diff(row, axis=1).ravel(), np.diff(column, axis=1).ravel()
        straight = (np.sum((down == 0) & (right == 1)), np.sum((down == 1) & (right == 0)))
        near = bool(np.all((down <= 1) & (np.abs(right) <= 1)))
        return near and straight == (rows * (columns - 1), (rows - 1) * columns)

    def _heading(self) -> str:
        size = f"{len(self):,} nodes, {sum(map(len, self.edges.values())):,} edges"
        return size if self.truth is None else f"{size}, {100 * (1 - self.wrong.mean()):.1f} % right"

    def _strengths(self) -> list[float]:
        """Return how strong the colour of each node is."""
        return np.round(_FAINTEST + (1 - _FAINTEST) * self.probabilities, 2).tolist()

    # ---- grids

    def _drawn_cells(self, palette: Palette, shape: tuple[int, int]) -> Markup:
        rows, columns = shape
        panels = [("predicted", self.labels)]
        if self.truth is not None:
            panels.append(("true", self.truth))
        wide = (_WIDEST - 40.0 * (len(panels) - 1)) / len(panels)
        size = max(min(wide / columns, _HIGHEST / rows, 22.0), 1.0)
        step = columns * size + 40.0
        parts: list[Markup] = []
        for number, (name, labels) in enumerate(panels):
            parts += self._cells(palette, labels, (number * step, 20.0), columns, size, number == 0)
            style = "fill:var(--kf-muted)"
            parts.append(element("text", name, x=number * step, y=13, style=style))
        drawn = min(rows, -(-_MOST_CELLS // columns))
        return _svg(self._heading(), parts, len(panels) * step - 40.0, drawn * size + 21.0)

    def _cells(
        self,
        palette: Palette,
        labels: Sequence[Any],
        corner: tuple[float, float],
        columns: int,
        size: float,
        predicted: bool,
    ) -> Iterator[Markup]:
        strengths, wrong = self._strengths() if predicted else None, self.wrong
        for node, label in enumerate(labels[:_MOST_CELLS]):
            row, column = divmod(node, columns)
            x, y = corner[0] + column * size, corner[1] + row * size
            strength = None if strengths is None else strengths[node]
            title = element("title", self.hover(node))
            place = {"x": x, "y": y, "width": size, "height": size}
            look = {"fill": palette[label], "fill_opacity": strength, "shape_rendering": "crispEdges"}
            yield element("rect", title, **place, **look, class_="kf-node")
            if predicted and wrong[node]:
                inside = {"x": x + 1, "y": y + 1, "width": max(size - 2, 0.5), "height": max(size - 2, 0.5)}
                style = "stroke:var(--kf-wrong);stroke-width:2;pointer-events:none"
                yield element("rect", **inside, fill="none", style=style, class_="kf-missed")

    # ---- nodes and lines

    def _drawn_graph(self, palette: Palette) -> Markup:
        places, size = self._placed()
        parts = [*self._lines(places), *self._nodes(palette, places)]
        return _svg(self._heading(), parts, *size)

    def _placed(self) -> tuple[np.ndarray, tuple[float, float]]:
        """Return where nodes are drawn, in the units of the picture, and its size."""
        places = layout(len(self), list(self.edges.values())) if self.positions is None else self.positions
        low, reach = places.min(axis=0), np.ptp(places, axis=0)
        if self.positions is None:
            scale = min(_EDGE, (_WIDEST - 2 * _MARGIN) / max(reach[0], 1e-9), _HIGHEST / max(reach[1], 1e-9))
        else:
            scale = min((_WIDEST - 2 * _MARGIN) / max(reach[0], 1e-9), _HIGHEST / max(reach[1], 1e-9))
        room = 2 * _MARGIN
        placed = (places - low) * scale + _MARGIN
        return placed, (max(reach[0] * scale + room, 120.0), reach[1] * scale + room)

    def _lines(self, places: np.ndarray) -> Iterator[Markup]:
        for number, (name, members) in enumerate(self.edges.items()):
            dash = _DASHES[number % len(_DASHES)]
            style = "stroke:var(--kf-muted);stroke-width:1.5;opacity:0.6"
            for nodes in members.tolist():
                title = element("title", f"{name}: {' - '.join(self.word(node) for node in nodes)}")
                ends = [places[node] for node in nodes]
                centre = np.mean(ends, axis=0)
                # Two nodes are joined by a line, more of them through their middle.
                lines = [(ends[0], ends[1])] if len(nodes) == 2 else [(centre, end) for end in ends]
                for a, b in lines:
                    line = {"x1": a[0], "y1": a[1], "x2": b[0], "y2": b[1]}
                    yield element("line", title, **line, style=style, stroke_dasharray=dash, class_="kf-edge")

    def _nodes(self, palette: Palette, places: np.ndarray) -> Iterator[Markup]:
        wrong, strengths = self.wrong, self._strengths()
        radius = _RADIUS if len(self) <= _MOST_NAMES else 6.0
        named = len(self) <= _MOST_NAMES
        for node, (x, y) in enumerate(places.tolist()):
            edge = "var(--kf-wrong)" if wrong[node] else "var(--kf-ink)"
            style = f"stroke:{edge};stroke-width:{3 if wrong[node] else 1}"
            # The paper below keeps lines from showing through.
            yield element("circle", cx=x, cy=y, r=radius, style="fill:var(--kf-card)")
            yield element(
                "circle",
                element("title", self.hover(node)),
                cx=x,
                cy=y,
                r=radius,
                fill=palette[self.labels[node]],
                fill_opacity=strengths[node],
                style=style,
                class_="kf-node",
            )
            if wrong[node]:
                yield _text("✗", x, y + 4, "fill:var(--kf-ink)")
            if named:
                words = printable(self.word(node) if self.tokens is not None else self.labels[node], 14)
                yield _text(words, x, y + radius + 11, "fill:var(--kf-muted)")


def _text(words: str, x: float, y: float, style: str) -> Markup:
    return element("text", words, x=x, y=y, text_anchor="middle", font_size="10", style=style)


def _svg(title: str, parts: Sequence[Markup], width: float, height: float) -> Markup:
    """Return a picture as wide as it is drawn, or as the page is."""
    return element(
        "svg",
        element("title", title),
        *parts,
        viewBox=f"0 0 {width:.0f} {height:.0f}",
        role="img",
        class_="kf-plot",
        font_size="12",
        style=f"width:{width:.0f}px",
    )


def layout(n_nodes: int, members: Sequence[np.ndarray]) -> np.ndarray:
    """Return places (n, 2) of nodes about one unit apart along edges, components beside each other."""
    pairs = [np.empty((0, 2), dtype=np.int64)]
    for nodes in members:
        pairs += [nodes[:, [a, b]] for a in range(nodes.shape[1]) for b in range(a + 1, nodes.shape[1])]
    joined = np.concatenate(pairs)
    graph = scipy.sparse.coo_array((np.ones(len(joined)), joined.T), shape=(n_nodes, n_nodes)).tocsr()
    _, component = connected_components(graph, directed=False)
    distances = shortest_path(graph, directed=False, unweighted=True)
    places, left = np.zeros((n_nodes, 2)), 0.0
    for number in np.unique(component):
        chosen = np.flatnonzero(component == number)
        own = _relaxed(distances[np.ix_(chosen, chosen)])
        own -= own.min(axis=0)
        places[chosen] = own + np.array([left, 0.0])
        left += np.ptp(own[:, 0]) + 1.5
    return places


def _relaxed(distances: np.ndarray) -> np.ndarray:
    """Return places whose distances come near these, by classical scaling and majorisation of the stress."""
    n_nodes = len(distances)
    if n_nodes == 1:
        return np.zeros((1, 2))
    centred = distances**2 - np.mean(distances**2, axis=0)
    centred = -0.5 * (centred - centred.mean(axis=1, keepdims=True))
    values, vectors = np.linalg.eigh(centred)
    places = vectors[:, -2:][:, ::-1] * np.sqrt(np.maximum(values[-2:][::-1], 1e-3))
    # Signs of eigenvectors are nobody's choice: the first node that has a side is on the left, and above.
    places *= np.where(places[np.argmax(np.abs(places) > 1e-6, axis=0), [0, 1]] > 0, -1.0, 1.0)
    # Nodes that fall together are pulled apart, always the same way.
    places = places + 1e-3 * np.random.default_rng(0).normal(size=places.shape)
    weights = 1.0 / np.where(distances > 0, distances, np.inf) ** 2
    laplacian = np.diag(weights.sum(axis=1)) - weights
    inverse = np.linalg.pinv(laplacian)
    for _ in range(_STEPS):
        apart = np.linalg.norm(places[:, None] - places[None], axis=2)
        pull = np.where(apart > 0, weights * distances / np.where(apart > 0, apart, 1.0), 0.0)
        places = inverse @ ((np.diag(pull.sum(axis=1)) - pull) @ places)
    return places
