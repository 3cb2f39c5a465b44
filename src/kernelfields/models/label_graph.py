"""Graphs of labels: which pairs of the labels of an instance meet.

    "none"          no edges: labels are independent given the inputs
    "tree"          the spanning tree of largest mutual information I(y_j; y_k) (Chow and Liu), O(n K^2)
    "full"          all pairs
    "auto"          "full" as long as a table of all labellings is small, else "tree"
    "learn"         those that a search chooses, see structure.py
    [(j, k), ..]    these pairs, by number or by name

The search for pairs begins with independent labels. Pairs are judged by their tables alone; with an edge kernel the
fit that follows gives the chosen ones functions of the inputs, too. The marginals of a pair that does not meet yet
need inference on a graph in which it does: all pairs are judged by one table of all labellings where there are few
labels, else in batches that keep the graph narrow. Pairs that would make exact inference too wide are left out.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
from scipy.sparse.csgraph import minimum_spanning_tree

from kernelfields.data.label_cliques import LabelledInstances
from kernelfields.inference.choice import FamilySpec
from kernelfields.inference.graph_families import has_exact_labels
from kernelfields.models.instance_terms import Edge, InstanceTerms, pair_names
from kernelfields.models.structure import StructurePath, StructureSearch, learn_structure, log_likelihood
from kernelfields.numerics.parameters import is_whole, settled
from kernelfields.numerics.threads import Workers
from kernelfields.objective.designs.design import Design
from kernelfields.solvers.choice import FitOptions

GRAPHS = ("auto", "none", "tree", "full", "learn")
#: Labels up to which "auto" joins all pairs: 65,536 labellings of an instance.
MOST_LABELS_IN_FULL = 16


def label_edges(label_graph: object, instances: LabelledInstances | None, names: Sequence[object]) -> list[Edge]:
    """Return the pairs j < k of labels that meet, given the parameter and the instances of a fit, None elsewhere."""
    n_labels = len(names)
    if isinstance(label_graph, str):
        if label_graph not in GRAPHS:
            raise ValueError(
                f"label_graph must be one of {', '.join(map(repr, GRAPHS))} or a list of pairs, got {label_graph!r}"
            )
        label_graph = settled(label_graph, "full" if n_labels <= MOST_LABELS_IN_FULL else "tree")
        if label_graph == "none":
            return []
        if label_graph == "full":
            return list(itertools.combinations(range(n_labels), 2))
        if not isinstance(instances, LabelledInstances):
            raise ValueError(
                f"label_graph='tree', the usual one of more than {MOST_LABELS_IN_FULL} labels, is read off labels of "
                "this process: name the pairs for Dask collections, or use label_graph='full' or 'none'"
            )
        table = instances.required_labels.reshape(-1, n_labels)
        known = instances.given.informative().reshape(table.shape)
        return spanning_tree(mutual_information(table, instances.weights, known))
    return given_edges(label_graph, list(names))


def given_edges(pairs: object, names: list) -> list[Edge]:
    """Return pairs of labels by number or name as sorted numbers; errors name what cannot be used."""
    if not isinstance(pairs, list | tuple | np.ndarray):
        raise TypeError(f"label_graph must be one of {', '.join(map(repr, GRAPHS))} or a list of pairs, got {pairs!r}")
    edges: list[Edge] = []
    for index, pair in enumerate(pairs):
        if isinstance(pair, str) or not hasattr(pair, "__len__") or len(pair) != 2:
            raise ValueError(f"label_graph[{index}] is {pair!r}, expected a pair of labels (j, k)")
        j, k = sorted(_label_number(label, names, index) for label in pair)
        if j == k:
            raise ValueError(f"label_graph[{index}] joins label {names[j]!r} with itself: leave it out")
        if (j, k) in edges:
            raise ValueError(
                f"label_graph[{index}] joins labels {names[j]!r} and {names[k]!r} again: name each pair once, in "
                "either order"
            )
        edges.append((j, k))
    return edges


def _label_number(label: object, names: list, index: int) -> int:
    if isinstance(label, str):
        if label in names:
            return names.index(label)
        known = ", ".join(map(repr, names[:10])) + (", .." if len(names) > 10 else "")
        raise ValueError(f"label_graph[{index}] names the label {label!r}, but labels are {known}")
    if not is_whole(label) or not 0 <= label < len(names):
        raise ValueError(f"label_graph[{index}] holds {label!r}, but labels are numbered 0 to {len(names) - 1}")
    return int(label)


def mutual_information(Y: np.ndarray, weights: np.ndarray, known: np.ndarray | None = None) -> np.ndarray:
    """Return I(y_j; y_k) in nats, (K, K), of labels (n, K) with half an instance added to each of four cells.

    A pair is counted over the instances of which both labels are ``known``.
    """
    mask = np.ones(Y.shape) if known is None else known.astype(np.float64)
    weighted = mask * weights[:, None]
    total = weighted.T @ mask + 2.0
    both = (Y * weighted).T @ (Y * mask) + 0.5
    first = (Y * weighted).T @ mask + 1.0
    cells = {(1, 1): both, (1, 0): first - both, (0, 1): first.T - both, (0, 0): total - first - first.T + both}
    information = np.zeros(both.shape)
    for (a, b), count in cells.items():
        expected = (first if a else total - first) * (first.T if b else total - first.T) / total
        information += count / total * np.log(count / expected)
    np.fill_diagonal(information, 0.0)
    return information


def spanning_tree(weight: np.ndarray) -> list[Edge]:
    """Return the edges j < k of a spanning tree of largest total weight, sorted; weights (K, K) are not negative."""
    # A weight of zero is no edge to SciPy, so that all are moved above zero.
    tree = minimum_spanning_tree(np.triu(1.0 + weight.max(initial=0.0) - weight, 1))
    return sorted(zip(*(nodes.tolist() for nodes in tree.nonzero()), strict=True))


def resolve_label_search(label_graph: object) -> StructureSearch | None:
    """Return the search that the parameter describes, None if it describes none."""
    if isinstance(label_graph, StructureSearch):
        label_graph.check()
        return label_graph
    return StructureSearch() if isinstance(label_graph, str) and label_graph == "learn" else None


def learn_label_edges(
    search: StructureSearch,
    instances: LabelledInstances,
    names: Sequence[object],
    *,
    terms_on: Callable[[LabelledInstances, FamilySpec], InstanceTerms],
    inference: object,
    options: FitOptions,
    workers: Workers,
    announce: Callable[[str], None],
) -> tuple[list[Edge], StructurePath]:
    """Return the pairs of labels that a search chose, and its path; ``terms_on`` makes terms on some instances."""
    search.refuse_partial(instances)
    n_names = len(names)
    edges = (
        list(itertools.combinations(range(n_names), 2))
        if search.candidates is None
        else given_edges(search.candidates, list(names))
    )
    train, held = search.split(instances.n_instances, options.random, "instances")
    pairs = pair_names(edges, names)
    spec = FamilySpec("instances", 2, method=inference, n_names=n_names, pairs=pairs)
    made = terms_on(instances.subset(train), spec)
    tables = [design for design in made.pair_designs(edges) if design.name in pairs]
    tied = all(clique.kernel is None for _, clique in made.pairs)

    def fits(designs: Sequence[Design]) -> bool:
        meeting = [pairs[design.group] for design in designs if design.group is not None]
        return has_exact_labels(n_names, meeting, inference, n_instances=instances.n_instances, tied=tied)

    score = partial(log_likelihood, instances.subset(held), spec, workers) if len(held) else None
    path, _, _ = learn_structure(
        made.label_designs(), tables, made.sample, search, options, score=score, fits=fits, announce=announce
    )
    return sorted(pairs[name] for name in path.added), path
