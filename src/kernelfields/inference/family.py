"""Families of labellings: the exponential family of section 2 of the paper, for every structure of labels.

    p(y; u) = p0(y) exp(<Phi(y), u> - g(u))            y: a labelling of one item (sequence, graph, instance)

Phi(y) counts how often the cliques of each group have each labelling, u are the potentials, p0 is the base measure,
g the log partition function. Items are packed: item i owns the positions offsets[i] .. offsets[i + 1] - 1.

    LabelFamily   what labellings there are: groups of cliques, counts Phi, the mode, samples, conditioning, parts
    Member        one distribution: g, its gradient (the mean of Phi), its Hessian products (covariances), marginals

Sums over items are weighted by weights (S,). Everything that fits, predicts, certifies or approximates is written on
these two classes. Fails: ValueError naming the item whose labellings are all forbidden.
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Self

import numpy as np
from numpy.typing import ArrayLike

from kernelfields.inference.base_measure import BaseMeasure
from kernelfields.inference.packing import check_whole
from kernelfields.inference.potentials import EDGE, Group, Observed, Placed, Potentials, Statistics
from kernelfields.numerics.threads import Workers

#: Best labellings of each item, (k_i, n_i), and their scores, (k_i,).
RankedLabellings = tuple[list[np.ndarray], list[np.ndarray]]


class Member(ABC):
    """One distribution of a family; ``potentials`` include the base measure, ``weights`` (S,) are None for ones."""

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
        """Return the weighted sum of E Phi, the gradient of g; the arrays are the caller's to change."""

    @abstractmethod
    def marginals(self, group: str | None = None) -> np.ndarray:
        """Return the probabilities of the labellings of each clique of a group, (M, *row)."""

    @abstractmethod
    def covariance_product(self, direction: Potentials) -> Potentials:
        """Return the Hessian of the weighted g times a direction: weighted sums of Cov(Phi) d."""

    def likeliest(self) -> np.ndarray:
        """Return the label of largest marginal at each position, (N,)."""
        return self.marginals().argmax(axis=1)

    def expected_scores(self, direction: Potentials) -> np.ndarray:
        """Return E <Phi, d> of each item, (S,)."""
        total = np.zeros(self.family.n_items)
        for group in self.family.groups:
            assert group.items is not None
            rows, scores = self.marginals(group.name), direction[group.name]
            products = (rows * scores).reshape(len(rows), group.size).sum(axis=1)
            total += np.bincount(group.items, products, minlength=len(total))
        return total

    def entropy(self) -> np.ndarray:
        """Return the entropy of each item in nats, (S,): g less the expected score."""
        scores = self.potentials.of(np.where(np.isneginf(array), 0.0, array) for array in self.potentials.arrays)
        return np.maximum(self.log_partition - self.expected_scores(scores), 0.0)

    def _weighted(self, rows: np.ndarray, items: np.ndarray) -> np.ndarray:
        """Multiply rows by the weights of the items they belong to."""
        if self.weights is None:
            return rows
        return rows * self.weights[items].reshape((-1,) + (1,) * (rows.ndim - 1))


