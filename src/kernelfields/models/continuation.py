"""Fits continued with new sequences: the posterior of the old ones, a Gaussian around the fit, is the next prior.

    P(V) = sum over new sequences of the loss + 1/2 sum_c <V_c - M_c, K_c (V_c - M_c)>

M are the coefficients so far, K_c the prior precision and the curvature of all batches before (Laplace):

    terms with pivots    K_c = I / s + sum_t w_t z_t z_t^T, shared by labels; w_t the mean variance of a label
                         coordinate at clique t, (1 - sum_y p_t(y)^2) / q for q labels, at the fit of its batch
    constant terms       1 / s and a diagonal, sum_t p_t(y) (1 - p_t(y)) for each labelling, in label coordinates

so curvature between cliques, and between labels, is left out. In coordinates phi = C^T V with K = C C^T this is an
ordinary fit: z' = C^-1 z = (R C)^-1 k(B, x) are the features of the same pivots with the factor R C, the prior variance
is one, and its mean is mu = C^T M. Pivots are added, while the rank allows, where the squared distance of an input to
the span is more than a share of k(x, x); their coefficients are zero and have the first prior. New labels have scores
of zero, see models/label_growth.py.

    P(phi) = sum_i weight_i (log Z_i - score_i(y^i)) + 1/2 ||phi - mu||^2                 (objective/penalty.py)

The square of phi is the prior that bounds use; the rest, - mu . phi + ||mu||^2 / 2, is linear, so that the
likelihood with it is as convex as before: Lemma 9 and the bounds of several points hold as they stand.

Cost of a batch of n: its fit, O(n r^2 + r^3) for the curvature, r^2 numbers for each term to keep.
Raises ValueError for terms with explicit features, which have no small K, and for l1.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse
from numpy.typing import ArrayLike

from kernelfields.basis.subspace import LATER_INPUT, PivotSubspace, Subspace
from kernelfields.data.partial_labels import SoftTargets
from kernelfields.data.reading import Matrix, is_partial, is_sequence
from kernelfields.data.whole_numbers import concatenate_labels, labels_as_array
from kernelfields.engines.engine import PackedData
from kernelfields.models.field import Field
from kernelfields.models.label_growth import has_separate_coordinates
from kernelfields.models.model_file import Document
from kernelfields.models.placed import FittedField
from kernelfields.numerics.threads import Workers
from kernelfields.objective.bounds import Certificate
from kernelfields.objective.datafit import Datafit, choose_likelihood
from kernelfields.objective.penalty import Gauss
from kernelfields.objective.posterior import LogPosterior
from kernelfields.objective.term import Term

# The share of k(x, x) that may be left outside of the span before an input becomes a pivot.
_SHARE_OUTSIDE = 0.05
_LEAST_SHARE = 1e-10


@dataclass
class Continuation:
    """Precision of the posterior so far: (r, r) for terms with pivots, (q,) or (q, q) for constant terms."""

    precisions: list[np.ndarray]

    @classmethod
    def begin(cls, terms: Sequence[Term]) -> Continuation:
        """Return the precision of the prior."""
        return cls([_first_precision(term) for term in terms])

    def describe(self) -> Document:
        """Return arrays for a model file."""
        return {"precisions": list(self.precisions)}

    @classmethod
    def rebuild(cls, described: Document, terms: Sequence[Term]) -> Continuation:
        """Rebuild the precisions from their description; ValueError if they contradict the terms."""
        precisions = [np.asarray(each, dtype=np.float64) for each in described["precisions"]]
        firsts = [_first_precision(term) for term in terms]
        # Older files have a diagonal for every constant term.
        precisions = [
            np.diag(own) if own.ndim < first.ndim and not term.has_pivots else own
            for term, own, first in zip(terms, precisions, firsts, strict=True)
        ]
        shapes = [first.shape for first in firsts]
        if [each.shape for each in precisions] != shapes or not all(np.isfinite(each).all() for each in precisions):
            raise ValueError("the precisions of partial_fit do not fit the terms")
        return cls(precisions)

    def extend(self, terms: Sequence[Term]) -> Continuation:
        """Return precisions extended to new pivots, with the precision of the prior."""
        made = []
        for term, old in zip(terms, self.precisions, strict=True):
            new = old
            if term.has_pivots:
                new = _first_precision(term)
                new[: len(old), : len(old)] = old
            made.append(new)
        return replace(self, precisions=made)

    def learn(self, fitted: Field, data: PackedData, workers: Workers) -> Continuation:
        """Add the curvature of labelled data at the fitted field."""
        placements = [term.placement(data) for term in fitted.terms]
        likelihood = choose_likelihood(data, placements, fitted.spec, workers)
        evaluation = likelihood.evaluate(fitted.potentials(data, likelihood.family, workers))
        made = []
        for term, placement, old in zip(fitted.terms, placements, self.precisions, strict=True):
            marginals, weights = (
                likelihood.clique_marginals(evaluation, placement),
                likelihood.clique_weights(placement),
            )
            if term.has_pivots:
                own = np.eye(marginals.shape[1]) if term.label_factor is None else term.label_factor
                shares = weights * (marginals @ own**2 - (marginals @ own) ** 2).mean(axis=1)
                scaled = term.features(data) * np.sqrt(np.maximum(shares, 0.0))[:, None]
                made.append(old + scaled.T @ scaled)
            else:
                variances, factor = weights @ (marginals * (1.0 - marginals)), term.label_factor
                if factor is not None:
                    between = "yq,y,yq->q" if old.ndim == 1 else "yq,y,yp->qp"
                    variances = np.einsum(between, factor, variances, factor, optimize=True)
                made.append(old + variances)
        return replace(self, precisions=made)


def check_continues(terms: Sequence[Term]) -> None:
    """Raise ValueError if a term has no prior, or weights without curvature."""
    for term in terms:
        if not np.isfinite(term.prior_variance):
            raise ValueError(f"partial_fit needs a Gaussian prior: prior_variance of {term.name!r} is infinite")
        if not term.has_all_pairs or term.l1 or not (term.has_pivots or term.is_constant):
            raise ValueError(
                f"partial_fit keeps the curvature of terms with pivots and of constant ones, and {term.name!r} has "
                "explicit features: use a kernel without, such as 'rbf', or fit all sequences at once"
            )


def _first_precision(term: Term) -> np.ndarray:
    if term.has_pivots:
        return np.eye(term.subspace.rank) / term.prior_variance
    size = term.known.shape[1]
    return (np.ones(size) if has_separate_coordinates(term) else np.eye(size)) / term.prior_variance


def with_pivots(terms: Sequence[Term], data: PackedData, share: float = _SHARE_OUTSIDE) -> list[Term]:
    """Add pivots to fitted terms among the inputs outside the span, up to the rank."""
    spans = {id(term.subspace): term for term in terms if term.has_pivots}
    # Terms that share a subspace see the same inputs, and go on sharing it.
    grown = {place: _add_pivots(term, data, share) for place, term in spans.items()}
    return [_extend_term(term, grown.get(id(term.subspace), term.subspace)) for term in terms]


def _far_inputs(term: Term, inputs: Matrix, share: float) -> list[int]:
    """Return rows of inputs outside the span, the farthest first (pivoted Cholesky)."""
    subspace, features = term.span, term.span.features(inputs)
    diagonal = subspace.kernel.diag(inputs)
    left = diagonal - np.einsum("nr,nr->n", features, features)
    room = inputs.shape[0] if term.clique.rank is None else max(0, int(term.clique.rank) - subspace.rank)
    chosen: list[int] = []
    columns = np.empty((inputs.shape[0], 0))
    while len(chosen) < min(room, inputs.shape[0]):
        place = int(np.argmax(left / np.maximum(diagonal, _LEAST_SHARE)))
        if left[place] <= share * diagonal[place]:
            break
        row = subspace.kernel(inputs[place : place + 1], inputs).ravel() - features @ features[place]
        column = (row - columns @ columns[place]) / np.sqrt(left[place])
        columns = np.column_stack([columns, column])
        left = left - column**2
        left[place] = 0.0
        chosen.append(place)
    return chosen


def _add_pivots(term: Term, data: PackedData, share: float) -> PivotSubspace:
    """Return the subspace of a term with further pivots; the same subspace if none are needed."""
    old, inputs = term.span, term.clique.view(data)
    chosen = _far_inputs(term, inputs, share)
    if not chosen:
        return old
    more = inputs[np.array(chosen)]
    below = old.features(more)
    corner = scipy.linalg.cholesky(old.kernel(more) - below @ below.T, lower=True)
    factor = np.block([[np.asarray(old.factor), np.zeros((old.rank, len(chosen)))], [below, corner]])
    if scipy.sparse.issparse(more):
        pivots = scipy.sparse.vstack([old.pivots, more])
    else:
        pivots = np.vstack([np.asarray(old.pivots), more])
    return PivotSubspace(old.kernel, pivots, factor, np.append(old.indices, np.full(len(chosen), LATER_INPUT)))


def _extend_term(term: Term, subspace: Subspace) -> Term:
    """Return a term in a subspace with further pivots, with coefficients of zero."""
    padding = np.zeros((subspace.rank - term.subspace.rank, term.known.shape[1]))
    return replace(term, subspace=subspace, coefficients=np.vstack([term.known, padding])) if len(padding) else term


@dataclass(frozen=True)
class PosteriorPrior:
    """The posterior so far as the prior of a fit, in coordinates of unit precision; see the module.

    ``terms`` are those of the field in their own coordinates, ``moved`` the same in these; ``means`` are their
    coefficients here, one array for each term.
    """

    terms: Sequence[Term]
    roots: Sequence[np.ndarray]
    moved: Sequence[Term]
    means: Sequence[np.ndarray]

    @classmethod
    def from_terms(cls, terms: Sequence[Term], known: Continuation) -> PosteriorPrior:
        """Make the prior of terms with a precision each."""
        roots, moved, means = [], [], []
        for term, precision in zip(terms, known.precisions, strict=True):
            root = np.sqrt(precision) if precision.ndim == 1 else scipy.linalg.cholesky(precision, lower=True)
            clique = copy.copy(term.clique)
            clique.prior_variance = 1.0
            if term.has_pivots:
                subspace = replace(term.span, factor=np.tril(np.asarray(term.span.factor) @ root))
                moved.append(replace(term, clique=clique, subspace=subspace, coefficients=None))
                means.append(root.T @ term.known)
            else:
                factor = np.eye(len(root)) if term.label_factor is None else term.label_factor
                divided = root.ndim == 1
                factor = factor / root if divided else scipy.linalg.solve_triangular(root, factor.T, lower=True).T
                moved.append(replace(term, clique=clique, label_factor=factor, coefficients=None))
                means.append(term.known * root if divided else term.known @ root)
            roots.append(root)
        return cls(terms, roots, moved, means)

    def posterior(self, datafit: Datafit) -> LogPosterior:
        """Return the objective of a fit of the transformed terms."""
        mean = np.concatenate([own.ravel() for own in self.means])
        return LogPosterior(datafit, Gauss(np.ones_like(mean), mean))

    def restored(self, fitted: FittedField) -> FittedField:
        """Return a fitted field in the coordinates of its original terms.

        The bound in the span holds for the objective of this fit; of the rest of the RKHS nothing is known.
        """
        terms = []
        for term, root, part in zip(self.terms, self.roots, fitted.coefficients, strict=True):
            if root.ndim == 1:
                solved = part / root
            else:
                values = part if term.has_pivots else part.T
                values = scipy.linalg.solve_triangular(root, values, lower=True, trans="T")
                solved = values if term.has_pivots else values.T
            terms.append(term.fitted(solved))
        theta = np.concatenate([term.known.ravel() for term in terms])
        found = replace(fitted.solution, theta=theta)
        span = Certificate("span", found.value, found.lower_bound, True, found.gap_parts)
        rkhs = Certificate("rkhs", found.value, 0.0, False, found.gap_parts)
        return replace(fitted, terms=terms, solution=found, span=span, rkhs=rkhs, roundings=[])


def all_classes(known: np.ndarray, y: Any, classes: ArrayLike | None) -> np.ndarray:
    """Return the union of present classes, new labels and named labels."""
    if y is None:
        raise ValueError("partial_fit requires y to be passed, but the target y is None: give the labels of each item")
    # What is no list of labels is left to the reader, whose errors say where.
    items = [y.classes] if isinstance(y, SoftTargets) else list(y) if is_sequence(y) else []
    if any(map(is_partial, items)):
        raise ValueError("partial_fit needs labels that are all known, or SoftTargets; fit takes partly known ones")
    flat = [each for each in items if is_sequence(each) and len(each) and not any(map(is_sequence, each))]
    parts = [labels_as_array(list(labels)) for labels in flat]
    if classes is not None:
        if not is_sequence(classes) or any(label is None or is_sequence(label) or label != label for label in classes):
            raise ValueError(f"classes must be a list of labels, got {classes!r:.60}")
        parts.append(labels_as_array(classes))
    if any((part.dtype.kind in "US") != (known.dtype.kind in "US") for part in parts):
        raise ValueError(
            f"labels of another type than those of the first batch, {known[:1].tolist()[0]!r}: pass the same type"
        )
    return np.unique(concatenate_labels([known, *parts]))
