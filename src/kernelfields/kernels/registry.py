"""Kernels by name: shorthands for users, and descriptions in model files.

    resolve_kernel("rbf")                      -> RBF()
    resolve_kernel("linear + rbf")             -> Linear() + RBF()
    kernel_from_spec(kernel.spec())            -> an equal kernel

Names are given by the decorator ``register`` beside each class. Descriptions may come from files of unknown origin:
only registered classes are built, parameters are checked, and functions are only those that the caller passes.
"""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from functools import reduce
from operator import add

import numpy as np

from kernelfields.kernels.kernel import KERNELS, Kernel, KernelFunction
from kernelfields.kernels.parameters import RULES
from kernelfields.kernels.stationary import RBF, Laplacian, Matern
from kernelfields.numerics.registry import parameter_defaults

#: What takes the place of names that other packages have for kernels.
_ELSEWHERE = {
    "gaussian": "use 'rbf'",
    "squared_exponential": "use 'rbf'",
    "exponential": "use 'laplacian', or kernels.Matern(nu=0.5)",
    "dot": "use 'linear'",
    "jaccard": "use 'tanimoto'",
    "quadratic": "use kernels.Polynomial(2)",
    "cubic": "use kernels.Polynomial(3)",
    "precomputed": "kernels.Precomputed(matrix) looks its values up, for inputs of one column, the numbers of rows",
}
# Kernels inside each other, and all of one description: more would exhaust the stack, or take forever.
_DEEPEST, _MOST = 200, 1000


def resolve_kernel(kernel: object) -> Kernel:
    """Return the kernel of a name, an expression or a function.

    Parameters
    ----------
    kernel : Kernel, str or callable
        A kernel; a name such as "rbf", or names joined by "+"; a kernel of ``sklearn.gaussian_process.kernels``; or a
        function ``function(X, Z)`` that returns an array (n, m).

    Returns
    -------
    Kernel
        The kernel.

    Raises
    ------
    ValueError
        If no kernel has the name; the message has the nearest one.

    Examples
    --------
    >>> from kernelfields.kernels import resolve_kernel
    >>> resolve_kernel("linear + rbf")
    Sum(left=Linear(), right=RBF())
    """
    if isinstance(kernel, Kernel):
        return kernel
    if isinstance(kernel, str):
        if "+" in kernel:
            return reduce(add, (resolve_kernel(name.strip()) for name in kernel.split("+")))
        try:
            return KERNELS.make(kernel)
        except KeyError:
            close = get_close_matches(kernel.lower(), [*KERNELS.shorthands, *_ELSEWHERE], n=1, cutoff=0.6)
            instead = "".join(f" {_ELSEWHERE.get(name, f'did you mean {name!r}?')}" for name in close)
            known = f"{_options()}; got the unknown name {kernel!r}{f':{instead}' if instead else '.'}"
        raise ValueError(known)
    if isinstance(kernel, type):
        raise TypeError(f"{_options()}; got the class {kernel.__name__}. Write {kernel.__name__}() to make one.")
    if callable(kernel):
        return KERNELS.build("callable", kernel)
    raise TypeError(f"{_options()}; got {kernel!r}.")


def _options() -> str:
    """Return the possible forms of a kernel, for messages."""
    return (
        f"Expected a Kernel, one of the names {', '.join(map(repr, KERNELS.shorthands))}, an object of "
        "sklearn.gaussian_process.kernels, or a function(X, Z) that returns an (n, m) array"
    )


def has_default_scale(kernel: object) -> bool:
    """Whether a kernel takes its scale from the data: a name, or a plain kernel without numbers."""
    if isinstance(kernel, Mapping):
        return all(map(has_default_scale, kernel.values()))
    if isinstance(kernel, str):
        return True
    if not isinstance(kernel, Kernel) or kernel not in KERNELS:
        return False
    defaults = parameter_defaults(type(kernel)).values()
    return (not defaults or any(value in RULES for value in defaults)) and kernel == type(kernel)()


def has_isotropic_scale(kernel: object) -> bool:
    """Whether a kernel measures distances on one given scale for all columns."""
    return isinstance(kernel, RBF | Laplacian | Matern)


def kernel_from_spec(spec: object, callables: Mapping[str, KernelFunction] | None = None) -> Kernel:
    """Return the kernel of a description by ``Kernel.spec``; ``callables`` maps names to kernel functions."""
    _check_count(spec)
    return _build(spec, callables or {}, depth=0)


def _check_count(spec: object) -> None:
    """Raise ValueError for a description of too many kernels."""
    waiting, count = [spec], 0
    while waiting:
        described = waiting.pop()
        if isinstance(described, Mapping):
            count += 1
            waiting.extend(described.values())
        if count > _MOST:
            raise ValueError(f"a kernel made of more than {_MOST} others is refused.")


def _build(spec: object, functions: Mapping[str, KernelFunction], depth: int) -> Kernel:
    if depth > _DEEPEST:
        raise ValueError(f"a kernel nested deeper than {_DEEPEST} levels is refused.")
    kind, described = KERNELS.read(spec)
    described = {name: _read_value(value, functions, depth) for name, value in described.items()}
    return kind.from_parameters(described, functions)


def _read_value(value: object, functions: Mapping[str, KernelFunction], depth: int) -> object:
    if isinstance(value, Mapping):
        return _build(value, functions, depth + 1)
    return np.inf if isinstance(value, str) and value == "inf" else value
