"""Datafits: the negative log-likelihood of a sample as a function of the coefficients of its terms.

For terms c with features Z_c (n_c, r_c), coefficients V_c (r_c, q_c) and label factor A_c (L^k, q_c):

    potentials   = sum_c  scatter_c(Z_c V_c A_c^T)                     half a pass over the features
    likelihood   : value, residual and Hessian response in the potentials, no pass (likelihoods/)
    pulled back  = Z_c^T gather_c(residual) A_c                        half a pass

``passes`` counts full passes over all features, a product in one term counting for its share of the stored values.
Inference and reductions are float64. Potentials, residuals and distributions are those of the data of this process,
on its threads or its device. What is a sum over all data is added up over the ``group`` of processes that share them
(group.py): every number and every array that does not have a row for each position is that of all data.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from functools import cached_property
from itertools import chain
from typing import Any, NamedTuple, Protocol

import numpy as np
import scipy.sparse

from kernelfields.inference.family import Array, LabelFamily, Potentials
from kernelfields.numerics.sparse_rows import Rows, entry_rows, is_sparse
from kernelfields.objective.coordinates import DenseSet, gram_matrix, sampled_rows, worth_a_gram_matrix
from kernelfields.objective.designs.design import (
    LocalDesign,
    has_dense_features,
    kernel_quadratic_form,
    runs_of_one_table,
    shared_pull_back,
    shared_scores,
)
from kernelfields.objective.designs.pairs import Support
from kernelfields.objective.group import ALONE, Group
from kernelfields.objective.likelihoods.expectations import Criteria, ExpectationLikelihood
from kernelfields.objective.likelihoods.fused import FusedPasses, Passes, fused_passes
from kernelfields.objective.likelihoods.likelihood import Evaluation, Likelihood, Objective, PartialLikelihood
from kernelfields.objective.stochastic import DualAscent, dual_ascent

_BLOCK_BYTES = 64 * 2**20


class StepMemory(Protocol):
    """The steps that limited-memory BFGS remembers."""

    def add(self, step: np.ndarray, change: np.ndarray, product: float) -> None:
        """Keep a step s, the change y of the gradient over it, and s . y > 0."""

    def inverse_product(self, vector: np.ndarray, free: np.ndarray | None = None) -> np.ndarray:
        """Return the quasi-Newton inverse Hessian times a vector; there must be a pair.

        With ``free`` (size,), it is that of these coordinates alone; the others are only scaled.
        """


class Summary(NamedTuple):
    """What is known of the likelihood of a part of the data, or of all of them."""

    convex: bool
    approximation: str | None
    n_items: int
    n_positions: int


class Datafit:
    """The designs of a sample, and the likelihood of its labels: what a posterior asks of labelled data."""

    #: Steps that limited-memory BFGS should remember.
    #: Beyond a hundred, letters and proteins were not fitted in fewer passes; forty take a tenth more. On a device
    #: pairs cost nothing beside a pass: there, too, a hundred took fewer iterations than forty (H200).
    usual_pairs = 100

    def __init__(self, likelihood: Objective, designs: Sequence[LocalDesign], group: Group = ALONE):
        self.likelihood = likelihood
        #: The processes that share the data.
        self.group = group
        self._parts: list[Summary] | None = None
        self.designs = list(designs)
        #: Passes over the features so far.
        self.passes = 0.0
        self._stored_values = max(1, sum(design.stored_values for design in self.designs))

    def potentials(
        self, coefficients: Sequence[np.ndarray] | Mapping[int, np.ndarray], only: Sequence[int] | None = None
    ) -> Potentials:
        """Return the potentials of the given coefficients; ``only`` names the terms that are not zero."""
        total = self.likelihood.family.zeros()
        for run in runs_of_one_table(self._chosen(only)):
            designs = [design for _, design in run]
            parts = [coefficients[index] for index, _ in run]
            scored = shared_scores(designs, parts, self.likelihood.workers)
            for design, scores in zip(designs, scored, strict=True):
                self.passes += 0.5 * design.stored_values / self._stored_values
                self.likelihood.family.add_scores(total, design, scores)
        return total

    def pull_back(self, residual: Potentials, only: Sequence[int] | None = None) -> list[np.ndarray]:
        """Turn a gradient in potentials into one in the coefficients of each term (of those in ``only``)."""
        gradients: list[np.ndarray] = []
        for run in runs_of_one_table(self._chosen(only)):
            designs = [design for _, design in run]
            self.passes += 0.5 * sum(design.stored_values for design in designs) / self._stored_values
            residuals = [self.clique_residuals(residual, design) for design in designs]
            gradients += shared_pull_back(designs, residuals, self.likelihood.workers)
        return self.group.total(gradients)

    def _chosen(self, only: Sequence[int] | None) -> list[tuple[int, LocalDesign]]:
        chosen = range(len(self.designs)) if only is None else only
        return [(index, self.designs[index]) for index in chosen]

    def evaluate(self, potentials: Potentials) -> Evaluation:
        """Return value, residual and beliefs at the given potentials; no pass over features."""
        evaluation = self._evaluated(potentials)
        evaluation.value = self.group.total(evaluation.value)
        return evaluation

    def _evaluated(self, potentials: Potentials) -> Evaluation:
        """Return the same with the value of the data of this process."""
        return self.likelihood.evaluate(potentials)

    def evaluate_along(
        self, potentials: Potentials | None, direction: Potentials, furthest: float = 0.0
    ) -> tuple[Evaluation | None, float, float]:
        """Return the evaluation at some potentials, the slope in a direction, and the largest of all ``furthest``.

        The evaluation is None where a potential is not finite, or where some process has none to evaluate.
        """
        evaluation, value, slope = None, np.inf, np.inf
        finite = potentials is not None and potentials.finite
        if self.group.size > 1 and isinstance(self.likelihood, ExpectationLikelihood):
            # What is expected is added up on the way, by all processes or by none.
            finite = all(self.group.gathered(finite))
        if potentials is not None and finite:
            evaluation = self._evaluated(potentials)
            value, slope = evaluation.value, evaluation.residual.dot(direction)
        (value, slope), furthest = self.group.total_and_largest([value, slope], furthest)
        if evaluation is None or not np.isfinite(value):
            return None, np.inf, furthest
        evaluation.value = value
        return evaluation, slope, furthest

    def largest(self, potentials: Potentials) -> float:
        """Return the largest absolute entry of potentials."""
        return self.group.largest(potentials.largest)

    def hessian_response(self, evaluation: Evaluation, direction: Potentials) -> Potentials:
        """Return the Hessian of the likelihood in the potentials times a direction."""
        return self.likelihood.hessian_response(evaluation, direction)

    def clique_residuals(self, residual: Potentials, design: LocalDesign) -> np.ndarray:
        """Return a gradient in potentials at the cliques of a term, (n, L^k); summed over them if tied."""
        return self.likelihood.family.clique_residuals(residual, design)

    def label_residuals(self, residual: Potentials, index: int) -> np.ndarray:
        """Return the residuals of a term's cliques in label coordinates, (n, q), in the order of the data."""
        if self.group.size > 1:
            raise ValueError("residuals of single positions stay with their workers: use engine='threads'")
        return self.family.read_back(self._label_residuals(residual, index))

    def _label_residuals(self, residual: Potentials, index: int) -> Array:
        """Return the same where the features are."""
        design = self.designs[index]
        return design.in_coordinates(self.clique_residuals(residual, design))

    def residual_norms(self, residual: Potentials, index: int) -> np.ndarray:
        """Return the norms of the residuals of a term's cliques in label coordinates, (n,)."""
        rows = self._label_residuals(residual, index)
        return np.sqrt(self.family.read_back((rows * rows).sum(axis=1)))

    def outside_bound(self, residual: Potentials, index: int) -> float:
        """Return a bound on the squared norm of a term's gradient outside the span of its pivots; free."""
        origin = self.designs[index].origin
        if origin is None:
            return 0.0
        return self.group.total(origin.outside_bound(self.residual_norms(residual, index))) ** 2

    def outside_gradient(self, residual: Potentials, index: int) -> float:
        """Return the squared norm of a term's gradient outside the span, exactly: O(n^2) kernel values."""
        design = self.designs[index]
        if design.origin is None:
            return 0.0
        if self.group.size > 1:
            raise ValueError(
                "exact certificates over the RKHS need kernel values between all inputs, which workers do not bring "
                "together: use the free bound, or engine='threads'"
            )
        inside = design.pull_back(self.clique_residuals(residual, design))
        whole = kernel_quadratic_form(design.origin.kernel, design.origin.inputs, self.label_residuals(residual, index))
        return max(whole - float(np.vdot(inside, inside)), 0.0)

    def largest_left_outside(self, index: int) -> float:
        """Return the largest k(x, x) - ||z(x)||^2 of a term over the data; zero where no pivots span it."""
        origin = self.designs[index].origin
        return 0.0 if origin is None else self.group.largest(float(origin.residual_diagonal.max(initial=0.0)))

    def feature_rounding(self, residual: Potentials, index: int, coefficients: np.ndarray) -> float:
        """Return about how the value would change if a term's features were not rounded."""
        design = self.designs[index]
        if design.origin is None or design.dtype == np.float64:
            return 0.0
        dual, residuals = design.term.span.dual_coefficients(coefficients), self._label_residuals(residual, index)
        own = design.origin.rounding(
            design.features, coefficients, dual, lambda rows: self.family.read_back(residuals[rows])
        )
        return self.group.total(own)

    def frozen(self, coefficients: Sequence[np.ndarray]) -> Datafit:
        """Return the convex likelihood of the labels as they are completed at some coefficients."""
        if self.convex:
            return self
        return self.completed_by(self.likelihood.frozen(self.potentials(coefficients)))

    def completed_by(self, completed: Objective) -> Datafit:
        """Return the same designs with the likelihood of completed labels, in passes like those of this one."""
        frozen = self.with_likelihood(completed)
        frozen.fused = None
        if isinstance(self.fused, FusedPasses) and isinstance(completed, Likelihood):
            frozen.fused = self.fused.frozen(completed)
        return frozen

    def with_likelihood(self, likelihood: Objective) -> Datafit:
        """Return the same designs with another likelihood of the labels."""
        other = copy.copy(self)
        other.likelihood, other._parts = likelihood, None
        vars(other).pop("fused", None)
        return other

    def with_criteria(self, criteria: Any) -> Datafit:
        """Return the same designs with what is asked of data without labels added to their likelihood.

        These are Criteria of all data, or make those of a part of them by ``of(data)``.
        """
        assert isinstance(self.likelihood, Likelihood | PartialLikelihood), "criteria are added once"
        if not isinstance(criteria, Criteria):
            criteria = criteria.of(self.likelihood.data)
        elif self.group.size > 1:
            criteria = criteria.part(self._own_rows)
        return self.with_likelihood(ExpectationLikelihood(self.likelihood, criteria, self.group))

    def set_log_weights(self, log_weights: np.ndarray) -> None:
        """Put other log-weights (N, L) in the place of what is known of labels; only where some are not known."""
        own = log_weights[self._own_rows]
        if self.group.size > 1 and not isinstance(self.likelihood, PartialLikelihood):
            # All labels are known in this process at first, and not in others.
            known = self.likelihood.whole or self.likelihood
            self.likelihood = PartialLikelihood(known.family, own, known.weights, known.workers)
        self.partial_likelihood.set_log_weights(own)
        self._parts = None
        if isinstance(self.fused, FusedPasses):
            self.fused.set_log_weights(own)

    def set_targets(self, targets: Potentials) -> None:
        """Put targets in the place of completed labels wherever these are frozen; until log-weights are set again."""
        self.partial_likelihood.targets = targets

    def completed(self, potentials: Potentials, weights: np.ndarray | None = None) -> Potentials:
        """Return the expected statistics given what is known, of items with some weights (S,), their own for None."""
        return self.partial_likelihood.completed(potentials, None if weights is None else weights[self._own_items])

    def label_rows(self, targets: Potentials) -> np.ndarray:
        """Return the statistics of single labels at all positions, (N, L)."""
        return self.group.joined(self.family.read_back(targets.node))

    def completed_labels(self, potentials: Potentials) -> tuple[np.ndarray, np.ndarray]:
        """Return the probabilities of labels given what is known, (N, L), and the most probable labelling, (N,)."""
        likelihood = self.partial_likelihood
        family, workers = likelihood.known_family, likelihood.workers
        marginals = family.read_back(family.at(potentials, workers=workers).marginals())
        return self.group.joined(marginals), self.group.joined(family.best(potentials, workers)[0])

    def fitted_to(self, targets: Potentials, weights: np.ndarray) -> Datafit:
        """Return the convex likelihood of targets, of items with some weights (S,)."""
        return self.completed_by(Likelihood(self.family, targets, weights[self._own_items], self.likelihood.workers))

    @property
    def item_weights(self) -> np.ndarray:
        """The weight of every item, (S,)."""
        return self.group.joined(self.likelihood.weights)

    @property
    def summaries(self) -> list[Summary]:
        """What is known of the likelihoods of all processes."""
        if self._parts is None:
            own, family = self.likelihood, self.likelihood.family
            # Labels that meet no others are items of their own where some are not known.
            items = family if own.whole is None else own.whole.family
            sizes = items.n_items, family.n_positions
            self._parts = self.group.gathered(Summary(bool(own.convex), own.approximation, *sizes))
        return self._parts

    @property
    def convex(self) -> bool:
        """Whether the likelihood is convex in the coefficients."""
        return all(part.convex for part in self.summaries)

    @property
    def approximation(self) -> str | None:
        """How approximate inference is called; None where it is exact."""
        return next((part.approximation for part in self.summaries if part.approximation is not None), None)

    @property
    def value_at_zero(self) -> float:
        """The value where all potentials are zero and all labellings that are allowed equally likely."""
        return self.group.total(float(self.likelihood.value_at_zero))

    @property
    def n_items(self) -> int:
        """Number of sequences, graphs or instances."""
        return sum(part.n_items for part in self.summaries)

    @property
    def n_positions(self) -> int:
        """Number of positions, nodes or labels of instances."""
        return sum(part.n_positions for part in self.summaries)

    @property
    def _own_items(self) -> slice:
        return self.group.share_of([part.n_items for part in self.summaries])

    @property
    def _own_rows(self) -> slice:
        return self.group.share_of([part.n_positions for part in self.summaries])

    @property
    def partial_likelihood(self) -> PartialLikelihood:
        """The likelihood, where labels are partly known."""
        assert isinstance(self.likelihood, PartialLikelihood), "all labels are known"
        return self.likelihood

    @property
    def family(self) -> LabelFamily:
        """The family of labellings of the data: how labels are inferred."""
        return self.likelihood.family

    @property
    def warnings(self) -> list[str]:
        """What inference reported of its last answer."""
        if self.group.size == 1:
            return self.likelihood.warnings
        return list(dict.fromkeys(chain.from_iterable(self.group.gathered(self.likelihood.warnings))))

    def start_curvature(self, index: int) -> float:
        """Return about how curved the likelihood is in one coordinate of a term, before any label is known."""
        design = self.designs[index]
        weights = self.likelihood.clique_weights(design)
        count = self.likelihood.family.correlated_cliques(design, len(weights))
        own = design.start_curvature(count) if len(weights) else 0.0
        curvature, weight, number = self.group.total([own, float(weights.sum()), len(weights)])
        return curvature * (weight / number) if number else 0.0

    def curvature_diagonal(self, evaluation: Evaluation, index: int) -> np.ndarray | None:
        """Return sum_t z_tf^2 p (1 - p) for every coefficient of a term of sparse weights; None for other terms.

        This is the diagonal of eq. 30 where coefficients belong to single labels; half a pass.
        """
        design = self.designs[index]
        if design.labels_per_clique != 1 or not design.sparse:
            return None
        marginals = self.likelihood.clique_marginals(evaluation, design)
        variances = marginals * (1.0 - marginals) * self.likelihood.clique_weights(design)[:, None]
        self.passes += 0.5 * design.stored_values / self._stored_values
        return self.group.total(design.squared_pull_back(variances, self.likelihood.workers))

    def curvature_block(self, evaluation: Evaluation, index: int) -> np.ndarray:
        """Return eq. 30 without the prior: within-clique covariances of one term, (r q, r q).

        In the order of coefficients V.ravel(). With a support its pairs only, (P, P).
        """
        design = self.designs[index]
        marginals = self.likelihood.clique_marginals(evaluation, design)
        weights = self.likelihood.clique_weights(design)
        if self.group.size > 1 and self.family.group(design.group).items is None:
            # Cliques that belong to no item, as durations, are the same in all processes: means over all positions.
            sums = self.group.total(self.family.read_back(marginals * weights[:, None]))
            weights = self.group.total(weights)
            return self._curvature_block(design, sums / weights[:, None], weights)
        return self.group.total(self._curvature_block(design, marginals, weights))

    def _curvature_block(self, design: LocalDesign, marginals: Array, weights: Array) -> np.ndarray:
        """Return the same for the marginals (n, L^k) and the weights (n,) of the cliques of a term."""
        support, features, read_back = design.term.support, design.features, self.family.read_back
        if support.listing is not None:
            return np.diag(weights @ marginals) - (marginals * weights[:, None]).T @ marginals
        if is_sparse(features):
            marginals, weights = read_back(marginals), read_back(weights)
        factor = design.labels_like(marginals)
        if features is None:
            means = marginals @ factor
            squares = factor.T @ ((weights @ marginals)[:, None] * factor)
            block = read_back(squares - (means * weights[:, None]).T @ means)
            return support.restricted(block)
        if isinstance(support, Support):
            return supported_curvature(features, support.features, support.outcomes, marginals, weights)
        return within_clique_curvature(features, factor, marginals, weights)

    @cached_property
    def fused(self) -> Passes | None:
        """Passes that keep nothing per position, for sparse fields with a support; None for others."""
        return fused_passes(self.likelihood, self.designs) if self.group.size == 1 else None

    def dual_ascent(self) -> DualAscent | None:
        """Return stochastic ascent of the dual of this objective, or None if it is not of the kind for it."""
        return dual_ascent(self.likelihood, self.designs) if self.group.size == 1 else None

    def step_pairs(self, limit: int, metric: np.ndarray, dense: Sequence[DenseSet]) -> StepMemory | None:
        """Return room of its own for the steps that limited-memory BFGS remembers; None for the host's.

        ``metric`` (size,) measures the coefficients, a Gram matrix those of the ``dense`` sets.
        """
        return None

    def feature_curvature(self, index: int) -> float:
        """Return the scale of a term's Gram matrix in the metric of its coefficients; zero if it is not worth one."""
        design = self.designs[index]
        if not has_dense_features(design):
            return 0.0
        weights = self.likelihood.clique_weights(design)
        weight, number = self.group.total([float(weights.sum()), len(weights)])
        if not worth_a_gram_matrix(int(number), *design.shape):
            return 0.0
        return weight / number * design.label_share / design.n_configurations

    def feature_gram(self, index: int) -> np.ndarray:
        """Return the lower half of about Z^T Z of a term with dense features, (r, r), from some of the rows."""
        features = self.designs[index].features
        rows = sampled_rows(features.shape[0], features.shape[1], self.group)
        return self.group.total(self._gram_of_rows(index, rows))

    def _gram_of_rows(self, index: int, sampled: slice) -> np.ndarray:
        """Return the same from some of the rows that are here."""
        return gram_matrix(self.designs[index].features, sampled)


