"""MultiLabelCRF: a kernel conditional random field of several yes-or-no labels, as a scikit-learn estimator."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from kernelfields.engines.engine import Sample
from kernelfields.estimators.base import BasisLike, EngineLike, FieldEstimator, KernelLike, Seed
from kernelfields.estimators.inspecting.explanations import Asked, explain_instance
from kernelfields.estimators.inspecting.inspection import tabulate_label_weights
from kernelfields.estimators.settling import Training
from kernelfields.estimators.stored import Functions
from kernelfields.features.indicators import INSTANCES, read_partial_indicator
from kernelfields.features.readers import TableReader
from kernelfields.fields.evidence import informative
from kernelfields.fields.label_cliques import LabelCliques, LabelledInstances, LabelPairs, weigh_instances
from kernelfields.fields.reading import check_class_weight, check_sample_weight
from kernelfields.inference.answers import Answers
from kernelfields.inference.plan import METHODS, check_method
from kernelfields.models.build import NamedCliques, split_sum
from kernelfields.models.field import Field
from kernelfields.models.fit import FittedField
from kernelfields.models.instance_terms import InstanceTerms, pair_names
from kernelfields.models.partial import PartialLabels
from kernelfields.models.stored_values import share
from kernelfields.numerics.parameters import check_choice, check_prior_variance, is_whole
from kernelfields.objective.designs.design import Design
from kernelfields.objective.likelihoods.graph import InstanceStructure, refuse_approximate
from kernelfields.objective.likelihoods.likelihood import LabelStructure
from kernelfields.objective.term import Term
from kernelfields.reports.inspection import Explanation, WeightsTable
from kernelfields.structure.candidates import label_edges, learn_label_edges, resolve_label_search
from kernelfields.structure.search import StructurePath, StructureSearch
from kernelfields.uncertainty.laplace.probit import resolve_uncertainty

_SMALLEST = np.finfo(np.float64).tiny


class MultiLabelCRF(ClassifierMixin, FieldEstimator):
    """Labels of an instance that depend on its inputs through kernels, and on each other.

    p(y | x) ~ exp( sum_k (f_k(x) + b_k) s_k + sum over edges w_jk s_j s_k ),   s = y - 1/2,

    with Gaussian process priors on the f_k, fitted to the maximum a posteriori. f_k(x) + b_k is the log odds of
    label k without the others' share, w_jk the log odds ratio of two labels given all others. X is a table (n, d),
    dense or sparse; y holds 0 and 1, (n, K), as scikit-learn's multi-label classifiers take it.

    Parameters
    ----------
    kernel : "auto", Kernel, str, callable or scikit-learn kernel, default "auto"
        Kernel on the inputs; all labels share it and its basis. "auto" is "linear" for wide sparse inputs, else "rbf".
    label_graph : "auto", "none", "tree", "full", "learn", StructureSearch or list of pairs, default "auto"
        Which labels meet: none (independent labels), the spanning tree of largest mutual information in the
        training labels, all pairs, those that a search chooses (Remark 11; a StructureSearch sets its terms), or
        pairs given by number or by name. "auto" is "full" for up to 16 labels, else "tree": both are exact.
    edge_kernel : kernel or None
        Kernel on the inputs for a part of w_jk that depends on them; None for one number for all instances.
    rank, basis : as in ChainCRF
    prior_variance : "auto", float or tuple, default "auto"
        Of the log odds f_k; for independent labels, the C of a logistic regression on the features of the kernel.
        "auto" chooses a power of ten by short fits on a part of the data.
    edge_prior_variance, bias_prior_variance : float, default 10.0
        Of the log odds ratios w_jk and of the biases b_k; a bias_prior_variance of None leaves the biases out.
    inference : str or object, default "auto"
        "tree", "table", "junction" (exact), "trw", "loopy", "mean-field" (approximate), "gibbs" (for predictions
        alone), or "auto", an exact one as long as the graph of labels allows; ``inference_.description``
        says which. May be changed between fit and predictions.
    decision : "auto", "f1", "hamming" or "subset", default "auto"
        What :meth:`predict` returns: labels whose own probability is above ``threshold_``, above 1/2 ("hamming"), or
        the most probable set ("subset"). The threshold is learnt on instances that were held out of a short fit, 1/2
        where there are fewer than 100. "auto": the lowest that makes no more wrong labels than 1/2 does, so that rare
        labels are found which a prior keeps from being probable; "f1": half the largest F1 that any threshold has,
        which is where F1 itself is largest if probabilities are right.
    scale, solver, tol, max_iter, dtype, n_jobs, engine, random_state, verbose, callbacks : as in ChainCRF
    class_weight : dict of labels, "balanced" or None
        An instance counts with the mean weight of its labels: of a label in the dict the weight given if the instance
        has it, else 1; "balanced" gives having and not having a label the same total.
    partial_labels : PartialLabels or None
        How to fit where labels in y are NaN, which is unknown.

    Attributes
    ----------
    n_labels_, label_names_ : the number of labels K, and the names of the columns of y (numbers if it has none)
    classes_ : array (K, 2), the values 0 and 1 of each label, as scikit-learn has it for several outputs
    label_edges_, edge_scores_ : list of pairs of names; dict, pair -> w_jk, without its part of the inputs
    basis_, coef_ : dicts, name of a clique set -> its subspace; its coefficients as log odds (ratios), (rank,)
    structure_path_ : StructurePath of label_graph="learn", else None
    threshold_ : the probability above which decision="auto" or "f1" predicts a label
    inference_ : how the fit was inferred: ``method``, ``exact`` and ``description``
    solution_ : Solution; certificate_, rkhs_certificate_ : Certificates, only where inference is exact
    n_features_in_, feature_names_in_ : as in scikit-learn
    """

    kind = "MultiLabelCRF"

    n_labels_: int
    label_names_: np.ndarray
    structure_path_: StructurePath | None
    threshold_: float

    def __init__(
        self,
        kernel: KernelLike = "auto",
        *,
        label_graph: str | StructureSearch | Sequence[tuple[object, object]] = "auto",
        edge_kernel: KernelLike | None = None,
        rank: int | None = 1000,
        basis: BasisLike = "random-cholesky",
        prior_variance: float | str | Sequence[float] = "auto",
        edge_prior_variance: float = 10.0,
        bias_prior_variance: float | None = 10.0,
        scale: bool | str = "auto",
        inference: object = "auto",
        decision: str = "auto",
        solver: object = "auto",
        tol: float = 1e-3,
        max_iter: int = 1000,
        dtype: object = "auto",
        n_jobs: int | None = None,
        engine: EngineLike = "auto",
        random_state: Seed = None,
        verbose: int = 0,
        callbacks: Sequence[object] | None = None,
        class_weight: Mapping[object, float] | str | None = None,
        partial_labels: PartialLabels | None = None,
    ):
        self.kernel = kernel
        self.label_graph = label_graph
        self.edge_kernel = edge_kernel
        self.rank = rank
        self.basis = basis
        self.prior_variance = prior_variance
        self.edge_prior_variance = edge_prior_variance
        self.bias_prior_variance = bias_prior_variance
        self.scale = scale
        self.inference = inference
        self.decision = decision
        self.solver = solver
        self.tol = tol
        self.max_iter = max_iter
        self.dtype = dtype
        self.n_jobs = n_jobs
        self.engine = engine
        self.random_state = random_state
        self.verbose = verbose
        self.callbacks = callbacks
        self.class_weight = class_weight
        self.partial_labels = partial_labels

    def fit(self, X: object, y: object, sample_weight: ArrayLike | None = None) -> MultiLabelCRF:
        """Fit the field to inputs X (n, d) and labels y (n, K) of 0 and 1; one weight per instance.

        Ctrl-C ends the fit with the best estimate so far, and a warning.
        """
        return self._fit(X, y, sample_weight)

    def _check_parameters(self) -> None:
        check_prior_variance(self.edge_prior_variance, "edge_prior_variance")
        if self.bias_prior_variance is not None:
            check_prior_variance(self.bias_prior_variance, "bias_prior_variance")
        check_choice(self.decision, "decision", ("auto", "f1", "hamming", "subset"))
        check_method(self.inference, (*METHODS, "table"))
        check_class_weight(self.class_weight)
        super()._check_parameters()

    def _learn(self, X: object, y: object, sample_weight: object, part_of: Any = None) -> tuple[Any, Any, np.ndarray]:
        reader = TableReader()
        inputs, _ = reader.learn(self, X)
        labels, evidence, columns = read_partial_indicator(y, inputs.shape[0])
        weights = check_sample_weight(sample_weight, len(labels), INSTANCES)
        names: list = list(range(labels.shape[1])) if columns is None else columns
        if len(set(names)) < len(names):
            raise ValueError(f"columns of Y must have different names, got {', '.join(map(str, names))}")
        weights = weigh_instances(labels, evidence, weights, names, self.class_weight)
        return reader, LabelledInstances.build(inputs, len(names), {}, labels, weights, evidence), np.array(names)

    def _read(self, X: object, y: object = None, sample_weight: object = None) -> LabelledInstances:
        (inputs, _), labels, evidence, weights = self._reader.read(self, X), None, None, None
        if y is not None:
            labels, evidence, _ = read_partial_indicator(y, inputs.shape[0], self.label_names_.tolist())
            weights = check_sample_weight(sample_weight, len(labels), INSTANCES)
        return LabelledInstances.build(inputs, self.n_labels_, {}, labels, weights, evidence)

    _places = ("instance", "label name")

    def _label_names(self) -> np.ndarray:
        return np.arange(2)

    def _place_names(self, whole: int, part: int, tokens: Any) -> tuple[int, Any, Any]:
        return whole, self.label_names_[part].item(), None if tokens is None else tokens[whole]

    def _read_known(self, known: object, data: LabelledInstances) -> tuple[np.ndarray, np.ndarray | None]:
        labels, evidence, _ = read_partial_indicator(known, data.n_instances, self.label_names_.tolist())
        return labels.reshape(-1), evidence

    def _read_fitted(self, X: object, y: object, sample_weight: object) -> LabelledInstances:
        data, names = self._read(X, y, sample_weight), self.label_names_.tolist()
        table = data.labels.reshape(-1, self.n_labels_)
        weights = weigh_instances(table, data.evidence, data.weights, names, self.class_weight)
        return LabelledInstances.build(data.inputs, self.n_labels_, {}, table, weights, data.evidence)

    def _structure(self, classes: np.ndarray, data: LabelledInstances) -> InstanceStructure:
        # Which labels meet is learnt when the data are placed, if that is asked for.
        edges = []
        if resolve_label_search(self.label_graph) is None:
            table = data.labels.reshape(-1, len(classes))
            known = None if data.evidence is None else informative(data.evidence).reshape(table.shape)
            edges = label_edges(self.label_graph, table, data.weights, classes.tolist(), known)
        return InstanceStructure(len(classes), pair_names(edges, classes.tolist()), self.inference)

    def _field(self) -> Field:
        check_is_fitted(self, "field_")
        # How labels are inferred may change after the fit.
        structure: Any = replace(self.field_.structure, method=self.inference)  # type: ignore[type-var]
        return replace(self.field_, structure=structure)

    def _kinds(self) -> tuple[NamedCliques, NamedCliques]:
        """Return what every label and every pair of labels has: clique sets, with the names of their kinds."""
        shared: dict[str, Any] = {"basis": self.basis, "rank": self.rank}
        labels: list = []
        if self.bias_prior_variance is not None:
            labels.append(("bias", LabelCliques(prior_variance=self.bias_prior_variance)))
        labels.append(("label", LabelCliques(self.kernel, prior_variance=self.prior_variance, **shared)))
        variance = self.edge_prior_variance
        pairs: list = [("pair", LabelPairs(prior_variance=variance))]
        if self.edge_kernel is not None:
            pairs.append(("inputs", LabelPairs(self.edge_kernel, prior_variance=variance, **shared)))
        return labels, pairs

    def _for_rehearsal(self) -> MultiLabelCRF:
        rehearsed = super()._for_rehearsal()
        # What labels have to do with each other hardly matters to how large their functions are, and takes long.
        rehearsed.label_graph, rehearsed.inference = "none", "auto"
        return rehearsed

    @property
    def _learns_in_rehearsal(self) -> bool:  # type: ignore[override]
        return self.decision in ("auto", "f1")

    def _learn_from_rehearsal(self, training: Training, field: Field, held_out: LabelledInstances) -> None:
        if not self._learns_in_rehearsal:
            return
        marginals = field.answers(held_out, training.settings.workers, training.engine).marginals
        learn = _half_largest_f1 if self.decision == "f1" else _lowest_without_loss
        weights = held_out.position_weights
        if held_out.evidence is not None:
            weights = weights * informative(held_out.evidence)
        training.threshold = learn(marginals[:, 1], held_out.labels, weights)

    def _cliques(self, training: Training) -> NamedCliques:
        """Return one clique set of each kind that has features; the terms of all labels share them."""
        search = resolve_label_search(self.label_graph)
        kinds = [part for kind in self._kinds() for name, clique in kind for part in split_sum(name, clique)]
        if search is None:
            return kinds
        names = training.classes.tolist()

        def terms_on(instances: LabelledInstances, structure: InstanceStructure) -> InstanceTerms:
            return self._terms(replace(training, structure=structure).place(instances, kinds), training)

        edges, training.structure_path = learn_label_edges(
            search,
            training.data,
            names,
            terms_on=terms_on,
            inference=self.inference,
            options=replace(training.options, watch=None, criteria=None),
            workers=training.settings.workers,
            say=training.say,
        )
        training.structure = InstanceStructure(len(names), pair_names(edges, names), self.inference)
        return kinds

    def _term_variances(self, training: Training) -> list[float]:
        counts = len(training.classes), len(training.structure.pairs)  # type: ignore[attr-defined]
        return [
            part.prior_variance
            for kinds, count in zip(self._kinds(), counts, strict=True)
            for name, clique in kinds
            for _, part in split_sum(name, clique)
            for _ in range(count)
        ]

    def _terms(self, sample: Any, training: Training) -> InstanceTerms:
        labels, pairs = self._kinds()
        return InstanceTerms(sample, training.classes.tolist(), labels, pairs, training.options.random)

    def _designs(self, training: Training, sample: Sample) -> tuple[list[Design], None]:
        structure = training.structure
        assert isinstance(structure, InstanceStructure)
        return list(self._terms(sample, training).designs(list(structure.pairs.values()))), None

    def _set_fitted(self, training: Training, fitted: FittedField) -> MultiLabelCRF:
        super()._set_fitted(training, fitted)
        self.structure_path_, self.threshold_ = training.structure_path, training.threshold
        return self

    def _set_views(self) -> None:
        names = np.asarray(self.classes_).tolist()
        pairs = self.field_.structure.pairs  # type: ignore[attr-defined]
        self.n_labels_ = len(names)
        self.label_names_ = np.array(names)
        self.classes_ = np.array([[0, 1]] * len(names))
        self.basis_ = {term.name: term.subspace for term in self.field_.terms}
        self.coef_ = {term.name: term.known[:, 0] for term in self.field_.terms}
        self.label_edges_ = [(names[j], names[k]) for j, k in pairs.values()]
        self.edge_scores_ = {
            edge: float(self.coef_[name][0]) for edge, name in zip(self.label_edges_, pairs, strict=True)
        }

    def predict(self, X: object, *, known: object = None) -> np.ndarray:
        """Return the labels of each instance, (n, K) of 0 and 1, by the loss that ``decision`` names.

        "auto" and "f1": labels whose probability is above ``threshold_``;
        "hamming": labels whose probability is above one half, which makes the fewest wrong labels in expectation;
        "subset": the most probable set of labels as a whole, which is most often right in all of them.

        ``known``, here and in the methods below, are labels that are known, (n, K) of 0, 1 and NaN for those that are
        not. Answers are then given that it is so.
        """
        if self.decision == "subset":
            return self._stacked(answers.best_labels() for answers in self._answers(X, known=known))
        probabilities = self.predict_proba(X, known=known)
        return (probabilities > (self.threshold_ if self._learns_in_rehearsal else 0.5)).astype(np.int64)

    def predict_proba(self, X: object, *, uncertainty: bool | str = False, known: object = None) -> np.ndarray:
        """Return the probability of each label given the inputs, P(y_k = 1 | x), (n, K).

        After :meth:`laplace`, uncertainty="probit" (or True) shrinks the log odds of each label by their variance
        around the fit; "sampling" is the mean over coefficients drawn around it.
        """
        kind = resolve_uncertainty(uncertainty)
        return self._stacked(marginals[:, 1] for _, marginals, _ in self._averaged(X, kind, None, known))

    def predict_variances(self, X: object) -> np.ndarray:
        """Return the posterior variances of the log odds f_k(x) + b_k, (n, K), after :meth:`laplace`."""
        # A log odds of one is a potential of one half.
        return self._stacked(4.0 * variances[:, 1] for _, variances in self._variances(X))

    def decision_function(self, X: object) -> np.ndarray:
        """Return the log odds of each label given the inputs, (n, K); zero where its probability is 1/2."""

        def log_odds(answers: Answers) -> np.ndarray:
            logs = np.log(np.maximum(answers.marginals, _SMALLEST))
            return logs[:, 1] - logs[:, 0]

        return self._stacked(log_odds(answers) for answers in self._answers(X))

    def predict_joint(self, X: object, *, known: object = None) -> tuple[np.ndarray, np.ndarray]:
        """Return the most probable set of labels of each instance, (n, K), and its probability, (n,).

        ValueError if inference is approximate, as probabilities of whole sets are not known then.
        """
        labels, logs = [], []
        for answers in self._answers(X, known=known):
            refuse_approximate(answers.inference, "the probability of a set of labels")
            best = answers.best_labels()
            labels.append(best)
            logs.append(answers.label_scores(best) - answers.log_partition)
        return self._stacked(iter(labels)), np.exp(np.minimum(np.concatenate(logs), 0.0))

    def log_likelihood(
        self, X: object, y: object, *, per_instance: bool = False, known: object = None
    ) -> float | np.ndarray:
        """Return log p(y | x), summed over instances or for each; ValueError if inference is approximate.

        Of a y that is partly known, the probability of what it tells.
        """
        values = self._log_likelihoods(X, y, known)
        return values if per_instance else float(values.sum())

    def score(self, X: object, y: object, sample_weight: ArrayLike | None = None) -> float:
        """Return the share of instances whose labels are all right (subset accuracy, as in scikit-learn).

        Where labels are NaN, those count that are known; an instance of which none is does not count.
        """
        predicted = self.predict(X)
        labels, evidence, _ = read_partial_indicator(y, len(predicted), self.label_names_.tolist())
        known = np.ones(labels.shape, bool) if evidence is None else informative(evidence).reshape(labels.shape)
        weights = check_sample_weight(sample_weight, len(labels), INSTANCES) * known.any(axis=1)
        if not weights.any():
            raise ValueError("no label of y is known: there is no instance to compare predictions with")
        return float(np.average(((predicted == labels) | ~known).all(axis=1), weights=weights))

    def weights(
        self,
        top: int | tuple[int, int] | None = 20,
        labels: Sequence[object] | None = None,
        feature_re: Any = None,
        *,
        feature_names: Sequence[str] | None = None,
    ) -> WeightsTable:
        """Return the largest weights of every label, as log odds, biases, and log odds ratios of pairs of labels.

        Parameters as in :meth:`ChainCRF.weights`.
        """
        check_is_fitted(self, "field_")
        return tabulate_label_weights(self, top, labels, feature_re, feature_names)

    def explain(
        self,
        x: object,
        y: object = None,
        top: int = 5,
        *,
        feature_names: Sequence[str] | None = None,
        pivots: int = 0,
        neighbours: int = 3,
        training: tuple[object, object] | None = None,
    ) -> Explanation:
        """Return, for one instance, what speaks for and against each label: features, bias and the other labels.

        The contributions add up to the log odds of the label given the others as they are in ``y``, by default those
        that are predicted. Parameters as in :meth:`ChainCRF.explain`.
        """
        check_is_fitted(self, "field_")
        return explain_instance(self, x, y, Asked.of(self, training, top, None, feature_names, pivots, neighbours))

    def sample(
        self, X: object, n_samples: int | None = None, random_state: Seed = None, *, known: object = None
    ) -> np.ndarray:
        """Draw labels from p(y | x): (n, K), or (n_samples, n, K) if a number is given."""
        batches = self._draws(X, n_samples, random_state, known)
        draws = [drawn.reshape(len(drawn), -1, self.n_labels_) for _, drawn in batches]
        drawn = np.concatenate(draws, axis=1)
        return drawn[0] if n_samples is None else drawn

    def _stacked(self, parts: Iterator[np.ndarray]) -> np.ndarray:
        """Return figures of all labels, (n K,) for each batch, as (n, K)."""
        return np.vstack([part.reshape(-1, self.n_labels_) for part in parts])

    def _described_classes(self) -> list:
        return self.label_names_.tolist()

    @classmethod
    def _rebuilt_classes(cls, described: Any) -> np.ndarray:
        names = np.array(list(described))
        if names.ndim != 1 or names.dtype.kind not in "biufU" or not len(names) == len(set(names.tolist())) > 0:
            raise ValueError("the names of the labels must be different texts or numbers, one or more")
        return names

    def _describe_structure(self) -> dict[str, Any]:
        pairs = self.field_.structure.pairs  # type: ignore[attr-defined]
        return {"pairs": [[name, *edge] for name, edge in pairs.items()], "threshold": float(self.threshold_)}

    @classmethod
    def _rebuilt_reader(cls, described: Mapping[str, Any]) -> TableReader:
        return TableReader.rebuild(dict(described))

    @classmethod
    def _rebuilt_structure(cls, described: Mapping[str, Any], classes: np.ndarray) -> InstanceStructure:
        pairs = {str(name): (int(j), int(k)) for name, j, k in described["pairs"]}
        for name, (j, k) in pairs.items():
            if not 0 <= j < k < len(classes):
                raise ValueError(f"{name!r} joins labels that do not exist")
        return InstanceStructure(len(classes), pairs)

    @classmethod
    def _check_terms(cls, terms: Sequence[Term], reader: TableReader, structure: LabelStructure) -> None:
        assert isinstance(structure, InstanceStructure)
        for term in terms:
            if term.group is not None and term.group not in structure.pairs:
                raise ValueError(f"set {term.name!r} scores the unknown pair {term.group!r}")
            label = term.clique.label if isinstance(term.clique, LabelCliques) else 0
            if not is_whole(label) or not 0 <= label < structure.n_names:
                raise ValueError(f"set {term.name!r} scores a label that does not exist")

    @classmethod
    def from_document(cls, document: Mapping[str, Any], callables: Functions | None = None) -> MultiLabelCRF:
        """Return the estimator that was described."""
        estimator = super().from_document(document, callables)
        estimator.structure_path_ = None
        estimator.threshold_ = share(document["structure"].get("threshold", 0.5), "the threshold of probabilities")
        if estimator._reader.names is not None:
            estimator.feature_names_in_ = np.array(estimator._reader.names, dtype=object)
        return estimator

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        tags.classifier_tags.multi_label = True
        tags.target_tags.multi_output = True
        tags.target_tags.single_output = False
        tags.target_tags.two_d_labels = True
        tags.input_tags.sparse = True
        return tags


def _half_largest_f1(probabilities: np.ndarray, labels: np.ndarray, weights: np.ndarray) -> float:
    """Return half the largest F1, over all labels together, of those above some threshold; 1/2 without any label."""
    order = np.argsort(-probabilities, kind="stable")
    right = np.cumsum((weights * labels)[order])
    return 0.5 if not right[-1] > 0 else float((right / (np.cumsum(weights[order]) + right[-1])).max())


def _lowest_without_loss(probabilities: np.ndarray, labels: np.ndarray, weights: np.ndarray) -> float:
    """Return the lowest threshold, of those from 0.1 to 0.5, that makes no more wrong labels than 0.5 does."""
    thresholds = np.linspace(0.1, 0.5, 41)
    wrong = [float(weights @ ((probabilities > each) != labels)) for each in thresholds]
    return float(thresholds[next(place for place, value in enumerate(wrong) if value <= wrong[-1])])
