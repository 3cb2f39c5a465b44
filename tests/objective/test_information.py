"""Information about inputs: values by enumeration, gradients by finite differences, bounds, limits."""

import numpy as np
import pytest

from kernelfields.fields.chains import Chains
from kernelfields.inference.chain.family import ChainFamily
from kernelfields.inference.family import EDGE, Potentials
from kernelfields.inference.single import SingleFamily
from kernelfields.numerics.threads import Workers
from kernelfields.objective.likelihoods.information import InformationObjective
from tests.oracles.chains import enumerate_chain
from tests.samples import offsets_of

LENGTHS = (1, 4, 2, 3)
N_LABELS = 3


def entropy(probabilities):
    """The entropy of distributions in rows, in nats."""
    return -np.sum(probabilities * np.log(probabilities), axis=-1)


def information(marginals, weights):
    """H(mean p) - mean H(p)."""
    return float(entropy(weights @ marginals) - weights @ entropy(marginals))


def of_chains(seed=0, spread=1.0, tied=True, uneven=False):
    """The objective of a few chains, potentials for it, their weights and offsets."""
    random, offsets = np.random.default_rng(seed), offsets_of(LENGTHS)
    weights = random.uniform(0.5, 2.0, len(LENGTHS)) if uneven else np.ones(len(LENGTHS))
    weights /= weights @ LENGTHS
    chains = Chains(np.zeros((offsets[-1], 1)), offsets, np.zeros(offsets[-1], dtype=np.int64), weights)
    steps = 1 if tied else offsets[-1]
    node, edge = random.normal(size=(offsets[-1], N_LABELS)), random.normal(size=(steps, N_LABELS, N_LABELS))
    objective = InformationObjective(ChainFamily(offsets, N_LABELS, tied=tied), weights, Workers(1))
    return objective, Potentials(spread * node, {EDGE: spread * edge}), chains.position_weights, offsets


def of_single_labels(seed=0, n=12):
    """The objective of single inputs, potentials for it, and their weights."""
    random = np.random.default_rng(seed)
    weights = random.uniform(0.5, 2.0, n)
    weights /= weights.sum()
    objective = InformationObjective(SingleFamily(n, N_LABELS), weights, Workers(1))
    return objective, Potentials(random.normal(size=(n, N_LABELS))), weights


@pytest.mark.parametrize("uneven", [False, True])
@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("spread", [0.3, 2.0])
def test_information_of_chains_is_that_of_all_labellings(spread, tied, uneven):
    objective, potentials, weights, offsets = of_chains(1, spread, tied, uneven)
    marginals = enumerate_chain(potentials.node, potentials.edge, offsets).node_marginals
    value = objective.evaluate(potentials).value
    assert value == pytest.approx(-information(marginals, weights), abs=1e-9)
    assert -np.log(N_LABELS) <= value <= 0.0


def test_information_of_single_labels_is_that_of_their_softmax():
    objective, potentials, weights = of_single_labels()
    odds = np.exp(potentials.node)
    expected = -information(odds / odds.sum(axis=1, keepdims=True), weights)
    assert objective.evaluate(potentials).value == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize(
    ("objective", "potentials"),
    [
        pytest.param(*of_chains(2)[:2], id="tied"),
        pytest.param(*of_chains(3, tied=False, uneven=True)[:2], id="a table for each step"),
        pytest.param(*of_single_labels(4)[:2], id="single labels"),
    ],
)
def test_gradients_are_those_of_finite_differences(objective, potentials):
    random, h = np.random.default_rng(5), 1e-5
    gradient = objective.evaluate(potentials).residual
    for _ in range(5):
        direction = potentials.of(random.normal(size=each.shape) for each in potentials.arrays)
        ahead, behind = (objective.evaluate(potentials.moved(step, direction)).value for step in (h, -h))
        assert gradient.dot(direction) == pytest.approx((ahead - behind) / (2 * h), rel=1e-6, abs=1e-9)


def test_labels_that_are_certain_are_no_trouble():
    """Probabilities that underflow to zero: the most information there is, and a gradient of zero."""
    weights = np.full(3, 1 / 3)
    objective = InformationObjective(SingleFamily(3, 3), weights, Workers(1))
    evaluation = objective.evaluate(Potentials(2000.0 * np.eye(3)))
    assert evaluation.value == pytest.approx(-np.log(3), abs=1e-12)
    assert np.all(evaluation.residual.node == 0.0)
