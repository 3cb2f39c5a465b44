"""Clique sets of chains and graphs: labels that meet, the inputs that they see, one potential for all of a kind.

    NodeCliques    (x_t, y_t)             u_t(y)    = f(x_t, y)
    EdgeCliques    (y_{t-1}, y_t)         w(a, b)   = f(a, b)       without an input kernel
                   (x_t, y_{t-1}, y_t)    w_t(a, b) = f(x_t, a, b)  with one
    StartCliques   (y_1)  or (x_1, y_1)   added to the first position of each sequence
    EndCliques     (y_T)  or (x_T, y_T)   added to the last
    SkipCliques    (y_{t-k}, y_t)         labels k steps apart, with or without x_t
    OrderCliques   (y_{t-2}, y_{t-1}, y_t)  three labels in a row (or more), with or without x_t
    LabelNgrams    n-grams of three and more labels, those seen in training or with inputs; an OrderCliques set each

Cliques of graphs:

    GraphNodes      (x_v, y_v)             u_v(y)       = f(x_v, y)           at all nodes, or those of a type
    GraphFactors    (y_v, y_w, ..)         w(a, b, ..)  = f(a, b, ..)         without an input kernel
                    (x_e, y_v, y_w, ..)    w_e(a, b, ..) = f(x_e, a, b, ..)   with one, on features of the factor

With ``symmetric``, f(a, b) = f(b, a): the edge has no direction.

Every set has its own kernel and prior variance: f lies in the RKHS of k_x(x, x') k_y(y, y') with a Gaussian
prior of covariance prior_variance * k. Sets whose features are explicit may have coefficients for the pairs seen
in training only (support="observed", or a number: the least total weight of a pair) and an l1 penalty. A sum of
kernels may name a prior variance for each of its parts. These classes only describe; spaces and features are built
from them when a model is fitted.

Sets of chains see a window of inputs, see numerics/windows.py. Fails: ValueError for a window, a lag or an order
that is none.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, field
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator

from kernelfields.data.chains import Packed
from kernelfields.data.graphs import Factors, Graphs, group_name
from kernelfields.data.reading import Matrix
from kernelfields.data.ties import Permutations
from kernelfields.numerics.parameters import check_count, check_window
from kernelfields.numerics.registry import SETTINGS

#: The most basis functions of a kernel, where neither the user nor the data say otherwise.
USUAL_RANK = 1000
#: Values of parameters of a clique set that are left open.
USUAL = {
    "window": 1,
    "prior_variance": 1.0,
    "basis": "random-cholesky",
    "rank": USUAL_RANK,
    "support": "all",
    "l1": 0.0,
}


@dataclass(eq=False, repr=False)
class CliqueSet(BaseEstimator):
    """Cliques that share one potential; see the module for the kinds.

    Kinds with parameters of their own take those below as keywords, too. Parameters that are None, and rank="auto",
    stand for the usual values: window 1, prior_variance 1.0, basis "random-cholesky", rank 1000 (None: no limit),
    support "all", l1 0.0; where an estimator takes a single set, as ``edges``, for its own.
    """

    kernel: Any = None
    _: KW_ONLY
    window: int | tuple[int, int] | None = None
    label_kernel: object = "delta"
    prior_variance: Any = None
    basis: object = None
    rank: int | str | None = "auto"
    support: str | float | None = None
    l1: float | None = None
    name: str | None = None
    #: Where labels and columns go that share weights, by ``ties`` of an estimator.
    ties: Permutations | None = None

    #: How many labels meet in a clique.
    labels_per_clique: ClassVar[int] = 1
    #: Whether a pair of labels has no direction.
    symmetric: ClassVar[bool] = False
    #: Whether all labels have one and the same table of scores.
    one_table: ClassVar[bool] = False
    #: Name of the factors of a graph that the set scores; None for single labels.
    group: ClassVar[str | None] = None
    #: Whether cliques see rows of the data, rather than one table whatever the data are.
    sees_data: ClassVar[bool] = True

    def filled(self, **values: object) -> Self:
        """Return a copy in which parameters that are left open have the values given, or the usual ones."""
        parameters = self.get_params(deep=False)
        for name, usual in USUAL.items():
            if parameters[name] is None if name != "rank" else parameters[name] == "auto":
                parameters[name] = values.get(name, usual)
        return type(self)(**parameters)

    @property
    def observed_only(self) -> bool:
        """Whether only pairs of features and labels that occur in training have coefficients."""
        return self.support is not None and self.support != "all"

    @property
    def most_pivots(self) -> int | None:
        """The most basis functions of a kernel without explicit features; None for no limit."""
        return USUAL_RANK if isinstance(self.rank, str) else self.rank

    @property
    def neighbours(self) -> tuple[int, int]:
        """How many positions before and after its own a clique sees."""
        return (0, 0) if self.window is None else check_window(self.window)

    @property
    def least_weight(self) -> float:
        """The least total weight in training of a pair that has a coefficient."""
        return 0.0 if self.support is None or isinstance(self.support, str) else float(self.support)

    @property
    def default_name(self) -> str:
        """What the set is called where it has no name: as its factors are."""
        return self.group or ""

    def positions(self, data: Packed) -> np.ndarray | None:
        """Return the positions that carry a clique (of several labels, the last of them), or None for all."""
        raise TypeError(f"{type(self).__name__} does not define the positions of its cliques")

    def width(self, n_features: int) -> int:
        """Return how many columns each clique sees where inputs have ``n_features``."""
        return n_features * (sum(self.neighbours) + 1)

    def tied_columns(self, inputs: np.ndarray, edges: np.ndarray) -> np.ndarray:
        """Return where the columns that cliques see go, (m, width), by moves of those of inputs and of edges."""
        parts = np.arange(sum(self.neighbours) + 1)[:, None, None] * inputs.shape[1] + inputs
        return np.hstack(list(parts))

    def check_reach(self) -> None:
        """Raise ValueError if the labels of a clique cannot stand where they should."""

    def view(self, data: Packed) -> Matrix:
        """Return what each clique sees of the inputs, a row per clique: a window of those of a chain."""
        inputs = data.windows(self.neighbours)
        positions = self.positions(data)
        return inputs if positions is None else inputs[positions]

    def weights(self, data: Packed) -> np.ndarray | None:
        """Return the weight of every clique, (n,); None where all are one."""
        if np.all(data.weights == 1.0):
            return None
        positions = self.positions(data)
        return data.position_weights if positions is None else data.position_weights[positions]

    @property
    def neighbours_only(self) -> bool:
        """Whether labels of a chain that meet in this set are neighbours, or stand alone."""
        return self.group in (None, "edge")

    @property
    def needs_threads(self) -> bool:
        """Whether such cliques need the threads of this process: labels far apart, or features seen in training."""
        sparse = self.observed_only and self.kernel is not None
        return sparse or not self.neighbours_only

    @property
    def weighs_labels_singly(self) -> bool:
        """Whether coefficients must belong to single labellings, not to contrasts between them."""
        return self.observed_only or (self.l1 or 0.0) > 0

    @property
    def steps_back(self) -> tuple[int, ...]:
        """How many steps before its position each label of a clique stands, the earliest first."""
        return tuple(range(self.labels_per_clique - 1, -1, -1))

    @property
    def reach(self) -> int:
        """How many steps lie between the first label of a clique and its last."""
        return self.steps_back[0]

    def members(self, data: Packed) -> np.ndarray:
        """Return the rows whose labels meet in each clique, (n, k)."""
        positions = self.positions(data)
        last = np.arange(data.n_positions) if positions is None else positions
        return data.before(last[:, None], np.array(self.steps_back))

    def observed(self, data: Packed, n_labels: int) -> tuple[np.ndarray | None, np.ndarray]:
        """Return labellings that are observed: numbers of labels, a L + b for a pair, and so on, and their cliques.

        One for each clique, in their order and without their numbers, where all labels are known.
        """
        return data.given.labellings(self.members(data), n_labels)

    @property
    def lists_labellings(self) -> bool:
        """Whether weights are listed for the labellings seen in training, however many there could be."""
        return False

    def parts(self) -> list[CliqueSet]:
        """Return the sets that this one stands for: itself, unless it is short for several."""
        return [self]

    def n_configurations(self, n_labels: int) -> int:
        """Return the number of labellings of one clique."""
        return n_labels**self.labels_per_clique


class CliquesEverywhere(CliqueSet):
    """Cliques at every position or, with a group, of every factor in it."""

    def positions(self, data: Packed) -> np.ndarray | None:
        """Return None."""
        return None


@SETTINGS.register("node cliques")
@dataclass(eq=False, repr=False)
class NodeCliques(CliquesEverywhere):
    """One label and its view of the inputs, at every position."""

    kernel: Any = "rbf"

    default_name = "node"


@SETTINGS.register("edge cliques")
class EdgeCliques(CliqueSet):
    """Two neighbouring labels, with the inputs at the second one if a kernel is given."""

    labels_per_clique = 2
    group = "edge"

    def positions(self, data: Packed) -> np.ndarray | None:
        """Return all positions but the first of each sequence."""
        return data.following()


@SETTINGS.register("start cliques")
class StartCliques(CliqueSet):
    """The first label of each sequence."""

    default_name = "start"

    def positions(self, data: Packed) -> np.ndarray | None:
        """Return the first position of each sequence."""
        return np.asarray(data.starts)


@SETTINGS.register("end cliques")
class EndCliques(CliqueSet):
    """The last label of each sequence."""

    default_name = "end"

    def positions(self, data: Packed) -> np.ndarray | None:
        """Return the last position of each sequence."""
        return np.asarray(data.ends)


class _LongCliques(CliqueSet):
    """Labels of a chain that meet across more than one step; inference is a junction tree's."""

    @property
    def group(self) -> str:  # type: ignore[override]
        """Name of the factors: one for each lag of pairs, one for each length of longer runs."""
        return group_name(self.steps_back)

    def positions(self, data: Packed) -> np.ndarray | None:
        """Return the positions with enough others before them in their sequence."""
        return data.following(self.reach)


