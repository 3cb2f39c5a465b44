"""Arrays of an ONNX graph: values with operators, rows of inputs, and the operations of kernels.

    Value              an array that the graph computes; operators and functions of NumPy add nodes to the graph
    DenseGraphRows     inputs (T, d) double, or windows of them
    SparseGraphRows    the parts of a CSR matrix: indptr (T + 1) and indices (E) int64, values (E) double

The formulas of kernelfields.kernels hold for such rows and values, whose methods are the operations of
kernels/arrays.py, by the same names. Pivots and coefficients are arrays of NumPy, which become constants. The number T
of rows is not known, so that constants have one row, which is broadcast. Rows of sparse inputs are never filled in:
entry (t, j, v) adds v M[j] to row t, block by block of a window. Everything is computed in double precision.
Raises ServingError for operations that ONNX does not support; ImportError without onnx.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from types import ModuleType
from typing import TYPE_CHECKING, Self

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin
from numpy.typing import ArrayLike, DTypeLike

from kernelfields.inference.packing import TIE
from kernelfields.numerics.sparse_rows import Rows, is_sparse
from kernelfields.serving.inputs import ServingError

if TYPE_CHECKING:
    from onnx import NodeProto, TensorProto

OPSET = 17
# Readers of ONNX from 2022 on have it.
IR_VERSION = 8
#: A file of ONNX is one message of Protocol Buffers, which has at most 2 GiB.
_MOST_BYTES = 2**31 - 2**24
_LOWEST = np.finfo(np.float64).min
#: The numbers that ONNX has for types: onnx.TensorProto.INT64 and DOUBLE.
_INT64, _DOUBLE = 7, 11

Attribute = int | list[int] | str
#: Functions of NumPy, and what ONNX calls them.
_OPERATIONS = {
    "absolute": "Abs",
    "add": "Add",
    "exp": "Exp",
    "greater": "Greater",
    "less_equal": "LessOrEqual",
    "log": "Log",
    "matmul": "MatMul",
    "multiply": "Mul",
    "negative": "Neg",
    "sqrt": "Sqrt",
    "subtract": "Sub",
    "divide": "Div",
}


class Graph:
    """The nodes and constants of an ONNX graph; nested graphs may refer to values of outer ones."""

    def __init__(self, outer: Graph | None = None, *, prefix: str = ""):
        try:
            from onnx import helper, numpy_helper
        except ImportError as error:
            raise ImportError("writing ONNX needs the package onnx: pip install 'kernelfields[onnx]'") from error
        self._helper: ModuleType = helper
        self._numpy: ModuleType = numpy_helper
        self.outer, self._prefix = outer, prefix
        self.nodes: list[NodeProto] = []
        self.initializers: list[TensorProto] = []
        self._constants: dict[bytes, Value] = {}
        self._n_names = self._n_bytes = 0

    @property
    def _root(self) -> Graph:
        return self if self.outer is None else self.outer._root

    def value(self, kind: str, name: str | None = None) -> Value:
        """Return a value of this graph with a given or a new name."""
        self._root._n_names += 1
        return Value(self, name or f"{self._root._prefix}{kind}_{self._root._n_names}")

    def constant(self, content: ArrayLike, dtype: DTypeLike = np.float64) -> Value:
        """Add a constant to the outermost graph; small equal constants are shared."""
        if self.outer is not None:
            return self._root.constant(content, dtype)
        array = np.ascontiguousarray(content, dtype=dtype).reshape(np.shape(content))
        key = repr((array.dtype.str, array.shape)).encode() + array.tobytes() if array.size <= 64 else b""
        if key in self._constants:
            return self._constants[key]
        value = self.value("constant")
        self._n_bytes += array.nbytes
        if self._n_bytes > _MOST_BYTES:
            raise ServingError("the coefficients or pivots are too large for a file of ONNX, which has 2 GiB at most")
        self.initializers.append(self._numpy.from_array(array, value.name))
        if key:
            self._constants[key] = value
        return value

    def whole(self, *numbers: int) -> Value:
        """Add a constant list of integers."""
        return self.constant(np.array(numbers, dtype=np.int64), np.int64)

    def zeros(self, shape: Value, dtype: DTypeLike = np.float64) -> Value:
        """Return zeros of a shape that the graph computes."""
        return self.add("ConstantOfShape", shape, value=self._numpy.from_array(np.zeros(1, dtype=dtype)))

    def add(self, operation: str, *operands: Operand, **attributes: Attribute | TensorProto) -> Value:
        """Add a node with one output, and return the output."""
        value = self.value(operation.lower())
        names = [(operand if isinstance(operand, Value) else self.constant(operand)).name for operand in operands]
        self.nodes.append(self._helper.make_node(operation, names, [value.name], **attributes))
        return value

    def name_output(self, value: Value, name: str) -> None:
        """Make a value an output with a name."""
        self.nodes.append(self._helper.make_node("Identity", [value.name], [name]))

    def scan(
        self,
        body: Graph,
        states: Sequence[tuple[Value, Value, Value]],
        rows: Sequence[tuple[Value, Value]],
        results: Sequence[Value],
        *,
        backward: bool = False,
    ) -> list[Value]:
        """Add a loop over rows; return the last states and the collected results.

        ``states``: (first value, the value in the body, the next one); ``rows``: (array, its row in the body);
        ``results``: values of the body that are collected, in the order of the rows.
        """
        info = self._helper.make_empty_tensor_value_info
        inputs = [info(inside.name) for _, inside, _ in states] + [info(inside.name) for _, inside in rows]
        outputs = [info(after.name) for _, _, after in states] + [info(inside.name) for inside in results]
        inner = self._helper.make_graph(body.nodes, self.value("body").name, inputs, outputs)
        found = [self.value("state") for _ in states] + [self.value("rows") for _ in results]
        sources = [first.name for first, _, _ in states] + [array.name for array, _ in rows]
        directions = {
            "scan_input_directions": [int(backward)] * len(rows),
            "scan_output_directions": [int(backward)] * len(results),
        }
        names = [value.name for value in found]
        loop = self._helper.make_node("Scan", sources, names, body=inner, num_scan_inputs=len(rows), **directions)
        self.nodes.append(loop)
        return found


class Value(NDArrayOperatorsMixin):
    """A symbolic array of a graph; only constants have a known ``shape``."""

    has_kernel_operations = True
    dtype = np.dtype(np.float64)

    def __init__(self, graph: Graph, name: str, shape: tuple[int, ...] = ()):
        self.graph, self.name, self.shape = graph, name, shape

    def node(self, operation: str, *others: Operand, **attributes: Attribute) -> Value:
        """Add an operator on this value and others, in the innermost of their graphs."""
        inner = [other.graph for other in others if isinstance(other, Value) and other.graph.outer is self.graph]
        return (inner[0] if inner else self.graph).add(operation, self, *others, **attributes)

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *operands: Operand, out: object = None) -> Value:
        if method != "__call__" or ufunc.__name__ not in _OPERATIONS:
            return NotImplemented
        first, *others = (own if isinstance(own, Value) else self.graph.constant(own) for own in operands)
        return first.node(_OPERATIONS[ufunc.__name__], *others)

    def __array_function__(
        self, function: Callable, types: object, operands: Sequence[Value], options: Mapping[str, object]
    ) -> Value:
        return operands[0].node("Where", *operands[1:]) if function is np.where else NotImplemented

    def __getitem__(self, key: tuple[slice, None]) -> Value:
        """Return a column vector (T, 1) unchanged."""
        return self

    def convert(self, dtype: DTypeLike) -> Value:
        """Return the value in double precision."""
        return self.node("Cast", to=_DOUBLE)

    def transform(self, function: Callable[[Value], Value]) -> Value:
        """Apply a function to each entry."""
        return function(self)

    def scale_rows_and_columns(self, rows: Value, columns: np.ndarray) -> Value:
        """Multiply entry (i, j) by rows[i] * columns[j]."""
        return self * rows * columns

    def zero_small(self, bounds: Value) -> Value:
        """Set entries that are at most their bounds to zero."""
        return (self <= bounds).node("Where", 0.0, self)

    def first_negative(self) -> None:
        """Return None, as values are unknown before the graph runs."""

    def concatenate_columns(self, other: GraphRows | Value) -> JoinedRows:
        """Concatenate the columns of two matrices."""
        return JoinedRows([self, other])

    def clip(self, max: float) -> Value:  # noqa: A002  # as NumPy has it
        """Limit the entries by a maximum."""
        return self.node("Min", max)

    def argmax(self, axis: int) -> Value:
        """Return the index of the maximum along an axis; among values equal up to rounding, the first."""
        largest = self.node("GreaterOrEqual", self.max(axis, keepdims=True) - TIE)
        return largest.node("Cast", to=_INT64).node("ArgMax", axis=axis, keepdims=0)

    def max(self, axis: int, keepdims: bool = False) -> Value:
        """Return the maximum along an axis."""
        return self.node("ReduceMax", axes=[axis], keepdims=int(keepdims))

    def sum(self, axis: int | None = None) -> Value:
        """Return the sum along an axis, or of all entries."""
        axes = () if axis is None else (self.graph.whole(axis),)
        return self.node("ReduceSum", *axes, keepdims=0)

    def unsqueeze(self, axis: int) -> Value:
        """Insert an axis of length one."""
        return self.node("Unsqueeze", self.graph.whole(axis))

    def squeeze(self, axis: int) -> Value:
        """Remove an axis of length one."""
        return self.node("Squeeze", self.graph.whole(axis))

    def part(self, begin: Value, end: Value, axis: int = 0) -> Value:
        """Return a slice of rows or columns; ``begin`` and ``end`` are lists with one number."""
        return self.node("Slice", begin, end, self.graph.whole(axis))


Operand = Value | ArrayLike


class ConstantRow(Value):
    """A constant row (1, m), or number; functions of constants are constants."""

    def __init__(self, graph: Graph, content: np.ndarray):
        self.graph, self.content, self.shape = graph, content, content.shape

    @cached_property
    def name(self) -> str:  # type: ignore[override]
        """The name of the constant, which is added to the graph on first use."""
        return self.graph.constant(self.content).name

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *operands: Operand, out: object = None) -> Value:
        if method == "__call__" and all(isinstance(own, ConstantRow) or not isinstance(own, Value) for own in operands):
            plain = [own.content if isinstance(own, ConstantRow) else own for own in operands]
            return ConstantRow(self.graph, np.asarray(ufunc(*plain)))
        return super().__array_ufunc__(ufunc, method, *operands)

    def convert(self, dtype: DTypeLike) -> ConstantRow:
        """Return the row unchanged, in double precision."""
        return self


class Product(Value):
    """The product of rows and a matrix (width, m); a scalar factor is applied to the matrix.

    onnxruntime would join a product and a factor in one node, which has the factor in single precision.
    """

    def __init__(self, rows: GraphRows, matrix: np.ndarray):
        self.graph, self.rows, self.matrix = rows.graph, rows, matrix

    @cached_property
    def name(self) -> str:  # type: ignore[override]
        """The name of the product, which is added to the graph on first use."""
        return self.rows._product(self.matrix).name

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *operands: Operand, out: object = None) -> Value:
        if ufunc is np.multiply and operands[0] is self and isinstance(operands[1], float):
            return Product(self.rows, self.matrix * operands[1])
        return super().__array_ufunc__(ufunc, method, *operands)


class GraphRows:
    """Base class of input rows with ``width`` columns, which differ in their product with a matrix."""

    has_kernel_operations = True
    dtype = np.dtype(np.float64)
    # Arrays leave operators to the rows.
    __array_ufunc__ = None

    def __init__(self, graph: Graph, width: int):
        self.graph, self.width = graph, width

    @property
    def shape(self) -> tuple[int, int]:
        """A placeholder shape: one row, as the number of rows is unknown, and the number of columns."""
        return 1, self.width

    def _product(self, matrix: np.ndarray) -> Value:
        """Add the product of the rows and a matrix (width, m) to the graph."""
        raise NotImplementedError

    def __matmul__(self, matrix: np.ndarray) -> Value:
        return Product(self, matrix)

    def __mul__(self, factor: Operand) -> ScaledRows:
        return ScaledRows(self, factor)

    def as_rows(self, name: str = "X") -> Self:
        """Return the rows."""
        return self

    def convert(self, dtype: DTypeLike) -> Self:
        """Return the rows unchanged, in double precision."""
        return self

    def is_dense(self) -> bool:
        """Whether the rows are dense."""
        return isinstance(self, DenseGraphRows)

    def scale_rows(self, factors: Value) -> ScaledRows:
        """Multiply each row by a factor."""
        return self * factors

    def concatenate_columns(self, other: GraphRows | Value) -> JoinedRows:
        """Concatenate the columns of two matrices."""
        return JoinedRows([self, other])

    def inner_products(self, Z: Rows) -> Value:
        """Compute <x, z> for all rows, (T, r)."""
        return self @ dense_matrix(Z).T

    def manhattan_distances(self, Z: Rows) -> Value:
        """Raise ServingError, as L1 distances of sparse rows are no matrix product."""
        raise ServingError("the kernel 'laplacian' on sparse inputs has no form in ONNX: use 'rbf', or dense inputs")

    def look_up(self, table: np.ndarray, columns: np.ndarray | None, owner: str) -> Value:
        """Look up table entries by the row numbers in the rows and by columns; the diagonal for None."""
        numbers = (self @ np.ones((1, 1))).node("Cast", to=_INT64)
        chosen = table.diagonal()[:, None] if columns is None else table[:, columns]
        return self.graph.add("Gather", chosen, numbers.squeeze(1))

    def map_blocks(self, n_columns: int, dtype: DTypeLike, function: Callable[[Self], Value]) -> Value:
        """Apply a function to the rows."""
        return function(self)

    def fill_array(self, shape: tuple[int, ...], value: float, dtype: DTypeLike) -> Value:
        """Return an array of one value."""
        return ConstantRow(self.graph, np.full(shape if len(shape) == 2 else (*shape, 1), value))


class DenseGraphRows(GraphRows):
    """Rows of a dense array."""

    def __init__(self, rows: Value, width: int):
        super().__init__(rows.graph, width)
        self.rows = rows

    def _product(self, matrix: np.ndarray) -> Value:
        return self.rows @ matrix

    def __sub__(self, row: np.ndarray) -> DenseGraphRows:
        return DenseGraphRows(self.rows - row, self.width)

    def squared_norms(self) -> Value:
        """Return squared norms of the rows, (T, 1)."""
        return self.rows.node("ReduceSumSquare", axes=[1], keepdims=1)

    def __getitem__(self, key: tuple[slice, slice]) -> DenseGraphRows:
        begin, end, _ = key[1].indices(self.width)
        return DenseGraphRows(self.rows.part(self.graph.whole(begin), self.graph.whole(end), axis=1), end - begin)

    def manhattan_distances(self, Z: Rows) -> Value:
        """Compute sum_j |x_j - z_j|, (T, r), by a loop over rows."""
        body = Graph(self.graph)
        row = body.value("row")
        # A loop of ONNX may do without a state.
        return self.graph.scan(body, [], [(self.rows, row)], [abs(row - dense_matrix(Z)).sum(1)])[0]

    def join_neighbours(self, window: tuple[int, int], length: Value) -> DenseGraphRows:
        """Concatenate every row with its neighbours; ``length`` is [T]."""
        if window == (0, 0):
            return self
        blocks = _shift_rows([self.rows] * (sum(window) + 1), window, length)
        return DenseGraphRows(self.graph.add("Concat", *blocks, axis=1), len(blocks) * self.width)


class SparseGraphRows(GraphRows):
    """Rows of a CSR matrix in a window, with the columns ``seen`` = (begin, end).

    ``parts`` are the rows (E, 1), columns (E,) and values (E, 1) of the entries.
    """

    def __init__(
        self,
        parts: tuple[Value, Value, Value],
        n_features: int,
        length: Value,
        window: tuple[int, int] = (0, 0),
        seen: tuple[int, int] | None = None,
    ):
        self.parts, self.n_features, self.length, self.window = parts, n_features, length, window
        self.seen = seen or (0, n_features * (sum(window) + 1))
        super().__init__(length.graph, self.seen[1] - self.seen[0])

    @classmethod
    def from_inputs(
        cls, indptr: Value, indices: Value, values: Value, n_features: int, length: Value
    ) -> SparseGraphRows:
        """Return the rows of the graph's inputs, with the row number of each entry."""
        graph, n_entries = indptr.graph, indices.node("Shape")
        ends = indptr.part(graph.whole(1), graph.whole(-1))
        marks = graph.zeros(n_entries + graph.whole(1), np.int64)
        ones = graph.add("Expand", graph.whole(1), ends.node("Shape"))
        ended = marks.node("ScatterND", ends.unsqueeze(1), ones, reduction="add")
        rows = ended.node("CumSum", graph.constant(np.int64(0), np.int64)).part(graph.whole(0), n_entries)
        return cls((rows.unsqueeze(1), indices, values.unsqueeze(1)), n_features, length)

    def _product(self, matrix: np.ndarray) -> Value:
        n_features, (begin, end) = self.n_features, self.seen
        blocks = []
        for block in range(sum(self.window) + 1):
            first = block * n_features
            low, high = max(begin, first), min(end, first + n_features)
            blocks.append(self._gather_product(matrix[max(low - begin, 0) : max(high - begin, 0)], low - first))
        return self.graph.add("Sum", *_shift_rows(blocks, self.window, self.length)) if blocks[1:] else blocks[0]

    def _gather_product(self, part: np.ndarray, first: int) -> Value:
        """Multiply by a matrix whose row 0 belongs to column ``first``."""
        matrix = np.zeros((self.n_features, part.shape[1]))
        matrix[first : first + len(part)] = part
        rows, indices, values = self.parts
        updates = self.graph.add("Gather", matrix, indices) * values
        shape = self.length.node("Concat", self.graph.whole(matrix.shape[1]), axis=0)
        return self.graph.zeros(shape).node("ScatterND", rows, updates, reduction="add")

    def squared_norms(self) -> Value:
        """Return squared norms of the rows, (T, 1)."""
        rows, indices, values = self.parts
        squared = SparseGraphRows(
            (rows, indices, values * values), self.n_features, self.length, self.window, self.seen
        )
        return squared @ np.ones((self.width, 1))

    def __getitem__(self, key: tuple[slice, slice]) -> SparseGraphRows:
        begin, end, _ = key[1].indices(self.width)
        seen = self.seen[0] + begin, self.seen[0] + end
        return SparseGraphRows(self.parts, self.n_features, self.length, self.window, seen)

    def join_neighbours(self, window: tuple[int, int], length: Value) -> SparseGraphRows:
        """Concatenate every row with its neighbours."""
        return SparseGraphRows(self.parts, self.n_features, length, window)


