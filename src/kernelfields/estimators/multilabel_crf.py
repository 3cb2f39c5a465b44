"""MultiLabelCRF: a kernel conditional random field of several yes-or-no labels, as a scikit-learn estimator."""

from __future__ import annotations

import re
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self, TypeAlias

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import Tags

from kernelfields.data.cliques import USUAL, EdgeCliques
from kernelfields.data.indicators import INSTANCES, read_indicator
from kernelfields.data.label_cliques import LabelCliques, LabelledInstances, LabelPairs
from kernelfields.data.reading import check_sample_weight
from kernelfields.data.table_reader import TableReader
from kernelfields.engines.choice import answers_collections
from kernelfields.engines.engine import Sample
from kernelfields.estimators.answering.instances import InstanceFormat, SetRule
from kernelfields.estimators.edges import EdgeParameters, clique_set
from kernelfields.estimators.fit_state import FitState
from kernelfields.estimators.inspecting.explanations import Compared
from kernelfields.estimators.inspecting.inspection import RowInspection
from kernelfields.estimators.inspecting.weights import tabulate_label_weights
from kernelfields.estimators.kernel_classifier import TableField
from kernelfields.estimators.rare_labels import half_largest_f1
from kernelfields.inference.answers import Answers
from kernelfields.inference.choice import FamilySpec, refuse_approximate
from kernelfields.inference.graph_families import plan_labels
from kernelfields.inference.graph_plans import METHODS, check_method
from kernelfields.models.build import NamedCliques, split_sum
from kernelfields.models.choices import Choices
from kernelfields.models.field import Field
from kernelfields.models.instance_terms import Edge, InstanceTerms, named_cliques, pair_names
from kernelfields.models.label_graph import label_edges, learn_label_edges, resolve_label_search
from kernelfields.models.model_file import Document
from kernelfields.models.placed import FittedField
from kernelfields.models.stored import Functions
from kernelfields.models.stored_values import share
from kernelfields.models.structure import StructurePath, StructureSearch
from kernelfields.numerics.parameters import (
    attribute,
    check_prior_variance,
    declares_parameters,
    is_whole,
    one_of,
    or_none,
    parameter,
)
from kernelfields.objective.designs.design import Design
from kernelfields.objective.term import Term
from kernelfields.reports.inspection import WeightsTable

InstanceTraining: TypeAlias = FitState[LabelledInstances, TableReader]
_SMALLEST = np.finfo(np.float64).tiny
# The prior variance of log odds ratios, unless edges has another.
_EDGE_VARIANCE = 10.0


def _check_edges(edges: object, name: str) -> None:
    clique_set(EdgeCliques)(edges, name)
    if not isinstance(edges, EdgeCliques):
        return
    or_none(check_prior_variance)(edges.prior_variance, f"prior_variance of {name}")
    for setting, usual in (("window", None), ("support", None), ("label_kernel", "delta"), ("name", None)):
        if repr(edges.get_params(deep=False)[setting]) != repr(usual):
            raise ValueError(f"{name} of several labels have no {setting}: leave it out of {edges!r}")


@dataclass(frozen=True)
class InstanceInspection(RowInspection):
    """The words of instances with several labels."""

    def item(self, model: Any, x: object, y: object, caller: str) -> LabelledInstances:
        """Return one instance as data, labelled if y is given."""
        return super().item(model, x, None if y is None else np.asarray(y).reshape(1, -1), caller)

    def tokens(self, model: Any, x: Any) -> list[str]:
        """Return the names of the labels."""
        return [str(name) for name in model.label_names_.tolist()]

    def step_words(self, model: Any, term: Term, nodes: list[int], place: int, compared: Compared) -> str:
        """Return whether the other label of a pair is there."""
        other = nodes[1 - place]
        return f"{model.label_names_[other]} is {'there' if compared.labels[other] else 'not there'}"

    def weights(
        self,
        model: Any,
        top: int | tuple[int, int] | None,
        labels: Sequence[object] | None,
        feature_re: str | re.Pattern[str] | None,
        feature_names: object,
    ) -> WeightsTable:
        """Return the largest weights of every label as log odds, biases, and log odds ratios of pairs of labels."""
        field, known = model._field(), model.label_names_.tolist()
        pairs = dict(zip(field.spec.pairs.values(), model.edge_scores_.values(), strict=True))
        names_of = lambda term: self.feature_names(model, term, feature_names)  # noqa: E731
        return tabulate_label_weights(field.terms, pairs, known, names_of, top, labels, feature_re)


