"""Views of a fitted field: its largest weights, explanations of labels, a summary.

Each is a function that fields have as a method; what it needs of the structure of a field is in inspection.py.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from kernelfields.estimators import library
from kernelfields.estimators.kept_field import KeptField
from kernelfields.numerics.threads import Workers

if TYPE_CHECKING:
    from kernelfields.reports.inspection import Explanation, WeightsTable
    from kernelfields.reports.sequences import LabelledSequence


def weights(
    self: KeptField[Any, Any],
    top: int | tuple[int, int] | None = 20,
    labels: Sequence[object] | None = None,
    feature_re: str | re.Pattern[str] | None = None,
    *,
    feature_names: object = None,
) -> WeightsTable:
    """Return the largest weights of every label, and the scores of pairs of labels.

    With a window, names of neighbours' features begin with their offset: "[-1] word:the". Kernels without explicit
    features, such as RBF, have a note instead of weights. Transitions that depend on the inputs have one list for
    all pairs of labels. Weights are relative: a number added to those of one feature for all labels changes no
    probability, so compare the labels of a feature. If columns were brought to one scale, weights are those of the
    scaled columns.

    Parameters
    ----------
    top : int, pair of int or None, default 20
        The number of weights of each label, the largest by size; a pair for positive and negative ones; None for
        all.
    labels : list of labels or None, default None
        The labels to show, in this order, with the transitions between them; None for all.
    feature_re : str, pattern or None, default None
        A regular expression; features are listed if it is found in their names.
    feature_names : sequence of str, dict or None, default None
        The names of the input features, for graphs also a dict by type of edges, with "node" for nodes. None means
        those of the fit, or "x0", "x1", ... for arrays.

    Returns
    -------
    WeightsTable
        The weights, to be printed, shown by a notebook or taken as rows by ``to_rows()``.

    See Also
    --------
    explain : Return what moved the labels of one item.
    summary : Return the field at a glance.

    Examples
    --------
    >>> from kernelfields import ChainCRF
    >>> X = [[{"warm": 1.0}, {"cold": 1.0}], [{"cold": 1.0}, {"cold": 1.0}, {"warm": 1.0}]]
    >>> y = [["sun", "rain"], ["rain", "rain", "sun"]]
    >>> crf = ChainCRF(prior_variance=1.0, tol=1e-6, random_state=0).fit(X, y)
    >>> table = crf.weights(top=1, labels=["sun"], feature_re="warm")
    >>> [(row["feature"], round(row["weight"], 2)) for row in table.to_rows() if row["feature"]]
    [('warm', 0.52)]
    """
    return self._inspection.weights(self, top, labels, feature_re, feature_names)


def explain(
    self: KeptField[Any, Any],
    x: object,
    y: object = None,
    top: int = 5,
    against: object = None,
    *,
    feature_names: object = None,
    tokens: Sequence[object] | None = None,
    positions: Sequence[int] | None = None,
    neighbours: int = 3,
) -> Explanation:
    """Explain the labels of one sequence, graph or row by contributions against other labels.

    The contributions at a position add up to log p(y | x) - log p(y' | x), where y' has the other label at this
    position. A labelling that the field forbids has probability zero: each rule that it breaks contributes
    infinity.

    Parameters
    ----------
    x : sequence, graph or row
        One item, in the form the model was fitted on.
    y : labels or None, default None
        Its labels; None for the predicted ones.
    top : int, default 5
        The number of features to list at each position, the largest by size; transitions and kernels are always
        listed.
    against : label, list of labels or None, default None
        The label to compare with, or one for each position; None for the most probable besides y.
    feature_names : sequence of str, dict or None, default None
        The names of the input features, for graphs also a dict by type of edges, with "node" for nodes. None means
        those of the fit, or "x0", "x1", ... for arrays.
    tokens : sequence or None, default None
        What to show for each position, such as its word or the name of a node.
    positions : sequence of int or None, default None
        The positions to explain; None for all.
    neighbours : int, default 3
        The number of training inputs to list for each kernel without explicit features: the most similar ones.

    Returns
    -------
    Explanation
        The contributions at each position, to be printed, shown by a notebook or taken as rows by ``to_rows()``.

    Raises
    ------
    ValueError
        If the field has no scores of single labels, as those of segments.

    See Also
    --------
    weights : Return the largest weights of all labels.

    Examples
    --------
    >>> from kernelfields import ChainCRF
    >>> X = [[{"warm": 1.0}, {"cold": 1.0}], [{"cold": 1.0}, {"cold": 1.0}, {"warm": 1.0}]]
    >>> y = [["sun", "rain"], ["rain", "rain", "sun"]]
    >>> crf = ChainCRF(prior_variance=1.0, tol=1e-6, random_state=0).fit(X, y)
    >>> print(crf.explain([{"warm": 1.0}, {"cold": 1.0}], positions=[0]))
    Scores of labels over others, the labels of their neighbours held fixed,
    and what they are the sums of. Probabilities are given in brackets.
    <BLANKLINE>
    0: sun (0.738) over rain (0.262), +1.148
        +1.035  warm
        +0.113  transition to rain
    """
    field, settings = self._field(), library.ExplanationSettings(top, neighbours)
    settings.check()
    looks = self._inspection
    if looks.why_unexplained:
        raise ValueError(looks.why_unexplained)
    data = looks.item(self, x, y, "explain")
    form = self._answer_format
    answers, classes = field.answers(data, Workers(1)), form.labels(self).tolist()
    labels = self._decision_rule.decision(self, None).choose(answers) if y is None else data.required_labels
    others = library.likeliest_others(answers.marginals, labels, classes, against)
    words = library.check_tokens(tokens, len(labels), *form.headings) if tokens is not None else looks.tokens(self, x)
    places = library.check_places(positions, len(labels), form.headings[1])
    compared = library.Compared(labels, others, classes, words, places, unordered=form.items.part == "node")
    return library.explain_labels(
        field.terms,
        answers,
        compared,
        lambda term: looks.feature_names(self, term, feature_names),
        lambda term, nodes, place: looks.step_words(self, term, nodes, place, compared),
        settings,
    )


def summary(self: KeptField[Any, Any]) -> library.ModelSummary:
    """Return a summary of the fitted field.

    Returns
    -------
    ModelSummary
        Labels, clique sets, the fit, its certificates and what was left to the data, to be printed, shown by a
        notebook or put on a page of a report.

    See Also
    --------
    weights : Return the largest weights of all labels.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelfields import ChainCRF
    >>> X = [np.array([[20.0], [21.0], [10.0], [11.0]]), np.array([[9.0], [10.0], [22.0]])]
    >>> y = [["sun", "sun", "rain", "rain"], ["rain", "rain", "sun"]]
    >>> crf = ChainCRF("rbf", prior_variance=1.0, scale=True, random_state=0).fit(X, y)
    >>> print(str(crf.summary()).splitlines()[0])
    ChainCRF: 2 labels, 1 input feature, 2 clique sets, 10 weights
    """
    field = self._field()
    forbidden = np.isneginf(field.spec.step_penalties)
    return library.ModelSummary(
        name=type(self).__name__,
        labels=tuple(self._answer_format.labels(self).tolist()),
        n_features=self._reader.rows.n_features,
        sets=tuple(library.summarise_term(term, self._answer_format.items.part) for term in field.terms),
        solution=self.solution_,
        # The free bound over the RKHS proves nothing unless nearly all inputs are pivots.
        certificates=tuple(own for own in self._certificates or () if own.scope == "span" or own.relative_gap < 1.0),
        choices=str(self.choices_).splitlines() if self.choices_.chosen else (),
        parameters=library.describe_changed_parameters(self),
        transitions=self._inspection.transitions(self),
        forbidden=forbidden if forbidden.any() else None,
    )


def show(
    self: Any, x: object, y: Sequence | None = None, *, tokens: Sequence | None = None, caption: str = ""
) -> LabelledSequence:
    """Return one sequence with its predicted labels in colours, for a notebook or a page.

    Parameters
    ----------
    x : sequence
        One sequence, in the form the model was fitted on.
    y : sequence of labels or None, default None
        Its true labels, to mark those that are wrong; they may be labels that were not in the fit. Segments are
        drawn above the predicted ones.
    tokens : sequence or None, default None
        What to show for each position, such as its word; None for the words of x, or a time line without words.
    caption : str, default ""
        A line above the picture.

    Returns
    -------
    LabelledSequence
        The labels with their probabilities, to be shown by a notebook or put on a page of a report.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelfields import ChainCRF
    >>> X = [np.array([[20.0], [21.0], [10.0], [11.0]]), np.array([[9.0], [10.0], [22.0]])]
    >>> y = [["sun", "sun", "rain", "rain"], ["rain", "rain", "sun"]]
    >>> crf = ChainCRF("rbf", prior_variance=1.0, scale=True, random_state=0).fit(X, y)
    >>> picture = crf.show([[21.0], [10.0]], tokens=["Monday", "Tuesday"])
    >>> picture.labels
    ('sun', 'rain')
    """
    check_is_fitted(self, "field_")
    return self._inspection.picture(self, x, y, tokens, caption)
