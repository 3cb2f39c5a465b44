"""Kernels on inputs and on labels.

Inputs: ``Linear, Polynomial, RBF, Laplacian, Matern, Cosine, Tanimoto, Constant, Precomputed``, by trees
``Forest``; combined with ``+``, ``*``, ``**`` or ``Sum, Product, Power, Scaled, Normalized``; functions and
kernels of scikit-learn's Gaussian processes through ``CallableKernel``. Labels: ``Delta, CentredDelta, LabelMatrix``.
Classes of one's own get a name by ``register``.

The package needs NumPy alone: scipy, scikit-learn and PyTorch are loaded where a kernel, or its inputs, need them.
"""

from kernelfields.numerics.lazy import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__)
