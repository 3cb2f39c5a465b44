"""Products with features: scores and their adjoint for dense, sparse, constant, float32 and partial designs."""

import numpy as np
import pytest
import scipy.sparse as sp

from kernelfields.basis import PivotSubspace
from kernelfields.data import Chains, EdgeCliques, NodeCliques, resolve_constraints
from kernelfields.engines import SampleSettings, Threads
from kernelfields.inference import EDGE, FamilySpec, Potentials
from kernelfields.kernels import RBF, Constant, Linear
from kernelfields.numerics import Workers
from kernelfields.objective import Term
from kernelfields.objective.designs.budget import solver_bytes
from tests.samples import chain_datafit, chain_sample, design_of, designs_on

N_LABELS = 3
OFFSETS = np.array([0, 1, 5, 8])
STEPS = np.array([2, 3, 4, 6, 7])


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


def labelled_chains(weights=None):
    return Chains(np.zeros((8, 1)), OFFSETS, np.array([0, 1, 1, 2, 0, 2, 2, 1]), weights)


@pytest.mark.parametrize("with_factor", [False, True])
@pytest.mark.parametrize("labels", [1, 2])
@pytest.mark.parametrize("kind", ["dense", "sparse", "constant"])
def test_scores_and_pull_back_are_adjoint(kind, labels, with_factor):
    rng = np.random.default_rng(0)
    n = N_LABELS**labels
    Z = np.ones((1, 1)) if kind == "constant" else rng.normal(size=(6, 4)) * (rng.random((6, 4)) < 0.6)
    A = rng.normal(size=(n, 2)) if with_factor else np.eye(n)
    given = {"dense": Z, "sparse": sp.csr_array(Z), "constant": None}[kind]
    each = clique_features("any", given, labels=labels, factor=A if with_factor else None)
    assert each.shape == (Z.shape[1], A.shape[1])
    assert each.is_constant == (kind == "constant")
    assert each.stored_values == {"dense": 24, "sparse": np.count_nonzero(Z), "constant": 0}[kind]
    V, R = rng.normal(size=each.shape), rng.normal(size=(len(Z), n))
    np.testing.assert_allclose(each.scores(V), Z @ V @ A.T, atol=1e-14)
    np.testing.assert_allclose(each.pull_back(R), Z.T @ R @ A, atol=1e-13)
    np.testing.assert_allclose(np.vdot(each.scores(V), R), np.vdot(V, each.pull_back(R)), rtol=1e-12)


@pytest.mark.parametrize("sparse", [False, True])
def test_single_precision_features_give_double_precision_results(sparse):
    rng = np.random.default_rng(1)
    Z = rng.normal(size=(50, 20)).astype(np.float32)
    each = clique_features("node", sp.csr_array(Z) if sparse else Z)
    V, R = rng.normal(size=(20, 3)), rng.normal(size=(50, 3))
    for ours, exact in ((each.scores(V), Z @ V), (each.pull_back(R), Z.T @ R)):
        assert ours.dtype == np.float64
        np.testing.assert_allclose(ours, exact, rtol=0, atol=1e-5)


def mixed_datafit(weights=None):
    rng = np.random.default_rng(2)
    designs = [
        clique_features("node", rng.normal(size=(8, 2))),
        clique_features("edge", None, STEPS, 2),
        clique_features("seen", rng.normal(size=(5, 2)), STEPS, 2),
        clique_features("start", None, OFFSETS[:-1]),
        clique_features("bias", None),
    ]
    return chain_datafit(labelled_chains(weights), designs, N_LABELS, workers=Workers(1)), rng


def test_potentials_and_pull_back_are_adjoint_for_sets_that_share_positions():
    datafit, rng = mixed_datafit()
    assert not datafit.likelihood.family.tied
    coefficients = [rng.normal(size=each.shape) for each in datafit.designs]
    potentials = datafit.potentials(coefficients)
    residual = Potentials(rng.normal(size=(8, 3)), {EDGE: rng.normal(size=(8, 3, 3))})
    residual.edge[OFFSETS[:-1]] = 0.0  # nothing steps into a start
    gradients = datafit.pull_back(residual)
    inner = sum(np.vdot(V, G) for V, G in zip(coefficients, gradients, strict=True))
    np.testing.assert_allclose(potentials.dot(residual), inner, rtol=1e-12)
    for only in ([0], [2, 4], [3, 1]):
        alone = datafit.potentials(coefficients, only)
        zeroed = [V if index in only else 0 * V for index, V in enumerate(coefficients)]
        np.testing.assert_allclose(alone.node, datafit.potentials(zeroed).node, atol=1e-15)
        np.testing.assert_allclose(alone.edge, datafit.potentials(zeroed).edge, atol=1e-15)
        for index, gradient in zip(only, datafit.pull_back(residual, only), strict=True):
            np.testing.assert_array_equal(gradient, gradients[index])


