"""Choice of a method of inference for packed graphs.

    "tree"        forests of pairs, exact
    "junction"    any graphs whose junction trees fit into memory, exact
    "trw", "loopy", "mean-field", "gibbs"     approximate, see approximate/base.py

Methods are loaded when they are chosen, compilers with them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from kernelfields.inference.beliefs import GraphInference
from kernelfields.inference.packing import check_structure

EXACT_METHODS = ("tree", "junction")
APPROXIMATE_METHODS = ("trw", "loopy", "mean-field", "gibbs")
METHODS = ("auto", *EXACT_METHODS, *APPROXIMATE_METHODS)


def check_method(method: Any, known: Sequence[str] = METHODS) -> None:
    """Raise ValueError for a name that stands for no way of inference."""
    if isinstance(method, str) and method not in known:
        raise ValueError(f"method must be one of {', '.join(map(repr, known))} or an object, got {method!r}")


def plan_inference(
    offsets: ArrayLike,
    members: Sequence[ArrayLike],
    n_labels: int,
    method: str | Any = "auto",
    *,
    memory: float | None = None,
) -> GraphInference:
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
    from kernelfields.inference.junction.inference import JunctionInference, TooWide
    from kernelfields.inference.tree.inference import NotAForest, TreeInference

    if method != "junction":
        try:
            return TreeInference(*graphs)
        except NotAForest:
            if method == "tree":
                raise
    try:
        return JunctionInference(*graphs, memory=memory)
    except TooWide as refusal:
        if method == "junction":
            raise
        reason = refusal.reason
    pairs_only = all(each.shape[1] == 2 for each in graphs[1])
    chosen = _approximate("trw" if pairs_only else "mean-field", *graphs)
    chosen.description = f"{chosen.description} (approximate: {reason})"
    return chosen


def _approximate(method: Any, offsets: np.ndarray, members: Sequence[np.ndarray], n_labels: int) -> GraphInference:
    """Prepare the method, a name or an object of options, for graphs that ``check_structure`` has seen."""
    from kernelfields.inference.approximate.base import OPTIONS, Gibbs, MeanField, check_options

    options = OPTIONS[method]() if isinstance(method, str) and method in OPTIONS else method
    if not isinstance(options, tuple(OPTIONS.values())):
        names = ", ".join(f"{name!r} or {kind.__name__}()" for name, kind in OPTIONS.items())
        raise ValueError(f"approximate inference is one of {names}, got {method!r}")
    check_options(options)
    if isinstance(options, MeanField):
        from kernelfields.inference.approximate.mean_field import MeanFieldInference

        return MeanFieldInference(offsets, members, n_labels, options)
    if isinstance(options, Gibbs):
        from kernelfields.inference.approximate.gibbs import GibbsInference

        return GibbsInference(offsets, members, n_labels, options)
    from kernelfields.inference.approximate.belief_propagation import BeliefPropagation

    return BeliefPropagation(offsets, members, n_labels, options)
