"""Pivots by rules other than the default: the largest residual, uniform draws, all inputs."""

from __future__ import annotations

import numpy as np

from kernelfields.basis.panel import PanelCholesky
from kernelfields.basis.selection import BASES, Basis
from kernelfields.numerics.registry import SETTINGS

# Large panels are fast: which inputs are drawn does not depend on those before but for duplicates.
_DRAWN_AT_ONCE = 1024


@BASES.register("greedy-cholesky")
@SETTINGS.register("greedy-cholesky")
class GreedyCholesky(Basis):
    """Greedy Cholesky: the next pivot is the input with the largest residual (the paper's section 5.3).

    Parameters
    ----------
    rank : int, optional
        The most pivots; by default the rank of the clique set or estimator.
    tol : float, default 0.0
        The share of the kernel's trace that may be left outside of the span.

    References
    ----------
    Fine and Scheinberg (2001), Efficient SVM training using low-rank kernel representations.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelfields.basis import GreedyCholesky, PanelCholesky
    >>> from kernelfields.kernels import RBF
    >>> panel = PanelCholesky(RBF(1.0), np.array([[0.0], [0.1], [2.0]]), capacity=2)
    >>> GreedyCholesky().select(panel, np.random.default_rng(0))
    >>> panel.pivot_inputs
    array([[0.],
           [2.]])
    """

    def _grow(self, panel: PanelCholesky, random: np.random.Generator) -> None:
        panel.extend(panel.largest_candidate())


@BASES.register("uniform")
@SETTINGS.register("uniform")
class Uniform(Basis):
    """Inputs drawn uniformly without replacement (Nystrom's method).

    Parameters
    ----------
    rank : int, optional
        The most pivots; by default the rank of the clique set or estimator.
    tol : float, default 0.0
        The share of the kernel's trace that may be left outside of the span.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelfields.basis import PanelCholesky, Uniform
    >>> from kernelfields.kernels import RBF
    >>> panel = PanelCholesky(RBF(1.0), np.linspace(0.0, 9.0, 10)[:, None], capacity=3)
    >>> Uniform().select(panel, np.random.default_rng(0))
    >>> panel.rank
    3
    """

    def _grow(self, panel: PanelCholesky, random: np.random.Generator) -> None:
        n_outside = panel.n_candidates
        count = min(n_outside, panel.capacity - panel.rank, _DRAWN_AT_ONCE)
        panel.extend(panel.select_candidates(random.choice(n_outside, size=count, replace=False)))


@BASES.register("all")
@SETTINGS.register("all")
class AllPoints(Basis):
    """All training inputs outside the span of the others: the exact model, which is not sparse.

    Parameters
    ----------
    rank : int, optional
        Not used: there is no limit.
    tol : float, default 0.0
        The share of the kernel's trace that may be left outside of the span.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelfields import ChainCRF
    >>> X, y = [np.array([[0.0], [1.0], [2.0]])], [["a", "b", "b"]]
    >>> crf = ChainCRF("rbf", basis="all", prior_variance=1.0, scale=False, window=1).fit(X, y)
    >>> crf.basis_["node"].rank
    3
    """

    def capacity(self, default_rank: int | None, n_inputs: int) -> int:
        """Return the number of inputs.

        Parameters
        ----------
        default_rank : int or None
            The rank of the clique set or estimator, which is not used.
        n_inputs : int
            The number of inputs.

        Returns
        -------
        int
            The number.
        """
        return n_inputs

    def _grow(self, panel: PanelCholesky, random: np.random.Generator) -> None:
        panel.extend(panel.select_candidates(np.arange(min(256, panel.n_candidates))))
