"""Any family of labellings as an exponential family of vectors: theta are the concatenated potentials.

    Phi(y) = counts of the labellings of all cliques, group by group
    theta  = the concatenated potentials of all groups
    g(theta) = sum_i log Z_i,      mean = E Phi,      entropy = log Z - <theta, mean>

The sequences, graphs or instances are independent, so log partition, entropy and divergence are sums over them. A tied
table has the expected number of each labelling as its mean. The statistics of a node sum to one, so many theta give
the same distribution; ``natural_parameters`` returns one of them. Potentials of minus infinity forbid.

Cost: that of inference (see ``inference``); Newton directions by conjugate gradients on exact Hessian products.
Raises ValueError if inference is approximate, since the identities hold for exact inference only.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from kernelfields.families.exponential_family import ExponentialFamily, Member
from kernelfields.inference.family import LabelFamily
from kernelfields.inference.family import Member as LabelMember
from kernelfields.inference.packed_graphs import split_shapes
from kernelfields.inference.packing import check_values
from kernelfields.inference.potentials import Potentials
from kernelfields.numerics.vectors import conjugate_gradients

_CONJUGATE_STEPS = 500
_CONJUGATE_RESIDUAL = 1e-10
# Marginals are rounded to about this share; below it, directions are those the distribution does not depend on.
_ROUNDING = 1e-14


class FieldMember(Member):
    """A distribution over labellings; ``member`` is the one of the family of labellings."""

    def __init__(self, family: FieldFamily, theta: np.ndarray, member: LabelMember):
        self.theta = theta
        self.member = member
        self._family = family
        self.log_partition = float(member.log_partition.sum())
        self.mean = family.pack(member.mean())

    def covariance_product(self, direction: np.ndarray) -> np.ndarray:
        """Compute the exact covariance product, at the cost of a gradient."""
        return self._family.pack(self.member.covariance_product(self._family.unpack(direction)))

    def score_change(self, direction: np.ndarray) -> float:
        """Return the largest absolute entry of a step, as statistics are counts."""
        return float(np.abs(direction).max(initial=0.0))

    def newton_direction(self, gradient: np.ndarray, precision: float) -> np.ndarray | None:
        """Solve the Newton system by conjugate gradients; the covariance may be singular."""
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


class FieldFamily(ExponentialFamily):
    """Labellings of sequences, graphs, segments or instances as an exponential family of vectors theta.

    Parameters
    ----------
    labels : LabelFamily
        The family of labellings, as inference has it.

    See Also
    --------
    FiniteFamily : A finite set of outcomes, listed.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelfields import ChainCRF
    >>> from kernelfields.families import FieldFamily
    >>> X, y = [np.array([[0.0], [1.0], [1.0]])], [["a", "b", "b"]]
    >>> crf = ChainCRF("linear", prior_variance=1.0, scale=False, window=1).fit(X, y)
    >>> data = crf.structure.read(X)
    >>> family = FieldFamily(crf.field_.family(data))
    >>> round(family.log_partition(np.zeros(family.n_statistics)), 3)  # 3 log 2: eight labellings
    2.079
    """

    def __init__(self, labels: LabelFamily):
        if not labels.exact:
            raise ValueError(
                f"the identities of exponential families need exact inference, and these graphs would be treated "
                f"by {labels.description or labels.method}"
            )
        self.labels = labels
        self._zeros = labels.zeros()
        self._shapes = [array.shape for array in self._zeros.arrays]
        self.n_statistics = int(sum(np.prod(shape) for shape in self._shapes))

    def pack(self, potentials: Potentials) -> np.ndarray:
        """Concatenate potentials or expected statistics to one vector.

        Parameters
        ----------
        potentials : Potentials
            The potentials of the groups of cliques.

        Returns
        -------
        array (d,)
            The vector.
        """
        arrays = [np.asarray(array, dtype=np.float64) for array in potentials.arrays]
        if [array.shape for array in arrays] != self._shapes:
            raise ValueError(f"expected arrays of shapes {self._shapes}, got {[array.shape for array in arrays]}")
        return np.concatenate([array.ravel() for array in arrays])

    def unpack(self, vector: ArrayLike) -> Potentials:
        """Split a vector into potentials of the groups of cliques.

        Parameters
        ----------
        vector : array (d,)
            The vector.

        Returns
        -------
        Potentials
            The potentials.
        """
        return self._zeros.with_arrays(split_shapes(np.asarray(vector, dtype=np.float64), self._shapes))

    def distribution(self, theta: ArrayLike) -> FieldMember:
        """Return the distribution with these concatenated potentials.

        Parameters
        ----------
        theta : array (d,)
            The potentials.

        Returns
        -------
        FieldMember
            The distribution.
        """
        checked = self.check(theta, "theta", forbidden=True)
        check_values("theta", checked)
        return FieldMember(self, checked, self.labels.distribution(self.unpack(checked)))
