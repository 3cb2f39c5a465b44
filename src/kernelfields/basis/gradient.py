"""A basis that grows by the gradient, in rounds of fitting (Corollary 10).

At the optimum within the span of the present pivots, letting f move along the part of k(x_j, .) outside the span can
improve the objective by at most (s/2) score_j, and

    score_j = ||(K - Z Z^T)_j R||^2 / d_j,      R = marginals - labels, d = diag(K - Z Z^T)

Scores are computed on a random sample of candidates, so a round costs O(N n_candidates (d + r + L)).
The estimator alternates: fit, certify over the whole RKHS, grow, warm start; see models/growing.py.
"""

from __future__ import annotations

import numpy as np

from kernelfields.basis.panel import PanelCholesky
from kernelfields.basis.selection import BASES, RandomCholesky
from kernelfields.numerics.registry import SETTINGS


@BASES.register("gradient")
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

    grows_in_rounds = True

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
