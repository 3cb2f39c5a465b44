"""Steps for keywords of ``fit``, loaded when the keyword is given.

    optimize        prior variances and parameters of kernels of the largest evidence
    X_dev, y_dev    a development set

Such a module has ``requested``, which makes the step of the values of its keywords.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kernelfields.models.placed import FitStep

#: The modules of steps by their keywords, that of the outermost step first.
_MODULES = {
    ("optimize",): "kernelfields.posterior.evidence.step",
    ("X_dev", "y_dev"): "kernelfields.models.development",
}


def requested_steps(given: Mapping[str, object]) -> list[FitStep]:
    """Return the steps for given keywords of ``fit``."""
    return [
        import_module(module).requested(*map(given.get, keywords))
        for keywords, module in _MODULES.items()
        if not given.keys().isdisjoint(keywords)
    ]
