"""Designs with their first pivots alone, or with another kernel on the same pivots."""

import numpy as np

from kernelfields import EdgeCliques, NodeCliques
from kernelfields.basis import PivotSubspace
from kernelfields.kernels import RBF
from kernelfields.objective import Term
from kernelfields.posterior.evidence.problem import subspace_with_parameter, truncate_design
from tests.samples import chain_sample, designs_on, random_chains


def test_a_cut_design_is_that_of_the_first_pivots():
    chains = random_chains((5, 1, 7, 4))
    sample = chain_sample(chains, 3)
    kernel = RBF(0.4)
    for design in designs_on(sample, [NodeCliques(kernel, rank=9), EdgeCliques(kernel, rank=9)]):
        cut = truncate_design(design, 4)
        whole, part = design.term.subspace, cut.term.subspace
        assert (whole.rank, part.rank, cut.shape) == (9, 4, (4, design.shape[1]))
        np.testing.assert_array_equal(part.indices, whole.indices[:4])
        inputs = design.origin.inputs
        np.testing.assert_allclose(cut.features, part.features(inputs), atol=1e-12)
        np.testing.assert_array_equal(cut.positions, design.positions)
        gram, columns = kernel(inputs), kernel(inputs, part.pivots)
        projected = columns @ np.linalg.solve(kernel(part.pivots), columns.T)
        np.testing.assert_allclose(cut.origin.residual_diagonal, np.diag(gram - projected), atol=1e-10)
        assert cut.origin.pivots is part.pivots
        assert truncate_design(cut, 4) is cut
        assert truncate_design(cut, 2).term.subspace.rank == 2
        assert truncate_design(design, 9) is design


def test_pivots_that_meet_under_another_kernel_still_have_a_factor():
    """As wide a kernel as cannot tell them apart: features are finite, and their products those of the kernel."""
    pivots = np.linspace(0.0, 1.0, 8)[:, None]
    kernel = RBF(50.0)
    subspace = PivotSubspace(kernel, pivots, np.linalg.cholesky(kernel(pivots)), np.arange(8))
    moved = subspace_with_parameter(Term(NodeCliques(kernel), "node", subspace), "gamma", 1e-8)
    features = moved.features(pivots)
    np.testing.assert_allclose(features @ features.T, RBF(1e-8)(pivots), atol=1e-8)
