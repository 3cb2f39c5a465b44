"""The objective and its derivatives against enumeration and finite differences, for every kind of field."""

import numpy as np
import pytest
import scipy.sparse as sp

from kernelfields.data import Chains, resolve_constraints
from kernelfields.objective import Direction, LogPosterior
from tests.oracles.chains import enumerate_chain
from tests.samples import chain_datafit, design_of

N_LABELS = 3
LENGTHS = (1, 3, 2, 4)
OFFSETS = np.concatenate([[0], np.cumsum(LENGTHS)])
LABELS = np.array([0, 2, 2, 1, 0, 1, 2, 0, 0, 1])
STEPS = np.flatnonzero(~np.isin(np.arange(10), OFFSETS[:-1]))
MASKS = resolve_constraints({"transitions": [(0, 2), (1, 1)], "start": [1], "end": [2]}, np.arange(3))


def clique_features(name, features, positions=None, labels=1, variance=1.0, factor=None):
    return design_of(
        name,
        features,
        positions=positions,
        labels_per_clique=labels,
        n_labels=N_LABELS,
        prior_variance=variance,
        label_factor=factor,
    )


def build(kind):
    """A posterior over ten positions in four sequences."""
    rng = np.random.default_rng(0)
    dense = rng.normal(size=(10, 4))
    weights = rng.uniform(0.2, 3.0, size=4) if "weights" in kind else np.ones(4)
    factor = rng.normal(size=(3, 2)) if "label kernel" in kind else None
    pair_factor = rng.normal(size=(9, 4)) if "label kernel" in kind else None
    sparse = sp.csr_array(dense * (rng.random(dense.shape) < 0.5))
    designs = [clique_features("node", sparse if "sparse" in kind else dense, variance=0.7, factor=factor)]
    if "two node sets" in kind:
        designs.append(clique_features("more", rng.normal(size=(10, 2)), variance=2.0))
        designs.append(clique_features("bias", None, variance=0.5))
    if "seen edges" in kind:
        seen = rng.normal(size=(len(STEPS), 2))
        designs.append(clique_features("seen", sp.csr_array(seen) if "sparse" in kind else seen, STEPS, 2, 0.4))
    if "no edges" not in kind:
        designs.append(clique_features("edge", None, STEPS, 2, 3.0, pair_factor))
    if "ends" in kind:
        designs.append(clique_features("start", None, OFFSETS[:-1], variance=1.5))
        designs.append(clique_features("end", rng.normal(size=(4, 2)), OFFSETS[1:] - 1))
    chains = Chains(dense, OFFSETS, LABELS, weights)
    masks = MASKS if "constraints" in kind else None
    posterior = LogPosterior(chain_datafit(chains, designs, N_LABELS, masks=masks))
    return posterior, masks, rng.normal(size=posterior.size), rng.normal(size=posterior.size)


KINDS = [
    "plain",
    "no edges",
    "seen edges",
    "ends",
    "two node sets",
    "label kernel",
    "weights",
    "constraints",
    "sparse",
    "sparse seen edges weights constraints ends",
    "label kernel seen edges two node sets weights ends",
]


def as_dense(features):
    return features.toarray() if sp.issparse(features) else features


def spelled_out(posterior, theta):
    """Node (N, L) and edge (N, L, L) potentials, position by position."""
    node, edge = np.zeros((10, 3)), np.zeros((10, 3, 3))
    for each, V in zip(posterior.datafit.designs, posterior.blocks.split(theta), strict=True):
        A = np.eye(each.n_configurations) if each.term.label_factor is None else each.term.label_factor
        positions = range(10) if each.positions is None else each.positions
        for row, t in enumerate(positions):
            z = np.ones(1) if each.features is None else as_dense(each.features)[row]
            scores = A @ (V.T @ z)
            if each.labels_per_clique == 2:
                edge[t] += scores.reshape(3, 3)
            else:
                node[t] += scores
    return node, edge


