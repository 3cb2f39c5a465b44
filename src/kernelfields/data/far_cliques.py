"""Clique sets of labels of a chain that are more than one step apart.

    SkipCliques    (y_{t-k}, y_t)         labels k steps apart, with or without x_t
    OrderCliques   (y_{t-2}, y_{t-1}, y_t)  three labels in a row (or more), with or without x_t
    LabelNgrams    n-grams of three and more labels, those seen in training or with inputs; an OrderCliques set each

Raises ValueError for a lag or an order that is none.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kernelfields.data.chains import Packed
from kernelfields.data.cliques import CliqueSet
from kernelfields.data.graphs import group_name
from kernelfields.numerics.docstrings import complete_docstring
from kernelfields.numerics.parameters import check_count
from kernelfields.numerics.registry import SETTINGS


class _LongCliques(CliqueSet):
    """Labels of a chain that are more than one step apart, with inference by a junction tree."""

    @property
    def group(self) -> str:  # type: ignore[override]
        """Name of the factors: one for each lag of pairs, one for each length of longer runs."""
        return group_name(self.steps_back)

    def positions(self, data: Packed) -> np.ndarray | None:
        """Return the positions with enough positions before them in their sequence.

        Parameters
        ----------
        data : Packed
            The data.

        Returns
        -------
        ndarray (n,)
            The rows of these positions.
        """
        return data.find_followers(self.reach)


@SETTINGS.register("skip cliques")
@complete_docstring
@dataclass(eq=False, repr=False, kw_only=True)
class SkipCliques(_LongCliques):
    """Two labels ``lag`` steps apart, with the inputs at the second one if a kernel is given.

    Parameters
    ----------
    lag : int, default 2
        The number of steps between the labels.

    See Also
    --------
    LabelNgrams : Runs of labels.

    Examples
    --------
    >>> import numpy as np
    >>> X = [np.array([[20.0], [21.0], [10.0], [11.0]]), np.array([[9.0], [10.0], [22.0]])]
    >>> y = [["sun", "sun", "rain", "rain"], ["rain", "rain", "sun"]]
    >>> from kernelfields import ChainCRF, EdgeCliques, NodeCliques, SkipCliques
    >>> cliques = [NodeCliques("rbf"), EdgeCliques(), SkipCliques(lag=2)]
    >>> list(ChainCRF(cliques=cliques, random_state=0).fit(X, y).coef_)
    ['node', 'edge', 'lag2']
    """

    lag: int = 2

    labels_per_clique = 2

    def check_reach(self) -> None:
        """Raise an error unless ``lag`` is a whole number of steps.

        Raises
        ------
        ValueError
            If it is none.
        """
        check_count(self.lag, "lag", least=1)

    @property
    def steps_back(self) -> tuple[int, ...]:
        """The first label stands ``lag`` steps before the second."""
        return (self.lag, 0)


@SETTINGS.register("order cliques")
@complete_docstring
@dataclass(eq=False, repr=False, kw_only=True)
class OrderCliques(_LongCliques):
    """One length of LabelNgrams: ``order + 1`` labels in a row, and the inputs at the last one if a kernel is given.

    Parameters
    ----------
    order : int, default 2
        The number of labels before the last.

    See Also
    --------
    LabelNgrams : Runs of all lengths.

    Examples
    --------
    >>> from kernelfields import ChainCRF, EdgeCliques, NodeCliques
    >>> from kernelfields.data import OrderCliques
    >>> X = [[{"day": 1.0}] * 6] * 2
    >>> y = [["a", "a", "b", "a", "a", "b"], ["a", "b", "a", "a", "b", "a"]]
    >>> cliques = [NodeCliques("linear"), EdgeCliques(), OrderCliques(order=2)]
    >>> list(ChainCRF(cliques=cliques, random_state=0).fit(X, y).coef_)
    ['node', 'edge', 'order2']
    """

    order: int = 2

    def check_reach(self) -> None:
        """Raise an error unless ``order`` is a whole number of steps, more than one.

        Raises
        ------
        ValueError
            If it is none.
        """
        check_count(self.order, "order", least=2)

    @property
    def labels_per_clique(self) -> int:  # type: ignore[override]
        """Number of labels of a clique, ``order + 1``."""
        return self.order + 1

    @property
    def has_sparse_labellings(self) -> bool:
        """Whether weights are listed for the n-grams of the training data: for cliques without inputs."""
        return self.kernel is None and self.observed_only

    def observed(self, data: Packed, n_labels: int) -> tuple[np.ndarray | None, np.ndarray]:
        """Return the observed labellings and their cliques.

        Parameters
        ----------
        data : Packed
            The data.
        n_labels : int
            The number of labels.

        Returns
        -------
        cliques : ndarray or None
            The number of the clique of each labelling.
        labellings : ndarray
            The numbers of the labellings.

        Raises
        ------
        ValueError
            If there are too many labellings to be numbered.
        """
        if n_labels**self.labels_per_clique > 2**62:
            raise ValueError(
                f"n-grams of {self.labels_per_clique} labels among {n_labels} are too many to be numbered: "
                "lower the order"
            )
        return super().observed(data, n_labels)


@SETTINGS.register("n-gram cliques", renamed={"order": "n"})
@complete_docstring
@dataclass(eq=False, repr=False, kw_only=True)
class LabelNgrams(_LongCliques):
    """N-grams of labels: every run of three to ``n`` labels; runs of two are the EdgeCliques.

    With a kernel, runs of exactly ``n`` labels are scored by the inputs at the last one. Without one, ``support`` is
    usually "observed": the n-grams that occur in training have weights. ``prior_variance`` is one number, or one for
    each length from three on. A name stands before the lengths in those of the sets.

    Parameters
    ----------
    n : int, default 3
        The labels of the longest runs.

    See Also
    --------
    SkipCliques : Pairs of labels that stand farther apart.

    Examples
    --------
    >>> from kernelfields import ChainCRF, EdgeCliques, LabelNgrams, NodeCliques
    >>> X = [[{"day": 1.0}] * 6] * 2
    >>> y = [["a", "a", "b", "a", "a", "b"], ["a", "b", "a", "a", "b", "a"]]
    >>> cliques = [NodeCliques("linear"), EdgeCliques(), LabelNgrams(n=4)]
    >>> list(ChainCRF(cliques=cliques, random_state=0).fit(X, y).coef_)
    ['node', 'edge', '3-grams', '4-grams']
    """

    n: int = 3

    def check_reach(self) -> None:
        """Raise an error unless ``n`` is a whole number of labels, three or more.

        Raises
        ------
        ValueError
            If it is none.
        """
        check_count(self.n, "n of LabelNgrams, the labels in a row,", least=3)

    @property
    def labels_per_clique(self) -> int:  # type: ignore[override]
        """Number of labels of the longest n-grams."""
        return self.n

    def parts(self) -> list[CliqueSet]:
        """Return a set for each length.

        Returns
        -------
        list of OrderCliques
            The sets, the shortest first.

        Raises
        ------
        ValueError
            If the prior variances are not one number, or one for each length.
        """
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
