"""The kernels of sklearn.gaussian_process.kernels as kernels of this package.

    ScikitLearnKernel(RBF() + DotProduct())(X, Z)      (n, m), dense inputs only

White noise is refused. In scikit-learn WhiteKernel adds to k(X) and to the diagonal but not to k(X, Z), so its values
depend on whether two equal rows are one object; a kernel here is a function of the rows. The softmax of a field is its
noise already. A CompoundKernel is refused, too: it is a stack of kernels.

In a spec a kernel is {"class": name, "parameters": {...}}, nested; only classes listed here are read. Noise in a spec
is read as zero.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, TypeGuard

import numpy as np

from kernelfields.kernels.arrays import block_dtype
from kernelfields.kernels.kernel import Kernel, KernelFunction, plain_value, register, symmetric
from kernelfields.numerics.sparse_rows import Rows, is_sparse

if TYPE_CHECKING:
    from types import ModuleType

    from sklearn.gaussian_process.kernels import Kernel as ForeignKernel

_OPERATORS = {"Sum": {"k1", "k2"}, "Product": {"k1", "k2"}, "Exponentiation": {"kernel", "exponent"}}
_STATIONARY = ("ConstantKernel", "ExpSineSquared", "Matern", "RBF", "RationalQuadratic", "WhiteKernel")
_KNOWN = sorted((*_OPERATORS, *_STATIONARY, "DotProduct", "PairwiseKernel"))
# PairwiseKernel looks its metric up by name; these are the ones that are kernels.
_METRICS = ("additive_chi2", "chi2", "cosine", "laplacian", "linear", "poly", "polynomial", "rbf", "sigmoid")
_DEEPEST = 100


def _library() -> ModuleType:
    # Loaded with the first such kernel: it brings a good part of scikit-learn with it.
    from sklearn.gaussian_process import kernels

    return kernels


def is_foreign(kernel: object) -> TypeGuard[ForeignKernel]:
    """Whether an object is a kernel of scikit-learn; loads nothing."""
    library = sys.modules.get("sklearn.gaussian_process.kernels")
    return library is not None and isinstance(kernel, library.Kernel)


@register("scikit-learn")
class ScikitLearnKernel(Kernel):
    """Any kernel of sklearn.gaussian_process.kernels without white noise; dense inputs only."""

    not_served = "it needs scikit-learn; RBF, Matern, Polynomial and others of kernelfields.kernels do not"

    def __init__(self, kernel: ForeignKernel):
        self.kernel = kernel

    def check_parameters(self) -> None:
        """Check that the kernel is one of scikit-learn's, and a function of two rows."""
        if any(isinstance(part, _library().CompoundKernel) for part in _parts(self.kernel)):
            raise ValueError(
                "a CompoundKernel stacks the values of several kernels and is none itself: pass one of them, or a sum"
            )
        self._checked()

    def spec(self) -> dict[str, object]:
        """Return the description; ValueError for classes that are not scikit-learn's own."""
        return {"kind": self.kind, "kernel": _describe(self.kernel)}

    @classmethod
    def from_parameters(cls, parameters: Mapping[str, object], functions: Mapping[str, KernelFunction]) -> Kernel:
        """Return the adapter of the kernel that ``spec`` described."""
        return cls(kernel_from_description(parameters["kernel"]))

    def _block(self, X: Rows, Z: Rows | None) -> np.ndarray:
        _check_dense(X, Z)
        expected = (X.shape[0], (X if Z is None else Z).shape[0])
        block = self._checked()(X, Z)
        if block.shape != expected:
            raise ValueError(f"{self.kernel!r} must return shape {expected}, got {block.shape}.")
        block = symmetric(block, f"the Gram matrix of {self.kernel!r}") if Z is None else block
        return block.astype(block_dtype(X, Z), copy=False)

    def _diagonal(self, X: Rows) -> np.ndarray:
        _check_dense(X)
        return np.array(self._checked().diag(X), dtype=X.dtype)

    def _checked(self) -> ForeignKernel:
        """Return the kernel; raise if it is none, or noisy."""
        noise = [part for part in _parts(self.kernel) if isinstance(part, _library().WhiteKernel)]
        if any(part.noise_level for part in noise):
            raise ValueError(
                f"{self.kernel!r} has white noise, which is no function of the inputs: leave WhiteKernel out. The "
                "labels of a field are noisy as it is; a smaller prior_variance trusts them less."
            )
        return self.kernel


