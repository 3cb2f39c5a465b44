"""Clique sets: labels that meet, the inputs at each clique, and one potential for all cliques of a set.

    NodeCliques    (x_t, y_t)             u_t(y)    = f(x_t, y)
    EdgeCliques    (y_{t-1}, y_t)         w(a, b)   = f(a, b)       without an input kernel
                   (x_t, y_{t-1}, y_t)    w_t(a, b) = f(x_t, a, b)  with one

Cliques of the first and of the last label are in border_cliques.py, of labels that are further apart in far_cliques.py,
of graphs in graph_cliques.py.

Every set has its own kernel and prior variance: f lies in the RKHS of k_x(x, x') k_y(y, y') with a Gaussian
prior of covariance prior_variance * k. Sets whose features are explicit may have coefficients for the pairs seen
in training only (support="observed", or a number: the least total weight of a pair) and an l1 penalty. A sum of
kernels may name a prior variance for each of its parts. These classes only describe; spaces and features are built
from them when a model is fitted.

Sets of chains see a window of inputs, see numerics/windows.py. Raises ValueError for a window that is none.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator

from kernelfields.data import extras
from kernelfields.data.chains import Packed
from kernelfields.data.reading import Matrix
from kernelfields.numerics.docstrings import complete_docstring
from kernelfields.numerics.parameters import (
    check_count,
    check_penalty,
    check_prior_variance,
    check_support,
    check_window,
)
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
    """Cliques that share one potential; the base class of all kinds.

    What is left open, None or ``rank="auto"``, has its usual value; in a set that an estimator takes alone, as
    ``edges``, that of the estimator. docs/chains.md and docs/graphs.md show fields of several sets.

    Parameters
    ----------
    kernel : str, Kernel, callable, scikit-learn kernel or None, default None
        The kernel on the inputs that a clique sees; None for scores that do not depend on inputs.
    window : odd int, (before, after) or None, default None
        The positions that a clique sees around its own; usually 1.
    label_kernel : str, LabelKernel or array (L, L), default "delta"
        Which labels are similar, so that they learn from each other's examples.
    prior_variance : float, sequence of float or None, default None
        The variance of the Gaussian prior, one for each part of a sum of kernels; usually 1.
    basis : str, Basis or None, default None
        How basis functions are chosen; usually "random-cholesky".
    rank : int, "auto" or None, default "auto"
        At most so many basis functions of a kernel without explicit features, usually 1000; None for no limit.
    support : "all", "observed", float or None, default None
        Which pairs of features and labels have a weight: all, which is usual, those seen in training, or those whose
        total weight there is at least this number.
    l1 : float or None, default None
        The weight of the sum of absolute weights in the objective; usually 0.
    name : str or None, default None
        The name of the set in ``coef_`` and reports; None for that of its kind.
    ties : Permutations or None, default None
        Where labels and columns go that share weights; it is set by ``ties`` of an estimator.

    See Also
    --------
    NodeCliques : Single labels.
    EdgeCliques : Neighbouring labels.

    Examples
    --------
    >>> import numpy as np
    >>> X = [np.array([[20.0], [21.0], [10.0], [11.0]]), np.array([[9.0], [10.0], [22.0]])]
    >>> y = [["sun", "sun", "rain", "rain"], ["rain", "rain", "sun"]]
    >>> from kernelfields import ChainCRF, EdgeCliques, NodeCliques, StartCliques
    >>> cliques = [NodeCliques("rbf"), EdgeCliques(prior_variance=2.0), StartCliques()]
    >>> crf = ChainCRF(cliques=cliques, random_state=0).fit(X, y)
    >>> {name: coefficients.shape[1] for name, coefficients in crf.coef_.items()}
    {'node': 2, 'edge': 4, 'start': 2}
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
    ties: extras.Permutations | None = None

    #: How many labels meet in a clique.
    labels_per_clique: ClassVar[int] = 1
    #: Whether a pair of labels has no direction.
    symmetric: ClassVar[bool] = False
    #: Whether all labels have one and the same table of scores.
    one_table: ClassVar[bool] = False
    #: Name of the factors of a graph that the set scores; None for single labels.
    group: ClassVar[str | None] = None
    #: Whether cliques are segments, whose labels stand alone.
    of_segments: ClassVar[bool] = False
    #: Whether what cliques see are features of the factors of graphs.
    of_factors: ClassVar[bool] = False
    #: Whether cliques see rows of the data, rather than one table whatever the data are.
    sees_data: ClassVar[bool] = True

    def with_defaults(self, **values: object) -> Self:
        """Return a copy with default values for parameters that are None or "auto".

        Parameters
        ----------
        **values : object
            Values by name; parameters without one have their usual value.

        Returns
        -------
        Self
            The copy.
        """
        parameters = self.get_params(deep=False)
        for name, usual in USUAL.items():
            if parameters[name] is None if name != "rank" else parameters[name] == "auto":
                parameters[name] = values.get(name, usual)
        return type(self)(**parameters)

    def check_parameters(self) -> None:
        """Raise an error if a value of a parameter is impossible in itself.

        Raises
        ------
        ValueError or TypeError
            The error names the parameter.
        """
        check_prior_variance(self.prior_variance, "prior_variance")
        check_support(self.support, "support")
        check_penalty(self.l1, "l1")
        check_window(self.window)
        self.check_reach()
        if self.rank is not None:
            check_count(self.rank, "rank", " (or None for no limit)")

    def check_pivots(self, name: str) -> None:
        """Raise an error if parameters are about weights of single features, which pivots do not have.

        Parameters
        ----------
        name : str
            The name of the set.

        Raises
        ------
        ValueError
            If they are, or if the prior variance is infinite.
        """
        for parameter, given in (("support='observed'", self.observed_only), ("l1", (self.l1 or 0.0) > 0)):
            if given:
                raise ValueError(
                    f"{parameter} is about weights of single features, and {self.kernel!r} of clique set {name!r} "
                    "has none: use kernel='linear', or a sum with it"
                )
        if not np.isfinite(self.prior_variance):
            raise ValueError(
                f"prior_variance of clique set {name!r} must be finite: without a prior, {self.kernel!r} can fit "
                "any labels"
            )

    def without_feature_weights(self) -> Self:
        """Return a copy without parameters about weights of single features.

        Returns
        -------
        Self
            The copy.
        """
        return type(self)(**{**self.get_params(deep=False), "support": "all", "l1": 0.0})

    @property
    def observed_only(self) -> bool:
        """Whether coefficients are limited to pairs of features and labels that occur in training."""
        return self.support is not None and self.support != "all"

    @property
    def most_pivots(self) -> int | None:
        """Maximal number of basis functions of a kernel without explicit features; None for no limit."""
        return USUAL_RANK if isinstance(self.rank, str) else self.rank

    @property
    def neighbours(self) -> tuple[int, int]:
        """Number of positions before and after its own in the window of a clique."""
        return (0, 0) if self.window is None else check_window(self.window)

    @property
    def least_weight(self) -> float:
        """Minimal total weight in training of a pair with a coefficient."""
        return 0.0 if self.support is None or isinstance(self.support, str) else float(self.support)

    @property
    def default_name(self) -> str:
        """Default name of a set: the name of its factors."""
        return self.group or ""

    def positions(self, data: Packed) -> np.ndarray | None:
        """Return the positions of cliques: for several labels the position of the last one.

        Parameters
        ----------
        data : Packed
            The data.

        Returns
        -------
        ndarray (n,) or None
            The rows of these positions; None for all.

        Raises
        ------
        TypeError
            If the kind of cliques defines no positions.
        """
        raise TypeError(f"{type(self).__name__} does not define the positions of its cliques")

    def width(self, n_features: int) -> int:
        """Return the number of input columns of each clique.

        Parameters
        ----------
        n_features : int
            The number of columns of the inputs.

        Returns
        -------
        int
            The number.
        """
        return n_features * (sum(self.neighbours) + 1)

    def tied_columns(self, inputs: np.ndarray, edges: np.ndarray) -> np.ndarray:
        """Return the permutations of the input columns of cliques.

        Parameters
        ----------
        inputs : array (m, d)
            Where the columns of the inputs go.
        edges : array (m, e)
            Where the columns of edges go.

        Returns
        -------
        ndarray (m, width)
            Where they go.
        """
        parts = np.arange(sum(self.neighbours) + 1)[:, None, None] * inputs.shape[1] + inputs
        return np.hstack(list(parts))

    def check_reach(self) -> None:
        """Raise an error if the distances between the labels of a clique are impossible.

        Raises
        ------
        ValueError
            If they cannot.
        """

    def view(self, data: Packed) -> Matrix:
        """Return the inputs of each clique.

        Parameters
        ----------
        data : Packed
            The data.

        Returns
        -------
        array (n, width)
            A row for each clique: a window of the inputs of a chain.
        """
        inputs = data.windows(self.neighbours)
        positions = self.positions(data)
        return inputs if positions is None else inputs[positions]

    def weights(self, data: Packed) -> np.ndarray | None:
        """Return the weight of every clique.

        Parameters
        ----------
        data : Packed
            The data.

        Returns
        -------
        ndarray (n,) or None
            The weights; None if all are one.

        Examples
        --------
        >>> import numpy as np
        >>> from kernelfields.data import Chains, EdgeCliques
        >>> chains = Chains(np.zeros((5, 1)), np.array([0, 3, 5]), weights=np.array([1.0, 2.0]))
        >>> EdgeCliques().weights(chains)
        array([1., 1., 2.])
        """
        if np.all(data.weights == 1.0):
            return None
        positions = self.positions(data)
        return data.position_weights if positions is None else data.position_weights[positions]

    @property
    def neighbours_only(self) -> bool:
        """Whether labels in the cliques of a chain are neighbours or single."""
        return self.group in (None, "edge")

    @property
    def needs_threads(self) -> bool:
        """Whether the cliques are limited to threads of this process: distant labels, or observed features."""
        sparse = self.observed_only and self.kernel is not None
        return sparse or not self.neighbours_only

    @property
    def has_single_labellings(self) -> bool:
        """Whether coefficients must belong to single labellings, not to contrasts."""
        return self.observed_only or (self.l1 or 0.0) > 0

    @property
    def steps_back(self) -> tuple[int, ...]:
        """Number of steps between each label of a clique and its position, the earliest label first."""
        return tuple(range(self.labels_per_clique - 1, -1, -1))

    @property
    def reach(self) -> int:
        """Number of steps between the first and the last label of a clique."""
        return self.steps_back[0]

    def members(self, data: Packed) -> np.ndarray:
        """Return the rows of the labels of each clique.

        Parameters
        ----------
        data : Packed
            The data.

        Returns
        -------
        ndarray (n, k)
            The rows of the k labels of each clique.
        """
        positions = self.positions(data)
        last = np.arange(data.n_positions) if positions is None else positions
        return data.find_predecessors(last[:, None], np.array(self.steps_back))

    def observed(self, data: Packed, n_labels: int) -> tuple[np.ndarray | None, np.ndarray]:
        """Return the observed labellings and their cliques.

        Parameters
        ----------
        data : Packed
            The data.
        n_labels : int
            The number of labels L.

        Returns
        -------
        cliques : ndarray or None
            The number of the clique of each labelling; None for one labelling of each clique in its order, which is so
            if all labels are known.
        labellings : ndarray
            The numbers of the labellings: a label, a L + b for a pair, and so on.
        """
        return data.given.labellings(self.members(data), n_labels)

    @property
    def has_sparse_labellings(self) -> bool:
        """Whether weights are listed for labellings of the training data instead of all labellings."""
        return False

    def parts(self) -> list[CliqueSet]:
        """Return the sets that replace this set in a fit.

        Returns
        -------
        list of CliqueSet
            The set itself, unless it is short for several.
        """
        return [self]

    def n_configurations(self, n_labels: int) -> int:
        """Return the number of labellings of one clique.

        Parameters
        ----------
        n_labels : int
            The number of labels L.

        Returns
        -------
        int
            The number.
        """
        return n_labels**self.labels_per_clique


