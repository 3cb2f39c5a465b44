"""Scores of the labels of one sequence from weights by name, and its best labelling, in NumPy, as fast as it can be.

    node_t(b) = sum over the attributes j of position t  x_tj w(j, b)
    d_t(b)    = node_t(b) + max_a (d_{t-1}(a) + edge(a, b))

Sums run in the order of the attributes and maxima are those of the first of equals, as in CRFsuite, so that labels are
the same to the last bit. After a number of sequences, sums are compiled (scores_compiled.py); before, no compiler is
imported. features.py reads positions.
Cost: O(attributes + T L^2). Memory: the weights, sparse, and one table (L, L).
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from kernelfields.compat.pycrfsuite import library
from kernelfields.compat.pycrfsuite.features import Columns
from kernelfields.compat.pycrfsuite.item_sequence import ItemSequence
from kernelfields.models.crfsuite_file import CRFsuiteModel
from kernelfields.numerics.sparse_rows import make_offsets

#: Features of a sequence: its positions; numbers of features and their columns; arrays of the columns.
Given = tuple[int, bytes, tuple[np.ndarray, ...]]
NOTHING: Given = (0, b"", ())


class NamedScores:
    """Weights of a model by attribute name; sums are compiled after some sequences.

    Notes are kept of ``n_more`` features more than the model has attributes.
    """

    def __init__(self, model: CRFsuiteModel, compiled_after: int = 1000, n_more: int = 65536):
        self.model, self.n_labels = model, len(model.labels)
        self._columns, self._label = Columns.from_model(model, n_more), model.labels.__getitem__
        #: Scores of pairs of neighbours, (L, L).
        self.edge = np.zeros((self.n_labels, self.n_labels))
        self.edge[model.transitions.sources, model.transitions.labels] = model.transitions.values
        self._edge_into = np.ascontiguousarray(self.edge.T)
        self._n_read, self._compiled_after = 0, compiled_after

    def read(self, sequence: Iterable) -> Given:
        """Read the features of a sequence."""
        self._n_read += 1
        columns = self._columns
        if columns.full:
            columns = self._columns = columns.without_cache()
        if type(sequence) is not list:
            sequence = sequence.rows if isinstance(sequence, ItemSequence) else list(sequence)
        found = columns.find(sequence)
        return len(sequence), found, columns.arrays

    def nodes(self, given: Given) -> np.ndarray:
        """Compute the scores of labels at each position, (T, L)."""
        n_positions, found, arrays = given
        nodes = np.zeros((n_positions, self.n_labels))
        if n_positions and self._n_read > self._compiled_after:
            library.sum_weights(found, *arrays, nodes)
        elif n_positions:
            self._sum_weights(found, arrays, nodes)
        return nodes

    def label(self, given: Given) -> list[str]:
        """Return the best labelling of the sequence."""
        n_positions, found, arrays = given
        if not n_positions:
            return []
        if self._n_read > self._compiled_after:
            best = library.label(found, *arrays, self._edge_into, n_positions).tolist()
        else:
            best = self._find_best(self.nodes(given))
        return [*map(self._label, best)]

    def _sum_weights(self, found: bytes, arrays: tuple[np.ndarray, ...], nodes: np.ndarray) -> None:
        """Add the weights of features to the scores of their positions."""
        spans, scales, labels, weights = arrays
        counts, columns = np.split(np.frombuffer(found, np.int64), [len(nodes)])
        begins, stops = spans[columns].T
        sizes = stops - begins
        before = make_offsets(sizes)
        entries = (begins - before[:-1]).repeat(sizes) + np.arange(before[-1])
        values = weights[entries] * scales[columns].repeat(sizes)
        places = np.arange(len(nodes)).repeat(counts).repeat(sizes) * self.n_labels + labels[entries]
        nodes += np.bincount(places, values, nodes.size).reshape(nodes.shape)

    def _find_best(self, nodes: np.ndarray) -> list[int]:
        """Return the best labelling of scores (T, L) of positions."""
        scores, pointers = nodes[0], []
        for own in nodes[1:]:
            reached = self._edge_into + scores
            pointers.append(reached.argmax(axis=1))
            scores = reached.max(axis=1) + own
        label = int(scores.argmax())
        found = [label]
        for before in reversed(pointers):
            label = int(before[label])
            found.append(label)
        return found[::-1]

    def score(self, nodes: np.ndarray, labelling: list[int]) -> float:
        """Return the score of a labelling."""
        own = nodes[np.arange(len(nodes)), labelling].sum()
        return float(own + self.edge[labelling[:-1], labelling[1:]].sum())