class LabelFamily(ABC):
    """Labellings of packed items; see the module.

    Derived classes name their ``groups``, that of single labels first, and write ``_infer``, ``_best``, ``_sample``,
    ``_n_best`` and ``part``; they get potentials that include the base measure.
    """

    #: Name of the method of inference, whether it is exact, and what its log partition is: "exact", an "upper" or a
    #: "lower" bound, or None for neither.
    method = ""
    exact = True
    bound: str | None = "exact"
    #: One sentence: what was chosen and what it costs.
    description = ""
    #: The smallest number of samples that may be drawn.
    fewest_samples = 1
    #: Whether labels meet no others.
    single_labels = False
    base: BaseMeasure | None = None

    def __init__(
        self, offsets: ArrayLike, n_labels: int, groups: Sequence[Group] = (), base: BaseMeasure | None = None
    ):
        check_whole("n_labels", n_labels)
        self.offsets = np.asarray(offsets)
        self.n_labels = n_labels
        self.n_items = len(self.offsets) - 1
        self.n_positions = int(self.offsets[-1])
        self.groups = (Group(None, (n_labels,), self.n_positions, self.position_items), *groups)
        self.base = None if base is None or base.trivial else base

    @cached_property
    def position_items(self) -> np.ndarray:
        """The item of every position, (N,)."""
        return np.repeat(np.arange(self.n_items), np.diff(self.offsets))

    def group(self, name: str | None) -> Group:
        """Return the group of a name; ValueError if there is none."""
        for group in self.groups:
            if group.name == name:
                return group
        known = ", ".join(repr(group.name) for group in self.groups if group.name is not None)
        raise ValueError(f"no cliques are called {name!r}: there are {known or 'single labels only'}")

    def clique_members(self, group: str) -> np.ndarray:
        """Return the positions whose labels meet in each clique of a group, (M, k)."""
        raise ValueError(f"cliques of {group!r} have no fixed positions")

    def clique_places(self, group: str) -> np.ndarray | None:
        """Return the rows of a group that are cliques; None for all of them."""
        return None

    # ---- where the scores of clique sets stand in potentials

    def zeros(self) -> Potentials:
        """Return potentials of zero."""
        arrays = {group.name: np.zeros((1 if group.tied else group.n_rows, *group.row)) for group in self.groups}
        node = arrays.pop(None)
        return Potentials(node, arrays)  # type: ignore[arg-type]

    def add_scores(self, potentials: Potentials, term: Placed, scores: np.ndarray) -> None:
        """Add the scores of a set's cliques, (n, labellings), or one row for all of them, in place."""
        group, columns = self.group(term.group), self._columns(term)
        table = potentials[term.group].reshape(-1, group.size)
        rows = None if group.tied else self._rows(group, term)
        scores = scores.reshape(len(scores), int(np.prod(scores.shape[1:])))
        # One row for all cliques is added to all rows: those that are no cliques are never read.
        if rows is None or (term.tied_everywhere and self._holds_all_cliques(term.group, rows)):
            table[:, columns] += scores
        elif isinstance(columns, slice):
            table[rows] += scores
        else:
            table[np.ix_(rows, columns)] += scores

    def clique_residuals(self, residual: Potentials, term: Placed) -> np.ndarray:
        """Return a gradient in potentials at the cliques of a set, (n, labellings); summed over them if it is tied."""
        group = self.group(term.group)
        if group.tied:
            return residual[term.group].reshape(1, group.size)[:, self._columns(term)]
        rows = self.clique_rows(residual[term.group], term)
        return rows.sum(axis=0, keepdims=True) if term.tied_everywhere else rows

    def clique_rows(self, rows: np.ndarray, term: Placed) -> np.ndarray:
        """Return rows of a group, such as marginals (M, *row), at the cliques of a set, (n, labellings)."""
        group = self.group(term.group)
        flat, chosen = rows.reshape(len(rows), group.size), self._rows(group, term)
        return (flat if chosen is None else flat[chosen])[:, self._columns(term)]

    def clique_weights(self, weights: np.ndarray, term: Placed) -> np.ndarray:
        """Return the weight of every clique of a set, (n,), for weights of items (S,).

        Cliques that belong to no item have the weight of all positions.
        """
        group = self.group(term.group)
        chosen = self._rows(group, term)
        if group.items is None:
            n_cliques = group.n_rows if chosen is None else len(chosen)
            return np.full(n_cliques, float(weights @ np.diff(self.offsets)))
        return weights[group.items if chosen is None else group.items[chosen]]

    def _rows(self, group: Group, term: Placed) -> np.ndarray | None:
        """Return the rows of a group that are the cliques of a set; None where all rows are, in their order."""
        return None if term.positions is None or len(term.positions) == group.n_rows else term.positions

    def _holds_all_cliques(self, group: str | None, rows: np.ndarray) -> bool:
        """Whether rows of a group are all of its cliques."""
        places = None if group is None else self.clique_places(group)
        return places is not None and len(rows) == len(places)

    def _columns(self, term: Placed) -> slice | np.ndarray:
        """Return where the labellings that a set scores stand in a row of its group."""
        return slice(None) if term.outcomes is None else term.outcomes

    def placed(self, potentials: Potentials) -> Potentials:
        """Return potentials, or targets, of this process where the family keeps its own."""
        return potentials

    def placed_weights(self, weights: np.ndarray | None) -> np.ndarray | None:
        """Return weights of items (S,) as :meth:`at` takes them."""
        return weights

    # ---- labellings

    @abstractmethod
    def observed(self, labels: np.ndarray) -> Mapping[str | None, Observed]:
        """Return the cliques of labelled data in each group, for labels (N,)."""

    def statistics(self, labels: np.ndarray, weights: np.ndarray | None = None) -> Statistics:
        """Return Phi of labels (N,), weighted by items (S,) and summed."""
        return Statistics.count(self.groups, self.observed(labels), weights)

    def label_scores(self, potentials: Potentials, labels: np.ndarray) -> np.ndarray:
        """Return log p0(y) + <Phi(y), u> of a labelling (N,) of each item, (S,); minus infinity where forbidden."""
        total, observed = np.zeros(self.n_items), self.observed(labels)
        for group in self.groups:
            rows, labellings, items, amounts = observed[group.name]
            table = potentials[group.name].reshape(-1, group.size)
            scores = table[0, labellings] if group.tied else table[rows, labellings]
            total += np.bincount(items, scores if amounts is None else scores * amounts, minlength=self.n_items)
        return total if self.base is None else total + self._base_scores(labels)

    def _base_scores(self, labels: np.ndarray) -> np.ndarray:
        """Return log p0 of a labelling of each item, (S,)."""
        assert self.base is not None
        return self.base.label_scores(labels, self._steps())

    def _steps(self) -> np.ndarray:
        """Return positions and those that follow them in their item, (M, 2)."""
        return self._following[:, None] + np.array([-1, 0])

    @cached_property
    def _following(self) -> np.ndarray:
        """The positions that follow another one of their item."""
        follows = np.ones(self.n_positions, dtype=bool)
        follows[self.offsets[:-1]] = False
        return np.flatnonzero(follows)

    def log_labellings(self) -> np.ndarray:
        """Return the logarithm of the number of labellings of each item, weighted by p0, (S,)."""
        return self.at(self.zeros()).log_partition

    # ---- distributions

    def at(
        self,
        potentials: Potentials,
        weights: np.ndarray | None = None,
        workers: Workers | None = None,
        *,
        keep: bool = True,
    ) -> Member:
        """Return the distribution at potentials; ``weights`` (S,) weigh items in its mean and covariances.

        With ``keep=False`` nothing beyond g and the mean is kept; other questions infer again.
        """
        return self._infer(self.with_base(potentials), weights, workers or Workers(1), keep)

    def with_base(self, potentials: Potentials) -> Potentials:
        """Return potentials plus the logarithm of the base measure."""
        base = self.base
        if base is None:
            return potentials
        node = potentials.node if base.position is None else potentials.node + base.position
        tables = potentials.tables
        if base.step is not None:
            tables = {**tables, EDGE: tables[EDGE] + base.step}
        return Potentials(node, tables)

    def best(self, potentials: Potentials, workers: Workers | None = None) -> tuple[np.ndarray, np.ndarray]:
        """Return the most probable labelling (N,) and its score for each item (S,); approximate where not exact."""
        return self._best(self.with_base(potentials), workers or Workers(1))

    def n_best(self, potentials: Potentials, k: int, workers: Workers | None = None) -> RankedLabellings:
        """Return the k best labellings of each item and their scores, fewer where there are no more."""
        return self._n_best(self.with_base(potentials), k, workers or Workers(1))

    def sample(
        self,
        potentials: Potentials,
        n_samples: int,
        random: int | np.random.Generator | None = None,
        workers: Workers | None = None,
    ) -> np.ndarray:
        """Draw labellings, (n_samples, N); independent ones where inference is exact."""
        generator = np.random.default_rng(random)
        return self._sample(self.with_base(potentials), n_samples, generator, workers or Workers(1))

    @abstractmethod
    def _infer(self, potentials: Potentials, weights: np.ndarray | None, workers: Workers, keep: bool) -> Member:
        """Return the distribution at potentials that include the base measure."""

    @abstractmethod
    def _best(self, potentials: Potentials, workers: Workers) -> tuple[np.ndarray, np.ndarray]:
        """Return the best labelling and its scores."""

    @abstractmethod
    def _n_best(self, potentials: Potentials, k: int, workers: Workers) -> RankedLabellings:
        """Return the k best labellings and their scores."""

    @abstractmethod
    def _sample(
        self, potentials: Potentials, n_samples: int, random: np.random.Generator, workers: Workers
    ) -> np.ndarray:
        """Draw labellings."""

    # ---- other families

    def given(self, log_weights: np.ndarray) -> LabelFamily:
        """Return the family with p0 multiplied by weights of single labels, exp log_weights (N, L)."""
        base = self.base or BaseMeasure(self.offsets, self.n_labels)
        return self._with_measure(base.times(log_weights))

    def _with_measure(self, base: BaseMeasure | None) -> Self:
        """Return the family with another base measure."""
        other = copy.copy(self)
        other.base = base
        return other

    @abstractmethod
    def part(self, first: int, last: int) -> LabelFamily:
        """Return the family of items first..last-1."""

    def _base_of(self, first: int, last: int) -> BaseMeasure | None:
        """Return the base measure of items first..last-1."""
        return None if self.base is None else self.base.part(first, last)

    def cut(self, potentials: Potentials, first: int, last: int) -> Potentials:
        """Return the potentials of items first..last-1, views where rows are in the order of the items."""
        arrays = []
        for group, array in zip(self.groups, potentials.arrays, strict=True):
            if group.tied or group.items is None:
                arrays.append(array)
            elif np.all(group.items[1:] >= group.items[:-1]):
                begin, end = np.searchsorted(group.items, (first, last))
                arrays.append(array[begin:end])
            else:
                arrays.append(array[(group.items >= first) & (group.items < last)])
        return potentials.of(arrays)

    def impossible(self) -> np.ndarray:
        """Return a mask of the items whose labellings are all forbidden, (S,)."""
        if self.base is None or not self.base.forbids:
            return np.zeros(self.n_items, dtype=bool)
        return self._impossible()

    def _impossible(self) -> np.ndarray:
        """Return the mask where the base measure forbids something."""
        assert self.base is not None
        return self.base.dead_rows() >= 0

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self.description or self.method}>"
