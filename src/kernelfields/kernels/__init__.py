"""Kernels on inputs and on labels.

Inputs: ``Linear, Polynomial, RBF, Laplacian, Matern, Cosine, Tanimoto, Constant, Precomputed``, by trees
``Forest``; combined with ``+``, ``*``, ``**`` or ``Sum, Product, Power, Scaled, Normalized``; functions and
kernels of scikit-learn's Gaussian processes through ``CallableKernel``. Labels: ``Delta, CentredDelta, LabelMatrix``.
Classes of one's own get a name by ``register``.

The package needs NumPy alone: scipy, scikit-learn and PyTorch are loaded where a kernel, or its inputs, need them.
"""

from kernelfields.kernels.callables import CallableKernel, Precomputed
from kernelfields.kernels.dot_product import Cosine, Linear, Polynomial, Tanimoto
from kernelfields.kernels.forest import Forest
from kernelfields.kernels.kernel import (
    Columns,
    Constant,
    Kernel,
    Normalized,
    Power,
    Product,
    Scaled,
    Sum,
    check_positive_semidefinite,
    register,
)
from kernelfields.kernels.labels import CentredDelta, Delta, LabelKernel, LabelMatrix
from kernelfields.kernels.registry import resolve_kernel
from kernelfields.kernels.stationary import RBF, Laplacian, Matern

__all__ = [
    "RBF",
    "CallableKernel",
    "CentredDelta",
    "Columns",
    "Constant",
    "Cosine",
    "Delta",
    "Forest",
    "Kernel",
    "LabelKernel",
    "LabelMatrix",
    "Laplacian",
    "Linear",
    "Matern",
    "Normalized",
    "Polynomial",
    "Power",
    "Precomputed",
    "Product",
    "Scaled",
    "Sum",
    "Tanimoto",
    "check_positive_semidefinite",
    "register",
    "resolve_kernel",
]
