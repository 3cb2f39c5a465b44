"""Hessians of the likelihood at a point, and the derivatives of their traces in potentials and features.

    J_cd     = (Z_c A_c)^T Cov (Z_d A_d)                                   the Hessian of the likelihood
    third    = (1/2) d/du tr J G                  G = sum_k sign_k r_k r_k^T, usually the covariance H^-1
    features = (1/2) d/dZ_c tr J G = sum_k sign_k (Cov Z r_k) A_c r_k^T    at fixed potentials u

Labels that stand alone and see dense features through one label factor have within-clique covariances only: J is a
few products of features. Chains with one table of transitions are worked on by blocks of directions: a direction is
a column of potentials, and inference/chain/moments_compiled.py turns a block of them into the responses of
marginals, Cov times the block, and the sum of their third cumulants; runs of sequences are shared out among
threads. Hessians of short chains come from covariances of all pairs of their positions instead (pairs_compiled.py).
Other fields take a Hessian product for each direction, and two more around the point for third derivatives.

Cost of a Hessian in blocks: O(N size L^2) for responses, or N T L (L + size) from pairs, and N size^2 for pulling them
back; of slopes for k roots: 4 N size k. One by one: a Hessian product for each coefficient or root.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from kernelfields.inference import chain
from kernelfields.inference.potentials import EDGE, Potentials
from kernelfields.numerics.sparse_rows import is_sparse
from kernelfields.numerics.threads import blas_threads, even_runs
from kernelfields.objective.curvature_blocks import within_clique_curvature
from kernelfields.objective.designs.design import LocalDesign
from kernelfields.objective.designs.tables import DenseTable
from kernelfields.objective.likelihoods.likelihood import Likelihood
from kernelfields.objective.posterior import LogPosterior, Point

# Directions of a run of sequences, in bytes: few runs, as each adds to a matrix of all coefficients.
_RUN_BYTES = 64 * 2**20
# Covariances of pairs of a run, in bytes: what the allocator keeps and hands out again.
_PAIR_BYTES = 16 * 2**20
# Length of a step along a direction, in nats of the largest potential, for fields without blocks of directions.
_STEP = 1e-3


@dataclass
class TraceSlopes:
    """Half the derivative of tr J G in the potentials, and in the features (n, r) of the sets ``wanted``."""

    potentials: Potentials
    features: dict[int, np.ndarray]

    @classmethod
    def zero(cls, posterior: LogPosterior, wanted: Sequence[int]) -> TraceSlopes:
        """Return slopes of zero."""
        nothing = posterior.potentials(np.zeros(posterior.size), only=())
        return cls(nothing, {index: np.zeros(1) for index in wanted})


def likelihood_hessian(point: Point) -> np.ndarray:
    """Return the Hessian J of the negative log-likelihood at a point, (size, size)."""
    posterior = point.posterior
    if has_independent_labels(posterior):
        return _single_label_hessian(point)
    if has_blocked_passes(posterior):
        return BlockedChains(point).hessian()
    datafit = posterior.datafit
    matrix = np.empty((posterior.size, posterior.size))
    unit = np.zeros(posterior.size)
    for index, block in enumerate(posterior.blocks):
        for column in range(block.rows.start, block.rows.stop):
            unit[column] = 1.0
            # The direction lives in one term, but its response is felt in all of them.
            response = datafit.hessian_response(point.evaluation, posterior.potentials(unit, only=[index]))
            matrix[column] = posterior.blocks.flatten(datafit.pull_back(response))
            unit[column] = 0.0
    return 0.5 * (matrix + matrix.T)


def has_independent_labels(posterior: LogPosterior) -> bool:
    """Whether labels are independent, with dense features and one common label factor in all terms.

    Then within-clique covariances are the whole Hessian, as if the features of all terms stood side by side.
    """
    datafit = posterior.datafit
    if not datafit.likelihood.family.single_labels or not datafit.is_local:
        return False
    first = datafit.designs[0].term.label_factor
    return first is not None and all(
        design.term.has_all_pairs
        and design.positions is None
        and (design.features is None or isinstance(design.features, np.ndarray))
        and design.term.label_factor is not None
        and np.array_equal(design.term.label_factor, first)
        for design in datafit.designs
    )


def _single_label_hessian(point: Point) -> np.ndarray:
    """Return sum_t (A^T Cov_t A) kron (z_t z_t^T) for the features z_t of all terms (eq. 30), (size, size)."""
    datafit = point.posterior.datafit
    first, likelihood = datafit.designs[0], datafit.likelihood
    marginals, weights = likelihood.clique_marginals(point.evaluation, first), likelihood.clique_weights(first)
    ones = np.ones((len(marginals), 1))
    features = np.hstack([ones if design.features is None else design.features for design in datafit.designs])
    return within_clique_curvature(DenseTable(features), _factor(first), marginals, weights)


def trace_slopes(point: Point, roots: np.ndarray, signs: np.ndarray, wanted: Sequence[int]) -> TraceSlopes:
    """Return the derivative of (1/2) tr J G, G = sum_k signs_k roots_k roots_k^T, for roots (k, size)."""
    slopes = _slopes_in_blocks if has_blocked_passes(point.posterior) else _slopes_one_by_one
    return slopes(point, roots, signs, wanted)


def has_blocked_passes(posterior: LogPosterior) -> bool:
    """Whether directions have compiled passes in blocks: single labels, or chains with one table of transitions."""
    datafit = posterior.datafit
    if not isinstance(datafit.likelihood, Likelihood) or datafit.likelihood.family.method not in ("chain", "single"):
        return False
    if not datafit.is_local:
        return False
    return all(
        design.term.has_all_pairs
        and (design.features is None or isinstance(design.features, np.ndarray) or is_sparse(design.features))
        and (design.is_constant if design.labels_per_clique == 2 else design.positions is None)
        for design in datafit.designs
    )


def are_pairs_cheaper(lengths: np.ndarray, n_labels: int, outputs: Sequence[int]) -> bool:
    """Whether pairs of positions cost less than directions, for these coefficients per feature.

    A pair of positions costs a product with a table of steps, a direction two for every step; but pairs are of all
    labels, whatever factors leave of them. Those of the longest sequence are held at once.
    """
    few = lengths @ lengths <= 2 * n_labels * lengths.sum() and all(2 * each > n_labels for each in outputs)
    return bool(few and 8 * (n_labels * lengths.max(initial=0)) ** 2 <= _RUN_BYTES)


class BlockedChains:
    """The beliefs at a point as packed chains, and the clique sets as tables of features and label factors."""

    def __init__(self, point: Point):
        self.posterior = point.posterior
        datafit = self.posterior.datafit
        likelihood = datafit.likelihood
        self.workers = likelihood.workers
        self.n_labels = likelihood.n_labels
        family, member = likelihood.family, point.evaluation.member
        self.offsets, self.weights, self.marginals = family.offsets, likelihood.weights, member.marginals()
        # Single labels are chains of one position each.
        no_steps = np.zeros((1, self.n_labels, self.n_labels))
        self.steps = no_steps if family.single_labels else member.marginals(EDGE)
        designs = list(enumerate(datafit.designs))
        self.nodes = [(index, design) for index, design in designs if design.labels_per_clique == 1]
        self.edges = [(index, design) for index, design in designs if design.labels_per_clique == 2]
        outputs = [self.posterior.blocks[index].shape[1] for index, _ in self.nodes]
        #: Whether Hessians come from covariances of pairs of positions.
        self.from_pairs = are_pairs_cheaper(np.diff(self.offsets), self.n_labels, outputs)

    def shares(self) -> list[tuple[int, int]]:
        """Return ranges of sequences with about equal numbers of rows, one for each thread."""
        return even_runs(self.offsets, self.workers.n_threads)

    def runs(self, first: int, last: int, n_columns: int, n_bytes: int = _RUN_BYTES) -> Iterator[tuple[slice, slice]]:
        """Yield runs of sequences first..last-1, with directions or pairs within a memory limit, and their rows."""
        most = max(1, n_bytes // (8 * self.n_labels * n_columns))
        while first < last:
            end = int(np.searchsorted(self.offsets, self.offsets[first] + most, side="right")) - 1
            end = min(max(end, first + 1), last)
            yield slice(first, end), slice(int(self.offsets[first]), int(self.offsets[end]))
            first = end

    def table(self, design: LocalDesign, rows: slice) -> np.ndarray:
        """Return features of some rows, dense float64; a column of 1 for a term without features."""
        if design.features is None:
            return np.ones((rows.stop - rows.start, 1))
        part = design.features[rows]
        return np.asarray(part.toarray() if is_sparse(part) else part, dtype=np.float64)

    def moments(
        self, run: slice, rows: slice, node: np.ndarray, edge: np.ndarray | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Replace directions ``node`` by responses; return third cumulants of labels and of steps."""
        compiled = chain.moments_compiled
        thirds = np.zeros(node.shape[:2]), np.zeros((self.n_labels, self.n_labels))
        self._call(run, rows, node, edge, compiled.NO_STEPS if edge is None else compiled.GIVEN_STEPS, thirds=thirds)
        return thirds

    def responses(self, run: slice, rows: slice, node: np.ndarray) -> None:
        """Replace directions ``node`` by responses."""
        self._call(run, rows, node, None, chain.moments_compiled.NO_STEPS)

    def steps_by_direction(self, run: slice, rows: slice) -> tuple[np.ndarray, np.ndarray]:
        """Return the responses of labels (n, L, L^2) and of steps (L, L, L^2) to each entry of the table."""
        n_labels, n_steps = self.n_labels, self.n_labels**2
        node, before, after = (np.zeros((rows.stop - rows.start, n_labels, n_steps)) for _ in range(3))
        self._call(run, rows, node, None, chain.moments_compiled.SINGLE_STEPS, kept=(before, after))
        joint = self.steps[rows] * self._row_weights(run)[:, None, None]
        steps = np.zeros((n_labels, n_labels, n_steps))
        for label in range(n_labels):
            steps[label] += joint[:, label, :].T @ before[:, label]
            steps[:, label] += joint[:, :, label].T @ after[:, label]
        steps.reshape(n_steps, n_steps)[np.diag_indices(n_steps)] += joint.sum(axis=0).ravel()
        return node, steps

    def steps_in_pairs(self, run: slice, rows: slice) -> tuple[np.ndarray, np.ndarray]:
        """Return the responses to the table from covariances of labels with steps."""
        n_labels, n_steps = self.n_labels, self.n_labels**2
        past, both = (np.empty((rows.stop - rows.start, n_labels, n_labels, n_labels)) for _ in range(2))
        marginals, weights = self.marginals[rows], self._row_weights(run)[:, None, None]
        chain.pairs_compiled.covariances_with_steps(self._offsets_of(run), marginals, self.steps[rows], past, both)
        joint, both = self.steps[rows] * weights, both.reshape(len(both), n_labels, n_steps)
        if (weights != 1.0).any():
            both *= weights
        certain = np.divide(1.0, marginals, out=np.zeros_like(marginals), where=marginals > 0.0)
        # Given a step that leaves a, steps before it depend on a alone.
        leaving, earlier = joint[1:] * certain[:-1, :, None], past.reshape(len(past), n_labels, n_steps)
        steps = np.zeros((n_labels, n_labels, n_steps))
        for label in range(n_labels):
            steps[label] = leaving[:, label].T @ earlier[:-1, label]
        matrix = steps.reshape(n_steps, n_steps)
        matrix += matrix.T.copy()
        matrix -= joint.reshape(-1, n_steps).T @ self.steps[rows].reshape(-1, n_steps)
        matrix[np.diag_indices(n_steps)] += joint.sum(axis=0).ravel()
        return both, steps

    def _row_weights(self, run: slice) -> np.ndarray:
        return np.repeat(self.weights[run], np.diff(self.offsets[run.start : run.stop + 1]))

    def _offsets_of(self, run: slice) -> np.ndarray:
        return self.offsets[run.start : run.stop + 1] - self.offsets[run.start]

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
        nothing = np.zeros((self.n_labels, self.n_labels, 1))
        chain.moments_compiled.score_moments(
            self._offsets_of(run),
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
        with blas_threads(1):
            matrix = self.workers.sum(self._part_of_hessian, self.shares())
        # Computed are the entries whose row has no larger key than their column: fill in the others.
        keys, begin = np.empty(len(matrix), dtype=np.int64), 0
        for index, design in self.nodes + self.edges:
            block = self.posterior.blocks[index]
            outputs = block.shape[1] if design.labels_per_clique == 1 else 1
            keys[block.rows] = begin + np.arange(block.rows.stop - block.rows.start) % outputs
            begin += outputs
        return np.where(keys[:, None] <= keys, matrix, matrix.T)

    def _part_of_hessian(self, first: int, last: int) -> np.ndarray:
        """Return half of the Hessian of sequences first..last-1: each set with itself and previous sets."""
        blocks = self.posterior.blocks
        matrix = np.zeros((self.posterior.size, self.posterior.size))
        if self.nodes:
            (self._add_nodes_in_pairs if self.from_pairs else self._add_nodes_by_direction)(first, last, matrix)
        n_bytes = _PAIR_BYTES if self.from_pairs else _RUN_BYTES
        for run, rows in self.runs(first, last, self.n_labels**2, n_bytes) if self.edges else ():
            tables = {index: self.table(design, rows) for index, design in self.nodes}
            node, steps = (self.steps_in_pairs if self.from_pairs else self.steps_by_direction)(run, rows)
            for number, (index, design) in enumerate(self.edges):
                own = design.term.to_coordinates(node)
                for other, beside in self.nodes:
                    pulled = _pull_back(tables[other], _factor(beside), own)
                    matrix[blocks[other].rows, blocks[index].rows] += pulled.reshape(-1, own.shape[2])
                own = design.term.to_coordinates(steps.reshape(len(steps) ** 2, -1))
                for other, beside in self.edges[: number + 1]:
                    matrix[blocks[other].rows, blocks[index].rows] += beside.term.to_coordinates(own.T).T
        return matrix

    def _add_nodes_by_direction(self, first: int, last: int, matrix: np.ndarray) -> None:
        """Add the products of sets of single labels: responses to each direction, pulled back."""
        blocks = self.posterior.blocks
        numbers = [np.arange(block.rows.start, block.rows.stop).reshape(block.shape) for block in blocks]
        widest = max(1, *(blocks[index].shape[0] for index, _ in self.nodes))
        for run, rows in self.runs(first, last, widest):
            tables = {index: self.table(design, rows) for index, design in self.nodes}
            for number, (index, design) in enumerate(self.nodes):
                for output in range(blocks[index].shape[1]):
                    node = tables[index][:, None, :] * _factor(design)[None, :, output, None]
                    self.responses(run, rows, node)
                    columns = numbers[index][:, output]
                    for other, beside in self.nodes[: number + 1]:
                        outputs = output + 1 if other == index else blocks[other].shape[1]
                        pulled = _pull_back(tables[other], _factor(beside)[:, :outputs], node)
                        target = numbers[other][:, :outputs].ravel()
                        matrix[np.ix_(target, columns)] += pulled.reshape(len(target), len(columns))

    def _add_nodes_in_pairs(self, first: int, last: int, matrix: np.ndarray) -> None:
        """Add the products of sets of single labels from covariances of all pairs of positions."""
        blocks, n_labels = self.posterior.blocks, self.n_labels
        ends = np.cumsum([0, *(blocks[index].shape[0] for index, _ in self.nodes)]).tolist()
        # Label a and features of one position, label b >= a and features of the other.
        sums = np.zeros((n_labels, ends[-1], n_labels, ends[-1]))
        for run, rows in self.runs(first, last, n_labels * ends[-1], _PAIR_BYTES):
            table = np.hstack([self.table(design, rows) for _, design in self.nodes])
            seen = np.empty((len(table), n_labels, *sums.shape[2:]))
            steps = self.steps[rows] if len(self.steps) > 1 else self.steps
            chain.pairs_compiled.covariances_with_features(
                self._offsets_of(run), self.marginals[rows], steps, table, seen
            )
            weighted = table.T * self._row_weights(run)
            for label in range(n_labels):
                upper = seen[:, label].reshape(len(table), -1)[:, label * ends[-1] :]
                sums[label, :, label:] += (weighted @ upper).reshape(ends[-1], -1, ends[-1])
        for label in range(n_labels):
            sums[label + 1 :, :, label] = sums[label, :, label + 1 :].transpose(1, 2, 0)
        for number, (index, design) in enumerate(self.nodes):
            for before, (other, beside) in enumerate(self.nodes[: number + 1]):
                part = sums[:, ends[before] : ends[before + 1], :, ends[number] : ends[number + 1]]
                part = np.einsum("aibj,ap,bq->ipjq", part, _factor(beside), _factor(design), optimize=True)
                target = matrix[blocks[other].rows, blocks[index].rows]
                target += part.reshape(target.shape)

    def slopes(self, roots: np.ndarray, wanted: Sequence[int]) -> TraceSlopes:
        """Return the derivative of (1/2) tr J R^T R for rows R of roots."""
        blocks, n_columns = self.posterior.blocks, len(roots)
        parts = {
            index: np.ascontiguousarray(
                roots[:, blocks[index].rows].reshape(n_columns, *blocks[index].shape).transpose(1, 2, 0)
            ).reshape(blocks[index].shape[0], blocks[index].shape[1] * n_columns)
            for index, _ in self.nodes
        }
        edge = None
        if self.edges:
            scores = sum(_factor(design) @ roots[:, blocks[index].rows].T for index, design in self.edges)
            edge = np.ascontiguousarray(scores).reshape(self.n_labels, self.n_labels, n_columns)
        third = np.zeros_like(self.marginals)
        features = {index: np.empty((len(self.marginals), blocks[index].shape[0])) for index in wanted}

        def share(first: int, last: int) -> np.ndarray:
            edge_thirds = np.zeros((self.n_labels, self.n_labels))
            for run, rows in self.runs(first, last, n_columns):
                node = np.zeros((rows.stop - rows.start, self.n_labels, n_columns))
                for index, design in self.nodes:
                    scores = (self.table(design, rows) @ parts[index]).reshape(len(node), -1, n_columns)
                    node += np.matmul(_factor(design), scores)
                third[rows], edge_third = self.moments(run, rows, node, edge)
                edge_thirds += edge_third
                for index, design in self.nodes:
                    if index in features:
                        responses = np.matmul(_factor(design).T, node)
                        features[index][rows] = responses.reshape(len(node), -1) @ parts[index].T
            return edge_thirds

        with blas_threads(1):
            edge_third = self.workers.sum(share, self.shares())
        total = self.posterior.datafit.likelihood.family.zeros()
        total.node[...] = 0.5 * third
        if len(total.arrays) > 1:
            total.edge[0] = 0.5 * edge_third
        return TraceSlopes(total, features)


def _factor(design: LocalDesign) -> np.ndarray:
    factor = design.term.label_factor
    return np.eye(design.n_configurations) if factor is None else factor


def _pull_back(table: np.ndarray, factor: np.ndarray, responses: np.ndarray) -> np.ndarray:
    """Return Z^T R A for responses R (n, L, C), as (r, q, C)."""
    (n, rank), (n_labels, outputs), n_columns = table.shape, factor.shape, responses.shape[2]
    # Whichever is cheaper: the label factor for every row, or for every feature.
    if n * outputs * (n_labels + rank) < rank * n_labels * (n + outputs):
        rows = np.matmul(factor.T, responses)
        return (table.T @ rows.reshape(n, -1)).reshape(rank, outputs, n_columns)
    return np.matmul(factor.T, (table.T @ responses.reshape(n, -1)).reshape(rank, n_labels, n_columns))


def _slopes_in_blocks(point: Point, roots: np.ndarray, signs: np.ndarray, wanted: Sequence[int]) -> TraceSlopes:
    chains, total = BlockedChains(point), TraceSlopes.zero(point.posterior, wanted)
    for sign in (1.0, -1.0):
        chosen = roots[signs == sign]
        if len(chosen):
            part = chains.slopes(chosen, wanted)
            total.potentials.add(sign, part.potentials)
            for index, own in part.features.items():
                total.features[index] = total.features[index] + sign * own
    return total


def _slopes_one_by_one(point: Point, roots: np.ndarray, signs: np.ndarray, wanted: Sequence[int]) -> TraceSlopes:
    """Return the slopes by second differences of residuals R, whose derivative along a root d is J d.

    (1/2) d/du d^T J d = (R(u + d) - 2 R(u) + R(u - d)) / 2 for a short d: two evaluations, and no Hessian product.
    """
    posterior, datafit = point.posterior, point.posterior.datafit
    total, here = TraceSlopes.zero(posterior, wanted), point.evaluation.residual
    for root, sign in zip(roots, signs, strict=True):
        direction = posterior.potentials(root)
        step = _STEP / max(direction.largest, np.finfo(np.float64).tiny)
        share = 0.5 * sign / step**2
        for side in (1.0, -1.0):
            total.potentials.add(share, datafit.evaluate(point.potentials.plus(side * step, direction)).residual)
        total.potentials.add(-2.0 * share, here)
        if wanted:
            response, parts = datafit.hessian_response(point.evaluation, direction), posterior.blocks.split(root)
            for index in wanted:
                rows = datafit.outside_span.residuals(response, index)
                total.features[index] = total.features[index] + (sign * rows) @ parts[index].T
    return total
