"""How to choose pivots: one class per strategy, all growing the same incomplete Cholesky factor.

| class          | next pivots                                                   | cost               |
|----------------|---------------------------------------------------------------|--------------------|
| GreedyCholesky | the largest residual k(x,x) - |z(x)|^2 (the paper's choice)   | O(N r^2), r rounds |
| RandomCholesky | drawn in proportion to the residual, blocks with rejection    | O(N r^2), r/b rounds |
| Uniform        | drawn uniformly                                               | O(N r^2)           |
| AllPoints      | every training input that is not in the span of the others    | O(N^3)             |
| Gradient       | where the bound of Corollary 10 is largest, see gradient.py   | a fit per round    |

``rank`` bounds the number of pivots, ``tol`` is a relative residual trace at which to stop earlier.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from kernelfields.basis.block_pivots import select_rows
from kernelfields.basis.panel import PanelCholesky


class Basis(BaseEstimator):
    """A way of choosing pivots; ``rank=None`` leaves the rank to the clique set or estimator."""

    def __init__(self, rank: int | None = None, *, tol: float = 0.0):
        self.rank = rank
        self.tol = tol

    def capacity(self, default_rank: int | None, n_inputs: int) -> int:
        """Return the number of pivots to make room for."""
        rank = self.rank if self.rank is not None else default_rank
        if rank is None:
            return n_inputs
        if isinstance(rank, bool) or not isinstance(rank, int | np.integer) or rank < 1:
            raise ValueError(f"rank must be a whole number of at least 1 (or None for no limit), got {rank!r}")
        return min(int(rank), n_inputs)

    def select(self, panel: PanelCholesky, random: np.random.Generator) -> None:
        """Grow ``panel`` until it is full, exhausted, or its relative residual is below ``tol``."""
        self._fill(panel, panel.capacity, random)

    def _fill(self, panel: PanelCholesky, rank: int, random: np.random.Generator) -> None:
        if not 0 <= self.tol < 1:
            raise ValueError(f"tol of {type(self).__name__} must be in [0, 1), got {self.tol!r}")
        while panel.rank < rank and not panel.exhausted and panel.relative_residual > self.tol:
            self._grow(panel, random)

    def _grow(self, panel: PanelCholesky, random: np.random.Generator) -> None:
        raise TypeError(f"{type(self).__name__} does not say how to choose pivots")


class GreedyCholesky(Basis):
    """The largest residual next, one at a time (Fine and Scheinberg 2001, the paper's section 5.3)."""

    def _grow(self, panel: PanelCholesky, random: np.random.Generator) -> None:
        panel.extend(panel.largest_outside())


class RandomCholesky(Basis):
    """Randomly pivoted Cholesky: P(next = j) proportional to the residual of j.

    Blocks of ``block_size`` proposals are drawn at once and each is kept with probability (its residual now)
    / (its residual when drawn), which leaves the law of the pivots that of drawing one at a time
    (Epperly, Tropp and Webber, arXiv 2410.03969).
    """

    def __init__(self, rank: int | None = None, *, tol: float = 0.0, block_size: int | None = None):
        super().__init__(rank, tol=tol)
        self.block_size = block_size

    def _grow(self, panel: PanelCholesky, random: np.random.Generator) -> None:
        block_size = self.block_size or int(np.clip(panel.capacity // 8, 32, 256))
        proposals = panel.drawn_outside(random.random(block_size))
        chances = random.random(block_size)
        drawn_at, floor = panel.residuals_of(proposals)
        block = panel.residual_block(proposals)
        room = panel.capacity - panel.rank
        kept, factor = select_rows(
            block,
            lambda i, residual: residual > floor[i] and chances[i] * drawn_at[i] < residual,
        )
        if len(kept) == 0:
            # Only rounding separates these from the span: without this the same ones come back for ever.
            panel.set_aside(proposals)
            return
        panel.append(proposals[kept[:room]], factor[:room, :room])


class Uniform(Basis):
    """Inputs drawn uniformly without replacement (Nystrom)."""

    def _grow(self, panel: PanelCholesky, random: np.random.Generator) -> None:
        n_outside = panel.n_outside
        count = min(n_outside, panel.capacity - panel.rank, 256)
        panel.extend(panel.outside_at(random.choice(n_outside, size=count, replace=False)))


class AllPoints(Basis):
    """Every training input: the exact, non-sparse model. ``rank`` is not used."""

    def capacity(self, default_rank: int | None, n_inputs: int) -> int:
        """Return the number of inputs."""
        return n_inputs

    def _grow(self, panel: PanelCholesky, random: np.random.Generator) -> None:
        panel.extend(panel.outside_at(np.arange(min(256, panel.n_outside))))


SHORTHANDS: dict[str, type[Basis]] = {
    "greedy-cholesky": GreedyCholesky,
    "random-cholesky": RandomCholesky,
    "uniform": Uniform,
    "all": AllPoints,
}


def resolve_basis(basis: Any) -> Basis:
    """Turn a shorthand such as "random-cholesky" into a basis; a basis is returned as it is."""
    if isinstance(basis, Basis):
        return basis
    if isinstance(basis, str) and basis in SHORTHANDS:
        return SHORTHANDS[basis]()
    raise ValueError(f"basis must be a Basis or one of {sorted(SHORTHANDS)}, got {basis!r}")
