"""ExponentialFamilyDensity: densities from exponential families in an RKHS (section 2.2 of the paper).

    p(x) = p0(x) exp(f(x) - g(f))   on a box,      g(f) = log int p0(x) exp f(x) dx
    f = argmin ||f||^2 / (2 s) - sum_i w_i log(p(x_i) / p0(x_i))

f = <z(.), v> in whitened features of pivots, so ||f|| = ||v||. The integral is a sum over the nodes of a
quadrature, which makes the family a finite one: the fit is its maximum a posteriori, by Newton's method with the
exact Hessian. The kernel sees points with every axis of the box scaled to [0, 1].
Cost: O(M r^2) per Newton step for M nodes and rank r.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from typing import Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import DensityMixin, clone
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from kernelfields.basis.subspace import PivotSubspace
from kernelfields.data.reading import Seed, check_finite, random_generator
from kernelfields.data.table_reader import refuse_named_features
from kernelfields.estimators.inspecting.weights import describe_changed_parameters
from kernelfields.estimators.kept_field import BasisLike, KernelLike
from kernelfields.families.box import Box, check_box, rebuild_measure, resolve_box, resolve_measure
from kernelfields.families.density_basis import density_basis
from kernelfields.families.finite import FiniteFamily
from kernelfields.families.quadrature import (
    Quadrature,
    Rule,
    bound_unseen_mass,
    estimate_log_integral,
    initial_quadrature,
)
from kernelfields.models.documents import (
    describe_parameters,
    describe_subspace,
    rebuild_certificate,
    rebuild_estimator,
    rebuild_subspace,
)
from kernelfields.models.model_file import Document
from kernelfields.models.stored import Functions, StoredEstimator
from kernelfields.models.stored_values import record
from kernelfields.numerics.parameters import (
    Check,
    check_count,
    check_declared,
    check_one,
    check_penalty,
    check_tolerance,
    declares_parameters,
    get_open_parameters,
    is_real,
    or_auto,
    or_none,
    parameter,
    with_usual_values,
)
from kernelfields.numerics.stored_arrays import finite_array, whole_number
from kernelfields.numerics.user_warnings import warn_user
from kernelfields.objective.bounds import Certificate
from kernelfields.objective.designs.design import kernel_quadratic_form
from kernelfields.reports.tables import Table

_BATCH_ROWS = 20_000
# By how much a log partition may differ from what it was on another machine, beyond its error.
_ROUNDING = 1e-3
# Prior variances that "auto" compares, and the points below which it does not.
_VARIANCES = (0.01, 0.1, 1.0, 10.0, 100.0)
_FEW = 30


def _positive(words: str) -> Check:
    """Return a check for a positive number, finite or one of ``words``."""

    def check(value: object, name: str) -> None:
        if not is_real(value) or not value > 0 or ("finite" in words and value == np.inf):
            raise ValueError(f"{name} must be a {words}, got {value!r}")

    return check


@declares_parameters
class ExponentialFamilyDensity(DensityMixin, StoredEstimator):
    """Density on a box: p(x) = p0(x) exp(f(x) - g(f)), with f in an RKHS, at the maximum a posteriori.

    docs/density.md.

    Parameters
    ----------
    kernel : str, Kernel, callable or scikit-learn kernel, default "rbf"
        The kernel on points, whose axes are scaled so that the box is the unit cube.
    prior_variance : float or "auto", default 1.0
        The variance s of the Gaussian process prior on f; the larger, the more freely p follows the sample. "auto"
        chooses a power of ten by a third of the points, held out (1 for fewer than 30 points).
    base_measure : "uniform" or "gaussian", default "uniform"
        The density p0; "gaussian" has means and deviations of the sample, cut off at the box.
    box : "auto" or array (d, 2), default "auto"
        The lows and highs. "auto" is the range of the sample and ``margin`` times it on either side.
    margin : float, default 0.1
        How far ``box="auto"`` reaches beyond the sample.
    rank : int, default 200
        At most so many basis functions of a kernel without explicit features.
    basis : str or Basis, default "greedy-cholesky"
        How basis functions are chosen, as in :class:`ChainCRF`.
    quadrature : "auto", "gauss-legendre" or "sobol", default "auto"
        The rule of the integral; "auto" is the product of Gauss-Legendre rules up to 3 dimensions, else Sobol points.
    n_nodes : int or None, default None
        The nodes of each axis, or points of a Sobol sequence (a power of two). None doubles them until the error of the
        log partition is below ``quadrature_tol``, up to a limit.
    quadrature_tol : float, default 1e-3
        The error of the log partition, in nats, above which a fit warns.
    tol : float, default 1e-9
        How far, in nats for each point, the objective may be from its minimum over the span.
    max_iter : int, default 100
        The most Newton steps.
    random_state : int, Generator, RandomState or None, default None
        The source of randomness; a number makes fits repeatable.

    Attributes
    ----------
    box_ : ndarray (d, 2)
        The lows and highs.
    basis_ : Subspace
        The subspace of f.
    coef_ : ndarray (rank,)
        The coordinates of f in it.
    prior_variance_ : float
        The prior variance.
    log_partition_ : float
        The value g(f).
    log_partition_error_ : float
        By how much it may be wrong: p integrates to one within that.
    quadrature_ : Quadrature
        The kind and size of the rule that the fit used.
    certificate_ : Certificate
        How far the fit is from the best one in the span, for the discretised problem (Lemma 9).
    n_iter_ : int
        The number of Newton steps.
    sample_size_ : float
        The total weight of the sample.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelfields import ExponentialFamilyDensity
    >>> X = np.array([[0.1], [0.2], [0.25], [0.3], [0.7]])
    >>> density = ExponentialFamilyDensity("rbf", box=[[0.0, 1.0]]).fit(X)
    >>> density.score_samples([[0.2], [0.9]]).round(2)
    array([ 0.74, -0.62])
    >>> density.mean().round(2)
    array([0.39])
    """

    _kind = "ExponentialFamilyDensity"

    kernel: KernelLike = parameter("rbf", first=True)
    prior_variance: float | str = parameter(
        1.0, or_auto(_positive("positive finite number")), usual=1.0, tried=_VARIANCES
    )
    base_measure: str = parameter("uniform", check_one("uniform", "gaussian"))
    box: ArrayLike | str = parameter("auto")
    margin: float = parameter(0.1, check_penalty)
    rank: int = parameter(200, check_count)
    basis: BasisLike = parameter("greedy-cholesky")
    quadrature: str = parameter("auto")
    n_nodes: int | None = parameter(None, or_none(partial(check_count, otherwise=" or None")))
    quadrature_tol: float = parameter(1e-3, _positive("positive number"))
    tol: float = parameter(1e-9, lambda value, name: check_tolerance(value))
    max_iter: int = parameter(100, check_count)
    random_state: Seed = parameter(None)

    def fit(self, X: ArrayLike, y: object = None, sample_weight: ArrayLike | None = None) -> Self:
        """Fit the density to points.

        Parameters
        ----------
        X : array (n, d)
            The points.
        y : object, default None
            Ignored.
        sample_weight : array (n,) or None, default None
            One weight for each point.

        Returns
        -------
        Self
            The fitted density.

        Raises
        ------
        ValueError
            If a point lies outside the box, or no point has a positive weight.

        Examples
        --------
        >>> import numpy as np
        >>> from kernelfields import ExponentialFamilyDensity
        >>> X = np.array([[0.1], [0.2], [0.25], [0.3], [0.7]])
        >>> density = ExponentialFamilyDensity("rbf", box=[[0.0, 1.0]]).fit(X)
        >>> density.box_.tolist()
        [[0.0, 1.0]]
        """
        check_declared(self)
        refuse_named_features(X)
        points = self._points(X, reset=True)
        weights = _check_sample_weight(sample_weight, points, dtype=np.float64, ensure_non_negative=True)
        counted = weights > 0
        if not counted.any():
            raise ValueError("at least one sample must have a positive weight")
        points, weights = points[counted], weights[counted]
        random = random_generator(self.random_state)
        box = resolve_box(self.box, points, self.margin)
        box.check_sample(points)
        self._measure = resolve_measure(self.base_measure, box, points, weights)
        self.box_ = np.column_stack([box.low, box.high])
        self.prior_variance_ = self._chosen_variance(points, weights)
        seed = int(random.integers(2**31))
        quadrature = initial_quadrature(self.quadrature, self.n_nodes, box.dimension, seed)
        self.basis_ = density_basis(self.kernel, self.basis, self.rank, box.to_unit(points), weights, random)
        self.sample_size_ = float(weights.sum())
        self._fit_coefficients(self._mean_features(points, weights), self.sample_size_, quadrature)
        return self

    def _chosen_variance(self, points: np.ndarray, weights: np.ndarray) -> float:
        """Return the power of ten, as prior variance, of the largest held-out likelihood."""
        usual, tried = with_usual_values(self).prior_variance, get_open_parameters(self).get("prior_variance", ())
        if len(points) < _FEW or not tried:
            return float(usual)
        held = np.random.default_rng(0).permutation(len(points)) % 3 == 0

        def likelihood(variance: float) -> float:
            part = clone(self).set_params(prior_variance=variance, box=self.box_)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                part.fit(points[~held], sample_weight=weights[~held])
            return float(weights[held] @ part.score_samples(points[held]))

        return max(tried, key=likelihood)

    def _mean_features(self, X: np.ndarray, weights: np.ndarray) -> np.ndarray:
        total = np.zeros(self.basis_.rank)
        for begin in range(0, len(X), _BATCH_ROWS):
            rows = slice(begin, begin + _BATCH_ROWS)
            total += weights[rows] @ self._features(X[rows])
        return total / weights.sum()

    def _features(self, X: np.ndarray) -> np.ndarray:
        return np.asarray(self.basis_.features(self._measure.box.to_unit(X)))

    def _fit_coefficients(self, mean: np.ndarray, count: float, quadrature: Quadrature) -> None:
        precision, start = 1.0 / (count * self.prior_variance_), None
        while True:
            rule = quadrature.rule(self._measure)
            family, shift = self._finite_family(rule)
            found = family.estimate(mean, precision=precision, start=start, tol=self.tol, max_iter=self.max_iter)
            self.coef_ = start = found.theta
            coarse = found.member.log_partition + shift
            self.log_partition_, error = estimate_log_integral(quadrature, self._measure, self._scores, coarse)
            self.log_partition_error_ = max(error, self._error_of_peaks(quadrature))
            finer = quadrature.finer(self._measure.box.dimension) if self.n_nodes is None else None
            if self.log_partition_error_ <= self.quadrature_tol or finer is None:
                break
            quadrature = finer
        self.quadrature_, self.n_iter_ = quadrature, found.iterations
        value = count * (found.value + shift)
        self.certificate_ = Certificate("span", value, value - count * found.gap)
        if not self.log_partition_error_ <= self.quadrature_tol:
            warn_user(
                f"the log partition may be wrong by {self.log_partition_error_:.2g} nats, more than "
                f"quadrature_tol={self.quadrature_tol:g}, with {quadrature.n_nodes(len(self.box_))} nodes; set "
                "n_nodes higher, use a smoother kernel or a smaller prior_variance, or accept the error",
            )

    def _error_of_peaks(self, quadrature: Quadrature) -> float:
        """Estimate the error of the log partition by peaks between nodes, in nats."""
        if not isinstance(self.basis_, PivotSubspace):
            return 0.0
        pivots = np.asarray(self.basis_.pivots, dtype=np.float64)
        gaps = quadrature.reference().estimate_gaps(self._measure, self._measure.box.from_unit(pivots))
        unseen = bound_unseen_mass(self._scores, self._measure, pivots, gaps, self.log_partition_)
        return float(np.logaddexp(0.0, unseen - self.log_partition_))

    def _finite_family(self, rule: Rule) -> tuple[FiniteFamily, float]:
        """Return the family on the nodes, scaled to a largest mass of 1, and the log of the scale."""
        shift = float(rule.log_masses.max())
        return FiniteFamily(self._features(rule.nodes), np.exp(rule.log_masses - shift)), shift

    def _points(self, X: ArrayLike, *, reset: bool = False) -> np.ndarray:
        """Check points as scikit-learn does; return points and a mask of missing points."""
        points = np.asarray(validate_data(self, X, dtype=np.float64, ensure_all_finite=False, reset=reset))
        check_finite(points, lambda number: "X")
        return points

    def _scores(self, X: np.ndarray) -> np.ndarray:
        """Return the values of f, (n,)."""
        return self.basis_.apply(self._measure.box.to_unit(X), self.coef_[:, None])[:, 0]

    def score_samples(self, X: ArrayLike) -> np.ndarray:
        """Return the log-density of points, in the units of X.

        Parameters
        ----------
        X : array (n, d)
            The points.

        Returns
        -------
        ndarray (n,)
            The values of log p(x); minus infinity outside the box.

        Examples
        --------
        >>> import numpy as np
        >>> from kernelfields import ExponentialFamilyDensity
        >>> X = np.array([[0.1], [0.2], [0.25], [0.3], [0.7]])
        >>> density = ExponentialFamilyDensity("rbf", box=[[0.0, 1.0]]).fit(X)
        >>> density.score_samples([[0.2], [0.9], [1.5]]).round(2)
        array([ 0.74, -0.62,  -inf])
        """
        check_is_fitted(self, "coef_")
        X = self._points(X)
        inside = self._measure.box.contains(X)
        scores = np.full(len(X), -np.inf)
        if inside.any():
            points = X[inside]
            scores[inside] = self._measure.log_density(points) + self._scores(points) - self.log_partition_
        return scores

    def score(self, X: ArrayLike, y: object = None) -> float:
        """Return the mean log-density of points.

        Outside a box that was given the density is zero, and the score minus infinity. Beyond a box that "auto" has
        chosen a point counts, with a warning, as if one in n + 1 fell into a volume as large as the box around it,
        where n is the size of the sample (Laplace's rule of succession), so that searches can compare densities.

        Parameters
        ----------
        X : array (n, d)
            The points.
        y : object, default None
            Ignored.

        Returns
        -------
        float
            The mean of log p(x).

        Examples
        --------
        >>> import numpy as np
        >>> from kernelfields import ExponentialFamilyDensity
        >>> X = np.array([[0.1], [0.2], [0.25], [0.3], [0.7]])
        >>> density = ExponentialFamilyDensity("rbf", box=[[0.0, 1.0]]).fit(X)
        >>> round(density.score([[0.2], [0.3]]), 2)
        0.61
        """
        scores = self.score_samples(X)
        outside = ~self._measure.box.contains(np.asarray(X, dtype=np.float64))
        if outside.any():
            chosen = isinstance(self.box, str)
            if chosen:
                scores[outside] = -np.log1p(self.sample_size_) - self._measure.box.log_volume
            counted = "they count as one in n + 1 of the mass" if chosen else "so the score is minus infinity"
            warn_user(
                f"{int(outside.sum())} of {len(scores)} points lie outside the box of the fit, where the density is "
                f"zero; {counted}: give a box that holds all points, held-out ones included, or let box='auto' reach "
                f"farther beyond the sample than margin={self.margin:g}",
            )
        return float(np.mean(scores))

    def family(self) -> FiniteFamily:
        """Return the finite exponential family on the nodes of the quadrature.

        Returns
        -------
        FiniteFamily
            The family, of which ``coef_`` are natural parameters.

        Examples
        --------
        >>> import numpy as np
        >>> from kernelfields import ExponentialFamilyDensity
        >>> X = np.array([[0.1], [0.2], [0.25], [0.3], [0.7]])
        >>> density = ExponentialFamilyDensity("rbf", box=[[0.0, 1.0]]).fit(X)
        >>> member = density.family().distribution(density.coef_)
        >>> member.mean.shape == density.coef_.shape
        True
        """
        check_is_fitted(self, "coef_")
        return self._finite_family(self.quadrature_.rule(self._measure))[0]

    def moments(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the mean and covariance of the features, which are the gradient and Hessian of g (Prop. 1).

        Returns
        -------
        mean : ndarray (r,)
            The mean of the features.
        covariance : ndarray (r, r)
            Their covariance.

        Examples
        --------
        >>> import numpy as np
        >>> from kernelfields import ExponentialFamilyDensity
        >>> X = np.array([[0.1], [0.2], [0.25], [0.3], [0.7]])
        >>> density = ExponentialFamilyDensity("rbf", box=[[0.0, 1.0]]).fit(X)
        >>> mean, covariance = density.moments()
        >>> mean.shape == density.coef_.shape, bool((covariance.diagonal() > 0).all())
        (True, True)
        """
        member = self.family().distribution(self.coef_)
        return member.mean, member.covariance()

    def expectation(self, function: Callable[[np.ndarray], ArrayLike]) -> np.ndarray:
        """Return the expectation of a function of points, by quadrature.

        Parameters
        ----------
        function : callable
            It maps points (M, d) to values (M, ...).

        Returns
        -------
        ndarray (...)
            The expectation under p.

        Examples
        --------
        >>> import numpy as np
        >>> from kernelfields import ExponentialFamilyDensity
        >>> X = np.array([[0.1], [0.2], [0.25], [0.3], [0.7]])
        >>> density = ExponentialFamilyDensity("rbf", box=[[0.0, 1.0]]).fit(X)
        >>> round(float(density.expectation(lambda points: points[:, 0] < 0.5)), 2)
        0.69
        """
        check_is_fitted(self, "coef_")
        rule = self.quadrature_.reference().rule(self._measure)
        logs = rule.log_masses + self._scores(rule.nodes)
        shares = np.exp(logs - logs.max())
        return np.tensordot(shares / shares.sum(), np.asarray(function(rule.nodes)), axes=1)

    def mean(self) -> np.ndarray:
        """Return the mean of the density.

        Returns
        -------
        ndarray (d,)
            The mean, in the units of X.

        Examples
        --------
        >>> import numpy as np
        >>> from kernelfields import ExponentialFamilyDensity
        >>> X = np.array([[0.1], [0.2], [0.25], [0.3], [0.7]])
        >>> density = ExponentialFamilyDensity("rbf", box=[[0.0, 1.0]]).fit(X)
        >>> density.mean().round(2)
        array([0.39])
        """
        return self.expectation(lambda X: X)

    def covariance(self) -> np.ndarray:
        """Return the covariance of the density.

        Returns
        -------
        ndarray (d, d)
            The covariance, in the units of X.

        Examples
        --------
        >>> import numpy as np
        >>> from kernelfields import ExponentialFamilyDensity
        >>> X = np.array([[0.1], [0.2], [0.25], [0.3], [0.7]])
        >>> density = ExponentialFamilyDensity("rbf", box=[[0.0, 1.0]]).fit(X)
        >>> density.covariance().round(2)
        array([[0.07]])
        """
        centre = self.mean()
        return self.expectation(lambda X: np.einsum("mi,mj->mij", X - centre, X - centre))

    def entropy(self) -> float:
        """Return the differential entropy -E log p(x), in nats.

        Returns
        -------
        float
            The entropy.

        Examples
        --------
        >>> import numpy as np
        >>> from kernelfields import ExponentialFamilyDensity
        >>> X = np.array([[0.1], [0.2], [0.25], [0.3], [0.7]])
        >>> density = ExponentialFamilyDensity("rbf", box=[[0.0, 1.0]]).fit(X)
        >>> round(density.entropy(), 2)
        -0.12
        """
        return -float(self.expectation(self.score_samples))

    def summary(self) -> Table:
        """Return a summary of the fitted density.

        Returns
        -------
        Table
            Box, mean, entropy, quadrature and fit, to be printed or shown by a notebook.

        Examples
        --------
        >>> import numpy as np
        >>> from kernelfields import ExponentialFamilyDensity
        >>> X = np.array([[0.1], [0.2], [0.25], [0.3], [0.7]])
        >>> density = ExponentialFamilyDensity("rbf", box=[[0.0, 1.0]]).fit(X)
        >>> print(str(density.summary()).splitlines()[0])
        ExponentialFamilyDensity: 1 dimensions, 23 basis functions
        """
        check_is_fitted(self, "coef_")
        low, high = self.box_.T
        nodes, error = self.quadrature_.n_nodes(len(self.box_)), self.log_partition_error_
        figures = {
            "box": " x ".join(f"[{a:.4g}, {b:.4g}]" for a, b in zip(low, high, strict=True)),
            "mean": ", ".join(f"{value:.4g}" for value in self.mean()),
            "entropy": f"{self.entropy():.4g} nats",
            "integral": f"one within {error:.2g} nats, by {nodes:,} nodes ({self.quadrature_.kind})",
            "fit": f"{self.n_iter_} Newton steps, {self.certificate_}",
        }
        heading = f"{type(self).__name__}: {len(self.box_)} dimensions, {self.basis_.rank:,} basis functions"
        changed = describe_changed_parameters(self)
        rows = [*figures.items(), *([(), *changed.items()] if changed else [])]
        return Table(("figure", "value"), rows, heading, words=(0, 1))

    def certify(self, X: ArrayLike, sample_weight: ArrayLike | None = None) -> Certificate:
        """Return a bound on the distance of the fit from the best function of the RKHS.

        It is exact for the discretised problem, and takes O((M + n)^2) evaluations of the kernel for M nodes and n
        points.

        Parameters
        ----------
        X : array (n, d)
            The points of the fit.
        sample_weight : array (n,) or None, default None
            Their weights.

        Returns
        -------
        Certificate
            The value of the objective and a lower bound of its minimum.

        Examples
        --------
        >>> import numpy as np
        >>> from kernelfields import ExponentialFamilyDensity
        >>> X = np.array([[0.1], [0.2], [0.25], [0.3], [0.7]])
        >>> density = ExponentialFamilyDensity("rbf", box=[[0.0, 1.0]]).fit(X)
        >>> bool(density.certify(X).relative_gap < 1e-3)
        True
        """
        check_is_fitted(self, "coef_")
        X = self._points(X)
        self._measure.box.check_sample(X)
        weights = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
        rule, variance, count = self.quadrature_.rule(self._measure), self.prior_variance_, float(weights.sum())
        points = np.vstack([rule.nodes, X])
        scores = self._scores(points)
        log_partition, _ = rule.log_integral(scores[: len(rule.nodes)])
        expected = count * np.exp(rule.log_masses + scores[: len(rule.nodes)] - log_partition)
        residuals = np.concatenate([expected, -weights])
        norm = float(self.coef_ @ self.coef_)
        quadratic = kernel_quadratic_form(self.basis_.kernel, self._measure.box.to_unit(points), residuals[:, None])
        gradient = norm / variance**2 + 2 * float(scores @ residuals) / variance + quadratic
        value = norm / (2 * variance) + count * log_partition - float(weights @ scores[len(rule.nodes) :])
        return Certificate("rkhs", value, value - 0.5 * variance * max(gradient, 0.0))

    def _to_document(self) -> Document:
        """Return the fitted density as plain values and arrays."""
        names = getattr(self, "feature_names_in_", np.array([], dtype=str))
        return {
            "parameters": describe_parameters(self),
            "box": self.box_,
            "measure": self._measure.describe(),
            "subspace": describe_subspace(self.basis_),
            "coefficients": self.coef_,
            "prior_variance": float(self.prior_variance_),
            "log_partition": float(self.log_partition_),
            "log_partition_error": float(self.log_partition_error_),
            "quadrature": asdict(self.quadrature_),
            "certificate": asdict(self.certificate_),
            "n_iter": int(self.n_iter_),
            "sample_size": self.sample_size_,
            "feature_names": names.tolist(),
        }

    @classmethod
    def _from_document(cls, document: Document, callables: Functions | None = None) -> Self:
        """Rebuild the fitted estimator from its document; errors of any kind for an unsound document."""
        functions = callables or {}
        bounds = finite_array(document["box"], "the box", (None, 2)).astype(np.float64)
        box = Box(bounds[:, 0].copy(), bounds[:, 1].copy())
        check_box(box)
        measure = rebuild_measure(document["measure"], box)
        estimator = rebuild_estimator(cls, document["parameters"], functions)
        subspace = rebuild_subspace(document["subspace"], functions)
        coefficients = finite_array(document["coefficients"], "the coefficients", (subspace.rank,)).astype(np.float64)
        if subspace.features(np.zeros((1, box.dimension))).shape != (1, subspace.rank):
            raise ValueError("the basis does not fit the box")
        estimator._measure, estimator.box_, estimator.basis_ = measure, bounds, subspace
        estimator.coef_ = coefficients
        # Files of earlier versions have it among the parameters alone.
        estimator.prior_variance_ = float(document.get("prior_variance", estimator.prior_variance))
        estimator.log_partition_ = float(document["log_partition"])
        estimator.log_partition_error_ = float(document["log_partition_error"])
        estimator.quadrature_ = record(Quadrature, document["quadrature"], "the quadrature")
        estimator.quadrature_.check(box.dimension)
        estimator.certificate_ = rebuild_certificate(document["certificate"])
        estimator.n_iter_ = whole_number(document["n_iter"], "the number of iterations")
        estimator.sample_size_ = float(document.get("sample_size", 1.0))
        estimator.n_features_in_ = box.dimension
        if document["feature_names"]:
            estimator.feature_names_in_ = np.array(document["feature_names"], dtype=object)
            if estimator.feature_names_in_.shape != (box.dimension,):
                raise ValueError("the names of features do not fit the box")
        check_declared(estimator)
        estimator._check_total()
        # Files of earlier versions, and others, may leave peaks out of the error.
        estimator.log_partition_error_ = max(
            estimator.log_partition_error_, estimator._error_of_peaks(estimator.quadrature_)
        )
        return estimator

    def _check_total(self) -> None:
        """Raise ValueError unless the density integrates to one within its error."""
        # The rule of the fit is among those that its error comes from; of Sobol sequences only the last was none's own.
        quadrature = self.quadrature_
        rule = (quadrature.reference() if quadrature.kind == "sobol" else quadrature).rule(self._measure)
        total, _ = rule.log_integral(self._scores(rule.nodes))
        known = np.isfinite(self.log_partition_)
        if not (known and abs(total - self.log_partition_) <= self.log_partition_error_ + _ROUNDING):
            raise ValueError(f"its log partition is {self.log_partition_:.6g}, where the coefficients give {total:.6g}")
