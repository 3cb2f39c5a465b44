"""Sections 3 and 4: statistics, kernels and minimisers decompose over cliques (Lemmas 5 and 6, Corollary 8)."""

from collections import Counter
from itertools import pairwise

import numpy as np
from small_fields import KERNEL, tied_field, untied_field

from kernelfields.data import Chains
from kernelfields.kernels import Polynomial
from tests.samples import random_chains


def node_cliques(inputs, labels):
    """(x_t, y_t) for every t."""
    return list(zip(inputs, labels, strict=True))


def edge_cliques(labels):
    """(y_{t-1}, y_t) for every t > 0."""
    return list(pairwise(labels))


def node_kernel(one, other):
    return KERNEL(one[0][None], other[0][None])[0, 0] * (one[1] == other[1])


def all_members(field):
    """Every (x^i, y): its inputs, its labels, its statistics."""
    for i, phi in enumerate(field.statistics):
        inputs = field.chains.inputs[field.chains.offsets[i] : field.chains.offsets[i + 1]]
        for labels, statistic in zip(field.labellings(i), phi, strict=True):
            yield inputs, labels.tolist(), statistic


def discrete_chains(n_labels, lengths=(3, 2, 3), seed=0):
    """Chains whose inputs take three values only, so that clique configurations repeat."""
    chains = random_chains(lengths, n_labels, seed=seed)
    values = np.array([[0.0, 0.0], [1.0, 0.5], [-0.5, 1.5]])
    kinds = np.random.default_rng(seed).integers(0, 3, chains.n_positions)
    return Chains(values[kinds], chains.offsets, chains.labels)


def test_lemma_5_kernel_of_untied_cliques_sums_over_matching_cliques():
    """Eq. 10: k(z, z') = sum_C k_C(z_C, z'_C) when every clique has statistics of its own."""
    members = list(all_members(untied_field(n_sequences=2, length=3)))
    gram = np.array([[one[2] @ other[2] for other in members] for one in members])
    sums = np.array(
        [
            [
                sum(map(node_kernel, node_cliques(*one[:2]), node_cliques(*other[:2])))
                + sum(a == b for a, b in zip(edge_cliques(one[1]), edge_cliques(other[1]), strict=True))
                for other in members
            ]
            for one in members
        ]
    )
    np.testing.assert_allclose(gram, sums, atol=1e-12)


def test_lemma_5_kernel_of_tied_cliques_sums_over_all_pairs():
    """Tied: k(z, z') = sum over sets of the sum over all pairs (C, C') of cliques in the set."""
    members = list(all_members(tied_field(random_chains((3, 2), n_labels=2), 2)))
    gram = np.array([[one[2] @ other[2] for other in members] for one in members])
    sums = np.array(
        [
            [
                sum(node_kernel(a, b) for a in node_cliques(*one[:2]) for b in node_cliques(*other[:2]))
                + sum(a == b for a in edge_cliques(one[1]) for b in edge_cliques(other[1]))
                for other in members
            ]
            for one in members
        ]
    )
    np.testing.assert_allclose(gram, sums, atol=1e-12)
    matching = sum(map(node_kernel, node_cliques(*members[0][:2]), node_cliques(*members[0][:2])))
    assert gram[0, 0] > matching + len(edge_cliques(members[0][1])) + 1.0  # eq. 10 alone would give this


