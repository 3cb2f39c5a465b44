"""Targets in the place of labels: marginals that a field is asked to match."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from kernelfields.fields.reading import Nouns, SampleNouns, listed, offsets_of


@dataclass(frozen=True, eq=False)
class SoftRows:
    """Targets of packed rows: of single labels (N, L), and of those at t - 1 and t (N, L, L), zero at starts."""

    node: np.ndarray
    edge: np.ndarray | None = None

    def __getitem__(self, rows: Any) -> SoftRows:
        return SoftRows(self.node[rows], None if self.edge is None else self.edge[rows])

    @property
    def logs(self) -> np.ndarray:
        """Logarithms of the targets of single labels, (N, L)."""
        with np.errstate(divide="ignore"):
            return np.log(self.node)


# How far targets may be from adding up: those of float32 networks are by so much.
_ROUNDING = 1e-4


class SoftTargets:
    """Marginals for a field to match, in the place of labels: those of a teacher, or of several annotators together.

        ChainCRF().fit(X, SoftTargets(nodes, pairs, classes=teacher.classes_))

    Parameters
    ----------
    nodes : list of (T, L) arrays, one for each sequence; for KernelClassifier one (n, L) array
        Probabilities of the labels at each position; rows add up to one.
    pairs : list of (T - 1, L, L) arrays or None
        Probabilities of the labels of neighbours, which must agree with ``nodes``; None takes them for independent.
    classes : (L,) labels that the columns stand for

    The objective sums the expected score under the targets in the place of that of the labels: it stays convex, and
    certificates hold as ever. Where targets are one at a label, it is the fit to these labels.
    """

    def __init__(self, nodes: Any, pairs: Any = None, *, classes: Any):
        self.nodes = nodes
        self.pairs = pairs
        self.classes = classes

    def __len__(self) -> int:
        return len(self.nodes)

    def subset(self, items: np.ndarray) -> SoftTargets:
        """Return the targets of some sequences or samples, by their numbers."""
        nodes = self.nodes[items] if isinstance(self.nodes, np.ndarray) else [self.nodes[item] for item in items]
        pairs = None if self.pairs is None else [self.pairs[item] for item in items]
        return SoftTargets(nodes, pairs, classes=self.classes)

    def read(self, classes: Any, lengths: np.ndarray | None, nouns: Nouns) -> tuple[np.ndarray, SoftRows, np.ndarray]:
        """Return labels (N,), the most probable ones, targets and the sorted classes; errors name what is wrong."""
        own, places = np.unique(np.asarray(self.classes), return_inverse=True)
        if len(own) != len(np.asarray(self.classes)) or len(own) < 2:
            raise ValueError(f"classes of SoftTargets must be two or more different labels, got {listed(self.classes)}")
        if classes is not None and not np.array_equal(own, np.unique(np.asarray(classes))):
            raise ValueError(f"SoftTargets are for the labels {listed(own)}, and the model knows {listed(classes)}")
        tables = [self.nodes] if isinstance(nouns, SampleNouns) else list(self.nodes)
        if lengths is not None and len(tables) != len(lengths):
            raise ValueError(f"X has {len(lengths)} {nouns.whole}s but y has {len(tables)}: each needs its targets")
        rows = [self._table(table, index, lengths, nouns) for index, table in enumerate(tables)]
        offsets = offsets_of(np.array([len(each) for each in rows]))
        order = np.argsort(places)
        node = np.concatenate(rows)[:, order]
        edge = self._edges(node, offsets, order, nouns)
        return node.argmax(axis=1), SoftRows(node, edge), own

    def _table(self, table: Any, index: int, lengths: np.ndarray | None, nouns: Nouns) -> np.ndarray:
        rows = np.asarray(table, dtype=np.float64)
        n_labels, name = len(np.asarray(self.classes)), nouns.name(index)
        expected = (len(rows) if lengths is None else int(lengths[index]), n_labels)
        if rows.shape != expected:
            raise ValueError(f"{name}: targets have shape {rows.shape}, expected {expected}")
        wrong = ~np.isfinite(rows).all(axis=1) | (rows < 0).any(axis=1) | (np.abs(rows.sum(axis=1) - 1) > _ROUNDING)
        if wrong.any():
            place = int(wrong.argmax())
            raise ValueError(
                f"{name}, {nouns.part} {place}: targets {np.array2string(rows[place], precision=4, threshold=6)} are "
                "no probabilities that add up to one"
            )
        return rows / rows.sum(axis=1, keepdims=True)

    def _edges(self, node: np.ndarray, offsets: np.ndarray, order: np.ndarray, nouns: Nouns) -> np.ndarray | None:
        if isinstance(nouns, SampleNouns):
            return None
        edge = np.zeros((len(node), node.shape[1], node.shape[1]))
        if self.pairs is None:
            edge[1:] = node[:-1, :, None] * node[1:, None, :]
            edge[offsets[:-1]] = 0.0
            return edge
        tables = list(self.pairs)
        if len(tables) != len(offsets) - 1:
            raise ValueError(f"pairs has {len(tables)} {nouns.whole}s but nodes has {len(offsets) - 1}")
        for index, (begin, end) in enumerate(pairwise(offsets.tolist())):
            given = np.asarray(tables[index], dtype=np.float64)
            expected = (end - begin - 1, node.shape[1], node.shape[1])
            if given.shape != expected:
                raise ValueError(f"{nouns.name(index)}: targets of pairs have shape {given.shape}, expected {expected}")
            given = given[:, order][:, :, order]
            before, after = node[begin : end - 1], node[begin + 1 : end]
            off = np.abs(given.sum(axis=2) - before).max(axis=1) + np.abs(given.sum(axis=1) - after).max(axis=1)
            if (wrong := (off > _ROUNDING) | (given < 0).any(axis=(1, 2)) | ~np.isfinite(off)).any():
                raise ValueError(
                    f"{nouns.name(index)}: targets of the pair of {nouns.part}s {int(wrong.argmax())} and "
                    f"{int(wrong.argmax()) + 1} do not add up to those of the single labels"
                )
            edge[begin + 1 : end] = given
        return edge
