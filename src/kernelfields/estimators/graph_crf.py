"""GraphCRF: a kernel conditional random field on graphs, as a scikit-learn estimator."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from kernelfields.engines import CliqueFeatures, GraphLikelihood, ThreadsEngine
from kernelfields.engines.blas_threads import blas_threads
from kernelfields.estimators.exact_certificates import ExactCertificates
from kernelfields.estimators.feature_rounding import warn_if_rounding_shows
from kernelfields.estimators.fitted_sets import FittedSet
from kernelfields.estimators.fitting import FittedField, fit_field, warn_unless_converged
from kernelfields.estimators.graph_cliques import check_graph_parameters, graph_cliques
from kernelfields.estimators.graph_documents import read_graph_crf, write_graph_crf
from kernelfields.estimators.graph_inputs import GraphInputs
from kernelfields.estimators.graph_model import (
    GraphModel,
    plan_graphs,
    refuse_approximate,
    refuse_without_value,
)
from kernelfields.estimators.graph_prediction import GraphPrediction
from kernelfields.estimators.laplace_posterior import LaplaceMixin, fitted_sets_of, posterior_of_sets
from kernelfields.estimators.parameters import check_callbacks
from kernelfields.estimators.scored_graphs import warn_of_doubts
from kernelfields.estimators.spaces import CliqueSpace, build_space, name_cliques
from kernelfields.fields.randomness import random_generator
from kernelfields.inference.graph import GraphInference
from kernelfields.inference.workers import Workers
from kernelfields.posterior import Certificate, LogPosterior
from kernelfields.reports.progress import FitProgress


class GraphCRF(GraphPrediction, ExactCertificates, LaplaceMixin, BaseEstimator):
    """Conditional random field on graphs, with potentials in reproducing kernel Hilbert spaces.

    score(y | x) = sum_v f(x_v, y_v) + sum over edges f(x_e, y_v, y_w), larger cliques likewise, with Gaussian
    process priors on f, fitted to the maximum a posteriori. An entry of X is ``(node_features, edges)``,
    ``(node_features, edges, edge_features)``, a dict of these parts ("x", "edges", "edge_features") or a networkx
    graph. Edges and their features may be dicts by type, and a type of three or more columns joins that many
    nodes. The dict may also have "node_types": then each type of nodes has a potential of its own. y holds one
    array of labels per graph.

    Parameters
    ----------
    kernel : Kernel, str, callable or scikit-learn kernel, or dict of types, default "rbf"
        Kernel on the features of nodes; a dict names one for each type of nodes.
    edge_kernel : "auto", kernel, None, or dict of types, default "auto"
        Kernel on the features of edges. None for one table of scores for all edges of a type, whatever their
        features; "auto" adds to that table a linear function of the features where there are any.
    symmetric : bool or dict of types, default False
        Whether an edge has no direction: f(a, b) = f(b, a).
    rank, basis, support, label_kernel : as in ChainCRF
    prior_variance : float, default 1.0
    edge_prior_variance : float, dict of types, or None
        Prior variance of the scores of edges; None means ``prior_variance``.
    cliques : list of clique sets or None
        GraphNodes and GraphFactors that spell out the field; the parameters above are then not used.
    inference : str or object, default "auto"
        "tree", "junction" (exact), "trw", "loopy", "mean-field" (approximate), "gibbs" (for predictions alone), an
        object with options, or "auto": the first of "tree", "junction" and "trw" that these graphs allow,
        "mean-field" for larger cliques. May be changed between fit and predictions.
    solver, tol, max_iter, dtype, n_jobs, random_state, verbose, callbacks : as in ChainCRF
        With approximate inference only solver="lbfgs", and ``tol`` is a relative gap of the approximate objective.

    Attributes
    ----------
    classes_, n_features_in_ : the sorted labels and the number of features of a node
    inference_ : how the fit was inferred: ``method``, ``exact`` and ``description`` say what was chosen
    basis_, coef_ : dicts, name of a clique set -> its subspace; its coefficients (rank, labellings of a clique)
    edge_scores_ : dict, type -> table of scores that do not depend on features
    solution_ : Solution; certificate_, rkhs_certificate_ : Certificates, only where inference is exact
    evidence_path_ : EvidencePath of optimize="evidence", else None; laplace_ : what :meth:`laplace` found
    """

    def __init__(
        self,
        kernel: Any = "rbf",
        *,
        edge_kernel: Any = "auto",
        symmetric: Any = False,
        rank: int | None = 1000,
        basis: Any = "random-cholesky",
        support: str = "all",
        prior_variance: Any = 1.0,
        edge_prior_variance: Any = None,
        label_kernel: Any = "delta",
        cliques: Any = None,
        inference: Any = "auto",
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
        self.edge_kernel = edge_kernel
        self.symmetric = symmetric
        self.rank = rank
        self.basis = basis
        self.support = support
        self.prior_variance = prior_variance
        self.edge_prior_variance = edge_prior_variance
        self.label_kernel = label_kernel
        self.cliques = cliques
        self.inference = inference
        self.solver = solver
        self.tol = tol
        self.max_iter = max_iter
        self.dtype = dtype
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose
        self.callbacks = callbacks

    def fit(self, X: Any, y: Any, sample_weight: Any = None, *, optimize: Any = None) -> GraphCRF:
        """Fit the field to graphs X and labels y; ``sample_weight`` holds one weight per graph.

        Ctrl-C ends the fit with the best estimate so far, and a warning. optimize="evidence", or an
        EvidenceSearch, chooses prior variances and kernel parameters by the evidence.
        """
        check_graph_parameters(self)
        inputs = GraphInputs()
        graphs, classes = inputs.fit_graphs(X, y, sample_weight)
        cliques = name_cliques(graph_cliques(self, graphs))
        random = random_generator(self.random_state)
        workers = Workers(self.n_jobs)
        plan = plan_graphs(graphs, len(classes), self.inference)
        refuse_without_value(plan)
        likelihoods: list[GraphLikelihood] = []
        progress = FitProgress(self.verbose, tol=self.tol, max_iter=self.max_iter)
        watchers = [*check_callbacks(self.callbacks), progress]

        def engine_of(sets: Sequence[CliqueFeatures]) -> ThreadsEngine:
            likelihood = GraphLikelihood(graphs, len(classes), sets, plan, workers=workers)
            likelihoods.append(likelihood)
            return ThreadsEngine(likelihood, sets)

        with blas_threads(None if self.n_jobs is None else workers.n_threads), progress:
            progress.say(plan.description)

            def build(named: Any) -> list[CliqueSpace]:
                return [
                    build_space(name, clique, graphs, len(classes), tol=self.tol, dtype=self.dtype, random=random)
                    for name, clique in named
                ]

            spaces, start = self._optimized(
                optimize, build(cliques), None, build, engine_of, len(classes), random, progress.say
            )
            fitted = fit_field(
                spaces,
                engine_of,
                len(classes),
                solver=self.solver,
                tol=self.tol,
                max_iter=self.max_iter,
                watch=lambda iteration: True in [watcher(iteration) for watcher in watchers],
                random=random,
                start=start,
            )
        self._take_over(inputs, classes, plan, spaces, fitted)
        warn_unless_converged(self.solution_, self.tol, stacklevel=2)
        warn_of_doubts(likelihoods[-1].doubts, stacklevel=3)
        warn_if_rounding_shows(fitted.roundings, self.solution_.value, self.tol, stacklevel=2)
        return self

    def _take_over(
        self,
        inputs: GraphInputs,
        classes: np.ndarray,
        plan: GraphInference,
        spaces: list[CliqueSpace],
        fitted: FittedField,
    ) -> None:
        """Take what a fit has found as one's own."""
        self._inputs = inputs
        self.classes_ = classes
        self.n_features_in_ = inputs.n_features
        self.model_ = GraphModel(fitted_sets_of(spaces, fitted.coefficients), len(classes), self.inference)
        self._forget_laplace()
        self.inference_ = plan
        self.solution_ = fitted.solution
        self._certificates = (fitted.span, fitted.rkhs) if plan.exact else None
        self._set_views()

    def certify(self, X: Any, y: Any, *, scope: str = "rkhs", sample_weight: Any = None) -> Certificate:
        """Return how far the fitted field can be from the best one on (X, y), the data it was fitted to.

        scope="rkhs": among all functions of the RKHS, exact, O(N^2) kernel evaluations in blocks. scope="span":
        among those the basis spans. ValueError where inference is approximate.
        """
        check_is_fitted(self, "model_")
        if scope not in ("rkhs", "span"):
            raise ValueError(f"scope must be 'rkhs' or 'span', got {scope!r}")
        graphs = self._inputs.graphs(X, y, sample_weight, self.classes_)
        refuse_approximate(self.model_.plan(graphs), "a certificate")
        return self.model_.certify(graphs, Workers(self.n_jobs), scope)

    def _fitted_sets(self) -> list[FittedSet]:
        check_is_fitted(self, "model_")
        return self.model_.sets

    def _posterior_on(self, X: Any, y: Any, sample_weight: Any) -> tuple[LogPosterior, list[FittedSet]]:
        sets, n_labels, workers = self._fitted_sets(), len(self.classes_), Workers(self.n_jobs)
        graphs = self._inputs.graphs(X, y, sample_weight, self.classes_)
        plan = self.model_.plan(graphs)

        def engine_of(features: Sequence[CliqueFeatures]) -> ThreadsEngine:
            return ThreadsEngine(GraphLikelihood(graphs, n_labels, features, plan, workers=workers), features)

        return posterior_of_sets(sets, graphs, n_labels, engine_of, tol=self.tol, dtype=self.dtype), sets

    def save(self, path: str | os.PathLike) -> None:
        """Write the fitted model to one file of data (safetensors), atomically."""
        check_is_fitted(self, "model_")
        write_graph_crf(path, self)

    @classmethod
    def load(cls, path: str | os.PathLike, *, callables: Mapping[str, Callable] | None = None) -> GraphCRF:
        """Read a model written by :meth:`save`; ``callables`` names kernel functions that are not data."""
        return read_graph_crf(cls, path, callables)

    def _set_views(self) -> None:
        """Expose the fitted sets under the names a user looks for."""
        n_labels = len(self.classes_)
        self.basis_ = {each.name: each.subspace for each in self.model_.sets}
        self.coef_ = {each.name: each.label_coefficients for each in self.model_.sets}
        self.edge_scores_ = {
            each.clique.group: each.tied_scores.reshape((n_labels,) * each.clique.labels_per_clique)
            for each in self.model_.sets
            if each.clique.group is not None and each.tied_everywhere
        }