@SETTINGS.register("skip cliques")
@dataclass(eq=False, repr=False, kw_only=True)
class SkipCliques(_LongCliques):
    """Two labels ``lag`` steps apart, with the inputs at the second one if a kernel is given."""

    lag: int = 2

    labels_per_clique = 2

    def check_reach(self) -> None:
        """Raise ValueError unless ``lag`` is a whole number of steps."""
        check_count(self.lag, "lag", least=1)

    @property
    def steps_back(self) -> tuple[int, ...]:
        """The first label stands ``lag`` steps before the second."""
        return (self.lag, 0)


@SETTINGS.register("order cliques")
@dataclass(eq=False, repr=False, kw_only=True)
class OrderCliques(_LongCliques):
    """One length of LabelNgrams: ``order + 1`` labels in a row, with a kernel the inputs at the last one."""

    order: int = 2

    def check_reach(self) -> None:
        """Raise ValueError unless ``order`` is a whole number of steps, more than one."""
        check_count(self.order, "order", least=2)

    @property
    def labels_per_clique(self) -> int:  # type: ignore[override]
        """The label itself and ``order`` before it."""
        return self.order + 1

    @property
    def lists_labellings(self) -> bool:
        """Whether weights are listed for the n-grams seen in training: where no inputs are seen."""
        return self.kernel is None and self.observed_only

    def observed(self, data: Packed, n_labels: int) -> tuple[np.ndarray | None, np.ndarray]:
        """Return labellings that are observed, as other sets do; ValueError where they have no numbers."""
        if n_labels**self.labels_per_clique > 2**62:
            raise ValueError(
                f"n-grams of {self.labels_per_clique} labels among {n_labels} are too many to be numbered: "
                "lower the order"
            )
        return super().observed(data, n_labels)


