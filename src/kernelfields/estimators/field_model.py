"""A fitted field: from inputs to potentials, the same road for prediction, scoring and certificates.

potentials(x) = sum_c scatter_c( z_c(view_c(x)) V_c A_c^T ) + constraints
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse

from kernelfields.basis import ConstantSubspace, PivotSubspace, Support
from kernelfields.engines import ChainLikelihood, Potentials
from kernelfields.engines.pair_table import PairLayout, PairScorer, PairTable
from kernelfields.estimators.spaces import viewed_inputs
from kernelfields.fields import Chains, CliqueSet, ConstraintMasks
from kernelfields.inference.workers import Workers
from kernelfields.posterior.certificate import Certificate, kernel_quadratic_form
from kernelfields.posterior.penalty import penalty, penalty_gap

# Per-position transition scores of a batch stay below this many bytes.
_EDGE_BYTES = 256 * 2**20
_BATCH_POSITIONS = 200_000


@dataclass
class FittedSet:
    """One clique set of a fitted field."""

    clique: CliqueSet
    name: str
    subspace: Any
    label_factor: np.ndarray | None
    coefficients: np.ndarray
    support: Support | None = None

    @property
    def tied_everywhere(self) -> bool:
        """Whether the potential does not depend on the inputs."""
        return isinstance(self.subspace, ConstantSubspace)

    @property
    def label_coefficients(self) -> Any:
        """Coefficients per label or pair of labels, (r, L^k): V A^T; a sparse matrix if there is a support."""
        if self.support is not None:
            return self.support.matrix(self.coefficients)
        return self.in_labels(self.coefficients)

    @property
    def tied_scores(self) -> np.ndarray:
        """The potential of a set that does not depend on the inputs, (1, L^k)."""
        return self.label_coefficients if self.support is None else self.support.row(self.coefficients)

    def in_labels(self, values: np.ndarray) -> np.ndarray:
        """Map (n, q) values in label coordinates to (n, L^k) values per label."""
        return values if self.label_factor is None else values @ self.label_factor.T

    def in_coordinates(self, residuals: np.ndarray) -> np.ndarray:
        """Map (n, L^k) residuals per label to (n, q) label coordinates."""
        return residuals if self.label_factor is None else residuals @ self.label_factor

    def scores(self, chains: Chains, workers: Workers) -> np.ndarray:
        """Return the potentials of this set's cliques, (n, L^k); one row if they are all alike."""
        if self.tied_everywhere:
            return self.tied_scores
        if self.support is not None:
            return self._scorer.scores(self.features(chains), workers)
        return self.in_labels(self.subspace.apply(viewed_inputs(self.clique, chains), self.coefficients))

    @cached_property
    def _scorer(self) -> PairScorer:
        # Laid out once: labelling one short sequence costs less than the layout.
        assert self.support is not None
        return PairScorer(PairLayout(self.support), self.coefficients)

    def features(self, chains: Chains) -> Any:
        """Return the features of this set's cliques on chains; CSR for a set with a support."""
        features = self.subspace.features(viewed_inputs(self.clique, chains))
        return features if self.support is None else scipy.sparse.csr_array(features)


