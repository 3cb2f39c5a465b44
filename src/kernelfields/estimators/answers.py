"""The labels that a fitted field predicts; its other answers load when they are asked for (probabilities.py)."""

from __future__ import annotations

from typing import Any

from numpy.typing import ArrayLike

from kernelfields.data import extras
from kernelfields.engines.choice import accept_collections_by_item
from kernelfields.estimators import answering
from kernelfields.estimators.kept_field import KeptField


@accept_collections_by_item
def predict(
    self: KeptField[Any, Any],
    X: object,
    decode: str | None = None,
    *,
    known: object = None,
    lengths: ArrayLike | None = None,
) -> answering.ByItem:
    """Return the labels of each item.

    Parameters
    ----------
    X : inputs
        Sequences, graphs or rows, in a form that :meth:`fit` takes.
    decode : {"auto", "viterbi", "posterior"} or None, default None
        "viterbi" takes the most probable labelling as a whole, "posterior" the most probable label of each
        position. None means ``decode`` of the estimator, or its ``decision`` for several labels.
    known : labels or None, default None
        What is known of the labels, in the form of a ``y`` of :meth:`fit`; answers are given that it is so.
    lengths : array (n_items,) or mask (n_items, T), default None
        The lengths of sequences in one array, as for :meth:`fit`.

    Returns
    -------
    list of lists or arrays (T,)
        The labels of each sequence or graph; for rows one array (n,), for several labels (n, K) of 0 and 1.

    See Also
    --------
    predict_marginals : Return the probabilities of labels.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelfields import ChainCRF
    >>> X = [np.array([[20.0], [21.0], [10.0], [11.0]]), np.array([[9.0], [10.0], [22.0]])]
    >>> y = [["sun", "sun", "rain", "rain"], ["rain", "rain", "sun"]]
    >>> crf = ChainCRF("rbf", prior_variance=1.0, scale=True, random_state=0).fit(X, y)
    >>> crf.predict([[[21.0], [10.0]], [[9.0]]])
    [['sun', 'rain'], ['rain']]
    >>> crf.predict([[[21.0], [10.0]]], known=[["rain", None]])
    [['rain', 'rain']]
    """
    if lengths is not None:
        return answering.answer_by_lengths(predict, self, X, lengths, decode=decode, known=known)
    decision, labels = self._decision_rule.decision(self, decode), self._answer_format.labels(self)
    found = self._answer_format.arrange_labels(
        (answers.requested, labels[decision.choose(answers)]) for answers in self.answers(X, known=known)
    )
    if not isinstance(found, extras.Ragged):
        return found
    extras.refuse_named_scorers()
    return extras.LabelLists(found)
