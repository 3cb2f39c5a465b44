"""Answers about labels: log partition functions, marginals, best labellings, samples, entropies.

One class answers for every family of labellings, and conditions it on what is known of labels. The distribution is
inferred when it is first needed.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np

from kernelfields.inference.family import LabelFamily, Labellings, Member, RankedLabellings, warn_of_inference
from kernelfields.inference.potentials import Potentials
from kernelfields.numerics.threads import Workers


class Answers:
    """Answer questions about labels, given their potentials.

    One class answers for every family of labellings. The distribution is inferred when it is first needed.

    Parameters
    ----------
    data : Chains, Graphs or other packed data
        The items that have positions.
    family : LabelFamily
        Their labellings.
    potentials : Potentials
        Their potentials.
    workers : Workers
        The threads.
    known : array (N, L), optional
        Log-weights of labels that the family was conditioned on; nothing by default.
    asked : packed data, optional
        The items that answers are for, those without positions included; ``data`` by default.

    Attributes
    ----------
    member : Member
        The distribution.

    Examples
    --------
    >>> from kernelfields import ChainCRF
    >>> X, y = [[[0.0], [1.0]], [[1.0], [0.0]]], [["a", "b"], ["b", "a"]]
    >>> crf = ChainCRF("linear", prior_variance=1.0, scale=False).fit(X, y)
    >>> (answers,) = crf.answers(X)
    >>> answers.best_labels().tolist(), answers.log_partition.shape
    ([0, 1, 1, 0], (2,))
    """

    def __init__(
        self,
        data: Any,
        family: LabelFamily,
        potentials: Potentials,
        workers: Workers,
        known: np.ndarray | None = None,
        asked: Any = None,
    ):
        self.data = data
        self.requested = data if asked is None else asked
        self.family = family
        self.potentials = potentials
        self.workers = workers
        self.known = known

    def condition(self, log_weights: np.ndarray | None) -> Answers:
        """Return answers conditioned on further knowledge of the labels.

        Parameters
        ----------
        log_weights : array (N, L) or None
            The logarithms of the weights of labels; None if nothing more is known.

        Returns
        -------
        Answers
            The answers.
        """
        if log_weights is None:
            return self
        known = log_weights if self.known is None else self.known + log_weights
        family = self.family.condition(log_weights)
        return Answers(self.data, family, self.potentials, self.workers, known, self.requested)

    def log_probability(self, log_weights: np.ndarray) -> np.ndarray:
        """Compute the probability of a set, or a weighting, of labellings, given the inputs and the known labels.

        Parameters
        ----------
        log_weights : array (N, L)
            The logarithms of the weights of labels; minus infinity forbids.

        Returns
        -------
        array (S,)
            The logarithms; minus infinity if no labelling is left.

        Examples
        --------
        >>> from kernelfields import ChainCRF
        >>> X, y = [[[0.0], [1.0]], [[1.0], [0.0]]], [["a", "b"], ["b", "a"]]
        >>> crf = ChainCRF("linear", prior_variance=1.0, scale=False).fit(X, y)
        >>> (answers,) = crf.answers(X)
        >>> import numpy as np
        >>> first_is_a = np.zeros((4, 2))
        >>> first_is_a[0, 1] = -np.inf
        >>> np.exp(answers.log_probability(first_is_a)).round(1)
        array([0.6, 1. ])
        """
        return self.family.log_partition_given(log_weights, self.potentials, self.workers) - self.log_partition

    def by_item(self, values: Iterable[Any], nothing: object) -> list:
        """Return a value of each item in the order of the items.

        Parameters
        ----------
        values : iterable
            A value for each item with positions.
        nothing : object
            The value of the others.

        Returns
        -------
        list
            The values.
        """
        found = iter(values)
        return [next(found) if length else nothing for length in self.requested.lengths.tolist()]

    def of_item(self, item: int) -> Answers:
        """Return the answers about one item, for questions about labellings.

        Parameters
        ----------
        item : int
            The number of the item among those with positions.

        Returns
        -------
        Answers
            The answers.

        Examples
        --------
        >>> from kernelfields import ChainCRF
        >>> X, y = [[[0.0], [1.0]], [[1.0], [0.0]]], [["a", "b"], ["b", "a"]]
        >>> crf = ChainCRF("linear", prior_variance=1.0, scale=False).fit(X, y)
        >>> (answers,) = crf.answers(X)
        >>> labellings, scores = answers.of_item(1).n_best(2)
        >>> len(labellings), labellings[0].tolist()
        (1, [[1, 0], [1, 1]])
        """
        potentials = self.family.arrangement.cut(self.potentials, item, item + 1)
        return Answers(self.data, self.family.part(item, item + 1), potentials, self.workers)

    @cached_property
    def member(self) -> Member:
        """The distribution of labellings, inferred on first use; failures of approximate inference are warnings."""
        member = self.family.distribution(self.potentials, workers=self.workers)
        if member.warnings:
            warn_of_inference(member.warnings)
        return member

    @property
    def labellings(self) -> Labellings:
        """The best labellings, and draws."""
        return self.family.labellings(self.potentials, self.workers)

    @property
    def log_partition(self) -> np.ndarray:
        """Log Z of each item, (S,)."""
        return self.member.log_partition

    @property
    def node(self) -> np.ndarray:
        """Potentials of single labels with the base measure, (N, L)."""
        return self.family.with_base(self.potentials).node

    @property
    def marginals(self) -> np.ndarray:
        """p(y_v | x), (N, L)."""
        return self.member.marginals()

    def clique_marginals(self, group: str) -> list[np.ndarray]:
        """Compute the probabilities of the labels of each clique of a group.

        Parameters
        ----------
        group : str
            The name of the group.

        Returns
        -------
        list of arrays (m, L, .., L)
            The probabilities for each item.

        Examples
        --------
        >>> from kernelfields import ChainCRF
        >>> X, y = [[[0.0], [1.0]], [[1.0], [0.0]]], [["a", "b"], ["b", "a"]]
        >>> crf = ChainCRF("linear", prior_variance=1.0, scale=False).fit(X, y)
        >>> (answers,) = crf.answers(X)
        >>> [table.shape for table in answers.clique_marginals("edge")]
        [(1, 2, 2), (1, 2, 2)]
        """
        if not self.data.n_positions:  # nothing was inferred, and there are no groups
            return [np.zeros((0, self.family.n_labels, self.family.n_labels))] * len(self.requested.lengths)
        rows, items = self.member.marginals(group), self.family.arrangement.group(group).items
        assert items is not None
        if (kept := self.family.arrangement.places(group)) is not None:
            rows, items = rows[kept], items[kept]
        ends = np.searchsorted(items, np.arange(self.family.n_items + 1))
        return self.by_item([rows[begin:end] for begin, end in pairwise(ends.tolist())], rows[:0])

    def likeliest_labels(self) -> np.ndarray:
        """Return the label of largest marginal at each position.

        Returns
        -------
        array (N,)
            Numbers of labels.

        Examples
        --------
        >>> from kernelfields import ChainCRF
        >>> X, y = [[[0.0], [1.0]], [[1.0], [0.0]]], [["a", "b"], ["b", "a"]]
        >>> crf = ChainCRF("linear", prior_variance=1.0, scale=False).fit(X, y)
        >>> (answers,) = crf.answers(X)
        >>> answers.likeliest_labels().tolist()
        [0, 1, 1, 0]
        """
        return self.member.likeliest()

    def best_labels(self) -> np.ndarray:
        """Return the most probable labelling of each item.

        Returns
        -------
        array (N,)
            Numbers of labels.

        Examples
        --------
        >>> from kernelfields import ChainCRF
        >>> X, y = [[[0.0], [1.0]], [[1.0], [0.0]]], [["a", "b"], ["b", "a"]]
        >>> crf = ChainCRF("linear", prior_variance=1.0, scale=False).fit(X, y)
        >>> (answers,) = crf.answers(X)
        >>> answers.best_labels().tolist()
        [0, 1, 1, 0]
        """
        return self.labellings.best()[0]

    def n_best(self, k: int) -> RankedLabellings:
        """Return the k best labellings of each item.

        Parameters
        ----------
        k : int
            The number of labellings.

        Returns
        -------
        pair of lists
            Labellings (k, n) and scores (k,) of each item, the best first.

        Examples
        --------
        >>> from kernelfields import ChainCRF
        >>> X, y = [[[0.0], [1.0]], [[1.0], [0.0]]], [["a", "b"], ["b", "a"]]
        >>> crf = ChainCRF("linear", prior_variance=1.0, scale=False).fit(X, y)
        >>> (answers,) = crf.answers(X)
        >>> labellings, scores = answers.n_best(2)
        >>> labellings[0].tolist()
        [[0, 1], [1, 1]]
        """
        return self.labellings.n_best(k)

    def sample(self, n_samples: int, random: np.random.Generator, method: str = "auto") -> np.ndarray:
        """Draw labellings.

        Parameters
        ----------
        n_samples : int
            The number of draws.
        random : Generator
            The generator.
        method : {"auto", "perfect"}, default "auto"
            How approximate families draw.

        Returns
        -------
        array (n_samples, N)
            Numbers of labels.

        Examples
        --------
        >>> from kernelfields import ChainCRF
        >>> X, y = [[[0.0], [1.0]], [[1.0], [0.0]]], [["a", "b"], ["b", "a"]]
        >>> crf = ChainCRF("linear", prior_variance=1.0, scale=False).fit(X, y)
        >>> (answers,) = crf.answers(X)
        >>> import numpy as np
        >>> answers.sample(5, np.random.default_rng(0)).shape
        (5, 4)
        """
        return self.labellings.sample(n_samples, random, method=method)

    def entropies(self) -> np.ndarray:
        """Compute the entropy of each item.

        Returns
        -------
        array (S,)
            The entropies in nats.

        Examples
        --------
        >>> from kernelfields import ChainCRF
        >>> X, y = [[[0.0], [1.0]], [[1.0], [0.0]]], [["a", "b"], ["b", "a"]]
        >>> crf = ChainCRF("linear", prior_variance=1.0, scale=False).fit(X, y)
        >>> (answers,) = crf.answers(X)
        >>> answers.entropies().round(1)
        array([1.2, 1.2])
        """
        return self.member.entropy()

    def label_scores(self, labels: Any) -> np.ndarray:
        """Compute the score of a labelling of each item.

        Parameters
        ----------
        labels : array (N,)
            Numbers of labels.

        Returns
        -------
        array (S,)
            The scores; minus infinity if a labelling is forbidden.

        Examples
        --------
        >>> from kernelfields import ChainCRF
        >>> X, y = [[[0.0], [1.0]], [[1.0], [0.0]]], [["a", "b"], ["b", "a"]]
        >>> crf = ChainCRF("linear", prior_variance=1.0, scale=False).fit(X, y)
        >>> (answers,) = crf.answers(X)
        >>> answers.label_scores(answers.best_labels()).shape
        (2,)
        """
        return self.family.label_scores(self.potentials, labels)
