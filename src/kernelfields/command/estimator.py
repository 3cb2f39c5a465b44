"""The estimator that the settings of a run describe."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kernelfields.command.input_reader import InputReader
from kernelfields.command.kernel_names import PARAMETERS, named_kernel
from kernelfields.command.run_settings import FIT_PARAMETERS, RunSettings

if TYPE_CHECKING:
    from kernelfields import ChainCRF


def build_estimator(settings: RunSettings, reader: InputReader) -> ChainCRF:
    """Return the estimator that the settings describe."""
    from kernelfields import ChainCRF, NodeCliques

    parameters = {name: getattr(settings, name) for name in PARAMETERS}
    node: dict[str, Any] = {
        "kernel": named_kernel(settings.kernel, parameters),
        "window": tuple(settings.window) if isinstance(settings.window, list) else settings.window,
        "rank": settings.rank or None,
        "basis": settings.basis,
        "support": settings.support,
        "min_freq": settings.min_freq,
        "l1": settings.l1,
        "prior_variance": _one_or_tuple(settings.prior_variance),
    }
    fit = {name: getattr(settings, name) for name in (*FIT_PARAMETERS, "constraints")}
    if not reader.has_transitions:
        if settings.edge_kernel is not None or settings.edge_prior_variance is not None:
            raise ValueError("the template has no B line, so there are no transitions: leave out the edge options")
        return ChainCRF(cliques=[NodeCliques(**node)], **fit)
    edge = None if settings.edge_kernel is None else named_kernel(settings.edge_kernel, {}, "--edge-kernel")
    return ChainCRF(edge_kernel=edge, edge_prior_variance=settings.edge_prior_variance, **node, **fit)


def _one_or_tuple(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value
