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
    """Say where the cliques of a fitted set are in new data.

    Parameters
    ----------
    labels_per_clique : int
        The number of labels that meet.
    group : str or None
        The group that the set scores; None for single labels.
    positions : array or None
        The positions that carry a clique; None for all.
    tied_everywhere : bool
        Whether the potential is the same at all cliques.
    outcomes : array, optional
        The labellings that tied scores are listed for; by default all.
    reach : int, default 1
        The steps between the first label of a clique of a chain and its last.

    Examples
    --------
    >>> from kernelfields.inference import Placement
    >>> Placement(2, "edge", None, tied_everywhere=True).reach
    1
    """

    labels_per_clique: int
    group: str | None
    positions: np.ndarray | None
    tied_everywhere: bool
    outcomes: np.ndarray | None = None
    reach: int = 1


class Potentials:
    """Hold scores of the labellings of cliques, or a direction or gradient in them.

    Parameters
    ----------
    node : array (N, L)
        The scores of single labels.
    tables : dict, optional
        For the name of each group of cliques the scores of their labellings, (1, ...) if all share them, else a row for
        each clique.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelfields.inference import Potentials
    >>> scores = Potentials(np.zeros((3, 2)), {"edge": np.eye(2)[None]})
    >>> scores.edge.shape, scores.largest
    ((1, 2, 2), 1.0)
    """

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
        """Return other arrays for the same groups.

        Parameters
        ----------
        arrays : iterable of arrays
            The arrays, in the order of ``arrays``.

        Returns
        -------
        Potentials
            The potentials.
        """
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
        """Return self + step * direction.

        Parameters
        ----------
        step : float
            The step.
        direction : Potentials
            The direction.

        Returns
        -------
        Potentials
            The sum.

        Examples
        --------
        >>> import numpy as np
        >>> from kernelfields.inference import Potentials
        >>> scores = Potentials(np.zeros((2, 2)), {"edge": np.eye(2)[None]})
        >>> scores.moved(2.0, scores).edge[0].tolist()
        [[3.0, 0.0], [0.0, 3.0]]
        """
        moved = self.of(step * array for array in direction.arrays)
        for new, old in zip(moved.arrays, self.arrays, strict=True):
            new += old
        return moved

    def add(self, step: float, direction: Potentials) -> None:
        """Add step * direction in place.

        Parameters
        ----------
        step : float
            The step.
        direction : Potentials
            The direction.
        """
        for mine, theirs in zip(self.arrays, direction.arrays, strict=True):
            add_scaled(mine, step, theirs)

    def scale(self, factor: float) -> None:
        """Multiply by a number in place.

        Parameters
        ----------
        factor : float
            The number.
        """
        for array in self.arrays:
            array *= factor

    def dot(self, other: Potentials) -> float:
        """Compute the inner product.

        Parameters
        ----------
        other : Potentials
            The other potentials.

        Returns
        -------
        float
            The product.

        Examples
        --------
        >>> import numpy as np
        >>> from kernelfields.inference import Potentials
        >>> scores = Potentials(np.zeros((2, 2)), {"edge": np.eye(2)[None]})
        >>> float(scores.dot(scores))
        2.0
        """
        return sum(dot(mine, theirs) for mine, theirs in zip(self.arrays, other.arrays, strict=True))

    def subtract_from(self, mean: Potentials) -> None:
        """Subtract from expectations in place, as targets that take the place of labels.

        Parameters
        ----------
        mean : Potentials
            The expectations.
        """
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
    """Describe one distribution of a family: what every method of inference answers.

    :meth:`LabelFamily.at` returns one.

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
    >>> member = family.at(scores)
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
        >>> family.at(scores).mean().edge[0].round(2)
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
        >>> family.at(scores).marginals().round(2)
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
        >>> family.at(scores).covariance_product(scores).node.round(2)
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
        >>> family.at(scores).likeliest().tolist()
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
        >>> family.at(scores).expected_scores(scores).round(2)
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
        >>> family.at(scores).entropy().round(2)
        array([1.11])
        """
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
    """Describe the labellings of packed items: the exponential family of their distributions.

    A family names its groups of cliques, and writes ``_infer``, ``_best``, ``_sample``, ``_n_best`` and ``part``; these
    get potentials that include the base measure.

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
        """Return the group of a name.

        Parameters
        ----------
        name : str or None
            The name; None for single labels.

        Returns
        -------
        Group
            The group.

        Raises
        ------
        ValueError
            If there is no group of that name.
        """
        for group in self.groups:
            if group.name == name:
                return group
        known = ", ".join(repr(group.name) for group in self.groups if group.name is not None)
        raise ValueError(f"no cliques are called {name!r}: there are {known or 'single labels only'}")

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

    def clique_places(self, group: str) -> np.ndarray | None:
        """Return the rows of a group that are cliques.

        Parameters
        ----------
        group : str
            The name of the group.

        Returns
        -------
        array or None
            Numbers of rows; None if all are.
        """
        return None

    # ---- where the scores of clique sets stand in potentials

    def zeros(self) -> Potentials:
        """Return potentials of zero.

        Returns
        -------
        Potentials
            The potentials.
        """
        arrays = {group.name: np.zeros((1 if group.tied else group.n_rows, *group.row)) for group in self.groups}
        node = arrays.pop(None)
        return Potentials(node, arrays)  # type: ignore[arg-type]

    def add_scores(self, potentials: Potentials, term: Placed, scores: np.ndarray) -> None:
        """Add the scores of the cliques of a set to potentials in place.

        Parameters
        ----------
        potentials : Potentials
            The potentials.
        term : Placed
            The clique set, and where its cliques are.
        scores : array (n, labellings)
            The scores; one row for all cliques if they share it.
        """
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
        """Return a gradient in potentials at the cliques of a set.

        Parameters
        ----------
        residual : Potentials
            The gradient.
        term : Placed
            The clique set, and where its cliques are.

        Returns
        -------
        array (n, labellings)
            The gradient; one row, summed over cliques, if they share a table.
        """
        group = self.group(term.group)
        if group.tied:
            return residual[term.group].reshape(1, group.size)[:, self._columns(term)]
        rows = self.clique_rows(residual[term.group], term)
        return rows.sum(axis=0, keepdims=True) if term.tied_everywhere else rows

    def clique_rows(self, rows: np.ndarray, term: Placed) -> np.ndarray:
        """Return rows of a group, such as marginals, at the cliques of a set.

        Parameters
        ----------
        rows : array (M, ...)
            A row for each clique of the group.
        term : Placed
            The clique set, and where its cliques are.

        Returns
        -------
        array (n, labellings)
            The rows of the set.
        """
        group = self.group(term.group)
        flat, chosen = rows.reshape(len(rows), group.size), self._rows(group, term)
        return (flat if chosen is None else flat[chosen])[:, self._columns(term)]

    def clique_weights(self, weights: np.ndarray, term: Placed) -> np.ndarray:
        """Return the weight of every clique of a set.

        Cliques that belong to no item have the weight of all positions.

        Parameters
        ----------
        weights : array (S,)
            The weights of items.
        term : Placed
            The clique set, and where its cliques are.

        Returns
        -------
        array (n,)
            The weights.
        """
        group = self.group(term.group)
        chosen = self._rows(group, term)
        if group.items is None:
            n_cliques = group.n_rows if chosen is None else len(chosen)
            return np.full(n_cliques, float(weights @ np.diff(self.offsets)))
        return weights[group.items if chosen is None else group.items[chosen]]

    def correlated_cliques(self, term: Placed, n_cliques: int) -> float:
        """Count the cliques of a set for the curvature of weights that all of them share.

        Parameters
        ----------
        term : Placed
            The clique set, and where its cliques are.
        n_cliques : int
            The number of cliques.

        Returns
        -------
        float
            The number that counts.
        """
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
        """Return potentials, or targets, of this process where the family keeps its own.

        Parameters
        ----------
        potentials : Potentials
            The potentials.

        Returns
        -------
        Potentials
            The potentials there.
        """
        return potentials

    def placed_array(self, array: np.ndarray | None) -> Array:
        """Return an array, such as the weights of items, where the family keeps its own.

        Parameters
        ----------
        array : array or None
            The array.

        Returns
        -------
        array or tensor
            The array there.
        """
        return array

    def read_back(self, array: Array) -> np.ndarray:
        """Return an array of the family, such as marginals, as one of this process.

        Parameters
        ----------
        array : array or tensor
            The array.

        Returns
        -------
        array
            The array of NumPy.
        """
        return array

    # ---- labellings

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
        return Statistics.count(self.groups, self.observed(labels), weights)

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
        """Return the pairs of positions whose labels the base measure joins: neighbours.

        Returns
        -------
        array (M, 2)
            The first and the second positions.
        """
        return self._following[:, None] + np.array([-1, 0])

    @cached_property
    def _following(self) -> np.ndarray:
        """The positions that follow another one of their item."""
        follows = np.ones(self.n_positions, dtype=bool)
        follows[self.offsets[:-1]] = False
        return np.flatnonzero(follows)

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
        >>> family.at(scores).log_partition.round(2)
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
        """Compute the log partition once log-weights are known of labels.

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
        given = self.given(log_weights)
        impossible = given.impossible()
        if impossible.any():
            # Inference needs a labelling: where there is none, what was known before stands alone.
            lost = np.repeat(impossible, np.diff(self.offsets))[:, None]
            given = self.given(np.where(lost, 0.0, log_weights))
        return np.where(impossible, -np.inf, given.at(potentials, workers=workers, keep=False).log_partition)

    def best(self, potentials: Potentials, workers: Workers | None = None) -> tuple[np.ndarray, np.ndarray]:
        """Find the most probable labelling of each item.

        Parameters
        ----------
        potentials : Potentials
            The potentials, base measure not included.
        workers : Workers, optional
            The threads; by default one.

        Returns
        -------
        pair of arrays (N,) and (S,)
            The labels and their scores; approximate if the family is not exact.

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
        >>> family.best(scores)
        (array([0, 0]), array([2.]))
        """
        return self._best(self.with_base(potentials), workers or Workers(1))

    def n_best(self, potentials: Potentials, k: int, workers: Workers | None = None) -> RankedLabellings:
        """Find the k best labellings of each item.

        Parameters
        ----------
        potentials : Potentials
            The potentials, base measure not included.
        k : int
            The number of labellings.
        workers : Workers, optional
            The threads; by default one.

        Returns
        -------
        pair of lists
            Labellings (k, n) and scores (k,) of each item, the best first; fewer if there are no more.

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
        >>> labellings, found = family.n_best(scores, 2)
        >>> labellings[0].tolist(), found[0].tolist()
        ([[0, 0], [0, 1]], [2.0, 1.0])
        """
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
        """Draw labellings.

        Draws are independent, from the distribution itself, if inference is exact.

        Parameters
        ----------
        potentials : Potentials
            The potentials, base measure not included.
        n_samples : int
            The number of draws.
        random : int or Generator, optional
            The seed.
        workers : Workers, optional
            The threads; by default one.
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
        >>> family.sample(scores, 5, random=0).shape
        (5, 2)
        """
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
        >>> family.given(first_is_1).best(scores)[0].tolist()
        [1, 1]
        """
        base = self.base or BaseMeasure(self.offsets, self.n_labels)
        return self._with_measure(base.times(log_weights))

    def _with_measure(self, base: BaseMeasure | None) -> Self:
        """Return the family with another base measure."""
        other = copy.copy(self)
        other.base = base
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

    def _base_of(self, first: int, last: int) -> BaseMeasure | None:
        """Return the base measure of items first..last-1."""
        return None if self.base is None else self.base.part(first, last)

    def cut(self, potentials: Potentials, first: int, last: int) -> Potentials:
        """Return the potentials of items first..last-1, as views if rows are in the order of the items.

        Parameters
        ----------
        potentials : Potentials
            The potentials, base measure not included.
        first : int
            The first item.
        last : int
            The item after the last.

        Returns
        -------
        Potentials
            The potentials of the part.
        """
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
        """Find the items whose labellings are all forbidden.

        Returns
        -------
        bool array (S,)
            The mask of these items.
        """
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
