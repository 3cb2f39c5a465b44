"""Passes in NumPy against compiled ones: potentials of any size, whatever is forbidden."""

from functools import partial

import numpy as np
import pytest

from kernelfields.inference import EDGE, ChainFamily, InfeasibleSequence, Potentials
from kernelfields.inference.chain.recursions import LONG, SHORT
from tests.samples import chain_potentials


def rescued(member):
    """The sequences that are inferred in logarithms."""
    return set() if member._rescued is None else set(member._rescued.items.tolist())


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("forbidden", [0.0, 0.2])
@pytest.mark.parametrize("spread", [1.0, 30.0, 700.0, 4000.0])
def test_members_are_those_of_compiled_passes(spread, forbidden, tied):
    feasible = 0
    for seed in range(12):
        random = np.random.default_rng(seed)
        node, edge, offsets = chain_potentials(random, 1 + seed % 5, spread, forbidden, tied)
        potentials = Potentials(node, {EDGE: edge})
        weights = random.uniform(0, 3, size=len(offsets) - 1)
        ours, theirs = (ChainFamily(offsets, node.shape[1], tied=tied, forms=forms) for forms in (SHORT, LONG))
        try:
            expected, infeasible = theirs.distribution(potentials, weights), None
        except InfeasibleSequence as error:
            infeasible = error.sequence
        if infeasible is not None:
            for ask in (partial(ours.distribution, potentials), ours.labellings(potentials).best):
                with pytest.raises(InfeasibleSequence, match=f"sequence {infeasible}:"):
                    ask()
            continue
        feasible += 1
        found = ours.distribution(potentials, weights)
        assert rescued(expected) <= rescued(found), "some more are"
        np.testing.assert_allclose(found.log_partition, expected.log_partition, rtol=1e-13, atol=1e-12)
        for group in (None, EDGE):
            np.testing.assert_allclose(found.marginals(group), expected.marginals(group), rtol=0, atol=1e-12)
        direction = Potentials(random.normal(size=node.shape), {EDGE: random.normal(size=edge.shape)})
        products = found.covariance_product(direction), expected.covariance_product(direction)
        for one, other in zip(*(each.arrays for each in products), strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-10)
        for one, other in zip(ours.labellings(potentials).best(), theirs.labellings(potentials).best(), strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-13, atol=1e-12)
    assert feasible >= 4
