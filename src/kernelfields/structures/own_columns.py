"""Unscaled columns of kernels, such as time stamps, by the parameters of an estimator."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from kernelfields.data.cliques import CliqueSet
from kernelfields.inputs.steps import OwnColumns
from kernelfields.kernels.kernel import Kernel


def own_columns(parameters: Mapping[str, object]) -> OwnColumns:
    """Return the indices of columns that some kernel reads unscaled."""
    kernels = list(_kernels(parameters, of_factors=False))
    found = [
        sorted({column for kernel, own in kernels if own == of_factors for column in kernel.own_columns})
        for of_factors in (False, True)
    ]
    return OwnColumns(*map(tuple, found))


def _kernels(value: object, of_factors: bool) -> Iterator[tuple[Kernel, bool]]:
    """Yield the kernels in a value, and whether their inputs are features of factors."""
    if isinstance(value, Kernel):
        yield value, of_factors
    elif isinstance(value, CliqueSet):
        yield from _kernels(value.kernel, value.of_factors)
    elif isinstance(value, Mapping | list | tuple):
        for each in value.values() if isinstance(value, Mapping) else value:
            yield from _kernels(each, of_factors)
