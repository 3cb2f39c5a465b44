"""Sums of kernels as several clique sets, each with its own subspace and prior variance.

    k = k_1 + ... + k_m      f = f_1 + ... + f_m,  f_i with the Gaussian prior of covariance s_i k_i

With one prior variance s this is the field of k itself. It is still split where some parts have explicit features
and others do not: the first stay exact, as sparse as the inputs are, and only the rest needs pivots. With one
variance per part every part becomes a set.
"""

from __future__ import annotations

from functools import reduce
from typing import Any

from kernelfields.fields import CliqueSet
from kernelfields.kernels import Kernel, resolve_kernel
from kernelfields.kernels.algebra import Sum


def parts_of_sum(kernel: Kernel) -> list[Kernel]:
    """Return the kernels that a sum, however nested, adds up; [kernel] if it is none."""
    if isinstance(kernel, Sum):
        return [*parts_of_sum(kernel.left), *parts_of_sum(kernel.right)]
    return [kernel]


def split_sum(name: str, clique: CliqueSet) -> list[tuple[str, CliqueSet]]:
    """Return the clique sets that stand for one whose kernel is a sum, with names made of ``name``."""
    variances = clique.prior_variance
    several = isinstance(variances, list | tuple)
    if clique.kernel is None:
        if several:
            raise ValueError(f"clique set {name!r} has no kernel: prior_variance must be one number")
        return [(name, clique)]
    kernel = resolve_kernel(clique.kernel)
    parts = parts_of_sum(kernel)
    if several:
        if len(variances) != len(parts):
            raise ValueError(
                f"prior_variance of clique set {name!r} holds {len(variances)} numbers, but its kernel "
                f"{kernel!r} is a sum of {len(parts)}: give one number, or one for each"
            )
        groups, chosen = [[part] for part in parts], list(variances)
    else:
        explicit = [part for part in parts if part.has_feature_map]
        others = [part for part in parts if not part.has_feature_map]
        groups = [group for group in (explicit, others) if group]
        chosen = [variances] * len(groups)
    if len(groups) == 1:
        return [(name, _with(clique, kernel, chosen[0]))]
    sets: list[tuple[str, CliqueSet]] = []
    for index, (group, variance) in enumerate(zip(groups, chosen, strict=True)):
        part = _with(clique, reduce(Sum, group), variance)
        if not part.kernel.has_feature_map:
            part.support, part.min_freq, part.l1 = "all", 0.0, 0.0
        part.name = name if index == 0 else f"{name}_{index + 1}"
        sets.append((part.name, part))
    return sets


def _with(clique: CliqueSet, kernel: Kernel, variance: Any) -> CliqueSet:
    parameters = clique.get_params(deep=False)
    return type(clique)(**{**parameters, "kernel": kernel, "prior_variance": variance})
