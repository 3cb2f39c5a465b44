"""Sections 5.1 and 5.2: gradient and Hessian seen through kernel values (eq. 23, 24, 28-30).

A probe Phi_C(x, y) is a clique configuration that need not occur in the sample. Its scalar products with the
gradient and the Hessian are computed twice: from the library's coordinates, and as sums of kernel values over
the sample with probabilities from enumeration.
"""

import numpy as np
import scipy.linalg
from small_fields import KERNEL, tied_field, untied_field

from kernelfields.basis import AllPoints, PanelCholesky
from kernelfields.solvers.newton import full_hessian
from tests.samples import random_chains

NODE_VARIANCE, EDGE_VARIANCE = 0.8, 0.5
PROBE_INPUTS = np.array([[0.3, -0.2], [1.1, 0.4]])


def coordinates(chains, inputs):
    """z(x) = R^-1 k(B, x) with all training inputs B as pivots, a row per input."""
    factor = np.linalg.cholesky(KERNEL(chains.inputs))
    return scipy.linalg.solve_triangular(factor, KERNEL(chains.inputs, inputs), lower=True).T


def node_probe(field, name, x, label):
    """Phi_C(x, y) of a node set as a vector in theta."""
    return _probe(field, name, coordinates(field.chains, x[None])[0], label)


def edge_probe(field, name, configuration):
    """Phi_C(a, b) of an edge set as a vector in theta."""
    return _probe(field, name, np.ones(1), configuration)


def _probe(field, name, z, configuration):
    block = next(block for block in field.posterior.blocks if block.name == name)
    vector = np.zeros(field.size)
    vector[block.rows] = np.outer(z, np.eye(block.shape[1])[configuration]).ravel()
    return vector


def all_probes(field):
    """(name, kernel, vector): probes of every set, with k_C(probe, .) as a function of (i, t, labellings)."""
    chains, n_labels = field.chains, field.n_labels
    for block, each in zip(field.posterior.blocks, field.designs, strict=True):
        if each.labels_per_clique == 1:
            for x in PROBE_INPUTS:
                for label in range(n_labels):

                    def kernel(i, t, labellings, x=x, label=label):
                        return KERNEL(x[None], chains.inputs[chains.offsets[i] + t][None])[0, 0] * (
                            labellings[:, t] == label
                        )

                    yield block.name, kernel, node_probe(field, block.name, x, label)
        else:
            for pair in range(n_labels**2):

                def kernel(i, t, labellings, pair=pair):
                    return 1.0 * (labellings[:, t - 1] * n_labels + labellings[:, t] == pair)

                yield block.name, kernel, edge_probe(field, block.name, pair)


def clique_positions(field, name):
    """(i, t) of every clique of a set."""
    each = next(each for each in field.designs if each.name == name)
    return [(i, t) for i in range(field.chains.n_sequences) for t, _ in field.cliques(each, i)]


def observed_labelling(field, i):
    return field.chains.labels[field.chains.offsets[i] : field.chains.offsets[i + 1]][None]


def gradient_by_kernels(field, theta, name, kernel, vector):
    """The right side of eq. 23 and 29; <probe, theta> / s is its last term, sum_j alpha_j k_C(probe, j) / s."""
    probabilities = field.probabilities(theta)
    observed = sum(kernel(i, t, observed_labelling(field, i))[0] for i, t in clique_positions(field, name))
    expected = sum(probabilities[i] @ kernel(i, t, field.labellings(i)) for i, t in clique_positions(field, name))
    variance = next(each.term.prior_variance for each in field.designs if each.name == name)
    return expected - observed + vector @ theta / variance


def covariance_by_kernels(field, theta, one, other, within_cliques=False):
    """sum_i Cov[sum_C k_C(probe, .), sum_C' k_C'(probe', .)]; with ``within_cliques`` only the terms C = C'."""
    total = 0.0
    for i, probabilities in enumerate(field.probabilities(theta)):
        labellings = field.labellings(i)
        left = [one[1](j, t, labellings) for j, t in clique_positions(field, one[0]) if j == i]
        right = [other[1](j, t, labellings) for j, t in clique_positions(field, other[0]) if j == i]
        pairs = zip(left, right, strict=True) if within_cliques else ((a, b) for a in left for b in right)
        for a, b in pairs:
            total += probabilities @ (a * b) - (probabilities @ a) * (probabilities @ b)
    return total


def test_last_term_of_equation_23_is_a_kernel_expansion():
    """<Phi_C(x, y), theta> = sum_j alpha_C^j k_C((x, y), (x_j, y_j)) for theta given by alpha at the pivots."""
    chains = random_chains()
    panel = PanelCholesky(KERNEL, chains.inputs, chains.n_positions)
    AllPoints().select(panel, np.random.default_rng(0))
    subspace = panel.subspace()
    alpha = np.random.default_rng(0).normal(size=(chains.n_positions, 3))
    coefficients = subspace.factor.T @ alpha
    expansion = KERNEL(PROBE_INPUTS, chains.inputs[subspace.indices]) @ alpha
    np.testing.assert_allclose(subspace.apply(PROBE_INPUTS, coefficients), expansion, rtol=1e-9)
    np.testing.assert_allclose(subspace.features(PROBE_INPUTS) @ coefficients, expansion, rtol=1e-9)
    # The same theta in a field: the potentials of all labels at the training inputs.
    field = tied_field(chains, 3, features=panel.features)
    potentials = field.posterior.potentials(np.concatenate([coefficients.ravel(), np.zeros(9)]))
    np.testing.assert_allclose(
        potentials.node, KERNEL(chains.inputs, chains.inputs[subspace.indices]) @ alpha, rtol=1e-9
    )


