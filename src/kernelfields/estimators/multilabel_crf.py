"""MultiLabelCRF: a kernel conditional random field of several yes-or-no labels, as a scikit-learn estimator."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from kernelfields.engines import CliqueFeatures, GraphLikelihood, ThreadsEngine
from kernelfields.engines.blas_threads import blas_threads
from kernelfields.estimators.exact_certificates import ExactCertificates
from kernelfields.estimators.feature_rounding import warn_if_rounding_shows
from kernelfields.estimators.fitted_sets import FittedSet
from kernelfields.estimators.fitting import FittedField, warn_unless_converged
from kernelfields.estimators.laplace_posterior import LaplaceMixin, fitted_sets_of, posterior_of_sets
from kernelfields.estimators.multilabel_documents import read_multilabel_crf, write_multilabel_crf
from kernelfields.estimators.multilabel_field import MultiLabelField
from kernelfields.estimators.multilabel_graphs import Edge, label_edges, plan_instances
from kernelfields.estimators.multilabel_inputs import INSTANCES, read_indicator, read_inputs
from kernelfields.estimators.multilabel_model import MultiLabelModel
from kernelfields.estimators.multilabel_prediction import MultiLabelPrediction
from kernelfields.estimators.multilabel_structure import learn_label_edges, resolve_label_search
from kernelfields.estimators.parameters import (
    check_callbacks,
    check_count,
    check_prior_variance,
    check_solver,
    check_tolerance,
    resolve_dtype,
)
from kernelfields.estimators.scored_graphs import warn_of_doubts
from kernelfields.estimators.spaces import CliqueSpace
from kernelfields.fields import check_sample_weight
from kernelfields.fields.label_cliques import LabelledInstances
from kernelfields.fields.randomness import random_generator
from kernelfields.inference.workers import Workers
from kernelfields.posterior import Certificate, LogPosterior
from kernelfields.reports.progress import FitProgress
from kernelfields.structure import StructurePath


class MultiLabelCRF(MultiLabelPrediction, ExactCertificates, LaplaceMixin, ClassifierMixin, BaseEstimator):
    """Labels of an instance that depend on its inputs through kernels, and on each other.

    p(y | x) ~ exp( sum_k (f_k(x) + b_k) s_k + sum over edges w_jk s_j s_k ),   s = y - 1/2,

    with Gaussian process priors on the f_k, fitted to the maximum a posteriori. f_k(x) + b_k is the log odds of
    label k without the others' share, w_jk the log odds ratio of two labels given all others. X is a table (n, d),
    dense or sparse; y holds 0 and 1, (n, K), as scikit-learn's multi-label classifiers take it.

    Parameters
    ----------
    kernel : Kernel, str, callable or scikit-learn kernel, default "rbf"
        Kernel on the inputs; all labels share it and its basis.
    label_graph : "auto", "none", "tree", "full", "learn", StructureSearch or list of pairs, default "auto"
        Which labels meet: none (independent labels), the spanning tree of largest mutual information in the
        training labels, all pairs, those that a search chooses (Remark 11; a StructureSearch sets its terms), or
        pairs given by number or by name. "auto" is "full" for up to 16 labels, else "tree": both are exact.
    edge_kernel : kernel or None
        Kernel on the inputs for a part of w_jk that depends on them; None for one number for all instances.
    rank, basis : as in ChainCRF
    prior_variance : float, default 1.0
        Of the log odds f_k; for independent labels, the C of a logistic regression on the features of the kernel.
    edge_prior_variance, bias_prior_variance : float, default 10.0
        Of the log odds ratios w_jk and of the biases b_k; a bias_prior_variance of None leaves the biases out.
    inference : str or object, default "auto"
        "tree", "table", "junction" (exact), "trw", "loopy", "mean-field" (approximate), "gibbs" (for predictions
        alone), or "auto", an exact one as long as the graph of labels allows; ``inference_.description``
        says which. May be changed between fit and predictions.
    decision : "hamming" or "subset", default "hamming"
        What :meth:`predict` returns: labels whose own probability is above 1/2, or the most probable set.
    solver, tol, max_iter, dtype, n_jobs, random_state, verbose, callbacks : as in ChainCRF

    Attributes
    ----------
    n_labels_, label_names_ : the number of labels K, and the names of the columns of y (numbers if it has none)
    classes_ : array (K, 2), the values 0 and 1 of each label, as scikit-learn has it for several outputs
    label_edges_, edge_scores_ : list of pairs of names; dict, pair -> w_jk, without its part of the inputs
    basis_, coef_ : dicts, name of a clique set -> its subspace; its coefficients as log odds (ratios), (rank,)
    structure_path_ : StructurePath of label_graph="learn", else None
    inference_ : how the fit was inferred: ``method``, ``exact`` and ``description``
    solution_ : Solution; certificate_, rkhs_certificate_ : Certificates, only where inference is exact
    n_features_in_, feature_names_in_ : as in scikit-learn
    """

    def __init__(
        self,
        kernel: Any = "rbf",
        *,
        label_graph: Any = "auto",
        edge_kernel: Any = None,
        rank: int | None = 1000,
        basis: Any = "random-cholesky",
        prior_variance: Any = 1.0,
        edge_prior_variance: float = 10.0,
        bias_prior_variance: float | None = 10.0,
        inference: Any = "auto",
        decision: str = "hamming",
        solver: Any = "auto",
        tol: float = 1e-3,
        max_iter: int = 100,
        dtype: Any = "auto",
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
        callbacks: Any = None,
    ):
        self.kernel = kernel
        self.label_graph = label_graph
        self.edge_kernel = edge_kernel
        self.rank = rank
        self.basis = basis
        self.prior_variance = prior_variance
        self.edge_prior_variance = edge_prior_variance
        self.bias_prior_variance = bias_prior_variance
        self.inference = inference
        self.decision = decision
        self.solver = solver
        self.tol = tol
        self.max_iter = max_iter
        self.dtype = dtype
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose
        self.callbacks = callbacks

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> MultiLabelCRF:
        """Fit the field to inputs X (n, d) and labels y (n, K) of 0 and 1; one weight per instance.

        Ctrl-C ends the fit with the best estimate so far, and a warning.
        """
        self._check_parameters()
        inputs = read_inputs(self, X, fitting=True)
        labels, columns = read_indicator(y, inputs.shape[0])
        weights = check_sample_weight(sample_weight, len(labels), INSTANCES)
        names: list = list(range(labels.shape[1])) if columns is None else columns
        if len(set(names)) < len(names):
            raise ValueError(f"columns of Y must have different names, got {', '.join(map(str, names))}")
        search = resolve_label_search(self.label_graph)
        edges = [] if search is not None else label_edges(self.label_graph, labels, weights, names)
        workers = Workers(self.n_jobs)
        random = random_generator(self.random_state)
        progress = FitProgress(self.verbose, tol=self.tol, max_iter=self.max_iter)
        watchers = [*check_callbacks(self.callbacks), progress]

        def field_of(rows: Any) -> MultiLabelField:
            data = (inputs[rows], labels[rows], weights[rows])
            return MultiLabelField(self, *data, names, workers=workers, random=random, say=progress.say)

        path: StructurePath | None = None
        field = field_of(slice(None))
        with blas_threads(None if self.n_jobs is None else workers.n_threads), progress:
            if search is not None:
                edges, path = learn_label_edges(
                    search, field_of, inputs, labels, names, random=random, workers=workers, say=progress.say
                )
            spaces = field.spaces(edges)
            fitted = field.fit(spaces, None, lambda iteration: True in [watch(iteration) for watch in watchers])
        self._take_over(names, edges, field, spaces, fitted)
        self.structure_path_ = path
        warn_unless_converged(self.solution_, self.tol, stacklevel=2)
        warn_if_rounding_shows(fitted.roundings, self.solution_.value, self.tol, stacklevel=2)
        assert field.likelihood is not None
        warn_of_doubts(field.likelihood.doubts, stacklevel=3)
        return self

    def _check_parameters(self) -> None:
        """Raise if a parameter cannot be used, before any work starts."""
        check_prior_variance(self.edge_prior_variance, "edge_prior_variance")
        if self.bias_prior_variance is not None:
            check_prior_variance(self.bias_prior_variance, "bias_prior_variance")
        if self.decision not in ("hamming", "subset"):
            raise ValueError(f"decision must be 'hamming' or 'subset', got {self.decision!r}")
        check_tolerance(self.tol)
        check_count(self.max_iter, "max_iter")
        check_solver(self.solver)
        check_callbacks(self.callbacks)
        resolve_dtype(self.dtype)

    def _take_over(
        self,
        names: list,
        edges: list[Edge],
        field: MultiLabelField,
        spaces: list[CliqueSpace],
        fitted: FittedField,
    ) -> None:
        """Take what a fit has found as one's own."""
        sets = fitted_sets_of(spaces, fitted.coefficients)
        self._forget_laplace()
        assert field.likelihood is not None
        self.model_ = MultiLabelModel(sets, len(names), field.pairs_of(edges), self.inference)
        self.inference_ = field.likelihood.inference
        self.solution_ = fitted.solution
        self._certificates = (fitted.span, fitted.rkhs) if self.inference_.exact else None
        self._set_views(names)

    def _set_views(self, names: list) -> None:
        """Expose the fitted sets under the names a user looks for."""
        sets, pairs = self.model_.sets, self.model_.pairs
        self.n_labels_ = len(names)
        self.label_names_ = np.array(names)
        self.classes_ = np.array([[0, 1]] * len(names))
        self.basis_ = {each.name: each.subspace for each in sets}
        self.coef_ = {each.name: each.coefficients[:, 0] for each in sets}
        self.label_edges_ = [(names[j], names[k]) for j, k in pairs.values()]
        self.edge_scores_ = {
            edge: float(self.coef_[name][0]) for edge, name in zip(self.label_edges_, pairs, strict=True)
        }

    @property
    def n_iter_(self) -> int:
        """Iterations of the solver."""
        check_is_fitted(self, "model_")
        return self.solution_.iterations

    def certify(self, X: Any, y: Any, *, scope: str = "rkhs", sample_weight: Any = None) -> Certificate:
        """Return how far the fitted field can be from the best one on (X, y), the data it was fitted to.

        scope="rkhs": among all functions of the RKHS, exact, O(n^2 K) kernel evaluations in blocks. scope="span":
        among those the basis spans. ValueError where inference is approximate.
        """
        check_is_fitted(self, "model_")
        if scope not in ("rkhs", "span"):
            raise ValueError(f"scope must be 'rkhs' or 'span', got {scope!r}")
        inputs = read_inputs(self, X, fitting=False)
        labels, _ = read_indicator(y, inputs.shape[0], self.n_labels_)
        weights = check_sample_weight(sample_weight, len(labels), INSTANCES)
        instances = LabelledInstances.build(inputs, self.n_labels_, self.model_.pairs, labels, weights)
        return self.model_.certify(instances, Workers(self.n_jobs), scope)

    def _fitted_sets(self) -> list[FittedSet]:
        check_is_fitted(self, "model_")
        return self.model_.sets

    def _posterior_on(self, X: Any, y: Any, sample_weight: Any) -> tuple[LogPosterior, list[FittedSet]]:
        sets, model, workers = self._fitted_sets(), self.model_, Workers(self.n_jobs)
        inputs = read_inputs(self, X, fitting=False)
        labels, _ = read_indicator(y, inputs.shape[0], self.n_labels_)
        weights = check_sample_weight(sample_weight, len(labels), INSTANCES)
        instances = LabelledInstances.build(inputs, self.n_labels_, model.pairs, labels, weights)
        plan = plan_instances(instances, model.inference, tied=model.tied)

        def engine_of(features: Sequence[CliqueFeatures]) -> ThreadsEngine:
            return ThreadsEngine(GraphLikelihood(instances.graphs, 2, features, plan, workers=workers), features)

        return posterior_of_sets(sets, instances, 2, engine_of, tol=self.tol, dtype=self.dtype), sets

    def save(self, path: str | os.PathLike) -> None:
        """Write the fitted model to one file of data (safetensors), atomically."""
        check_is_fitted(self, "model_")
        write_multilabel_crf(path, self)

    @classmethod
    def load(cls, path: str | os.PathLike, *, callables: Mapping[str, Callable] | None = None) -> MultiLabelCRF:
        """Read a model written by :meth:`save`; ``callables`` names kernel functions that are not data."""
        return read_multilabel_crf(cls, path, callables)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        tags.classifier_tags.multi_label = True
        tags.target_tags.multi_output = True
        tags.target_tags.single_output = False
        tags.target_tags.two_d_labels = True
        tags.input_tags.sparse = True
        return tags
