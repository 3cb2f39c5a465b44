"""Choice of a family of labellings: which labels meet, and how they are inferred.

    family_of(data, placed, spec)      the family of packed data whose cliques some clique sets score

    "chain"       neighbours: passes over chains, or over lists of allowed labels; n-grams that see no inputs: an
                  automaton; cliques of longer reach: the chains as graphs, by junction trees
    "segments"    segments of up to a longest duration
    "graph"       graphs as they are given, by a method of inference
    "instances"   several yes-or-no labels of an instance: a small graph each, all of one structure
    "single"      labels that meet no others

Methods of inference on graphs:

    "tree"        forests of pairs, exact
    "junction"    any graphs whose junction trees fit into memory, exact
    "trw", "loopy", "mean-field"              approximate, see approximate/base.py

Families are loaded when they are chosen, compilers with them. A further kind is added by :func:`builds`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from sklearn.base import BaseEstimator

from kernelfields.data.chains import Chains
from kernelfields.data.constraints import ConstraintMasks
from kernelfields.data.graphs import Graphs
from kernelfields.data.label_cliques import LabelledInstances
from kernelfields.data.segments import SegmentedChains
from kernelfields.inference.approximate.base import OPTIONS, MeanField
from kernelfields.inference.base_measure import BaseMeasure
from kernelfields.inference.family import EDGE, Grouped, LabelFamily, Placed
from kernelfields.inference.graphs import GraphFamily
from kernelfields.inference.packing import check_structure
from kernelfields.numerics.memory import check_labels_fit
from kernelfields.numerics.parameters import check_declared

EXACT_METHODS = ("tree", "junction")
APPROXIMATE_METHODS = ("trw", "loopy", "mean-field")
METHODS = ("auto", *EXACT_METHODS, *APPROXIMATE_METHODS)
# Labels up to which a table of all labellings beats any junction tree.
_SMALL_TABLE = 14
# With tables of pairs that depend on the inputs, one for each instance, tables of labellings are, too.
_MOST_LABELS = {True: 20, False: 16}
# Tables of one instance that a search for the graph of labels allows: those of about 9 labels at once.
_SEARCHED_BYTES = 2.0**17

Pairs = Mapping[str, tuple[int, int]]
#: Packed data whose labels are inferred.
Data: TypeAlias = Chains | Graphs | LabelledInstances
#: A method of inference on graphs: its name, or an object of options.
Method: TypeAlias = str | BaseEstimator


@dataclass(frozen=True, eq=False)
class FamilySpec:
    """What decides the family of a field beside its data and clique sets.

    ``masks`` are constraints on the labels of sequences, ``method`` a name or options of inference on graphs,
    ``max_duration`` and ``repeats`` (whether neighbours may have the same label) are for segments; instances have
    ``n_names`` labels, and ``pairs`` names those that may meet.
    """

    kind: str
    n_labels: int
    masks: ConstraintMasks | None = None
    method: Method = "auto"
    max_duration: int = 1
    repeats: bool = False
    n_names: int = 1
    pairs: Pairs = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_labels_fit(self.n_labels)

    @property
    def constrained(self) -> bool:
        """Whether constraints forbid something."""
        return self.masks is not None and self.masks.any

    @cached_property
    def step_penalties(self) -> np.ndarray:
        """Penalties of neighbouring labels, (L, L); of segments also those of a segment that follows its like."""
        penalties = np.zeros((self.n_labels, self.n_labels)) if self.masks is None else self.masks.edge
        if self.kind == "segments" and not self.repeats:
            return np.where(np.eye(self.n_labels), -np.inf, penalties)
        return penalties

    def base_measure(self, data: Chains | Graphs) -> BaseMeasure:
        """Return the base measure of packed data: constraints and allowed labels."""
        masks = self.masks if self.constrained else None
        step = self.step_penalties if self.kind == "segments" and not self.repeats else None
        return BaseMeasure(data.offsets, self.n_labels, masks, data.allowed, step_penalties=step)


#: Returns the family of data for clique sets and a spec. With ``lists`` node potentials may be those of allowed labels
#: alone; ``planned`` is a family of the same data for other clique sets.
Builder = Callable[..., LabelFamily]
_BUILDERS: dict[str, Builder] = {}


def builds(kind: str) -> Callable[[Builder], Builder]:
    """Register the function that returns families of a kind."""

    def register(builder: Builder) -> Builder:
        _BUILDERS[kind] = builder
        return builder

    return register


def family_of(
    data: object,
    placed: Sequence[Placed],
    spec: FamilySpec,
    *,
    lists: bool = False,
    planned: LabelFamily | None = None,
) -> LabelFamily:
    """Return the family of packed data whose cliques are scored by some clique sets."""
    return _BUILDERS[spec.kind](data, placed, spec, lists=lists, planned=planned)


def _all_tied(placed: Sequence[Placed], group: str | None) -> bool:
    """Whether no clique set of a group sees inputs."""
    return all(term.tied_everywhere for term in placed if term.group == group)


@builds("single")
def _single_family(data: Graphs, placed: Sequence[Placed], spec: FamilySpec, **options: object) -> LabelFamily:
    from kernelfields.inference.single import SingleFamily

    return SingleFamily(data.n_positions, spec.n_labels)


@builds("chain")
def _chain_family(
    chains: Chains, placed: Sequence[Placed], spec: FamilySpec, *, lists: bool = False, **options: object
) -> LabelFamily:
    n_labels, base = spec.n_labels, spec.base_measure(chains)
    if only_ngrams(placed):
        from kernelfields.inference.ngrams.family import NgramFamily

        orders = sorted({term.labels_per_clique for term in placed if term.labels_per_clique > 2})
        ngrams = [(length, _listed_labellings(length, placed)) for length in orders]
        return NgramFamily(chains.offsets, n_labels, ngrams, tied=_all_tied(placed, EDGE), base=base)
    if reaches_far(placed):
        return junction_of_chains(chains, placed, base)
    from kernelfields.inference.chain.family import ChainFamily, ListFamily
    from kernelfields.inference.chain.lists import worth_lists

    tied = _all_tied(placed, EDGE)
    if base.lists is not None and worth_lists(base.lists):
        packed = base.lists if lists and tied else None
        return ListFamily(chains.offsets, n_labels, base.lists, tied=tied, base=base, packed=packed)
    return ChainFamily(chains.offsets, n_labels, tied=tied, base=base)


def only_ngrams(placed: Sequence[Grouped]) -> bool:
    """Whether labels that are not neighbours meet in n-grams alone, and those see no inputs."""
    far = [term for term in placed if term.reach > 1]
    return bool(far) and all(term.labels_per_clique > 2 and term.tied_everywhere for term in far)


def reaches_far(placed: Sequence[Grouped]) -> bool:
    """Whether labels of a chain meet that are not neighbours."""
    return any(term.reach > 1 for term in placed)


def _listed_labellings(length: int, placed: Sequence[Placed]) -> np.ndarray | None:
    """Return the labellings that the sets of n-grams of a length list, sorted; None if one has weights for all."""
    lists = [term.outcomes for term in placed if term.labels_per_clique == length]
    known = [outcomes for outcomes in lists if outcomes is not None]
    if len(known) < len(lists):
        return None
    return known[0] if len(known) == 1 else np.unique(np.concatenate(known))


def named_plan(
    plan: GraphFamily, graphs: Graphs, placed: Sequence[Placed], base: BaseMeasure | None = None
) -> GraphFamily:
    """Return a planned family whose groups have the names of the factors; those that see no inputs are tied."""
    names = [factors.name for factors in graphs.factors]
    return plan.named(names, [name for name in names if _all_tied(placed, name)], base)


def junction_of_chains(chains: Chains, placed: Sequence[Placed], base: BaseMeasure) -> GraphFamily:
    """Return chains as graphs with the groups of some clique sets, by junction trees; neighbours are among them."""
    lags = sorted({term.reach for term in placed if term.reach > 1 and term.labels_per_clique == 2})
    orders = sorted({term.reach for term in placed if term.labels_per_clique > 2})
    graphs = Graphs.from_chains(chains, lags=[1, *lags], orders=orders)
    members = [factors.members for factors in graphs.factors]
    return named_plan(plan_inference(graphs.offsets, members, base.n_labels, "junction"), graphs, placed, base)


@builds("segments")
def _segment_family(
    chains: SegmentedChains, placed: Sequence[Placed], spec: FamilySpec, **options: object
) -> LabelFamily:
    from kernelfields.inference.segments.family import SegmentFamily

    tied, base = _all_tied(placed, EDGE), spec.base_measure(chains)
    return SegmentFamily(chains.offsets, spec.n_labels, spec.max_duration, tied=tied, base=base)


@builds("graph")
def _graph_family(
    graphs: Graphs, placed: Sequence[Placed], spec: FamilySpec, *, planned: GraphFamily | None = None, **options: object
) -> LabelFamily:
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
    if not spec.constrained:
        return named_plan(planned, graphs, placed)
    assert spec.masks is not None
    pairs = [factors.name for factors in graphs.factors if factors.labels_per_clique == 2]
    if spec.masks.start.any() or spec.masks.end.any() or (spec.masks.edge.any() and EDGE not in pairs):
        raise ValueError(
            f"constraints on graphs forbid labels, and pairs at the two ends of factors named {EDGE!r}: graphs have no "
            f"first and no last label, and these have pairs named {', '.join(map(repr, pairs)) or 'none'}"
        )
    return named_plan(planned, graphs, placed, spec.base_measure(graphs))


@builds("instances")
def _instance_family(
    instances: LabelledInstances, placed: Sequence[Placed], spec: FamilySpec, **options: object
) -> LabelFamily:
    names = list(dict.fromkeys(term.group for term in placed if term.group is not None))
    graphs = instances.with_pairs({name: spec.pairs[name] for name in names})
    tied = [name for name in names if _all_tied(placed, name)]
    members = [factors.members for factors in graphs.factors]
    plan = plan_labels(graphs.offsets, members, spec.method, tied=len(tied) == len(names))
    return plan.named(names, tied)


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
    from kernelfields.inference.junction.family import JunctionFamily, TooWide
    from kernelfields.inference.tree.family import NotAForest, TreeFamily

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
        from kernelfields.inference.approximate.mean_field import MeanFieldFamily

        return MeanFieldFamily(offsets, members, n_labels, options)
    from kernelfields.inference.approximate.belief_propagation import PropagationFamily

    return PropagationFamily(offsets, members, n_labels, options)


def plan_labels(offsets: np.ndarray, members: Sequence[np.ndarray], method: Method, *, tied: bool) -> GraphFamily:
    """Return how instances with K yes-or-no labels are inferred: by a named method, or by the one "auto" chooses.

    "auto": "tree" for forests; else "table", a table of all labellings, for few labels; else "junction" where the
    graph is narrow enough, "table" where it still fits, and "trw", which is approximate.
    """
    from kernelfields.inference.table import TableFamily

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


def labels_fit(
    n_names: int,
    edges: Sequence[tuple[int, int]],
    method: Method,
    *,
    n_instances: int,
    tied: bool,
    each: float = _SEARCHED_BYTES,
) -> bool:
    """Whether labels that meet along some edges are inferred without approximation, as a search for edges needs.

    Junction trees may have tables of ``each`` bytes for an instance: a search makes many fits. Methods that are
    approximate, or are no name, take any edges.
    """
    members = [np.array([edge]) for edge in edges]
    if method == "tree":
        return not _has_circle(np.array([0, n_names]), members)
    if method not in ("auto", "junction") or (method == "auto" and n_names <= _MOST_LABELS[tied]):
        return True
    from kernelfields.inference.junction.elimination import TooWide
    from kernelfields.inference.junction.plan import plan_junction, usual_table_memory

    try:
        plan_junction(np.array([0, n_names]), members, 2, min(each, usual_table_memory() / n_instances))
    except TooWide:
        return False
    return True


def _has_circle(offsets: np.ndarray, members: Sequence[np.ndarray]) -> bool:
    """Whether the edges of one instance, the same for all, hold a circle."""
    ends = np.array([pairs[0] for pairs in members]).reshape(-1, 2)
    shape = int(offsets[1]), int(offsets[1])
    return len(ends) > shape[0] - connected_components(coo_array((np.ones(len(ends)), ends.T), shape), False)[0]


def refuse_approximate(family: LabelFamily, what: str) -> None:
    """Raise ValueError if inference is approximate."""
    if not family.exact:
        raise ValueError(
            f"{what} needs exact inference, and these graphs are inferred by {family.method!r}, which is "
            f"approximate ({family.description})"
        )
