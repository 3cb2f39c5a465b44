"""KernelClassifier: kernel logistic regression, the field of a single node, as a scikit-learn classifier."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import ClassifierMixin
from sklearn.utils.class_weight import compute_sample_weight
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight

from kernelfields.estimators.base import (
    BasisLike,
    EngineLike,
    FieldEstimator,
    KernelLike,
    LabelKernelLike,
    Seed,
)
from kernelfields.estimators.settling import Training
from kernelfields.estimators.stored import Functions
from kernelfields.features.readers import TableReader
from kernelfields.fields.chains import weigh_classes
from kernelfields.fields.evidence import known_labels, read_labels, tells_partly
from kernelfields.fields.graph_cliques import GraphNodes
from kernelfields.fields.graphs import Graphs
from kernelfields.fields.reading import SAMPLES, balanced_weights
from kernelfields.fields.soft_targets import SoftTargets
from kernelfields.inference.answers import infer_labels
from kernelfields.models.build import NamedCliques, name_cliques
from kernelfields.models.fit import FitOptions, FittedField
from kernelfields.models.partial import PartialLabels
from kernelfields.models.unlabelled import with_unlabelled_rows
from kernelfields.numerics.parameters import check_prior_variance
from kernelfields.objective.designs.design import Design
from kernelfields.objective.likelihoods.softmax import SingleStructure
from kernelfields.uncertainty.laplace.probit import probit_marginals, resolve_uncertainty
from kernelfields.uncertainty.laplace.samples import label_variances

# Problems with this few feature values are solved as exactly as doubles allow: it takes hundredths of a second.
_SMALL = 100_000
_POLISHED = 1e-13


class KernelClassifier(ClassifierMixin, FieldEstimator):
    """Kernel logistic regression: p(y | x) proportional to exp f(x, y), f from a Gaussian process.

    The field of a single node: Gaussian process classification with the softmax likelihood, at the maximum a
    posteriori, with the kernels, bases, solvers and certificates of the fields on chains and graphs. With two
    classes the log-odds f(x, 1) - f(x, 0) have the prior variance 2 * prior_variance * k(x, x).

    Parameters
    ----------
    kernel : "auto", Kernel, str, callable or scikit-learn kernel, default "auto"
        "auto" is "linear" for wide sparse inputs, else "rbf".
    rank : int or None, default 1000
        Most basis functions of a kernel without explicit features; None for no limit.
    basis : str or Basis, default "random-cholesky"
    bias : bool, default True
        Whether each class has a constant of its own beside f, with the same prior variance.
    prior_variance : "auto", float or tuple, default "auto"
        "auto" chooses a power of ten by short fits on a part of the data (1 for fewer than 200 samples). A sum of
        kernels may have one for each part; the constants have the first.
    label_kernel : "delta", "centred" or (L, L) array, default "delta"
    scale, solver, tol, max_iter, dtype, n_jobs, engine, random_state, verbose, callbacks : as in ChainCRF
    class_weight : dict of labels, "balanced" or None
        A sample counts with the weight of its label; "balanced" gives each class the same total weight.
    partial_labels : PartialLabels or None
        How to fit where labels in y are partly known, see docs/partial_labels.md.

    Attributes
    ----------
    classes_, n_features_in_, feature_names_in_ : as in every classifier
    basis_, coef_ : dicts, name of a clique set ("node", "bias") -> its subspace; its coefficients (rank, classes)
    solution_ : Solution; certificate_ : Certificate (span); rkhs_certificate_ : free bound over the RKHS
    n_iter_ : iterations of the solver
    evidence_path_ : EvidencePath of optimize="evidence", else None; laplace_ : what :meth:`laplace` found
    """

    kind = "KernelClassifier"

    def __init__(
        self,
        kernel: KernelLike = "auto",
        *,
        rank: int | None = 1000,
        basis: BasisLike = "random-cholesky",
        bias: bool = True,
        prior_variance: float | str | Sequence[float] = "auto",
        scale: bool | str = "auto",
        label_kernel: LabelKernelLike = "delta",
        solver: object = "auto",
        tol: float = 1e-4,
        max_iter: int = 1000,
        class_weight: Mapping[object, float] | str | None = None,
        dtype: object = "auto",
        n_jobs: int | None = None,
        engine: EngineLike = "auto",
        random_state: Seed = None,
        verbose: int = 0,
        callbacks: Sequence[object] | None = None,
        partial_labels: PartialLabels | None = None,
    ):
        self.kernel = kernel
        self.rank = rank
        self.basis = basis
        self.bias = bias
        self.prior_variance = prior_variance
        self.scale = scale
        self.label_kernel = label_kernel
        self.solver = solver
        self.tol = tol
        self.max_iter = max_iter
        self.class_weight = class_weight
        self.dtype = dtype
        self.n_jobs = n_jobs
        self.engine = engine
        self.random_state = random_state
        self.verbose = verbose
        self.callbacks = callbacks
        self.partial_labels = partial_labels

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def fit(
        self,
        X: object,
        y: object,
        sample_weight: ArrayLike | None = None,
        *,
        X_unlabelled: object = None,
        optimize: object = None,
    ) -> KernelClassifier:
        """Fit to inputs X (n, d), dense or sparse, and labels y (n,); Ctrl-C keeps the best estimate so far.

        optimize="evidence", or an EvidenceSearch, chooses prior variances and kernel parameters by the evidence.
        ``X_unlabelled`` (m, d) are inputs without labels, for what ``partial_labels`` ask of them.
        """
        if X_unlabelled is not None:
            X, y, sample_weight = with_unlabelled_rows(X, y, sample_weight, X_unlabelled)
        return self._fit(X, y, sample_weight, optimize=optimize)

    def _check_parameters(self) -> None:
        for variance in self._variances_given:
            check_prior_variance(variance, "prior_variance", auto=variance is self.prior_variance)
        super()._check_parameters()

    @property
    def _variances_given(self) -> tuple:
        """The prior variances, one or more."""
        variances = self.prior_variance
        return tuple(variances) if isinstance(variances, list | tuple) and variances else (variances,)

    def _learn(self, X: object, y: object, sample_weight: object, part_of: Any = None) -> tuple[Any, Any, np.ndarray]:
        reader = TableReader()
        declared = self._partial_settings().classes if part_of is None else part_of[1]
        if tells_partly(y) or (y is not None and declared is not None and part_of is None):
            inputs, _ = reader.learn(self, X)
            data, classes = self._partly_labelled(inputs, y, sample_weight, declared)
            return reader, data.subset(data.weights > 0), classes
        inputs, targets = reader.learn(self, X, y)
        check_classification_targets(targets)
        classes, labels = np.unique(targets, return_inverse=True)
        if len(classes) < 2:
            raise ValueError(
                f"y holds the one class {classes.tolist()[0]!r}: a classifier needs samples of at least 2 classes"
            )
        weights = self._weights(inputs, targets, sample_weight)
        counted = weights > 0
        if len(np.unique(labels[counted])) < 2:
            raise ValueError("samples of at least 2 classes must have a positive weight")
        if part_of is not None:
            labels, classes = np.searchsorted(part_of[1], classes)[labels], part_of[1]
        # A sample of weight zero is none: it must not lend the basis a pivot either.
        return reader, _single_nodes(inputs[counted], labels[counted], weights[counted]), classes

    def _partly_labelled(self, inputs: Any, y: Any, sample_weight: Any, classes: Any) -> tuple[Graphs, np.ndarray]:
        labels, evidence, classes = read_labels(
            y if isinstance(y, SoftTargets) else [y], classes, np.array([inputs.shape[0]]), SAMPLES
        )
        weights = _check_sample_weight(sample_weight, inputs, dtype=np.float64, ensure_non_negative=True)
        nodes = _single_nodes(inputs, labels, weights, evidence)
        return weigh_classes(nodes, classes, self.class_weight), classes

    def _weights(self, inputs: Any, y: Any, sample_weight: object) -> np.ndarray:
        weights = _check_sample_weight(sample_weight, inputs, dtype=np.float64, ensure_non_negative=True)
        if not (isinstance(self.class_weight, str) and self.class_weight == "balanced"):
            return weights * compute_sample_weight(self.class_weight, y)
        # compute_sample_weight would count samples, whatever they weigh.
        labels = np.unique(y, return_inverse=True)[1]
        return weights * balanced_weights(np.bincount(labels, weights=weights))[labels]

    def _read(self, X: object, y: object = None, sample_weight: object = None) -> Graphs:
        if y is None:
            return _single_nodes(self._reader.read(self, X)[0])
        if tells_partly(y):
            return self._partly_labelled(self._reader.read(self, X)[0], y, sample_weight, self.classes_)[0]
        inputs, targets = self._reader.read(self, X, y)
        unknown = set(np.unique(targets).tolist()) - set(self.classes_.tolist())
        if unknown:
            raise ValueError(f"y holds labels that the classifier was not fitted to: {sorted(unknown)[:5]}")
        return _single_nodes(
            inputs, np.searchsorted(self.classes_, targets), self._weights(inputs, targets, sample_weight)
        )

    _places = ("sample", "")

    def _place_names(self, whole: int, part: int, tokens: Any) -> tuple[int, Any, Any]:
        return whole, "", None if tokens is None else tokens[whole]

    def _read_known(self, known: object, data: Graphs) -> tuple[np.ndarray, np.ndarray | None]:
        return read_labels([known], self.classes_, np.array([data.n_positions]), SAMPLES)[:2]

    def _structure(self, classes: np.ndarray, data: Graphs) -> SingleStructure:
        return SingleStructure(len(classes))

    def _cliques(self, training: Training) -> NamedCliques:
        shared: dict[str, Any] = {"label_kernel": self.label_kernel}
        cliques = [
            GraphNodes(self.kernel, basis=self.basis, rank=self.rank, prior_variance=self.prior_variance, **shared)
        ]
        if self.bias:
            cliques.append(GraphNodes(None, name="bias", prior_variance=self._variances_given[0], **shared))
        return name_cliques(cliques)

    def _final_options(self, training: Training, designs: Sequence[Design]) -> FitOptions:
        values = training.data.n_positions * sum(design.term.subspace.rank for design in designs)
        tol = min(self.tol, _POLISHED) if values <= _SMALL else self.tol
        return replace(training.options, tol=tol)

    def _set_fitted(self, training: Training, fitted: FittedField) -> KernelClassifier:
        solution = fitted.solution
        if solution.reason in ("max_iter", "precision") and solution.relative_gap <= self.tol:
            # More was tried than was asked for.
            fitted.solution = replace(solution, reason="gap")
        super()._set_fitted(training, fitted)
        return self

    def _scores(self, X: object, known: object = None) -> np.ndarray:
        """Return f(x, y) of new inputs, (n, L), with the log-weights of what is known."""
        return np.vstack([answers.node for answers in self._answers(X, known=known)])

    def decision_function(self, X: object) -> np.ndarray:
        """Return f(x, y), (n, classes); with two classes the log-odds of the second, (n,)."""
        scores = self._scores(X)
        return scores[:, 1] - scores[:, 0] if scores.shape[1] == 2 else scores

    def predict(self, X: object, *, known: object = None) -> np.ndarray:
        """Return the most probable class of each input, (n,).

        ``known``, here and for probabilities, is what is known of the classes, one entry per input in the form of a
        ``y`` of :meth:`fit`: a class, None, a set of allowed ones, a dict of weights.
        """
        best = self._scores(X, known).argmax(axis=1)
        return self.classes_[best]

    def score(self, X: object, y: object, sample_weight: ArrayLike | None = None) -> float:
        """Return the share of inputs whose class is what :meth:`predict` says, of those that have a known one."""
        if not tells_partly(y):
            return super().score(X, y, sample_weight)
        predicted = self.predict(X)
        labels, known = known_labels([y], self.classes_, np.array([len(predicted)]), SAMPLES)
        weights = None if sample_weight is None else np.asarray(sample_weight)[known]
        right = np.searchsorted(self.classes_, predicted) == labels
        return float(np.average(right[known], weights=weights))

    def predict_proba(self, X: object, *, uncertainty: bool | str = False, known: object = None) -> np.ndarray:
        """Return p(y | x), (n, classes), columns as in ``classes_``.

        After :meth:`laplace`, uncertainty="probit" (or True) shrinks log-odds by their variance around the fit,
        which keeps the most probable classes; "sampling" is the mean over coefficients drawn around it.
        """
        kind = resolve_uncertainty(uncertainty)
        if kind != "probit":
            return np.vstack([marginals for _, marginals, _ in self._averaged(X, kind, None, known)])
        parts, samples = [], self._drawn()
        for answers in self._answers(X, known=known):
            # Labels that meet no others: variances of log-odds need no nudges.
            best = answers.marginals.argmax(axis=1)
            variances = label_variances(self.field_, answers.data, samples, against=best)
            parts.append(probit_marginals(answers.marginals, variances))
        return np.vstack(parts)

    def predict_variances(self, X: object) -> np.ndarray:
        """Return the posterior variances of f(x, y), (n, classes), after :meth:`laplace`."""
        return np.vstack([variances for _, variances in self._variances(X)])

    def predict_log_proba(self, X: object, *, known: object = None) -> np.ndarray:
        """Return log p(y | x), (n, classes)."""
        scores = self._scores(X, known)
        return scores - infer_labels(scores).log_partition[:, None]

    @classmethod
    def _rebuilt_reader(cls, described: Mapping[str, Any]) -> TableReader:
        return TableReader.rebuild(dict(described))

    @classmethod
    def _rebuilt_structure(cls, described: Mapping[str, Any], classes: np.ndarray) -> SingleStructure:
        return SingleStructure(len(classes))

    @classmethod
    def from_document(cls, document: Mapping[str, Any], callables: Functions | None = None) -> KernelClassifier:
        """Return the estimator that was described."""
        estimator = super().from_document(document, callables)
        if estimator._reader.names is not None:
            estimator.feature_names_in_ = np.array(estimator._reader.names, dtype=object)
        return estimator


def _single_nodes(inputs: Any, labels: Any = None, weights: Any = None, evidence: Any = None) -> Graphs:
    """Return inputs as graphs of one node each, which is what clique sets look at."""
    return Graphs(inputs, np.arange(inputs.shape[0] + 1), (), labels, weights, None, evidence)
