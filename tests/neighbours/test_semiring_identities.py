"""What torch-struct's semirings promise, held against our passes: chains and trees as products of potentials.

A field is a sum over labellings in a semiring (plus, times). With (logsumexp, +) the sum is log Z, its gradient by
autograd the marginals and its second derivative their covariances; with (max, +) it is the best score, its gradient
the best labelling. Products of matrices may be bracketed in any way, so that a chain can be cut anywhere.
"""

import functools

import numpy as np
import pytest

from kernelfields.inference.chain.decoding import viterbi
from kernelfields.inference.tree.family import TreeFamily
from tests.arrays import (
    chain_entropy,
    decode_graphs,
    infer_chains,
    infer_graphs,
    n_best_chains,
    sample_chains,
    sample_graphs,
)
from tests.samples import chain_potentials

torch = pytest.importorskip("torch")

LENGTHS = (1, 2, 6, 3, 9)
SEMIRINGS = {"log": torch.logsumexp, "max": torch.amax}


def leaf(array):
    return torch.tensor(array, dtype=torch.float64, requires_grad=True)


def times(semiring, left, right):
    """The product of two matrices in a semiring."""
    return SEMIRINGS[semiring](left[:, :, None] + right[None], 1)


def step_matrices(node, edge, first, last):
    """One matrix per position of a chain: what it costs to come from one label to another."""
    rows = (node[first][None, :], *(edge[t if len(edge) > 1 else 0] + node[t][None] for t in range(first + 1, last)))
    return list(rows)


def total(semiring, node, edge, offsets):
    """The sum over labellings of each chain, (S,)."""
    sums = []
    for first, last in zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True):
        row = functools.reduce(functools.partial(times, semiring), step_matrices(node, edge, first, last))
        sums.append(SEMIRINGS[semiring](row, (0, 1)))
    return torch.stack(sums)


def chain(seed, tied, n_labels=3):
    rng = np.random.default_rng(seed)
    return chain_potentials(rng, n_labels, spread=2.0, tied=tied, lengths=LENGTHS)


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("seed", range(5))
def test_marginals_are_the_gradient_of_the_log_partition(seed, tied):
    node, edge, offsets = chain(seed, tied)
    beliefs = infer_chains(node, edge, offsets)
    nodes, edges = leaf(node), leaf(edge)
    log_partition = total("log", nodes, edges, offsets)
    np.testing.assert_allclose(beliefs.log_partition, log_partition.detach(), rtol=1e-12, atol=1e-12)
    gradient = torch.autograd.grad(log_partition.sum(), (nodes, edges), create_graph=True)
    np.testing.assert_allclose(beliefs.node_marginals, gradient[0].detach(), rtol=0, atol=1e-12)
    for ours, theirs in zip(beliefs.gradient(), gradient, strict=True):
        np.testing.assert_allclose(ours, theirs.detach(), rtol=0, atol=1e-11)
    rng = np.random.default_rng(seed)
    directions = rng.normal(size=node.shape), rng.normal(size=edge.shape)
    slope = sum((part * torch.tensor(each)).sum() for part, each in zip(gradient, directions, strict=True))
    second = torch.autograd.grad(slope, (nodes, edges))
    for ours, theirs in zip(beliefs.hessian_product(*directions), second, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-11)


@pytest.mark.parametrize("seed", range(5))
def test_the_best_labelling_is_the_gradient_of_the_best_score(seed):
    node, edge, offsets = chain(seed, tied=False)
    # Noise off the grid, so that the best labelling is the only one.
    node = node + 1e-3 * np.random.default_rng(seed).random(node.shape)
    labels, scores = viterbi(node, edge, offsets)
    nodes = leaf(node)
    best = total("max", nodes, torch.tensor(edge), offsets)
    np.testing.assert_allclose(scores, best.detach(), rtol=1e-12)
    (indicator,) = torch.autograd.grad(best.sum(), nodes)
    np.testing.assert_array_equal(np.eye(node.shape[1])[labels], indicator)
    assert (scores <= infer_chains(node, edge, offsets).log_partition).all()


@pytest.mark.parametrize("semiring", SEMIRINGS)
@pytest.mark.parametrize("seed", range(3))
def test_a_chain_may_be_cut_anywhere(semiring, seed):
    node, edge, offsets = chain(seed, tied=False)
    ours = infer_chains(node, edge, offsets).log_partition if semiring == "log" else viterbi(node, edge, offsets)[1]
    first, last = int(offsets[-2]), int(offsets[-1])
    matrices = step_matrices(torch.tensor(node), torch.tensor(edge), first, last)
    product = functools.partial(functools.reduce, functools.partial(times, semiring))
    for cut in range(1, last - first):
        halves = times(semiring, product(matrices[:cut]), product(matrices[cut:]))
        np.testing.assert_allclose(SEMIRINGS[semiring](halves, (0, 1)), ours[-1], rtol=1e-12)
    while len(matrices) > 1:  # the balanced tree of products that a parallel scan makes
        pairs = zip(matrices[::2], matrices[1::2], strict=False)
        matrices = [times(semiring, *pair) for pair in pairs] + matrices[len(matrices) - len(matrices) % 2 :]
    np.testing.assert_allclose(SEMIRINGS[semiring](matrices[0], (0, 1)), ours[-1], rtol=1e-12)


