"""Designs with their first pivots alone: what is left of every input is what those pivots leave of it."""

import numpy as np

from kernelfields import EdgeCliques, NodeCliques
from kernelfields.kernels.stationary import RBF
from kernelfields.uncertainty.evidence.parameters import cut_design
from tests.samples import chain_sample, designs_on, random_chains


def test_a_cut_design_is_that_of_the_first_pivots():
    chains = random_chains((5, 1, 7, 4))
    sample = chain_sample(chains, 3)
    kernel = RBF(0.4)
    for design in designs_on(sample, [NodeCliques(kernel, rank=9), EdgeCliques(kernel, rank=9)]):
        cut = cut_design(design, 4)
        whole, part = design.term.subspace, cut.term.subspace
        assert (whole.rank, part.rank, cut.shape) == (9, 4, (4, design.shape[1]))
        np.testing.assert_array_equal(part.indices, whole.indices[:4])
        inputs = design.origin.inputs
        np.testing.assert_allclose(cut.features, part.features(inputs), atol=1e-12)
        np.testing.assert_array_equal(cut.positions, design.positions)
        gram, columns = kernel(inputs), kernel(inputs, part.pivots)
        projected = columns @ np.linalg.solve(kernel(part.pivots), columns.T)
        np.testing.assert_allclose(cut.origin.residual_diagonal, np.diag(gram - projected), atol=1e-10)
        assert cut.origin.subspace is part
        assert cut_design(cut, 4) is cut
        assert cut_design(cut, 2).term.subspace.rank == 2
        assert cut_design(design, 9) is design
