"""ChainCRF: a kernel conditional random field on sequences, as a scikit-learn estimator."""

from __future__ import annotations

import copy
import os
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from functools import partial
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from kernelfields.basis import ConstantSubspace
from kernelfields.engines.blas_threads import blas_threads
from kernelfields.estimators.chain_cliques import check_chain_parameters
from kernelfields.estimators.chain_engines import chain_engine
from kernelfields.estimators.chain_fitting import FitParts, blas_limit, fit_parts, watcher
from kernelfields.estimators.chain_inspection import ChainInspection
from kernelfields.estimators.chain_prediction import ChainPrediction
from kernelfields.estimators.checkpoints import Checkpoint
from kernelfields.estimators.class_weights import weigh_classes
from kernelfields.estimators.displays import ChainDisplay
from kernelfields.estimators.feature_rounding import warn_if_rounding_shows
from kernelfields.estimators.field_model import FieldModel
from kernelfields.estimators.fitted_sets import FittedSet
from kernelfields.estimators.fitting import FittedField, fit_field, warn_unless_converged
from kernelfields.estimators.laplace_posterior import LaplaceMixin, fitted_sets_of, posterior_of_sets
from kernelfields.estimators.model_document import read_chain_crf, write_chain_crf
from kernelfields.estimators.parameters import check_callbacks
from kernelfields.fields import EdgeCliques
from kernelfields.fields.randomness import random_generator
from kernelfields.inference.workers import Workers
from kernelfields.posterior import Certificate, LogPosterior
from kernelfields.reports.progress import FitProgress
from kernelfields.solvers import Solution
from kernelfields.structure import StructurePath


