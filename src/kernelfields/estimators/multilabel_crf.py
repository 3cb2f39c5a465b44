"""MultiLabelCRF: a kernel conditional random field of several yes-or-no labels, as a scikit-learn estimator."""

from __future__ import annotations

import re
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from kernelfields.data.cliques import USUAL, EdgeCliques
from kernelfields.data.label_cliques import LabelledInstances
from kernelfields.data.ragged import refuse_scorers_of_one_label
from kernelfields.data.table_reader import TableReader
from kernelfields.engines.choice import accept_collections_by_item
from kernelfields.estimators.answering.instances import InstanceFormat, SetRule
from kernelfields.estimators.edges import clique_set
from kernelfields.estimators.fit_state import FitState
from kernelfields.estimators.inspecting.explanations import Compared
from kernelfields.estimators.inspecting.inspection import RowInspection
from kernelfields.estimators.inspecting.weights import tabulate_label_weights
from kernelfields.estimators.kernel_classifier import TableField
from kernelfields.inference.answers import Answers
from kernelfields.inference.choice import refuse_approximate
from kernelfields.inference.graph_plans import METHODS, check_method
from kernelfields.numerics.parameters import (
    attribute,
    check_one,
    check_prior_variance,
    declares_parameters,
    or_none,
    parameter,
)
from kernelfields.objective.term import Term
from kernelfields.reports.inspection import WeightsTable
from kernelfields.structures.instances import InstanceStructure

InstanceTraining: TypeAlias = FitState[LabelledInstances, TableReader]
_SMALLEST = np.finfo(np.float64).tiny


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
    """Inspection of fields on instances with several labels."""

    def item(self, model: Any, x: object, y: object, caller: str) -> LabelledInstances:
        """Return one instance as data, labelled if y is given."""
        return super().item(model, x, None if y is None else np.asarray(y).reshape(1, -1), caller)

    def tokens(self, model: Any, x: Any) -> list[str]:
        """Return the names of the labels."""
        return [str(name) for name in model.label_names_.tolist()]

    def step_words(self, model: Any, term: Term, nodes: list[int], place: int, compared: Compared) -> str:
        """Return the state of the other label of a pair."""
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
class MultiLabelCRF(TableField[LabelledInstances]):
    """Conditional random field of several dependent yes-or-no labels of an instance.

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
    label_graph : "auto", "none", "tree", "full" or list of pairs, default "auto"
        Which labels meet: none, the spanning tree of largest mutual information, all pairs, or pairs by number or name.
        "auto" is "full" for up to 16 labels, else "tree"; both are exact.
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

    See Also
    --------
    KernelClassifier : One label for each row.
    kernelfields.selection.StructureSearch : A MultiLabelCRF with pairs of labels that are chosen.

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

    _kind = "MultiLabelCRF"
    _structures = InstanceStructure
    _answer_format = InstanceFormat(headings=("instance", "label name"))
    _decision_rule = SetRule()
    _inspection = InstanceInspection()

    # What labels have to do with each other hardly matters to how large their functions are, and takes long.
    label_graph: str | Sequence[tuple[object, object]] = parameter("auto", short="none")
    edges: EdgeCliques | None = parameter(None, _check_edges, nested=EdgeCliques)
    prior_variance: float | str | Sequence[float] = parameter("auto", usual=USUAL["prior_variance"])
    bias_prior_variance: float | None = parameter(10.0, or_none(check_prior_variance))
    inference: object = parameter("auto", lambda value, name: check_method(value, (*METHODS, "table")), short="auto")
    decision: str = parameter("auto", check_one("auto", "f1", "hamming", "subset"), learnt=("auto", "f1"))

    n_labels_: int = attribute()
    label_names_: np.ndarray = attribute()
    label_edges_: list[tuple[Hashable, Hashable]] = attribute()
    edge_scores_: dict[tuple[Hashable, Hashable], float] = attribute()

    @property
    def threshold_(self) -> float:
        """The probability threshold of labels with ``decision="auto"`` or "f1"."""
        check_is_fitted(self, "field_")
        return self.choices_.chosen.get("threshold", 0.5)

    @accept_collections_by_item
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
        refuse_scorers_of_one_label()
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

        return self._answer_format.arrange((answers.data, log_odds(answers)) for answers in self.answers(X))

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
        return self._answer_format.arrange(labels), np.exp(np.minimum(np.concatenate(logs), 0.0))

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        tags.classifier_tags.multi_label = True
        tags.target_tags.multi_output = True
        tags.target_tags.single_output = False
        tags.target_tags.two_d_labels = True
        return tags
