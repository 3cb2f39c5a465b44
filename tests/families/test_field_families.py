"""Section 2 for fields: chains and graphs are exponential families with potentials as natural parameters."""

import numpy as np
import pytest

from kernelfields.families import FieldFamily, FiniteFamily, NoEstimate
from kernelfields.inference import EDGE, ChainFamily, Potentials, plan_inference
from tests.oracles.chains import enumerate_chain

OFFSETS = np.array([0, 3, 5])
SQUARE = [np.array([[0, 1], [1, 2], [2, 3], [3, 0]])]


def enumerated(family, n_nodes, n_labels):
    """The same family as a finite one: statistics of each labelling are its marginals."""
    labellings = np.indices((n_labels,) * n_nodes).reshape(n_nodes, -1).T
    return FiniteFamily([statistics_of(family, each) for each in labellings])


def statistics_of(family, labelling):
    certain = family.unpack(np.zeros(family.n_statistics))
    certain.node[...] = -np.inf
    certain.node[np.arange(len(labelling)), labelling] = 0.0
    return family.mean(family.pack(certain))


def chains(offsets, n_labels, tied=True):
    return FieldFamily(ChainFamily(offsets, n_labels, tied=tied))


def graphs(members, n_labels, tied=True, method="auto"):
    plan = plan_inference([0, 4], members, n_labels, method)
    return FieldFamily(plan.with_names(plan.names, plan.names if tied else ()))


FAMILIES = {
    "tied chains": lambda: (chains(OFFSETS, 2), 5, 2),
    "chains": lambda: (chains(OFFSETS, 2, tied=False), 5, 2),
    "a cycle": lambda: (graphs(SQUARE, 2), 4, 2),
    "a tree": lambda: (graphs([np.array([[0, 1], [0, 2], [0, 3]])], 3, tied=False), 4, 3),
}


@pytest.fixture(params=FAMILIES.values(), ids=FAMILIES.keys())
def field(request):
    family, n_nodes, n_labels = request.param()
    random = np.random.default_rng(5)
    return family, enumerated(family, n_nodes, n_labels), random.normal(size=(2, family.n_statistics))


def test_a_field_is_the_family_of_its_labellings(field):
    family, finite, (theta, other) = field
    np.testing.assert_allclose(family.log_partition(theta), finite.log_partition(theta), rtol=1e-12)
    np.testing.assert_allclose(family.mean(theta), finite.mean(theta), atol=1e-12)
    np.testing.assert_allclose(family.covariance(theta), finite.covariance(theta), atol=1e-12)
    np.testing.assert_allclose(
        family.covariance_product(theta, other), finite.covariance_product(theta, other), atol=1e-12
    )
    np.testing.assert_allclose(family.entropy(theta), finite.entropy(theta), rtol=1e-10)
    np.testing.assert_allclose(family.divergence(theta, other), finite.divergence(theta, other), rtol=1e-10)


def test_marginals_have_natural_parameters_with_the_same_distribution(field):
    family, finite, (theta, _) = field
    mean = family.mean(theta)
    found = family.natural_parameters(mean)
    np.testing.assert_allclose(family.mean(found), mean, atol=1e-8)
    np.testing.assert_allclose(finite.probabilities(found), finite.probabilities(theta), atol=1e-6)
    np.testing.assert_allclose(family.conjugate(mean), -family.entropy(theta), rtol=1e-8)
    np.testing.assert_allclose(finite.conjugate(mean), -finite.entropy(theta), rtol=1e-8)


def test_entropy_of_chains_is_that_of_their_labellings():
    family = chains(OFFSETS, 3)
    theta = np.random.default_rng(0).normal(size=family.n_statistics)
    entropies = enumerate_chain(*family.unpack(theta).arrays, OFFSETS).entropy
    np.testing.assert_allclose(family.entropy(theta), entropies.sum(), rtol=1e-12)


def test_forbidden_labels_leave_entropy_and_divergence_finite():
    """A mean of 0 times a potential of minus infinity is nothing."""
    family = chains([0, 2], 2)
    free = np.zeros(family.n_statistics)
    bound = free.copy()
    bound[0] = -np.inf
    np.testing.assert_allclose(family.entropy(bound), np.log(2))
    np.testing.assert_allclose(family.divergence(bound, free), np.log(2))
    assert family.divergence(free, bound) == np.inf


def test_marginals_that_are_none_have_no_natural_parameters():
    family = chains([0, 2], 2)
    certain = family.pack(Potentials(np.array([[1.0, 0.0], [0.5, 0.5]]), {EDGE: np.array([[[0.5, 0.5], [0.0, 0.0]]])}))
    with pytest.raises(NoEstimate, match="boundary"):
        family.natural_parameters(certain)
    wrong = family.pack(Potentials(np.array([[0.9, 0.6], [0.5, 0.5]]), {EDGE: np.full((1, 2, 2), 0.25)}))
    with pytest.raises(NoEstimate, match="mean of a distribution"):
        family.natural_parameters(wrong)


def test_shapes_and_methods_are_checked():
    with pytest.raises(ValueError, match="n_labels"):
        chains([0, 2], 0)
    with pytest.raises(ValueError, match="expected arrays of shapes"):
        chains([0, 2], 2).pack(Potentials(np.zeros((2, 2)), {EDGE: np.zeros((2, 2, 2))}))
    with pytest.raises(ValueError, match="exact inference"):
        graphs(SQUARE, 2, method="loopy")
    with pytest.raises(ValueError, match="expected arrays of shapes"):
        graphs(SQUARE, 2).pack(Potentials(np.zeros((4, 2)), {"0": np.zeros((4, 2, 2))}))


def test_long_chains_have_natural_parameters():
    """Many potentials give one distribution, and rounding must not lead the search astray between them."""
    family = chains([0, 100], 3)
    theta = np.random.default_rng(0).normal(size=family.n_statistics)
    mean = family.mean(theta)
    found = family.natural_parameters(mean)
    np.testing.assert_allclose(family.mean(found), mean, atol=1e-9)
    np.testing.assert_allclose(family.entropy(found), family.entropy(theta), rtol=1e-9)
    np.testing.assert_allclose(family.divergence(theta, found), 0.0, atol=1e-9)
