"""Arrays of users: the shape, the columns and the entries of objects without an import of their packages.

Arrays, sparse matrices, tensors and tables of pandas, polars and pyarrow differ in their methods; these functions are
the one place that asks an object which of them it has. Packages are recognised by the name of a class and a few
attributes. Raises TypeError for containers and tensors that NumPy cannot read, with the call that makes them readable.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeGuard

import numpy as np

# Types of numbers of PyTorch that NumPy lacks begin so.
_UNKNOWN_NUMBERS = ("torch.bfloat16", "torch.float8", "torch.float4")


def find_shape(values: object) -> tuple[int, ...] | None:
    """Return the shape of an array, a sparse matrix, a tensor or a table; None for others, such as lists."""
    shape = None if isinstance(values, list) else getattr(values, "shape", None)
    return tuple(shape) if isinstance(shape, tuple) else None


def n_dimensions(values: object) -> int:
    """Return the number of dimensions: 1 without a shape, as for a list."""
    shape = find_shape(values)
    return 1 if shape is None else len(shape)


def count_rows(values: Any) -> int:
    """Return the number of rows of an array, a sparse matrix or a table, or the length of a list."""
    shape = find_shape(values)
    return int(shape[0]) if shape else len(values)


def find_column_names(table: object) -> list | None:
    """Return the names of the columns of a table; None for objects without columns."""
    if type(table) is np.ndarray:
        return None
    names = getattr(table, "column_names", None)
    # Of pyarrow, whose ``columns`` are the columns themselves; of others this can be a column of that name.
    columns = names if isinstance(names, list) else getattr(table, "columns", None)
    return None if columns is None or callable(columns) else list(columns)


def column_types(table: Any) -> dict:
    """Return the types of the columns of a table of pandas, polars or pyarrow; empty for other objects."""
    types = table.schema.types if hasattr(table, "column_names") else getattr(table, "dtypes", None)
    return {} if types is None else dict(zip(find_column_names(table) or (), types, strict=True))


def has_array(values: object) -> bool:
    """Whether NumPy can make an array of values without reading their entries."""
    return hasattr(values, "__array__")


def list_entries(values: Iterable[Any]) -> list:
    """Return the entries of a list, an array or a column as Python objects."""
    return np.asarray(values, dtype=object).tolist() if has_array(values) else list(values)


def refuse_containers(values: object, name: str) -> None:
    """Raise if ``values`` contain sequences in a container of another package that is no list."""
    kind = type(values).__name__
    if kind.endswith("GroupBy"):
        raise TypeError(
            f"{name} is a {kind} of {type(values).__module__.partition('.')[0]}: pass a list with one table for each "
            "sequence, or the table itself to kernelfields.FrameCRF or features.read_frame"
        )
    if kind == "PackedSequence":
        raise TypeError(f"{name} is a {kind} of torch: pass the list torch.nn.utils.rnn.unpack_sequence(packed)")
    if is_tensor(values) and values.is_nested:
        raise TypeError(f"{name} is a nested tensor: pass the list of its parts, list(x.unbind())")


def refuse_tensor(item: object, where: str) -> None:
    """Raise if ``item`` is a tensor of PyTorch that NumPy cannot read."""
    refuse_containers(item, where)
    if not is_tensor(item):
        return
    dtype = str(item.dtype)
    if str(item.layout) != "torch.strided":
        raise TypeError(
            f"{where} is a sparse tensor: pass x.to_dense(), or a matrix of scipy.sparse, for example "
            "scipy.sparse.csr_array(x.to_dense().numpy())"
        )
    if type(item).__name__ == "MaskedTensor":
        raise TypeError(f"{where} is a masked tensor: fill or drop the masked rows first, x.to_tensor(0.0)")
    if item.is_conj() or item.is_neg():
        raise TypeError(f"{where} is a view that PyTorch has yet to compute: pass x.resolve_conj().resolve_neg()")
    if item.is_quantized:
        raise TypeError(f"{where} is a quantised tensor: pass x.dequantize()")
    if item.requires_grad:
        raise TypeError(f"{where} is a tensor that requires its gradient, which fields do not pass on: x.detach()")
    if item.device.type != "cpu":
        raise TypeError(
            f"{where} is a tensor on the device {str(item.device)!r}: pass x.cpu(). The engine of an estimator "
            "sets where it is fitted."
        )
    if dtype.startswith(_UNKNOWN_NUMBERS):
        raise TypeError(f"{where} is a tensor of {dtype}, which NumPy does not have: pass x.float()")


def is_tensor(item: object) -> TypeGuard[Any]:
    """Whether an object is a tensor of PyTorch, or of a derived class."""
    return hasattr(item, "is_nested") and any(
        each.__module__.partition(".")[0] == "torch" for each in type(item).__mro__
    )