@dataclass
class FieldModel:
    """All clique sets of a fitted chain field and its constraints."""

    sets: list[FittedSet]
    n_labels: int
    masks: ConstraintMasks

    @property
    def tied(self) -> bool:
        """Whether one transition matrix serves all positions."""
        return all(each.tied_everywhere for each in self.sets if each.clique.labels_per_clique == 2)

    def potentials(
        self, chains: Chains, *, constrained: bool = True, workers: Workers | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return node (N, L) and edge (1 or N, L, L) potentials of chains."""
        workers = workers or Workers(1)
        n_labels = self.n_labels
        node = np.zeros((chains.n_positions, n_labels))
        edge = np.zeros((1 if self.tied else chains.n_positions, n_labels, n_labels))
        for each in self.sets:
            scores = each.scores(chains, workers)
            positions = each.clique.positions(chains)
            if each.clique.labels_per_clique == 2:
                scores = scores.reshape(-1, n_labels, n_labels)
                if each.tied_everywhere:
                    edge += scores
                else:
                    edge[positions] += scores
            elif positions is None:
                node += scores
            else:
                node[positions] += scores
        if constrained and self.masks.any:
            self.masks.apply(node, chains.offsets)
            edge = edge + self.masks.edge
        return node, edge

    def batches(self, chains: Chains) -> Iterator[Chains]:
        """Cut chains into batches whose potentials fit in memory, whole sequences each."""
        limit = _BATCH_POSITIONS
        if not self.tied:
            limit = max(1, min(limit, _EDGE_BYTES // (8 * self.n_labels**2)))
        begin = 0
        while begin < chains.n_sequences:
            reach = int(np.searchsorted(chains.offsets, chains.offsets[begin] + limit, side="right")) - 1
            end = min(max(reach, begin + 1), chains.n_sequences)
            yield chains if end - begin == chains.n_sequences else chains.subset(slice(begin, end))
            begin = end

    def certify(self, chains: Chains, workers: Workers, scope: str = "rkhs") -> Certificate:
        """Return the exact certificate over the span or the whole RKHS; see posterior/certificate.py."""
        likelihood = ChainLikelihood(chains, self.n_labels, tied=self.tied, masks=self.masks, workers=workers)
        evaluation = likelihood.evaluate(Potentials(*self.potentials(chains, constrained=False)))
        value = evaluation.value
        parts = {}
        for each in self.sets:
            variance = each.clique.prior_variance
            residuals = each.in_coordinates(_clique_residuals(each, chains, evaluation.residual))
            if isinstance(each.subspace, PivotSubspace) and scope == "rkhs":
                norm, gradient = _rkhs_norm_and_gradient(each, chains, residuals)
                value += 0.5 * norm / variance
                parts[each.name] = 0.5 * variance * max(gradient, 0.0)
            else:
                slope = _slope(each, chains, residuals, workers)
                value += penalty(each.coefficients, variance, each.clique.l1)
                parts[each.name] = penalty_gap(each.coefficients, slope, variance, each.clique.l1)
        # The objective is never negative: all that is known where a prior is missing and the parts are infinite.
        return Certificate(scope, value, max(0.0, value - sum(parts.values())), True, parts)


def _clique_residuals(each: FittedSet, chains: Chains, residual: Any) -> np.ndarray:
    """Return the residuals of a set's cliques, (n, L^k); their sum if the potential is tied."""
    rows = residual.node if each.clique.labels_per_clique == 1 else residual.edge
    positions = each.clique.positions(chains)
    if positions is not None and len(rows) == chains.n_positions:
        rows = rows[positions]
    rows = rows.reshape(len(rows), math.prod(rows.shape[1:]))
    return rows.sum(axis=0, keepdims=True) if each.tied_everywhere else rows


def _rkhs_norm_and_gradient(each: FittedSet, chains: Chains, residuals: np.ndarray) -> tuple[float, float]:
    """Return ||f||^2 and the squared norm of the gradient of one set, in the whole RKHS."""
    variance, coefficients = each.clique.prior_variance, each.coefficients
    inputs = viewed_inputs(each.clique, chains)
    dual = each.subspace.dual_coefficients(coefficients)
    kernel, pivots = each.subspace.kernel, each.subspace.pivots
    norm = float(np.vdot(dual, kernel(pivots) @ dual))
    cross = float(np.vdot(each.subspace.apply(inputs, coefficients), residuals))
    quadratic = kernel_quadratic_form(kernel, inputs, residuals)
    return norm, norm / variance**2 + 2.0 * cross / variance + quadratic


def _slope(each: FittedSet, chains: Chains, residuals: np.ndarray, workers: Workers) -> np.ndarray:
    """Return the gradient of the likelihood in the coefficients of one set."""
    if each.tied_everywhere:
        return residuals if each.support is None else residuals[0, each.support.outcomes][:, None]
    if each.support is not None:
        return PairTable(each.features(chains), each.support).transposed_product(residuals, workers)
    return each.features(chains).T @ residuals