class CliquesEverywhere(CliqueSet):
    """Cliques at every position or, with a group, of every factor in it."""

    def positions(self, data: Packed) -> np.ndarray | None:
        """Return None: every position, or factor of the group, has a clique.

        Parameters
        ----------
        data : Packed
            The data.

        Returns
        -------
        None
            All positions, or factors.
        """
        return None


@SETTINGS.register("node cliques")
@complete_docstring
@dataclass(eq=False, repr=False)
class NodeCliques(CliquesEverywhere):
    """One label and its view of the inputs, at every position.

    Parameters
    ----------
    kernel : str, Kernel, callable or scikit-learn kernel, default "rbf"
        The kernel on the inputs that a clique sees.

    See Also
    --------
    EdgeCliques : Neighbouring labels.

    Examples
    --------
    >>> import numpy as np
    >>> X = [np.array([[20.0], [21.0], [10.0], [11.0]]), np.array([[9.0], [10.0], [22.0]])]
    >>> y = [["sun", "sun", "rain", "rain"], ["rain", "rain", "sun"]]
    >>> from kernelfields import ChainCRF, EdgeCliques, NodeCliques
    >>> cliques = [NodeCliques("rbf"), NodeCliques("linear", window=3, name="around"), EdgeCliques()]
    >>> list(ChainCRF(cliques=cliques, random_state=0).fit(X, y).coef_)
    ['node', 'around', 'edge']
    """

    kernel: Any = "rbf"

    default_name = "node"


@SETTINGS.register("edge cliques")
@complete_docstring
class EdgeCliques(CliqueSet):
    """Two neighbouring labels, with the inputs at the second one if a kernel is given.

    See Also
    --------
    SkipCliques : Labels that stand farther apart.

    Examples
    --------
    >>> import numpy as np
    >>> X = [np.array([[20.0], [21.0], [10.0], [11.0]]), np.array([[9.0], [10.0], [22.0]])]
    >>> y = [["sun", "sun", "rain", "rain"], ["rain", "rain", "sun"]]
    >>> from kernelfields import ChainCRF, EdgeCliques
    >>> crf = ChainCRF("rbf", edges=EdgeCliques("linear", prior_variance=0.1), prior_variance=1.0, random_state=0)
    >>> crf.fit(X, y).transitions_ is None  # transitions depend on the inputs
    True
    """

    labels_per_clique = 2
    group = "edge"

    def positions(self, data: Packed) -> np.ndarray | None:
        """Return all positions but the first of each sequence.

        Parameters
        ----------
        data : Packed
            The data.

        Returns
        -------
        ndarray (n,)
            The rows of these positions.
        """
        return data.find_followers()