@declares_parameters
class MultiLabelCRF(EdgeParameters, TableField[LabelledInstances]):
    """Conditional random field of several yes-or-no labels of an instance, which depend on each other.

        p(y | x) ~ exp( sum_k (f_k(x) + b_k) s_k + sum over edges w_jk s_j s_k ),   s = y - 1/2

    with Gaussian process priors on the f_k, fitted to the maximum a posteriori. f_k(x) + b_k is the log odds of label k
    without the share of the others, w_jk the log odds ratio of two labels given all others. X is a table (n, d), y
    holds 0 and 1, (n, K). docs/multilabel.md.

    Parameters
    ----------
    prior_variance : "auto", float or tuple, default "auto"
        The variance of the log odds f_k; for independent labels the C of a logistic regression on the features of the
        kernel. "auto" chooses a power of ten by held-out data.
    inference : str or object, default "auto"
        How labels are inferred: "tree", "table", "junction" (exact), "trw", "loopy", "mean-field" (approximate) or an
        object with options. "auto" is exact as long as the graph of labels allows; it may change after a fit.
    partial_labels : PartialLabels or None, default None
        Given if labels in y are NaN, which is unknown; docs/partial_labels.md.
    warm_start : bool, default False
        Whether a fit starts from the present coefficients; the pairs of labels stay those of the first fit.
    edges : EdgeCliques or None, default None
        The log odds ratios w_jk; None for one number each, with a prior variance of 10. ``EdgeCliques(kernel)`` adds a
        function of the inputs.
    label_graph : "auto", "none", "tree", "full", "learn", StructureSearch or list of pairs, default "auto"
        Which labels meet: none, the spanning tree of largest mutual information, all pairs, those that a search
        chooses, or pairs by number or name. "auto" is "full" for up to 16 labels, else "tree"; both are exact.
    bias_prior_variance : float or None, default 10.0
        The prior variance of the biases b_k; None leaves them out.
    decision : "auto", "f1", "hamming" or "subset", default "auto"
        What :meth:`predict` returns: labels above ``threshold_`` ("auto", "f1"), labels above one half ("hamming"), or
        the most probable set ("subset"). For "auto" the threshold is the lowest that costs no held-out labels, for "f1"
        half the largest F1.

    Attributes
    ----------
    classes_ : ndarray (K, 2)
        The values 0 and 1 of each label, as scikit-learn has it for several outputs.
    n_labels_ : int
        The number of labels K.
    label_names_ : ndarray (K,)
        The names of the columns of y; numbers if it has none.
    label_edges_ : list of pairs
        The pairs of labels that meet, by name.
    edge_scores_ : dict
        The log odds ratio w_jk of each pair, without its part of the inputs.
    threshold_ : float
        The probability above which ``decision="auto"`` or "f1" predicts a label.
    structure_path_ : StructurePath or None
        The steps of ``label_graph="learn"``.

    See Also
    --------
    KernelClassifier : One label for each row.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelfields import MultiLabelCRF
    >>> X = np.array([[0.0], [0.2], [1.0], [1.2], [2.0], [2.2]])
    >>> y = np.array([[1, 0], [1, 0], [1, 1], [1, 1], [0, 1], [0, 1]])
    >>> model = MultiLabelCRF("rbf", prior_variance=10.0, decision="hamming", random_state=0).fit(X, y)
    >>> model.predict([[0.1], [1.1]])
    array([[1, 0],
           [1, 1]])
    >>> round(model.edge_scores_[0, 1], 1) < 0
    True
    """

    kind = "MultiLabelCRF"
    _family_kind = "instances"
    answer_format = InstanceFormat(headings=("instance", "label name"))
    decision_rule = SetRule()
    inspection = InstanceInspection()

    label_graph: str | StructureSearch | Sequence[tuple[object, object]] = parameter("auto")
    edges: EdgeCliques | None = parameter(None, _check_edges)
    prior_variance: float | str | Sequence[float] = parameter("auto", usual=USUAL["prior_variance"])
    bias_prior_variance: float | None = parameter(10.0, or_none(check_prior_variance))
    inference: object = parameter("auto", lambda value, name: check_method(value, (*METHODS, "table")))
    decision: str = parameter("auto", one_of("auto", "f1", "hamming", "subset"))

    n_labels_: int = attribute()
    label_names_: np.ndarray = attribute()
    label_edges_: list[tuple[Hashable, Hashable]] = attribute()
    edge_scores_: dict[tuple[Hashable, Hashable], float] = attribute()
    structure_path_: StructurePath | None = attribute(None)
    threshold_: float = attribute()

    def _learn(
        self, X: object, y: object, sample_weight: object, part_of: tuple[TableReader, np.ndarray] | None = None
    ) -> tuple[TableReader, LabelledInstances, np.ndarray]:
        reader = self._reader_for(X)
        inputs, _ = reader.learn_rows(self, X)
        labels, partial, columns = read_indicator(y, inputs.shape[0])
        weights = check_sample_weight(sample_weight, len(labels), INSTANCES)
        names: list = list(range(labels.shape[1])) if columns is None else columns
        if len(set(names)) < len(names):
            raise ValueError(f"columns of Y must have different names, got {', '.join(map(str, names))}")
        return reader, LabelledInstances.build(inputs, len(names), {}, labels, weights, partial), np.array(names)

    def read_data(self, X: object, y: object = None, sample_weight: object = None) -> LabelledInstances:
        (inputs, _), labels, partial, weights = self._reader.read_rows(self, X), None, None, None
        if y is not None:
            labels, partial, _ = read_indicator(y, inputs.shape[0], self.label_names_.tolist())
            weights = check_sample_weight(sample_weight, len(labels), INSTANCES)
        return LabelledInstances.build(inputs, self.n_labels_, {}, labels, weights, partial)

    def _all_classes(self, y: Any, classes: ArrayLike | None) -> np.ndarray:
        # The labels of an instance are those of the first batch; reading y raises where it has others.
        return self.classes_

    @property
    def _fitted_labels(self) -> np.ndarray:
        return self.label_names_

    def as_fitted(self) -> Self:
        fitted = super().as_fitted()
        fitted.label_graph = list(self.field_.spec.pairs.values())
        return fitted

    def _reading(self, reader: TableReader, classes: np.ndarray, spec: FamilySpec) -> Self:
        reading = super()._reading(reader, classes, spec)
        reading.n_labels_, reading.label_names_ = len(classes), classes
        return reading

    def _count_labels(self, y: Any, lengths: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
        labels, _, columns = read_indicator(y, len(lengths))
        return np.array(range(labels.shape[1]) if columns is None else columns), None

    def _family_spec(self, classes: np.ndarray, data: LabelledInstances) -> FamilySpec:
        # A search for the pairs of labels that meet begins when the data are placed.
        edges = []
        if resolve_label_search(self.label_graph) is None:
            edges = label_edges(self.label_graph, data, classes.tolist())
        return self._spec_of(edges, classes.tolist())

    def _spec_of(self, edges: Sequence[Edge], names: list) -> FamilySpec:
        pairs = pair_names(edges, names)
        return FamilySpec(self._family_kind, 2, method=self.inference, n_names=len(names), pairs=pairs)

    def _kinds(self) -> tuple[NamedCliques, NamedCliques]:
        """Return the clique sets of every label and of every pair of labels, with the names of their kinds."""
        shared: dict[str, Any] = {"basis": self.basis, "rank": self.rank}
        labels: NamedCliques = [("label", LabelCliques(self.kernel, prior_variance=self.prior_variance, **shared))]
        if self.bias_prior_variance is not None:
            labels = [("bias", LabelCliques(prior_variance=self.bias_prior_variance)), *labels]
        edges = self._edges.filled(prior_variance=_EDGE_VARIANCE, **shared)
        pairs: NamedCliques = [("pair", LabelPairs(prior_variance=edges.prior_variance))]
        if edges.kernel is not None:
            pairs = [*pairs, ("inputs", LabelPairs(**edges.get_params(deep=False)))]
        return labels, pairs

    def for_pilot(self) -> Self:
        piloted = super().for_pilot()
        # What labels have to do with each other hardly matters to how large their functions are, and takes long.
        piloted.label_graph, piloted.inference = "none", "auto"
        return piloted

    @property
    def learns_structure(self) -> bool:
        return resolve_label_search(self.label_graph) is not None

    @property
    def _learns_in_pilot(self) -> bool:
        return self.decision in ("auto", "f1")

    def _learn_from_pilot(self, training: InstanceTraining, field: Field, held_out: LabelledInstances) -> Choices:
        if not self._learns_in_pilot:
            return Choices()
        marginals = field.answers(held_out, training.run.settings.workers, training.run.engine).marginals
        learn = half_largest_f1 if self.decision == "f1" else _lowest_without_loss
        weights = held_out.position_weights * held_out.given.informative()
        return Choices({"threshold": float(learn(marginals[:, 1], held_out.required_labels, weights))})

    def item_labels(self, training: InstanceTraining, y: object) -> list[np.ndarray]:
        data = training.data
        table = (data.required_labels * data.given.informative()).reshape(data.n_instances, -1)
        # One more label for instances that have none, so that folds share them as well.
        return [np.flatnonzero(row) for row in np.column_stack([table, ~table.any(axis=1)])]

    def approximate_method(self, training: InstanceTraining) -> str | None:
        one = training.data.subset(slice(0, 1)).with_pairs(training.spec.pairs)
        members = [factors.members for factors in one.factors]
        family = plan_labels(one.offsets, members, training.spec.method, tied=self._edges.kernel is None)
        return None if family.exact else family.method

    def clique_sets(self, training: InstanceTraining) -> NamedCliques:
        """Return one clique set of each kind that has features; the terms of all labels share them.

        Parameters
        ----------
        training : FitState
            What the fit works on.

        Returns
        -------
        list of (str, CliqueSet)
            The clique sets.
        """
        search = resolve_label_search(self.label_graph)
        kinds = [part for kind in self._kinds() for name, clique in kind for part in split_sum(name, clique)]
        training.estimator.structure_path_ = None
        if search is None:
            return kinds
        if not isinstance(training.data, LabelledInstances):
            raise ValueError(
                "label_graph='learn' needs instances of this process: learn on a part of the data, then name the pairs"
            )
        names = training.classes.tolist()

        def terms_on(instances: LabelledInstances, spec: FamilySpec) -> InstanceTerms:
            return self._terms(replace(training, spec=spec).place(instances, kinds), training)

        run = training.run
        edges, training.estimator.structure_path_ = learn_label_edges(
            search,
            training.data,
            names,
            terms_on=terms_on,
            inference=self.inference,
            options=replace(run.options, watch=None),
            workers=run.settings.workers,
            announce=run.options.report,
        )
        training.spec = self._spec_of(edges, names)
        return kinds

    def term_variances(self, training: InstanceTraining) -> list[float]:
        counts = len(training.classes), len(training.spec.pairs)
        return [
            part.prior_variance
            for kinds, count in zip(self._kinds(), counts, strict=True)
            for name, clique in kinds
            for _, part in split_sum(name, clique)
            for _ in range(count)
        ]

    def _terms(self, sample: Sample, training: InstanceTraining) -> InstanceTerms:
        labels, pairs = self._kinds()
        return InstanceTerms(sample, training.classes.tolist(), labels, pairs, training.run.options.random)

    def term_cliques(self, training: InstanceTraining, cliques: NamedCliques) -> NamedCliques:
        return named_cliques(training.classes.tolist(), training.spec.pairs, *self._kinds())

    def _designs(self, training: InstanceTraining, sample: Sample, cliques: NamedCliques) -> list[Design]:
        return self._terms(sample, training).designs(list(training.spec.pairs.values()))

    def set_fitted(self, training: InstanceTraining, fitted: FittedField) -> Self:
        super().set_fitted(training, fitted)
        self.structure_path_ = training.estimator.structure_path_
        self.threshold_ = self.choices_.chosen.get("threshold", 0.5)
        return self

    def _set_views(self) -> None:
        # Of a fit they are the names of labels, after more batches those are there already.
        names = np.asarray(self.classes_ if np.ndim(self.classes_) == 1 else self.label_names_).tolist()
        pairs = self.field_.spec.pairs
        self.n_labels_ = len(names)
        self.label_names_ = np.array(names)
        self.classes_ = np.array([[0, 1]] * len(names))
        self.basis_ = {term.name: term.subspace for term in self.field_.terms}
        self.coef_ = {term.name: term.known[:, 0] for term in self.field_.terms}
        first = {term.name: float(term.known[0, 0]) for term in self.field_.terms}
        self.label_edges_ = [(names[j], names[k]) for j, k in pairs.values()]
        self.edge_scores_ = {edge: first[name] for edge, name in zip(self.label_edges_, pairs, strict=True)}

    @answers_collections
    def predict_proba(self, X: object, *, uncertainty: bool = False, known: object = None) -> np.ndarray:
        """Return the probability of each label given the inputs.

        Parameters
        ----------
        X : array (n, d)
            The instances.
        uncertainty : bool, default False
            After :meth:`laplace`, allow for doubt about the coefficients, as in :meth:`predict_marginals`.
        known : array (n, K) or None, default None
            Labels that are known, 0 or 1, and NaN where they are not; answers are given that it is so.

        Returns
        -------
        ndarray (n, K)
            P(y_k = 1 | x).

        See Also
        --------
        predict_marginals : Return the probabilities of both values, (n, K, 2).

        Examples
        --------
        >>> import numpy as np
        >>> from kernelfields import MultiLabelCRF
        >>> X = np.array([[0.0], [0.2], [1.0], [1.2], [2.0], [2.2]])
        >>> y = np.array([[1, 0], [1, 0], [1, 1], [1, 1], [0, 1], [0, 1]])
        >>> model = MultiLabelCRF("rbf", prior_variance=10.0, decision="hamming", random_state=0).fit(X, y)
        >>> model.predict_proba([[0.1], [1.1]]).round(2)
        array([[0.94, 0.13],
               [0.89, 0.89]])
        >>> model.predict_proba([[1.6]], known=[[1.0, np.nan]]).round(2)
        array([[1.  , 0.92]])
        """
        return self.predict_marginals(X, uncertainty=uncertainty, known=known)[..., 1]

    def decision_function(self, X: object) -> np.ndarray:
        """Return the log odds of each label given the inputs.

        Parameters
        ----------
        X : array (n, d)
            The instances.

        Returns
        -------
        ndarray (n, K)
            The log odds; zero where the probability is one half.

        Examples
        --------
        >>> import numpy as np
        >>> from kernelfields import MultiLabelCRF
        >>> X = np.array([[0.0], [0.2], [1.0], [1.2], [2.0], [2.2]])
        >>> y = np.array([[1, 0], [1, 0], [1, 1], [1, 1], [0, 1], [0, 1]])
        >>> model = MultiLabelCRF("rbf", prior_variance=10.0, decision="hamming", random_state=0).fit(X, y)
        >>> model.decision_function([[0.1], [1.1]]).round(1)
        array([[ 2.8, -1.9],
               [ 2.1,  2.1]])
        """

        def log_odds(answers: Answers) -> np.ndarray:
            logs = np.log(np.maximum(answers.marginals, _SMALLEST))
            return logs[:, 1] - logs[:, 0]

        return self.answer_format.arrange((answers.data, log_odds(answers)) for answers in self.answers(X))

    def predict_joint(self, X: object, *, known: object = None) -> tuple[np.ndarray, np.ndarray]:
        """Return the most probable set of labels of each instance, and its probability.

        Parameters
        ----------
        X : array (n, d)
            The instances.
        known : array (n, K) or None, default None
            Labels that are known, 0 or 1, and NaN where they are not; answers are given that it is so.

        Returns
        -------
        labels : ndarray (n, K)
            The sets, as 0 and 1.
        probabilities : ndarray (n,)
            The probability of each set as a whole.

        Raises
        ------
        ValueError
            If inference is approximate: probabilities of whole sets are not known then.

        Examples
        --------
        >>> import numpy as np
        >>> from kernelfields import MultiLabelCRF
        >>> X = np.array([[0.0], [0.2], [1.0], [1.2], [2.0], [2.2]])
        >>> y = np.array([[1, 0], [1, 0], [1, 1], [1, 1], [0, 1], [0, 1]])
        >>> model = MultiLabelCRF("rbf", prior_variance=10.0, decision="hamming", random_state=0).fit(X, y)
        >>> labels, probabilities = model.predict_joint([[0.1], [1.1]])
        >>> labels
        array([[1, 0],
               [1, 1]])
        >>> probabilities.round(2)
        array([0.83, 0.79])
        """
        labels, logs = [], []
        for answers in self.answers(X, known=known):
            refuse_approximate(answers.family, "the probability of a set of labels")
            best = answers.best_labels()
            labels.append((answers.data, best))
            logs.append(answers.label_scores(best) - answers.log_partition)
        return self.answer_format.arrange(labels), np.exp(np.minimum(np.concatenate(logs), 0.0))

    def _described_classes(self) -> list:
        return self.label_names_.tolist()

    @classmethod
    def _rebuilt_classes(cls, described: Any) -> np.ndarray:
        names = np.array(list(described))
        if names.ndim != 1 or names.dtype.kind not in "biufU" or not len(names) == len(set(names.tolist())) > 0:
            raise ValueError("the names of the labels must be different texts or numbers, one or more")
        return names

    def _describe_spec(self) -> Document:
        pairs = self.field_.spec.pairs
        return {"pairs": [[name, *edge] for name, edge in pairs.items()], "threshold": float(self.threshold_)}

    @classmethod
    def _rebuilt_spec(cls, described: Document, classes: np.ndarray) -> FamilySpec:
        pairs = {str(name): (int(j), int(k)) for name, j, k in described["pairs"]}
        for name, (j, k) in pairs.items():
            if not 0 <= j < k < len(classes):
                raise ValueError(f"{name!r} joins labels that do not exist")
        return FamilySpec(cls._family_kind, 2, n_names=len(classes), pairs=pairs)

    @classmethod
    def _check_terms(cls, terms: Sequence[Term], reader: TableReader, spec: FamilySpec) -> None:
        for term in terms:
            if term.group is not None and term.group not in spec.pairs:
                raise ValueError(f"set {term.name!r} scores the unknown pair {term.group!r}")
            label = term.clique.label if isinstance(term.clique, LabelCliques) else 0
            if not is_whole(label) or not 0 <= label < spec.n_names:
                raise ValueError(f"set {term.name!r} scores a label that does not exist")

    @classmethod
    def from_document(cls, document: Document, callables: Functions | None = None) -> Self:
        """Return the estimator that was described.

        Parameters
        ----------
        document : dict
            What :meth:`to_document` returned.
        callables : dict of str to callable or None, default None
            Functions of kernels that are not data, by their names.

        Returns
        -------
        Self
            The fitted estimator; errors of any kind if the document is not sound.
        """
        estimator = super().from_document(document, callables)
        estimator.threshold_ = share(document["structure"].get("threshold", 0.5), "the threshold of probabilities")
        return estimator

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        tags.classifier_tags.multi_label = True
        tags.target_tags.multi_output = True
        tags.target_tags.single_output = False
        tags.target_tags.two_d_labels = True
        return tags


def _lowest_without_loss(probabilities: np.ndarray, labels: np.ndarray, weights: np.ndarray) -> float:
    """Return the lowest threshold, of those from 0.1 to 0.5, that makes no more wrong labels than 0.5 does."""
    thresholds = np.linspace(0.1, 0.5, 41)
    wrong = np.array([weights @ ((probabilities > threshold) != labels) for threshold in thresholds])
    return float(thresholds[np.argmax(wrong <= wrong[-1])])
