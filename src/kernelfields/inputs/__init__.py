"""Transformations of the columns of inputs before kernels: a list of steps, run by readers and by serving.

    rows  ->  step_1(rows)  ->  ...  ->  step_k(...)

A step is a value that never changes, needs NumPy alone to answer, and sees the items of a call one by one. Names load
on first use.
"""

from kernelfields.numerics.lazy import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__)
