"""Nodes of an ONNX graph under construction, and inputs as such a graph sees them.

    DenseView     inputs (T, d) double, or windows of them
    SparseView    the parts of a CSR matrix: indptr (T + 1) and indices (E) int64, values (E) double

A view gives products with constant matrices and squared norms of its rows, which is all that most kernels ask for. Rows
of sparse inputs are never filled in: entry (t, j, v) adds v M[j] to row t, block by block of a window.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .sparse_rows import SparseRows
from .tensor_file import ServingError

OPSET = 17
#: A file of ONNX is one message of Protocol Buffers, which has at most 2 GiB.
_MOST_BYTES = 2**31 - 2**24


class Graph:
    """Nodes and constants, named as they are added; graphs inside others see the names of those."""

    def __init__(self, outer: Graph | None = None):
        try:
            from onnx import helper, numpy_helper
        except ImportError as error:
            raise ImportError("writing ONNX needs the package onnx: pip install 'kernelfields[onnx]'") from error
        self._helper, self._numpy = helper, numpy_helper
        self._names: list[str] = [] if outer is None else outer._names
        self._constants: dict[bytes, str] = {}
        self.nodes: list[Any] = []
        self.initializers: list[Any] = []
        self.n_bytes = 0

    def name(self, kind: str) -> str:
        """Return a name that no other value has."""
        self._names.append(kind)
        return f"{kind}_{len(self._names)}"

    def constant(self, value: Any, dtype: Any = np.float64) -> str:
        """Return the name of a constant; equal small ones are kept once."""
        array = np.ascontiguousarray(value, dtype=dtype).reshape(np.shape(value))
        key = repr((array.dtype.str, array.shape)).encode() + array.tobytes() if array.size <= 64 else b""
        if key in self._constants:
            return self._constants[key]
        name = self.name("constant")
        self.n_bytes += array.nbytes
        if self.n_bytes > _MOST_BYTES:
            raise ServingError("the coefficients or pivots are too large for a file of ONNX, which has 2 GiB at most")
        self.initializers.append(self._numpy.from_array(array, name))
        if key:
            self._constants[key] = name
        return name

    def whole(self, *numbers: int) -> str:
        """Return the name of a constant list of whole numbers."""
        return self.constant(np.array(numbers, dtype=np.int64), np.int64)

    def add(self, operation: str, *inputs: str, output: str | None = None, **attributes: Any) -> str:
        """Add a node with one output; return its name."""
        name = output or self.name(operation.lower())
        self.nodes.append(self._helper.make_node(operation, list(inputs), [name], **attributes))
        return name

    def sliced(self, values: str, begin: str, end: str, axis: int = 0) -> str:
        """Return the rows, or columns, from ``begin`` up to ``end``, names of lists of one number."""
        return self.add("Slice", values, begin, end, self.whole(axis))

    def scan(
        self,
        body: Graph,
        states: Sequence[tuple[str, str, str]],
        rows: Sequence[tuple[str, str]],
        results: Sequence[str],
        *,
        backward: bool = False,
    ) -> list[str]:
        """Add a loop over rows; return the names of the last states and of the collected results.

        ``states``: (first value, its name in the body, the name of the next one); ``rows``: (array, its row in the
        body); ``results``: names in the body that are collected, in the order of the rows.
        """
        info = self._helper.make_empty_tensor_value_info
        inputs = [info(inside) for _, inside, _ in states] + [info(inside) for _, inside in rows]
        outputs = [info(after) for _, _, after in states] + [info(inside) for inside in results]
        inner = self._helper.make_graph(body.nodes, self.name("body"), inputs, outputs, body.initializers)
        names = [self.name("state") for _ in states] + [self.name("rows") for _ in results]
        directions = {
            "scan_input_directions": [int(backward)] * len(rows),
            "scan_output_directions": [int(backward)] * len(results),
        }
        given = [first for first, _, _ in states] + [array for array, _ in rows]
        loop = self._helper.make_node("Scan", given, names, body=inner, num_scan_inputs=len(rows), **directions)
        self.nodes.append(loop)
        return names


class DenseView:
    """Rows of an array; ``width`` is the number of their columns."""

    def __init__(self, graph: Graph, rows: str, width: int):
        self.graph, self.rows, self.width = graph, rows, width

    def product(self, matrix: np.ndarray) -> str:
        """Return rows times a matrix (width, m)."""
        return self.graph.add("MatMul", self.rows, self.graph.constant(matrix))

    def squared_norms(self) -> str:
        """Return squared norms of the rows, (T, 1)."""
        return self.graph.add("ReduceSumSquare", self.rows, axes=[1], keepdims=1)

    def columns(self, begin: int, end: int) -> DenseView:
        """Return the same with some columns alone."""
        graph = self.graph
        return DenseView(graph, graph.sliced(self.rows, graph.whole(begin), graph.whole(end), axis=1), end - begin)

    def without(self, centre: np.ndarray) -> DenseView:
        """Return the same with a row taken off every row."""
        return DenseView(self.graph, self.graph.add("Sub", self.rows, self.graph.constant(centre)), self.width)

    def windowed(self, window: tuple[int, int], length: str) -> DenseView:
        """Return every row joined with its neighbours; ``length`` is the name of [T]."""
        if window == (0, 0):
            return self
        n_blocks = sum(window) + 1
        blocks = shifted(self.graph, [self.rows] * n_blocks, window, length)
        return DenseView(self.graph, self.graph.add("Concat", *blocks, axis=1), n_blocks * self.width)


class SparseView:
    """Rows of a CSR matrix in a window, of which the columns ``seen`` = (begin, end) count."""

    def __init__(
        self,
        graph: Graph,
        parts: tuple[str, str, str],
        n_features: int,
        length: str,
        window: tuple[int, int] = (0, 0),
        seen: tuple[int, int] | None = None,
    ):
        self.graph, self.parts, self.n_features, self.length, self.window = graph, parts, n_features, length, window
        self.seen = seen or (0, n_features * (sum(window) + 1))
        self.width = self.seen[1] - self.seen[0]

    @classmethod
    def of_inputs(
        cls, graph: Graph, indptr: str, indices: str, values: str, n_features: int, length: str
    ) -> SparseView:
        """Return the view of inputs: the row of every entry is counted by the rows that began before it."""
        n_entries = graph.add("Shape", indices)
        inner = graph.sliced(indptr, graph.whole(1), graph.whole(-1))
        marks = graph.add("ConstantOfShape", graph.add("Add", n_entries, graph.whole(1)), value=_zero(np.int64))
        ones = graph.add("Expand", graph.whole(1), graph.add("Shape", inner))
        begun = graph.add("ScatterND", marks, graph.add("Unsqueeze", inner, graph.whole(1)), ones, reduction="add")
        counted = graph.add("CumSum", begun, graph.constant(np.int64(0), np.int64))
        rows = graph.add("Unsqueeze", graph.sliced(counted, graph.whole(0), n_entries), graph.whole(1))
        return cls(graph, (rows, indices, graph.add("Unsqueeze", values, graph.whole(1))), n_features, length)

    def product(self, matrix: np.ndarray) -> str:
        """Return rows times a matrix (width, m)."""
        n_features, (begin, end) = self.n_features, self.seen
        blocks = []
        for block in range(sum(self.window) + 1):
            first = block * n_features
            own = np.zeros((n_features, matrix.shape[1]))
            low, high = max(begin, first), min(end, first + n_features)
            if low < high:
                own[low - first : high - first] = matrix[low - begin : high - begin]
            blocks.append(self._gathered(own))
        if self.window == (0, 0):
            return blocks[0]
        return self.graph.add("Sum", *shifted(self.graph, blocks, self.window, self.length))

    def _gathered(self, matrix: np.ndarray) -> str:
        graph, (rows, indices, values) = self.graph, self.parts
        updates = graph.add("Mul", graph.add("Gather", graph.constant(matrix), indices), values)
        shape = graph.add("Concat", self.length, graph.whole(matrix.shape[1]), axis=0)
        zeros = graph.add("ConstantOfShape", shape, value=_zero(np.float64))
        return graph.add("ScatterND", zeros, rows, updates, reduction="add")

    def squared_norms(self) -> str:
        """Return squared norms of the rows, (T, 1)."""
        rows, indices, values = self.parts
        squared = (rows, indices, self.graph.add("Mul", values, values))
        view = SparseView(self.graph, squared, self.n_features, self.length, self.window, self.seen)
        return view.product(np.ones((self.width, 1)))

    def columns(self, begin: int, end: int) -> SparseView:
        """Return the same with some columns alone."""
        seen = self.seen[0] + begin, self.seen[0] + end
        return SparseView(self.graph, self.parts, self.n_features, self.length, self.window, seen)

    def windowed(self, window: tuple[int, int], length: str) -> SparseView:
        """Return every row joined with its neighbours."""
        return SparseView(self.graph, self.parts, self.n_features, length, window)


View = DenseView | SparseView


def shifted(graph: Graph, blocks: Sequence[str], window: tuple[int, int], length: str) -> list[str]:
    """Return block j, (T, m), with row t - before + j in the place of row t, zeros beyond the ends."""
    before, after = window
    moved = []
    for number, block in enumerate(blocks):
        padded = graph.add("Pad", block, graph.whole(before, 0, after, 0))
        moved.append(graph.sliced(padded, graph.whole(number), graph.add("Add", length, graph.whole(number))))
    return moved


def dense_matrix(rows: Any) -> np.ndarray:
    """Return rows that may be sparse as an array of doubles; ServingError where it cannot be in a file of ONNX."""
    if 8 * rows.shape[0] * rows.shape[1] > _MOST_BYTES:
        size = " x ".join(map(str, rows.shape))
        raise ServingError(f"a matrix of {size} is too large for a file of ONNX, which has 2 GiB at most")
    return np.asarray(rows.toarray() if isinstance(rows, SparseRows) else rows, dtype=np.float64)


def _zero(dtype: Any) -> Any:
    from onnx import numpy_helper

    return numpy_helper.from_array(np.zeros(1, dtype=dtype))
