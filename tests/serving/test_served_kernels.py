"""Kernels of served models: rows without scipy, graphs of ONNX, kernels that need more than NumPy."""

import re

import numpy as np
import pytest
import scipy.sparse

from kernelfields import ChainCRF
from kernelfields.kernels import (
    RBF,
    Columns,
    Cosine,
    Forest,
    Kernel,
    Laplacian,
    Linear,
    Matern,
    Normalized,
    Polynomial,
    Precomputed,
    Tanimoto,
    arrays,
    register,
)
from kernelfields.numerics.sparse_rows import SparseRows
from kernelfields.numerics.windows import window_view
from kernelfields.serving import ServingError, load_chain, to_onnx
from kernelfields.serving.chain_model import rebuild_kernel

RANDOM = np.random.default_rng(0)
# Equal rows, a row of zeros, and many zeros.
ROWS = np.where(RANDOM.random((9, 5)) < 0.5, RANDOM.normal(size=(9, 5)), 0.0)
ROWS[3] = 0.0
PIVOTS = np.concatenate([ROWS[1:4], RANDOM.normal(size=(300, 5)) * (RANDOM.random((300, 5)) < 0.5)])
KERNELS = [
    Linear(),
    Polynomial(3, gamma=0.5, coef0=0.5),
    Polynomial(1, gamma=2.0, coef0=0.0),
    Polynomial(2, gamma=0.3, coef0=0.7),
    RBF(0.3),
    Laplacian(0.3),
    Matern(0.5, 1.3),
    Matern(1.5, 1.3),
    Matern(2.5, 1.3),
    Matern(np.inf, 1.3),
    Cosine(),
    Tanimoto(),
    Forest(trees=[[0, 0.5, 1, 2], [-1, 0, 1, 1], [-1, 0, 2, 2], [1, -0.2, 4, 5], [-1, 0, 4, 4], [-1, 0, 5, 5]]),
    Linear() + 2.0,
    RBF(0.2) * Polynomial(2, gamma=1.0),
    Linear() ** 3,
    0.3 * Linear(),
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


ROW_NUMBERS = np.array([[2.0], [0.0], [5.0]])


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
@pytest.mark.parametrize("kind", [np.asarray, SparseRows.from_dense], ids=["dense", "sparse"])
def test_values(kernel, kind):
    served = rebuild_kernel(kernel.spec())
    assert served == kernel
    rows, pivots = kind(ROWS), kind(PIVOTS)
    expected = kernel(ROWS, PIVOTS)
    for values in (served.towards(pivots)(rows), served(rows, pivots)):
        np.testing.assert_allclose(values, expected, rtol=1e-11, atol=1e-13)
    # Rows and pivots may be of two kinds: a few columns of sparse rows are handed on dense.
    np.testing.assert_allclose(served(rows, PIVOTS), expected, rtol=1e-11, atol=1e-13)
    np.testing.assert_allclose(served(ROWS, pivots), expected, rtol=1e-11, atol=1e-13)
    np.testing.assert_allclose(served.diag(rows), kernel.diag(ROWS), rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"kind": "callable", "name": "my_kernel"}, "'callable' 'my_kernel' cannot be served: a function is code"),
        ({"kind": "scikit-learn", "kernel": {}}, "no longer has the kernel 'scikit-learn'"),
    ],
)
def test_other_kernels_are_refused_by_name(spec, message):
    for whole in (spec, {"kind": "sum", "left": {"kind": "linear"}, "right": spec}, {"kind": "scaled", "kernel": spec}):
        with pytest.raises(ServingError, match=message):
            rebuild_kernel(whole)
    with pytest.raises(ServingError, match="'rbf' has no explicit features"):
        rebuild_kernel({"kind": "rbf", "gamma": 1.0}, explicit=True)
    with pytest.raises(ServingError, match="'unheard of' cannot be served: prediction with NumPy alone"):
        rebuild_kernel({"kind": "unheard of"})


def test_rows_of_sparse_matrices_are_those_of_scipy():
    given = scipy.sparse.csr_array(ROWS)
    rows = SparseRows((given.data, given.indices, given.indptr), shape=given.shape)
    offsets = np.array([0, 1, 5, 9])
    for window in [(0, 0), (1, 0), (0, 2), (3, 3)]:
        expected = np.asarray(window_view(ROWS, offsets, window))
        assert np.array_equal(window_view(rows, offsets, window).toarray(), expected)
    assert np.array_equal(rows[:, 1:4].toarray(), ROWS[:, 1:4])
    assert np.array_equal(rows[2:5].toarray(), ROWS[2:5])
    assert np.array_equal(rows[np.array([4, 3, 3, 0])].toarray(), ROWS[[4, 3, 3, 0]])
    assert np.array_equal(rows.T.toarray(), ROWS.T)
    assert np.array_equal((rows * 2.0).toarray(), 2.0 * ROWS)
    matrix = RANDOM.normal(size=(5, 2))
    for right in (matrix, SparseRows.from_dense(matrix)):
        np.testing.assert_allclose(rows @ right, ROWS @ matrix, atol=1e-14)
    np.testing.assert_allclose(matrix.T @ rows.T, matrix.T @ ROWS.T, atol=1e-14)


