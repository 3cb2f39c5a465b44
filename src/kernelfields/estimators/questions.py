"""Questions about labels that follow from their distribution alone, for every family of labellings alike.

A derived class defines where the distribution comes from (``answers``) and the form of its answers (``arranged``).
Answers may be conditioned on known labels. With log q (N, L) for what is known (data/partial_labels.py) and u the
potentials of the labels:

    p(y | x, known)       exp(score(y) + sum_t log q_t(y_t)) / Z(u + log q)
    log p(known | x)      log Z(u + log q) - log Z(u)

Weights count relative to the largest of their position, so that a label, or a set of possible ones, has the weight one.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Self, TypeAlias, TypeVar

import numpy as np
from sklearn.utils.validation import check_is_fitted

from kernelfields.data.partial_labels import LabelWeights, as_log_weights
from kernelfields.data.ragged import Ragged, plain_strings
from kernelfields.data.readers import read_labels
from kernelfields.data.reading import SEQUENCES, ItemNames, random_generator
from kernelfields.engines.choice import answers_collections
from kernelfields.numerics.parameters import check_count

if TYPE_CHECKING:
    from kernelfields.data.readers import InputReader
    from kernelfields.engines.engine import PackedData
    from kernelfields.inference.answers import Answers


#: Packed data of an estimator, and how it reads them.
Data = TypeVar("Data", bound="PackedData")
Reader = TypeVar("Reader", bound="InputReader")
#: Seeds of random draws.
Seed = int | np.random.Generator | np.random.RandomState | None
#: Answers with one entry for each item: a list of arrays, or one array, as the estimator has it.
ByItem: TypeAlias = Any
#: Labellings of each item with their log-probabilities.
Ranked: TypeAlias = list[list[tuple[Any, float]]]
#: What to show for each position of each item, such as its word; of single labels, for each item.
Tokens: TypeAlias = Sequence[Any]


class LabelQuestions(ABC, Generic[Data]):
    """Questions about the labels of sequences, graphs, instances or single inputs; see the module for the hooks."""

    classes_: np.ndarray
    #: What messages call items and their positions, and what tables call the place of a label.
    item_names: ClassVar[ItemNames] = SEQUENCES
    place_headings: ClassVar[tuple[str, str]] = ("sequence", "position")

    @abstractmethod
    def answers(self, X: object, y: object = None, known: object = None) -> Iterator[Answers]:
        """Yield batches of items with the distribution of their labels, which answers every question about it.

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

    @abstractmethod
    def predict(self, X: object, *, known: object = None) -> ByItem:
        """Return the labels of each item.

        Parameters
        ----------
        X : inputs
            Sequences, graphs or rows, in a form that :meth:`fit` takes.
        known : labels or None, default None
            What is known of the labels, in the form of a ``y`` of :meth:`fit`; answers are given that it is so.

        Returns
        -------
        list of lists or arrays (T,)
            The labels of each item; for single labels one array (n,).
        """

    @property
    @abstractmethod
    def is_single(self) -> bool:
        """Whether every item has one label."""

    @abstractmethod
    def _travelling(self) -> Self:
        """Return a copy without what cannot leave this process; one thread of a worker is its share."""

    def share_of_fit(self, X: object) -> float:
        """Return the share of items that are recognised as those of the fit.

        Parameters
        ----------
        X : inputs
            Sequences, graphs or rows, in a form that :meth:`fit` takes.

        Returns
        -------
        float
            The share; zero if it cannot be known.
        """
        return 0.0

    def decoded(self, answers: Answers, decode: str | None = None) -> np.ndarray:
        """Return the numbers of the labels that :meth:`predict` gives.

        Parameters
        ----------
        answers : Answers
            The distribution of labels.
        decode : {"auto", "viterbi", "posterior"} or None, default None
            How labels are chosen; None means ``decode`` of the estimator.

        Returns
        -------
        ndarray (N,)
            The numbers of the labels.
        """
        return answers.likeliest_labels()

    def label_names(self) -> np.ndarray:
        """Return what the columns of marginals stand for.

        Returns
        -------
        ndarray (L,)
            The labels.
        """
        return self.classes_

    def place_of(self, whole: int, part: int, tokens: Tokens | None) -> tuple[int, object, object]:
        """Return the names of a position, and what there is to show there.

        Parameters
        ----------
        whole : int
            The number of the item.
        part : int
            The number of the position in it.
        tokens : sequence or None
            What to show for each position of each item.

        Returns
        -------
        item : int
            The name of the item.
        position : object
            The name of the position; empty for single labels.
        token : object
            What to show there, None without tokens.
        """
        own = None if tokens is None else tokens[whole]
        if self.is_single:
            return whole, "", own
        return whole, part, None if own is None else own[part]

    def known_log_weights(self, known: object, data: Data, *, possible: bool = True) -> np.ndarray:
        """Return what is known of the labels of data, as log-weights.

        Parameters
        ----------
        known : labels
            What is known, in the form of a ``y`` of :meth:`fit`.
        data : PackedData
            The data.
        possible : bool, default True
            Whether what leaves no labelling is an error.

        Returns
        -------
        ndarray (N, L)
            The logarithms of weights, minus infinity for what is impossible.

        Raises
        ------
        ValueError
            If ``known`` does not fit the data.
        """
        try:
            labels, partial = self._read_known(known, data)
            log_weights = as_log_weights(labels, partial, len(self.label_names()))
            if possible:
                self._check_known(data, labels, partial)
            return log_weights
        except (TypeError, ValueError) as error:
            raise type(error)(f"known: {error}") from error

    def _read_known(self, known: object, data: Data) -> tuple[np.ndarray, LabelWeights | None]:
        """Return labels (N,) and, unless all of them are known, log-weights (N, L)."""
        return read_labels(known, self.classes_, data.lengths, self.item_names)[:2]

    def _check_known(self, data: Data, labels: np.ndarray, partial: LabelWeights | None) -> None:
        """Raise ValueError where what is known of the labels of data leaves no labelling; here, none is forbidden."""

    # ---- the form of answers

    def arranged(self, parts: Iterable[tuple[Data, np.ndarray]]) -> ByItem:
        """Return the rows of batches in the form of answers.

        Parameters
        ----------
        parts : iterable of (PackedData, ndarray (N, ..))
            The rows of each batch.

        Returns
        -------
        list of arrays
            An array for each item; for single labels one array of all.
        """
        if self.is_single:
            return np.concatenate([rows for _, rows in parts])
        return Ragged(piece for data, rows in parts for piece in plain_strings(data.split(rows)))

    def arranged_draws(self, parts: Iterable[tuple[Data, np.ndarray]], single: bool) -> ByItem:
        """Return the draws of batches in the form of answers.

        Parameters
        ----------
        parts : iterable of (PackedData, ndarray (k, N))
            The draws of each batch, as numbers of labels.
        single : bool
            Whether to return one draw without an axis.

        Returns
        -------
        list of arrays (T,) or (k, T)
            The labels of each item; for single labels one array of all.
        """
        labels = self.label_names()
        if self.is_single:
            drawn = labels[np.concatenate([rows for _, rows in parts], axis=1)]
            return drawn[0] if single else drawn
        pieces = (piece for data, drawn in parts for piece in data.split(labels[drawn].T))
        return Ragged(piece[:, 0] if single else piece.T for piece in pieces)

    def labelling_of(self, numbers: np.ndarray) -> object:
        """Return the labels of one item from their numbers.

        Parameters
        ----------
        numbers : array (T,)
            The numbers of the labels.

        Returns
        -------
        ndarray (T,) or label
            The labels; for single labels the label itself.
        """
        labels = self.label_names()[numbers]
        return labels[0] if self.is_single else labels

    # ---- questions

    @answers_collections
    def predict_nbest(self, X: object, k: int, *, known: object = None) -> Ranked:
        """Return the k most probable labellings of each item, with their log-probabilities.

        Parameters
        ----------
        X : inputs
            Sequences, graphs or rows, in a form that :meth:`fit` takes.
        k : int
            The most labellings of an item; there may be fewer.
        known : labels or None, default None
            What is known of the labels, in the form of a ``y`` of :meth:`fit`; answers are given that it is so.

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
        """
        check_is_fitted(self)
        check_count(k, "k")
        results: Ranked = []
        for batch in self.answers(X, known=known):
            found: Ranked = []
            for ranked, scores, total in zip(*batch.n_best(int(k)), batch.log_partition, strict=True):
                logs = [float(score - total) for score in scores]
                found.append([(self.labelling_of(row), log) for row, log in zip(ranked, logs, strict=True)])
            results += batch.by_item(found, [(self.classes_[:0], 0.0)])
        return results

    def sample(
        self,
        X: object,
        n_samples: int | None = None,
        random_state: Seed = None,
        *,
        known: object = None,
        method: str = "auto",
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
        check_is_fitted(self)
        if n_samples is not None:
            check_count(n_samples, "n_samples", " or None")
        random, count = random_generator(random_state), n_samples or 1
        batches = self.answers(X, known=known)
        draws = ((batch.asked, batch.sample(count, random, method)) for batch in batches)
        return self.arranged_draws(draws, n_samples is None)

    @answers_collections
    def entropy(self, X: object, *, known: object = None) -> np.ndarray:
        """Return the entropy of p(y | x) of each item, in nats.

        Parameters
        ----------
        X : inputs
            Sequences, graphs or rows, in a form that :meth:`fit` takes.
        known : labels or None, default None
            What is known of the labels, in the form of a ``y`` of :meth:`fit`; answers are given that it is so.

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

        parts = [np.empty(0)]
        for answers in self.answers(X, known=known):
            refuse_approximate(answers.family, "an entropy")
            parts.append(np.asarray(answers.by_item(answers.entropies(), 0.0)))
        return np.concatenate(parts)

    def log_likelihood(
        self, X: object, y: object, *, per_item: bool = False, known: object = None
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

        parts = [np.empty(0)]
        for batch in self.answers(X, y, known):
            refuse_approximate(batch.family, "a log-likelihood")
            parts.append(np.asarray(batch.by_item(batch.data.given.log_probability(batch), 0.0)))
        every = np.concatenate(parts)
        return every if per_item else float(every.sum())
