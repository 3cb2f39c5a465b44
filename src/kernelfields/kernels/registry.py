"""Kernels by name: shorthands for users, and descriptions in model files.

    resolve_kernel("rbf")                      -> RBF()
    kernel_from_spec(kernel.spec())            -> an equal kernel

Descriptions may come from files of unknown origin: kinds are looked up in a fixed table, parameters
are checked, and functions are only those that the caller passes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from kernelfields.kernels.arrays import SPARSE_MATRIX, matrix_from_description
from kernelfields.kernels.callables import CallableKernel
from kernelfields.kernels.columns import Columns
from kernelfields.kernels.dot_product import Cosine, Linear, Polynomial
from kernelfields.kernels.graph_laplacian import GraphDiffusion, GraphLaplacian
from kernelfields.kernels.kernel import Constant, Kernel, Normalized, Power, Product, Scaled, Sum
from kernelfields.kernels.manifold import Manifold
from kernelfields.kernels.precomputed import Precomputed
from kernelfields.kernels.scikit_learn import ScikitLearnKernel, is_foreign, kernel_from_description
from kernelfields.kernels.stationary import RBF, Laplacian, Matern

_PLAIN: tuple[type[Kernel], ...] = (Linear, Polynomial, RBF, Laplacian, Matern, Cosine, Constant)
_COMPOSED: tuple[type[Kernel], ...] = (Sum, Product, Power, Scaled, Normalized, Columns, Manifold)
_ON_NODES: tuple[type[Kernel], ...] = (GraphLaplacian, GraphDiffusion)
_FOREIGN: tuple[type[Kernel], ...] = (Precomputed, CallableKernel, ScikitLearnKernel)
_NAMES: dict[str, Callable[[], Kernel]] = {
    "linear": Linear,
    "poly": Polynomial,
    "quadratic": lambda: Polynomial(degree=2),
    "cubic": lambda: Polynomial(degree=3),
    **{kernel.kind: kernel for kernel in _PLAIN},
}
_KINDS: dict[str, type[Kernel]] = {kernel.kind: kernel for kernel in (*_PLAIN, *_COMPOSED, *_ON_NODES, *_FOREIGN)}
# Kernels inside each other, and all of one description: more would exhaust the stack, or take forever.
_DEEPEST, _MOST = 200, 1000


def resolve_kernel(kernel: Any) -> Kernel:
    """Return the kernel meant by a Kernel, a name, a scikit-learn kernel or a function(X, Z)."""
    options = (
        f"Expected a Kernel, one of the names {', '.join(map(repr, _NAMES))}, an object of "
        "sklearn.gaussian_process.kernels, or a function(X, Z) that returns an (n, m) array"
    )
    if isinstance(kernel, Kernel):
        return kernel
    if isinstance(kernel, str):
        if kernel not in _NAMES:
            raise ValueError(f"{options}; got the unknown name {kernel!r}.")
        return _NAMES[kernel]()
    if isinstance(kernel, type):
        raise TypeError(f"{options}; got the class {kernel.__name__}. Write {kernel.__name__}() to make one.")
    if is_foreign(kernel):
        adapted = ScikitLearnKernel(kernel)
        adapted.check_parameters()  # at once: some that are no kernels cannot even be shown in a message
        return adapted
    if callable(kernel):
        return CallableKernel(kernel)
    raise TypeError(f"{options}; got {kernel!r}.")


def has_no_scale(kernel: Any) -> bool:
    """Whether a kernel, as a user gives it, leaves its scale to the data: a name, or a plain one without numbers."""
    if isinstance(kernel, Mapping):
        return all(map(has_no_scale, kernel.values()))
    if isinstance(kernel, str):
        return True
    return isinstance(kernel, _PLAIN) and kernel == type(kernel)() and not isinstance(kernel, Constant)


def has_one_scale(kernel: Any) -> bool:
    """Whether a kernel sees distances between inputs on a scale that a user has chosen, the same for all columns."""
    return isinstance(kernel, RBF | Laplacian | Matern) and np.ndim(kernel.get_params().get("gamma", 1.0)) == 0


def kernel_from_spec(
    spec: Mapping[str, Any], callables: Mapping[str, Callable[[Any, Any], np.ndarray]] | None = None
) -> Kernel:
    """Return the kernel that ``Kernel.spec`` described; ``callables`` maps names to kernel functions."""
    _check_count(spec)
    return _build(spec, callables or {}, depth=0)


def _check_count(spec: Any) -> None:
    """Raise ValueError for a description of too many kernels."""
    waiting, count = [spec], 0
    while waiting:
        described = waiting.pop()
        if isinstance(described, Mapping):
            count += 1
            waiting.extend(described.values())
        if count > _MOST:
            raise ValueError(f"a kernel made of more than {_MOST} others is refused.")


def _build(spec: Any, callables: Mapping[str, Callable], depth: int) -> Kernel:
    if not isinstance(spec, Mapping):
        raise ValueError(f"a kernel is described by a mapping with the key 'kind', got {spec!r:.200}.")
    if depth > _DEEPEST:
        raise ValueError(f"a kernel nested deeper than {_DEEPEST} levels is refused.")
    kind = spec.get("kind")
    if not isinstance(kind, str) or kind not in _KINDS:
        raise ValueError(f"unknown kind of kernel {kind!r}; known are {', '.join(_KINDS)}.")
    kernel_class = _KINDS[kind]
    given = {name: value for name, value in spec.items() if name != "kind"}
    expected = ("name",) if kernel_class is CallableKernel else kernel_class._get_param_names()
    if set(given) != set(expected):
        raise ValueError(
            f"a kernel of kind {kind!r} has the parameters [{', '.join(expected)}], got [{', '.join(map(str, given))}]."
        )
    if kernel_class is CallableKernel:
        return _named_callable(given["name"], callables)
    if kernel_class is ScikitLearnKernel:
        return ScikitLearnKernel(kernel_from_description(given["kernel"]))
    parameters = {name: _read_value(value, callables, depth) for name, value in given.items()}
    kernel = kernel_class(**parameters)
    try:
        kernel.check_parameters()
    except TypeError as error:
        raise ValueError(f"the description of a kernel of kind {kind!r} is wrong: {error}") from error
    return kernel


def _read_value(value: Any, callables: Mapping[str, Callable], depth: int) -> Any:
    if isinstance(value, Mapping):
        if value.get("kind") == SPARSE_MATRIX:
            return matrix_from_description(value)
        return _build(value, callables, depth + 1)
    return np.inf if isinstance(value, str) and value == "inf" else value


def _named_callable(name: Any, callables: Mapping[str, Callable]) -> CallableKernel:
    if not isinstance(name, str):
        raise ValueError(f"the name of a kernel function must be a string, got {name!r}.")
    if name not in callables:
        raise ValueError(
            f"this kernel uses the function {name!r}, which is not stored with it. "
            f"Pass callables={{{name!r}: function}}; given were [{', '.join(map(repr, callables))}]."
        )
    kernel = CallableKernel(callables[name], name=name)
    kernel.check_parameters()
    return kernel