NOT_IN_ONNX = re.compile("Laplacian|Forest")


@pytest.mark.parametrize("kernel", [kernel for kernel in KERNELS if not NOT_IN_ONNX.search(repr(kernel))], ids=repr)
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


@pytest.mark.parametrize("kernel", EXPLICIT, ids=repr)
@pytest.mark.parametrize("sparse", [False, True])
def test_explicit_features_in_onnx(kernel, sparse):
    pytest.importorskip("onnx")
    features = np.asarray(kernel.feature_map(ROWS))
    V = RANDOM.normal(size=(features.shape[1], 3))
    values = computed_in_onnx(lambda rows: kernel.feature_map(rows) @ V, ROWS, sparse)
    np.testing.assert_allclose(values, features @ V, atol=1e-12)


def test_precomputed_values_in_onnx():
    pytest.importorskip("onnx")
    pivots = np.array([[1.0], [2.0]])
    for kernel in (Precomputed(ROWS @ ROWS.T), Normalized(Precomputed(ROWS @ ROWS.T)), 2.0 * Precomputed(np.eye(9))):
        values = value_in_onnx(kernel, ROW_NUMBERS, pivots, sparse=False)
        np.testing.assert_allclose(values, kernel(ROW_NUMBERS, pivots), rtol=1e-12)


@register("overlap")
class Overlap(Kernel):
    """A kernel of a user's own, made of operations that every place has."""

    takes_tensors = True

    def _block(self, X, Z):
        products = arrays.inner_products(X, Z)
        norms = arrays.squared_norms(X if Z is None else Z)
        return products / (arrays.outer_sums(arrays.squared_norms(X), norms) - products)

    def _diagonal(self, X):
        return arrays.fill_array(X, (X.shape[0],), 1.0, X.dtype)


@register("hyperbolic")
class Hyperbolic(Kernel):
    """A kernel of a user's own that is computed with NumPy."""

    def _block(self, X, Z):
        return np.cosh(X @ X.T if Z is None else X @ Z.T)

    def _diagonal(self, X):
        return np.cosh((X * X).sum(axis=1))


@pytest.mark.parametrize("kernel", [Overlap(), Hyperbolic()], ids=repr)
def test_a_registered_kernel_is_saved_served_and_exported(kernel, tmp_path):
    X, y = [np.abs(ROWS[:5]) + 0.1, np.abs(ROWS[5:]) + 0.1], [["a", "b", "a", "b", "b"], ["b", "a", "a", "b"]]
    crf = ChainCRF(kernel, prior_variance=1.0, tol=0.1).fit(X, y)
    crf.save(tmp_path / "model")
    expected = np.concatenate(crf.predict_marginals(X))
    for loaded in (ChainCRF.load(tmp_path / "model"), load_chain(tmp_path / "model")):
        np.testing.assert_allclose(np.concatenate(loaded.predict_marginals(X)), expected, atol=1e-12)
    pytest.importorskip("onnx")
    if isinstance(kernel, Overlap):
        to_onnx(crf, tmp_path / "model.onnx")
        assert (tmp_path / "model.onnx").exists()
    else:
        with pytest.raises(ServingError, match="the kernel 'hyperbolic' has no form in ONNX: its formula is not made"):
            to_onnx(crf, tmp_path / "model.onnx")


def value_in_onnx(kernel, rows, pivots, sparse):
    """The block of a kernel as onnxruntime computes it."""
    return computed_in_onnx(kernel.towards(pivots), rows, sparse)


def computed_in_onnx(function, rows, sparse):
    """A function of rows as onnxruntime computes it."""
    onnxruntime = pytest.importorskip("onnxruntime")
    from onnx import TensorProto, helper

    from kernelfields.serving.onnx_graph import OPSET, DenseGraphRows, Graph, SparseGraphRows

    graph, info = Graph(), helper.make_tensor_value_info
    if sparse:
        csr = scipy.sparse.csr_array(rows)
        feed = {"indptr": csr.indptr.astype(np.int64), "indices": csr.indices.astype(np.int64), "values": csr.data}
        kinds = {"indptr": TensorProto.INT64, "indices": TensorProto.INT64, "values": TensorProto.DOUBLE}
        inputs = [info(name, kind, [None]) for name, kind in kinds.items()]
        parts = [graph.value(name, name) for name in kinds]
        view = SparseGraphRows.from_inputs(*parts, rows.shape[1], graph.whole(len(rows)))
    else:
        feed = {"inputs": rows}
        inputs = [info("inputs", TensorProto.DOUBLE, [None, rows.shape[1]])]
        view = DenseGraphRows(graph.value("inputs", "inputs"), rows.shape[1])
    graph.name_output(function(view), "values_of_kernel")
    outputs = [info("values_of_kernel", TensorProto.DOUBLE, [None, None])]
    whole = helper.make_graph(graph.nodes, "kernel", inputs, outputs, graph.initializers)
    model = helper.make_model(whole, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=8)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, feed)[0]
