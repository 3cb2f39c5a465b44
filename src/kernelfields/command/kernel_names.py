"""Kernels as the command line names them: a name or a sum of names, and numbers for their parameters.

    --kernel rbf --gamma 0.1              RBF(gamma=0.1)
    --kernel linear+poly --degree 2       Linear() + Polynomial(degree=2)

A parameter goes to every kernel of the sum that has it. Fails: ValueError for one that none has.
"""

from __future__ import annotations

from functools import reduce
from typing import Any

PARAMETERS = ("gamma", "degree", "coef0", "nu", "length_scale")


def named_kernel(text: str, parameters: dict[str, Any], option: str = "--kernel") -> Any:
    """Return the kernel of a name; ``parameters`` that are None keep their defaults."""
    from kernelfields.kernels import resolve_kernel

    parts = [resolve_kernel(name.strip()) for name in text.split("+")]
    for name, value in parameters.items():
        if value is None:
            continue
        takers = [part for part in parts if name in part.get_params(deep=False)]
        if not takers:
            raise ValueError(f"--{name.replace('_', '-')} has no meaning for {option} {text}")
        for part in takers:
            part.set_params(**{name: value})
    kernel = reduce(lambda first, second: first + second, parts)
    kernel.check_parameters()
    return kernel


def kernel_settings(kernel: Any) -> dict[str, Any]:
    """Return the settings that name a kernel which is not a sum; rules such as gamma="scale" are the default."""
    given = kernel.get_params(deep=False)
    numbers = {name: given.get(name) for name in PARAMETERS}
    return {"kernel": kernel.kind} | {
        name: None if isinstance(value, str) else value for name, value in numbers.items()
    }
