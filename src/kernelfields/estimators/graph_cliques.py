"""What the parameters of a GraphCRF mean: checks, and the clique sets they describe."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sklearn.base import clone

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
        return _named_by_type(field.cliques)
    shared = {"basis": field.basis, "rank": field.rank, "support": field.support}
    cliques: list = [
        GraphNodes(
            kernel,
            node_type=kind,
            name=_node_name(kind),
            label_kernel=field.label_kernel,
            prior_variance=field.prior_variance,
            **shared,
        )
        for kind, kernel in _node_kernels(field.kernel, graphs)
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


def _node_kernels(given: Any, graphs: Graphs) -> list[tuple[str | None, Any]]:
    """Return the kernel on the nodes of each type; for nodes without types that of all, under None."""
    if graphs.node_types is None:
        if isinstance(given, Mapping):
            raise ValueError(
                "kernel is a dict by type of node, and the graphs have no types of nodes: pass dicts with 'x', "
                "'edges' and 'node_types', or set the attribute 'type' of networkx nodes"
            )
        return [(None, given)]
    names = graphs.node_types.names
    _check_types(given, "kernel", list(names), "nodes")
    if isinstance(given, Mapping) and (missing := [name for name in names if name not in given]):
        raise ValueError(f"kernel has no entry for nodes of the type {missing[0]!r}: name one for each type")
    return [(name, _of_type(given, name, None)) for name in names]


def _node_name(kind: str | None) -> str | None:
    return None if kind is None else f"node {kind}"


def _named_by_type(cliques: Any) -> Any:
    """Return clique sets as they are, those of a type of nodes named by it if they have no name."""
    if not isinstance(cliques, list | tuple):
        return cliques
    return [
        clone(each).set_params(name=_node_name(each.node_type))
        if isinstance(each, GraphNodes) and each.name is None
        else each
        for each in cliques
    ]


def _of_type(given: Any, name: str, default: Any) -> Any:
    """Return what is given for a type: by name, or the same for all."""
    return given.get(name, default) if isinstance(given, Mapping) else given


def _check_types(given: Any, parameter: str, names: list[str], what: str = "edges") -> None:
    unknown = sorted(set(given) - set(names)) if isinstance(given, Mapping) else []
    if unknown:
        known = ", ".join(map(repr, names)) or "none"
        raise ValueError(f"{parameter} names the type {unknown[0]!r}, which no {what} have: there are {known}")