InputRows = DenseGraphRows | SparseGraphRows


class ScaledRows(GraphRows):
    """Rows with a common factor, or with a factor for each row, (T, 1)."""

    def __init__(self, rows: GraphRows, factor: Operand):
        super().__init__(rows.graph, rows.width)
        self.rows, self.factor = rows, factor

    def _product(self, matrix: np.ndarray) -> Value:
        return (self.rows @ matrix) * self.factor


class JoinedRows(GraphRows):
    """Concatenated columns of rows and constant rows."""

    def __init__(self, parts: Sequence[GraphRows | Value]):
        super().__init__(parts[0].graph, sum(part.shape[1] for part in parts))
        self.parts = parts

    def _product(self, matrix: np.ndarray) -> Value:
        ends = np.cumsum([part.shape[1] for part in self.parts])
        first, *others = (part @ rows for part, rows in zip(self.parts, np.split(matrix, ends[:-1]), strict=True))
        return sum(others, first)


def _shift_rows(blocks: Sequence[Value], window: tuple[int, int], length: Value) -> list[Value]:
    """Shift rows (T, m) by j - before, with zeros beyond the ends."""
    before, after = window
    graph, moved = length.graph, []
    for number, block in enumerate(blocks):
        padded = block.node("Pad", graph.whole(before, 0, after, 0))
        moved.append(padded.part(graph.whole(number), length + graph.whole(number)))
    return moved


def dense_matrix(rows: Rows) -> np.ndarray:
    """Convert rows to a dense float64 array; ServingError if they are too large for an ONNX file."""
    if 8 * rows.shape[0] * rows.shape[1] > _MOST_BYTES:
        size = " x ".join(map(str, rows.shape))
        raise ServingError(f"a matrix of {size} is too large for a file of ONNX, which has 2 GiB at most")
    return np.asarray(rows.toarray() if is_sparse(rows) else rows, dtype=np.float64)


def log_sum_exp(joint: Value, axis: int) -> Value:
    """Compute log-sum-exp of a table (L, L) along an axis; minus infinity for empty sums."""
    peaks = joint.max(axis, keepdims=True).node("Max", _LOWEST)
    return np.log(np.exp(joint - peaks).sum(axis)) + peaks.squeeze(axis)
