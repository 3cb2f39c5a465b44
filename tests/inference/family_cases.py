"""Families of labellings on small random items, each beside an enumeration of all labellings.

A :class:`Case` makes a family for :class:`Items`, and the enumeration that says what it must answer. A :class:`Setting`
says how long items are, how large potentials, and what the base measure holds. :func:`problem` joins both, with random
potentials, weights, and a base measure that leaves every item a labelling.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache, cached_property
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from kernelfields.data import Chains
from kernelfields.data.allowed import AllowedLabels
from kernelfields.data.any_labels import ANY_LABELS
from kernelfields.data.constraints import ConstraintMasks
from kernelfields.data.label_cliques import LabelledInstances
from kernelfields.inference import (
    EDGE,
    BaseMeasure,
    ChainFamily,
    FamilySpec,
    ListFamily,
    LoopyBelief,
    NgramFamily,
    Placement,
    Potentials,
    SegmentFamily,
    SingleFamily,
    TableFamily,
    TreeReweighted,
    choose_family,
    plan_inference,
)
from kernelfields.inference.chain.list_family import limit_chains
from kernelfields.inference.chain.recursions import SHORT
from kernelfields.inference.ring import Rings
from tests.oracles.families import Cliques, Enumeration, SegmentEnumeration
from tests.samples import make_offsets, on_a_grid

try:
    import torch
except ImportError:  # the device is left out
    torch = None

#: What the measure of a setting may hold: forbidden steps, forbidden first and last labels, lists, log-weights.
STEPS, ENDS, ALLOWED, WEIGHTS = "steps", "ends", "allowed", "weights"


class Setting(NamedTuple):
    """Lengths of items, labels, the spread of potentials, the share of forbidden ones, and whether p0 is not one."""

    lengths: tuple[int, ...] = (1, 4, 2, 3)
    n_labels: int = 3
    spread: float = 1.0
    forbidden: float = 0.0
    measured: bool = False


SETTINGS = {
    "plain": Setting(),
    "large": Setting(spread=300.0, forbidden=0.08),
    "measured": Setting(measured=True),
    "measured and large": Setting(spread=500.0, forbidden=0.05, measured=True),
    "one label": Setting(n_labels=1),
    "single positions": Setting(lengths=(1, 1, 1)),
}


@dataclass
class Items:
    """Items end to end, and their base measure as its parts: constraints, allowed labels, log-weights."""

    offsets: np.ndarray
    n_labels: int
    masks: ConstraintMasks | None = None
    allowed: AllowedLabels | None = None
    log_weights: np.ndarray | None = None
    step_penalties: np.ndarray | None = None

    @property
    def n_positions(self):
        """Number of positions of all items."""
        return int(self.offsets[-1])

    @property
    def base(self):
        """The base measure of the library."""
        parts = self.masks, self.allowed or ANY_LABELS, self.log_weights, self.step_penalties
        return BaseMeasure(self.offsets, self.n_labels, *parts)

    @property
    def lists(self):
        """The lists of the base measure, those of all labels where it has none."""
        return self.base.lists or AllowedLabels.from_mask(np.ones((self.n_positions, self.n_labels), dtype=bool))

    @property
    def position(self):
        """Log-weights of labels (N, L) by the definition of the measure."""
        weights = np.zeros((self.n_positions, self.n_labels))
        if self.masks is not None:
            weights += self.masks.label
            weights[self.offsets[:-1]] += self.masks.start
            weights[self.offsets[1:] - 1] += self.masks.end
        if self.allowed is not None:
            for t in range(self.n_positions):
                own = self.allowed.labels[self.allowed.begin[t] : self.allowed.begin[t + 1]]
                weights[t, np.setdiff1d(np.arange(self.n_labels), own)] = -np.inf
        return weights if self.log_weights is None else weights + self.log_weights

    @property
    def step(self):
        """Log-weights of steps (L, L)."""
        if self.step_penalties is not None:
            return self.step_penalties
        return np.zeros((self.n_labels, self.n_labels)) if self.masks is None else self.masks.edge


class Host:
    """Potentials, means and marginals as the library has them in this process."""

    def put(self, family, potentials):
        """Potentials as the family takes them."""
        return potentials

    def take(self, family, potentials):
        """Potentials of the family as dense arrays of NumPy."""
        return potentials

    def by_item(self, family, values):
        """Numbers of items, in their order."""
        return values

    def by_row(self, family, rows):
        """Rows of positions, in their order."""
        return rows


HOST = Host()


class PackedLists(Host):
    """Node potentials of allowed labels alone."""

    def put(self, family, potentials):
        return Potentials(family.packed.gather(potentials.node), potentials.tables)

    def take(self, family, potentials):
        return Potentials(family.packed.scatter(potentials.node), potentials.tables)


class Device(Host):
    """Tensors in the order of the chains."""

    def put(self, family, potentials):
        return family.arrangement.place_potentials(potentials)

    def take(self, family, potentials):
        return family.arrangement.host_potentials(potentials)

    def by_item(self, family, values):
        return values.numpy()

    def by_row(self, family, rows):
        return rows.numpy()


class AnsweringDevice(Host):
    """Tensors; answers are arrays of NumPy."""

    def put(self, family, potentials):
        return potentials.with_arrays(torch.tensor(array) for array in potentials.arrays)


@dataclass(frozen=True)
class Case:
    """A family and the enumeration of its labellings, for any items.

    ``measures`` are the parts that the base measure of this family may have; ``lacks`` names the tests it has no answer
    for; ``lengths`` are those of items where not any will do; ``narrow``: log-weights leave few labels, always.
    """

    family: Callable
    enumeration: Callable
    measures: tuple[str, ...] = (STEPS, ENDS, ALLOWED, WEIGHTS)
    layout: Host = HOST
    lengths: tuple[int, ...] | None = None
    n_labels: int | None = None
    repeats: bool | None = None
    narrow: bool = False
    lacks: tuple[str, ...] = ()
    finite: tuple[str, ...] = ()

    def fits(self, setting):
        """Whether there are items of the setting for this family."""
        if self.lengths is not None and setting.lengths == (1, 1, 1):
            return self.lengths == (1,)
        return self.n_labels is None or setting.n_labels > 1


@dataclass
class Problem:
    """A family, its enumeration, random potentials (of groups, as tables), the base measure and weights of items."""

    case: Case
    items: Items
    family: object
    enumeration: Enumeration
    potentials: Potentials
    weights: np.ndarray
    spread: float
    random: np.random.Generator

    def random_potentials(self, spread=1.0, forbidden=0.0):
        """Potentials on a grid, so that scores add up without rounding."""
        return random_potentials(self.case, self.family, self.enumeration, self.random, spread, forbidden)

    def put(self, potentials):
        """Potentials as the family takes them."""
        return self.case.layout.put(self.family, potentials)

    def distribution(self, potentials=None, weights=None, **options):
        """The distribution of the family."""
        own = self.put(self.potentials if potentials is None else potentials)
        return self.family.distribution(own, self.family.arrangement.place_array(weights), **options)

    def enumerated(self, weights=None, potentials=None, log_weights=None):
        """The distribution by enumeration, the measure multiplied by further weights of labels."""
        if potentials is not None:
            tables = tables_of(self.enumeration, potentials)
            return self.enumeration.distribution(tables, self.items.position, self.items.step, weights)
        known = self._enumerated if log_weights is None else self._enumerated.times(log_weights)
        return known.weighted(weights)

    @cached_property
    def _enumerated(self):
        tables = tables_of(self.enumeration, self.potentials)
        return self.enumeration.distribution(tables, self.items.position, self.items.step)

    @property
    def near(self):
        """The absolute error of probabilities that rounding allows."""
        return 1e-9 * max(1.0, self.spread / 100.0)


def tables_of(enumeration, potentials):
    """Potentials as the enumeration takes them."""
    return {name: np.asarray(potentials[name]) for name in enumeration.groups}


def zero_tables(enumeration):
    """Tables of zero, one row for all cliques of a group."""
    return {name: np.zeros((1, enumeration.shape(name)[1])) for name in enumeration.groups}


def random_potentials(case, family, enumeration, random, spread, forbidden):
    """Random tables for all groups; forbidden entries are where families can have them."""
    tables = {}
    for name, group in enumeration.groups.items():
        shape = 1 if group.tied else group.height, group.size(enumeration.n_labels)
        share = 0.0 if name in case.finite else forbidden
        tables[name] = on_a_grid(random, shape, spread, share).reshape(-1, *family.arrangement.group(name).row)
    node = tables.pop(None)
    return Potentials(node, tables)


def _items(case, setting, random):
    lengths = setting.lengths if case.lengths is None else case.lengths
    n_labels = setting.n_labels if case.n_labels is None else case.n_labels
    items = Items(make_offsets(lengths), n_labels)
    shape = items.n_positions, n_labels
    if setting.measured and STEPS in case.measures:
        edge, start, end = np.zeros((n_labels, n_labels)), np.zeros(n_labels), np.zeros(n_labels)
        edge[0, -1] = -np.inf
        if ENDS in case.measures:
            start[-1], end[0] = -np.inf, -np.inf
        items = replace(items, masks=ConstraintMasks(edge, start, end, np.zeros(n_labels)))
    if setting.measured and ALLOWED in case.measures:
        mask = random.random(shape) < 0.7
        mask[np.arange(len(mask)), random.integers(n_labels, size=len(mask))] = True
        items = replace(items, allowed=AllowedLabels.from_mask(mask))
    if case.narrow or (setting.measured and WEIGHTS in case.measures):
        weights = on_a_grid(random, shape, 1.0, 0.15)
        if case.narrow:
            weights[np.arange(len(weights)), random.integers(n_labels, size=len(weights))] = -np.inf
        items = replace(items, log_weights=weights)
    if case.repeats is False:
        step = np.where(np.eye(n_labels), -np.inf, items.step)
        items = replace(items, step_penalties=step)
    return items


@cache
def problem(case_name, setting_name):
    """The problem of a case and a setting in which every item has a labelling."""
    case, setting = CASES[case_name], SETTINGS[setting_name]
    enumeration = case.enumeration(_items(case, setting, np.random.default_rng(0)))
    for seed in range(1000):
        random = np.random.default_rng(seed)
        items = _items(case, setting, random)
        if not enumeration.distribution(zero_tables(enumeration), items.position, items.step).possible:
            continue
        family = case.family(items)
        potentials = random_potentials(case, family, enumeration, random, setting.spread, setting.forbidden)
        weights = random.choice([0.0, 0.5, 1.0, 2.5], size=len(items.offsets) - 1)
        found = Problem(case, items, family, enumeration, potentials, weights, setting.spread, random)
        if found.enumerated().possible:
            return found
    raise AssertionError(f"no item of {case_name}, {setting_name} has a labelling")


# ---- enumerations


def steps_of(offsets):
    """Positions of neighbours, (M, 2)."""
    later = np.setdiff1d(np.arange(offsets[-1]), offsets[:-1])
    return np.column_stack([later - 1, later])


def windows_of(offsets, length):
    """Positions of n-grams, (M, length)."""
    rows = [np.arange(a, b - length + 1)[:, None] + np.arange(length) for a, b in pairwise(offsets.tolist())]
    return np.concatenate([np.zeros((0, length), dtype=np.int64), *rows])


def chains(*, tied):
    """Chains whose table of a step stands in the row of its second position."""

    def enumeration(items):
        pairs = steps_of(items.offsets)
        edge = Cliques(EDGE, pairs, tied, rows=pairs[:, 1], n_rows=items.n_positions)
        return Enumeration(items.offsets, items.n_labels, [edge])

    return enumeration


def _listed(n_labels, length):
    """Every third n-gram."""
    return np.arange(0, n_labels**length, 3)


def ngrams(*, tied, listed):
    """N-grams of three and four labels that see no inputs, and neighbours."""

    def enumeration(items):
        groups = [Cliques(EDGE, steps_of(items.offsets), tied)]
        for length in (3, 4):
            some = _listed(items.n_labels, length) if listed else None
            groups.append(Cliques(f"order{length - 1}", windows_of(items.offsets, length), True, listed=some))
        return Enumeration(items.offsets, items.n_labels, groups)

    return enumeration


def ngram_family(*, tied, listed):
    def family(items):
        some = [(length, _listed(items.n_labels, length) if listed else None) for length in (3, 4)]
        narrow = {} if tied else {"lanes": 1, "panel_bytes": 1}
        return NgramFamily(items.offsets, items.n_labels, some, tied=tied, base=items.base, **narrow)

    return family


def segments(*, tied, least=False):
    def enumeration(items):
        shortest = shortest_of(items) if least else None
        return SegmentEnumeration(items.offsets, items.n_labels, longest_of(items), tied=tied, shortest=shortest)

    return enumeration


def longest_of(items):
    """The longest segment: the longest item where there is one label, which cannot follow itself."""
    return 4 if items.n_labels == 1 else 3


def shortest_of(items):
    """The shortest segment of each label: two positions for the first label, if there are others."""
    return (2 if items.n_labels > 1 else 1, *(1,) * (items.n_labels - 1))


def segment_family(*, tied, least=False):
    def family(items):
        shortest = shortest_of(items) if least else None
        longest = longest_of(items)
        return SegmentFamily(items.offsets, items.n_labels, longest, tied=tied, base=items.base, shortest=shortest)

    return family


class Shape(NamedTuple):
    """Groups of factors of graphs: names, nodes, and which have one table for all factors."""

    members: dict[str, np.ndarray]
    tied: tuple[str, ...]


def star(offsets):
    """Trees: all nodes meet the first, some pairs twice, from the last graph to the first; the last group is empty."""
    pairs = np.array([(a, v) for a, b in pairwise(offsets.tolist()) for v in range(a + 1, b)])
    pairs = pairs.reshape(-1, 2)
    return Shape({"star": pairs, "again": pairs[::-2, ::-1], "none": np.zeros((0, 2), dtype=np.int64)}, ("star",))


def ring(offsets):
    """Circles, with triples in them."""
    bounds = list(pairwise(offsets.tolist()))
    pairs = [(v, v + 1 if v + 1 < b else a) for a, b in bounds if b - a > 2 for v in range(a, b)]
    members = {"ring": np.array(pairs, dtype=np.int64).reshape(-1, 2), "triple": windows_of(offsets, 3)}
    return Shape(members, ("ring",))


def pairs_of_ring(offsets):
    """Circles of pairs."""
    shape = ring(offsets)
    return Shape({"ring": shape.members["ring"]}, ("ring",))


def all_tied(shape):
    """The same graphs with one table for each group."""

    def tied(offsets):
        own = shape(offsets)
        return Shape(own.members, tuple(own.members))

    return tied


def graphs(shape):
    def enumeration(items):
        own = shape(items.offsets)
        groups = [Cliques(name, members, name in own.tied) for name, members in own.members.items()]
        return Enumeration(items.offsets, items.n_labels, groups)

    return enumeration


def graph_family(shape, method):
    def family(items):
        own = shape(items.offsets)
        members = list(own.members.values())
        plan = (
            TableFamily(items.offsets, members, items.n_labels)
            if method == "table"
            else plan_inference(items.offsets, members, items.n_labels, method)
        )
        return plan.with_names(list(own.members), own.tied, items.base)

    return family


def far_reaching(items):
    """Chains with neighbours, labels two steps apart and triples that see inputs."""
    steps, triples = steps_of(items.offsets), windows_of(items.offsets, 3)
    groups = [Cliques(EDGE, steps, True), Cliques("lag2", triples[:, [0, 2]], True), Cliques("order2", triples)]
    return Enumeration(items.offsets, items.n_labels, groups)


def far_reaching_family(items):
    placed = [
        Placement(1, None, None, is_constant=False),
        Placement(2, EDGE, None, is_constant=True),
        Placement(2, "lag2", None, is_constant=True, reach=2),
        Placement(3, "order2", None, is_constant=False, reach=2),
    ]
    data = Chains(np.zeros((items.n_positions, 0)), items.offsets, allowed=items.allowed or ANY_LABELS)
    family = choose_family(data, placed, FamilySpec("chain", items.n_labels, items.masks))
    assert family.method == "junction"
    return family if items.log_weights is None else family.condition(items.log_weights)


def around(offsets, reach):
    """Positions so many steps apart around each ring that is longer, (M, 2)."""
    bounds = pairwise(offsets.tolist())
    pairs = [(a + (t - reach) % (b - a), a + t) for a, b in bounds if b - a > reach for t in range(b - a)]
    return np.array(pairs, dtype=np.int64).reshape(-1, 2)


def rings(items):
    """Rings with neighbours, and labels two steps apart that see inputs."""
    steps = around(items.offsets, 1)
    groups = [Cliques(EDGE, steps, True), Cliques("lag2", around(items.offsets, 2))]
    return Enumeration(items.offsets, items.n_labels, groups, steps)


def ring_family(items):
    node, edge = Placement(1, None, None, False), Placement(2, EDGE, None, True)
    placed = [node, edge, Placement(2, "lag2", None, False, reach=2)]
    data = Rings(np.zeros((items.n_positions, 0)), items.offsets, allowed=items.allowed or ANY_LABELS)
    family = choose_family(data, placed, FamilySpec("ring", items.n_labels, items.masks))
    return family if items.log_weights is None else family.condition(items.log_weights)


PAIRS = {"a b": (0, 1), "c b": (2, 1), "a c": (0, 2)}


def instances(*, tied, names=tuple(PAIRS)):
    def enumeration(items):
        first = items.offsets[:-1, None]
        groups = [Cliques(name, first + np.array(PAIRS[name]), tied) for name in names]
        return Enumeration(items.offsets, items.n_labels, groups)

    return enumeration


def instance_family(*, tied, names=tuple(PAIRS), method="auto", chosen="table"):
    def family(items):
        data = LabelledInstances.build(np.zeros((len(items.offsets) - 1, 1)), 3, {})
        placed = [Placement(1, None, None, False), *(Placement(2, name, None, tied) for name in names)]
        spec = FamilySpec("instances", 2, method=method, n_names=3, pairs={name: PAIRS[name] for name in names})
        found = choose_family(data, placed, spec)
        assert found.method == chosen
        return found if items.log_weights is None else found.condition(items.log_weights)

    return family


def narrowed_chains(items):
    """What a family of chains returns when it is given few labels."""
    plain = replace(items, log_weights=None)
    family = ChainFamily(items.offsets, items.n_labels, base=plain.base, narrow=limit_chains).condition(
        items.log_weights
    )
    assert isinstance(family, ListFamily)
    return family


def list_family(*, tied, packed=False):
    def family(items):
        settings = {"tied": tied, "base": items.base, "packed": items.lists if packed else None}
        return ListFamily(items.offsets, items.n_labels, items.lists, **settings)

    return family


def device_family(*, tied):
    def family(items):
        from kernelfields.engines.torch.family import TorchChainFamily

        return TorchChainFamily(items.offsets, items.n_labels, tied=tied, base=items.base)

    return family


def one_graph_family(family):
    def there(items):
        from kernelfields.engines.torch.graphs import ONE_GRAPH

        plain = replace(items, log_weights=None, allowed=None) if items.masks is None else items
        host = family(plain)
        found = ONE_GRAPH[type(host)].from_host(host, torch.device("cpu"))
        return found if items.base.position is None else found.condition(items.base.position)

    return there


def answering_family(items):
    from kernelfields.engines.torch.family import AnsweredChains

    return AnsweredChains(items.offsets, items.n_labels, base=items.base)


POSITIONS = (ALLOWED, WEIGHTS)
ORDERS = ("order2", "order3")
#: A line for every family that is exact. See tests/inference/test_family_conformance.py.
CASES = {
    "single labels": Case(
        lambda items: SingleFamily(items.n_positions, items.n_labels, items.base),
        lambda items: Enumeration(items.offsets, items.n_labels, []),
        POSITIONS,
        lengths=(1, 1, 1, 1),
    ),
    "chains": Case(lambda items: ChainFamily(items.offsets, items.n_labels, base=items.base), chains(tied=True)),
    "chains, a table each": Case(
        lambda items: ChainFamily(items.offsets, items.n_labels, tied=False, base=items.base), chains(tied=False)
    ),
    "chains in NumPy": Case(
        lambda items: ChainFamily(items.offsets, items.n_labels, base=items.base, forms=SHORT), chains(tied=True)
    ),
    "chains in NumPy, a table each": Case(
        lambda items: ChainFamily(items.offsets, items.n_labels, tied=False, base=items.base, forms=SHORT),
        chains(tied=False),
    ),
    "chains in blocks": Case(
        lambda items: ChainFamily(items.offsets, items.n_labels, base=items.base, at_once=2), chains(tied=True)
    ),
    "chains in blocks, a table each": Case(
        lambda items: ChainFamily(items.offsets, items.n_labels, tied=False, base=items.base, at_once=2),
        chains(tied=False),
    ),
    "lists": Case(list_family(tied=True), chains(tied=True)),
    "lists, a table each": Case(list_family(tied=False), chains(tied=False)),
    "lists, packed": Case(
        list_family(tied=True, packed=True), chains(tied=True), layout=PackedLists(), lacks=("scores", "statistics")
    ),
    "lists from partial labels": Case(narrowed_chains, chains(tied=True), narrow=True, n_labels=3),
    "listed n-grams": Case(ngram_family(tied=True, listed=True), ngrams(tied=True, listed=True), finite=ORDERS),
    "all n-grams": Case(ngram_family(tied=True, listed=False), ngrams(tied=True, listed=False), finite=ORDERS),
    "n-grams, a table each": Case(
        ngram_family(tied=False, listed=True), ngrams(tied=False, listed=True), finite=ORDERS
    ),
    "segments": Case(segment_family(tied=True), segments(tied=True), repeats=False),
    "segments of least durations": Case(
        segment_family(tied=True, least=True), segments(tied=True, least=True), repeats=False
    ),
    "segments of least durations, repeats": Case(
        segment_family(tied=False, least=True), segments(tied=False, least=True), repeats=True
    ),
    "segments, repeats": Case(segment_family(tied=False), segments(tied=False), repeats=True),
    "trees": Case(graph_family(star, "tree"), graphs(star), POSITIONS),
    "trees, tied": Case(graph_family(all_tied(star), "tree"), graphs(all_tied(star)), POSITIONS),
    "junction trees": Case(graph_family(ring, "junction"), graphs(ring), POSITIONS),
    "tables": Case(graph_family(ring, "table"), graphs(ring), POSITIONS, lengths=(4, 4, 4)),
    "tables, tied": Case(graph_family(all_tied(ring), "table"), graphs(all_tied(ring)), POSITIONS, lengths=(4, 4, 4)),
    "chains of long reach": Case(far_reaching_family, far_reaching),
    "rings": Case(ring_family, rings, (STEPS, ALLOWED, WEIGHTS)),
    "instances": Case(instance_family(tied=False), instances(tied=False), (WEIGHTS,), lengths=(3, 3, 3, 3), n_labels=2),
    "instances, a tree": Case(
        instance_family(tied=True, names=("a b", "c b"), chosen="tree"),
        instances(tied=True, names=("a b", "c b")),
        (WEIGHTS,),
        lengths=(3, 3, 3, 3),
        n_labels=2,
    ),
}
if torch is not None:
    FITS_ALONE = ("best", "samples", "entropy", "label scores", "part", "likeliest")
    CASES |= {
        "a device": Case(device_family(tied=True), chains(tied=True), layout=Device(), lacks=FITS_ALONE),
        "a device, a table each": Case(
            device_family(tied=False), chains(tied=False), layout=Device(), lacks=FITS_ALONE
        ),
        "a device, single labels": Case(
            one_graph_family(lambda items: SingleFamily(items.n_positions, items.n_labels)),
            CASES["single labels"].enumeration,
            POSITIONS,
            layout=Device(),
            lengths=(1, 1, 1, 1),
            lacks=FITS_ALONE,
        ),
        "a device, instances": replace(
            CASES["instances"],
            family=one_graph_family(CASES["instances"].family),
            layout=Device(),
            lacks=FITS_ALONE,
        ),
        "a device, a tree": replace(
            CASES["instances, a tree"],
            family=one_graph_family(CASES["instances, a tree"].family),
            layout=Device(),
            lacks=FITS_ALONE,
        ),
        "a device, tables": replace(
            CASES["tables, tied"],
            family=one_graph_family(lambda items: graph_family(all_tied(ring), "table")(replace(items, masks=None))),
            layout=Device(),
            lacks=FITS_ALONE,
        ),
        "answers of a device": Case(
            answering_family,
            chains(tied=True),
            layout=AnsweringDevice(),
            lacks=("weights", "covariances", "scores", "statistics", "part"),
        ),
    }


@dataclass(frozen=True)
class Approximation:
    """A family whose log partition is a ``bound``, or an estimate; ``exact`` says where it is exact."""

    family: Callable
    enumeration: Callable
    bound: str | None
    exact: bool = False
    finite: tuple[str, ...] = ()


#: A line for every family that is not.
APPROXIMATIONS = {
    "tree-reweighted": Approximation(graph_family(pairs_of_ring, "trw"), graphs(pairs_of_ring), "upper"),
    "tree-reweighted on trees": Approximation(
        graph_family(star, TreeReweighted(tolerance=1e-12, max_iter=2000)), graphs(star), "upper", exact=True
    ),
    "loopy": Approximation(graph_family(pairs_of_ring, "loopy"), graphs(pairs_of_ring), None),
    "loopy on trees": Approximation(
        graph_family(star, LoopyBelief(tolerance=1e-12, max_iter=2000)), graphs(star), None, exact=True
    ),
    "mean field": Approximation(graph_family(ring, "mean-field"), graphs(ring), "lower"),
}
