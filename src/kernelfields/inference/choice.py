"""Choice of a family of labellings: the structure of labels, and the method of inference.

    choose_family(data, placed, spec)      the family of packed data whose cliques some clique sets score

    "chain"       neighbours: passes over chains, or over lists of allowed labels; n-grams that see no inputs: an
                  automaton; cliques of longer reach: the chains as graphs, by junction trees
    "segments"    segments of up to a longest duration
    "graph"       graphs as they are given, by a method of inference (graph_plans.py)
    "instances"   several yes-or-no labels of an instance: a small graph each, all of one structure
    "single"      labels that meet no others

Each kind is added by :func:`builds` in a file of its own, which the estimators that have it import.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from kernelfields.data.chains import Chains, Packed
from kernelfields.inference import families, measures
from kernelfields.inference.chain.family import ChainFamily
from kernelfields.inference.family import LabelFamily, is_group_constant
from kernelfields.inference.potentials import EDGE, Grouped, Placed
from kernelfields.numerics.lazy import load_registering
from kernelfields.numerics.memory import check_labels_fit

if TYPE_CHECKING:
    from kernelfields.data.constraints import ConstraintMasks

Pairs = Mapping[str, tuple[int, int]]


@dataclass(frozen=True, eq=False)
class FamilySpec:
    """The specification of the family of a field, besides its data and clique sets.

    Parameters
    ----------
    kind : {"chain", "segments", "graph", "instances", "single"}
        What labels there are.
    n_labels : int
        The number of labels.
    masks : ConstraintMasks, optional
        Constraints on the labels of sequences.
    method : str or options, default "auto"
        The method of inference on graphs.
    max_duration : int, default 1
        The longest segment.
    repeats : bool, default False
        Whether neighbouring segments may have the same label.
    shortest : tuple of int, optional
        The least positions of a segment of each label; one by default.
    n_names : int, default 1
        The number of labels of an instance.
    pairs : dict, optional
        The pairs of labels of an instance that may meet, by name.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelfields.data import Chains
    >>> from kernelfields.inference import FamilySpec, choose_family
    >>> chains = Chains(np.zeros((3, 1)), np.array([0, 3]))
    >>> choose_family(chains, (), FamilySpec("chain", n_labels=2)).n_positions
    3
    """

    kind: str
    n_labels: int
    masks: ConstraintMasks | None = None
    method: Any = "auto"
    max_duration: int = 1
    repeats: bool = False
    shortest: tuple[int, ...] | None = None
    n_names: int = 1
    pairs: Pairs = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_labels_fit(self.n_labels)

    @property
    def is_constrained(self) -> bool:
        """Whether constraints forbid something."""
        return self.masks is not None and self.masks.any

    @cached_property
    def step_penalties(self) -> np.ndarray:
        """Penalties of neighbouring labels, (L, L); for segments also penalties of an equal next segment."""
        penalties = np.zeros((self.n_labels, self.n_labels)) if self.masks is None else self.masks.edge
        if self.kind == "segments" and not self.repeats:
            return np.where(np.eye(self.n_labels), -np.inf, penalties)
        return penalties

    def base_measure(self, data: Packed) -> measures.BaseMeasure:
        """Return the base measure of packed data: constraints and allowed labels.

        Parameters
        ----------
        data : packed data
            The data.

        Returns
        -------
        BaseMeasure
            The base measure.
        """
        masks = self.masks if self.is_constrained else None
        step = self.step_penalties if self.kind == "segments" and not self.repeats else None
        return measures.BaseMeasure(data.offsets, self.n_labels, masks, data.allowed, step_penalties=step)

    def has_forbidden_labellings(self, data: Packed) -> bool:
        """Whether some labellings of packed data are forbidden.

        Parameters
        ----------
        data : packed data
            The data.

        Returns
        -------
        bool
            Whether constraints or lists of labels forbid one.
        """
        bars_some = self.kind == "segments" and (not self.repeats or self.shortest is not None)
        return bars_some or data.allowed.restrict or (self.masks is not None and self.masks.any)


#: Returns the family of data for clique sets and a spec. With ``lists`` node potentials may be those of allowed labels
#: alone; ``planned`` is a family of the same data for other clique sets.
Builder = Callable[..., LabelFamily]
_BUILDERS: dict[str, Builder] = {}


#: Return the size of every item of data, (S,), and the largest size of a batch, for terms and a spec, by kind: for
#: kinds other than chains, whose batches have as many positions as fit in memory.
BATCH_SIZES: dict[str, Callable[[Any, Sequence[Any], FamilySpec], tuple[np.ndarray, int]]] = {}


def builds(kind: str) -> Callable[[Builder], Builder]:
    """Register a function that returns families of a kind."""

    def register(builder: Builder) -> Builder:
        _BUILDERS[kind] = builder
        return builder

    return register


def choose_family(
    data: object,
    placed: Sequence[Placed],
    spec: FamilySpec,
    *,
    lists: bool = False,
    planned: LabelFamily | None = None,
) -> LabelFamily:
    """Choose the family of packed data for some clique sets.

    Parameters
    ----------
    data : Chains, Graphs or other packed data
        The data.
    placed : sequence of Placed
        The clique sets, and where their cliques are.
    spec : FamilySpec
        What decides the family.
    lists : bool, default False
        Whether node potentials may be those of allowed labels alone.
    planned : LabelFamily, optional
        A family of the same data for other clique sets.

    Returns
    -------
    LabelFamily
        The family.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelfields.data import Chains
    >>> from kernelfields.inference import FamilySpec, choose_family
    >>> chains = Chains(np.zeros((3, 1)), np.array([0, 3]))
    >>> type(choose_family(chains, (), FamilySpec("chain", n_labels=2))).__name__
    'ChainFamily'
    """
    if spec.kind not in _BUILDERS:  # of an estimator that this process has not used
        load_registering()
    return _BUILDERS[spec.kind](data, placed, spec, lists=lists, planned=planned)


# Rows of single inputs in a batch.
_ROWS = 20_000
BATCH_SIZES["single"] = lambda data, terms, spec: (data.lengths, _ROWS)


@builds("single")
def _single_family(data: Packed, placed: Sequence[Placed], spec: FamilySpec, **options: object) -> LabelFamily:
    return families.SingleFamily(data.n_positions, spec.n_labels)


@builds("chain")
def _chain_family(
    chains: Chains, placed: Sequence[Placed], spec: FamilySpec, *, lists: bool = False, **options: object
) -> LabelFamily:
    n_labels, base = spec.n_labels, spec.base_measure(chains) if spec.has_forbidden_labellings(chains) else None
    if any(term.reach > 1 for term in placed):
        return families.build_far_family(chains, placed, spec.base_measure(chains))
    tied = is_group_constant(placed, EDGE)
    if base is not None and base.lists is not None and families.should_use_lists(base.lists):
        packed = base.lists if lists and tied else None
        return families.ListFamily(chains.offsets, n_labels, base.lists, tied=tied, base=base, packed=packed)
    return ChainFamily(chains.offsets, n_labels, tied=tied, base=base, narrow=_narrow_family)


def _narrow_family(family: ChainFamily, base: measures.BaseMeasure) -> ChainFamily | None:
    """Narrow chains to lists of labels if a base measure allows few of them; None for other families."""
    return families.limit_chains(family, base)


def has_long_reach(placed: Sequence[Grouped]) -> bool:
    """Whether labels of a chain that are not neighbours share a clique."""
    return any(term.reach > 1 for term in placed)


def refuse_approximate(family: LabelFamily, what: str) -> None:
    """Raise ValueError if inference is approximate."""
    if not family.exact:
        raise ValueError(
            f"{what} needs exact inference, and these graphs are inferred by {family.method!r}, which is "
            f"approximate ({family.description})"
        )
