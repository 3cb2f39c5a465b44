"""Families of graphs of labels, and their methods of inference.

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
from kernelfields.inference.family import is_group_constant
from kernelfields.inference.graphs import GraphFamily
from kernelfields.inference.junction.family import JunctionFamily, TooWide
from kernelfields.inference.packed_graphs import check_structure
from kernelfields.inference.potentials import Placed
from kernelfields.inference.tree.family import NotAForest, TreeFamily
from kernelfields.numerics.parameters import check_declared

EXACT_METHODS = ("tree", "junction")
APPROXIMATE_METHODS = ("trw", "loopy", "mean-field")
METHODS = ("auto", *EXACT_METHODS, *APPROXIMATE_METHODS)
#: A method of inference on graphs: its name, or an object of options.
Method: TypeAlias = str | BaseEstimator


def check_method(method: object, known: Sequence[str] = METHODS) -> None:
    """Raise ValueError for an unknown method of inference."""
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
    """Choose a method of inference for packed graphs, and prepare it.

    "auto" takes "tree" for forests of pairs, else "junction" if the tables of each graph fit into memory, else "trw"
    for pairs and "mean-field" for larger factors.

    Parameters
    ----------
    offsets : array (S + 1,)
        The node at which each graph begins, and N.
    members : sequence of arrays (M, k)
        The nodes of the factors of each group.
    n_labels : int
        The number of labels.
    method : {"auto", "tree", "junction", "trw", "loopy", "mean-field"} or options, default "auto"
        The method, or an object of options for an approximate one.
    memory : float, optional
        The bytes of tables that a graph may take; by default 2 GiB, or a quarter of what the machine has.

    Returns
    -------
    GraphFamily
        The family; its ``description`` says what was chosen and why.

    Raises
    ------
    ValueError
        If the structure is not sound, or if the method does not suit it.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelfields.inference import plan_inference
    >>> triangle = np.array([[0, 1], [1, 2], [2, 0]])
    >>> plan_inference(np.array([0, 3]), [triangle], n_labels=2).method
    'junction'
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
    """Prepare a method, a name or an object of options, for checked graphs."""
    options = OPTIONS[method]() if isinstance(method, str) and method in OPTIONS else method
    if not isinstance(options, tuple(OPTIONS.values())):
        names = ", ".join(f"{name!r} or {kind.__name__}()" for name, kind in OPTIONS.items())
        raise ValueError(f"approximate inference is one of {names}, got {method!r}")
    check_declared(options, f"{type(options).__name__}: ")
    if isinstance(options, MeanField):
        return MeanFieldFamily(offsets, members, n_labels, options)
    return PropagationFamily(offsets, members, n_labels, options)


def name_plan(
    plan: GraphFamily, graphs: Graphs, placed: Sequence[Placed], base: BaseMeasure | None = None
) -> GraphFamily:
    """Return a planned family with groups named after the factors; groups without inputs are tied."""
    names = [factors.name for factors in graphs.factors]
    return plan.with_names(names, [name for name in names if is_group_constant(placed, name)], base)


def junction_of_chains(chains: Chains, placed: Sequence[Placed], base: BaseMeasure) -> GraphFamily:
    """Return chains as graphs with the groups of some clique sets, neighbours included, for junction trees."""
    lags = sorted({term.reach for term in placed if term.reach > 1 and term.labels_per_clique == 2})
    orders = sorted({term.reach for term in placed if term.labels_per_clique > 2})
    graphs = Graphs.from_chains(chains, lags=[1, *lags], orders=orders)
    members = [factors.members for factors in graphs.factors]
    return name_plan(plan_inference(graphs.offsets, members, base.n_labels, "junction"), graphs, placed, base)