@pytest.mark.parametrize("seed", range(5))
def test_entropy_is_the_log_partition_less_the_expected_score(seed):
    node, edge, offsets = chain(seed, tied=False)
    nodes, edges = leaf(node), leaf(edge)
    log_partition = total("log", nodes, edges, offsets)
    entropies = []
    for value in log_partition:
        marginals = torch.autograd.grad(value, (nodes, edges), retain_graph=True)
        expected = sum((p * q).sum() for p, q in zip(marginals, (nodes, edges), strict=True))
        entropies.append(float((value - expected).detach()))
    np.testing.assert_allclose(chain_entropy(node, edge, offsets), entropies, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("seed", range(5))
def test_the_k_best_come_in_order_and_add_up_to_the_partition_function(seed):
    node, edge, offsets = chain(seed, tied=True)
    log_partition = infer_chains(node, edge, offsets).log_partition
    best = viterbi(node, edge, offsets)[1]
    below = np.full(len(LENGTHS), -np.inf)
    for k in (1, 4, 3**6):
        labels, scores = n_best_chains(node, edge, offsets, k)
        for each, (rows, values) in enumerate(zip(labels, scores, strict=True)):
            assert (np.diff(values) <= 0).all()
            assert len(np.unique(rows, axis=0)) == len(rows) == min(k, 3 ** LENGTHS[each])
            assert values[0] == pytest.approx(best[each], rel=1e-12)
            share = float(torch.logsumexp(torch.tensor(values), 0))
            assert below[each] <= share <= log_partition[each] + 1e-12
            if k >= 3 ** LENGTHS[each]:
                np.testing.assert_allclose(share, log_partition[each], rtol=1e-12)
            below[each] = share


def assert_frequencies(counts, probabilities, n_samples):
    """Counts of independent draws lie within five deviations of what is expected of them."""
    deviation = np.sqrt(n_samples * probabilities * (1 - probabilities))
    assert (np.abs(counts - n_samples * probabilities) <= 5 * deviation + 1e-6 * n_samples).all()


def test_samples_have_the_frequencies_of_marginals_and_of_labellings():
    node, edge, offsets = chain(0, tied=False)
    n_samples = 20_000
    beliefs = infer_chains(node, edge, offsets)
    drawn = sample_chains(node, edge, offsets, n_samples, random_state=0)
    for label in range(3):
        assert_frequencies((drawn == label).sum(axis=0), beliefs.node_marginals[:, label], n_samples)
    codes = drawn[:, 1] * 3 + drawn[:, 2]  # the whole chain of length two
    labels, scores = n_best_chains(node, edge, offsets, 9)
    counts = np.bincount(codes, minlength=9)[labels[1] @ [3, 1]]
    assert_frequencies(counts, np.exp(scores[1] - beliefs.log_partition[1]), n_samples)


# ---- trees

SIZE = 8


def tree(seed, n_labels=3):
    """One tree: parents, the plan, potentials of nodes and of the pairs (parent, child)."""
    rng = np.random.default_rng(seed)
    parents = np.array([rng.integers(v) for v in range(1, SIZE)])
    members = np.column_stack([parents, np.arange(1, SIZE)])
    plan = TreeFamily(np.array([0, SIZE]), [members], n_labels)
    return parents, plan, rng.normal(size=(SIZE, n_labels)), rng.normal(size=(SIZE - 1, n_labels, n_labels))


def tree_total(semiring, parents, node, factors):
    """The sum over labellings of a tree, from the leaves to the root."""
    inside = list(node)
    for child in range(SIZE - 1, 0, -1):
        message = SEMIRINGS[semiring](factors[child - 1] + inside[child][None], 1)
        inside[parents[child - 1]] = inside[parents[child - 1]] + message
    return SEMIRINGS[semiring](inside[0], 0)


@pytest.mark.parametrize("seed", range(6))
def test_trees_have_gradients_curvatures_and_best_labellings_of_their_semirings(seed):
    parents, plan, node, factors = tree(seed)
    nodes, tables = leaf(node), leaf(factors)
    log_partition = tree_total("log", parents, nodes, tables)
    gradient = torch.autograd.grad(log_partition, (nodes, tables), create_graph=True)
    beliefs = infer_graphs(plan, node, [factors])
    np.testing.assert_allclose(beliefs.log_partition, [float(log_partition.detach())], rtol=1e-12)
    np.testing.assert_allclose(beliefs.node_marginals, gradient[0].detach(), rtol=0, atol=1e-12)
    np.testing.assert_allclose(beliefs.factor_marginals(0), gradient[1].detach(), rtol=0, atol=1e-12)
    rng = np.random.default_rng(seed)
    directions = rng.normal(size=node.shape), rng.normal(size=factors.shape)
    slope = sum((part * torch.tensor(each)).sum() for part, each in zip(gradient, directions, strict=True))
    second = torch.autograd.grad(slope, (nodes, tables))
    d_node, (d_factors,) = beliefs.hessian_product(directions[0], [directions[1]])
    np.testing.assert_allclose(d_node, second[0], rtol=0, atol=1e-11)
    np.testing.assert_allclose(d_factors, second[1], rtol=0, atol=1e-11)
    best = tree_total("max", parents, nodes, torch.tensor(factors))
    labels, scores = decode_graphs(plan, node, [factors])
    np.testing.assert_allclose(scores, [float(best.detach())], rtol=1e-12)
    (indicator,) = torch.autograd.grad(best, nodes)
    np.testing.assert_array_equal(np.eye(3)[labels], indicator)
    assert scores[0] <= beliefs.log_partition[0]


def test_samples_of_trees_have_the_frequencies_of_pairs():
    parents, plan, node, factors = tree(0)
    n_samples = 20_000
    pairs = infer_graphs(plan, node, [factors]).factor_marginals(0)
    drawn = sample_graphs(plan, node, [factors], n_samples, 0)
    for child, parent in enumerate(parents, 1):
        counts = np.bincount(3 * drawn[:, parent] + drawn[:, child], minlength=9)
        assert_frequencies(counts, pairs[child - 1].ravel(), n_samples)
