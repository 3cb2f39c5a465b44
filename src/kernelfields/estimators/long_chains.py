"""Chains whose labels meet across more than one step, seen as graphs: pairs (t-k, t), triples (t-2, t-1, t).

The graphs have a group of factors for each kind of clique, "lag1", "lag2", "order2", and a junction tree of width
1 + the longest reach infers them exactly: O(N L^(reach + 1)).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kernelfields.engines import GraphLayout, GraphLikelihood, Potentials
from kernelfields.engines.placement import Placed
from kernelfields.fields import Chains, ConstraintMasks, Graphs
from kernelfields.inference.graph import GraphInference, plan_inference
from kernelfields.inference.workers import Workers

_NEIGHBOURS = (None, "lag1")
_KINDS = ("lag", "order")


def reaches_far(groups: Iterable[str | None]) -> bool:
    """Whether labels meet that are not neighbours."""
    return any(group not in _NEIGHBOURS for group in groups)


def chain_graphs(chains: Chains, groups: Iterable[str | None]) -> Graphs:
    """Return chains as graphs with the named groups of factors; neighbours are always among them."""
    names = {group for group in groups if group is not None} | {"lag1"}
    lags, orders = (
        sorted(int(name.removeprefix(kind)) for name in names if name.startswith(kind)) for kind in _KINDS
    )
    return Graphs.from_chains(chains, lags=lags, orders=orders)


def plan_chains(graphs: Graphs, n_labels: int) -> GraphInference:
    """Return exact inference on such graphs."""
    members = [factors.members for factors in graphs.factors]
    return plan_inference(graphs.offsets, members, n_labels, "junction")


def forbidden_potentials(layout: GraphLayout, masks: ConstraintMasks | None) -> Potentials | None:
    """Return the penalties of constraints as potentials; None if nothing is forbidden."""
    if masks is None or not masks.any:
        return None
    forbidden = layout.zeros()
    masks.apply(forbidden.node, layout.graphs.offsets)
    forbidden.factors[layout.index("lag1")][...] += masks.edge
    return forbidden


def long_chain_likelihood(
    chains: Chains,
    sets: Sequence[Placed],
    n_labels: int,
    *,
    masks: ConstraintMasks | None,
    workers: Workers | None,
) -> GraphLikelihood:
    """Return the likelihood of labelled chains with cliques of any reach."""
    graphs = chain_graphs(chains, (each.group for each in sets))
    forbidden = forbidden_potentials(GraphLayout(graphs, n_labels, sets), masks)
    inference = plan_chains(graphs, n_labels)
    return GraphLikelihood(graphs, n_labels, sets, inference, forbidden=forbidden, workers=workers)
