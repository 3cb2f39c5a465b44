"""Items of the page: sequences, graphs, instances of several labels, inputs with one label each.

The positions of an item are those of a sequence, the nodes of a graph, the labels of an instance, or the one label of
an input. Known labels are stored by position, and converted to the form that the estimator accepts. Sequences are shown
as words or on a time line, graphs as drawings, and all others as tables.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import _safe_indexing

from kernelfields.data.graph_reading import is_networkx, read_graphs
from kernelfields.data.partial_labels import single_labels
from kernelfields.data.reading import has_words, is_feature_sequences, plain_label
from kernelfields.estimators import ChainCRF, GraphCRF, KernelClassifier, MultiLabelCRF, SegmentCRF, SequenceClassifier
from kernelfields.numerics.containers import count_rows, find_column_names, n_dimensions
from kernelfields.numerics.sparse_rows import is_sparse
from kernelfields.numerics.wording import inflect
from kernelfields.page.time_lines import TimeLines, make_array_lines, number_or_none
from kernelfields.reports.graph_pictures import layout

#: Labels of which one is right at a position; None where nothing is known.
Known = frozenset | None
# The most columns of an input that a table shows.
_CELLS = 8
# The most nodes of a graph that is drawn.
_MOST_DRAWN = 300


class SequenceItems:
    """Sequences of words, or of numbers on a time line; the base class of other items."""

    def __init__(self, X: Any, words: Sequence | None, columns: Sequence[str] | None, lines: TimeLines | None = None):
        if words is None and self.drawn == "line" and has_words(X):
            words = X
        if words is None and lines is None and self.drawn == "line" and is_feature_sequences(X):
            words = [[", ".join(list(map(str, own))[:_CELLS]) for own in item] for item in X]
        self.X, self.words, self.columns = X, words, columns
        self.lines = lines if lines is not None else make_array_lines(X, columns)
        self.lengths = self._lengths()

    #: How items are drawn where there are no words.
    drawn = "line"

    def _lengths(self) -> list[int]:
        if self.words is not None:
            return [len(own) for own in self.words]
        return [np.shape(own)[0] for own in self.X]

    @property
    def display(self) -> str:
        """The kind of display: "words", "line", "graph" or "table"."""
        return "words" if self.drawn == "line" and self.words is not None else self.drawn

    def select_inputs(self, items: Sequence[int]) -> Any:
        """Return the inputs of some items in the form that estimators accept."""
        return _safe_indexing(self.X, list(items))

    def read_labels(self, y: Any) -> list[list[Known]]:
        """Convert labels as estimators accept them to known labels of every position, checked."""
        if y is None:
            return [[None] * length for length in self.lengths]
        if len(y) != len(self.lengths):
            raise ValueError(f"y holds labels of {len(y)} items, and there are {len(self.lengths)}")
        found = self.convert_labels(y)
        for number, (own, length) in enumerate(zip(found, self.lengths, strict=True)):
            if own and len(own) != length:
                raise ValueError(f"item {number} has {length} positions and {len(own)} labels")
        return [own or [None] * length for own, length in zip(found, self.lengths, strict=True)]

    def convert_labels(self, y: Any) -> list[list[Known]]:
        """Convert labels as estimators accept them to a list of known labels for each item, [] without any."""
        seen: dict[Any, Known] = {}  # the same labels come again and again

        def known(entry: Any) -> Known:
            if not isinstance(entry, str):
                return _known(entry)
            if entry not in seen:
                seen[entry] = _known(entry)
            return seen[entry]

        return [[] if own is None else list(map(known, own)) for own in y]

    def format_labels(self, known: Sequence[Sequence[Known]]) -> Any:
        """Return the known labels of some items in the form that estimators accept."""
        return [[format_known_label(own) for own in item] for item in known]

    def find_position(self, part: Any) -> int:
        """Return the number of a position from its name in tables of findings."""
        return int(part)

    def text(self, item: int, most: int | None = None) -> str:
        """Describe an item in one line of at most ``most`` characters."""
        if self.words is None:
            return inflect(self.lengths[item], "position")
        words = self.words[item]
        return " ".join(map(str, words if most is None else words[:most]))[:most]

    def show(self, item: int, rows: slice) -> dict[str, Any]:
        """Return the words, or the columns of numbers, of some positions for the page."""
        if self.words is not None:
            return {"words": [str(word) for word in self.words[item][rows]]}
        return self.lines.show(item, rows)


class GraphItems(SequenceItems):
    """Graphs as drawings, with a table of their nodes: names or words, neighbours, and first input columns."""

    drawn = "graph"

    def _lengths(self) -> list[int]:
        self._places: dict[int, tuple[list, list]] = {}
        inputs, self._offsets, groups, _ = read_graphs(self.X)
        self._inputs, self._members = inputs, [members for _, members, _, _ in groups]
        return np.diff(self._offsets).tolist()

    def show(self, item: int, rows: slice) -> dict[str, Any]:
        """Return the names, neighbours and inputs of nodes for the page, with a drawing of small graphs."""
        begin, end = self._offsets[item] + rows.start, self._offsets[item] + rows.stop
        names = self.words[item] if self.words is not None else _node_names(self.X[item], self.lengths[item])
        beside: list[set[int]] = [set() for _ in range(begin, end)]
        for members in self._members:
            for own in members[((members >= begin) & (members < end)).any(axis=1)].tolist():
                for node in own:
                    if begin <= node < end:
                        beside[node - begin].update(set(own) - {node})
        joined = [
            ", ".join(str(names[other - self._offsets[item]]) for other in sorted(others)[:_CELLS]) for others in beside
        ]
        cells = [[text, *own] for text, own in zip(joined, _cells(self._inputs[begin:end]), strict=True)]
        shown = {"names": [str(name) for name in names[rows]], "cells": cells, "heads": ["beside", *self._heads()]}
        if self.lengths[item] > _MOST_DRAWN:
            return shown
        if item not in self._places:
            self._places[item] = self._drawing(item)
        return shown | dict(zip(("places", "edges"), self._places[item], strict=True))

    def _drawing(self, item: int) -> tuple[list, list]:
        """Return the coordinates of nodes, and the pairs of nodes with an edge."""
        begin, end = self._offsets[item], self._offsets[item + 1]
        own = [members[((members >= begin) & (members < end)).any(axis=1)] - begin for members in self._members]
        pairs = {tuple(sorted(pair)) for rows in own for row in rows.tolist() for pair in combinations(set(row), 2)}
        return layout(int(end - begin), own)[0].tolist(), sorted(pairs)

    def text(self, item: int, most: int | None = None) -> str:
        """Describe a graph by the names or the number of its nodes."""
        return inflect(self.lengths[item], "node") if self.words is None else super().text(item, most)

    def _heads(self) -> list[str]:
        return [str(name) for name in self.columns or range(self._inputs.shape[1])][:_CELLS]


class SampleItems(SequenceItems):
    """Inputs with one label each: rows of a table, or whole sequences."""

    drawn = "table"

    def _lengths(self) -> list[int]:
        return [1] * count_rows(self.X)

    def convert_labels(self, y: Any) -> list[list[Known]]:
        """Return the known label of each input."""
        return [[_known(own)] for own in y]

    def format_labels(self, known: Sequence[Sequence[Known]]) -> Any:
        """Return one entry for each input."""
        return [format_known_label(own) for (own,) in known]

    def find_position(self, part: Any) -> int:
        """Return 0: an input has one position."""
        return 0

    def show(self, item: int, rows: slice) -> dict[str, Any]:
        """Return one row for the label, and the input as a text."""
        return {"names": ["label"][rows], "cells": [[]][rows], "heads": [], "text": self.text(item)}

    def text(self, item: int, most: int | None = None) -> str:
        """Describe an input by its words, or by its first nonzero columns."""
        if self.words is not None:
            own = self.words[item]
            return (own if isinstance(own, str) else " ".join(map(str, own)))[:most]
        row = self.select_inputs([item])
        if n_dimensions(row) != 2:
            return inflect(len(self.X[item]), "position")
        values = np.asarray(row.toarray() if is_sparse(row) else row).ravel()
        heads = find_column_names(self.X) if self.columns is None else self.columns
        names = [str(name) for name in (range(len(values)) if heads is None else heads)]
        chosen = np.flatnonzero(values != 0)[: 2 * _CELLS]
        return ", ".join(f"{names[column]} = {values[column]:.4g}" for column in chosen.tolist())[:most]


class InstanceItems(SampleItems):
    """Instances of several binary labels, with one row for each label."""

    def __init__(self, X: Any, words: Sequence | None, columns: Sequence[str] | None, names: Sequence, frame: Any):
        self.names, self._frame = list(names), frame
        super().__init__(X, words, columns)

    def _lengths(self) -> list[int]:
        return [len(self.names)] * count_rows(self.X)

    def convert_labels(self, y: Any) -> list[list[Known]]:
        """Return the known labels of each instance."""
        rows = np.asarray(y).tolist()
        return [[None if _is_open(own) else frozenset([int(own)]) for own in row] for row in rows]

    def format_labels(self, known: Sequence[Sequence[Known]]) -> Any:
        """Return a table of 0, 1 and NaN, as a data frame if y was a data frame."""
        rows = [[np.nan if own is None or len(own) > 1 else float(next(iter(own))) for own in item] for item in known]
        table = np.array(rows).reshape(len(rows), len(self.names))
        return table if self._frame is None else self._frame(table, columns=self.names)

    def find_position(self, part: Any) -> int:
        """Return the number of a label from its name."""
        return self.names.index(part)

    def show(self, item: int, rows: slice) -> dict[str, Any]:
        """Return a row for each label, and the input as a text."""
        names = [str(name) for name in self.names[rows]]
        return {"names": names, "cells": [[]] * len(names), "heads": [], "text": self.text(item)}


def resolve_items(
    field: BaseEstimator | None,
    X: Any,
    y: Any,
    words: Sequence | None,
    columns: Sequence[str] | None,
    lines: TimeLines | None = None,
) -> SequenceItems:
    """Return the items of the class that suits an estimator; TypeError for unsupported estimators."""
    if isinstance(field, MultiLabelCRF):
        if hasattr(field, "label_names_"):
            names = field.label_names_.tolist()
        elif y is not None:
            heads = find_column_names(y)
            names = list(range(np.shape(y)[1]) if heads is None else heads)
        else:
            raise ValueError("y must have a column for each label, NaN where nothing is known, to be labelled")
        return InstanceItems(X, words, columns, names, type(y) if find_column_names(y) is not None else None)
    if isinstance(field, GraphCRF):
        return GraphItems(X, words, columns)
    if isinstance(field, KernelClassifier | SequenceClassifier):
        return SampleItems(X, words, columns)
    if field is None or isinstance(field, ChainCRF | SegmentCRF):
        return SequenceItems(X, words, columns, lines)
    raise TypeError(
        "the page labels sequences, graphs, instances and single inputs, by a ChainCRF, SegmentCRF, GraphCRF, "
        f"MultiLabelCRF, KernelClassifier or SequenceClassifier, got {type(field).__name__}"
    )


def format_known_label(own: Known) -> Any:
    """Return a label, a set of possible labels or None, as estimators accept them."""
    if own is None:
        return None
    return next(iter(own)) if len(own) == 1 else set(own)


def _known(entry: Any) -> Known:
    if _is_open(entry):
        return None
    named = entry if isinstance(entry, set | frozenset) else {entry}
    return frozenset(plain_label(label) for label in named)


def _is_open(entry: Any) -> bool:
    return not isinstance(entry, set | frozenset) and single_labels([entry])[0] is None


def _cells(rows: Any) -> list[list[float | None]]:
    dense = rows[:, :_CELLS].toarray() if is_sparse(rows) else rows[:, :_CELLS]
    return [[number_or_none(value) for value in row] for row in np.asarray(dense, dtype=np.float64).tolist()]


def _node_names(graph: Any, count: int) -> list:
    return [node for node, _ in graph.nodes(data=True)] if is_networkx(graph) else list(range(count))
