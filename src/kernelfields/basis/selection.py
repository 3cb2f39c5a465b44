"""Bases: strategies that choose pivots, all growing the same incomplete Cholesky factor.

``rank`` bounds the number of pivots, ``tol`` is a relative residual trace at which to stop earlier. The residual of
an input is k(x, x) - |z(x)|^2. Cost: O(N r^2) for r pivots, and the cost of rounds that the classes name.

The default of all fields is here; other rules are in pivot_rules.py and gradient.py.
"""

from __future__ import annotations

from contextlib import suppress
from typing import ClassVar

import numpy as np
from sklearn.base import BaseEstimator

from kernelfields.basis.panel import PanelCholesky, select_rows
from kernelfields.kernels.kernel import Kernel
from kernelfields.numerics.registry import SETTINGS, Registry
from kernelfields.numerics.user_warnings import warn_user


class Basis(BaseEstimator):
    """A way of choosing pivots, the inputs whose kernel functions span a field; the base class of all bases.

    Parameters
    ----------
    rank : int, optional
        The most pivots; by default the rank of the clique set or estimator.
    tol : float, default 0.0
        The share of the kernel's trace that may be left outside of the span.

    See Also
    --------
    RandomCholesky : The default of all fields.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelfields import ChainCRF
    >>> from kernelfields.basis import GreedyCholesky
    >>> X, y = [np.array([[0.0], [1.0], [2.0]])], [["a", "b", "b"]]
    >>> crf = ChainCRF("rbf", basis=GreedyCholesky(rank=2), prior_variance=1.0, scale=False, window=1).fit(X, y)
    >>> crf.basis_["node"].rank
    2
    """

    #: Whether a fit adds pivots in rounds, so that the panel is kept.
    grows_in_rounds: ClassVar[bool] = False

    def __init__(self, rank: int | None = None, *, tol: float = 0.0):
        self.rank = rank
        self.tol = tol

    def capacity(self, default_rank: int | None, n_inputs: int) -> int:
        """Return the number of columns to allocate for pivots.

        Parameters
        ----------
        default_rank : int or None
            The rank of the clique set or estimator.
        n_inputs : int
            The number of inputs.

        Returns
        -------
        int
            The number.
        """
        rank = self.rank if self.rank is not None else default_rank
        if rank is None:
            return n_inputs
        if isinstance(rank, bool) or not isinstance(rank, int | np.integer) or rank < 1:
            raise ValueError(f"rank must be a whole number of at least 1 (or None for no limit), got {rank!r}")
        return min(int(rank), n_inputs)

    def select(self, panel: PanelCholesky, random: np.random.Generator) -> None:
        """Grow a panel until it is full, exhausted, or its relative residual is below ``tol``.

        Parameters
        ----------
        panel : PanelCholesky
            The factor of the Gram matrix, which grows.
        random : numpy.random.Generator
            What draws pivots.
        """
        self._fill(panel, panel.capacity, random)

    def _fill(self, panel: PanelCholesky, rank: int, random: np.random.Generator) -> None:
        if not 0 <= self.tol < 1:
            raise ValueError(f"tol of {type(self).__name__} must be in [0, 1), got {self.tol!r}")
        while panel.rank < rank and not panel.is_exhausted and panel.relative_residual > self.tol:
            self._grow(panel, random)

    def _grow(self, panel: PanelCholesky, random: np.random.Generator) -> None:
        raise TypeError(f"{type(self).__name__} does not say how to choose pivots")


#: Bases by the names that users may write; those of other modules are loaded on first use.
BASES: Registry[Basis] = Registry(
    "basis",
    homes={
        "greedy-cholesky": "kernelfields.basis.pivot_rules",
        "uniform": "kernelfields.basis.pivot_rules",
        "all": "kernelfields.basis.pivot_rules",
        "gradient": "kernelfields.basis.gradient",
    },
)


@BASES.register("random-cholesky")
@SETTINGS.register("random-cholesky")
class RandomCholesky(Basis):
    """Randomly pivoted Cholesky: the next input is drawn in proportion to its residual; the default of all fields.

    Blocks of proposals are drawn at once, and each is kept with the probability (its residual now) / (its residual when
    drawn), which leaves the law of the pivots that of drawing one at a time.

    Parameters
    ----------
    rank : int, optional
        The most pivots; by default the rank of the clique set or estimator.
    tol : float, default 0.0
        The share of the kernel's trace that may be left outside of the span.
    block_size : int, optional
        How many proposals are drawn at once; by default it follows the rank.

    References
    ----------
    Epperly, Tropp and Webber (2024), Embrace rejection, arXiv 2410.03969.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelfields.basis import PanelCholesky, RandomCholesky
    >>> from kernelfields.kernels import RBF
    >>> panel = PanelCholesky(RBF(1.0), np.linspace(0.0, 1.0, 20)[:, None], capacity=5)
    >>> RandomCholesky(tol=1e-2).select(panel, np.random.default_rng(0))
    >>> panel.relative_residual < 1e-2
    True
    """

    def __init__(self, rank: int | None = None, *, tol: float = 0.0, block_size: int | None = None):
        super().__init__(rank, tol=tol)
        self.block_size = block_size

    def _grow(self, panel: PanelCholesky, random: np.random.Generator) -> None:
        block_size = self.block_size or int(np.clip(panel.capacity // 8, 32, 256))
        proposals = panel.draw_candidates(random.random(block_size))
        chances = random.random(block_size)
        drawn_at, floor = panel.take_residuals(proposals)
        block = panel.residual_block(proposals)
        room = panel.capacity - panel.rank
        kept, factor = select_rows(block, lambda i, left: left > floor[i] and chances[i] * drawn_at[i] < left)
        if len(kept) == 0:
            # Only rounding separates these from the span: without this the same ones come back for ever.
            panel.exclude_inputs(proposals)
            return
        panel.append(proposals[kept[:room]], factor[:room, :room])


def resolve_basis(basis: object) -> Basis:
    """Return the basis for a shorthand such as "random-cholesky", or a given basis unchanged."""
    if isinstance(basis, Basis):
        return basis
    if isinstance(basis, str):
        with suppress(KeyError):
            return BASES.make(basis)
    raise ValueError(f"basis must be a Basis or one of {sorted(BASES.shorthands)}, got {basis!r}")


def warn_of_no_pivots(kernel: Kernel, whose: str) -> None:
    """Warn of a basis without functions because the kernel is zero at all inputs."""
    warn_user(
        f"{kernel!r} is zero at every training input: {whose} has no basis functions and takes no part in the fit"
    )
