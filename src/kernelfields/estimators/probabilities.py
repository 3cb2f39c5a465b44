"""Answers of a fitted field about labels: their distribution, their probabilities, the variances of their potentials.

    answers  read new data -> batches -> Field.answers -> the form of the estimator (``_answer_format``)

Each is a function that fields have as a method. Questions that follow from the distribution of the labels alone are in
questions.py, for every family alike.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import singledispatch
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from kernelfields.data import extras
from kernelfields.data.reading import is_empty
from kernelfields.engines.choice import accept_collections_by_item, resolve_scoring_engine
from kernelfields.estimators import answering, library
from kernelfields.estimators.kept_field import KeptField
from kernelfields.numerics.threads import Workers

if TYPE_CHECKING:
    from kernelfields.inference.answers import Answers


@singledispatch
def share_of_fit(model: Any, X: object) -> float:
    """Estimate the share of items that were in the fit; zero if it is unknown."""
    items = model._fitted_items
    return 0.0 if items is None or model._reader.is_empty(X) else items.share(model.structure.read(X))


def answers(self: KeptField[Any, Any], X: object, y: object = None, known: object = None) -> Iterator[Answers]:
    """Yield batches of items with the distribution of their labels.

    Parameters
    ----------
    X : inputs
        Sequences, graphs or rows, in a form that :meth:`fit` takes.
    y : labels or None, default None
        The labels of the items.
    known : labels or None, default None
        What is known of the labels, in the form of a ``y`` of :meth:`fit`; answers are given that it is so.

    Yields
    ------
    Answers
        Marginals, best and n best labellings, draws and log-partition functions of some items, in the order of X.
    """
    field, workers = self._field(), Workers(self.n_jobs)
    if self._reader.is_empty(X) and (y is None or is_empty(y)):
        return
    data = self.structure.read(X, y)
    if self._repeated is not None:
        self._repeated.warn(self._reader.steps.undo(data.inputs))
    form = self._answer_format
    log_weights = None if known is None else form.known_log_weights(self, known, data, field.spec)
    place = resolve_scoring_engine(self.engine, n_values=self._n_values(data))
    begin = 0
    for batch in field.batches(data):
        end = begin + batch.n_positions
        yield field.answers(batch, workers, place).condition(None if log_weights is None else log_weights[begin:end])
        begin = end


@accept_collections_by_item
def predict_marginals(
    self: KeptField[Any, Any],
    X: object,
    cliques: str | None = None,
    *,
    uncertainty: bool = False,
    known: object = None,
    lengths: ArrayLike | None = None,
) -> answering.ByItem:
    """Return the probabilities p(y_t | x) of labels, position by position.

    Parameters
    ----------
    X : inputs
        Sequences, graphs or rows, in a form that :meth:`fit` takes.
    cliques : str or None, default None
        Also return the joint marginals of the labels of a kind of cliques: "edge" are neighbouring labels of
        sequences; those of graphs are named as the types of their edges.
    uncertainty : bool, default False
        After :meth:`laplace`, allow for doubt about the coefficients: log-odds shrink by their variance in the
        posterior around the fit, and the most probable labels stay (the probit correction).
    known : labels or None, default None
        What is known of the labels, in the form of a ``y`` of :meth:`fit`; answers are given that it is so.
    lengths : array (n_items,) or mask (n_items, T), default None
        The lengths of sequences in one array, as for :meth:`fit`.

    Returns
    -------
    list of arrays (T, L)
        The marginals of each item, columns as in ``classes_``; for rows one array (n, L). With ``cliques`` a pair
        of this list and a list of arrays (m, L, .., L); for n-grams that are listed because they were seen in
        training (m, n-grams), in the order of ``coef_``.

    See Also
    --------
    predict : Return the labels.
    predict_variances : Return the posterior variances of potentials.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelfields import ChainCRF
    >>> X = [np.array([[20.0], [21.0], [10.0], [11.0]]), np.array([[9.0], [10.0], [22.0]])]
    >>> y = [["sun", "sun", "rain", "rain"], ["rain", "rain", "sun"]]
    >>> crf = ChainCRF("rbf", prior_variance=1.0, scale=True, random_state=0).fit(X, y)
    >>> crf.classes_.tolist()
    ['rain', 'sun']
    >>> crf.predict_marginals([[[21.0], [10.0]]])[0].round(2)
    array([[0.24, 0.76],
           [0.79, 0.21]])
    >>> marginals, pairs = crf.predict_marginals([[[21.0], [10.0]]], cliques="edge")
    >>> pairs[0].round(2)
    array([[[0.2 , 0.04],
            [0.59, 0.17]]])
    """
    if lengths is not None:
        given: dict[str, Any] = {"cliques": cliques, "uncertainty": uncertainty, "known": known}
        return answering.answer_by_lengths(predict_marginals, self, X, lengths, **given)
    if not isinstance(uncertainty, bool | np.bool_):
        raise ValueError(f"uncertainty must be True or False, got {uncertainty!r}")
    if uncertainty and cliques is not None:
        raise ValueError(
            "uncertainty=True is a correction of the marginals of single labels: ask for cliques without it"
        )
    nodes: list[tuple[Any, np.ndarray]] = []
    joints: list[np.ndarray] = []
    for answers in self.answers(X, known=known):
        nodes.append((answers.requested, _correct_marginals(self, answers) if uncertainty else answers.marginals))
        if cliques is not None:
            joints += answers.clique_marginals(cliques)
    marginals = self._answer_format.arrange(nodes)
    return marginals if cliques is None else (marginals, extras.Ragged(joints))


def _correct_marginals(model: KeptField[Any, Any], answers: Answers) -> np.ndarray:
    """Return marginals (n, L) corrected for uncertainty of the coefficients."""
    return library.shrink_marginals(
        model._field(), answers, library.get_drawn_coefficients(model), Workers(model.n_jobs)
    )


@accept_collections_by_item
def predict_variances(self: KeptField[Any, Any], X: object, *, lengths: ArrayLike | None = None) -> answering.ByItem:
    """Return the posterior variances of the potentials of single labels, after :meth:`laplace`.

    Parameters
    ----------
    X : inputs
        Sequences, graphs or rows, in a form that :meth:`fit` takes.
    lengths : array (n_items,) or mask (n_items, T), default None
        The lengths of sequences in one array, as for :meth:`fit`.

    Returns
    -------
    list of arrays (T, L)
        The variances of each item, columns as in ``classes_``; for rows one array (n, L); for several labels those
        of their log odds (n, K).

    Raises
    ------
    ValueError
        If :meth:`laplace` was not called.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelfields import ChainCRF
    >>> X = [np.array([[20.0], [21.0], [10.0], [11.0]]), np.array([[9.0], [10.0], [22.0]])]
    >>> y = [["sun", "sun", "rain", "rain"], ["rain", "rain", "sun"]]
    >>> crf = ChainCRF("rbf", prior_variance=1.0, scale=True, random_state=0).fit(X, y)
    >>> evidence = crf.laplace(X, y, random_state=0)
    >>> near, far = crf.predict_variances([[[20.0], [90.0]]])[0]
    >>> bool((near < far).all())
    True
    """
    if lengths is not None:
        return answering.answer_by_lengths(predict_variances, self, X, lengths)
    return self._answer_format.arrange_variances(_variances(self, X))


def _variances(model: KeptField[Any, Any], X: object) -> Iterator[tuple[Any, np.ndarray]]:
    """Yield batches with the posterior variances of the potentials of single labels."""
    field, samples = model._field(), library.get_drawn_coefficients(model)
    for batch in field.batches(model.structure.read(X)) if not model._reader.is_empty(X) else ():
        rows = (
            library.label_variances(field, batch.nonempty, samples)
            if batch.n_positions
            else np.zeros((0, field.spec.n_labels))
        )
        yield batch, rows