def test_equation_23_projected_gradient_of_untied_cliques():
    """Observed, expected and prior kernel sums at one clique give the projection of the gradient."""
    field = untied_field(n_sequences=3, length=3)
    theta = field.random_theta()
    gradient = field.posterior.make_point(theta).gradient
    for probe in all_probes(field):
        np.testing.assert_allclose(probe[2] @ gradient, gradient_by_kernels(field, theta, *probe), atol=1e-11)


def test_equation_24_projected_hessian_of_untied_cliques():
    """Covariances of kernel values between cliques, plus delta_CC' k_C / s."""
    field = untied_field(n_sequences=2, length=3)
    theta = field.random_theta()
    hessian = full_hessian(field.posterior.make_point(theta))
    probes = list(all_probes(field))
    variances = {each.name: each.term.prior_variance for each in field.designs}
    for one in probes[::3]:
        for other in probes[::2]:
            expected = covariance_by_kernels(field, theta, one, other)
            if one[0] == other[0]:
                expected += one[2] @ other[2] / variances[one[0]]
            np.testing.assert_allclose(one[2] @ hessian @ other[2], expected, atol=1e-11)
    matrix = np.array([[one[2] @ hessian @ other[2] for other in probes] for one in probes])
    assert np.linalg.eigvalsh(matrix)[0] > -1e-12


def test_equations_28_and_29_projected_gradient_of_tied_cliques():
    """Tied: the sums run over all cliques of the set, with one prior term for the set."""
    field = tied_field(random_chains((3, 1, 4)), 3, NODE_VARIANCE, EDGE_VARIANCE)
    theta = field.random_theta()
    gradient = field.posterior.make_point(theta).gradient
    for probe in all_probes(field):
        np.testing.assert_allclose(probe[2] @ gradient, gradient_by_kernels(field, theta, *probe), atol=1e-11)


def test_equation_30_block_keeps_covariances_within_cliques():
    """The block-Jacobi block is k / s plus the covariances of pairs of probes at one and the same clique."""
    field = tied_field(random_chains((3, 1, 4), n_labels=2), 2, NODE_VARIANCE, EDGE_VARIANCE)
    theta = field.random_theta()
    point = field.posterior.make_point(theta)
    for index, block in enumerate(field.posterior.blocks):
        matrix = field.posterior.curvature_block(point, index)
        probes = [probe for probe in all_probes(field) if probe[0] == block.name]
        for one in probes:
            for other in probes:
                prior = one[2] @ other[2] / block.prior_variance
                covariance = covariance_by_kernels(field, theta, one, other, within_cliques=True)
                projected = one[2][block.rows] @ matrix @ other[2][block.rows]
                np.testing.assert_allclose(projected, prior + covariance, atol=1e-11)


def test_equation_30_weighs_the_cliques_of_a_sequence_by_its_weight():
    """Weighted sequences count as often as their weights say, in sets with features and without."""
    field = tied_field(random_chains((3, 1, 4), n_labels=2, weighted=True), 2, NODE_VARIANCE, EDGE_VARIANCE)
    theta = field.random_theta()
    point = field.posterior.make_point(theta)
    for index in range(2):
        block = field.posterior.curvature_block(point, index)
        np.testing.assert_allclose(block, field.within_cliques(theta, index), atol=1e-11)


def test_equation_30_leaves_out_the_long_range_part():
    """Hessian block minus block-Jacobi block = covariances between different cliques of the set, not small."""
    field = tied_field(random_chains((3, 1, 4)), 3, NODE_VARIANCE, EDGE_VARIANCE)
    theta = field.random_theta()
    point = field.posterior.make_point(theta)
    hessian = full_hessian(point)
    for index, (each, block) in enumerate(zip(field.designs, field.posterior.blocks, strict=True)):
        kept = field.posterior.curvature_block(point, index)
        long_range = np.zeros_like(kept)
        for i, probabilities in enumerate(field.probabilities(theta)):
            cliques = [phi - probabilities @ phi for phi in field.clique_statistics(each, i)]
            for s, one in enumerate(cliques):
                for t, other in enumerate(cliques):
                    if s != t:
                        long_range += (one.T * probabilities) @ other
        np.testing.assert_allclose(hessian[block.rows, block.rows] - kept, long_range, atol=1e-11)
        assert np.abs(long_range).max() > 1e-2


def test_equation_30_is_exact_for_chains_of_length_one():
    """Without neighbours there are no long-range covariances."""
    field = tied_field(random_chains((1,) * 6), 3)
    point = field.posterior.make_point(field.random_theta())
    block = field.posterior.blocks[0]
    np.testing.assert_allclose(
        field.posterior.curvature_block(point, 0), full_hessian(point)[block.rows, block.rows], atol=1e-12
    )


def test_equation_30_dominates_the_hessian_up_to_the_number_of_cliques():
    """A sum of n statistics has at most n times the sum of their covariances: n = 2T - 1 cliques per chain."""
    length = 4
    field = tied_field(random_chains((length,) * 3, n_labels=2), 2)
    point = field.posterior.make_point(field.random_theta())
    engine, precision = field.posterior.datafit, np.diag(field.precision)
    kept = scipy.linalg.block_diag(*(engine.curvature.block(point.evaluation, index) for index in range(2)))
    difference = (2 * length - 1) * kept - (full_hessian(point) - precision)
    assert np.linalg.eigvalsh(difference)[0] > -1e-11
