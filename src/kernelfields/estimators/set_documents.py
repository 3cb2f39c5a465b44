"""Fitted clique sets as documents of plain values and arrays, and back.

Nothing in a document names code: kernels, bases and clique sets are rebuilt from registries of known kinds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
import scipy.sparse

from kernelfields.basis import ConstantSubspace, ExplicitSubspace, PivotSubspace, Support, resolve_basis
from kernelfields.basis.selection import SHORTHANDS
from kernelfields.estimators.fitted_sets import FittedSet
from kernelfields.fields import (
    CliqueSet,
    EdgeCliques,
    EndCliques,
    GraphFactors,
    GraphNodes,
    NodeCliques,
    OrderCliques,
    SkipCliques,
    StartCliques,
)
from kernelfields.kernels import Constant, kernel_from_spec, label_kernel_from_spec, resolve_label_kernel
from kernelfields.solvers import Iteration, Solution

CLIQUES: dict[str, type[CliqueSet]] = {
    "node": NodeCliques,
    "edge": EdgeCliques,
    "start": StartCliques,
    "end": EndCliques,
    "skip": SkipCliques,
    "order": OrderCliques,
    "graph nodes": GraphNodes,
    "graph factors": GraphFactors,
}
_OF_SOME_KINDS = ("window", "lag", "order", "group", "symmetric", "node_type")


def describe_basis(basis: Any) -> dict[str, Any]:
    """Return a basis as plain values; one of the user's own is not kept."""
    basis = resolve_basis(basis)
    known = (name for name, each in SHORTHANDS.items() if type(basis) is each)
    kind = next(known, None)
    return {"kind": "random-cholesky"} if kind is None else {"kind": kind, **basis.get_params()}


def rebuild_basis(description: dict[str, Any]) -> Any:
    """Return the basis that was described."""
    parameters = dict(description)
    return SHORTHANDS[parameters.pop("kind")](**parameters)


def describe_set(each: FittedSet) -> dict[str, Any]:
    """Return a fitted clique set as plain values and arrays."""
    clique = each.clique
    kind = next(name for name, known in CLIQUES.items() if type(clique) is known)
    description: dict[str, Any] = {
        "cliques": kind,
        "name": each.name,
        # What only some kinds have: the window of a chain, the lag, the types of nodes and of factors, the order.
        **{name: getattr(clique, name) for name in _OF_SOME_KINDS if name in clique.get_params(deep=False)},
        "prior_variance": float(clique.prior_variance),
        "label_kernel": resolve_label_kernel(clique.label_kernel).spec(),
        "basis": describe_basis(clique.basis),
        "rank": clique.rank,
        "support": clique.support,
        "min_freq": float(clique.min_freq),
        "l1": float(clique.l1),
        "coefficients": each.coefficients,
        "label_factor": each.label_factor,
    }
    if each.support is not None:
        description["pairs"] = {"begin": each.support.begin, "outcomes": each.support.outcomes}
    subspace = each.subspace
    if isinstance(subspace, ConstantSubspace):
        return description
    description["kernel"] = subspace.kernel.spec()
    if isinstance(subspace, ExplicitSubspace):
        description["n_coordinates"] = subspace.n_coordinates
        return description
    description["factor"] = subspace.factor
    description["indices"] = subspace.indices
    if scipy.sparse.issparse(subspace.pivots):
        pivots = subspace.pivots.tocsr()
        description["sparse_pivots"] = {
            "data": pivots.data,
            "indices": pivots.indices,
            "indptr": pivots.indptr,
            "shape": list(pivots.shape),
        }
    else:
        description["pivots"] = subspace.pivots
    return description


def rebuild_set(description: dict[str, Any], n_labels: int, callables: Mapping[str, Callable] | None) -> FittedSet:
    """Return the fitted clique set that was described; errors of any kind if it is not sound."""
    clique_class = CLIQUES[description["cliques"]]
    own = {name: description[name] for name in _OF_SOME_KINDS if name in description}
    if isinstance(own.get("window"), list):
        own["window"] = tuple(own["window"])
    kernel = kernel_from_spec(description["kernel"], callables) if "kernel" in description else None
    clique = clique_class(
        kernel,
        **own,
        prior_variance=description["prior_variance"],
        label_kernel=label_kernel_from_spec(description["label_kernel"]),
        basis=rebuild_basis(description["basis"]),
        rank=description["rank"],
        # Files written before these existed do without.
        support=description.get("support", "all"),
        min_freq=description.get("min_freq", 0.0),
        l1=description.get("l1", 0.0),
        name=description["name"],
    )
    if kernel is None:
        subspace: Any = ConstantSubspace(Constant(1.0))
    elif "n_coordinates" in description:
        subspace = ExplicitSubspace(kernel, int(description["n_coordinates"]))
    else:
        subspace = PivotSubspace(
            kernel, _rebuild_pivots(description), description["factor"], description["indices"]
        )
        if subspace.factor.shape != (subspace.pivots.shape[0],) * 2:
            raise ValueError(f"the basis of set {description['name']!r} is not consistent")
    return FittedSet(
        clique,
        description["name"],
        subspace,
        description["label_factor"],
        description["coefficients"],
        _rebuild_support(description, clique.n_configurations(n_labels)),
    )


def _rebuild_support(description: dict[str, Any], n_outcomes: int) -> Support | None:
    if "pairs" not in description:
        return None
    support = Support(description["pairs"]["begin"], description["pairs"]["outcomes"], n_outcomes)
    support.check()
    if description["coefficients"].shape != (support.size, 1):
        raise ValueError(
            f"the coefficients of set {description['name']!r} do not fit its pairs of features and labels"
        )
    return support


def _rebuild_pivots(description: dict[str, Any]) -> Any:
    if "pivots" in description:
        return description["pivots"]
    parts = description["sparse_pivots"]
    pivots = scipy.sparse.csr_array(
        (parts["data"], parts["indices"], parts["indptr"]), shape=tuple(parts["shape"])
    )
    pivots.check_format(full_check=True)
    return pivots


def describe_solution(solution: Solution) -> dict[str, Any]:
    """Return what a solver reported; the coefficients themselves are kept with the sets."""
    return {**asdict(solution), "theta": None}


def rebuild_solution(described: dict[str, Any], sets: Sequence[FittedSet]) -> Solution:
    """Return the solution that was described."""
    history = [Iteration(**each) for each in described["history"]]
    theta = np.concatenate([each.coefficients.ravel() for each in sets])
    return Solution(**{**described, "history": history, "theta": theta})