def test_one_matrix_of_transitions_is_kept_as_one():
    rng = np.random.default_rng(3)
    designs = [clique_features("node", rng.normal(size=(8, 2))), clique_features("edge", None, STEPS, 2)]
    datafit = chain_datafit(labelled_chains(), designs, N_LABELS)
    assert datafit.likelihood.family.tied
    V = [rng.normal(size=each.shape) for each in designs]
    potentials = datafit.potentials(V)
    assert potentials.edge.shape == (1, 3, 3)
    np.testing.assert_array_equal(potentials.edge.ravel(), V[1].ravel())
    summed = Potentials(np.zeros((8, 3)), {EDGE: rng.normal(size=(1, 3, 3))})
    np.testing.assert_array_equal(datafit.pull_back(summed, [1])[0].ravel(), summed.edge.ravel())


def test_passes_are_shares_of_the_stored_values():
    datafit, rng = mixed_datafit()  # 16 numbers in node, 10 in seen
    coefficients = [rng.normal(size=each.shape) for each in datafit.designs]
    for only, expected in ((None, 0.5), ([0], 8 / 26), ([1, 3, 4], 0.0), ([2], 5 / 26)):
        before = datafit.passes
        potentials = datafit.potentials(coefficients, only)
        np.testing.assert_allclose(datafit.passes - before, expected, atol=1e-15)
    before = datafit.passes
    evaluation = datafit.evaluate(potentials)
    datafit.hessian_response(evaluation, potentials)
    assert datafit.passes == before


def test_curvature_of_single_precision_and_sparse_features():
    rng = np.random.default_rng(4)
    Z = (rng.normal(size=(8, 3)) * (rng.random((8, 3)) < 0.7)).astype(np.float32)
    weights = np.array([1.0, 0.5, 2.0])
    blocks = []
    for features in (Z, Z.astype(np.float64), sp.csr_array(Z.astype(np.float64))):
        datafit = chain_datafit(labelled_chains(weights), [clique_features("node", features)], N_LABELS)
        node = np.log(np.arange(1.0, 25.0)).reshape(8, 3)
        evaluation = datafit.evaluate(Potentials(node, {EDGE: np.zeros((1, 3, 3))}))
        blocks.append(datafit.curvature.block(evaluation, 0))
    p = evaluation.member.marginals()
    covariances = p[:, :, None] * np.eye(3) - p[:, :, None] * p[:, None, :]
    expected = np.einsum("t,ti,tj,tab->iajb", np.repeat(weights, [1, 4, 3]), Z, Z, covariances).reshape(9, 9)
    for block in blocks:
        np.testing.assert_allclose(block, expected, atol=1e-6 if block is blocks[0] else 1e-13)


def test_tables_of_pairs_count_in_the_memory_of_a_plan():
    """Seven arrays of L^2 scores at each position, where pairs see the inputs, beside the ten of L scores."""
    n, n_labels = 60_000, 5
    chains = Chains(np.zeros((n, 1)), np.array([0, n]), np.zeros(n, dtype=np.int64))
    sample = chain_sample(chains, n_labels, engine=Threads(memory=10**12))
    node, edge = (
        sample.memory.plan(sample, "term", clique, n, 10, np.dtype(np.float64))
        for clique in (NodeCliques(), EdgeCliques())
    )
    solver = solver_bytes(10, n_labels**2, itemsize=8) - solver_bytes(10, n_labels, itemsize=8)
    assert edge.memory_bytes - node.memory_bytes == 7 * 8 * n * n_labels**2 + solver


