"""Kernels that have seen unlabelled inputs: dense formulas, limits, neighbours, estimators, files."""

import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone

from kernelfields import ChainCRF, GraphCRF, KernelClassifier
from kernelfields.kernels import (
    RBF,
    Columns,
    GraphLaplacian,
    Linear,
    Manifold,
    Polynomial,
    Precomputed,
    check_positive_semidefinite,
)
from kernelfields.kernels.manifold import neighbour_graph
from kernelfields.kernels.registry import kernel_from_spec

RANDOM = np.random.default_rng(0)
C, X = RANDOM.normal(size=(14, 3)), RANDOM.normal(size=(6, 3))
GRAPH = np.zeros((14, 14))
for _node in range(14):
    GRAPH[_node, (_node + 1) % 14] = GRAPH[(_node + 1) % 14, _node] = 1.0
LAPLACIAN = np.eye(14) - GRAPH / 2.0


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array, lambda rows: [rows[:5], rows[5:]]])
@pytest.mark.parametrize("power", [1, 2])
@pytest.mark.parametrize("base", [RBF(0.4), Polynomial(2, gamma=0.3), Linear()])
def test_values_are_those_of_the_dense_formula(base, power, form):
    kernel = Manifold(base, form(C), graph=GRAPH, strength=3.0, power=power)
    M, K = 3.0 * np.linalg.matrix_power(LAPLACIAN, power), base(C)

    def expected(left, right):
        return base(left, right) - base(left, C) @ np.linalg.solve(np.eye(14) + M @ K, M @ base(C, right))

    np.testing.assert_allclose(kernel(X, C), expected(X, C), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(kernel(X), expected(X, X), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(kernel.diag(X), expected(X, X).diagonal(), rtol=1e-9, atol=1e-12)
    np.testing.assert_array_equal(kernel(X), kernel(X).T)
    np.testing.assert_array_equal(kernel.towards(C)(X), kernel(X, C))
    assert kernel(X.astype(np.float32), C.astype(np.float32)).dtype == np.float32
    check_positive_semidefinite(kernel, np.vstack([X, C]))


def test_on_its_inputs_it_is_the_inverse_of_a_sum():
    kernel = Manifold(RBF(1.0), C, graph=GRAPH, strength=2.0)
    np.testing.assert_allclose(
        np.linalg.inv(kernel(C)), np.linalg.inv(RBF(1.0)(C)) + 2.0 * LAPLACIAN, rtol=1e-7, atol=1e-7
    )


def test_nodes_that_are_nothing_but_themselves_give_the_kernel_of_the_graph():
    nodes, eps = np.arange(14)[:, None], 0.3
    kernel = Manifold(Precomputed(np.eye(14) / eps), nodes, graph=GRAPH, strength=1.0)
    np.testing.assert_allclose(kernel(nodes), GraphLaplacian(GRAPH, eps)(nodes), rtol=1e-12)


def test_no_strength_changes_nothing():
    np.testing.assert_allclose(Manifold(RBF(0.4), C, strength=0)(X, C), RBF(0.4)(X, C), rtol=1e-14)


@pytest.mark.parametrize("strength", [1e3, 1e6])
def test_great_strength_leaves_it_positive_and_constant_along_edges(strength):
    kernel = Manifold(RBF(0.4), C, graph=GRAPH, strength=strength)
    check_positive_semidefinite(kernel, np.vstack([C, X]))
    block = kernel(C)
    assert np.abs(block - block.mean()).max() < 10 * block.mean() / np.sqrt(strength)


def test_neighbours_are_those_of_the_distance_of_the_kernel():
    distances = ((C[:, None] - C) ** 2).sum(axis=-1)
    np.fill_diagonal(distances, np.inf)
    nearest = np.argsort(distances, axis=1)[:, :3]
    expected = np.zeros((14, 14))
    expected[np.arange(14)[:, None], nearest] = 1.0
    expected = np.maximum(expected, expected.T)
    for base in (Linear(), RBF(0.4)):
        np.testing.assert_array_equal(neighbour_graph(base(C), 3).toarray(), expected)
    assert neighbour_graph(RBF(0.4)(C), 50).toarray().sum() == 14 * 13
    assert neighbour_graph(np.ones((1, 1)), 3).nnz == 0
    np.testing.assert_allclose(
        Manifold(RBF(0.4), C, n_neighbors=3)(X), Manifold(RBF(0.4), C, graph=sp.csr_array(expected))(X), rtol=1e-12
    )


def test_inputs_that_are_left_out_are_those_of_the_fit():
    resolved = Manifold(RBF("scale")).resolve(C)
    np.testing.assert_array_equal(resolved.inputs, C)
    assert resolved.kernel == RBF("scale").resolve(C)
    assert resolved.resolve(X) == resolved
    assert Manifold(RBF(0.4)).keeps_rows
    assert not resolved.keeps_rows
    with pytest.raises(ValueError, match="or give inputs"):
        Manifold(RBF(0.4))(X)


def test_a_changed_kernel_inside_changes_the_values():
    kernel = Manifold(RBF(0.4), C)
    before = kernel(X)
    kernel.set_params(kernel__gamma=0.8)
    np.testing.assert_array_equal(kernel(X), Manifold(RBF(0.8), C)(X))
    assert not np.allclose(before, kernel(X))


@pytest.mark.parametrize("inputs", [None, C, sp.csr_array(C), [C[:5], C[5:]]], ids=lambda each: type(each).__name__)
@pytest.mark.parametrize("graph", [None, GRAPH])
def test_copies_and_descriptions(inputs, graph):
    kernel = Manifold(RBF(0.4), inputs, graph=graph if inputs is not None else None, strength=0.5)
    loaded = kernel_from_spec(kernel.spec())
    assert clone(kernel) == kernel
    assert clone(kernel).kernel is not kernel.kernel
    copies = [clone(kernel), loaded, pickle.loads(pickle.dumps(kernel))]
    for copy in copies:
        np.testing.assert_array_equal(copy.resolve(C)(X), kernel.resolve(C)(X))
    assert "strength=0.5" in repr(kernel)


@pytest.mark.parametrize(
    ("kernel", "words"),
    [
        (Manifold(RBF(0.4), C, n_neighbors=0), "n_neighbors must be a whole number"),
        (Manifold(RBF(0.4), C, strength=-1.0), "strength must be a finite number >= 0"),
        (Manifold(RBF(0.4), C, power=0.5), "power must be a whole number"),
        (Manifold(RBF(0.4), graph=GRAPH), "a graph needs inputs"),
        (Manifold(RBF(0.4), C[:3], graph=GRAPH), r"graph has shape \(14, 14\), and there are 3 inputs"),
        (Manifold(RBF(0.4), C, graph=np.triu(GRAPH)), "graph must be symmetric"),
        (Manifold(RBF(0.4), C[:0]), "between 1 and 15000 rows, got 0"),
        (Manifold(RBF(0.4), C[0]), "must be two-dimensional"),
        (Manifold(RBF(0.4), C * np.nan), "inputs must be finite"),
        (Manifold(RBF(0.4), [C, C[:, :2]]), "as many columns each"),
        (Manifold(RBF(0.4), "all"), "Manifold: inputs must be two-dimensional"),
    ],
    ids=str,
)
def test_wrong_parameters_are_named(kernel, words):
    with pytest.raises(ValueError, match=words):
        kernel.resolve(X)
    with pytest.raises(TypeError, match="kernel must be a Kernel"):
        Manifold("rbf", C).resolve(X)


def test_other_columns_are_refused():
    with pytest.raises(ValueError, match="X has 2 columns but Z has 3"):
        Manifold(RBF(0.4), C)(X[:, :2])


def arcs(n_points, seed):
    """Two arcs that lie within each other, and which one a point is on."""
    random = np.random.default_rng(seed)
    angle, label = random.uniform(0, np.pi, n_points), np.arange(n_points) % 2
    points = np.column_stack([np.cos(angle), np.sin(angle)])
    points[label == 1] = np.array([1.0, 0.4]) - points[label == 1]
    return points + 0.05 * random.normal(size=points.shape), label


def test_a_label_an_arc_is_enough_and_new_points_are_on_the_arcs_too(tmp_path):
    points, label = arcs(120, 0)
    new, new_label = arcs(60, 1)
    ends = [int(np.argmax(points[label == each, 1] * (1 if each == 0 else -1)) * 2 + each) for each in (0, 1)]
    plain = KernelClassifier(RBF(5.0), prior_variance=100.0).fit(points[ends], label[ends])
    kernel = Manifold(RBF(5.0), points, n_neighbors=6, strength=100.0)
    seen = KernelClassifier(kernel, prior_variance=100.0).fit(points[ends], label[ends])
    assert plain.score(new, new_label) < 0.95
    assert seen.score(new, new_label) == 1.0
    assert seen.certificate_.relative_gap <= 1e-4
    seen.save(tmp_path / "arcs.kf")
    # Products of arrays that lie elsewhere in memory may be rounded in another order.
    loaded = KernelClassifier.load(tmp_path / "arcs.kf")
    np.testing.assert_allclose(loaded.predict_proba(new), seen.predict_proba(new), rtol=1e-12)


def test_positions_of_sequences_without_labels_are_inputs_of_a_chain(tmp_path):
    points, label = arcs(80, 2)
    sequences, y = [points[i : i + 8] for i in range(0, 80, 8)], [label[i : i + 8] for i in range(0, 80, 8)]
    crf = ChainCRF(Manifold(RBF(5.0), sequences, n_neighbors=6, strength=10.0), prior_variance=100.0, random_state=0)
    crf.fit(sequences[:2], y[:2])
    assert crf.score(sequences[2:], y[2:]) == 1.0
    crf.save(tmp_path / "chain.kf")
    loaded = ChainCRF.load(tmp_path / "chain.kf")
    for mine, theirs in zip(crf.predict_marginals(sequences), loaded.predict_marginals(sequences), strict=True):
        np.testing.assert_array_equal(mine, theirs)


def test_nodes_of_graphs_are_the_inputs_where_none_are_given():
    points, label = arcs(24, 3)
    graphs = [(points[i : i + 6], np.array([[0, 2], [1, 3]])) for i in range(0, 24, 6)]
    y = [label[i : i + 6] for i in range(0, 24, 6)]
    kernel = Manifold(RBF(5.0), n_neighbors=3)
    crf = GraphCRF(kernel, prior_variance=10.0, random_state=0).fit(graphs, y)
    given = GraphCRF(Manifold(RBF(5.0), points, n_neighbors=3), prior_variance=10.0, random_state=0).fit(graphs, y)
    np.testing.assert_array_equal(crf.predict_marginals(graphs)[0], given.predict_marginals(graphs)[0])
    assert Columns(kernel, 0, 2).resolve(points).kernel.inputs.shape == (24, 2)


def test_tensors_go_by_way_of_the_processor():
    torch = pytest.importorskip("torch")
    kernel, given, seen = Manifold(RBF(0.4), C), torch.as_tensor(X), torch.as_tensor(C)
    for block in (kernel(given, seen), kernel.towards(seen)(given)):
        np.testing.assert_allclose(block.numpy(), kernel(X, C), rtol=1e-13)
    np.testing.assert_allclose(kernel.diag(given).numpy(), kernel.diag(X), rtol=1e-13)


def test_the_evidence_chooses_the_width_inside():
    points, label = arcs(40, 4)
    model = KernelClassifier(Manifold(RBF(2.0), points, n_neighbors=5), prior_variance=1.0, random_state=0)
    model.fit(points[:20], label[:20], optimize="evidence")
    assert model.basis_["node"].kernel.kernel.gamma != 2.0
    assert model.basis_["node"].kernel.inputs.shape == (40, 2)


def test_positions_whose_labels_are_unknown_are_inputs_too():
    points, label = arcs(40, 5)
    sequences, y = [points[i : i + 8] for i in range(0, 40, 8)], [label[i : i + 8] for i in range(0, 40, 8)]
    known = [y[0], y[1], None, None, None]
    kernel = Manifold(RBF(5.0), n_neighbors=5, strength=10.0)
    crf = ChainCRF(kernel, prior_variance=10.0, random_state=0).fit(sequences, known)
    assert crf.basis_["node"].kernel.inputs.shape == (40, 2)
    assert crf.score(sequences[2:], y[2:]) > 0.9