def _parts(kernel: object) -> Iterator[ForeignKernel]:
    """Yield a kernel and those that it is made of; TypeError if one of them is none."""
    if not is_foreign(kernel):
        raise TypeError(
            f"ScikitLearnKernel: kernel must be an object of sklearn.gaussian_process.kernels, got {kernel!r}."
        )
    yield kernel
    for name in ("k1", "k2", "kernel"):
        if hasattr(kernel, name):
            yield from _parts(getattr(kernel, name))


def _check_dense(*inputs: Rows | None) -> None:
    if any(map(is_sparse, inputs)):
        raise ValueError(
            "the kernels of scikit-learn's Gaussian processes take dense inputs only, got a sparse matrix. "
            "Pass X.toarray(), or use RBF, Matern, Polynomial ... of kernelfields.kernels."
        )


def _describe(kernel: ForeignKernel) -> dict[str, object]:
    name = type(kernel).__name__
    if name not in _KNOWN or getattr(_library(), name) is not type(kernel):
        raise ValueError(
            f"a kernel of class {name} cannot be written to a file; these can: {', '.join(_KNOWN)}. "
            "For others, use CallableKernel, which is saved by name."
        )
    parameters = kernel.get_params(deep=False)
    return {"class": name, "parameters": {key: _describe_value(value) for key, value in parameters.items()}}


def _describe_value(value: object) -> object:
    if is_foreign(value):
        return _describe(value)
    if isinstance(value, np.ndarray | list | tuple):
        return [_describe_value(entry) for entry in value]
    if isinstance(value, dict):
        return {"options": {str(key): _describe_value(entry) for key, entry in value.items()}}
    value = plain_value(value)
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise ValueError(f"the parameter {value!r} of a scikit-learn kernel cannot be written to a file.")


def kernel_from_description(description: object, depth: int = 0) -> ForeignKernel:
    """Build the scikit-learn kernel that ``ScikitLearnKernel.spec`` described."""
    if not isinstance(description, dict) or set(description) != {"class", "parameters"}:
        raise ValueError(f"a scikit-learn kernel is described by 'class' and 'parameters', got {description!r:.200}.")
    name, parameters = description["class"], description["parameters"]
    if not isinstance(name, str) or name not in _KNOWN:
        raise ValueError(f"unknown scikit-learn kernel {name!r}; known are {', '.join(_KNOWN)}.")
    expected = set(getattr(_library(), name)().get_params(deep=False)) if name not in _OPERATORS else _OPERATORS[name]
    if not isinstance(parameters, dict) or set(parameters) != expected:
        takes = ", ".join(sorted(expected))
        raise ValueError(f"the scikit-learn kernel {name} takes {takes}, got {parameters!r:.200}.")
    if depth > _DEEPEST:
        raise ValueError(f"a scikit-learn kernel nested deeper than {_DEEPEST} levels is refused.")
    values = {key: _read_value(key, value, depth) for key, value in parameters.items()}
    if name == "WhiteKernel":
        values["noise_level"] = 0.0
    return getattr(_library(), name)(**values)


def _read_value(name: str, value: object, depth: int) -> object:
    if name in ("k1", "k2", "kernel"):
        return kernel_from_description(value, depth + 1)
    if name == "metric" and isinstance(value, str) and value in _METRICS:
        return value
    if name == "pairwise_kernels_kwargs":
        if value is None:
            return None
        if isinstance(value, dict) and set(value) == {"options"} and isinstance(value["options"], dict):
            return {key: _read_number(key, entry) for key, entry in value["options"].items()}
    if name.endswith("_bounds"):
        if value == "fixed":
            return value
        if isinstance(value, list) and all(isinstance(entry, list) for entry in value):
            return np.array([[_read_number(name, number) for number in entry] for entry in value])
        if isinstance(value, list) and len(value) == 2:
            return tuple(_read_number(name, number) for number in value)
    if name == "length_scale" and isinstance(value, list):
        return np.array([_read_number(name, number) for number in value])
    return _read_number(name, value)


def _read_number(name: str, value: object) -> float:
    if value == "inf":
        return np.inf
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"{name} of a scikit-learn kernel must be a number, got {value!r}.")
    return value