@SETTINGS.register("n-gram cliques", renamed={"order": "n"})
@dataclass(eq=False, repr=False, kw_only=True)
class LabelNgrams(_LongCliques):
    """N-grams of labels: every run of three to ``n`` labels; those of two are the EdgeCliques.

    With a kernel, runs of exactly ``n`` labels are scored by the inputs at the last one. Without one, ``support`` is
    "observed" by default: the n-grams that occur in training have weights, with a number those that occur so many times
    or more, with "all" every one. ``prior_variance`` is one number, or one for each length from three on. A name stands
    before the lengths in those of the sets.
    """

    n: int = 3

    def check_reach(self) -> None:
        """Raise ValueError unless ``n`` is a whole number of labels, three or more."""
        check_count(self.n, "n of LabelNgrams, the labels in a row,", least=3)

    @property
    def labels_per_clique(self) -> int:  # type: ignore[override]
        """Labels of the longest n-grams."""
        return self.n

    def parts(self) -> list[CliqueSet]:
        """Return a set for each length; ValueError unless there is a prior variance for each, or one for all."""
        self.check_reach()
        lengths = range(3 if self.kernel is None else self.n, self.n + 1)
        variances = self.prior_variance
        if not isinstance(variances, list | tuple):
            variances = [variances] * len(lengths)
        if len(variances) != len(lengths):
            raise ValueError(
                f"prior_variance of LabelNgrams(n={self.n}) holds {len(variances)} numbers for n-grams of "
                f"{len(lengths)} lengths: give one number, or one for each length from {lengths[0]} to {self.n}"
            )
        own = ("n", "prior_variance", "name", "support")
        shared = {name: value for name, value in self.get_params(deep=False).items() if name not in own}
        shared["support"] = "observed" if self.support is None and self.kernel is None else self.support
        before = "" if self.name is None else f"{self.name} "
        return [
            OrderCliques(order=length - 1, prior_variance=variance, name=f"{before}{length}-grams", **shared)
            for length, variance in zip(lengths, variances, strict=True)
        ]