def within_clique_curvature(
    features: Rows, factor: np.ndarray, marginals: np.ndarray, weights: np.ndarray
) -> np.ndarray:
    """Return sum_t weight_t (A^T Cov_t A) kron (z_t z_t^T) for features (n, r), in the order V.ravel(), (r q, r q).

    Cov_t are the covariances of the one-hot labellings of a clique under its marginals (n, L^k).
    """
    rank, outputs = features.shape[1], factor.shape[1]
    block = np.zeros((rank, outputs, rank, outputs))
    means = marginals @ factor
    for i in range(outputs):
        for j in range(i + 1):
            covariances = marginals @ (factor[:, i] * factor[:, j]) - means[:, i] * means[:, j]
            product = _product(features, features, covariances * weights)
            block[:, i, :, j] = product
            block[:, j, :, i] = product.T
    return block.reshape(rank * outputs, rank * outputs)


def supported_curvature(
    features: scipy.sparse.csr_array,
    columns: np.ndarray,
    outcomes: np.ndarray,
    marginals: np.ndarray,
    weights: np.ndarray,
    block_bytes: int = _BLOCK_BYTES,
) -> np.ndarray:
    """Return the same for P pairs alone, each a column of the features (n, r) and a labelling, (P, P).

    Cov_t = diag(m_t) - m_t m_t^T: one product for each labelling, less one of all pairs' z_t m_t, some columns of
    ``block_bytes`` at a time.
    """
    size, pairs = len(columns), features[:, columns].tocsr()
    pairs.data = pairs.data * marginals[entry_rows(pairs), outcomes[pairs.indices]]
    block = np.empty((size, size))
    step = max(1, block_bytes // (8 * max(1, size)))
    for begin in range(0, size, step):
        part = slice(begin, begin + step)
        np.negative(_product(pairs, pairs[:, part], weights), out=block[:, part])
    for outcome in np.unique(outcomes):
        places = np.flatnonzero(outcomes == outcome)
        own = features[:, columns[places]]
        block[np.ix_(places, places)] += _product(own, own, weights * marginals[:, outcome])
    return block


def _product(left: Rows, right: Rows, scale: np.ndarray) -> np.ndarray:
    """Return left^T diag(scale) right; a table on a device is on both sides."""
    if hasattr(left, "weighted_gram"):
        return left.weighted_gram(scale)
    if is_sparse(right):
        product = left.T @ (scipy.sparse.diags_array(scale) @ right)
        return product.toarray() if is_sparse(product) else product
    return left.T @ (right * scale[:, None])
