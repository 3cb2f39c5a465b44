"""Candidates of structure searches: clique sets of chains, pairs of labels of instances.

For chains, ends, longer reach, transitions that see the inputs and inputs of neighbours are proposed unless others
are named. For several labels of an instance, which pairs of them meet is given or found:

    "none"          no edges: labels are independent given the inputs
    "tree"          the spanning tree of largest mutual information I(y_j; y_k) (Chow and Liu), O(n K^2)
    "full"          all pairs
    "auto"          "full" as long as a table of all labellings is small, else "tree"
    "learn"         those that a search chooses (Remark 11)
    [(j, k), ..]    these pairs, by number or by name

The search for pairs begins with independent labels, bounds what each pair could bring, adds the best and fits again;
pairs that do not raise the likelihood of held-out instances are taken back. "learn" adds more and more pairs at once
as long as these agree. Pairs are judged by their tables alone; with an edge kernel the fit that follows gives the
chosen ones functions of the inputs, too.

The marginals of a pair that does not meet yet need inference on a graph in which it does: all pairs are judged by one
table of all labellings where there are few labels, else in batches that keep the graph narrow. Pairs that would make
exact inference too wide are left out.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from functools import partial

import numpy as np
from scipy.sparse.csgraph import minimum_spanning_tree

from kernelfields.data.chains import Chains
from kernelfields.data.cliques import (
    CliqueSet,
    EdgeCliques,
    EndCliques,
    NodeCliques,
    OrderCliques,
    SkipCliques,
    StartCliques,
)
from kernelfields.data.evidence import informative
from kernelfields.data.label_cliques import LabelledInstances
from kernelfields.engines.engine import Sample
from kernelfields.inference.choice import FamilySpec, labels_fit, refuse_approximate
from kernelfields.models.build import Edge, InstanceTerms, NamedCliques, build_designs, name_cliques, pair_names
from kernelfields.models.field import Field
from kernelfields.models.fit import FitOptions, FittedField
from kernelfields.numerics.parameters import is_whole
from kernelfields.numerics.threads import Workers
from kernelfields.objective.designs.design import Design
from kernelfields.structure.search import StructurePath, StructureSearch, learn_structure

GRAPHS = ("auto", "none", "tree", "full", "learn")
#: Labels up to which "auto" joins all pairs: 65,536 labellings of an instance.
MOST_LABELS_IN_FULL = 16
# Three labels in a row have L^3 scores: beyond this many they are not proposed unasked.
_MOST_TRIPLES = 10_000


def resolve_search(cliques: StructureSearch | str) -> StructureSearch:
    """Return the search for clique sets, that of "learn" for a string; TypeError or ValueError if it is unusable."""
    search = StructureSearch() if isinstance(cliques, str) else cliques
    search.check()
    if search.candidates is not None and not isinstance(search.candidates, list | tuple):
        raise TypeError(
            f"candidates must be a list of clique sets such as SkipCliques(lag=2), or None, got {search.candidates!r}"
        )
    return search


def default_candidates(prior_variance: float, window: int | tuple[int, int], n_labels: int) -> list[CliqueSet]:
    """Return what is tried if nothing is named: ends, longer reach, transitions that see x, neighbours of x."""
    candidates: list[CliqueSet] = [
        StartCliques(prior_variance=prior_variance),
        EndCliques(prior_variance=prior_variance),
        SkipCliques(lag=2, prior_variance=prior_variance),
        EdgeCliques("linear", window=window, name="edge inputs", prior_variance=prior_variance),
        NodeCliques("linear", window=3, name="neighbours", prior_variance=prior_variance),
    ]
    if n_labels**3 <= _MOST_TRIPLES:
        candidates.append(OrderCliques(order=2, prior_variance=prior_variance))
    return candidates


def learn_chain_cliques(
    search: StructureSearch,
    base: Sequence[CliqueSet],
    candidates: Sequence[CliqueSet],
    chains: Chains,
    held_out: Chains | None,
    *,
    place_chains: Callable[[Chains], Sample],
    options: FitOptions,
    announce: Callable[[str], None],
) -> tuple[NamedCliques, StructurePath]:
    """Return the named clique sets that a search chose, and its path; ``place_chains`` puts chains where fits run.

    Without ``held_out`` chains, a share of the training sequences is set aside to score each step.
    """
    _refuse_partial(chains, "cliques='learn'")
    named = name_cliques([*base, *candidates])
    # A sum of kernels is several sets, so the number of base sets is known only after naming.
    n_base = len(name_cliques(base))
    if held_out is None and search.validation > 0:
        words = "sequences", "a development set, or"
        train, held = _split(chains.n_sequences, search.validation, options.random, *words)
        chains, held_out = chains.subset(train), chains.subset(held)
    sample = place_chains(chains)
    designs = build_designs(named, sample, options.random)
    path, chosen, _ = learn_structure(
        designs[:n_base],
        designs[n_base:],
        sample,
        search,
        options,
        score=None if held_out is None else partial(_log_likelihood, held_out, sample.spec, Workers()),
        announce=announce,
    )
    names = {design.name for design in chosen}
    return [(name, clique) for name, clique in named if name in names], path


def _log_likelihood(
    held_out: Chains | LabelledInstances, spec: FamilySpec, workers: Workers, fitted: FittedField
) -> float:
    """Return the log-likelihood of held-out data under a fit; ValueError if inference is approximate."""
    field, total = Field(fitted.terms, spec), 0.0
    for batch in field.batches(held_out):
        answers = field.answers(batch, workers)
        refuse_approximate(answers.family, "a search for the structure of a field")
        total += float((answers.label_scores(batch.labels) - answers.log_partition).sum())
    return total


def _refuse_partial(data: Chains | LabelledInstances, what: str) -> None:
    """Raise ValueError if labels are partly known: the bounds of candidates hold for a convex objective."""
    if data.evidence is not None:
        raise ValueError(
            f"{what} needs labels that are all known: learn on data of which they are, then name what was chosen"
        )


def _split(
    count: int, share: float, random: np.random.Generator, items: str, instead: str = "or"
) -> tuple[np.ndarray, np.ndarray]:
    """Return the numbers of the items to fit and, at random, of those held out; errors name ``items``."""
    held = round(share * count)
    if share > 0 and not 0 < held < count:
        raise ValueError(
            f"{count} {items} cannot be split to hold out a share of {share:g}: pass more of them, {instead} "
            "StructureSearch(validation=0)"
        )
    order = random.permutation(count)
    return np.sort(order[held:]), np.sort(order[:held])


def label_edges(label_graph: object, instances: LabelledInstances | None, names: Sequence[object]) -> list[Edge]:
    """Return the pairs j < k of labels that meet, given the parameter and the instances of a fit, None elsewhere."""
    n_labels = len(names)
    if isinstance(label_graph, str):
        if label_graph not in GRAPHS:
            raise ValueError(
                f"label_graph must be one of {', '.join(map(repr, GRAPHS))} or a list of pairs, got {label_graph!r}"
            )
        if label_graph == "auto":
            label_graph = "full" if n_labels <= MOST_LABELS_IN_FULL else "tree"
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
        known = None if instances.evidence is None else informative(instances.evidence).reshape(table.shape)
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
    if isinstance(label_graph, str) and label_graph == "learn":
        return StructureSearch(max_additions=1000, at_once=None)
    if isinstance(label_graph, StructureSearch):
        label_graph.check()
        return label_graph
    return None


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
    _refuse_partial(instances, "a search for the graph of labels")
    n_names = len(names)
    edges = (
        list(itertools.combinations(range(n_names), 2))
        if search.candidates is None
        else given_edges(search.candidates, list(names))
    )
    train, held = _split(instances.n_instances, search.validation, options.random, "instances")
    pairs = pair_names(edges, names)
    spec = FamilySpec("instances", 2, method=inference, n_names=n_names, pairs=pairs)
    made = terms_on(instances.subset(train), spec)
    tables = [design for design in made.pair_designs(edges) if design.name in pairs]
    held_out = instances.subset(held) if len(held) else None

    tied = all(clique.kernel is None for _, clique in made.pairs)

    def fits(designs: Sequence[Design]) -> bool:
        meeting = [pairs[design.group] for design in designs if design.group is not None]
        return labels_fit(n_names, meeting, inference, n_instances=instances.n_instances, tied=tied)

    path, _, _ = learn_structure(
        made.label_designs(),
        tables,
        made.sample,
        search,
        options,
        score=None if held_out is None else partial(_log_likelihood, held_out, spec, workers),
        batches=lambda present, candidates: _narrow_batches(present, candidates, fits),
        fits=fits,
        announce=announce,
    )
    return sorted(pairs[name] for name in path.added), path


def _narrow_batches(
    present: Sequence[Design], candidates: Sequence[Design], fits: Callable[[Sequence[Design]], bool]
) -> Iterator[list[Design]]:
    """Cut candidates into batches that each fit into a field together with those that are present."""
    left = list(candidates)
    if left and fits([*present, *left]):
        yield left
        return
    while left:
        batch: list[Design] = []
        for design in left:
            if not batch or fits([*present, *batch, design]):
                batch.append(design)
        names = {design.name for design in batch}
        left = [design for design in left if design.name not in names]
        yield batch
