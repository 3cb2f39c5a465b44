"""Families of labellings: the exponential family of section 2 of the paper, for every structure of labels.

    p(y; u) = p0(y) exp(<Phi(y), u> - g(u))            y: a labelling of one item (sequence, graph, instance)

Phi(y) counts how often the cliques of each group have each labelling, u are the potentials, p0 is the base measure
(base_measure.py), g the log partition function. Items are packed: item i owns the positions
offsets[i] .. offsets[i + 1] - 1.

    LabelFamily   what labellings there are: groups of cliques, counts Phi, the mode, samples, conditioning, parts
    Member        one distribution: g, its gradient (the mean of Phi), its Hessian products (covariances), marginals
    Potentials    the natural parameters u, and directions and gradients in them: one array for each group of cliques
    Statistics    the counts Phi of labelled data

A group is a kind of clique: neighbouring labels ("edge"), labels k steps apart ("lag2"), n-grams ("order2"), durations
of segments, or a type of factors that a user has named. Single labels are the group None. Arrays of potentials:

    node              (N, L)                one row for each position or node
    tables[group]     (1, *row)             one table for all cliques of the group (tied), or
                      (rows, *row)          one for each

Statistics are sparse: one entry for each clique, or counts of a tied table, so that subtracting them from expectations
touches one entry a row. Sums over items are weighted by weights (S,). Everything that fits, predicts, certifies or
approximates is written on families and members. Fails: ValueError naming the item whose labellings are all forbidden.
"""

from __future__ import annotations

import copy
import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, Protocol, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.exceptions import ConvergenceWarning

from kernelfields.inference.base_measure import BaseMeasure
from kernelfields.inference.packing import first_largest
from kernelfields.numerics.parameters import check_choice, check_count
from kernelfields.numerics.threads import Workers
from kernelfields.numerics.user_warnings import warn_user
from kernelfields.numerics.vectors import add_scaled, dot

#: The group of neighbouring labels of a chain.
EDGE = "edge"
#: An array of NumPy, or a tensor of the device on which a family infers.
Array = Any


class Group(NamedTuple):
    """A kind of clique: the rows of one array of potentials.

    ``row`` is the shape of a row, ``n_rows`` the number of rows M, ``items`` (M,) the sequence, graph or instance of
    each; None where rows belong to no item, as those of durations. A ``tied`` group has one table for all its cliques.
    """

    name: str | None
    row: tuple[int, ...]
    n_rows: int
    items: np.ndarray | None
    tied: bool = False

    @property
    def size(self) -> int:
        """Number of labellings of one clique."""
        return math.prod(self.row)


class Grouped(Protocol):
    """A clique set, as far as the choice of a family for chains depends on it."""

    @property
    def group(self) -> str | None:
        """Name of the group that the set scores; None for single labels."""

    @property
    def labels_per_clique(self) -> int:
        """How many labels meet in a clique."""

    @property
    def reach(self) -> int:
        """How many steps lie between the first label of a clique of a chain and its last."""

    @property
    def tied_everywhere(self) -> bool:
        """Whether the potential is one and the same at all cliques."""


class Placed(Grouped, Protocol):
    """Where the cliques of a set stand in some data, and what is scored there."""

    @property
    def positions(self) -> np.ndarray | None:
        """The positions that carry a clique; None for all."""

    @property
    def outcomes(self) -> np.ndarray | None:
        """The labellings that tied scores are listed for; None where there is one for each of all labellings."""


@dataclass(frozen=True, eq=False)
class Placement:
    """The place of a fitted set in new data; ``reach`` matters to chains alone."""

    labels_per_clique: int
    group: str | None
    positions: np.ndarray | None
    tied_everywhere: bool
    outcomes: np.ndarray | None = None
    reach: int = 1


