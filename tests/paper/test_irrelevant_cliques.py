"""Section 4: cliques without labels do not matter for p(y | x) (Lemma 12)."""

import numpy as np
from small_fields import KERNEL, as_lists

from kernelfields import ChainCRF, EdgeCliques, NodeCliques
from tests.arrays import infer_chains
from tests.oracles.labellings import all_labellings
from tests.samples import random_chains


def marginals(cliques, X, y):
    crf = ChainCRF(cliques=cliques, solver="newton", tol=1e-14, dtype="float64", n_jobs=1).fit(X, y)
    nodes, edges = crf.predict_marginals(X, cliques="edge")
    return crf.solution_.value, np.vstack(nodes), np.vstack(edges)


def test_lemma_12_a_function_of_the_inputs_alone_cancels():
    """Adding f(x_t) to every label's potential, and h(x_t) to every step's, shifts log Z and nothing else."""
    random = np.random.default_rng(0)
    offsets = np.array([0, 3, 7])
    node, edge = random.normal(size=(7, 3)), random.normal(size=(7, 3, 3))
    shift_node, shift_edge = random.normal(size=(2, 7))
    plain = infer_chains(node, edge, offsets)
    shifted = infer_chains(node + shift_node[:, None], edge + shift_edge[:, None, None], offsets)
    np.testing.assert_allclose(shifted.node_marginals, plain.node_marginals, rtol=1e-12)
    np.testing.assert_allclose(shifted.edge_marginals(), plain.edge_marginals(), rtol=1e-12, atol=1e-15)
    steps = np.where(np.isin(np.arange(7), offsets[:-1]), 0.0, shift_edge)
    total = np.add.reduceat(shift_node + steps, offsets[:-1])
    np.testing.assert_allclose(shifted.log_partition - plain.log_partition, total, rtol=1e-12)


def test_lemma_12_whole_labellings_keep_their_probabilities():
    """p(y | x) of every labelling, under a field and under the same with a function of the inputs alone, k_y = 1."""
    X, y = as_lists(random_chains((3, 4, 2)))
    relevant = [NodeCliques(KERNEL, basis="all"), EdgeCliques()]
    irrelevant = NodeCliques(KERNEL, basis="all", label_kernel=np.ones((3, 3)), prior_variance=9.0, name="inputs only")
    options = {"solver": "newton", "tol": 1e-14, "dtype": "float64", "n_jobs": 1}
    plain = ChainCRF(cliques=relevant, **options).fit(X, y)
    both = ChainCRF(cliques=[*relevant, irrelevant], **options).fit(X, y)
    new = np.random.default_rng(1).normal(size=(3, 2))
    labellings = all_labellings(3, 3)
    one, other = (crf.log_likelihood([new] * 27, list(labellings), per_item=True) for crf in (plain, both))
    np.testing.assert_allclose(np.exp(one).sum(), 1.0, rtol=1e-12)
    np.testing.assert_allclose(other, one, atol=1e-11)
    assert np.ptp(one) > 0.1


def test_lemma_12_an_input_only_clique_set_adds_nothing_to_the_estimate():
    """k_y = 1 makes a set whose potential is the same for all labels: it has no coefficients to estimate."""
    X, y = as_lists(random_chains((3, 4, 2)))
    relevant = [NodeCliques(KERNEL, basis="all"), EdgeCliques()]
    irrelevant = NodeCliques(KERNEL, basis="all", label_kernel=np.ones((3, 3)), name="inputs only")
    without, with_it = marginals(relevant, X, y), marginals([*relevant, irrelevant], X, y)
    for one, other in zip(without, with_it, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-14)


def test_lemma_12_an_input_only_part_of_a_kernel_is_dropped():
    """It suffices to study the kernel over cliques with labels: k_y and k_y + c give one and the same MAP."""
    X, y = as_lists(random_chains((3, 4, 2)))
    label_kernel = np.array([[2.0, 0.5, 0.0], [0.5, 1.0, 0.3], [0.0, 0.3, 1.5]])
    one = marginals([NodeCliques(KERNEL, basis="all", label_kernel=label_kernel), EdgeCliques()], X, y)
    other = marginals([NodeCliques(KERNEL, basis="all", label_kernel=label_kernel + 3.0), EdgeCliques()], X, y)
    np.testing.assert_allclose(one[0], other[0], rtol=1e-12)
    np.testing.assert_allclose(one[1], other[1], atol=1e-9)
    np.testing.assert_allclose(one[2], other[2], atol=1e-9)
