"""Independent labels, one for each item: multinomial logistic regression.

    g_i = log sum_y exp u_i(y),    mean = weight_i p_i,    covariance product = weight_i p_i (d_i - p_i . d_i)

Arrays: potentials u (n, L), weights (n,). Cost O(n L). Within-clique covariances are all there are: the curvature block
of eq. 30 is the whole Hessian of a set. Raises ValueError naming the item whose labels are all forbidden.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np

from kernelfields.inference.base_measure import BaseMeasure
from kernelfields.inference.family import LabelFamily, Labellings, Member, RankedLabellings
from kernelfields.inference.packing import first_largest, raise_if_infeasible
from kernelfields.inference.potentials import Potentials
from kernelfields.numerics.threads import Workers


def softmax(potentials: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return log sum exp of each row, (n,), and the probabilities, (n, L)."""
    top = potentials.max(axis=1, keepdims=True)
    probabilities = np.exp(potentials - top)
    total = probabilities.sum(axis=1, keepdims=True)
    probabilities /= total
    return (top + np.log(total)).ravel(), probabilities


def rank_labels(node: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the k best possible labels of one position with potentials (L,), best first, and their scores."""
    order = np.argsort(-node, kind="stable")[:k]
    order = order[node[order] > -np.inf]
    return order[:, None], node[order]


def infeasible_item(item: int) -> ValueError:
    """Return the error for an item with only forbidden labels."""
    return ValueError(f"instance {item}: every label is forbidden, so it has no probabilities")


def _refuse_infeasible(family: LabelFamily, node: np.ndarray) -> None:
    """Raise ValueError for the first item with only forbidden labels."""
    if family.base is not None:
        raise_if_infeasible(node.max(axis=1), infeasible_item)


class SingleMember(Member):
    """Probabilities of independent labels."""

    def __init__(self, family: LabelFamily, potentials: Potentials, weights: np.ndarray | None):
        _refuse_infeasible(family, potentials.node)
        total, self._marginals = softmax(potentials.node)
        super().__init__(family, potentials, total, weights)

    def mean(self) -> Potentials:
        """Return the weighted probabilities, (n, L)."""
        return Potentials(self._marginals.copy() if self.weights is None else self._marginals * self.weights[:, None])

    def marginals(self, group: str | None = None) -> np.ndarray:
        """Return the probabilities of the labels, (n, L)."""
        return self._marginals

    def covariance_product(self, direction: Potentials) -> Potentials:
        """Return weight_i p_i (d_i - p_i . d_i)."""
        moved = direction.node - np.einsum("ij,ij->i", self._marginals, direction.node)[:, None]
        return Potentials(self._weighted(self._marginals * moved, self.family.position_items))


class SingleLabellings(Labellings):
    """The best labels, and draws, of items with one label each."""

    @cached_property
    def _node(self) -> np.ndarray:
        _refuse_infeasible(self.family, self.potentials.node)
        return self.potentials.node

    def best(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the most probable label of each item, (n,), and its score, (n,)."""
        labels = first_largest(self._node)
        return labels, self._node[np.arange(len(labels)), labels]

    def _n_best(self, k: int) -> RankedLabellings:
        ranked = [rank_labels(row, k) for row in self._node]
        return [labels for labels, _ in ranked], [scores for _, scores in ranked]

    def _sample(self, n_samples: int, random: np.random.Generator) -> np.ndarray:
        ends = np.cumsum(softmax(self._node)[1], axis=1)
        # Scaled by the last sum, a draw never lands behind it, nor on a label of probability zero.
        shares = random.random((n_samples, len(ends))) * ends[:, -1]
        return (shares[:, :, None] >= ends).sum(axis=2)


class SingleFamily(LabelFamily):
    """Infer independent labels, one for each item: multinomial logistic regression.

    Parameters
    ----------
    n_items : int
        The number of items.
    n_labels : int
        The number of labels.
    base : BaseMeasure, optional
        The labels that are allowed, and how much they count; by default all alike.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelfields.inference import Potentials, SingleFamily
    >>> SingleFamily(1, 2).distribution(Potentials(np.array([[1.0, 0.0]]))).marginals().round(2)
    array([[0.73, 0.27]])
    """

    method = "single"
    description = "labels that meet no others: exact"
    single_labels = True
    _labellings_type: type[Labellings] = SingleLabellings

    def __init__(self, n_items: int, n_labels: int, base: BaseMeasure | None = None):
        super().__init__(np.arange(n_items + 1), n_labels, (), base)

    def _infer(self, potentials: Potentials, weights: np.ndarray | None, workers: Workers) -> SingleMember:
        return SingleMember(self, potentials, weights)

    def part(self, first: int, last: int) -> SingleFamily:
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
        return SingleFamily(last - first, self.n_labels, self.base and self.base.part(first, last))
