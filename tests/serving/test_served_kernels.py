"""Kernels of served models have the values of the library's, in NumPy and in ONNX, dense and sparse."""

import numpy as np
import pytest
import scipy.sparse

from kernelfields.kernels import RBF, Columns, Cosine, Laplacian, Linear, Matern, Normalized, Polynomial, Precomputed
from kernelfields.serving import ServingError
from kernelfields.serving.kernel_blocks import check_kernel, diagonal, explicit_scores, towards
from kernelfields.serving.sparse_rows import SparseRows, columns_of, sparse_of, taken, times, windowed

RANDOM = np.random.default_rng(0)
# Equal rows, a row of zeros, and many zeros.
ROWS = np.where(RANDOM.random((9, 5)) < 0.5, RANDOM.normal(size=(9, 5)), 0.0)
ROWS[3] = 0.0
PIVOTS = np.concatenate([ROWS[1:4], RANDOM.normal(size=(300, 5)) * (RANDOM.random((300, 5)) < 0.5)])
KERNELS = [
    Linear(),
    Polynomial(3, gamma=0.5, coef0=0.5),
    Polynomial(1, gamma=2.0, coef0=0.0),
    RBF(0.3),
    Laplacian(0.3),
    Matern(0.5, 1.3),
    Matern(1.5, 1.3),
    Matern(2.5, 1.3),
    Matern(4.5, 1.3),
    Matern(np.inf, 1.3),
    Cosine(),
    Linear() + 2.0,
    RBF(0.2) * Polynomial(2, gamma=1.0),
    Linear() ** 3,
    0.5 * RBF(0.1) + Linear(),
    Normalized(Linear() + 0.0),
    Normalized(Polynomial(2, gamma=1.0, coef0=0.0) * RBF(0.5)),
    Normalized(Columns(Linear(), 1, 3) ** 2),
    Normalized(2.0 * Cosine()),
    Normalized(Normalized(Linear())),
    Columns(RBF(0.4), 1, 4),
    Columns(Laplacian(0.4), 2),
]
EXPLICIT = [
    Linear(),
    Linear() + 2.0,
    3.0 * Linear(),
    Columns(Linear(), 1, 3),
    Columns(Linear() + 1.0, 2) + 0.5 * Linear(),
]


def as_sparse(rows):
    return sparse_of(rows)


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
@pytest.mark.parametrize("kind", [np.asarray, as_sparse], ids=["dense", "sparse"])
def test_values(kernel, kind):
    spec = kernel.spec()
    check_kernel(spec)
    np.testing.assert_allclose(towards(spec, kind(PIVOTS))(kind(ROWS)), kernel(ROWS, PIVOTS), rtol=1e-11, atol=1e-13)
    np.testing.assert_allclose(diagonal(spec, kind(ROWS)), kernel.diag(ROWS), rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("kernel", EXPLICIT, ids=repr)
@pytest.mark.parametrize("kind", [np.asarray, as_sparse], ids=["dense", "sparse"])
@pytest.mark.parametrize("weights", [np.asarray, as_sparse], ids=["dense weights", "sparse weights"])
def test_scores_of_explicit_features(kernel, kind, weights):
    features = np.asarray(kernel.feature_map(ROWS))
    V = RANDOM.normal(size=(features.shape[1], 3)) * (RANDOM.random((features.shape[1], 3)) < 0.7)
    check_kernel(kernel.spec(), explicit=True)
    scores = explicit_scores(kernel.spec(), kind(ROWS), weights(V))
    np.testing.assert_allclose(scores, features @ V, atol=1e-12)


def test_precomputed_values():
    matrix = ROWS @ ROWS.T
    kernel, rows, pivots = Precomputed(matrix), np.array([[2.0], [0.0], [5.0]]), np.array([[1.0], [2.0]])
    assert np.array_equal(towards(kernel.spec(), pivots)(rows), kernel(rows, pivots))
    assert np.array_equal(diagonal(kernel.spec(), rows), kernel.diag(rows))
    with pytest.raises(ValueError, match="row numbers from 0 to 8"):
        towards(kernel.spec(), pivots)(np.array([[9.0]]))


@pytest.mark.parametrize("kernel", [RBF(0.3), Matern(1.5, 1.3), Polynomial(2, gamma=1.0)], ids=repr)
def test_blocks_of_float32_rows_are_float32(kernel):
    rows, pivots = ROWS.astype(np.float32), PIVOTS.astype(np.float32)
    values = towards(kernel.spec(), pivots)(rows)
    assert values.dtype == np.float32
    np.testing.assert_allclose(values, kernel(rows, pivots), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"kind": "callable", "name": "my_kernel"}, "'callable' 'my_kernel' cannot be served: a function is code"),
        ({"kind": "scikit-learn", "kernel": {}}, "'scikit-learn' cannot be served: it needs scikit-learn"),
        ({"kind": "manifold"}, "'manifold' cannot be served: it keeps a graph"),
        ({"kind": "graph diffusion"}, "'graph diffusion' cannot be served"),
        ({"kind": "matern", "nu": 0.7, "length_scale": 1.0}, "nu=0.7 cannot be served: it needs Bessel functions"),
    ],
)
def test_other_kernels_are_refused_by_name(spec, message):
    for whole in (spec, {"kind": "sum", "left": {"kind": "linear"}, "right": spec}, {"kind": "scaled", "kernel": spec}):
        with pytest.raises(ServingError, match=message):
            check_kernel(whole)
    with pytest.raises(ServingError, match="'rbf' has no explicit features"):
        check_kernel({"kind": "rbf", "gamma": 1.0}, explicit=True)


