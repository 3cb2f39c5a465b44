"""Families on graphs: given graphs, and instances of several binary labels.

Labels of instances are a small graph each, all of one structure, and may have a table of all labellings (table.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import singledispatch
from typing import Any

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from kernelfields.data.given_labels import GivenLabels, KnownLabels
from kernelfields.data.graph_reading import GRAPHS
from kernelfields.data.graphs import Graphs
from kernelfields.data.label_cliques import LabelledInstances
from kernelfields.data.partial_rows import PartialRows
from kernelfields.data.reading import locate
from kernelfields.inference.checks import LabelChecks, check_left, checks_labels
from kernelfields.inference.choice import BATCH_SIZES, FamilySpec, builds
from kernelfields.inference.family import LabelFamily, is_group_constant
from kernelfields.inference.graph_plans import Method, name_plan, plan_inference
from kernelfields.inference.graphs import GraphFamily
from kernelfields.inference.junction.family import TooWide
from kernelfields.inference.junction.plan import default_table_memory, plan_junction
from kernelfields.inference.potentials import EDGE, Placed
from kernelfields.inference.table import TableFamily

# Labels up to which a table of all labellings beats any junction tree.
_SMALL_TABLE = 14
# With tables of pairs that depend on the inputs, one for each instance, tables of labellings are, too.
_MOST_LABELS = {True: 20, False: 16}
# Tables of one instance that a search for the graph of labels allows: those of about 9 labels at once.
_SEARCHED_BYTES = 2.0**17


# Values in a batch: potentials of graphs; features and potentials of instances.
_GRAPH_VALUES, _INSTANCE_VALUES = 32 * 2**20, 16 * 2**20


@builds("graph")
def graph_family(
    graphs: Graphs, placed: Sequence[Placed], spec: FamilySpec, *, planned: GraphFamily | None = None, **options: object
) -> LabelFamily:
    """Return the family of graphs with the factors of some clique sets."""
    names = [factors.name for factors in graphs.factors]
    unknown = sorted({term.group for term in placed if term.group is not None} - set(names))
    if unknown:
        raise ValueError(
            f"the field scores factors named {unknown[0]!r}, and the graphs have none of that name: they have "
            f"{', '.join(map(repr, names)) or 'no factors at all'}"
        )
    if planned is None:
        members = [factors.members for factors in graphs.factors]
        planned = plan_inference(graphs.offsets, members, spec.n_labels, spec.method)
    if not spec.is_constrained:
        return name_plan(planned, graphs, placed)
    assert spec.masks is not None
    pairs = [factors.name for factors in graphs.factors if factors.labels_per_clique == 2]
    if spec.masks.start.any() or spec.masks.end.any() or (spec.masks.edge.any() and EDGE not in pairs):
        raise ValueError(
            f"constraints on graphs forbid labels, and pairs at the two ends of factors named {EDGE!r}: graphs have no "
            f"first and no last label, and these have pairs named {', '.join(map(repr, pairs)) or 'none'}"
        )
    return name_plan(planned, graphs, placed, spec.base_measure(graphs))


def _size_graphs(graphs: Graphs, terms: Sequence[Placed], spec: FamilySpec) -> tuple[np.ndarray, int]:
    """Return the number of potentials of every graph, (S,), and how many a batch has."""
    values = graphs.lengths * spec.n_labels
    for factors in graphs.factors:
        values = values + factors.counts * spec.n_labels**factors.labels_per_clique
    return values, _GRAPH_VALUES


BATCH_SIZES["graph"] = _size_graphs


@builds("instances")
def _instance_family(
    instances: LabelledInstances, placed: Sequence[Placed], spec: FamilySpec, **options: object
) -> LabelFamily:
    names = list(dict.fromkeys(term.group for term in placed if term.group is not None))
    graphs = instances.with_pairs({name: spec.pairs[name] for name in names})
    tied = [name for name in names if is_group_constant(placed, name)]
    members = [factors.members for factors in graphs.factors]
    plan = plan_labels(graphs.offsets, members, spec.method, tied=len(tied) == len(names))
    return plan.with_names(names, tied)


def _size_instances(instances: LabelledInstances, terms: Sequence[Any], spec: FamilySpec) -> tuple[np.ndarray, int]:
    """Return ones, (S,), and the number of instances of a batch."""
    rank = max(term.subspace.rank for term in terms if not term.is_constant)
    tied = all(term.is_constant for term in terms if term.group is not None)
    values = rank + 4 * spec.n_names + (0 if tied else 8 * len(spec.pairs))
    return np.ones(len(instances.lengths), dtype=np.int64), max(1, _INSTANCE_VALUES // values)


BATCH_SIZES["instances"] = _size_instances


def plan_labels(offsets: np.ndarray, members: Sequence[np.ndarray], method: Method, *, tied: bool) -> GraphFamily:
    """Return the plan of inference for K binary labels: a named method, or the choice of "auto".

    "auto": "tree" for forests; else "table", a table of all labellings, for few labels; else "junction" where the
    graph is narrow enough, "table" where it still fits, and "trw", which is approximate.
    """
    n_names = int(offsets[1])
    if isinstance(method, str) and method == "table":
        return TableFamily(offsets, members, 2)
    if not (isinstance(method, str) and method == "auto") or len(members) == 0:
        return plan_inference(offsets, members, 2, method)
    if not _has_circle(offsets, members):
        return plan_inference(offsets, members, 2, "tree")
    if n_names <= _SMALL_TABLE:
        return TableFamily(offsets, members, 2)
    chosen = plan_inference(offsets, members, 2, "auto")
    # A table of all labellings is two halves of K / 2 labels, multiplied by fast matrix products.
    narrow = chosen.exact and chosen.plan.width < n_names // 2  # type: ignore[attr-defined]
    return chosen if narrow or n_names > _MOST_LABELS[tied] else TableFamily(offsets, members, 2)


def has_exact_labels(
    n_names: int,
    edges: Sequence[tuple[int, int]],
    method: Method,
    *,
    n_instances: int,
    tied: bool,
    each: float = _SEARCHED_BYTES,
) -> bool:
    """Whether labels with some edges have exact inference, as a search for edges needs.

    Junction trees may have tables of ``each`` bytes for an instance: a search makes many fits. Methods that are
    approximate, or are no name, take any edges.
    """
    members = [np.array([edge]) for edge in edges]
    if method == "tree":
        return not _has_circle(np.array([0, n_names]), members)
    if method not in ("auto", "junction") or (method == "auto" and n_names <= _MOST_LABELS[tied]):
        return True
    try:
        plan_junction(np.array([0, n_names]), members, 2, min(each, default_table_memory() / n_instances))
    except TooWide:
        return False
    return True


def _has_circle(offsets: np.ndarray, members: Sequence[np.ndarray]) -> bool:
    """Whether the edges of one instance have a cycle."""
    ends = np.array([pairs[0] for pairs in members]).reshape(-1, 2)
    shape = int(offsets[1]), int(offsets[1])
    return len(ends) > shape[0] - connected_components(coo_array((np.ones(len(ends)), ends.T), shape), False)[0]


@checks_labels("graph")
class GraphChecks(LabelChecks):
    """Labels of nodes against constraints on them, and on the two ends of edges."""

    def check_labels(self, data: Graphs, spec: FamilySpec, classes: np.ndarray) -> None:
        """Raise ValueError at the first label or edge that is forbidden, or the graphs without a labelling."""
        if spec.is_constrained:
            _check_graph_labels(data.given, data, spec, classes)


@singledispatch
def _check_graph_labels(given: GivenLabels, graphs: Graphs, spec: FamilySpec, classes: np.ndarray) -> None:
    """Raise ValueError at the first label or edge of graphs that is forbidden, or the graphs without a labelling."""
    raise TypeError(f"no checks of {type(given).__name__}")


@_check_graph_labels.register
def _of_partial_graphs(given: PartialRows, graphs: Graphs, spec: FamilySpec, classes: np.ndarray) -> None:
    check_left(given.weights, graphs, spec, GRAPHS)


@_check_graph_labels.register
def _of_known_graphs(given: KnownLabels, graphs: Graphs, spec: FamilySpec, classes: np.ndarray) -> None:
    assert spec.masks is not None
    labels, advice = given.numbers, "Correct y or drop the constraint."
    if (barred := np.flatnonzero(spec.masks.label[labels])).size:
        place, name = GRAPHS.place(graphs.offsets, int(barred[0])), classes[labels[barred[0]]].item()
        raise ValueError(f"{place}: label {name!r} is forbidden everywhere by the constraints. {advice}")
    pairs = [own.members for own in graphs.factors if own.name == EDGE and own.labels_per_clique == 2]
    for members in pairs:
        if (broken := np.flatnonzero(spec.masks.edge[tuple(labels[members].T)])).size:
            nodes = members[broken[0]]
            (graph, first), (_, second) = (locate(graphs.offsets, int(node)) for node in nodes)
            names = classes[labels[nodes]].tolist()
            raise ValueError(
                f"{GRAPHS.name(graph)}: an edge joins node {first}, labelled {names[0]!r}, to node {second}, labelled "
                f"{names[1]!r}, which the constraints forbid. {advice}"
            )