def test_lemma_6_expansion_needs_one_coefficient_per_configuration():
    """Eq. 11, untied: sum_i alpha_i k(z^i, z) = sum_C sum_w abar_C^w k_C(w, z_C)."""
    random = np.random.default_rng(0)
    kinds = random.integers(0, 3, size=(40, 3))  # forty sequences of three positions
    labels = random.integers(0, 2, size=(40, 3))
    gram = KERNEL(np.array([[0.0, 0.0], [1.0, 0.5], [-0.5, 1.5]]))
    alpha = random.normal(size=40)

    def whole_kernel(i, j):
        nodes = sum(gram[kinds[i, t], kinds[j, t]] * (labels[i, t] == labels[j, t]) for t in range(3))
        return nodes + sum(np.array_equal(labels[i, t - 1 : t + 1], labels[j, t - 1 : t + 1]) for t in (1, 2))

    node_weights, edge_weights = Counter(), Counter()
    for i in range(40):
        for t in range(3):
            node_weights[t, kinds[i, t], labels[i, t]] += alpha[i]
            if t > 0:
                edge_weights[t, labels[i, t - 1], labels[i, t]] += alpha[i]
    assert len(node_weights) <= 3 * 3 * 2
    assert len(edge_weights) <= 2 * 4
    for j in range(5):
        left = sum(alpha[i] * whole_kernel(i, j) for i in range(40))
        right = sum(
            weight * gram[kind, kinds[j, t]] * (label == labels[j, t])
            for (t, kind, label), weight in node_weights.items()
        ) + sum(edge_weights[t, labels[j, t - 1], labels[j, t]] for t in (1, 2))
        np.testing.assert_allclose(left, right, rtol=1e-12)


def test_lemma_6_tied_expansion_pools_positions():
    """Eq. 11, tied: abar^w also sums over the positions at which z^i takes the configuration w."""
    field = tied_field(random_chains((3, 2, 3), n_labels=2), 2)
    random = np.random.default_rng(1)
    members = list(all_members(field))
    alpha = random.normal(size=len(members))
    theta = sum(weight * statistic for weight, (_, _, statistic) in zip(alpha, members, strict=True))
    node_weights, edge_weights = Counter(), Counter()
    for weight, (inputs, labels, _) in zip(alpha, members, strict=True):
        for x, y in node_cliques(inputs, labels):
            node_weights[tuple(x), y] += weight
        for pair in edge_cliques(labels):
            edge_weights[pair] += weight
    assert len(node_weights) == 8 * 2  # eight positions, two labels
    assert len(edge_weights) == 2 * 2
    for inputs, labels, statistic in members:
        right = sum(
            weight * node_kernel((np.array(x), y), clique)
            for (x, y), weight in node_weights.items()
            for clique in node_cliques(inputs, labels)
        ) + sum(edge_weights[pair] for pair in edge_cliques(labels))
        np.testing.assert_allclose(theta @ statistic, right, rtol=1e-10)


def quadratic_features(inputs):
    """phi with phi(x) . phi(x') = (1 + x . x')^2, for two inputs."""
    a, b = inputs.T
    return np.stack([np.ones_like(a), np.sqrt(2) * a, np.sqrt(2) * b, a**2, b**2, np.sqrt(2) * a * b], axis=1)


def test_corollary_8_minimiser_is_an_expansion_over_clique_configurations():
    """The MAP in a six-dimensional feature space lies in the span of the three inputs that occur."""
    n_labels, node_variance, edge_variance = 3, 1.7, 0.6
    chains = discrete_chains(n_labels)
    features = quadratic_features(chains.inputs)
    field = tied_field(chains, n_labels, node_variance, edge_variance, features)
    theta = field.minimiser()
    node_map, edge_map = field.posterior.split(theta)
    inputs, kind = np.unique(chains.inputs, axis=0, return_inverse=True)
    beliefs = field.posterior.at(theta).evaluation.member

    node_weights = np.zeros((len(inputs), n_labels))
    np.add.at(node_weights, kind, node_variance * (np.eye(n_labels)[chains.labels] - beliefs.marginals()))
    np.testing.assert_allclose(node_map, quadratic_features(inputs).T @ node_weights, atol=1e-11)

    steps = np.flatnonzero(~chains.is_start)
    edge_weights = np.zeros((n_labels, n_labels))
    np.add.at(edge_weights, (chains.labels[steps - 1], chains.labels[steps]), edge_variance)
    edge_weights -= edge_variance * beliefs.marginals("edge").sum(axis=0)
    np.testing.assert_allclose(edge_map.reshape(n_labels, n_labels), edge_weights, atol=1e-11)

    gram = Polynomial(2, gamma=1.0, coef0=1.0)(inputs, chains.inputs)
    potentials = field.posterior.potentials(theta).node
    np.testing.assert_allclose(potentials, gram.T @ node_weights, atol=1e-11)
