"""Questions about labels that depend on their distribution only, for every family of labellings.

Each is a function that classes have as a method. It asks the class where the distribution comes from (``answers``), and
for the form of its answers (``_answer_format``). Answers may be conditioned on known labels. With log q (N, L) for what
is known (data/partial_labels.py) and u the potentials of the labels:

    p(y | x, known)       exp(score(y) + sum_t log q_t(y_t)) / Z(u + log q)
    log p(known | x)      log Z(u + log q) - log Z(u)

Weights count relative to the largest of their position, so that a label, or a set of possible ones, has the weight one.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, Self, TypeAlias

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from kernelfields.data.reading import Seed, random_generator
from kernelfields.engines.choice import accept_collections_by_item
from kernelfields.estimators.answering.decisions import DecisionRule
from kernelfields.estimators.answering.formats import AnswerFormat, ByItem
from kernelfields.estimators.answering.lengths import answer_by_lengths
from kernelfields.estimators.answering.ranked import Condition, ranked_labellings
from kernelfields.numerics.parameters import check_count

if TYPE_CHECKING:
    from kernelfields.inference.answers import Answers


#: Labellings of each item with their log-probabilities.
Ranked: TypeAlias = list[list[tuple[Any, float]]]


class LabelField(Protocol):
    """A fitted field that answers questions about labels of sequences, graphs, instances or rows."""

    classes_: np.ndarray
    _answer_format: ClassVar[AnswerFormat[Any]]
    _decision_rule: ClassVar[DecisionRule]

    def answers(self, X: object, y: object = None, known: object = None) -> Iterator[Answers]:
        """Yield batches of items with the distribution of their labels."""

    def predict(self, X: object, *, known: object = None) -> ByItem:
        """Return the labels of each item."""

    def _picklable(self) -> Self:
        """Return a copy that can be pickled."""


@accept_collections_by_item
def predict_nbest(
    self: LabelField,
    X: object,
    k: int,
    *,
    known: object = None,
    where: Condition | None = None,
    max_ranked: int = 1000,
    lengths: ArrayLike | None = None,
) -> Ranked:
    """Return the k most probable labellings of each item, with their log-probabilities.

    Parameters
    ----------
    X : inputs
        Sequences, graphs or rows, in a form that :meth:`fit` takes.
    k : int
        The most labellings of an item; there may be fewer.
    known : labels or None, default None
        What is known of the labels, in the form of a ``y`` of :meth:`fit`; answers are given that it is so.
    where : callable or None, default None
        A condition: a function of the labels of an item, such as "each label at most once". Only labellings that it
        accepts are returned, the most probable of them first; no more are ranked than it takes.
    max_ranked : int, default 1000
        The most labellings of an item that ``where`` sees.
    lengths : array (n_items,) or mask (n_items, T), default None
        The lengths of sequences in one array, as for :meth:`fit`.

    Returns
    -------
    list of lists of (labels, float)
        For each item its labellings, the most probable first, each with log p(y | x).

    Raises
    ------
    ValueError
        If inference is approximate.

    See Also
    --------
    sample : Draw labellings from p(y | x).

    Examples
    --------
    >>> import numpy as np
    >>> from kernelfields import ChainCRF
    >>> X = [np.array([[20.0], [21.0], [10.0], [11.0]]), np.array([[9.0], [10.0], [22.0]])]
    >>> y = [["sun", "sun", "rain", "rain"], ["rain", "rain", "sun"]]
    >>> crf = ChainCRF("rbf", prior_variance=1.0, scale=True, random_state=0).fit(X, y)
    >>> for labels, log_probability in crf.predict_nbest([[[21.0], [16.0]]], k=2)[0]:
    ...     print(labels, round(log_probability, 2))
    ['sun' 'sun'] -0.81
    ['sun' 'rain'] -1.09
    >>> for labels, log_probability in crf.predict_nbest([[[21.0], [16.0]]], k=1, where=lambda y: "rain" in y)[0]:
    ...     print(labels, round(log_probability, 2))
    ['sun' 'rain'] -1.09
    """
    if lengths is not None:
        given: dict[str, Any] = {"k": k, "known": known, "where": where, "max_ranked": max_ranked}
        return answer_by_lengths(predict_nbest, self, X, lengths, **given)
    check_is_fitted(self)
    check_count(k, "k")
    check_count(max_ranked, "max_ranked")
    results: Ranked = []
    form, names = self._answer_format, self._answer_format.labels(self)

    def rank(answers: Answers, size: int) -> Iterator[list[tuple[Any, float]]]:
        for ranked, scores in zip(*answers.n_best(size), strict=True):
            yield [(form.labelling(names[row]), score) for row, score in zip(ranked, scores, strict=True)]

    for batch in self.answers(X, known=known):
        found = ranked_labellings(batch, int(k), rank, where, max_ranked)
        results += batch.by_item(found, [(self.classes_[:0], 0.0)])
    return results


def sample(
    self: LabelField,
    X: object,
    n_samples: int | None = None,
    random_state: Seed = None,
    *,
    known: object = None,
    method: str = "auto",
    lengths: ArrayLike | None = None,
) -> ByItem:
    """Draw labellings from p(y | x).

    Exact inference draws independent labellings. If inference is approximate, Gibbs sampling draws them, with a
    ConvergenceWarning if its chains have not mixed.

    Parameters
    ----------
    X : inputs
        Sequences, graphs or rows, in a form that :meth:`fit` takes.
    n_samples : int or None, default None
        The number of labellings of each item; None draws one and leaves out the axis.
    random_state : int, Generator, RandomState or None, default None
        The source of randomness.
    known : labels or None, default None
        What is known of the labels, in the form of a ``y`` of :meth:`fit`; answers are given that it is so.
    method : {"auto", "perfect"}, default "auto"
        "perfect" draws independent labellings from p(y | x) itself where inference is approximate; it is for two
        labels whose pairs attract.
    lengths : array (n_items,) or mask (n_items, T), default None
        The lengths of sequences in one array, as for :meth:`fit`.

    Returns
    -------
    list of arrays (T,) or (n_samples, T)
        The labels of each item; for rows one array (n,) or (n_samples, n).

    Raises
    ------
    ValueError
        If ``method="perfect"`` cannot draw from such a field.

    See Also
    --------
    predict_nbest : Return the most probable labellings.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelfields import ChainCRF
    >>> X = [np.array([[20.0], [21.0], [10.0], [11.0]]), np.array([[9.0], [10.0], [22.0]])]
    >>> y = [["sun", "sun", "rain", "rain"], ["rain", "rain", "sun"]]
    >>> crf = ChainCRF("rbf", prior_variance=1.0, scale=True, random_state=0).fit(X, y)
    >>> draws = crf.sample([[[21.0], [10.0]]], n_samples=500, random_state=0)[0]
    >>> draws.shape
    (500, 2)
    >>> bool((draws[:, 0] == "sun").mean() > 0.5)
    True
    """
    if lengths is not None:
        given = {"n_samples": n_samples, "random_state": random_state, "known": known, "method": method}
        return answer_by_lengths(sample, self, X, lengths, axis=-1, **given)
    check_is_fitted(self)
    if n_samples is not None:
        check_count(n_samples, "n_samples", " or None")
    random, count = random_generator(random_state), n_samples or 1
    batches = self.answers(X, known=known)
    draws = ((batch.requested, batch.sample(count, random, method)) for batch in batches)
    return self._answer_format.arrange_draws(draws, self._answer_format.labels(self), n_samples is None)


@accept_collections_by_item
def entropy(self: LabelField, X: object, *, known: object = None, lengths: ArrayLike | None = None) -> np.ndarray:
    """Return the entropy of p(y | x) of each item, in nats.

    Parameters
    ----------
    X : inputs
        Sequences, graphs or rows, in a form that :meth:`fit` takes.
    known : labels or None, default None
        What is known of the labels, in the form of a ``y`` of :meth:`fit`; answers are given that it is so.
    lengths : array (n_items,) or mask (n_items, T), default None
        The lengths of sequences in one array, as for :meth:`fit`.

    Returns
    -------
    ndarray (n_items,)
        The entropies; zero where only one labelling is possible.

    Raises
    ------
    ValueError
        If inference is approximate.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelfields import ChainCRF
    >>> X = [np.array([[20.0], [21.0], [10.0], [11.0]]), np.array([[9.0], [10.0], [22.0]])]
    >>> y = [["sun", "sun", "rain", "rain"], ["rain", "rain", "sun"]]
    >>> crf = ChainCRF("rbf", prior_variance=1.0, scale=True, random_state=0).fit(X, y)
    >>> crf.entropy([[[21.0]], [[15.5]]]).round(2)
    array([0.51, 0.69])
    """
    from kernelfields.inference.choice import refuse_approximate

    if lengths is not None:
        return answer_by_lengths(entropy, self, X, lengths, known=known)
    parts = [np.empty(0)]
    for answers in self.answers(X, known=known):
        refuse_approximate(answers.family, "an entropy")
        parts.append(np.asarray(answers.by_item(answers.entropies(), 0.0)))
    return np.concatenate(parts)


def log_likelihood(
    self: LabelField,
    X: object,
    y: object,
    *,
    per_item: bool = False,
    known: object = None,
    lengths: ArrayLike | None = None,
) -> float | np.ndarray:
    """Return the log-likelihood log p(y | x).

    A labelling that is forbidden has minus infinity. For a y that is partly known it is the log-probability of what
    is known.

    Parameters
    ----------
    X : inputs
        Sequences, graphs or rows, in a form that :meth:`fit` takes.
    y : labels
        The labels, in a form that :meth:`fit` takes.
    per_item : bool, default False
        Whether to return one number for each item instead of their sum.
    known : labels or None, default None
        What is known of the labels, in the form of a ``y`` of :meth:`fit`; answers are given that it is so.
    lengths : array (n_items,) or mask (n_items, T), default None
        The lengths of sequences in one array, as for :meth:`fit`.

    Returns
    -------
    float or ndarray (n_items,)
        The sum over items, or the log-likelihood of each.

    Raises
    ------
    ValueError
        If inference is approximate.

    See Also
    --------
    score : Return the share of right labels.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelfields import ChainCRF
    >>> X = [np.array([[20.0], [21.0], [10.0], [11.0]]), np.array([[9.0], [10.0], [22.0]])]
    >>> y = [["sun", "sun", "rain", "rain"], ["rain", "rain", "sun"]]
    >>> crf = ChainCRF("rbf", prior_variance=1.0, scale=True, random_state=0).fit(X, y)
    >>> new = [np.array([[21.0], [10.0]])]
    >>> round(crf.log_likelihood(new, [["sun", "rain"]]), 2)
    -0.52
    >>> round(crf.log_likelihood(new, [["sun", None]]), 2)
    -0.27
    """
    from kernelfields.inference.choice import refuse_approximate

    if lengths is not None:
        return answer_by_lengths(log_likelihood, self, X, lengths, y=y, per_item=per_item, known=known)
    parts = [np.empty(0)]
    for batch in self.answers(X, y, known):
        refuse_approximate(batch.family, "a log-likelihood")
        parts.append(np.asarray(batch.by_item(batch.data.given.log_probability(batch), 0.0)))
    every = np.concatenate(parts)
    return every if per_item else float(every.sum())