def pulled_back(posterior, node, edge):
    """The adjoint of ``spelled_out``, as one vector."""
    parts = []
    for each in posterior.datafit.designs:
        A = np.eye(each.n_configurations) if each.term.label_factor is None else each.term.label_factor
        part = np.zeros(each.shape)
        positions = range(10) if each.positions is None else each.positions
        for row, t in enumerate(positions):
            z = np.ones(1) if each.features is None else as_dense(each.features)[row]
            part += np.outer(z, A.T @ (edge[t].ravel() if each.labels_per_clique == 2 else node[t]))
        parts.append(part.ravel())
    return np.concatenate(parts)


def by_enumeration(posterior, masks, theta, vector):
    """Value, gradient and Hessian times vector from the list of all labellings."""
    node, edge = spelled_out(posterior, theta)
    weights = posterior.datafit.likelihood.data.position_weights
    allowed_node, allowed_edge = node.copy(), edge
    if masks is not None:
        masks.apply(allowed_node, OFFSETS)
        allowed_edge = edge + masks.edge
    oracle = enumerate_chain(allowed_node, allowed_edge, OFFSETS)
    observed_node, observed_edge = np.eye(3)[LABELS], np.zeros((10, 3, 3))
    observed_edge[STEPS, LABELS[STEPS - 1], LABELS[STEPS]] = 1.0
    score = np.sum(weights * np.sum(observed_node * node, axis=1))
    score += np.sum(weights * np.sum(observed_edge * edge, axis=(1, 2)))
    prior = posterior.prior_precision * theta
    value = posterior.datafit.likelihood.data.weights @ oracle.log_partition - score + 0.5 * theta @ prior
    gradient = prior + pulled_back(
        posterior,
        weights[:, None] * (oracle.node_marginals - observed_node),
        weights[:, None, None] * (oracle.edge_marginals - observed_edge),
    )
    d_node, d_edge = oracle.hessian_product(*spelled_out(posterior, vector))
    product = posterior.prior_precision * vector
    product += pulled_back(posterior, weights[:, None] * d_node, weights[:, None, None] * d_edge)
    return value, gradient, product


@pytest.mark.parametrize("kind", KINDS)
def test_a_line_is_the_objective_on_it(kind):
    posterior, _, theta, vector = build(kind)
    point = posterior.make_point(theta)
    line = posterior.make_line(point, Direction(vector))
    np.testing.assert_allclose(line.slope, point.gradient @ vector, rtol=1e-13)
    for step in (0.0, 0.3, -2.0):
        there = posterior.make_point(theta + step * vector)
        value, slope = line(step)
        np.testing.assert_allclose(value, there.value, rtol=1e-12)
        np.testing.assert_allclose(slope, there.gradient @ vector, rtol=1e-10, atol=1e-10)
        reached = line.point(step)
        np.testing.assert_allclose(reached.theta, there.theta, atol=1e-15)
        np.testing.assert_allclose(reached.value, there.value, rtol=1e-12)
        np.testing.assert_allclose(reached.gradient, there.gradient, atol=1e-11)
        np.testing.assert_allclose(reached.potentials.node, there.potentials.node, atol=1e-13)
    known = posterior.make_line(point, Direction(vector, posterior.potentials(vector)))
    assert known(0.7) == line(0.7)


def test_a_point_the_line_was_not_last_asked_about():
    posterior, _, theta, vector = build("plain")
    line = posterior.make_line(posterior.make_point(theta), Direction(vector))
    line(0.25)
    np.testing.assert_allclose(line.point(0.5).value, posterior.make_point(theta + 0.5 * vector).value, rtol=1e-12)


def test_a_line_leaves_the_finite_numbers_without_an_error():
    posterior, _, theta, vector = build("plain")
    line = posterior.make_line(posterior.make_point(theta), Direction(vector))
    with np.errstate(over="ignore", invalid="ignore"):
        assert line(1e308) == (np.inf, np.inf)
        with pytest.raises(ValueError, match=r"the objective is not finite at step 1e\+308"):
            line.point(1e308)


