"""Kernels as nodes of an ONNX graph: the formulas of kernel_blocks.py, in double precision.

    block(graph, spec, view, Z)              k(x_t, z) for all rows, (T, r)
    explicit(graph, spec, view, V)           phi(x_t) V, (T, m)

Fails: ServingError naming the kernel where it has no such form.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from .kernel_blocks import (
    centre_of,
    column_range,
    diagonal,
    first_rows,
    inverse_or_zero,
    matern_order,
    matern_polynomial,
    n_features,
)
from .onnx_nodes import DenseView, Graph, View, dense_matrix
from .sparse_rows import columns_of, squared_norms
from .tensor_file import ServingError

Spec = Mapping[str, Any]


def block(graph: Graph, spec: Spec, view: View, Z: Any) -> str:
    """Return the name of k(X, Z), (T, r)."""
    kind = spec["kind"]
    if kind == "linear":
        return _products(view, Z)
    if kind == "polynomial":
        return _polynomial(graph, spec, _products(view, Z))
    if kind == "rbf":
        return _decay(graph, _distances(graph, view, Z), spec["gamma"])
    if kind == "matern":
        return _matern(graph, spec, _distances(graph, view, Z))
    if kind == "laplacian":
        return _decay(graph, _manhattan(graph, view, Z), spec["gamma"])
    if kind == "constant":
        return graph.constant(np.full((1, Z.shape[0]), float(spec["value"])))
    if kind == "cosine":
        norms = graph.add("Sqrt", view.squared_norms())
        return _normalized(graph, _products(view, Z), norms, np.sqrt(squared_norms(Z)))
    if kind == "normalized":
        own = graph.add("Sqrt", _diagonal(graph, spec["kernel"], view))
        return _normalized(graph, block(graph, spec["kernel"], view, Z), own, np.sqrt(diagonal(spec["kernel"], Z)))
    if kind == "precomputed":
        return _looked_up(graph, spec, view, Z)
    if kind == "columns":
        seen = column_range(spec, view.width)
        return block(graph, spec["kernel"], view.columns(*seen), columns_of(Z, *seen))
    if kind == "power":
        return _power(graph, block(graph, spec["kernel"], view, Z), spec["exponent"])
    if kind == "scaled":
        return graph.add("Mul", block(graph, spec["kernel"], view, Z), graph.constant(float(spec["factor"])))
    left, right = (block(graph, spec[side], view, Z) for side in ("left", "right"))
    return graph.add("Add" if kind == "sum" else "Mul", left, right)


def explicit(graph: Graph, spec: Spec, view: View, V: Any) -> str:
    """Return the name of explicit features times coefficients V (features, m)."""
    kind = spec["kind"]
    if kind == "linear":
        return view.product(dense_matrix(V))
    if kind == "constant":
        return graph.constant(math.sqrt(spec["value"]) * dense_matrix(V))
    if kind == "scaled":
        return graph.add("Mul", explicit(graph, spec["kernel"], view, V), graph.constant(math.sqrt(spec["factor"])))
    if kind == "columns":
        return explicit(graph, spec["kernel"], view.columns(*column_range(spec, view.width)), V)
    cut = n_features(spec["left"], view.width)
    left = explicit(graph, spec["left"], view, first_rows(V, 0, cut))
    return graph.add("Add", left, explicit(graph, spec["right"], view, first_rows(V, cut, V.shape[0])))


def _products(view: View, Z: Any) -> str:
    return view.product(dense_matrix(Z).T)


def _polynomial(graph: Graph, spec: Spec, products: str) -> str:
    scaled = graph.add("Mul", products, graph.constant(float(spec["gamma"])))
    return _power(graph, graph.add("Add", scaled, graph.constant(float(spec["coef0"]))), spec["degree"])


def _power(graph: Graph, base: str, exponent: int) -> str:
    if exponent == 1:
        return base
    half = _power(graph, graph.add("Mul", base, base), exponent // 2)
    return graph.add("Mul", half, base) if exponent % 2 else half


def _distances(graph: Graph, view: View, Z: Any) -> str:
    """Return squared distances; what lies below the rounding of the norms is zero."""
    rows = dense_matrix(Z)
    if isinstance(view, DenseView):
        centre = centre_of(rows)
        view, rows = view.without(centre), rows - centre
    sums = graph.add("Add", view.squared_norms(), graph.constant(squared_norms(rows)[None]))
    products = graph.add("Mul", _products(view, rows), graph.constant(-2.0))
    distances = graph.add("Add", products, sums)
    rounding = graph.add("Mul", sums, graph.constant(32 * np.finfo(np.float64).eps))
    return graph.add("Where", graph.add("LessOrEqual", distances, rounding), graph.constant(0.0), distances)


def _decay(graph: Graph, distances: str, gamma: float) -> str:
    return graph.add("Exp", graph.add("Mul", distances, graph.constant(-float(gamma))))


def _matern(graph: Graph, spec: Spec, distances: str) -> str:
    nu, length = matern_order(spec), float(spec["length_scale"])
    if nu == math.inf:
        return _decay(graph, distances, 0.5 / length**2)
    t = graph.add("Mul", graph.add("Sqrt", distances), graph.constant(math.sqrt(2.0 * nu) / length))
    *lower, total = (graph.constant(factor) for factor in matern_polynomial(nu))
    for factor in reversed(lower):
        total = graph.add("Add", graph.add("Mul", total, t), factor)
    return graph.add("Mul", total, graph.add("Exp", graph.add("Neg", t)))


def _manhattan(graph: Graph, view: View, Z: Any) -> str:
    """Return sum_j |x_j - z_j|, a row of inputs at a time."""
    if not isinstance(view, DenseView):
        raise ServingError("the kernel 'laplacian' on sparse inputs has no form in ONNX: use 'rbf', or dense inputs")
    body = Graph(graph)
    row = body.name("row")
    apart = body.add("Abs", body.add("Sub", row, graph.constant(dense_matrix(Z))))
    sums = body.add("ReduceSum", apart, graph.whole(1), keepdims=0)
    # A loop of ONNX may do without a state.
    return graph.scan(body, [], [(view.rows, row)], [sums])[0]


def _normalized(graph: Graph, values: str, norms: str, other: np.ndarray) -> str:
    """Divide by norms of both sides; where one is zero, so is the value."""
    zero, one = graph.constant(0.0), graph.constant(1.0)
    positive = graph.add("Greater", norms, zero)
    inverse = graph.add("Div", graph.add("Where", positive, one, zero), graph.add("Where", positive, norms, one))
    return graph.add("Mul", graph.add("Mul", values, inverse), graph.constant(inverse_or_zero(other)[None]))


def _diagonal(graph: Graph, spec: Spec, view: View) -> str:
    """Return the name of k(x, x), (T, 1) or (1, 1)."""
    kind = spec["kind"]
    if kind == "linear":
        return view.squared_norms()
    if kind == "polynomial":
        return _polynomial(graph, spec, view.squared_norms())
    if kind == "cosine":
        return _positive(graph, view.squared_norms())
    if kind == "constant":
        return graph.constant([[float(spec["value"])]])
    if kind in ("sum", "product"):
        left, right = (_diagonal(graph, spec[side], view) for side in ("left", "right"))
        return graph.add("Add" if kind == "sum" else "Mul", left, right)
    if kind == "precomputed":
        raise ServingError("the kernel 'normalized' of a precomputed one has no form in ONNX: normalize the matrix")
    if kind in ("power", "scaled", "normalized", "columns"):
        seen = view.columns(*column_range(spec, view.width)) if kind == "columns" else view
        inner = _diagonal(graph, spec["kernel"], seen)
        if kind == "power":
            return _power(graph, inner, spec["exponent"])
        if kind == "scaled":
            return graph.add("Mul", inner, graph.constant(float(spec["factor"])))
        return _positive(graph, inner) if kind == "normalized" else inner
    return graph.constant([[1.0]])  # a function of the distance


def _positive(graph: Graph, values: str) -> str:
    zero = graph.constant(0.0)
    return graph.add("Where", graph.add("Greater", values, zero), graph.constant(1.0), zero)


def _looked_up(graph: Graph, spec: Spec, view: View, Z: Any) -> str:
    numbers = graph.add("Cast", view.product(np.ones((1, 1))), to=_INT64)
    rows = graph.add("Squeeze", numbers, graph.whole(1))
    columns = dense_matrix(Z)[:, 0].astype(np.intp)
    return graph.add("Gather", graph.constant(np.asarray(spec["matrix"])[:, columns]), rows)


#: The number that ONNX has for 64-bit whole numbers, onnx.TensorProto.INT64.
_INT64 = 7
