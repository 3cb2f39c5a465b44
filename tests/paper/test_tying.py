"""Section 5.2: cliques that share one potential (eq. 25-27), and one prior per clique set."""

import numpy as np
import pytest
from small_fields import KERNEL, as_lists, small_field, tied_field, untied_field

from kernelfields import ChainCRF, EdgeCliques, NodeCliques
from tests.oracles.labellings import all_labellings
from tests.samples import random_chains

LENGTH, N_LABELS = 3, 2


@pytest.fixture
def fields():
    untied = untied_field(n_sequences=3, length=LENGTH, n_labels=N_LABELS)
    return untied, tied_field(untied.chains, N_LABELS)


def replication(untied, tied):
    """The 0/1 matrix of eq. 26: theta = E (theta_xy, theta_y)."""
    node, edge = tied.posterior.blocks
    matrix = np.zeros((untied.size, tied.size))
    for block in untied.posterior.blocks:
        source = node if block.name.startswith("node") else edge
        matrix[block.rows, source.rows] = np.eye(source.rows.stop - source.rows.start)
    return matrix


def test_equation_25_cliques_are_labels_with_inputs_and_neighbours():
    """NodeCliques and EdgeCliques: T cliques (x_t, y_t) and T - 1 cliques (y_t, y_t+1) in a sequence of T, no others.

    log p(y | x) has mixed differences in neighbours alone, the same at every t, and y_t meets x_t alone.
    """
    X, y = as_lists(random_chains((5, 4, 1, 3), n_labels=2))
    crf = ChainCRF(KERNEL, basis="all", edges=EdgeCliques(), tol=1e-10, max_iter=2000, n_jobs=1).fit(X, y)
    field = small_field([NodeCliques(KERNEL), EdgeCliques()], random_chains((5, 4, 1, 3), n_labels=2), 2)
    counts = [[len(list(field.cliques(each, i))) for i in range(4)] for each in field.designs]
    assert counts == [[5, 4, 1, 3], [4, 3, 0, 2]]
    new = np.random.default_rng(3).normal(size=(4, 2))
    labellings = all_labellings(4, 2)

    def log_probabilities(inputs):
        logs = crf.log_likelihood([inputs] * 16, list(labellings), per_item=True)
        table = np.zeros((2,) * 4)
        table[tuple(labellings.T)] = logs
        return table

    def mixed(table, s, t):
        return np.diff(np.diff(table, axis=s), axis=t)

    table = log_probabilities(new)
    coupling = np.diff(np.diff(crf.transitions_, axis=0), axis=1).item()
    assert abs(coupling) > 1e-3
    for s in range(4):
        for t in range(s + 1, 4):
            np.testing.assert_allclose(mixed(table, s, t), coupling if t == s + 1 else 0.0, atol=1e-10)
    # Another x_2 moves the log-odds of y_2 given all other labels, and of no other label.
    other = new.copy()
    other[2] += 1.0
    change = log_probabilities(other) - table
    moves = [np.abs(np.diff(change, axis=t)).max() for t in range(4)]
    np.testing.assert_allclose(np.delete(moves, 2), 0.0, atol=1e-10)
    assert moves[2] > 1e-2


def test_equations_26_and_27_replicate_the_parameters(fields):
    """Copies of theta_xy and theta_y at every position give the conditional distribution of the tied field."""
    untied, tied = fields
    theta = tied.random_theta()
    replicated = replication(untied, tied) @ theta
    ours, theirs = tied.posterior.potentials(theta), untied.posterior.potentials(replicated)
    np.testing.assert_allclose(theirs.node, ours.node, rtol=1e-12)
    steps = np.flatnonzero(~tied.chains.is_start)
    np.testing.assert_allclose(theirs.edge[steps], np.repeat(ours.edge, len(steps), axis=0), rtol=1e-12)
    np.testing.assert_allclose(
        untied.posterior.make_point(replicated).evaluation.member.marginals(),
        tied.posterior.make_point(theta).evaluation.member.marginals(),
        rtol=1e-12,
    )


def test_tied_likelihood_derivatives_sum_over_the_untied_ones(fields):
    """By the chain rule, E^T grad and E^T H E of the untied likelihood are those of the tied one."""
    untied, tied = fields
    matrix = replication(untied, tied)
    theta = tied.random_theta()
    point = untied.posterior.make_point(matrix @ theta)
    likelihood = point.gradient - untied.precision * point.theta
    ours = tied.posterior.make_point(theta).gradient - tied.precision * theta
    np.testing.assert_allclose(matrix.T @ likelihood, ours, rtol=1e-10, atol=1e-12)
    direction = tied.random_theta(2)
    product, _ = untied.posterior.hessian_product(point, matrix @ direction)
    product -= untied.precision * (matrix @ direction)
    mine, _ = tied.posterior.hessian_product(tied.posterior.make_point(theta), direction)
    mine -= tied.precision * direction
    np.testing.assert_allclose(matrix.T @ product, mine, rtol=1e-10, atol=1e-12)


def test_one_prior_per_set_is_the_literal_reading_with_another_variance(fields):
    """Replicated parameters have |C| times the squared norm: eq. 27-29 at s are one prior at s / |C|."""
    untied, tied = fields
    theta = tied.random_theta()
    literal = untied.value(replication(untied, tied) @ theta)
    counts = {"node": LENGTH, "edge": LENGTH - 1}
    rescaled = tied_field(untied.chains, N_LABELS, 0.8 / counts["node"], 0.5 / counts["edge"])
    np.testing.assert_allclose(literal, rescaled.posterior.make_point(theta).value, rtol=1e-12)
    assert literal > tied.posterior.make_point(theta).value + 0.1


def test_the_prior_does_not_grow_with_the_data():
    """The estimator has one prior per set: cutting nothing but adding sequences adds only likelihood."""
    chains = random_chains((3, 2, 4))
    X, y = as_lists(chains)
    crf = ChainCRF(KERNEL, basis="all", prior_variance=0.9, solver="newton", tol=1e-12, n_jobs=1).fit(X, y)
    prior = sum(np.vdot(each.coefficients, each.coefficients) for each in crf.field_.terms) / (2 * 0.9)
    np.testing.assert_allclose(crf.solution_.value, prior - crf.log_likelihood(X, y), rtol=1e-12)


def test_repeating_every_sequence_is_doubling_the_variance():
    """The likelihood is a sum: data twice over at s has the minimiser of the data at 2 s."""
    X, y = as_lists(random_chains((3, 2, 4)))
    options = {"basis": "all", "solver": "newton", "tol": 1e-14, "n_jobs": 1}
    once = ChainCRF(KERNEL, prior_variance=1.0, **options).fit(X, y)
    twice = ChainCRF(KERNEL, prior_variance=0.5, **options).fit(X + X, y + y)
    np.testing.assert_allclose(twice.solution_.value, 2 * once.solution_.value, rtol=1e-12)
    np.testing.assert_allclose(np.vstack(once.predict_marginals(X)), np.vstack(twice.predict_marginals(X)), atol=1e-9)