class _Windowless(CliqueSet):
    """Cliques of graphs, which have no window: features of neighbours belong to those of the node or factor."""

    def check_reach(self) -> None:
        """Raise ValueError for a window."""
        if self.neighbours != (0, 0):
            raise ValueError(
                f"{type(self).__name__} has window={self.window!r}, and windows are for sequences: put the "
                "features of neighbours into those of the node or edge"
            )


@SETTINGS.register("graph nodes")
@dataclass(eq=False, repr=False)
class GraphNodes(_Windowless):
    """One label and the features of its node, at all nodes or at those of one type."""

    kernel: Any = "rbf"
    node_type: str | None = field(default=None, kw_only=True)

    default_name = "node"

    def positions(self, graphs: Graphs) -> np.ndarray | None:  # type: ignore[override]
        """Return the nodes of the type, None for every node."""
        if self.node_type is None:
            return None
        if graphs.node_types is None:
            raise ValueError(
                f"GraphNodes scores nodes of the type {self.node_type!r}, and the graphs have no types of nodes: "
                "pass dicts with 'x', 'edges' and 'node_types', or set the attribute 'type' of networkx nodes"
            )
        return graphs.node_types.nodes_of(self.node_type)


@SETTINGS.register("graph factors")
@dataclass(eq=False, repr=False, kw_only=True)
class GraphFactors(_Windowless, CliquesEverywhere):
    """The labels of a type of factors, edges or larger, with the features of the factor if a kernel is given."""

    group: str = "edge"  # type: ignore[misc]  # a parameter here
    order: int = 2
    symmetric: bool = False  # type: ignore[misc]

    @property
    def labels_per_clique(self) -> int:  # type: ignore[override]
        """How many nodes a factor has."""
        return self.order

    def tied_columns(self, inputs: np.ndarray, edges: np.ndarray) -> np.ndarray:
        """Return where the columns of the features of factors go."""
        return edges

    def factors(self, graphs: Graphs) -> Factors:
        """Return the factors of the group."""
        return graphs.group(self.group or "edge")

    def view(self, graphs: Graphs) -> Matrix:  # type: ignore[override]
        """Return the inputs that the cliques see, (M, d)."""
        inputs = self.factors(graphs).inputs
        if inputs is None:
            raise ValueError(
                f"a kernel on factors named {self.group!r} needs features of them, and the graphs have none: pass "
                "(node_features, edges, edge_features), or leave out the kernel for one table of scores"
            )
        return inputs

    def members(self, graphs: Graphs) -> np.ndarray:  # type: ignore[override]
        """Return the nodes of each factor, (M, k)."""
        return self.factors(graphs).members

    def weights(self, graphs: Graphs) -> np.ndarray | None:  # type: ignore[override]
        """Return the weight of the graph of every factor, (M,); None where all are one."""
        return None if np.all(graphs.weights == 1.0) else graphs.factor_weights(self.group or "edge")