@pytest.mark.parametrize(("n", "dtype"), [(2**20, np.float64), (2**20 + 1, np.float32)])
def test_features_of_more_than_sixteen_mebibytes_are_in_single_precision(n, dtype):
    """Two pivots: 2 n values, of eight bytes each in float64."""
    chains = Chains(np.zeros((n, 1), dtype=np.float32), np.array([0, n]), np.zeros(n, dtype=np.int64))
    masks = resolve_constraints(None, np.arange(2))
    sample = Threads().place(chains, FamilySpec("chain", 2, masks), SampleSettings(None, 1e-3, Workers(1)))
    pivots = np.array([[0.0], [1.0]], dtype=np.float32)
    subspace = PivotSubspace(Linear() + Constant(), pivots, np.array([[1.0, 0.0], [1.0, 1.0]]), np.arange(2))
    design = sample.design(Term(NodeCliques(), "node", subspace))
    assert design.features.dtype == dtype
    np.testing.assert_array_equal(design.features[-1], [1.0, 0.0])


def test_features_in_a_basis_that_is_there_keep_to_the_budget():
    """n = 20,000 rows at rank 20: 3 MB of doubles, three times that while they are computed, 3 MB for potentials."""
    n, rank = 20_000, 20
    inputs = np.random.default_rng(0).normal(size=(n, 1))
    chains = Chains(inputs, np.array([0, n]), np.zeros(n, dtype=np.int64))
    pivots, kernel = np.linspace(-3.0, 3.0, rank)[:, None], RBF(20.0)
    subspace = PivotSubspace(kernel, pivots, np.linalg.cholesky(kernel(pivots)), np.arange(rank))
    term = Term(NodeCliques(kernel), "node", subspace)

    def sample(memory):
        return chain_sample(chains, 2, engine=Threads(memory), workers=Workers(1))

    whole = sample("100MB").design(term).features
    tight = sample("11MB").design(term).features
    assert whole.base is None
    assert tight.base is not None, "mapped to a file"
    np.testing.assert_allclose(tight, whole, atol=1e-12)
    with pytest.raises(MemoryError, match="20,000 positions at rank 20 do not fit"):
        sample("5MB").design(term)


def test_some_sequences_have_the_features_that_all_have():
    random = np.random.default_rng(0)
    chains = Chains(random.normal(size=(350, 2)), np.arange(0, 351, 7), random.integers(0, 3, size=350))
    whole, items = chain_sample(chains, 3), np.array([3, 1, 40])
    designs = designs_on(whole, [NodeCliques(RBF(1.0), rank=20), EdgeCliques()])
    part, shared = whole.part(designs, items)
    alone = chain_sample(chains.subset(items), 3)
    coefficients = [random.normal(size=design.shape) for design in designs]
    ours, theirs = (
        sample.datafit(own).potentials(coefficients)
        for sample, own in ((part, shared), (alone, [alone.design(design.term) for design in designs]))
    )
    np.testing.assert_allclose(ours.node, theirs.node, rtol=1e-9, atol=1e-12)
    np.testing.assert_array_equal(ours.edge, theirs.edge)
    np.testing.assert_array_equal(part.data.labels, chains.subset(items).labels)
    assert whole.part(designs, slice(None, None, 5), 5)[0].data.weights.tolist() == [5.0] * 10
    assert chain_sample(chains, 3, engine=Threads("1GB")).part(designs, items) is None


def test_long_sequences_are_cut_where_their_labels_may_end_and_begin():
    random, names = np.random.default_rng(0), np.array(["B", "I", "O"])
    labels = np.tile([0, 1, 1, 2], 10)
    chains = Chains(
        random.normal(size=(43, 2)), np.array([0, 40, 43]), np.append(labels, [2, 0, 1]), np.array([2.0, 1.0])
    )
    masks = resolve_constraints("BIO", names)
    sample = Threads().place(chains, FamilySpec("chain", 3, masks=masks), SampleSettings(workers=Workers(1)))
    part, _ = sample.part([], slice(None), longest=20)
    assert part.data.lengths.tolist() == [7, 4, 4, 5, 7, 4, 4, 5, 3]
    assert part.data.weights.tolist() == [2.0] * 8 + [1.0]
    np.testing.assert_array_equal(part.data.labels, chains.labels)
    assert (masks.start[part.data.labels[part.data.starts]] == 0.0).all()
    assert sample.part([], slice(None), longest=40)[0].data.lengths.tolist() == [40, 3]
