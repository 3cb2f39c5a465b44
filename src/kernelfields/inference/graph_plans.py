"""Families of graphs of labels, and how they are inferred.

    plan_inference(offsets, members, n_labels, method)    a family of these graphs, without potentials

    "tree"        forests of pairs, exact
    "junction"    any graphs whose junction trees fit into memory, exact
    "trw", "loopy", "mean-field"              approximate, see approximate/base.py

Chains whose cliques have a longer reach are graphs with junction trees.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator

from kernelfields.data.chains import Chains
from kernelfields.data.graphs import Graphs
from kernelfields.inference.approximate.base import OPTIONS, MeanField
from kernelfields.inference.approximate.belief_propagation import PropagationFamily
from kernelfields.inference.approximate.mean_field import MeanFieldFamily
from kernelfields.inference.base_measure import BaseMeasure
from kernelfields.inference.family import Placed, all_tied
from kernelfields.inference.graphs import GraphFamily
from kernelfields.inference.junction.family import JunctionFamily, TooWide
from kernelfields.inference.packing import check_structure
from kernelfields.inference.tree.family import NotAForest, TreeFamily
from kernelfields.numerics.parameters import check_declared

EXACT_METHODS = ("tree", "junction")
APPROXIMATE_METHODS = ("trw", "loopy", "mean-field")
METHODS = ("auto", *EXACT_METHODS, *APPROXIMATE_METHODS)
#: A method of inference on graphs: its name, or an object of options.
Method: TypeAlias = str | BaseEstimator


def check_method(method: object, known: Sequence[str] = METHODS) -> None:
    """Raise ValueError for a name that stands for no way of inference."""
    if isinstance(method, str) and method not in known:
        raise ValueError(f"method must be one of {', '.join(map(repr, known))} or an object, got {method!r}")


def plan_inference(
    offsets: ArrayLike,
    members: Sequence[ArrayLike],
    n_labels: int,
    method: Method = "auto",
    *,
    memory: float | None = None,
) -> GraphFamily:
    """Choose a method for these graphs and prepare it.

    ``method`` is one of ``METHODS`` or an object of options for an approximate one. "auto" takes "tree" for
    forests of pairs, else "junction" where the tables of each graph fit into ``memory`` bytes (None: 2 GiB, or a
    quarter of what the machine has), else "trw" for pairs and "mean-field" for larger factors; ``description`` of the
    result says what was chosen and why.
    """
    graphs = check_structure(offsets, members, n_labels)
    check_method(method)
    if method not in ("auto", *EXACT_METHODS):
        return _approximate(method, *graphs)
    if method != "junction":
        try:
            return TreeFamily(*graphs)
        except NotAForest:
            if method == "tree":
                raise
    try:
        return JunctionFamily(*graphs, memory=memory)
    except TooWide as refusal:
        if method == "junction":
            raise
        reason = refusal.reason
    pairs_only = all(each.shape[1] == 2 for each in graphs[1])
    chosen = _approximate("trw" if pairs_only else "mean-field", *graphs)
    chosen.description = f"{chosen.description} (approximate: {reason})"
    return chosen


def _approximate(method: object, offsets: np.ndarray, members: Sequence[np.ndarray], n_labels: int) -> GraphFamily:
    """Prepare the method, a name or an object of options, for graphs that ``check_structure`` has seen."""
    options = OPTIONS[method]() if isinstance(method, str) and method in OPTIONS else method
    if not isinstance(options, tuple(OPTIONS.values())):
        names = ", ".join(f"{name!r} or {kind.__name__}()" for name, kind in OPTIONS.items())
        raise ValueError(f"approximate inference is one of {names}, got {method!r}")
    check_declared(options, f"{type(options).__name__}: ")
    if isinstance(options, MeanField):
        return MeanFieldFamily(offsets, members, n_labels, options)
    return PropagationFamily(offsets, members, n_labels, options)


def named_plan(
    plan: GraphFamily, graphs: Graphs, placed: Sequence[Placed], base: BaseMeasure | None = None
) -> GraphFamily:
    """Return a planned family whose groups have the names of the factors; those that see no inputs are tied."""
    names = [factors.name for factors in graphs.factors]
    return plan.named(names, [name for name in names if all_tied(placed, name)], base)


def junction_of_chains(chains: Chains, placed: Sequence[Placed], base: BaseMeasure) -> GraphFamily:
    """Return chains as graphs with the groups of some clique sets, by junction trees; neighbours are among them."""
    lags = sorted({term.reach for term in placed if term.reach > 1 and term.labels_per_clique == 2})
    orders = sorted({term.reach for term in placed if term.labels_per_clique > 2})
    graphs = Graphs.from_chains(chains, lags=[1, *lags], orders=orders)
    members = [factors.members for factors in graphs.factors]
    return named_plan(plan_inference(graphs.offsets, members, base.n_labels, "junction"), graphs, placed, base)
