"""What the parameters of a GraphCRF mean: checks, and the clique sets they describe."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kernelfields.estimators.parameters import (
    check_callbacks,
    check_count,
    check_prior_variance,
    check_solver,
    check_support,
    check_tolerance,
    resolve_dtype,
)
from kernelfields.fields import GraphFactors, GraphNodes, Graphs


def check_graph_parameters(field: Any) -> None:
    """Raise if a parameter of a GraphCRF cannot be used, before any work starts."""
    check_support(field.support, "support")
    check_prior_variance(field.prior_variance, "prior_variance")
    check_tolerance(field.tol)
    check_count(field.max_iter, "max_iter")
    check_solver(field.solver)
    check_callbacks(field.callbacks)
    resolve_dtype(field.dtype)


def graph_cliques(field: Any, graphs: Graphs) -> list:
    """Return the clique sets that the parameters of a GraphCRF describe for its graphs, or those it was given."""
    if field.cliques is not None:
        return field.cliques
    shared = {"basis": field.basis, "rank": field.rank, "support": field.support}
    cliques: list = [
        GraphNodes(field.kernel, label_kernel=field.label_kernel, prior_variance=field.prior_variance, **shared)
    ]
    names = [factors.name for factors in graphs.factors]
    for parameter in ("edge_kernel", "edge_prior_variance", "symmetric"):
        _check_types(getattr(field, parameter), parameter, names)
    for factors in graphs.factors:
        name = factors.name
        variance = _of_type(field.edge_prior_variance, name, None)
        settings = {
            "group": name,
            "order": factors.labels_per_clique,
            "symmetric": bool(_of_type(field.symmetric, name, False)),
            "prior_variance": field.prior_variance if variance is None else variance,
            **shared,
        }
        if settings["symmetric"] and factors.labels_per_clique != 2:
            raise ValueError(
                f"symmetric is for pairs of labels, and factors named {name!r} join {factors.labels_per_clique}"
            )
        kernel = _of_type(field.edge_kernel, name, "auto")
        if isinstance(kernel, str) and kernel == "auto":
            cliques.append(GraphFactors(None, **settings))
            if factors.inputs is not None:
                cliques.append(GraphFactors("linear", **settings, name=f"{name} features"))
        else:
            cliques.append(GraphFactors(kernel, **settings))
    return cliques


def _of_type(given: Any, name: str, default: Any) -> Any:
    """Return what is given for a type of factors: by name, or the same for all."""
    return given.get(name, default) if isinstance(given, Mapping) else given


def _check_types(given: Any, parameter: str, names: list[str]) -> None:
    unknown = sorted(set(given) - set(names)) if isinstance(given, Mapping) else []
    if unknown:
        known = ", ".join(map(repr, names)) or "none"
        raise ValueError(f"{parameter} names the type {unknown[0]!r}, which no edges have: there are {known}")