def test_released_beliefs_come_back():
    posterior, _, theta, vector = build("seen edges")
    point = posterior.make_point(theta)
    product, _ = posterior.hessian_product(point, vector)
    before = point.evaluation
    point.release()
    assert point.evaluation is not before
    np.testing.assert_array_equal(point.evaluation.residual.node, before.residual.node)
    np.testing.assert_array_equal(posterior.hessian_product(point, vector)[0], product)


def test_passes_count_products_with_features():
    posterior, _, theta, vector = build("seen edges")  # node holds 40 numbers, seen edges 12, edge none
    spent = []

    def cost(action):
        before = posterior.passes
        result = action()
        spent.append(posterior.passes - before)
        return result

    cost(lambda: posterior.make_point(np.zeros(posterior.size)))
    point = cost(lambda: posterior.make_point(theta))
    line = cost(lambda: posterior.make_line(point, Direction(vector)))
    cost(lambda: [line(step) for step in (0.1, 0.2, 0.3)])
    cost(lambda: line.point(0.3))
    _, potentials = cost(lambda: posterior.hessian_product(point, vector))
    cost(lambda: posterior.make_line(point, Direction(vector, potentials)))
    for index in range(3):
        only = np.zeros(posterior.size)
        only[posterior.blocks[index].rows] = vector[posterior.blocks[index].rows]
        cost(lambda only=only, index=index: posterior.hessian_product(point, only, only=(index,)))
    np.testing.assert_allclose(spent, [0.5, 1, 0.5, 0, 0.5, 1, 0, 40 / 52, 12 / 52, 0], atol=1e-12)


def test_blocks_name_the_parts_of_theta():
    posterior, _, theta, _ = build("label kernel seen edges ends")
    assert [block.name for block in posterior.blocks] == ["node", "seen", "edge", "start", "end"]
    assert [block.shape for block in posterior.blocks] == [(4, 2), (2, 9), (1, 4), (1, 3), (2, 3)]
    parts = posterior.blocks.split(theta)
    np.testing.assert_array_equal(posterior.blocks.flatten(parts), theta)
    gradient = posterior.make_point(theta).gradient
    bounds = posterior.gap_parts(posterior.make_point(theta))
    for part, block in zip(posterior.blocks.split(gradient), posterior.blocks, strict=True):
        np.testing.assert_allclose(bounds[block.name], block.prior_variance / 2 * np.sum(part**2), rtol=1e-14)
        np.testing.assert_array_equal(posterior.prior_precision[block.rows], 1 / block.prior_variance)


def test_a_weight_of_two_is_a_sequence_seen_twice():
    posterior, _, theta, _ = build("plain")
    chains, (node, edge) = posterior.datafit.likelihood.data, posterior.datafit.designs
    twice = Chains(chains.inputs, OFFSETS, LABELS, np.array([1.0, 2.0, 1.0, 1.0]))
    weighted = LogPosterior(chain_datafit(twice, [node, edge], N_LABELS)).make_point(theta)
    repeated = chains.subset([0, 1, 1, 2, 3])
    rows = np.concatenate([np.arange(4), np.arange(1, 10)])
    steps = np.flatnonzero(~repeated.is_start)
    designs = [
        clique_features("node", node.features[rows], variance=0.7),
        clique_features("edge", None, steps, 2, variance=3.0),
    ]
    plain = LogPosterior(chain_datafit(repeated, designs, N_LABELS)).make_point(theta)
    np.testing.assert_allclose(weighted.value, plain.value, rtol=1e-13)
    np.testing.assert_allclose(weighted.gradient, plain.gradient, atol=1e-12)


def test_the_reach_of_a_line_is_a_hundred_nats():
    posterior, _, theta, direction = build("plain")
    point = posterior.make_point(theta)
    line = posterior.make_line(point, Direction(direction))
    moved = posterior.potentials(direction)
    furthest = max(np.abs(moved.node).max(), np.abs(moved.edge).max())
    assert line.reach == pytest.approx(100.0 / furthest, rel=1e-12)
    assert posterior.make_line(point, Direction(np.zeros_like(direction))).reach == np.inf