class ChainCRF(ChainPrediction, ChainInspection, ChainDisplay, LaplaceMixin, BaseEstimator):
    """Conditional random field on sequences, with potentials in reproducing kernel Hilbert spaces.

    score(y | x) = sum_t f_node(x_t, y_t) + sum_t f_edge(y_{t-1}, y_t), with Gaussian process priors on f_node
    and f_edge, fitted to the maximum a posteriori with a certificate of optimality.

    Parameters
    ----------
    kernel : Kernel, str, callable or scikit-learn kernel, default "rbf"
        Kernel on the inputs of the node cliques. "linear" uses its explicit features; in a sum such as
        ``Linear() + Polynomial(2)`` the linear part stays exact and sparse, and only the rest gets a basis.
    edge_kernel : like kernel, or None
        None for one transition matrix; a kernel makes transitions depend on the inputs.
    window : odd int or (before, after), default 1
        How many positions around t the kernels see, those of the edges included.
    rank : int or None, default 1000
        Most basis functions of a kernel without explicit features; None for no limit.
    basis : str or Basis, default "random-cholesky"
        "greedy-cholesky", "random-cholesky", "uniform", "gradient", "all", or an object.
    support : "all" or "observed", default "all"
        Which pairs of features and labels have a weight: all, or those seen in training, as in CRFsuite.
    edge_support : "all", "observed" or None
        The same for transitions; None means ``support``.
    min_freq : float, default 0.0
        With observed support: the least total weight of a pair in the training data.
    l1 : float, default 0.0
        Weight of the sum of absolute weights in the objective, CRFsuite's c1; needs explicit features.
    edge_l1 : float or None
        The same for transitions; None means ``l1``.
    prior_variance : float or tuple, default 1.0
        Variance s of the Gaussian prior; infinity for none. The likelihood is a sum over sequences, so CRFsuite's
        c2 is 1 / (2 s). A sum of kernels may have one for each part.
    edge_prior_variance : float or None
        Prior variance of the transitions; None means ``prior_variance``.
    label_kernel : "delta", "centred" or (L, L) array, default "delta"
        Which labels share strength; rows follow the sorted classes.
    cliques : list of clique sets, "learn" or None
        A list spells out the field; kernel, edge_kernel, window, rank, basis, label_kernel and the prior variances
        above are then not used, nor are support, min_freq and l1. "learn" begins with the field that these
        describe and adds the clique sets among ``candidates`` that bring most (Remark 11).
    candidates : list of clique sets, StructureSearch or None
        What cliques="learn" chooses from; None for sets of its own proposal.
    solver : str, default "auto"
        "newton", "newton-cg", "block-jacobi", "subspace", "lbfgs", "sgd+lbfgs" or "auto".
    tol : float, default 1e-3
        Relative duality gap at which to stop.
    max_iter : int, default 100
    constraints : str, Constraints, dict, iterable of forbidden (label, label) pairs, or None
        A string names a scheme of entity labels: "bio", "iob1", "bioes" or "bilou".
    dtype : "auto", "float32" or "float64"
        Precision of the stored features; inference is always float64. "auto" keeps the inputs' precision for
        explicit features, and otherwise takes float32 for large problems unless ``tol`` is below 1e-5.
    n_jobs : int or None
        Threads; None and -1 mean all cores.
    engine : "auto", "threads", "torch", "dask" or an Engine, default "auto"
        Where the fit runs. "auto" takes a CUDA device if there is one and the problem is large, else threads.
    device : str or None
        Device of engine="torch", such as "cuda:0"; None for the best there is.
    memory : str, int or None
        How much memory features may take, such as "8GB"; those that do not fit go to a file. None: no limit.
    random_state : int, Generator, RandomState or None
    verbose : int, default 0
        1 shows where the fit is, 2 every iteration.
    callbacks : callables that see each Iteration; returning True stops the fit. A :class:`Checkpoint` among them
        writes the model to a file from time to time.
    class_weight : dict of labels, "balanced" or None
        A sequence counts with the mean weight of its labels; labels that are not named weigh 1.
    patience : int, default 5
        With a development set: stop after this many iterations without a higher log-likelihood there.
    warm_start : bool, default False
        Start the next fit from the present coefficients, in the present basis. Prior variances, sequences and
        solver settings may change from fit to fit, the clique sets may not.

    Attributes
    ----------
    classes_, n_features_in_ : the sorted labels and the number of input features
    feature_names_in_ : (n_features_in_,) names of the features, for fields fitted on feature dicts or strings
    basis_ : dict, name of a clique set -> its subspace
    coef_ : dict, name of a clique set -> coefficients (rank, labels or pairs of labels)
    transitions_ : (L, L) transition scores that do not depend on inputs, or None
    structure_path_ : StructurePath of cliques="learn", else None
    dev_log_likelihoods_ : (iterations + 1,) log-likelihoods of the development set, or None
    evidence_path_ : EvidencePath of optimize="evidence", else None; laplace_ : what :meth:`laplace` found
    solution_ : Solution; certificate_ : Certificate (span); rkhs_certificate_ : free bound over the RKHS
    """

    def __init__(
        self,
        kernel: Any = "rbf",
        *,
        edge_kernel: Any = None,
        window: int | tuple[int, int] = 1,
        rank: int | None = 1000,
        basis: Any = "random-cholesky",
        support: str = "all",
        edge_support: str | None = None,
        min_freq: float = 0.0,
        l1: float = 0.0,
        edge_l1: float | None = None,
        prior_variance: Any = 1.0,
        edge_prior_variance: Any = None,
        label_kernel: Any = "delta",
        cliques: Any = None,
        candidates: Any = None,
        solver: Any = "auto",
        tol: float = 1e-3,
        max_iter: int = 100,
        constraints: Any = None,
        dtype: Any = "auto",
        n_jobs: int | None = None,
        engine: Any = "auto",
        device: Any = None,
        memory: Any = None,
        random_state: Any = None,
        verbose: int = 0,
        callbacks: Any = None,
        class_weight: Any = None,
        patience: int = 5,
        warm_start: bool = False,
    ):
        self.kernel = kernel
        self.edge_kernel = edge_kernel
        self.window = window
        self.rank = rank
        self.basis = basis
        self.support = support
        self.edge_support = edge_support
        self.min_freq = min_freq
        self.l1 = l1
        self.edge_l1 = edge_l1
        self.prior_variance = prior_variance
        self.edge_prior_variance = edge_prior_variance
        self.label_kernel = label_kernel
        self.cliques = cliques
        self.candidates = candidates
        self.solver = solver
        self.tol = tol
        self.max_iter = max_iter
        self.constraints = constraints
        self.dtype = dtype
        self.n_jobs = n_jobs
        self.engine = engine
        self.device = device
        self.memory = memory
        self.random_state = random_state
        self.verbose = verbose
        self.callbacks = callbacks
        self.class_weight = class_weight
        self.patience = patience
        self.warm_start = warm_start

    def fit(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        *,
        X_dev: Any = None,
        y_dev: Any = None,
        optimize: Any = None,
    ) -> ChainCRF:
        """Fit the field to sequences X (see the package's quickstart for the accepted forms) and labels y.

        ``sample_weight`` holds one weight per sequence. ``X_dev`` and ``y_dev`` are a development set: the fit
        stops when it has not improved for ``patience`` iterations, and keeps what was best there. Ctrl-C keeps
        the best estimate so far and warns. optimize="evidence", or an EvidenceSearch, chooses prior variances and
        kernel parameters by the evidence. Dask collections are fitted where they are, see docs/dask.md.
        """
        check_chain_parameters(self)
        random = random_generator(self.random_state)
        progress = FitProgress(self.verbose, tol=self.tol, max_iter=self.max_iter)
        checkpoints = [each for each in check_callbacks(self.callbacks) if isinstance(each, Checkpoint)]
        for checkpoint in checkpoints:
            checkpoint.begin()
        with ExitStack() as held, progress:
            parts = fit_parts(
                self,
                X,
                y,
                sample_weight,
                (X_dev, y_dev),
                optimize=optimize,
                random=random,
                say=progress.say,
                held=held,
            )

            def keep(present: Callable[[], FittedField]) -> None:
                for checkpoint in checkpoints:
                    checkpoint.keep(lambda: copy.copy(self)._take_over(parts, present()))

            fitted = fit_field(
                parts.spaces,
                parts.engine_of,
                len(parts.classes),
                solver=self.solver,
                tol=self.tol,
                max_iter=self.max_iter,
                watch=watcher(self.callbacks, progress),
                random=random,
                start=parts.start,
                development=parts.development,
                dtype=self.dtype,
                keep=keep if checkpoints else None,
            )
        self._take_over(parts, fitted)
        self.structure_path_: StructurePath | None = parts.path
        for checkpoint in checkpoints:
            checkpoint.end(self)
        warn_unless_converged(self.solution_, self.tol, stacklevel=2)
        warn_if_rounding_shows(fitted.roundings, self.solution_.value, self.tol, stacklevel=2)
        return self

    def _take_over(self, parts: FitParts, fitted: FittedField) -> ChainCRF:
        """Take what a fit has found as one's own."""
        self._inputs = parts.inputs
        self.classes_ = parts.classes
        self.n_features_in_ = parts.inputs.n_features
        self.model_ = FieldModel(
            fitted_sets_of(parts.spaces, fitted.coefficients), len(parts.classes), parts.masks
        )
        self._forget_laplace()
        self.solution_: Solution = fitted.solution
        self.certificate_: Certificate = fitted.span
        self.rkhs_certificate_: Certificate = fitted.rkhs
        development = parts.development
        self.dev_log_likelihoods_ = None if development is None else np.array(development.scores)
        self._set_views()
        return self

    def certify(self, X: Any, y: Any, *, scope: str = "rkhs", sample_weight: Any = None) -> Certificate:
        """Return how far the fitted field can be from the best one on (X, y), the data it was fitted to.

        scope="rkhs": among all functions of the RKHS, exact, O(N^2) kernel evaluations in blocks.
        scope="span": among those the basis spans.
        """
        check_is_fitted(self, "model_")
        if scope not in ("rkhs", "span"):
            raise ValueError(f"scope must be 'rkhs' or 'span', got {scope!r}")
        chains, _ = self._inputs.chains(X, y, sample_weight, self.classes_)
        chains = weigh_classes(chains, self.classes_, self.class_weight)
        self.model_.masks.check_labels(chains.labels, chains.offsets, self.classes_)
        workers = Workers(self.n_jobs)
        with blas_threads(blas_limit(self, workers, chains.n_positions)):
            return self.model_.certify(chains, workers, scope)

    def _fitted_sets(self) -> list[FittedSet]:
        check_is_fitted(self, "model_")
        return self.model_.sets

    def _posterior_on(self, X: Any, y: Any, sample_weight: Any) -> tuple[LogPosterior, list[FittedSet]]:
        sets = self._fitted_sets()
        chains, _ = self._inputs.chains(X, y, sample_weight, self.classes_)
        chains = weigh_classes(chains, self.classes_, self.class_weight)
        masks, n_labels = self.model_.masks, len(self.classes_)
        masks.check_labels(chains.labels, chains.offsets, self.classes_)
        engine_of = partial(chain_engine, chains, n_labels=n_labels, masks=masks, workers=Workers(self.n_jobs))
        return posterior_of_sets(sets, chains, n_labels, engine_of, tol=self.tol, dtype=self.dtype), sets

    def save(self, path: str | os.PathLike) -> None:
        """Write the fitted model to one file of data (safetensors), atomically."""
        check_is_fitted(self, "model_")
        write_chain_crf(path, self)

    @classmethod
    def load(cls, path: str | os.PathLike, *, callables: Mapping[str, Callable] | None = None) -> ChainCRF:
        """Read a model written by :meth:`save`; ``callables`` names kernel functions that are not data."""
        return read_chain_crf(cls, path, callables)

    @property
    def feature_names_in_(self) -> np.ndarray:
        """Names of the columns that feature dicts or strings were given; only for fields fitted on those."""
        check_is_fitted(self, "model_")
        if self._inputs.encoder is None:
            raise AttributeError("feature_names_in_: this field was fitted on arrays, whose columns have no names")
        return np.array(self._inputs.encoder.feature_names_)

    def _set_views(self) -> None:
        """Expose the fitted sets under the names a user looks for."""
        self.basis_ = {each.name: each.subspace for each in self.model_.sets}
        self.coef_ = {each.name: each.label_coefficients for each in self.model_.sets}
        tied = [
            each.tied_scores.reshape(len(self.classes_), -1)
            for each in self.model_.sets
            if isinstance(each.clique, EdgeCliques) and isinstance(each.subspace, ConstantSubspace)
        ]
        self.transitions_ = np.sum(tied, axis=0) if tied else None
