"""Coefficients drawn from the posterior around a fit: the potentials they give on new data, and their variances.

    Var f(x, y) = sum_k <phi(x, y), d_k>^2 + s (k(x, x) - ||z(x)||^2) k_y(y, y)

for deviations d_k with sum_k d_k d_k^T the covariance of the coefficients: rows of a root of H^-1, or samples less
their mean. Features of new inputs are computed once for all samples; each sample then costs a product and a pass
of inference. The last term is for what the basis leaves out beyond ``left_out``, see :class:`LaplaceSamples`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from kernelfields.basis import PivotSubspace
from kernelfields.engines import Potentials
from kernelfields.engines.likelihood import Layout
from kernelfields.estimators.fitted_sets import FittedSet
from kernelfields.estimators.spaces import viewed_inputs
from kernelfields.posterior.laplace import Evidence

# Nudges along deviations are this long: derivatives by central differences, their error its square.
_NUDGE = 1e-3


@dataclass
class LaplaceSamples:
    """Evidence of a fitted field, and coefficients drawn around it: for each set (n_samples, r, q).

    ``seed`` is for what a sample says about inputs outside the span of the basis. Where the Hessian was spelled
    out, ``root`` holds, for each set, rows of a root of the covariance, (size, r, q), over the features that
    training inputs have: those numbered in ``seen``, or all where it is None. ``beyond_basis`` says whether the
    part of a function that the basis cannot express keeps its prior variance, or is taken to be zero; of this
    variance each set gives up ``left_out``, where it is not None. ``rise`` is how far above the mode draws lie, as
    a multiple of what the Gaussian says. With a ``step`` potentials are not those of the draws, but of the fit
    moved along them, ahead and back.
    """

    evidence: Evidence
    method: str
    samples: list[np.ndarray]
    seed: int = 0
    root: list[np.ndarray] | None = None
    seen: list[np.ndarray | None] | None = None
    beyond_basis: bool = True
    left_out: list[float] | None = None
    rise: float | None = None
    step: float | None = None

    @property
    def n_samples(self) -> int:
        """How many coefficients were drawn."""
        return len(self.samples[0])

    def deviations(self) -> list[tuple[np.ndarray, np.ndarray | None]]:
        """Return d_k of each set, (k, r, q), and the features they are for, None for all.

        The covariance of coefficients is the sum of d_k d_k^T.
        """
        if self.root is not None and self.seen is not None:
            return list(zip(self.root, self.seen, strict=True))
        return [(moved, None) for moved in self.spread()]

    def spread(self) -> list[np.ndarray]:
        """Return the samples of each set less their mean, (n_samples, r, q); their squares sum to variances."""
        if self.n_samples < 2:
            raise ValueError("variances need 2 samples at least: call laplace(X, y, n_samples=50)")
        scale = 1.0 / np.sqrt(self.n_samples - 1.0)
        return [scale * (drawn - drawn.mean(axis=0)) for drawn in self.samples]

    def nudged(self) -> LaplaceSamples:
        """Return samples whose potentials are those of the fit moved a little along each draw, ahead and back."""
        return replace(self, step=_NUDGE)

    def outside(self, number: int, each: FittedSet, fields: Any, features: Any) -> np.ndarray | None:
        """Return the deviation of what the basis of a set leaves out of new inputs, (n,); None for nothing."""
        free = left_out_variances(each, fields, features) if self.beyond_basis else None
        if free is None:
            return None
        return np.sqrt(np.maximum(free - (self.left_out[number] if self.left_out else 0.0), 0.0))

    def describe(self) -> dict[str, Any]:
        """Return plain values and arrays for a model file."""
        entries = {name: value for name, value in vars(self).items() if name != "step"}
        return {**entries, "evidence": asdict(self.evidence)}

    @classmethod
    def rebuild(cls, description: dict[str, Any], sets: Sequence[FittedSet]) -> LaplaceSamples:
        """Return what was described; ValueError if it does not fit the sets."""
        found = cls(**{**description, "evidence": Evidence(**description["evidence"])})
        if [each.shape[1:] for each in found.samples] != [each.coefficients.shape for each in sets]:
            raise ValueError("the samples of coefficients do not fit the clique sets")
        for each, (moved, seen) in zip(sets, found.deviations() if found.root else [], strict=bool(found.root)):
            expected = each.coefficients.shape if seen is None else (len(seen), each.coefficients.shape[1])
            if moved.shape[1:] != expected:
                raise ValueError("the covariance of coefficients does not fit the clique sets")
        return found


def sampled_potentials(
    sets: Sequence[FittedSet], fields: Any, layout: Layout, samples: LaplaceSamples
) -> Iterator[Potentials]:
    """Yield the potentials of each sample of coefficients on chains or graphs.

    Away from the pivots a function of the kernel is as free as the prior lets it be: with ``beyond_basis`` the
    part of f(x) that the basis cannot express has the variance s (k(x, x) - ||z(x)||^2), and is drawn for each
    input by itself. Nudged samples yield two potentials each.
    """
    placements = [each.placement(fields) for each in sets]
    features = _features(sets, fields)
    outside = [
        samples.outside(number, each, fields, rows)
        for number, (each, rows) in enumerate(zip(sets, features, strict=True))
    ]
    random = np.random.default_rng(samples.seed)
    centre = layout.zeros()
    moved = samples.samples
    if samples.step is not None:
        moved = samples.spread()
        for each, place, rows in zip(sets, placements, features, strict=True):
            layout.add_scores(centre, place, _scores(each, rows, each.coefficients))
    for number in range(samples.n_samples):
        potentials = layout.zeros()
        for each, place, rows, free, drawn in zip(sets, placements, features, outside, moved, strict=True):
            scores = _scores(each, rows, drawn[number])
            if free is not None:
                noise = random.standard_normal((len(free), drawn.shape[2]))
                if samples.step is not None:
                    noise /= np.sqrt(samples.n_samples)
                scores = scores + each.in_labels(free[:, None] * noise)
            layout.add_scores(potentials, place, scores)
        if samples.step is None:
            yield potentials
        else:
            yield centre.moved(samples.step, potentials)
            yield centre.moved(-samples.step, potentials)


def label_variances(
    sets: Sequence[FittedSet],
    fields: Any,
    n_labels: int,
    samples: LaplaceSamples,
    against: np.ndarray | None = None,
) -> np.ndarray:
    """Return the posterior variances of the potentials of single labels, (N, L), on chains or graphs.

    With ``against``, a label (N,) for each position, the variances of the differences to its potential.
    """
    graphs = getattr(fields, "graphs", fields)  # labels of instances are graphs beside the inputs
    single = [number for number, each in enumerate(sets) if each.clique.labels_per_clique == 1]
    features = _features([sets[number] for number in single], fields)
    deviations = samples.deviations()
    variances = np.zeros((graphs.n_positions, n_labels))
    chosen = []
    for number, rows in zip(single, features, strict=True):
        each, (moved, seen) = sets[number], deviations[number]
        positions = each.clique.positions(fields)
        place = slice(None) if positions is None else positions
        free = samples.outside(number, each, fields, rows) if seen is None else _unseen(each, rows, seen)
        if free is not None:
            variances[place] += np.square(free)[:, None] * _shares(each, n_labels, against, place)
        chosen.append((each, moved, place, rows if seen is None else rows[:, seen]))
    for number in range(len(chosen[0][1])):
        total = np.zeros_like(variances)
        for each, moved, place, rows in chosen:
            total[place] += _scores(each, rows, moved[number])
        if against is not None:
            total -= np.take_along_axis(total, against[:, None], axis=1)
        variances += np.square(total)
    return variances


def _features(sets: Sequence[FittedSet], fields: Any) -> list[Any]:
    """Return the features of each set, None for constant ones; sets of one subspace share them."""
    shared: dict[int, Any] = {}
    for each in sets:
        if id(each.subspace) not in shared:
            shared[id(each.subspace)] = None if each.tied_everywhere else each.features(fields)
    return [shared[id(each.subspace)] for each in sets]


def _scores(each: FittedSet, features: Any, coefficients: np.ndarray) -> np.ndarray:
    """Return the scores of a set's cliques for some coefficients, (n, L^k); one row if they are all alike."""
    if each.support is not None:
        if features is None:
            return each.support.row(coefficients)
        return (features @ each.support.matrix(coefficients)).toarray()
    return each.in_labels(coefficients if features is None else features @ coefficients)