def test_rows_of_sparse_matrices_are_those_of_scipy():
    from kernelfields.fields.cliques import window_view

    given = scipy.sparse.csr_array(ROWS)
    rows = SparseRows(given.data, given.indices, given.indptr, given.shape)
    offsets = np.array([0, 1, 5, 9])
    for window in [(0, 0), (1, 0), (0, 2), (3, 3)]:
        expected = np.asarray(window_view(ROWS, offsets, window))
        assert np.array_equal(windowed(rows, offsets, window).toarray(), expected)
        assert np.array_equal(windowed(ROWS, offsets, window), expected)
    assert np.array_equal(columns_of(rows, 1, 4).toarray(), ROWS[:, 1:4])
    assert np.array_equal(taken(rows, np.array([4, 3, 3, 0])).toarray(), ROWS[[4, 3, 3, 0]])
    assert np.array_equal(rows.transposed.toarray(), ROWS.T)
    matrix = RANDOM.normal(size=(5, 2))
    for right in (matrix, sparse_of(matrix)):
        np.testing.assert_allclose(times(rows, right), ROWS @ matrix, atol=1e-14)


@pytest.mark.parametrize("kernel", [each for each in KERNELS if "Laplacian" not in repr(each)], ids=repr)
@pytest.mark.parametrize("sparse", [False, True])
def test_values_in_onnx(kernel, sparse):
    pytest.importorskip("onnx")
    values, expected = value_in_onnx(kernel, ROWS, PIVOTS, sparse), kernel(ROWS, PIVOTS)
    np.testing.assert_allclose(np.broadcast_to(values, expected.shape), expected, rtol=1e-11, atol=1e-13)


@pytest.mark.parametrize("kernel", [Laplacian(0.3), Columns(Laplacian(0.4), 2)], ids=repr)
def test_manhattan_distances_in_onnx(kernel):
    pytest.importorskip("onnx")
    values = value_in_onnx(kernel, ROWS, PIVOTS, sparse=False)
    np.testing.assert_allclose(values, kernel(ROWS, PIVOTS), rtol=1e-11, atol=1e-13)
    with pytest.raises(ServingError, match="'laplacian' on sparse inputs has no form in ONNX"):
        value_in_onnx(kernel, ROWS, PIVOTS, sparse=True)


def value_in_onnx(kernel, rows, pivots, sparse):
    """The block of a kernel as onnxruntime computes it."""
    onnxruntime = pytest.importorskip("onnxruntime")
    from onnx import TensorProto, helper

    from kernelfields.serving.onnx_kernels import block
    from kernelfields.serving.onnx_nodes import OPSET, DenseView, Graph, SparseView

    graph, info = Graph(), helper.make_tensor_value_info
    if sparse:
        csr = scipy.sparse.csr_array(rows)
        feed = {"indptr": csr.indptr.astype(np.int64), "indices": csr.indices.astype(np.int64), "values": csr.data}
        kinds = {"indptr": TensorProto.INT64, "indices": TensorProto.INT64, "values": TensorProto.DOUBLE}
        inputs = [info(name, kind, [None]) for name, kind in kinds.items()]
        length = graph.whole(len(rows))
        view = SparseView.of_inputs(graph, "indptr", "indices", "values", rows.shape[1], length)
    else:
        feed = {"inputs": rows}
        inputs = [info("inputs", TensorProto.DOUBLE, [None, rows.shape[1]])]
        view = DenseView(graph, "inputs", rows.shape[1])
    graph.add("Identity", block(graph, kernel.spec(), view, pivots), output="values_of_kernel")
    outputs = [info("values_of_kernel", TensorProto.DOUBLE, [None, None])]
    whole = helper.make_graph(graph.nodes, "kernel", inputs, outputs, graph.initializers)
    model = helper.make_model(whole, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=8)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, feed)[0]
