"""Labellings of chains and graphs as exponential families: potentials are natural parameters, marginals the mean.

    Phi(y) = indicators of the label of every node and of the labels at every edge or factor
    theta  = (node (N, L), edge (1 or N, L, L))  or  (node, factors), laid end to end
    g(theta) = sum_i log Z_i,      mean = marginals,      entropy = log Z - <theta, mean>

The sequences or graphs are independent, so log partition, entropy and divergence are sums over them. A tied edge
potential has the expected number of each step as its mean. The statistics of a node sum to one, so many theta give
the same distribution; ``natural_parameters`` returns one of them. Potentials of minus infinity forbid.

Cost: that of inference (see ``inference``); Newton directions by conjugate gradients on exact Hessian products.
Fails: ValueError where graphs are too entangled for exact inference, since the identities hold for that only.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from kernelfields.family.exponential_family import ExponentialFamily, Member
from kernelfields.inference.beliefs import GraphBeliefs
from kernelfields.inference.chain.beliefs import ChainBeliefs, infer_chains
from kernelfields.inference.packing import check_offsets, check_whole, in_shapes
from kernelfields.inference.plan import plan_inference
from kernelfields.numerics.vectors import conjugate_gradients

_CONJUGATE_STEPS = 500
_CONJUGATE_RESIDUAL = 1e-10
# Marginals are rounded to about this share; below it, directions are those the distribution does not depend on.
_ROUNDING = 1e-14


class FieldMember(Member):
    """One distribution over labellings; ``beliefs`` holds the marginals in the shapes of inference."""

    def __init__(self, family: ChainFamily | GraphFamily, theta: np.ndarray, beliefs: ChainBeliefs | GraphBeliefs):
        self.theta = theta
        self.beliefs = beliefs
        self._family = family
        self.log_partition = float(beliefs.log_partition.sum())
        self.mean = family.pack(*beliefs.gradient())

    def covariance_product(self, direction: np.ndarray) -> np.ndarray:
        """Return the exact Hessian product, at the cost of a gradient."""
        return self._family.pack(*self.beliefs.hessian_product(*self._family.unpack(direction)))

    def score_change(self, direction: np.ndarray) -> float:
        """Return the largest entry: statistics are zeros, ones and counts."""
        return float(np.abs(direction).max(initial=0.0))

    def newton_direction(self, gradient: np.ndarray, precision: float) -> np.ndarray | None:
        """Solve by conjugate gradients; the covariance is singular, but the gradient lies in its range."""
        rounding = _ROUNDING * self.mean
        solution, _ = conjugate_gradients(
            lambda direction: self.covariance_product(direction) + precision * direction,
            -gradient,
            np.copy,
            _CONJUGATE_RESIDUAL,
            _CONJUGATE_STEPS,
            floor=float(rounding @ rounding),
            flat=10 * _ROUNDING,
        )
        return solution if gradient @ solution <= 0 and np.isfinite(solution).all() else None


class ChainFamily(ExponentialFamily):
    """Labellings of packed chains.

    offsets (S + 1,) rise from 0 to the number of positions N; ``tied`` says whether one (L, L) edge potential
    serves all positions. theta has N L + L^2 entries if tied, else N L + N L^2; ``pack`` and ``unpack`` translate.
    """

    def __init__(self, offsets: ArrayLike, n_labels: int, *, tied: bool = True):
        bounds = np.asarray(offsets)
        if bounds.ndim != 1 or not bounds.size:
            raise ValueError(f"offsets must be whole numbers of shape (sequences + 1,), got shape {bounds.shape}")
        self.offsets = check_offsets(bounds, int(bounds[-1]))
        check_whole("n_labels", n_labels)
        self.n_labels, self.tied = int(n_labels), bool(tied)
        n_positions = int(self.offsets[-1])
        self._node_shape = (n_positions, self.n_labels)
        self._edge_shape = (1 if tied else n_positions, self.n_labels, self.n_labels)
        self.n_statistics = int(np.prod(self._node_shape) + np.prod(self._edge_shape))

    def pack(self, node: np.ndarray, edge: np.ndarray) -> np.ndarray:
        """Return potentials or marginals (N, L), (1 or N, L, L) as one vector (d,)."""
        node, edge = np.asarray(node, dtype=np.float64), np.asarray(edge, dtype=np.float64)
        if node.shape != self._node_shape or edge.shape != self._edge_shape:
            raise ValueError(
                f"node and edge must have shapes {self._node_shape} and {self._edge_shape}, "
                f"got {node.shape} and {edge.shape}"
            )
        return np.concatenate([node.ravel(), edge.ravel()])

    def unpack(self, vector: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
        """Return a vector (d,) as node (N, L) and edge (1 or N, L, L)."""
        node, edge = in_shapes(np.asarray(vector), [self._node_shape, self._edge_shape])
        return node, edge

    def at(self, theta: ArrayLike) -> FieldMember:
        """Return the distribution with these potentials, laid end to end."""
        checked = self.check(theta, "theta", forbidden=True)
        return FieldMember(self, checked, infer_chains(*self.unpack(checked), self.offsets))


class GraphFamily(ExponentialFamily):
    """Labellings of packed graphs with factors of any order; see ``inference/beliefs.py`` for the arrays.

    offsets (S + 1,), members a list of (M_f, k_f) nodes of each factor; ``tied`` says, for all groups or for each,
    whether one table serves all factors of the group. ``method`` is "auto", "tree" or "junction".
    """

    def __init__(
        self,
        offsets: ArrayLike,
        members: Sequence[ArrayLike],
        n_labels: int,
        *,
        tied: bool | Sequence[bool] = True,
        method: str = "auto",
    ):
        self.inference = plan_inference(offsets, members, n_labels, method)
        if not self.inference.exact:
            raise ValueError(
                f"the identities of exponential families need exact inference, and these graphs would be treated "
                f"by {self.inference.description or self.inference.method}"
            )
        groups = len(self.inference.members)
        self.tied = (tied,) * groups if isinstance(tied, bool) else tuple(map(bool, tied))
        if len(self.tied) != groups:
            raise ValueError(f"tied must say yes or no for each of {groups} factor groups, got {len(self.tied)}")
        self._shapes = [
            (self.inference.n_nodes, self.inference.n_labels),
            *(self.inference.table_shape(group, each) for group, each in enumerate(self.tied)),
        ]
        self.n_statistics = int(sum(np.prod(shape) for shape in self._shapes))

    def pack(self, node: np.ndarray, factors: Sequence[np.ndarray]) -> np.ndarray:
        """Return potentials or marginals (N, L), [(1 or M, L, .., L), ..] as one vector (d,)."""
        arrays = [np.asarray(each, dtype=np.float64) for each in (node, *factors)]
        if [each.shape for each in arrays] != self._shapes:
            raise ValueError(f"expected arrays of shapes {self._shapes}, got {[each.shape for each in arrays]}")
        return np.concatenate([each.ravel() for each in arrays])

    def unpack(self, vector: ArrayLike) -> tuple[np.ndarray, list[np.ndarray]]:
        """Return a vector (d,) as node (N, L) and a list of factor tables."""
        node, *factors = in_shapes(np.asarray(vector), self._shapes)
        return node, factors

    def at(self, theta: ArrayLike) -> FieldMember:
        """Return the distribution with these potentials, laid end to end."""
        checked = self.check(theta, "theta", forbidden=True)
        return FieldMember(self, checked, self.inference.infer(*self.unpack(checked)))
