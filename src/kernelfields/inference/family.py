"""Families of labellings: the exponential family of section 2 of the paper, for every structure of labels.

    p(y; u) = p0(y) exp(<Phi(y), u> - g(u))            y: a labelling of one item (sequence, graph, instance)

Phi(y) counts how often the cliques of each group have each labelling, u are the potentials, p0 is the base measure
(base_measure.py), g the log partition function. Items are packed: item i owns the positions
offsets[i] .. offsets[i + 1] - 1.

    LabelFamily   what labellings there are: groups of cliques, counts Phi, the mode, samples, conditioning, parts
    Member        one distribution: g, its gradient (the mean of Phi), its Hessian products (covariances), marginals

Potentials, counts, and where clique sets stand in them: potentials.py. Sums over items are weighted by weights (S,).
Everything that fits, predicts, certifies or approximates is written on families and members. Raises ValueError naming
the item whose labellings are all forbidden.
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.exceptions import ConvergenceWarning

from kernelfields.inference import measures
from kernelfields.inference.packing import first_largest
from kernelfields.inference.potentials import EDGE, Arrangement, Group, Observed, Placed, Potentials, Statistics
from kernelfields.numerics.parameters import check_choice, check_count
from kernelfields.numerics.threads import Workers
from kernelfields.numerics.user_warnings import warn_user

#: Best labellings of each item, (k_i, n_i), and their scores, (k_i,).
RankedLabellings = tuple[list[np.ndarray], list[np.ndarray]]


class Member(ABC):
    """Describe one distribution of a family: the questions that every method of inference answers.

    :meth:`LabelFamily.distribution` returns one.

    Parameters
    ----------
    family : LabelFamily
        The family.
    potentials : Potentials
        The potentials, base measure included.
    log_partition : array (S,)
        The log partition of each item; a bound or an estimate if inference is approximate.
    weights : array (S,) or None
        The weights of items; None for ones.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelfields.inference import ChainFamily, Potentials
    >>> family = ChainFamily(np.array([0, 2]), n_labels=2)  # a sequence of two positions
    >>> scores = Potentials(np.array([[1.0, 0.0], [0.0, 0.0]]), {"edge": np.array([[[1.0, 0.0], [0.0, 0.5]]])})
    >>> member = family.distribution(scores)
    >>> member.log_partition.round(2), member.marginals().round(2).tolist()
    (array([2.55]), [[0.79, 0.21], [0.66, 0.34]])
    """

    #: What inference reports of its answer, such as that it did not converge.
    warnings: Sequence[str] = ()

    def __init__(
        self, family: LabelFamily, potentials: Potentials, log_partition: np.ndarray, weights: np.ndarray | None
    ):
        self.family = family
        self.potentials = potentials
        #: g of each item, (S,); a bound or an estimate where inference is approximate.
        self.log_partition = log_partition
        self.weights = weights

    @abstractmethod
    def mean(self) -> Potentials:
        """Compute the weighted sum of the expected counts, the gradient of the log partition.

        Returns
        -------
        Potentials
            The gradient; the arrays are the caller's to change.

        Examples
        --------
        >>> import numpy as np
        >>> from kernelfields.inference import ChainFamily, Potentials
        >>> family = ChainFamily(np.array([0, 2]), n_labels=2)  # a sequence of two positions
        >>> scores = Potentials(np.array([[1.0, 0.0], [0.0, 0.0]]), {"edge": np.array([[[1.0, 0.0], [0.0, 0.5]]])})
        >>> family.distribution(scores).mean().edge[0].round(2)
        array([[0.58, 0.21],
               [0.08, 0.13]])
        """

    @abstractmethod
    def marginals(self, group: str | None = None) -> np.ndarray:
        """Compute the probabilities of the labellings of each clique of a group.

        Parameters
        ----------
        group : str, optional
            The name of the group; single labels by default.

        Returns
        -------
        array (M, ...)
            The probabilities.

        Examples
        --------
        >>> import numpy as np
        >>> from kernelfields.inference import ChainFamily, Potentials
        >>> family = ChainFamily(np.array([0, 2]), n_labels=2)  # a sequence of two positions
        >>> scores = Potentials(np.array([[1.0, 0.0], [0.0, 0.0]]), {"edge": np.array([[[1.0, 0.0], [0.0, 0.5]]])})
        >>> family.distribution(scores).marginals().round(2)
        array([[0.79, 0.21],
               [0.66, 0.34]])
        """

    @abstractmethod
    def covariance_product(self, direction: Potentials) -> Potentials:
        """Compute the Hessian of the weighted log partition times a direction.

        Parameters
        ----------
        direction : Potentials
            The direction.

        Returns
        -------
        Potentials
            The covariances of the counts, summed over the direction.

        Examples
        --------
        >>> import numpy as np
        >>> from kernelfields.inference import ChainFamily, Potentials
        >>> family = ChainFamily(np.array([0, 2]), n_labels=2)  # a sequence of two positions
        >>> scores = Potentials(np.array([[1.0, 0.0], [0.0, 0.0]]), {"edge": np.array([[[1.0, 0.0], [0.0, 0.5]]])})
        >>> family.distribution(scores).covariance_product(scores).node.round(2)
        array([[ 0.23, -0.23],
               [ 0.21, -0.21]])
        """

    def likeliest(self) -> np.ndarray:
        """Return the label of largest probability at each position, the lowest of equals.

        Returns
        -------
        array (N,)
            Numbers of labels.

        Examples
        --------
        >>> import numpy as np
        >>> from kernelfields.inference import ChainFamily, Potentials
        >>> family = ChainFamily(np.array([0, 2]), n_labels=2)  # a sequence of two positions
        >>> scores = Potentials(np.array([[1.0, 0.0], [0.0, 0.0]]), {"edge": np.array([[[1.0, 0.0], [0.0, 0.5]]])})
        >>> family.distribution(scores).likeliest().tolist()
        [0, 0]
        """
        return first_largest(self.marginals())

    def expected_scores(self, direction: Potentials) -> np.ndarray:
        """Compute the expected score of each item under potentials.

        Parameters
        ----------
        direction : Potentials
            The potentials.

        Returns
        -------
        array (S,)
            The expectations.

        Examples
        --------
        >>> import numpy as np
        >>> from kernelfields.inference import ChainFamily, Potentials
        >>> family = ChainFamily(np.array([0, 2]), n_labels=2)  # a sequence of two positions
        >>> scores = Potentials(np.array([[1.0, 0.0], [0.0, 0.0]]), {"edge": np.array([[[1.0, 0.0], [0.0, 0.5]]])})
        >>> family.distribution(scores).expected_scores(scores).round(2)
        array([1.44])
        """
        total = np.zeros(self.family.n_items)
        for group in self.family.groups:
            assert group.items is not None
            rows, scores = self.marginals(group.name), direction[group.name]
            products = (rows * scores).reshape(len(rows), group.size).sum(axis=1)
            total += np.bincount(group.items, products, minlength=len(total))
        return total

    def entropy(self) -> np.ndarray:
        """Compute the entropy of each item.

        Returns
        -------
        array (S,)
            The entropies in nats.

        Examples
        --------
        >>> import numpy as np
        >>> from kernelfields.inference import ChainFamily, Potentials
        >>> family = ChainFamily(np.array([0, 2]), n_labels=2)  # a sequence of two positions
        >>> scores = Potentials(np.array([[1.0, 0.0], [0.0, 0.0]]), {"edge": np.array([[[1.0, 0.0], [0.0, 0.5]]])})
        >>> family.distribution(scores).entropy().round(2)
        array([1.11])
        """
        scores = self.potentials.with_arrays(
            np.where(np.isneginf(array), 0.0, array) for array in self.potentials.arrays
        )
        return np.maximum(self.log_partition - self.expected_scores(scores), 0.0)

    @cached_property
    def item_weights(self) -> np.ndarray:
        """The weights of all items, (S,)."""
        return np.ones(self.family.n_items) if self.weights is None else self.weights

    def _weighted(self, rows: np.ndarray, items: np.ndarray) -> np.ndarray:
        """Multiply rows by the weights of their items."""
        if self.weights is None:
            return rows
        return rows * self.weights[items].reshape((-1,) + (1,) * (rows.ndim - 1))


class Labellings(ABC):
    """Find the best labellings at some potentials, and draw labellings.

    :meth:`LabelFamily.labellings` returns one.

    Parameters
    ----------
    family : LabelFamily
        The family.
    potentials : Potentials
        The potentials, base measure not included.
    workers : Workers, optional
        The threads; by default one.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelfields.inference import ChainFamily, Potentials
    >>> family = ChainFamily(np.array([0, 2]), n_labels=2)  # a sequence of two positions
    >>> scores = Potentials(np.array([[1.0, 0.0], [0.0, 0.0]]), {"edge": np.array([[[1.0, 0.0], [0.0, 0.5]]])})
    >>> labellings, found = family.labellings(scores).n_best(2)
    >>> labellings[0].tolist(), found[0].tolist()
    ([[0, 0], [0, 1]], [2.0, 1.0])
    """

    #: The smallest number of samples that may be drawn.
    fewest_samples = 1

    def __init__(self, family: LabelFamily, potentials: Potentials, workers: Workers | None = None):
        self.family = family
        self.without_base = potentials
        self.workers = workers or Workers(1)

    @cached_property
    def potentials(self) -> Potentials:
        """The potentials, base measure included."""
        return self.family.with_base(self.without_base)

    @abstractmethod
    def best(self) -> tuple[np.ndarray, np.ndarray]:
        """Find the most probable labelling of each item.

        Returns
        -------
        pair of arrays (N,) and (S,)
            The labels and their scores; approximate if the family is not exact.

        Raises
        ------
        ValueError
            If all labellings of an item are forbidden; the message names it.
        """

    def n_best(self, k: int) -> RankedLabellings:
        """Find the k best labellings of each item.

        Parameters
        ----------
        k : int
            The number of labellings.

        Returns
        -------
        pair of lists
            Labellings (k, n) and scores (k,) of each item, the best first; fewer if there are no more.

        Raises
        ------
        ValueError
            If all labellings of an item are forbidden; the message names it.
        """
        check_count(k, "k")
        return self._n_best(k)

    def sample(
        self, n_samples: int, random: int | np.random.Generator | None = None, *, method: str = "auto"
    ) -> np.ndarray:
        """Draw labellings.

        Draws are independent, from the distribution itself, if inference is exact.

        Parameters
        ----------
        n_samples : int
            The number of draws.
        random : int or Generator, optional
            The seed.
        method : {"auto", "perfect"}, default "auto"
            How approximate families draw: by Gibbs sampling, or exactly, by coupling from the past.

        Returns
        -------
        array (n_samples, N)
            Numbers of labels.

        Raises
        ------
        ValueError
            If all labellings of an item are forbidden; the message names it.

        Examples
        --------
        >>> import numpy as np
        >>> from kernelfields.inference import ChainFamily, Potentials
        >>> family = ChainFamily(np.array([0, 2]), n_labels=2)  # a sequence of two positions
        >>> scores = Potentials(np.array([[1.0, 0.0], [0.0, 0.0]]), {"edge": np.array([[[1.0, 0.0], [0.0, 0.5]]])})
        >>> family.labellings(scores).sample(5, random=0).shape
        (5, 2)
        """
        check_choice(method, "method", ("auto", "perfect"))
        check_count(n_samples, "n_samples", least=self.fewest_samples)
        generator = np.random.default_rng(random)
        return self._perfect(n_samples, generator) if method == "perfect" else self._sample(n_samples, generator)

    @abstractmethod
    def _n_best(self, k: int) -> RankedLabellings:
        """Return the k best labellings and their scores."""

    @abstractmethod
    def _sample(self, n_samples: int, random: np.random.Generator) -> np.ndarray:
        """Draw labellings."""

    def _perfect(self, n_samples: int, random: np.random.Generator) -> np.ndarray:
        """Draw independent labellings from the distribution itself."""
        return self._sample(n_samples, random)


class LabelFamily(ABC):
    """Describe the labellings of packed items: the exponential family of their distributions.

    A family names its groups of cliques, and writes ``_infer``, which gets potentials that include the base measure,
    and ``part``; its ``_labellings_type`` finds the best labellings and draws.

    Parameters
    ----------
    offsets : array (S + 1,)
        The position at which each item begins, and N.
    n_labels : int
        The number of labels.
    groups : sequence of Group, default ()
        The groups of cliques beside single labels.
    base : BaseMeasure, optional
        The labels that are allowed, and how much they count; by default all alike.

    Attributes
    ----------
    method : str
        The name of the method of inference.
    exact : bool
        Whether inference is exact.
    bound : {"exact", "upper", "lower"} or None
        What the log partition is; None for an estimate.
    description : str
        What was chosen, and what it costs.
    arrangement : Arrangement
        Where the cliques of sets stand in the potentials.

    See Also
    --------
    ChainFamily : Labellings of chains.
    SegmentFamily : Segmentations of chains.
    plan_inference : Chooses a family for graphs.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelfields.inference import ChainFamily, LabelFamily
    >>> family = ChainFamily(np.array([0, 2]), n_labels=2)
    >>> isinstance(family, LabelFamily), family.exact, [group.name for group in family.groups]
    (True, True, [None, 'edge'])
    """

    #: Name of the method of inference, whether it is exact, and what its log partition is: "exact", an "upper" or a
    #: "lower" bound, or None for neither.
    method = ""
    exact = True
    bound: str | None = "exact"
    #: One sentence: what was chosen and what it costs.
    description = ""
    #: What finds and draws labellings.
    _labellings_type: type[Labellings]
    #: Whether labels meet no others.
    single_labels = False
    #: The labels that have potentials at each position; None for potentials of all labels.
    packed: Any = None
    base: measures.BaseMeasure | None = None

    def __init__(
        self, offsets: ArrayLike, n_labels: int, groups: Sequence[Group] = (), base: measures.BaseMeasure | None = None
    ):
        check_count(n_labels, "n_labels")
        self.offsets = np.asarray(offsets)
        self.n_labels = n_labels
        self.n_items = len(self.offsets) - 1
        self.n_positions = int(self.offsets[-1])
        self.groups = (Group(None, (n_labels,), self.n_positions, self.position_items), *groups)
        self.arrangement = Arrangement(self.offsets, self.groups)
        self.base = None if base is None or base.is_trivial else base

    @property
    def is_single_threaded(self) -> bool:
        """Whether inference runs on one thread."""
        return False

    @cached_property
    def position_items(self) -> np.ndarray:
        """The item of every position, (N,)."""
        return np.repeat(np.arange(self.n_items), np.diff(self.offsets))

    def clique_members(self, group: str) -> np.ndarray:
        """Return the positions whose labels meet in each clique of a group.

        Parameters
        ----------
        group : str
            The name of the group.

        Returns
        -------
        array (M, k)
            Numbers of positions.

        Raises
        ------
        ValueError
            If the cliques have no fixed positions.
        """
        raise ValueError(f"cliques of {group!r} have no fixed positions")

    # ---- labellings

    def zeros(self) -> Potentials:
        """Return potentials of zero.

        Returns
        -------
        Potentials
            The potentials.
        """
        return self.arrangement.zeros()

    def observed(self, labels: np.ndarray) -> dict[str | None, Observed]:
        """Find the cliques of labelled data in each group.

        Parameters
        ----------
        labels : array (N,)
            Numbers of labels.

        Returns
        -------
        dict
            For the name of each group an Observed: rows, labellings, items.
        """
        return {None: Observed(np.arange(self.n_positions), labels, self.position_items)}

    def statistics(self, labels: np.ndarray, weights: np.ndarray | None = None) -> Statistics:
        """Count the labellings of cliques in labelled data.

        Parameters
        ----------
        labels : array (N,)
            Numbers of labels.
        weights : array (S,), optional
            The weights of items; ones by default.

        Returns
        -------
        Statistics
            The counts, weighted by items and summed.

        Examples
        --------
        >>> import numpy as np
        >>> from kernelfields.inference import ChainFamily, Potentials
        >>> family = ChainFamily(np.array([0, 2]), n_labels=2)  # a sequence of two positions
        >>> scores = Potentials(np.array([[1.0, 0.0], [0.0, 0.0]]), {"edge": np.array([[[1.0, 0.0], [0.0, 0.5]]])})
        >>> counts = family.statistics(np.array([0, 1]))
        >>> float(counts.dot(scores))  # the score of the labelling
        1.0
        """
        return self.arrangement.count(self.observed(labels), weights)

    def label_scores(self, potentials: Potentials, labels: np.ndarray) -> np.ndarray:
        """Compute the score of a labelling of each item, base measure included.

        Parameters
        ----------
        potentials : Potentials
            The potentials, base measure not included.
        labels : array (N,)
            Numbers of labels.

        Returns
        -------
        array (S,)
            The scores; minus infinity if a labelling is forbidden.

        Examples
        --------
        >>> import numpy as np
        >>> from kernelfields.inference import ChainFamily, Potentials
        >>> family = ChainFamily(np.array([0, 2]), n_labels=2)  # a sequence of two positions
        >>> scores = Potentials(np.array([[1.0, 0.0], [0.0, 0.0]]), {"edge": np.array([[[1.0, 0.0], [0.0, 0.5]]])})
        >>> family.label_scores(scores, np.array([0, 1]))
        array([1.])
        """
        total, observed = np.zeros(self.n_items), self.observed(labels)
        for group in self.groups:
            rows, labellings, items = observed[group.name]
            table = potentials[group.name]
            table = table.reshape(len(table), group.size)
            scores = table[0, labellings] if group.tied else table[rows, labellings]
            total += np.bincount(items, scores, minlength=self.n_items)
        return total if self.base is None else total + self._base_scores(labels)

    def _base_scores(self, labels: np.ndarray) -> np.ndarray:
        """Return log p0 of a labelling of each item, (S,)."""
        assert self.base is not None
        return self.base.label_scores(labels, self.step_pairs())

    def step_pairs(self) -> np.ndarray:
        """Return the pairs of positions that the base measure joins: neighbours.

        Returns
        -------
        array (M, 2)
            The first and the second positions.
        """
        return self.arrangement.followers[:, None] + np.array([-1, 0])

    def log_labellings(self) -> np.ndarray:
        """Compute the logarithm of the number of labellings of each item, weighted by the base measure.

        Returns
        -------
        array (S,)
            The logarithms.

        Examples
        --------
        >>> import numpy as np
        >>> from kernelfields.inference import ChainFamily, Potentials
        >>> family = ChainFamily(np.array([0, 2]), n_labels=2)  # a sequence of two positions
        >>> scores = Potentials(np.array([[1.0, 0.0], [0.0, 0.0]]), {"edge": np.array([[[1.0, 0.0], [0.0, 0.5]]])})
        >>> np.exp(family.log_labellings()).round()
        array([4.])
        """
        if self.base is None:
            return np.diff(self.offsets) * np.log(self.n_labels)
        return self.distribution(self.zeros()).log_partition

    # ---- distributions

    def distribution(
        self,
        potentials: Potentials,
        weights: np.ndarray | None = None,
        workers: Workers | None = None,
        *,
        keep: bool = True,
    ) -> Member:
        """Return the distribution at potentials.

        Parameters
        ----------
        potentials : Potentials
            The potentials, base measure not included.
        weights : array (S,), optional
            The weights of items in its mean and covariances; ones by default.
        workers : Workers, optional
            The threads; by default one.
        keep : bool, default True
            Whether to keep what questions beyond log partition and mean need; otherwise they infer again.

        Returns
        -------
        Member
            The distribution.

        Raises
        ------
        ValueError
            If all labellings of an item are forbidden; the message names it.

        Examples
        --------
        >>> import numpy as np
        >>> from kernelfields.inference import ChainFamily, Potentials
        >>> family = ChainFamily(np.array([0, 2]), n_labels=2)  # a sequence of two positions
        >>> scores = Potentials(np.array([[1.0, 0.0], [0.0, 0.0]]), {"edge": np.array([[[1.0, 0.0], [0.0, 0.5]]])})
        >>> family.distribution(scores).log_partition.round(2)
        array([2.55])
        """
        return self._infer(self.with_base(potentials), weights, workers or Workers(1))

    def with_base(self, potentials: Potentials) -> Potentials:
        """Return potentials plus the logarithm of the base measure.

        Parameters
        ----------
        potentials : Potentials
            The potentials, base measure not included.

        Returns
        -------
        Potentials
            The sum.
        """
        base = self.base
        if base is None:
            return potentials
        node = potentials.node if base.position is None else potentials.node + base.position
        tables = potentials.tables
        if base.step is not None:
            tables = {**tables, EDGE: tables[EDGE] + base.step}
        return Potentials(node, tables)

    def log_partition_given(
        self, log_weights: np.ndarray, potentials: Potentials, workers: Workers | None = None
    ) -> np.ndarray:
        """Compute the log partition given log-weights of labels.

        Parameters
        ----------
        log_weights : array (N, L)
            The logarithms of the weights of labels; minus infinity forbids.
        potentials : Potentials
            The potentials, base measure not included.
        workers : Workers, optional
            The threads; by default one.

        Returns
        -------
        array (S,)
            The log partitions; minus infinity if no labelling is left.

        Examples
        --------
        >>> import numpy as np
        >>> from kernelfields.inference import ChainFamily, Potentials
        >>> family = ChainFamily(np.array([0, 2]), n_labels=2)  # a sequence of two positions
        >>> scores = Potentials(np.array([[1.0, 0.0], [0.0, 0.0]]), {"edge": np.array([[[1.0, 0.0], [0.0, 0.5]]])})
        >>> first_is_1 = np.array([[-np.inf, 0.0], [0.0, 0.0]])
        >>> family.log_partition_given(first_is_1, scores).round(2)
        array([0.97])
        """
        given = self.condition(log_weights)
        impossible = given.impossible()
        if impossible.any():
            # Inference needs a labelling: where there is none, what was known before stands alone.
            lost = np.repeat(impossible, np.diff(self.offsets))[:, None]
            given = self.condition(np.where(lost, 0.0, log_weights))
        return np.where(impossible, -np.inf, given.distribution(potentials, workers=workers, keep=False).log_partition)

    def labellings(self, potentials: Potentials, workers: Workers | None = None) -> Labellings:
        """Return the best labellings at potentials, and draws of labellings.

        Parameters
        ----------
        potentials : Potentials
            The potentials, base measure not included.
        workers : Workers, optional
            The threads; by default one.

        Returns
        -------
        Labellings
            An object that finds and draws them.

        Examples
        --------
        >>> import numpy as np
        >>> from kernelfields.inference import ChainFamily, Potentials
        >>> family = ChainFamily(np.array([0, 2]), n_labels=2)  # a sequence of two positions
        >>> scores = Potentials(np.array([[1.0, 0.0], [0.0, 0.0]]), {"edge": np.array([[[1.0, 0.0], [0.0, 0.5]]])})
        >>> family.labellings(scores).best()
        (array([0, 0]), array([2.]))
        """
        return self._labellings_type(self, potentials, workers)

    @abstractmethod
    def _infer(self, potentials: Potentials, weights: np.ndarray | None, workers: Workers) -> Member:
        """Return the distribution at potentials that include the base measure."""

    # ---- other families

    def condition(self, log_weights: np.ndarray) -> LabelFamily:
        """Return the family with the base measure multiplied by weights of single labels.

        Parameters
        ----------
        log_weights : array (N, L)
            The logarithms of the weights of labels; minus infinity forbids.

        Returns
        -------
        LabelFamily
            The family.

        Examples
        --------
        >>> import numpy as np
        >>> from kernelfields.inference import ChainFamily, Potentials
        >>> family = ChainFamily(np.array([0, 2]), n_labels=2)  # a sequence of two positions
        >>> scores = Potentials(np.array([[1.0, 0.0], [0.0, 0.0]]), {"edge": np.array([[[1.0, 0.0], [0.0, 0.5]]])})
        >>> first_is_1 = np.array([[-np.inf, 0.0], [0.0, 0.0]])
        >>> family.condition(first_is_1).labellings(scores).best()[0].tolist()
        [1, 1]
        """
        base = self.base or measures.BaseMeasure(self.offsets, self.n_labels)
        other = copy.copy(self)
        other.base = base.multiply(log_weights)
        return other

    @abstractmethod
    def part(self, first: int, last: int) -> LabelFamily:
        """Return the family of items first..last-1.

        Parameters
        ----------
        first : int
            The first item.
        last : int
            The item after the last.

        Returns
        -------
        LabelFamily
            The family of the part.
        """

    def impossible(self) -> np.ndarray:
        """Find the items whose labellings are all forbidden.

        Returns
        -------
        bool array (S,)
            The mask of these items.
        """
        if self.base is None or not self.base.has_forbidden_labellings:
            return np.zeros(self.n_items, dtype=bool)
        return self._impossible()

    def _impossible(self) -> np.ndarray:
        """Return the mask of items without a labelling, for base measures that forbid some."""
        assert self.base is not None
        return self.base.dead_rows() >= 0

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self.description or self.method}>"


def warn_of_inference(reports: Iterable[str]) -> None:
    """Issue the reports of approximate inference as warnings."""
    for report in reports:
        warn_user(report, ConvergenceWarning)


def is_group_constant(placed: Sequence[Placed], group: str | None) -> bool:
    """Whether no clique set of a group has inputs, so that all cliques share one table."""
    return all(term.is_constant for term in placed if term.group == group)
