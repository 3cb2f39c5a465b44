"""KernelClassifier: kernel logistic regression, the field of a single node, as a scikit-learn classifier."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.class_weight import compute_sample_weight
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from kernelfields.engines import CliqueFeatures, ThreadsEngine
from kernelfields.engines.blas_threads import blas_threads
from kernelfields.engines.softmax_likelihood import SingleLayout, SoftmaxLikelihood, infer_labels
from kernelfields.estimators.classifier_documents import read_kernel_classifier, write_kernel_classifier
from kernelfields.estimators.feature_rounding import warn_if_rounding_shows
from kernelfields.estimators.fitted_sets import FittedSet, certify_sets
from kernelfields.estimators.fitting import fit_field, warn_unless_converged
from kernelfields.estimators.laplace_posterior import LaplaceMixin, fitted_sets_of, posterior_of_sets
from kernelfields.estimators.laplace_probit import mean_marginals, probit_marginals, resolve_uncertainty
from kernelfields.estimators.laplace_samples import label_variances, sampled_potentials
from kernelfields.estimators.parameters import (
    check_callbacks,
    check_count,
    check_prior_variance,
    check_solver,
    check_tolerance,
    resolve_dtype,
)
from kernelfields.estimators.spaces import CliqueSpace, build_space, name_cliques, same_kind
from kernelfields.fields import CliqueSet, GraphNodes, Graphs
from kernelfields.fields.randomness import random_generator
from kernelfields.inference.workers import Workers
from kernelfields.posterior import Certificate, LogPosterior
from kernelfields.reports.progress import FitProgress

# Rows whose features are computed at once when predicting.
_BATCH_ROWS = 20_000
# Problems with this few feature values are solved as exactly as doubles allow: it takes hundredths of a second.
_SMALL = 100_000
_POLISHED = 1e-13


class KernelClassifier(LaplaceMixin, ClassifierMixin, BaseEstimator):
    """Kernel logistic regression: p(y | x) proportional to exp f(x, y), f from a Gaussian process.

    The field of a single node: Gaussian process classification with the softmax likelihood, at the maximum a
    posteriori, with the kernels, bases, solvers and certificates of the fields on chains and graphs. With two
    classes the log-odds f(x, 1) - f(x, 0) have the prior variance 2 * prior_variance * k(x, x).

    Parameters
    ----------
    kernel : Kernel, str, callable or scikit-learn kernel, default "rbf"
    rank : int or None, default 1000
        Most basis functions of a kernel without explicit features; None for no limit.
    basis : str or Basis, default "random-cholesky"
    bias : bool, default True
        Whether each class has a constant of its own beside f, with the same prior variance.
    prior_variance : float or tuple, default 1.0
        A sum of kernels may have one for each part; the constants have the first.
    label_kernel : "delta", "centred" or (L, L) array, default "delta"
    solver, tol, max_iter, dtype, n_jobs, random_state, verbose, callbacks : as in ChainCRF
    class_weight : dict of labels, "balanced" or None
        A sample counts with the weight of its label.

    Attributes
    ----------
    classes_, n_features_in_, feature_names_in_ : as in every classifier
    basis_, coef_ : dicts, name of a clique set ("node", "bias") -> its subspace; its coefficients (rank, classes)
    solution_ : Solution; certificate_ : Certificate (span); rkhs_certificate_ : free bound over the RKHS
    n_iter_ : iterations of the solver
    evidence_path_ : EvidencePath of optimize="evidence", else None; laplace_ : what :meth:`laplace` found
    """

    def __init__(
        self,
        kernel: Any = "rbf",
        *,
        rank: int | None = 1000,
        basis: Any = "random-cholesky",
        bias: bool = True,
        prior_variance: float = 1.0,
        label_kernel: Any = "delta",
        solver: Any = "auto",
        tol: float = 1e-4,
        max_iter: int = 200,
        class_weight: Any = None,
        dtype: Any = "auto",
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
        callbacks: Any = None,
    ):
        self.kernel = kernel
        self.rank = rank
        self.basis = basis
        self.bias = bias
        self.prior_variance = prior_variance
        self.label_kernel = label_kernel
        self.solver = solver
        self.tol = tol
        self.max_iter = max_iter
        self.class_weight = class_weight
        self.dtype = dtype
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose
        self.callbacks = callbacks

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def fit(self, X: Any, y: Any, sample_weight: Any = None, *, optimize: Any = None) -> KernelClassifier:
        """Fit to inputs X (n, d), dense or sparse, and labels y (n,); Ctrl-C keeps the best estimate so far.

        optimize="evidence", or an EvidenceSearch, chooses prior variances and kernel parameters by the evidence.
        """
        self._check_parameters()
        X, y = validate_data(self, X, y, accept_sparse="csr", dtype=[np.float64, np.float32])
        check_classification_targets(y)
        self.classes_, labels = np.unique(y, return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError(
                f"y holds the one class {self.classes_.tolist()[0]!r}: a classifier needs samples of at least 2 "
                "classes"
            )
        weights = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
        weights = weights * compute_sample_weight(self.class_weight, y)
        counted = weights > 0
        if len(np.unique(labels[counted])) < 2:
            raise ValueError("samples of at least 2 classes must have a positive weight")
        # A sample of weight zero is none: it must not lend the basis a pivot either.
        X, labels, weights = X[counted], labels[counted], weights[counted]
        self._sparse = scipy.sparse.issparse(X)
        self._fit_sets(self._sample(X, labels, weights), optimize)
        return self

    def _check_parameters(self) -> None:
        for variance in self._variances:
            check_prior_variance(variance, "prior_variance")
        check_tolerance(self.tol)
        check_count(self.max_iter, "max_iter")
        check_solver(self.solver)
        check_callbacks(self.callbacks)
        resolve_dtype(self.dtype)

    @property
    def _variances(self) -> tuple:
        """The prior variances, one or more."""
        variances = self.prior_variance
        return tuple(variances) if isinstance(variances, list | tuple) and variances else (variances,)

    def _sample(self, X: Any, labels: np.ndarray | None = None, weights: np.ndarray | None = None) -> Graphs:
        """Return inputs as graphs of one node each, which is what clique sets look at."""
        inputs = scipy.sparse.csr_array(X) if scipy.sparse.issparse(X) else np.ascontiguousarray(X)
        return Graphs(inputs, np.arange(inputs.shape[0] + 1), (), labels, weights)  # type: ignore[arg-type]

    def _fit_sets(self, sample: Graphs, optimize: Any) -> None:
        n_labels, workers = len(self.classes_), Workers(self.n_jobs)
        own = {"basis": self.basis, "rank": self.rank, "prior_variance": self.prior_variance}
        cliques = [GraphNodes(self.kernel, label_kernel=self.label_kernel, **own)]
        if self.bias:
            variance = self._variances[0]
            cliques.append(GraphNodes(None, name="bias", label_kernel=self.label_kernel, prior_variance=variance))
        named = name_cliques(cliques)
        random = random_generator(self.random_state)
        progress = FitProgress(self.verbose, tol=self.tol, max_iter=self.max_iter)
        watchers = [*check_callbacks(self.callbacks), progress]

        def engine_of(sets: Sequence[CliqueFeatures]) -> ThreadsEngine:
            return ThreadsEngine(SoftmaxLikelihood(sample.labels, n_labels, sample.weights, workers), sets)

        def build(cliques: Sequence[tuple[str, CliqueSet]]) -> list[CliqueSpace]:
            precision = {"tol": self.tol, "dtype": self.dtype}
            return [build_space(*each, sample, n_labels, random=random, **precision) for each in cliques]

        with blas_threads(None if self.n_jobs is None else workers.n_threads), progress:
            spaces, start = self._optimized(
                optimize, build(named), None, build, engine_of, n_labels, random, progress.say
            )
            small = sample.n_positions * sum(space.subspace.rank for space in spaces) <= _SMALL
            fitted = fit_field(
                spaces,
                engine_of,
                n_labels,
                solver=self.solver,
                tol=min(self.tol, _POLISHED) if small else self.tol,
                max_iter=self.max_iter,
                watch=lambda iteration: True in [watcher(iteration) for watcher in watchers],
                random=random,
                start=start,
            )
        self._forget_laplace()
        self.sets_ = fitted_sets_of(spaces, fitted.coefficients)
        self.solution_ = fitted.solution
        self.certificate_: Certificate = fitted.span
        self.rkhs_certificate_: Certificate = fitted.rkhs
        self._set_views()
        if not self.solution_.relative_gap <= self.tol:
            warn_unless_converged(self.solution_, self.tol, stacklevel=3)
        warn_if_rounding_shows(fitted.roundings, self.solution_.value, self.tol, stacklevel=3)

    def _set_views(self) -> None:
        """Expose the fitted sets under the names a user looks for."""
        self.basis_ = {each.name: each.subspace for each in self.sets_}
        self.coef_ = {each.name: each.label_coefficients for each in self.sets_}
        self.n_iter_ = self.solution_.iterations

    def _scores(self, X: Any) -> np.ndarray:
        """Return f(x, y) of new inputs, (n, L)."""
        check_is_fitted(self, "sets_")
        workers = Workers(self.n_jobs)
        parts = []
        for sample in self._batches(X):
            scores = np.zeros((sample.n_positions, len(self.classes_)))
            for each in self.sets_:
                scores += each.scores(sample, workers)
            parts.append(scores)
        return np.vstack(parts)

    def _batches(self, X: Any) -> Iterator[Graphs]:
        """Check new inputs; yield them in pieces whose features fit in memory."""
        X = validate_data(self, X, accept_sparse="csr", dtype=[np.float64, np.float32], reset=False)
        X = same_kind(X, self._sparse)
        for rows in _pieces(X):
            yield self._sample(rows)

    def decision_function(self, X: Any) -> np.ndarray:
        """Return f(x, y), (n, classes); with two classes the log-odds of the second, (n,)."""
        scores = self._scores(X)
        return scores[:, 1] - scores[:, 0] if scores.shape[1] == 2 else scores

    def predict(self, X: Any) -> np.ndarray:
        """Return the most probable class of each input, (n,)."""
        best = self._scores(X).argmax(axis=1)
        return self.classes_[best]

    def predict_proba(self, X: Any, *, uncertainty: bool | str = False) -> np.ndarray:
        """Return p(y | x), (n, classes), columns as in ``classes_``.

        After :meth:`laplace`, uncertainty="probit" (or True) shrinks log-odds by their variance around the fit,
        which keeps the most probable classes; "sampling" is the mean over coefficients drawn around it.
        """
        kind = resolve_uncertainty(uncertainty)
        scores = self._scores(X)
        if kind is None:
            return infer_labels(scores).node_marginals
        samples = self._drawn()
        parts = []
        for sample, own in zip(self._batches(X), _pieces(scores), strict=True):
            marginals = infer_labels(own).node_marginals
            if kind == "probit":
                best = marginals.argmax(axis=1)
                variances = label_variances(self.sets_, sample, len(self.classes_), samples, against=best)
                parts.append(probit_marginals(marginals, variances))
                continue
            layout = SingleLayout(sample.n_positions, len(self.classes_))
            drawn = (infer_labels(each.node) for each in sampled_potentials(self.sets_, sample, layout, samples))
            parts.append(mean_marginals((each.node_marginals for each in drawn), samples.n_samples))
        return np.vstack(parts)

    def predict_variances(self, X: Any) -> np.ndarray:
        """Return the posterior variances of f(x, y), (n, classes), after :meth:`laplace`."""
        samples, sets = self._drawn(), self._fitted_sets()
        return np.vstack([label_variances(sets, each, len(self.classes_), samples) for each in self._batches(X)])

    def predict_log_proba(self, X: Any) -> np.ndarray:
        """Return log p(y | x), (n, classes)."""
        scores = self._scores(X)
        return scores - infer_labels(scores).log_partition[:, None]

    def certify(self, X: Any, y: Any, *, scope: str = "rkhs", sample_weight: Any = None) -> Certificate:
        """Return how far the fit can be from the best one on (X, y), the data it was fitted to.

        scope="rkhs": among all functions of the RKHS, exact, O(n^2) kernel evaluations in blocks. scope="span":
        among those the basis spans.
        """
        check_is_fitted(self, "sets_")
        if scope not in ("rkhs", "span"):
            raise ValueError(f"scope must be 'rkhs' or 'span', got {scope!r}")
        likelihood, sample = self._likelihood_on(X, y, sample_weight)
        potentials = likelihood.layout.zeros()
        for each in self.sets_:
            likelihood.layout.add_scores(
                potentials, each.placement(sample), each.scores(sample, likelihood.workers)
            )
        return certify_sets(self.sets_, sample, likelihood, likelihood.evaluate(potentials), scope)

    def _likelihood_on(self, X: Any, y: Any, sample_weight: Any) -> tuple[SoftmaxLikelihood, Graphs]:
        """Check labelled inputs that look like those of the fit; return their likelihood and the sample."""
        X, y = validate_data(self, X, y, accept_sparse="csr", dtype=[np.float64, np.float32], reset=False)
        unknown = set(np.unique(y).tolist()) - set(self.classes_.tolist())
        if unknown:
            raise ValueError(f"y holds labels that the classifier was not fitted to: {sorted(unknown)[:5]}")
        weights = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
        weights = weights * compute_sample_weight(self.class_weight, y)
        sample = self._sample(same_kind(X, self._sparse), np.searchsorted(self.classes_, y))
        likelihood = SoftmaxLikelihood(sample.labels, len(self.classes_), weights, Workers(self.n_jobs))
        return likelihood, sample

    def _fitted_sets(self) -> list[FittedSet]:
        check_is_fitted(self, "sets_")
        return self.sets_

    def _posterior_on(self, X: Any, y: Any, sample_weight: Any) -> tuple[LogPosterior, list[FittedSet]]:
        sets = self._fitted_sets()
        likelihood, sample = self._likelihood_on(X, y, sample_weight)
        precision = {"tol": self.tol, "dtype": self.dtype}
        engine_of = partial(ThreadsEngine, likelihood)
        return posterior_of_sets(sets, sample, len(self.classes_), engine_of, **precision), sets

    def save(self, path: str | os.PathLike) -> None:
        """Write the fitted model to one file of data (safetensors), atomically."""
        check_is_fitted(self, "sets_")
        write_kernel_classifier(path, self)

    @classmethod
    def load(cls, path: str | os.PathLike, *, callables: Mapping[str, Callable] | None = None) -> KernelClassifier:
        """Read a model written by :meth:`save`; ``callables`` names kernel functions that are not data."""
        return read_kernel_classifier(cls, path, callables)


def _pieces(rows: Any) -> Iterator[Any]:
    """Cut rows into pieces whose features fit in memory."""
    for begin in range(0, rows.shape[0], _BATCH_ROWS):
        yield rows[begin : begin + _BATCH_ROWS]
