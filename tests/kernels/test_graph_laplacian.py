"""Kernels on the nodes of a graph: dense inverses, exponentials, harmonic functions, PageRank."""

import json
import pickle

import numpy as np
import pytest
import scipy.linalg
import scipy.sparse as sp
from sklearn.base import clone

from kernelfields import GraphCRF, KernelClassifier
from kernelfields.kernels import (
    Columns,
    GraphDiffusion,
    GraphLaplacian,
    Linear,
    Normalized,
    check_positive_semidefinite,
)
from kernelfields.kernels.graph_laplacian import adjacency_matrix, laplacian_matrix
from kernelfields.kernels.registry import kernel_from_spec

N_NODES = 12


def random_graph(seed=0, share=0.3):
    """A connected weighted graph, one node of it with a loop."""
    random = np.random.default_rng(seed)
    weights = np.triu(random.uniform(0.5, 2.0, (N_NODES, N_NODES)) * (random.random((N_NODES, N_NODES)) < share), 1)
    weights += np.diag(np.ones(N_NODES - 1), 1)
    weights += weights.T
    weights[3, 3] = 1.5
    return weights


W = random_graph()
NODES = np.arange(N_NODES)[:, None]
DEGREES = W.sum(axis=1)
LAPLACIAN = np.eye(N_NODES) - W / np.sqrt(np.outer(DEGREES, DEGREES))
KERNELS = [
    (GraphLaplacian(W, eps=0.2), np.linalg.inv(LAPLACIAN + 0.2 * np.eye(N_NODES))),
    (GraphLaplacian(W, eps=0.3, power=3), np.linalg.matrix_power(np.linalg.inv(LAPLACIAN + 0.3 * np.eye(N_NODES)), 3)),
    (
        GraphLaplacian(W, eps=0.2, normalized=False),
        np.linalg.inv(np.diag(DEGREES) - W + 0.2 * np.eye(N_NODES)),
    ),
    (GraphDiffusion(W, time=2.5), scipy.linalg.expm(-2.5 * LAPLACIAN)),
]


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array, sp.coo_matrix, np.ndarray.tolist])
@pytest.mark.parametrize(("kernel", "expected"), KERNELS, ids=lambda part: repr(part)[:40])
def test_values_are_those_of_the_dense_matrix(kernel, expected, form):
    kernel = clone(kernel).set_params(graph=form(W))
    np.testing.assert_allclose(kernel(NODES), expected, rtol=1e-11, atol=1e-13)
    assert np.array_equal(kernel(NODES), kernel(NODES).T)
    some, others = NODES[[4, 1, 4]], NODES[[7, 4, 0, 4]]
    np.testing.assert_allclose(kernel(some, others), expected[np.ix_([4, 1, 4], [7, 4, 0, 4])], rtol=1e-11, atol=1e-13)
    np.testing.assert_array_equal(kernel.towards(others)(some), kernel(some, others))
    np.testing.assert_allclose(kernel.diag(some), expected.diagonal()[[4, 1, 4]], rtol=1e-11)
    assert kernel(some.astype(np.float32)).dtype == np.float32
    check_positive_semidefinite(kernel, NODES)


def test_the_conditional_mean_tends_to_the_harmonic_solution():
    known, unknown = np.array([0, 5, 9]), np.array([1, 2, 3, 4, 6, 7, 8, 10, 11])
    values, laplacian = np.array([1.0, -2.0, 0.5]), np.diag(DEGREES) - W
    harmonic = np.linalg.solve(laplacian[np.ix_(unknown, unknown)], -laplacian[np.ix_(unknown, known)] @ values)
    kernel = GraphLaplacian(W, eps=1e-9, normalized=False)
    spread = kernel(NODES[unknown], NODES[known]) @ np.linalg.solve(kernel(NODES[known]), values)
    np.testing.assert_allclose(spread, harmonic, atol=1e-5)


