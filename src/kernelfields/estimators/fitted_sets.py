"""Fitted clique sets: from inputs to scores of their cliques, and how good they can be at best.

scores(x) = z(view(x)) V A^T
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse

from kernelfields.basis import ConstantSubspace, PivotSubspace, Support
from kernelfields.basis.quadratic_form import kernel_quadratic_form
from kernelfields.engines import Engine, Evaluation, GraphLayout, Likelihood, Placement, Potentials, Threads
from kernelfields.engines.pair_table import PairLayout, PairScorer, PairTable
from kernelfields.estimators.spaces import viewed_inputs
from kernelfields.fields import CliqueSet, Graphs
from kernelfields.inference.workers import Workers
from kernelfields.posterior.certificate import Certificate
from kernelfields.posterior.penalty import penalty, penalty_gap


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

    def placement(self, fields: Any) -> Placement:
        """Return where the cliques of this set stand in chains or graphs."""
        clique = self.clique
        return Placement(clique.labels_per_clique, clique.group, clique.positions(fields), self.tied_everywhere)

    def in_labels(self, values: np.ndarray) -> np.ndarray:
        """Map (n, q) values in label coordinates to (n, L^k) values per label."""
        return values if self.label_factor is None else values @ self.label_factor.T

    def in_coordinates(self, residuals: np.ndarray) -> np.ndarray:
        """Map (n, L^k) residuals per label to (n, q) label coordinates."""
        return residuals if self.label_factor is None else residuals @ self.label_factor

    def scores(self, fields: Any, workers: Workers, engine: Engine | None = None) -> np.ndarray:
        """Return the potentials of this set's cliques, (n, L^k); one row if they are all alike.

        ``engine`` says where kernels are computed; None for this process.
        """
        if self.tied_everywhere:
            return self.tied_scores
        if self.support is not None:
            return self._scorer.scores(self.features(fields), workers)
        inputs = viewed_inputs(self.clique, fields)
        return self.in_labels((engine or Threads()).scores(self.subspace, inputs, self.coefficients))

    @cached_property
    def _scorer(self) -> PairScorer:
        # Laid out once: labelling one short sequence costs less than the layout.
        assert self.support is not None
        return PairScorer(PairLayout(self.support), self.coefficients)

    def features(self, fields: Any) -> Any:
        """Return the features of this set's cliques on chains or graphs; CSR for a set with a support."""
        features = self.subspace.features(viewed_inputs(self.clique, fields))
        return features if self.support is None else scipy.sparse.csr_array(features)


def graph_potentials(
    sets: Sequence[FittedSet], fields: Any, graphs: Graphs, n_labels: int, workers: Workers
) -> tuple[GraphLayout, Potentials]:
    """Return the potentials of fitted sets on graphs, and their layout; ``fields`` holds what the sets see.

    Sets that share a subspace, as the labels of a multi-label field do, share the work of its features.
    """
    placements = [each.placement(fields) for each in sets]
    layout = GraphLayout(graphs, n_labels, placements)
    potentials = layout.zeros()
    subspaces = [id(each.subspace) for each in sets]
    shared: dict[int, Any] = {}
    for each, placement in zip(sets, placements, strict=True):
        key = id(each.subspace)
        if each.tied_everywhere or each.support is not None or subspaces.count(key) == 1:
            scores = each.scores(fields, workers)
        else:
            if key not in shared:
                shared[key] = each.features(fields)
            scores = each.in_labels(shared[key] @ each.coefficients)
        layout.add_scores(potentials, placement, scores)
    return layout, potentials


def certify_sets(
    sets: Sequence[FittedSet], fields: Any, likelihood: Likelihood, evaluation: Evaluation, scope: str
) -> Certificate:
    """Return the exact certificate of a field over the span or the whole RKHS; see posterior/certificate.py."""
    value = evaluation.value
    parts = {}
    for each in sets:
        variance = each.clique.prior_variance
        rows = likelihood.layout.clique_residuals(evaluation.residual, each.placement(fields))
        residuals = each.in_coordinates(rows)
        if isinstance(each.subspace, PivotSubspace) and scope == "rkhs":
            norm, gradient = _rkhs_norm_and_gradient(each, fields, residuals)
            value += 0.5 * norm / variance
            parts[each.name] = 0.5 * variance * max(gradient, 0.0)
        else:
            slope = _slope(each, fields, residuals, likelihood.workers)
            value += penalty(each.coefficients, variance, each.clique.l1)
            parts[each.name] = penalty_gap(each.coefficients, slope, variance, each.clique.l1)
    # The objective is never negative: all that is known where a prior is missing and the parts are infinite.
    return Certificate(scope, value, max(0.0, value - sum(parts.values())), True, parts)


def _rkhs_norm_and_gradient(each: FittedSet, fields: Any, residuals: np.ndarray) -> tuple[float, float]:
    """Return ||f||^2 and the squared norm of the gradient of one set, in the whole RKHS."""
    variance, coefficients = each.clique.prior_variance, each.coefficients
    inputs = viewed_inputs(each.clique, fields)
    dual = each.subspace.dual_coefficients(coefficients)
    kernel, pivots = each.subspace.kernel, each.subspace.pivots
    norm = float(np.vdot(dual, kernel(pivots) @ dual))
    cross = float(np.vdot(each.subspace.apply(inputs, coefficients), residuals))
    quadratic = kernel_quadratic_form(kernel, inputs, residuals)
    return norm, norm / variance**2 + 2.0 * cross / variance + quadratic


def _slope(each: FittedSet, fields: Any, residuals: np.ndarray, workers: Workers) -> np.ndarray:
    """Return the gradient of the likelihood in the coefficients of one set."""
    if each.tied_everywhere:
        return residuals if each.support is None else residuals[0, each.support.outcomes][:, None]
    if each.support is not None:
        return PairTable(each.features(fields), each.support).transposed_product(residuals, workers)
    return each.features(fields).T @ residuals
