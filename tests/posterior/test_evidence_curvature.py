"""Hessians and third derivatives by blocks of directions against products one by one and finite differences."""

import numpy as np
import pytest

from kernelfields import EdgeCliques, NodeCliques
from kernelfields.data import Chains, resolve_constraints
from kernelfields.kernels import RBF, Columns
from kernelfields.numerics import Workers
from kernelfields.objective import LogPosterior
from kernelfields.objective.curvature import (
    BlockedChains,
    _slopes_one_by_one,
    are_pairs_cheaper,
    has_blocked_passes,
    likelihood_hessian,
    trace_slopes,
)
from tests.samples import chain_sample, designs_on

FIELDS = {
    "one kernel": [NodeCliques(RBF(0.6), rank=6, prior_variance=2.0), EdgeCliques(prior_variance=0.8)],
    "two kernels": [
        NodeCliques(Columns(RBF(0.5), 0, 1) + Columns(RBF(0.2), 1, 2), rank=4, prior_variance=(0.5, 4.0)),
        EdgeCliques(),
    ],
    "label kernel": [NodeCliques("linear"), EdgeCliques(label_kernel="centred")],
    "labels alone": [NodeCliques(RBF(0.6), rank=6)],
}


def point_of(cliques, *, constraints=None, n_jobs=1, edge_kernel=False):
    """A point of a field on chains of lengths one to nine, with weights and more labels than needed."""
    random = np.random.default_rng(0)
    lengths = [1, 9, 4, 6, 1, 5, 7]
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    labels = np.arange(offsets[-1]) % 4
    chains = Chains(random.normal(size=(offsets[-1], 2)), offsets, labels, random.uniform(0.5, 2.0, len(lengths)))
    if edge_kernel:
        cliques = [*cliques, EdgeCliques(RBF(0.3), rank=2, name="seen")]
    masks = resolve_constraints(constraints, np.arange(4))
    sample = chain_sample(chains, 4, masks=masks, workers=Workers(n_jobs))
    posterior = LogPosterior(sample.datafit(designs_on(sample, cliques)))
    return posterior.make_point(random.normal(size=posterior.size))


def by_single_products(point):
    """The Hessian of the likelihood, column by column."""
    posterior = point.posterior
    columns = [posterior.hessian_product(point, unit)[0] for unit in np.eye(posterior.size)]
    return np.array(columns) - np.diag(posterior.prior_precision)


def half_trace(point, roots, signs, potentials):
    """(1/2) sum_k sign_k d_k^T Cov d_k at other potentials."""
    posterior = point.posterior
    evaluation = posterior.datafit.evaluate(potentials)
    directions = [posterior.potentials(root) for root in roots]
    return 0.5 * sum(
        sign * posterior.datafit.hessian_response(evaluation, each).dot(each)
        for sign, each in zip(signs, directions, strict=True)
    )


@pytest.mark.parametrize("name", FIELDS)
@pytest.mark.parametrize("n_jobs", [1, 2])
@pytest.mark.parametrize("from_pairs", [False, True])
def test_the_hessian_in_blocks_is_that_of_single_products(name, n_jobs, from_pairs):
    point = point_of(FIELDS[name], n_jobs=n_jobs)
    assert has_blocked_passes(point.posterior)
    expected, chains = by_single_products(point), BlockedChains(point)
    chains.from_pairs = from_pairs
    np.testing.assert_allclose(chains.hessian(), expected, atol=1e-12 * np.abs(expected).max())
    np.testing.assert_allclose(likelihood_hessian(point), expected, atol=1e-12 * np.abs(expected).max())


@pytest.mark.parametrize("from_pairs", [False, True])
def test_labels_of_probability_zero_are_no_trouble(from_pairs):
    point = point_of(FIELDS["one kernel"], constraints={"transitions": [(0, 0), (3, 2)], "start": [3]})
    assert (point.evaluation.member.marginals("edge")[:, 0, 0] == 0.0).all()
    expected, chains = by_single_products(point), BlockedChains(point)
    chains.from_pairs = from_pairs
    np.testing.assert_allclose(chains.hessian(), expected, atol=1e-12 * np.abs(expected).max())
    roots = np.random.default_rng(1).normal(size=(5, point.posterior.size))
    found = trace_slopes(point, roots, np.ones(5), [0])
    single = _slopes_one_by_one(point, roots, np.ones(5), [0])
    for ours, theirs in zip(found.potentials.arrays, single.potentials.arrays, strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-6 * np.abs(theirs).max())


@pytest.mark.parametrize("name", FIELDS)
def test_slopes_in_blocks_are_those_of_single_products(name):
    point = point_of(FIELDS[name], n_jobs=2)
    roots = np.random.default_rng(1).normal(size=(300, point.posterior.size))
    signs = np.where(np.arange(300) % 3 == 0, -1.0, 1.0)
    found, single = trace_slopes(point, roots, signs, [0]), _slopes_one_by_one(point, roots, signs, [0])
    for ours, theirs in zip(found.potentials.arrays, single.potentials.arrays, strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-6 * np.abs(theirs).max())
    np.testing.assert_allclose(found.features[0], single.features[0], rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("edge_kernel", [False, True])
def test_slopes_are_derivatives_of_the_trace(edge_kernel):
    point = point_of(FIELDS["one kernel"], edge_kernel=edge_kernel)
    assert has_blocked_passes(point.posterior) != edge_kernel
    random = np.random.default_rng(2)
    roots, signs = random.normal(size=(4, point.posterior.size)), np.array([1.0, 1.0, -1.0, 1.0])
    slopes = trace_slopes(point, roots, signs, [])
    move = point.posterior.potentials(random.normal(size=point.posterior.size))
    ahead, behind = (half_trace(point, roots, signs, point.potentials.plus(h, move)) for h in (1e-5, -1e-5))
    assert slopes.potentials.dot(move) == pytest.approx((ahead - behind) / 2e-5, rel=1e-6)


def test_short_chains_are_taken_in_pairs_unless_factors_leave_few_labels():
    chains = BlockedChains(point_of(FIELDS["one kernel"]))
    assert chains.from_pairs  # 7 chains of at most nine positions, four labels
    assert not are_pairs_cheaper(np.array([30] * 10), 10, [10])
    assert are_pairs_cheaper(np.array([100] + [4] * 50_000), 26, [25])
    assert not are_pairs_cheaper(np.array([2000] + [4] * 50_000), 26, [25]), "one sequence would take 21 GB"
    few = [NodeCliques("linear", label_kernel=np.ones((4, 4))), EdgeCliques()]
    assert not BlockedChains(point_of(few)).from_pairs