def test_smoothing_is_personalised_pagerank():
    restart, words = 0.15, np.random.default_rng(1).random((N_NODES, 4))
    spread, steps = np.eye(N_NODES) - LAPLACIAN, words
    for _ in range(400):
        steps = (1 - restart) * spread @ steps + restart * words
    kernel = GraphLaplacian(W, eps=restart / (1 - restart))
    np.testing.assert_allclose(kernel.smooth(words), steps, rtol=1e-12)
    np.testing.assert_allclose(kernel.smooth(sp.csr_array(words)), steps, rtol=1e-12)
    np.testing.assert_allclose(kernel.smooth(words[:, 0]), steps[:, 0], rtol=1e-12)


@pytest.mark.parametrize("kernel", [GraphLaplacian(W, power=2), GraphDiffusion(W, time=3.0)])
def test_smoothing_keeps_what_has_no_variation(kernel):
    np.testing.assert_allclose(kernel.smooth(np.sqrt(DEGREES)), np.sqrt(DEGREES), rtol=1e-12)
    with pytest.raises(ValueError, match="a row for each of the 12 nodes"):
        kernel.smooth(np.ones(3))


def test_a_node_without_edges_is_on_its_own():
    graph = np.zeros((3, 3))
    graph[0, 1] = graph[1, 0] = 1.0
    expected = np.linalg.inv(np.array([[1.5, -1.0, 0.0], [-1.0, 1.5, 0.0], [0.0, 0.0, 0.5]]))
    np.testing.assert_allclose(GraphLaplacian(graph, eps=0.5)(NODES[:3]), expected, rtol=1e-13, atol=1e-15)


def test_the_laplacian_matrix_is_exactly_symmetric():
    laplacian = laplacian_matrix(adjacency_matrix(W, "test")).toarray()
    assert np.array_equal(laplacian, laplacian.T)
    np.testing.assert_allclose(laplacian, LAPLACIAN, atol=1e-15)


def test_a_changed_parameter_changes_the_values():
    kernel = GraphLaplacian(W, eps=0.2)
    before = kernel(NODES)
    kernel.set_params(eps=0.4)
    np.testing.assert_allclose(kernel(NODES), np.linalg.inv(LAPLACIAN + 0.4 * np.eye(N_NODES)), rtol=1e-11)
    assert not np.allclose(before, kernel(NODES))


@pytest.mark.parametrize("kernel", [GraphLaplacian(W, 0.5, 2), GraphDiffusion(sp.csr_array(W), 1.5)])
def test_copies_and_descriptions(kernel):
    values = kernel(NODES)
    for copy in (clone(kernel), pickle.loads(pickle.dumps(kernel)), kernel_from_spec(kernel.spec())):
        np.testing.assert_array_equal(copy(NODES), values)
    assert clone(kernel) == kernel
    assert kernel_from_spec(kernel.spec()) == kernel_from_spec(kernel.spec())
    assert "graph of shape (12, 12)" in repr(kernel)


def test_graphs_in_other_forms_or_of_other_weights_are_other_graphs():
    assert GraphLaplacian(sp.csr_array(W)) == GraphLaplacian(sp.csr_array(W))
    assert GraphLaplacian(sp.csr_array(W)) != GraphLaplacian(sp.csr_array(2 * W))
    assert GraphLaplacian(sp.csr_array(W)) != GraphLaplacian(sp.csr_array(W[:3, :3]))
    assert GraphLaplacian(sp.csr_array(W)) != GraphLaplacian(W)


