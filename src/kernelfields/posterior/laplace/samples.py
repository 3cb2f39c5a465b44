"""Posterior samples of coefficients around a fit, and variances of potentials.

    theta       ~ N(mode, H^-1)
    Var f(x, y) = sum_k <phi(x, y), d_k>^2 + max(s (k(x, x) - ||z(x)||^2) - left_out, 0) k_y(y, y)

for deviations d_k with sum_k d_k d_k^T = H^-1, the covariance of the coefficients: rows of a root of H^-1, or centred
samples. A fit ends within its tolerance of the mode; a few more Newton steps find the mode for the Gaussian. The last
term is the prior variance outside of the basis at an input, minus its maximum over the training inputs: a basis of low
rank leaves out functions that the data do determine.

Cost: features of new inputs once. Warns if the posterior is not Gaussian near its mode, or if Lanczos steps were too
few for samples. Raises ValueError for fewer than two samples.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from kernelfields.engines.engine import Sample
from kernelfields.inference.family import LabelFamily
from kernelfields.inference.potentials import Potentials
from kernelfields.models.field import Field
from kernelfields.models.stored_values import record
from kernelfields.numerics.sparse_rows import Rows, is_sparse
from kernelfields.numerics.stored_arrays import finite_array, whole_array, whole_number
from kernelfields.numerics.user_warnings import warn_user
from kernelfields.objective.designs.design import Design
from kernelfields.objective.posterior import LogPosterior
from kernelfields.objective.term import Data, Term
from kernelfields.posterior.laplace.laplace import Evidence, Laplace, check_has_hessian, find_mode

# Draws whose objective is compared with the prediction of the Gaussian.
_CHECKED_DRAWS = 10
#: Draws that lie this many times as far above the mode as the Gaussian predicts are warned of.
FARTHEST_RISE = 2.0
#: Samples that the last quarter of the Lanczos steps has moved by this share of their length are warned of.
LARGEST_TRUNCATION = 0.1
# By which share of it the value of the objective may differ from that of the fit: features of half precision round so.
_OTHER_DATA = 1e-3
# What older model files hold beside these entries.
_RETIRED = "beyond_basis"


@dataclass
class LaplaceSamples:
    """The evidence of a fitted field, and posterior samples of its coefficients, (n_samples, r, q) for each set.

    ``seed`` is for scores of inputs outside the span of the basis. Where the Hessian was spelled
    out, ``root`` holds, for each set, rows of a root of the covariance, (size, r, q), over the features that
    training inputs have: those numbered in ``seen``, or all where it is None. Of the prior variance of what the basis
    cannot express, each set gives up ``left_out``, the most at a training input; nothing where it is None. ``rise`` is
    how far above the mode draws lie, as a multiple of what the Gaussian predicts.
    """

    evidence: Evidence
    method: str
    samples: list[np.ndarray]
    seed: int = 0
    root: list[np.ndarray] | None = None
    seen: list[np.ndarray | None] | None = None
    left_out: list[float] | None = None
    rise: float | None = None

    @property
    def n_samples(self) -> int:
        """Number of samples."""
        return len(self.samples[0])

    def deviations(self) -> list[tuple[np.ndarray, np.ndarray | None]]:
        """Return the deviations d_k of each set (k, r, q), and the numbers of their features, None for all.

        The covariance of coefficients is the sum of d_k d_k^T.
        """
        if self.root is not None and self.seen is not None:
            return list(zip(self.root, self.seen, strict=True))
        return [(moved, None) for moved in self.scaled_samples()]

    def scaled_samples(self) -> list[np.ndarray]:
        """Return the centred samples of each set (n_samples, r, q), scaled so that sums of squares are variances."""
        if self.n_samples < 2:
            raise ValueError("variances need 2 samples at least: call laplace(X, y, n_samples=50)")
        scale = 1.0 / np.sqrt(self.n_samples - 1.0)
        return [scale * (drawn - drawn.mean(axis=0)) for drawn in self.samples]

    def outside_deviation(self, number: int, term: Term, data: Data, features: Rows | None) -> np.ndarray | None:
        """Return the posterior standard deviation outside the basis at inputs, (n,); None if it is zero."""
        if (free := variances_outside_basis(term, data, features)) is None:
            return None
        return np.sqrt(np.maximum(free - (self.left_out[number] if self.left_out else 0.0), 0.0))

    def describe(self) -> dict[str, object]:
        """Return plain values and arrays for a model file."""
        return {**vars(self), "evidence": asdict(self.evidence)}

    @classmethod
    def rebuild(cls, description: Mapping[str, object], terms: Sequence[Term]) -> LaplaceSamples:
        """Rebuild samples from their description; ValueError for infinite values and other shapes."""
        evidence = record(Evidence, description["evidence"], "the evidence")
        entries = {name: value for name, value in description.items() if name != _RETIRED}
        if description.get(_RETIRED, True) is not True:
            raise ValueError(
                f"its posterior is one of {_RETIRED}=False, which is gone: fit, and call laplace(X, y) again"
            )
        found = record(cls, {**entries, "evidence": evidence}, "the posterior around the fit")
        found._check(terms)
        return found

    def _check(self, terms: Sequence[Term]) -> None:
        """Raise ValueError if the shapes of samples and covariance differ from those of the terms."""
        if self.method not in ("exact", "lanczos"):
            raise ValueError(f"the posterior around the fit was found by the unknown method {self.method!r:.60}")
        if len(self.samples) != len(terms):
            raise ValueError("the samples of coefficients do not fit the clique sets")
        whole_number(self.seed, "the seed of the samples")
        n_samples = whole_number(np.size(self.samples[0], 0), "the number of samples", 1)
        for term, drawn in zip(terms, self.samples, strict=True):
            finite_array(drawn, f"the samples of set {term.name!r}", (n_samples, *term.known.shape))
        left_out = self.left_out
        if left_out is not None and (len(left_out) != len(terms) or not np.isfinite(left_out).all()):
            raise ValueError("the variances that the bases leave out do not fit the clique sets")
        if (self.root is None) != (self.seen is None):
            raise ValueError("the covariance of coefficients is there in part only")
        if self.root is None or self.seen is None:
            return
        if not len(self.root) == len(self.seen) == len(terms):
            raise ValueError("the covariance of coefficients does not fit the clique sets")
        n_rows = np.size(self.root[0], 0) if self.root[0].ndim else None
        for term, moved, seen in zip(terms, self.root, self.seen, strict=True):
            rank, width = term.known.shape
            if seen is not None:
                whole_array(seen, f"the features of set {term.name!r} with a covariance", (None,), below=rank)
                if (np.diff(seen.astype(np.int64)) <= 0).any():
                    raise ValueError(f"the features of set {term.name!r} with a covariance are not in order")
            expected = (n_rows, rank if seen is None else len(seen), width)
            finite_array(moved, f"the covariance of set {term.name!r}", expected)


def draw_posterior(
    terms: Sequence[Term],
    sample: Sample,
    *,
    n_samples: int,
    method: str,
    steps: int,
    probes: int,
    random: np.random.Generator,
    fitted_value: float | None = None,
    announce: Callable[[str], None] = lambda text: None,
) -> LaplaceSamples:
    """Compute the Laplace approximation of fitted terms on a labelled sample, and draw coefficients.

    ``fitted_value`` is that of the objective at the end of the fit; ValueError where the sample gives another one.
    """
    designs = [sample.design(term) for term in terms]
    posterior = LogPosterior(sample.datafit(designs))
    start = posterior.blocks.compress([term.known for term in terms])
    check_has_hessian(posterior)
    _check_same_data(posterior.make_point(start).value, fitted_value)
    announce(f"the mode of the posterior, {posterior.size:,} coefficients")
    point = find_mode(posterior, start, method)
    found = Laplace(point, method=method, steps=steps, probes=probes, random=random, announce=announce)
    draws = found.sample(int(n_samples), random)
    truncation = found.truncation
    # Without a single coefficient (all features are zero) there is nothing to be unsure of.
    rise = found.relative_rise(draws[:_CHECKED_DRAWS]) if posterior.size else 1.0
    samples = [
        _add_unseen_features(design, drawn, random)
        for design, drawn in zip(designs, _split_by_term(posterior, draws), strict=True)
    ]
    root = seen = None
    if found.method == "exact":
        root = _split_by_term(posterior, found.root)
        seen = [_occupied_features(design) for design in designs]
    left = [posterior.datafit.outside_span.largest(index) for index in range(len(terms))]
    left_out = [term.prior_variance * own for term, own in zip(terms, left, strict=True)]
    seed = int(random.integers(2**31))
    _warn_of_poor_approximation(rise, truncation, steps)
    return LaplaceSamples(found.evidence, found.method, samples, seed, root, seen, left_out, rise)


def shared_features(terms: Sequence[Term], data: Data) -> list[Rows | None]:
    """Return the features of each term on new data; terms of one subspace share them."""
    known: dict[int, Rows | None] = {}
    for term in terms:
        if id(term.subspace) not in known:
            known[id(term.subspace)] = term.features(data)
    return [known[id(term.subspace)] for term in terms]


def _occupied_features(design: Design) -> np.ndarray | None:
    """Return the numbers of features that occur in the training inputs; None for all."""
    if design.term.has_shared_coefficients:
        return None  # features that no input has share the coefficients of others
    occupied = design.expand(np.ones(design.shape))[:, 0] != 0.0
    return None if occupied.all() else np.flatnonzero(occupied)


def _check_same_data(value: float, fitted: float | None) -> None:
    """Raise ValueError if the objective of the fitted coefficients differs from its value in the fit."""
    if fitted is not None and not abs(value - fitted) <= _OTHER_DATA * max(abs(fitted), 1.0):
        raise ValueError(
            f"laplace needs the data of the fit, labels and weights included: at the fitted coefficients the objective "
            f"is {value:.6g} on these, and it was {fitted:.6g}"
        )


def _split_by_term(posterior: LogPosterior, rows: np.ndarray) -> list[np.ndarray]:
    """Split coefficients (k, size) into arrays (k, r, q) for each term."""
    return [block.tables(rows) for block in posterior.blocks]


def _add_unseen_features(design: Design, drawn: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """Return coefficients (k, r, q) over all features of a term; unseen features follow the prior."""
    seen = _occupied_features(design)
    if seen is None:
        return drawn
    full = (len(drawn), *design.expand(drawn[0]).shape)
    every = np.sqrt(design.term.prior_variance) * random.standard_normal(full)
    every[:, seen] = drawn
    return every


def _warn_of_poor_approximation(rise: float, truncation: float, steps: int) -> None:
    """Warn if the posterior is not Gaussian near the mode, or if Lanczos steps are too few."""
    if not rise <= FARTHEST_RISE:
        warn_user(
            f"the posterior is no Gaussian around its mode: draws lie {rise:.3g} times as far above it as the "
            "Gaussian predicts, so that variances and the evidence are off. Prior variances are "
            "large for these data; smaller ones, above all of label pairs never seen (that of edges), or a "
            "temperature fitted to held-out data help",
            UserWarning,
        )
    if truncation > LARGEST_TRUNCATION:
        warn_user(
            f"{steps} Lanczos steps are too few for samples: the last quarter of them still moved one by "
            f"{100 * truncation:.0f} % of its length. Call laplace with more steps",
            UserWarning,
        )


def potential_deviations(
    terms: Sequence[Term], data: Data, family: LabelFamily, samples: LaplaceSamples
) -> Iterator[Potentials]:
    """Yield the potentials of the deviation of each sample from the mean.

    Away from the pivots a function of the kernel is as free as the prior lets it be: the part of f(x) that the basis
    cannot express is drawn for each input by itself.
    """
    placements = [term.placement(data) for term in terms]
    features = shared_features(terms, data)
    outside = [
        samples.outside_deviation(number, term, data, rows)
        for number, (term, rows) in enumerate(zip(terms, features, strict=True))
    ]
    random = np.random.default_rng(samples.seed)
    deviations = samples.scaled_samples()
    for number in range(samples.n_samples):
        potentials = family.zeros()
        for term, place, rows, free, moved in zip(terms, placements, features, outside, deviations, strict=True):
            scores = term.compute_scores(rows, moved[number])
            if free is not None:
                noise = random.standard_normal((len(free), moved.shape[2])) / np.sqrt(samples.n_samples)
                scores = scores + term.to_labellings(free[:, None] * noise)
            family.arrangement.add_scores(potentials, place, scores)
        if not potentials.is_finite:
            raise ValueError("drawn scores of the inputs are not finite: they are larger than numbers can be")
        yield potentials


def label_variances(field: Field, data: Data, samples: LaplaceSamples, against: np.ndarray | None = None) -> np.ndarray:
    """Return the posterior variances of the potentials of single labels, (N, L).

    With ``against``, a label (N,) for each position, the variances of the differences to its potential.
    """
    terms, n_labels = field.terms, field.spec.n_labels
    single = [number for number, term in enumerate(terms) if term.labels_per_clique == 1 and term.group is None]
    features = shared_features([terms[number] for number in single], data)
    deviations = samples.deviations()
    variances = np.zeros((data.n_positions, n_labels))
    chosen = []
    for number, rows in zip(single, features, strict=True):
        term, (moved, seen) = terms[number], deviations[number]
        positions = term.clique.positions(data)
        place = slice(None) if positions is None else positions
        free = (
            samples.outside_deviation(number, term, data, rows)
            if seen is None
            else _unseen_deviation(term, csr_array(rows), seen)
        )
        if free is not None:
            variances[place] += np.square(free)[:, None] * _prior_variance_factors(term, n_labels, against, place)
        chosen.append((term, moved, place, rows if seen is None else csr_array(rows)[:, seen]))
    for number in range(len(chosen[0][1])):
        total = np.zeros_like(variances)
        for term, moved, place, rows in chosen:
            total[place] += term.compute_scores(rows, moved[number])
        if against is not None:
            total -= np.take_along_axis(total, against[:, None], axis=1)
        variances += np.square(total)
    if not np.isfinite(variances).all():
        raise ValueError("variances of the scores are not finite: they are larger than numbers can be")
    return variances


def _prior_variance_factors(
    term: Term, n_labels: int, against: np.ndarray | None, place: slice | np.ndarray
) -> np.ndarray:
    """Return the factors of label differences in the prior variance of a term, (n or 1, L)."""
    kernel = np.eye(n_labels) if term.label_factor is None else term.label_factor @ term.label_factor.T
    own = np.diag(kernel)
    return own[None] if against is None else (own + own[:, None] - 2.0 * kernel)[against[place]]


def variances_outside_basis(term: Term, data: Data, features: Rows | None) -> np.ndarray | None:
    """Return the prior variance outside the basis of a term, (n,); None if the basis spans all functions."""
    if features is None or is_sparse(features) or not term.has_pivots:
        return None
    diagonal = term.subspace.kernel.diag(term.clique.view(data))
    inside = np.einsum("ij,ij->i", features, features, dtype=np.float64)
    return term.prior_variance * np.maximum(diagonal - inside, 0.0)


def _unseen_deviation(term: Term, features: csr_array, seen: np.ndarray) -> np.ndarray:
    """Return the prior standard deviation of unseen features, (n,)."""
    rows = features[:, np.setdiff1d(np.arange(features.shape[1]), seen)]
    return np.sqrt(term.prior_variance * np.asarray((rows * rows).sum(axis=1), dtype=np.float64).ravel())


def get_drawn_coefficients(model: Any) -> LaplaceSamples:
    """Return the drawn coefficients of an estimator; ValueError without any."""
    if model.laplace_ is None:
        raise ValueError("uncertainty needs the posterior around the fit: call laplace(X, y) on its data first")
    return model.laplace_
