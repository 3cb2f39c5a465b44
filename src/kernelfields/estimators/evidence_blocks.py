"""Hessians of chains by blocks of directions: one pass for many columns, most of it in matrix products.

    J_cd = (Z_c A_c)^T Cov (Z_d A_d)

A direction is a column of potentials; evidence_moments.py turns a block of them into the responses of marginals,
Cov times the block, and the sum of their third cumulants. Runs of sequences are shared out among threads.
Cost of a Hessian: O(N size L^2) for responses, N size^2 for pulling them back; of slopes for k roots: 4 N size k.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import scipy.sparse

from kernelfields.engines import CliqueFeatures, Potentials
from kernelfields.engines.blas_threads import blas_threads
from kernelfields.engines.softmax_likelihood import SoftmaxLikelihood
from kernelfields.posterior import Point

# Directions of a run of sequences, in bytes: few runs, as each adds to a matrix of all coefficients.
_RUN_BYTES = 64 * 2**20


@dataclass
class TraceSlopes:
    """Half the derivative of tr J G in the potentials, and in the features (n, r) of the sets asked for."""

    potentials: Potentials
    features: dict[int, np.ndarray]


class BlockedChains:
    """The beliefs at a point as packed chains, and the clique sets as tables of features and label factors."""

    def __init__(self, point: Point):
        self.posterior = point.posterior
        engine = self.posterior.engine
        likelihood: Any = engine.likelihood
        self.workers = likelihood.workers
        beliefs = point.evaluation.beliefs
        self.marginals = beliefs.node_marginals
        self.n_labels = likelihood.n_labels
        if isinstance(likelihood, SoftmaxLikelihood):
            self.offsets = np.arange(len(self.marginals) + 1)
            self.weights = likelihood.weights
            self.steps = np.zeros((1, self.n_labels, self.n_labels))
        else:
            self.offsets = likelihood.chains.offsets
            self.weights = likelihood.chains.weights
            self.steps = beliefs.edge_marginals()
        sets = list(enumerate(engine.sets))
        self.nodes = [(index, each) for index, each in sets if each.labels_per_clique == 1]
        self.edges = [(index, each) for index, each in sets if each.labels_per_clique == 2]

    def shares(self) -> list[tuple[int, int]]:
        """Return ranges of sequences with about equally many rows, one for each thread."""
        targets = np.linspace(0, self.offsets[-1], self.workers.n_threads + 1)
        cuts = np.unique(np.searchsorted(self.offsets, targets))
        return [(int(first), int(last)) for first, last in pairwise(cuts)]

    def runs(self, first: int, last: int, n_columns: int) -> Iterator[tuple[slice, slice]]:
        """Yield runs of sequences first..last-1 whose directions fit in _RUN_BYTES, and their rows."""
        most = max(1, _RUN_BYTES // (8 * self.n_labels * n_columns))
        while first < last:
            end = int(np.searchsorted(self.offsets, self.offsets[first] + most, side="right")) - 1
            end = min(max(end, first + 1), last)
            yield slice(first, end), slice(int(self.offsets[first]), int(self.offsets[end]))
            first = end

    def table(self, each: CliqueFeatures, rows: slice) -> np.ndarray:
        """Return features of some rows, dense float64; ones where a set has none."""
        if each.features is None:
            return np.ones((rows.stop - rows.start, 1))
        part: Any = each.features[rows]
        return np.asarray(part.toarray() if scipy.sparse.issparse(part) else part, dtype=np.float64)

    def moments(self, run: slice, rows: slice, node: np.ndarray, edge: np.ndarray | None = None) -> Any:
        """Turn directions ``node`` into responses in place; return third cumulants of labels and of steps."""
        from kernelfields.estimators.evidence_moments import GIVEN_STEPS, NO_STEPS

        thirds = np.zeros(node.shape[:2]), np.zeros((self.n_labels, self.n_labels))
        self._call(run, rows, node, edge, NO_STEPS if edge is None else GIVEN_STEPS, thirds=thirds)
        return thirds

    def responses(self, run: slice, rows: slice, node: np.ndarray) -> None:
        """Turn directions ``node`` into responses in place."""
        from kernelfields.estimators.evidence_moments import NO_STEPS

        self._call(run, rows, node, None, NO_STEPS)

    def step_responses(self, run: slice, rows: slice) -> tuple[np.ndarray, np.ndarray]:
        """Return the responses of labels (n, L, L^2) and of steps (L, L, L^2) to each entry of the table."""
        from kernelfields.estimators.evidence_moments import SINGLE_STEPS

        n_labels, n_steps = self.n_labels, self.n_labels**2
        node, before, after = (np.zeros((rows.stop - rows.start, n_labels, n_steps)) for _ in range(3))
        self._call(run, rows, node, None, SINGLE_STEPS, kept=(before, after))
        joint = (
            self.steps[rows]
            * np.repeat(self.weights[run], np.diff(self.offsets[run.start : run.stop + 1]))[:, None, None]
        )
        steps = np.zeros((n_labels, n_labels, n_steps))
        for label in range(n_labels):
            steps[label] += joint[:, label, :].T @ before[:, label]
            steps[:, label] += joint[:, :, label].T @ after[:, label]
        steps.reshape(n_steps, n_steps)[np.diag_indices(n_steps)] += joint.sum(axis=0).ravel()
        return node, steps

    def _call(
        self,
        run: slice,
        rows: slice,
        node: np.ndarray,
        edge: np.ndarray | None,
        kind: int,
        *,
        thirds: tuple[np.ndarray, np.ndarray] | None = None,
        kept: tuple[np.ndarray, np.ndarray] | None = None,
    ) -> None:
        from kernelfields.estimators.evidence_moments import score_moments

        nothing = np.zeros((self.n_labels, self.n_labels, 1))
        score_moments(
            self.offsets[run.start : run.stop + 1] - rows.start,
            np.ascontiguousarray(self.weights[run], dtype=np.float64),
            self.marginals[rows],
            self.steps[rows] if len(self.steps) > 1 else self.steps,
            node,
            nothing if edge is None else edge,
            kind,
            thirds is not None,
            kept is not None,
            *(kept or (nothing, nothing)),
            *(thirds or (nothing[0], nothing[0])),
        )

    def hessian(self) -> np.ndarray:
        """Return J, (size, size): the responses to every coefficient, pulled back."""
        shares = self.shares()
        parts: dict[int, np.ndarray] = {}

        def run(first: int, last: int) -> None:
            parts[first] = self._part_of_hessian(first, last)

        with blas_threads(1):
            self.workers.each(run, shares)
        # In order, so that the sum does not depend on which thread was first.
        return self._mirrored(np.sum([parts[first] for first, _ in shares], axis=0))

    def _part_of_hessian(self, first: int, last: int) -> np.ndarray:
        """Return half of the Hessian of sequences first..last-1; see _mirrored for the other half."""
        blocks, size = self.posterior.blocks, self.posterior.size
        matrix = np.zeros((size, size))
        widest = max(1, *(blocks[index].shape[0] for index, _ in self.nodes))
        for run, rows in self.runs(first, last, widest):
            tables = {index: self.table(each, rows) for index, each in self.nodes}
            for place, (index, each) in enumerate(self.nodes):
                for output in range(blocks[index].shape[1]):
                    node = tables[index][:, None, :] * _factor(each)[None, :, output, None]
                    self.responses(run, rows, node)
                    columns = np.arange(blocks[index].shape[0]) * blocks[index].shape[1] + output
                    columns += blocks[index].rows.start
                    for other, beside in self.nodes[: place + 1]:
                        outputs = output + 1 if other == index else blocks[other].shape[1]
                        pulled = _pull_back(tables[other], _factor(beside)[:, :outputs], node)
                        target = np.arange(blocks[other].shape[0])[:, None] * blocks[other].shape[1]
                        target = (blocks[other].rows.start + target + np.arange(outputs)).ravel()
                        matrix[np.ix_(target, columns)] += pulled.reshape(len(target), len(columns))
        for run, rows in self.runs(first, last, self.n_labels**2) if self.edges else ():
            tables = {index: self.table(each, rows) for index, each in self.nodes}
            node, steps = self.step_responses(run, rows)
            for place, (index, each) in enumerate(self.edges):
                own = node @ _factor(each) if each.label_factor is not None else node
                for other, beside in self.nodes:
                    pulled = _pull_back(tables[other], _factor(beside), own)
                    matrix[blocks[other].rows, blocks[index].rows] += pulled.reshape(-1, own.shape[2])
                own = steps.reshape(len(steps) ** 2, -1) @ _factor(each)
                for other, beside in self.edges[: place + 1]:
                    matrix[blocks[other].rows, blocks[index].rows] += _factor(beside).T @ own
        return matrix

    def _mirrored(self, matrix: np.ndarray) -> np.ndarray:
        """Fill in the half of a symmetric matrix that was not computed."""
        blocks = self.posterior.blocks
        for place, (index, _) in enumerate(self.nodes):
            rank, outputs = blocks[index].shape
            own = matrix[blocks[index].rows, blocks[index].rows].reshape(rank, outputs, rank, outputs)
            for output in range(outputs):
                own[:, output, :, :output] = own[:, :output, :, output].transpose(2, 0, 1)
            matrix[blocks[index].rows, blocks[index].rows] = own.reshape(rank * outputs, rank * outputs)
            for other, _ in self.nodes[:place]:
                matrix[blocks[index].rows, blocks[other].rows] = matrix[blocks[other].rows, blocks[index].rows].T
        for place, (index, _) in enumerate(self.edges):
            for other, _ in self.nodes + self.edges[:place]:
                matrix[blocks[index].rows, blocks[other].rows] = matrix[blocks[other].rows, blocks[index].rows].T
        return matrix

    def slopes(self, roots: np.ndarray, wanted: Sequence[int]) -> TraceSlopes:
        """Return how (1/2) tr J R^T R moves for rows R of roots."""
        blocks, n_columns = self.posterior.blocks, len(roots)
        parts = {
            index: np.ascontiguousarray(
                roots[:, blocks[index].rows].reshape(n_columns, *blocks[index].shape).transpose(1, 2, 0)
            ).reshape(blocks[index].shape[0], blocks[index].shape[1] * n_columns)
            for index, _ in self.nodes
        }
        edge = None
        if self.edges:
            scores = sum(_factor(each) @ roots[:, blocks[index].rows].T for index, each in self.edges)
            edge = np.ascontiguousarray(scores).reshape(self.n_labels, self.n_labels, n_columns)
        third = np.zeros_like(self.marginals)
        edge_thirds: dict[int, np.ndarray] = {}
        features = {index: np.empty((len(self.marginals), blocks[index].shape[0])) for index in wanted}

        def share(first: int, last: int) -> None:
            edge_thirds[first] = np.zeros((self.n_labels, self.n_labels))
            for run, rows in self.runs(first, last, n_columns):
                node = np.zeros((rows.stop - rows.start, self.n_labels, n_columns))
                for index, each in self.nodes:
                    scores = (self.table(each, rows) @ parts[index]).reshape(len(node), -1, n_columns)
                    node += np.matmul(_factor(each), scores)
                third[rows], edge_third = self.moments(run, rows, node, edge)
                edge_thirds[first] += edge_third
                for index in wanted:
                    responses = np.matmul(_factor(self.posterior.engine.sets[index]).T, node)
                    features[index][rows] = responses.reshape(len(node), -1) @ parts[index].T

        shares = self.shares()
        with blas_threads(1):
            self.workers.each(share, shares)
        total = self.posterior.engine.likelihood.layout.zeros()
        total.node[...] = 0.5 * third
        if len(total.arrays) > 1:
            total.edge[0] = 0.5 * np.sum([edge_thirds[first] for first, _ in shares], axis=0)
        return TraceSlopes(total, features)


def _factor(each: CliqueFeatures) -> np.ndarray:
    return np.eye(each.n_configurations) if each.label_factor is None else each.label_factor


def _pull_back(table: np.ndarray, factor: np.ndarray, responses: np.ndarray) -> np.ndarray:
    """Return Z^T R A for responses R (n, L, C), as (r, q, C)."""
    rows = np.matmul(factor.T, responses)
    return (table.T @ rows.reshape(len(rows), -1)).reshape(table.shape[1], factor.shape[1], responses.shape[2])