@pytest.mark.parametrize(
    ("kernel", "words"),
    [
        (GraphLaplacian(np.ones((2, 3))), "graph must be a square adjacency matrix"),
        (GraphLaplacian(np.ones(3)), "graph must be a"),
        (GraphLaplacian(np.zeros((0, 0))), "a node or more"),
        (GraphLaplacian("cora"), "graph must be a matrix of real numbers"),
        (GraphLaplacian(-W), "must be finite and >= 0"),
        (GraphLaplacian(np.where(W > 1, np.inf, W)), "must be finite and >= 0"),
        (GraphLaplacian(np.triu(W)), r"symmetric; for links with a direction give graph \+ graph.T"),
        (GraphLaplacian(W, eps=0.0), "eps must be a positive finite number, got 0.0"),
        (GraphLaplacian(W, eps="scale"), "eps must be a positive finite number, got 'scale'"),
        (GraphLaplacian(W, power=0), "power must be a whole number"),
        (GraphDiffusion(W, time=-1.0), "time must be a positive finite number"),
    ],
    ids=str,
)
def test_wrong_parameters_are_named(kernel, words):
    with pytest.raises(ValueError, match=words):
        kernel.resolve(NODES)
    with pytest.raises(TypeError, match="normalized must be True or False"):
        GraphLaplacian(W, normalized="yes").resolve(NODES)


def test_inputs_are_node_numbers():
    with pytest.raises(ValueError, match="GraphLaplacian: inputs are one column"):
        GraphLaplacian(W)(np.ones((2, 2)))
    with pytest.raises(ValueError, match="whole and from 0 to 11, got 12 in row 1"):
        GraphLaplacian(W)(np.array([[0], [12]]))


def test_a_damaged_description_is_refused():
    spec = GraphLaplacian(W).spec()
    json.dumps({name: value for name, value in spec.items() if name != "graph"})
    for change in ({"indices": spec["graph"]["indices"] + 50}, {"shape": "ab"}, {"data": spec["graph"]["data"][:3]}):
        with pytest.raises(ValueError, match="sparse matrix is wrong"):
            kernel_from_spec({**spec, "graph": {**spec["graph"], **change}})


def two_circles():
    """Two rings of six nodes, joined by one weak edge."""
    graph = np.zeros((N_NODES, N_NODES))
    for ring in (range(6), range(6, 12)):
        for node in ring:
            graph[node, ring[(node + 1) % 6]] = 1.0
    graph[0, 6] = 0.1
    return np.maximum(graph, graph.T)


def test_one_label_a_ring_is_enough(tmp_path):
    kernel = Columns(Normalized(GraphLaplacian(two_circles(), eps=0.05)), 0, 1) + 0.01 * Columns(Linear(), 1)
    X = np.column_stack([NODES, np.random.default_rng(0).normal(size=(N_NODES, 2))])
    model = KernelClassifier(kernel, prior_variance=10.0, random_state=0).fit(X[[2, 9]], ["a", "b"])
    assert model.predict(X).tolist() == ["a"] * 6 + ["b"] * 6
    assert model.certificate_.relative_gap <= 1e-4
    model.save(tmp_path / "rings.kf")
    loaded = KernelClassifier.load(tmp_path / "rings.kf")
    np.testing.assert_array_equal(loaded.predict_proba(X), model.predict_proba(X))


def test_nodes_of_a_field_may_see_the_graph():
    rings, y = [(NODES[part], np.array([[0, 1], [1, 2]])) for part in (slice(0, 3), slice(6, 9))], [[0] * 3, [1] * 3]
    crf = GraphCRF(GraphLaplacian(two_circles()), prior_variance=10.0, random_state=0).fit(rings, y)
    held = [(NODES[part], np.array([[0, 1], [1, 2]])) for part in (slice(3, 6), slice(9, 12))]
    assert [labels.tolist() for labels in crf.predict(held)] == [[0] * 3, [1] * 3]


def test_tensors_go_by_way_of_the_processor():
    torch = pytest.importorskip("torch")
    kernel, nodes = GraphLaplacian(W), torch.as_tensor(NODES)
    for block in (kernel(nodes, nodes[:3]), kernel.towards(nodes[:3])(nodes)):
        np.testing.assert_allclose(block.numpy(), kernel(NODES, NODES[:3]), rtol=1e-13)