def _shares(each: FittedSet, n_labels: int, against: np.ndarray | None, place: Any) -> np.ndarray:
    """Return what labels, or their differences to a label, have of the prior variance of a set, (n or 1, L)."""
    kernel = np.eye(n_labels) if each.label_factor is None else each.label_factor @ each.label_factor.T
    own = np.diag(kernel)
    return own[None] if against is None else (own + own[:, None] - 2.0 * kernel)[against[place]]


def left_out_variances(each: FittedSet, fields: Any, features: Any) -> np.ndarray | None:
    """Return the prior variance of what the basis of a set cannot express, (n,); None if it expresses all."""
    if not isinstance(each.subspace, PivotSubspace):
        return None
    diagonal = each.subspace.kernel.diag(viewed_inputs(each.clique, fields))
    inside = np.einsum("ij,ij->i", features, features, dtype=np.float64)
    return each.clique.prior_variance * np.maximum(diagonal - inside, 0.0)


def _unseen(each: FittedSet, features: Any, seen: np.ndarray) -> np.ndarray:
    """Return the prior deviation that features bring which no training input had, (n,)."""
    rows = features[:, np.setdiff1d(np.arange(features.shape[1]), seen)]
    return np.sqrt(each.clique.prior_variance * np.asarray((rows * rows).sum(axis=1), dtype=np.float64).ravel())
