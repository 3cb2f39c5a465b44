"""The RKHS subspace of a density's function f.

The maximum a posteriori f is an expansion over the sample and, because of the integral in the normalising constant,
over the whole box; so pivots are chosen among both. Points (n, d) of the unit cube; at most ``MOST_CANDIDATES`` of
them, drawn at random, and ``BOX_CANDIDATES`` points of a Sobol sequence. Cost: O(candidates rank^2).
"""

from __future__ import annotations

import numpy as np

from kernelfields.basis.panel import PanelCholesky
from kernelfields.basis.selection import resolve_basis, warn_of_no_pivots
from kernelfields.basis.subspace import ExplicitSubspace, Subspace
from kernelfields.families.quadrature import sobol_points
from kernelfields.kernels.callables import Precomputed
from kernelfields.kernels.registry import resolve_kernel

MOST_CANDIDATES, BOX_CANDIDATES = 4096, 1024


def density_basis(
    kernel: object,
    basis: object,
    rank: int,
    points: np.ndarray,
    weights: np.ndarray,
    random: np.random.Generator,
) -> Subspace:
    """Return the subspace of pivots from the sample and the box, or of explicit features."""
    resolved = resolve_kernel(kernel)
    if isinstance(resolved, Precomputed):
        raise ValueError("a precomputed kernel has values at the sample only, and a density needs the whole box")
    resolved = resolved.resolve(points, weights)
    features = resolved.feature_map(points[:1]) if resolved.has_feature_map else None
    if features is not None:
        return ExplicitSubspace(resolved, features.shape[1])
    few = len(points) <= MOST_CANDIDATES
    drawn = points if few else points[random.choice(len(points), MOST_CANDIDATES, replace=False)]
    # The same points of the box every time: they stand for it, not for chance.
    inputs = np.vstack([drawn, sobol_points(points.shape[1], BOX_CANDIDATES, 0)])
    strategy = resolve_basis(basis)
    panel = PanelCholesky(resolved, inputs, strategy.capacity(rank, len(inputs)))
    strategy.select(panel, random)
    if panel.rank == 0:
        warn_of_no_pivots(resolved, "the density")
    return panel.subspace()
