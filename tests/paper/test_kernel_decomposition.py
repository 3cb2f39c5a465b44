"""Sections 3 and 4: statistics, kernels and minimisers decompose over cliques (Lemmas 5 and 6, Corollary 8)."""

from collections import Counter
from itertools import pairwise

import numpy as np
from small_fields import KERNEL, as_lists, tied_field, untied_field

from kernelfields import ChainCRF, EdgeCliques
from kernelfields.data import Chains
from kernelfields.kernels import Polynomial
from tests.samples import potentials_of, random_chains


def node_cliques(inputs, labels):
    """(x_t, y_t) for every t."""
    return list(zip(inputs, labels, strict=True))


def edge_cliques(labels):
    """(y_{t-1}, y_t) for every t > 0."""
    return list(pairwise(labels))


def node_kernel(one, other):
    return KERNEL(one[0][None], other[0][None])[0, 0] * (one[1] == other[1])


def all_members(field):
    """Every (x^i, y): its inputs, its labels, its statistics as the library sees them."""
    for i in range(field.chains.n_sequences):
        phi = field.library_statistics(i)
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


def fitted_discrete(kernel, chains, node_variance=1.7, edge_variance=0.6):
    return ChainCRF(
        kernel,
        basis="all",
        prior_variance=node_variance,
        edges=EdgeCliques(prior_variance=edge_variance),
        solver="newton",
        tol=1e-14,
        dtype="float64",
        n_jobs=1,
    ).fit(*as_lists(chains))


def residuals_by_configuration(crf, chains, n_labels):
    """Observed minus expected counts of every (input, label) and of every pair of labels; the inputs that occur."""
    X, _ = as_lists(chains)
    inputs, kind = np.unique(chains.inputs, axis=0, return_inverse=True)
    nodes, pairs = crf.predict_marginals(X, cliques="edge")
    node_counts, edge_counts = np.zeros((len(inputs), n_labels)), np.zeros((n_labels, n_labels))
    np.add.at(node_counts, kind, np.eye(n_labels)[chains.labels] - np.vstack(nodes))
    for labels, expected in zip(chains.split(chains.labels), pairs, strict=True):
        np.add.at(edge_counts, (labels[:-1], labels[1:]), 1.0)
        edge_counts -= expected.sum(axis=0)
    return inputs, node_counts, edge_counts


def test_lemma_6_expansion_needs_one_coefficient_per_configuration():
    """Eq. 11: eight positions, three inputs; the fit holds three pivots, and alpha pools the positions of each."""
    chains = discrete_chains(3)
    crf = fitted_discrete(KERNEL, chains)
    inputs, node_counts, edge_counts = residuals_by_configuration(crf, chains, 3)
    subspace = crf.basis_["node"]
    assert subspace.rank == len(inputs) == 3 < chains.n_positions
    place = [int(np.flatnonzero((inputs == pivot).all(axis=1))[0]) for pivot in subspace.pivots]
    dual = subspace.dual_coefficients(crf.coef_["node"])
    np.testing.assert_allclose(dual, 1.7 * node_counts[place], atol=1e-9)
    np.testing.assert_allclose(crf.transitions_, 0.6 * edge_counts, atol=1e-9)


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
    # The potentials of theta, worked out by the library, are the pooled expansion.
    potentials = field.posterior.potentials(theta)
    for t, x in enumerate(field.chains.inputs):
        for label in range(2):
            expansion = sum(
                weight * node_kernel((np.array(w), y), (x, label)) for (w, y), weight in node_weights.items()
            )
            np.testing.assert_allclose(potentials.node[t, label], expansion, rtol=1e-9, atol=1e-11)
    for pair, weight in edge_weights.items():
        np.testing.assert_allclose(potentials.edge[0][pair], weight, rtol=1e-9, atol=1e-11)


def quadratic_features(inputs):
    """phi with phi(x) . phi(x') = (1 + x . x')^2, for two inputs."""
    a, b = inputs.T
    return np.stack([np.ones_like(a), np.sqrt(2) * a, np.sqrt(2) * b, a**2, b**2, np.sqrt(2) * a * b], axis=1)


def test_corollary_8_minimiser_is_an_expansion_over_clique_configurations():
    """The MAP of a kernel of six dimensions, at inputs not seen before, expands over the three inputs that occur."""
    chains, kernel = discrete_chains(3), Polynomial(2, gamma=1.0, coef0=1.0)
    crf = fitted_discrete(kernel, chains)
    inputs, node_counts, edge_counts = residuals_by_configuration(crf, chains, 3)
    new = np.random.default_rng(5).normal(size=(7, 2))
    node, edge = potentials_of(crf, Chains(new, np.array([0, 3, 7])))
    np.testing.assert_allclose(node, kernel(new, inputs) @ (1.7 * node_counts), atol=1e-5)
    np.testing.assert_allclose(
        node, quadratic_features(new) @ quadratic_features(inputs).T @ (1.7 * node_counts), atol=1e-5
    )
    np.testing.assert_allclose(edge[0], 0.6 * edge_counts, atol=1e-5)
