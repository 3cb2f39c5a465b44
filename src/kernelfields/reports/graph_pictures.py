"""Labelled graphs: nodes in the colours of their labels, with the probabilities of all labels.

    crf.show(x)          a LabelledGraph: print it, or let a notebook show it

A grid whose nodes are numbered row by row is drawn as an image of cells, the true labels beside the predicted ones.
Other graphs are drawn as nodes and lines: at positions that the user passes, or by networkx so that distances on paper
are those along edges (Kamada and Kawai, 1989), components beside each other. Graphs that are too large for that
are drawn as cells in the order of their nodes, without edges. A colour is stronger where the label is more probable; a
wrong label has a frame and, in drawings with lines, a cross.

    stress = sum_{u < v} (|p_u - p_v| - d_uv)^2 / d_uv^2,      d_uv the number of edges between u and v

More than 200 nodes are placed by springs along the edges instead (Fruchterman and Reingold, 1991), which is faster.
Without networkx (``pip install "kernelfields[graphs]"``) nodes are placed on a circle, and the legend mentions it.

Arrays: edges, name of a type -> (m, k) numbers of nodes, k >= 2; positions (n, 2). Cost: O(n^2) per step of the
layout. Raises ValueError naming the part that does not fit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np

from kernelfields.numerics.wording import inflect
from kernelfields.reports.figures import Picture, draw_squares, note, panels
from kernelfields.reports.label_colours import Palette
from kernelfields.reports.markup import LIGHT, Markup
from kernelfields.reports.sequences import LabelledSequence
from kernelfields.reports.tables import PlainValues, printable

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MOST_DRAWN, _MOST_RELAXED = 400, 200
_MOST_CELLS = 10_000
# In pixels of a page.
_EDGE, _MARGIN, _LARGEST_CELL = 46.0, 26.0, 22.0
_WIDEST, _HIGHEST = 920.0, 620.0
_BETWEEN_GRIDS, _ABOVE_GRIDS = 40.0, 24.0
# In points.
_DIAMETER, _SMALL_DIAMETER, _LINE_HEIGHT = 16.5, 9.0, 8.0
_MOST_NAMES = 80
_DASHES = ("solid", (0, (4, 2)), (0, (1.5, 2)), (0, (6, 2, 1.5, 2)))
_FAINTEST = 0.3
_BETWEEN_COMPONENTS = 1.5


@dataclass(frozen=True, eq=False)
class LabelledGraph(LabelledSequence):
    """The labels of the nodes of one graph, for printing or display in a notebook.

    Parameters
    ----------
    labels : list
        The labels of the nodes.
    marginals : array (T, L)
        The marginal probabilities.
    classes : list
        The L labels of their columns.
    tokens : list, optional
        The names of the nodes.
    truth : list, optional
        The true labels.
    caption : str, default ""
        What it is called.
    segments : list, optional
        Not used by graphs.
    edges : dict, optional
        The edges by type.
    positions : array (T, 2), optional
        Where the nodes are drawn.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelfields import GraphCRF
    >>> graph = {"x": np.array([[0.0], [0.1], [1.0]]), "edges": [[0, 1], [1, 2]]}
    >>> crf = GraphCRF("rbf", prior_variance=1.0, scale=False, neighbours=False).fit([graph], [["a", "a", "b"]])
    >>> crf.show(graph).labels
    ('a', 'a', 'b')
    """

    edges: Mapping[str, np.ndarray] = field(default_factory=dict)
    positions: np.ndarray | None = None

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
        """Return the graph as a figure for an HTML page.

        Returns
        -------
        Markup
            The HTML.
        """
        palette, notes = Palette(self.marginals, self.classes, self.labels), []
        shape = self.grid_shape() if self.positions is None else None
        if shape is None and self.positions is None and len(self) > _MOST_DRAWN:
            side = int(np.ceil(np.sqrt(len(self))))
            shape = (int(np.ceil(len(self) / side)), side)
            notes.append("nodes in their order, row by row; edges are not drawn")
        if shape is not None:
            if len(self) > _MOST_CELLS:
                notes.append(f"the first {_MOST_CELLS:,} nodes")
            return self._figure(self._draw_cells(palette, *shape), palette, notes)
        places = self.positions
        if places is None:
            places, hint = layout(len(self), list(self.edges.values()))
            notes += [hint] if hint else []
        return self._figure(self._draw_graph(palette, places), palette, notes)

    def to_dict(self) -> PlainValues:
        """Return all nodes and edges as plain values for JSON.

        Returns
        -------
        dict
            The values.
        """
        values = super().to_dict()
        edges = {name: members.tolist() for name, members in self.edges.items()}
        return {"caption": values["caption"], "nodes": values["positions"], "edges": edges}

    def grid_shape(self) -> tuple[int, int] | None:
        """Return the numbers of rows and columns if nodes, numbered row by row, form a grid; else None.

        Returns
        -------
        tuple of int, or None
            The shape.
        """
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

    @property
    def _size(self) -> str:
        return f"{inflect(len(self), 'node')}, {inflect(sum(map(len, self.edges.values())), 'edge')}"

    def _colours(self, palette: Palette) -> list[tuple[str, float]]:
        """Return the colour of each node, and its opacity from the probability of its label."""
        strengths = np.round(_FAINTEST + (1 - _FAINTEST) * self.probabilities, 2).tolist()
        return [(palette[label], strength) for label, strength in zip(self.labels, strengths, strict=True)]

    def _draw_cells(self, palette: Palette, rows: int, columns: int) -> Picture:
        """Draw nodes as cells of a grid, true labels beside predicted ones."""
        shown = min(len(self), _MOST_CELLS)
        colours: dict[str, Sequence[object]] = {"predicted": self._colours(palette)}
        if self.truth is not None:
            colours["true"] = [palette[label] for label in self.truth]
        drawn_rows = min(rows, -(-_MOST_CELLS // columns))
        width = (_WIDEST - _BETWEEN_GRIDS * (len(colours) - 1)) / len(colours)
        side = max(min(width / columns, _HIGHEST / rows, _LARGEST_CELL), 1.0)
        size = ((side * columns + _BETWEEN_GRIDS) * len(colours) / 96, (side * drawn_rows + _ABOVE_GRIDS) / 96)
        places = [(node % columns, node // columns) for node in range(shown)]
        missed = [places[node] for node in np.flatnonzero(self.wrong[:shown]).tolist()]
        with panels(None, self.heading, size, columns=len(colours)) as picture:
            for panel, (name, own) in zip(picture.axes, colours.items(), strict=True):
                draw_squares(panel, places, own[:shown], linewidths=0, antialiased=False)
                if name == "predicted" and missed:
                    inset, colour = min(1 / side, 0.25), LIGHT["wrong"]
                    draw_squares(panel, missed, ["none"], inset=inset, edgecolors=colour, linewidths=1.5)
                panel.set_title(name, loc="left")
                panel.set(xlim=(0, columns), ylim=(drawn_rows, 0), aspect="equal")
                panel.set_axis_off()
        return picture

    def _draw_graph(self, palette: Palette, places: np.ndarray) -> Picture:
        """Draw nodes at coordinates (n, 2), and edges."""
        reach = np.maximum(np.ptp(places, axis=0), 1e-9)
        room = np.array([_WIDEST - 2 * _MARGIN, _HIGHEST])
        scale = min(*(room / reach), _EDGE if self.positions is None else np.inf)
        border, low, high = _MARGIN / scale, places.min(axis=0), places.max(axis=0)
        width, height = reach * scale + 2 * _MARGIN
        with panels(None, self.heading, (max(width, 120.0) / 96, height / 96)) as picture:
            (panel,) = picture.axes
            self._draw_edges(panel, places)
            self._draw_nodes(panel, palette, places)
            panel.set(
                xlim=(low[0] - border, high[0] + border), ylim=(high[1] + border, low[1] - border), aspect="equal"
            )
            panel.set_axis_off()
        return picture

    def _draw_edges(self, panel: Axes, places: np.ndarray) -> None:
        """Draw a line between two nodes, or lines from three or more nodes to their centre."""
        from matplotlib.collections import LineCollection

        for number, members in enumerate(self.edges.values()):
            lines: list[np.ndarray] = []
            for nodes in members.tolist():
                ends = places[nodes]
                lines += [ends] if len(nodes) == 2 else [np.stack([ends.mean(axis=0), end]) for end in ends]
            dashes = _DASHES[number % len(_DASHES)]
            drawn = LineCollection(lines, linestyles=[dashes], colors=LIGHT["muted"], linewidths=1.1, alpha=0.6)
            drawn.set(zorder=1, clip_on=False)
            panel.add_collection(drawn)

    def _draw_nodes(self, panel: Axes, palette: Palette, places: np.ndarray) -> None:
        named = len(self) <= _MOST_NAMES
        diameter, wrong = _DIAMETER if named else _SMALL_DIAMETER, self.wrong
        x, y = places.T
        # The paper below keeps lines from showing through.
        panel.scatter(x, y, diameter**2, LIGHT["card"], zorder=2, clip_on=False, linewidths=0)
        nodes = panel.scatter(x, y, diameter**2, self._colours(palette), zorder=3, clip_on=False)
        nodes.set_edgecolor([LIGHT["wrong" if missed else "ink"] for missed in wrong])
        nodes.set_linewidth([2.25 if missed else 0.75 for missed in wrong])
        for node, (left, top) in enumerate(places.tolist()):
            if wrong[node]:
                note(panel, left, top, "✗", ha="center", va="center", color=LIGHT["ink"], zorder=4)
            if named:
                words = printable(self.word(node) if self.tokens is not None else self.labels[node], 14)
                name = panel.annotate(words, (left, top), (0, -diameter / 2 - 2), textcoords="offset points")
                name.set(ha="center", va="top", size=_LINE_HEIGHT, color=LIGHT["muted"], parse_math=False, zorder=4)


def layout(n_nodes: int, members: Sequence[np.ndarray]) -> tuple[np.ndarray, str]:
    """Return coordinates (n, 2) with unit distances along edges, and a hint if networkx is not installed.

    Components stand beside each other, in the order of their first nodes.
    """
    try:
        import networkx
    except ImportError:
        angles = 2 * np.pi * np.arange(n_nodes) / n_nodes
        circle = np.column_stack([np.cos(angles), np.sin(angles)])
        return circle * max(n_nodes / (2 * np.pi), 0.5), "nodes on a circle: with networkx they follow their edges"
    graph = networkx.empty_graph(n_nodes)
    for nodes in members:
        graph.add_edges_from(pair for row in nodes.tolist() for pair in combinations(row, 2) if pair[0] != pair[1])
    places, left = np.zeros((n_nodes, 2)), 0.0
    for component in map(sorted, networkx.connected_components(graph)):
        part = graph.subgraph(component)
        if len(component) <= _MOST_RELAXED:
            own = networkx.kamada_kawai_layout(part)
        else:
            own = networkx.spring_layout(part, seed=0)
        centred = np.array([own[node] for node in component]) - np.mean(list(own.values()), axis=0)
        # The longest extent is horizontal, as a page is wider than high.
        found = centred @ np.linalg.svd(centred, full_matrices=False)[2].T
        row = {node: number for number, node in enumerate(component)}
        ends = np.array([[row[a], row[b]] for a, b in part.edges], dtype=np.int64).reshape(-1, 2)
        lengths = np.linalg.norm(found[ends[:, 0]] - found[ends[:, 1]], axis=1)
        found = (found - found.min(axis=0)) / (lengths.mean() if lengths.size else 1.0)
        places[component] = found + np.array([left, 0.0])
        left += np.ptp(found[:, 0]) + _BETWEEN_COMPONENTS
    return places, ""