class Potentials:
    """Scores of the labellings of cliques, or a direction or gradient in them: see the module for the arrays."""

    def __init__(self, node: Array, tables: Mapping[str, Array] | None = None):
        self.node = node
        self.tables: dict[str, Array] = {} if tables is None else dict(tables)

    def __getitem__(self, group: str | None) -> Array:
        return self.node if group is None else self.tables[group]

    @property
    def edge(self) -> Array:
        """Scores of neighbouring labels, (1 or N, L, L)."""
        return self.tables[EDGE]

    @property
    def arrays(self) -> tuple[Array, ...]:
        """The arrays of all groups, that of single labels first."""
        return self.node, *self.tables.values()

    def of(self, arrays: Iterable[Array]) -> Self:
        """Return other arrays, in the order of ``arrays``, for the same groups."""
        node, *tables = arrays
        return type(self)(node, dict(zip(self.tables, tables, strict=True)))

    @property
    def finite(self) -> bool:
        """Whether no entry is infinite or NaN, nor so large that their sum is."""
        return all(np.isfinite(array.sum()) for array in self.arrays)

    @property
    def largest(self) -> float:
        """The largest absolute entry."""
        return max(float(np.abs(array).max(initial=0.0)) for array in self.arrays)

    def moved(self, step: float, direction: Potentials) -> Self:
        """Return self + step * direction."""
        moved = self.of(step * array for array in direction.arrays)
        for new, old in zip(moved.arrays, self.arrays, strict=True):
            new += old
        return moved

    def add(self, step: float, direction: Potentials) -> None:
        """Add step * direction in place."""
        for mine, theirs in zip(self.arrays, direction.arrays, strict=True):
            add_scaled(mine, step, theirs)

    def scale(self, factor: float) -> None:
        """Multiply by a number in place."""
        for array in self.arrays:
            array *= factor

    def dot(self, other: Potentials) -> float:
        """Return the inner product."""
        return sum(dot(mine, theirs) for mine, theirs in zip(self.arrays, other.arrays, strict=True))

    def subtract_from(self, mean: Potentials) -> None:
        """Subtract from expectations in place, as targets that take the place of labels."""
        mean.add(-1.0, self)


class Observed(NamedTuple):
    """The cliques of labelled data in one group: row of the table, number of the labelling, item."""

    rows: np.ndarray
    labellings: np.ndarray
    items: np.ndarray


