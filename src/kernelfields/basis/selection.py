"""Bases: strategies that choose pivots, all growing the same incomplete Cholesky factor.

``rank`` bounds the number of pivots, ``tol`` is a relative residual trace at which to stop earlier. The residual of
an input is k(x, x) - |z(x)|^2. Cost: O(N r^2) for r pivots, and the cost of rounds that the classes name.

Gradient (Corollary 10): at the optimum within the span of the present pivots, letting f move along the part of k(x_j,
.) outside the span can improve the objective by at most (s/2) score_j, and

    score_j = ||(K - Z Z^T)_j R||^2 / d_j,      R = marginals - labels, d = diag(K - Z Z^T)

Scores are computed on a random sample of candidates, so a round costs O(N n_candidates (d + r + L)).
The estimator alternates: fit, certify over the whole RKHS, grow, warm start; see models/fit.py.
"""

from __future__ import annotations

import numpy as np
from sklearn.base import BaseEstimator

from kernelfields.basis.panel import PanelCholesky, select_rows
from kernelfields.kernels.kernel import Kernel
from kernelfields.numerics.registry import SETTINGS
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


# Large panels are fast: which inputs are drawn does not depend on those before but for duplicates.
_DRAWN_AT_ONCE = 1024


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


@SETTINGS.register("gradient")
class Gradient(RandomCholesky):
    """Pivots by the gradient: a basis grows until the certificate over the whole RKHS is below the fit's ``tol``.

    Each round fits the field and adds the inputs with the largest gain of the bound of Lemma 9.

    Parameters
    ----------
    rank : int, optional
        The most pivots; by default the rank of the clique set or estimator.
    tol : float, default 0.0
        The share of the kernel's trace that may be left outside of the span.
    block_size : int, optional
        How many proposals are drawn at once for the first pivots.
    initial : int, optional
        The number of first pivots, drawn by randomly pivoted Cholesky; an eighth of the rank by default.
    growth : float, default 1.5
        By what a round multiplies the rank.
    candidates : int, default 5
        How many inputs are scored for each pivot wanted.

    See Also
    --------
    RandomCholesky : Chooses all pivots before the fit.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelfields import ChainCRF
    >>> from kernelfields.basis import Gradient
    >>> random = np.random.default_rng(0)
    >>> y = [random.integers(2, size=20) for _ in range(10)]
    >>> X = [labels[:, None] + random.normal(size=(20, 1)) for labels in y]
    >>> crf = ChainCRF("rbf", basis=Gradient(initial=4), rank=50, prior_variance=1.0, scale=False, window=1).fit(X, y)
    >>> crf.basis_["node"].rank < 50
    True
    """

    def __init__(
        self,
        rank: int | None = None,
        *,
        tol: float = 0.0,
        block_size: int | None = None,
        initial: int | None = None,
        growth: float = 1.5,
        candidates: int = 5,
    ):
        super().__init__(rank, tol=tol, block_size=block_size)
        self.initial = initial
        self.growth = growth
        self.candidates = candidates

    def select(self, panel: PanelCholesky, random: np.random.Generator) -> None:
        """Choose the first pivots, before there is a gradient.

        Parameters
        ----------
        panel : PanelCholesky
            The factor of the Gram matrix, which grows.
        random : numpy.random.Generator
            What draws pivots.
        """
        if not self.growth > 1:
            raise ValueError(f"growth must be above 1, got {self.growth!r}")
        target = self.initial or max(16, panel.capacity // 8)
        self._fill(panel, min(target, panel.capacity), random)

    def grow(self, panel: PanelCholesky, residuals: np.ndarray, random: np.random.Generator) -> int:
        """Add a round of pivots.

        Parameters
        ----------
        panel : PanelCholesky
            The factor of the Gram matrix, which grows.
        residuals : array (N, q)
            The residuals of the fit so far.
        random : numpy.random.Generator
            What draws candidates.

        Returns
        -------
        int
            How many were added.
        """
        wanted = min(int(np.ceil(panel.rank * (self.growth - 1))), panel.capacity - panel.rank)
        outside = panel.candidates
        if wanted < 1 or len(outside) == 0 or panel.relative_residual <= self.tol:
            return 0
        pool = random.choice(outside, size=min(len(outside), self.candidates * wanted), replace=False)
        best = pool[np.argsort(-panel.candidate_scores(pool, residuals), kind="stable")]
        added = 0
        for begin in range(0, len(best), 256):
            if added >= wanted:
                break
            added += panel.extend(best[begin : begin + min(256, wanted - added)])
        return added


SHORTHANDS: dict[str, type[Basis]] = {
    "greedy-cholesky": GreedyCholesky,
    "random-cholesky": RandomCholesky,
    "uniform": Uniform,
    "all": AllPoints,
    "gradient": Gradient,
}


def resolve_basis(basis: object) -> Basis:
    """Return the basis for a shorthand such as "random-cholesky", or a given basis unchanged."""
    if isinstance(basis, Basis):
        return basis
    if isinstance(basis, str) and basis in SHORTHANDS:
        return SHORTHANDS[basis]()
    raise ValueError(f"basis must be a Basis or one of {sorted(SHORTHANDS)}, got {basis!r}")


def warn_of_no_pivots(rank: int, kernel: Kernel, whose: str) -> None:
    """Warn of a basis without functions because the kernel is zero at all inputs."""
    if rank == 0:
        warn_user(
            f"{kernel!r} is zero at every training input: {whose} has no basis functions and takes no part in the fit",
        )
