"""Pivots where the gradient is (Corollary 10).

At the optimum within the span of the present pivots, letting f move along the part of k(x_j, .) outside the
span can improve the objective by at most (s/2) score_j, and

    score_j = ||(K - Z Z^T)_j R||^2 / d_j,      R = marginals - labels, d = diag(K - Z Z^T)

Scores are computed on a random sample of candidates, so a round costs O(N n_candidates (d + r + L)).
The estimator alternates: fit, certify over the whole RKHS, grow, warm start; see estimators/fitting.py.
"""

from __future__ import annotations

import numpy as np

from kernelfields.basis.panel import PanelCholesky
from kernelfields.basis.selection import SHORTHANDS, RandomCholesky
from kernelfields.basis.subspace import row_blocks


class Gradient(RandomCholesky):
    """Grow where the bound is largest until the RKHS certificate is below the fit's ``tol``.

    Starts from ``initial`` randomly pivoted columns (default: an eighth of the rank) and multiplies the rank
    by ``growth`` per round; each round scores ``candidates`` inputs per pivot wanted.
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
        """Choose the first pivots, before there is a gradient."""
        if not self.growth > 1:
            raise ValueError(f"growth must be above 1, got {self.growth!r}")
        target = self.initial or max(16, panel.capacity // 8)
        self._fill(panel, min(target, panel.capacity), random)

    def grow(self, panel: PanelCholesky, residuals: np.ndarray, random: np.random.Generator) -> int:
        """Add a round of pivots given residuals R (N, q); return how many were added."""
        wanted = min(int(np.ceil(panel.rank * (self.growth - 1))), panel.capacity - panel.rank)
        outside = panel.outside
        if wanted < 1 or len(outside) == 0 or panel.relative_residual <= self.tol:
            return 0
        pool = random.choice(outside, size=min(len(outside), self.candidates * wanted), replace=False)
        scores = candidate_scores(panel, pool, residuals)
        best = pool[np.argsort(-scores, kind="stable")]
        added = 0
        for begin in range(0, len(best), 256):
            if added >= wanted:
                break
            added += panel.extend(best[begin : begin + min(256, wanted - added)])
        return added


def candidate_scores(panel: PanelCholesky, candidates: np.ndarray, residuals: np.ndarray) -> np.ndarray:
    """Return ||(K - Z Z^T)_j R||^2 / d_j for each candidate j, streaming kernel blocks."""
    features = panel.features
    inside = features.T @ residuals.astype(panel.dtype)
    projected = np.zeros((len(candidates), residuals.shape[1]))
    for rows in row_blocks(panel.inputs.shape[0], len(candidates)):
        projected += panel.kernel(panel.inputs[candidates], panel.inputs[rows]) @ residuals[rows]
    projected -= features[candidates] @ inside
    left = np.maximum(panel.residual[candidates], panel.floor[candidates])
    return np.einsum("ij,ij->i", projected, projected) / left


SHORTHANDS["gradient"] = Gradient