class Statistics:
    """Weighted counts of the labellings of cliques: flat places in the array of a group, all different, and amounts.

    Amounts are an array, or one number for all places.
    """

    def __init__(self, entries: Mapping[str | None, tuple[np.ndarray, np.ndarray | float]]):
        self.entries = dict(entries)

    @classmethod
    def count(
        cls, groups: Sequence[Group], observed: Mapping[str | None, Observed], weights: np.ndarray | None
    ) -> Statistics:
        """Count observed cliques, weighted by items (S,), None for ones."""
        entries: dict[str | None, tuple[np.ndarray, np.ndarray | float]] = {}
        for group in groups:
            rows, labellings, items = observed[group.name]
            amounts: np.ndarray | float = 1.0 if weights is None else weights[items]
            if group.tied or group.items is None:
                places = labellings if group.tied else rows * group.size + labellings
                counts = np.bincount(places, np.broadcast_to(amounts, places.shape))
                entries[group.name] = np.flatnonzero(counts), counts[counts != 0]
            else:
                entries[group.name] = rows * group.size + labellings, amounts
        return cls(entries)

    def dot(self, potentials: Potentials) -> float:
        """Return the inner product with potentials."""
        total: Any = 0.0
        for group, (places, amounts) in self.entries.items():
            chosen = potentials[group].reshape(-1)[places]
            total += chosen.sum() * amounts if isinstance(amounts, float) else chosen @ amounts
        return total

    def subtract_from(self, mean: Potentials) -> None:
        """Subtract the counts from expectations in place."""
        for group, (places, amounts) in self.entries.items():
            mean[group].reshape(-1)[places] -= amounts


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
        """Return the label of largest marginal at each position, the lowest of equals, (N,)."""
        return first_largest(self.marginals())

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

    @cached_property
    def item_weights(self) -> np.ndarray:
        """The weights of all items, (S,)."""
        return np.ones(self.family.n_items) if self.weights is None else self.weights

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
        check_count(n_labels, "n_labels")
        self.offsets = np.asarray(offsets)
        self.n_labels = n_labels
        self.n_items = len(self.offsets) - 1
        self.n_positions = int(self.offsets[-1])
        self.groups = (Group(None, (n_labels,), self.n_positions, self.position_items), *groups)
        self.base = None if base is None or base.trivial else base

    @property
    def on_one_thread(self) -> bool:
        """Whether inference cannot be shared out among threads."""
        return False

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
        table = potentials[term.group]
        table = table.reshape(len(table), group.size)
        rows = None if group.tied else self._rows(group, term)
        scores = scores.reshape(len(scores), math.prod(scores.shape[1:]))
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

    def correlated_cliques(self, term: Placed, n_cliques: int) -> float:
        """Return how many of a set's cliques count for the curvature of weights that all of them share."""
        return float(n_cliques)

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

    def placed_array(self, array: np.ndarray | None) -> Array:
        """Return an array, such as the weights of items (S,) that :meth:`at` takes, where the family keeps its own."""
        return array

    def read_back(self, array: Array) -> np.ndarray:
        """Return an array of the family, such as marginals or a part of potentials, as one of this process."""
        return array

    # ---- labellings

    def observed(self, labels: np.ndarray) -> dict[str | None, Observed]:
        """Return the cliques of labelled data in each group, for labels (N,): here single labels, which all have."""
        return {None: Observed(np.arange(self.n_positions), labels, self.position_items)}

    def statistics(self, labels: np.ndarray, weights: np.ndarray | None = None) -> Statistics:
        """Return Phi of labels (N,), weighted by items (S,) and summed."""
        return Statistics.count(self.groups, self.observed(labels), weights)

    def label_scores(self, potentials: Potentials, labels: np.ndarray) -> np.ndarray:
        """Return log p0(y) + <Phi(y), u> of a labelling (N,) of each item, (S,); minus infinity where forbidden."""
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
        """Return the pairs of positions whose labels the base measure joins, first and second, (M, 2): neighbours."""
        return self._following[:, None] + np.array([-1, 0])

    @cached_property
    def _following(self) -> np.ndarray:
        """The positions that follow another one of their item."""
        follows = np.ones(self.n_positions, dtype=bool)
        follows[self.offsets[:-1]] = False
        return np.flatnonzero(follows)

    def log_labellings(self) -> np.ndarray:
        """Return the logarithm of the number of labellings of each item, weighted by p0, (S,)."""
        if self.base is None:
            return np.diff(self.offsets) * np.log(self.n_labels)
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
        return self._infer(self.with_base(potentials), weights, workers or Workers(1))

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

    def log_partition_given(
        self, log_weights: np.ndarray, potentials: Potentials, workers: Workers | None = None
    ) -> np.ndarray:
        """Return g once log-weights (N, L) are known of labels, (S,); minus infinity where they leave no labelling."""
        given = self.given(log_weights)
        impossible = given.impossible()
        if impossible.any():
            # Inference needs a labelling: where there is none, what was known before stands alone.
            lost = np.repeat(impossible, np.diff(self.offsets))[:, None]
            given = self.given(np.where(lost, 0.0, log_weights))
        return np.where(impossible, -np.inf, given.at(potentials, workers=workers, keep=False).log_partition)

    def best(self, potentials: Potentials, workers: Workers | None = None) -> tuple[np.ndarray, np.ndarray]:
        """Return the most probable labelling (N,) and its score for each item (S,); approximate where not exact."""
        return self._best(self.with_base(potentials), workers or Workers(1))

    def n_best(self, potentials: Potentials, k: int, workers: Workers | None = None) -> RankedLabellings:
        """Return the k best labellings of each item and their scores, fewer where there are no more."""
        check_count(k, "k")
        return self._n_best(self.with_base(potentials), k, workers or Workers(1))

    def sample(
        self,
        potentials: Potentials,
        n_samples: int,
        random: int | np.random.Generator | None = None,
        workers: Workers | None = None,
        *,
        method: str = "auto",
    ) -> np.ndarray:
        """Draw labellings, (n_samples, N); independent ones from p(y) itself where inference is exact."""
        check_choice(method, "method", ("auto", "perfect"))
        check_count(n_samples, "n_samples", least=self.fewest_samples)
        generator = np.random.default_rng(random)
        return self._sample(self.with_base(potentials), n_samples, generator, workers or Workers(1))

    @abstractmethod
    def _infer(self, potentials: Potentials, weights: np.ndarray | None, workers: Workers) -> Member:
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
            elif group.items is self.position_items:
                arrays.append(array[self.offsets[first] : self.offsets[last]])
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


def warn_of_inference(reports: Iterable[str]) -> None:
    """Issue what approximate inference reported of its answer as warnings."""
    for report in reports:
        warn_user(report, ConvergenceWarning)


def all_tied(placed: Sequence[Placed], group: str | None) -> bool:
    """Whether no clique set of a group sees inputs."""
    return all(term.tied_everywhere for term in placed if term.group == group)
