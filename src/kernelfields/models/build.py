"""From clique sets to terms on a sample: names, sums of kernels, bases.

    view of the inputs -> kernel -> basis -> subspace -> design

A sum of kernels becomes several clique sets, each with its own subspace and prior variance:

    k = k_1 + ... + k_m      f = f_1 + ... + f_m,  f_i with the Gaussian prior of covariance s_i k_i

With one prior variance s this is the field of k itself. It is still split where some parts have explicit features
and others do not: the first stay exact, as sparse as the inputs are, and only the rest needs pivots. With one
variance per part every part becomes a set.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import reduce
from operator import add

import numpy as np
from sklearn.base import clone

from kernelfields.basis.panel import PanelCholesky
from kernelfields.basis.selection import resolve_basis, warn_of_no_pivots
from kernelfields.basis.subspace import ConstantSubspace, ExplicitSubspace, Subspace
from kernelfields.data.cliques import CliqueSet
from kernelfields.engines.engine import Sample
from kernelfields.kernels.kernel import Constant, Kernel
from kernelfields.kernels.labels import Delta, resolve_label_kernel
from kernelfields.kernels.registry import resolve_kernel
from kernelfields.objective.designs.design import Design
from kernelfields.objective.designs.pairs import EVERY_PAIR, SEEN_PAIRS, EveryPair
from kernelfields.objective.term import Term, label_factor

#: Clique sets with names of their own.
NamedCliques = Sequence[tuple[str, CliqueSet]]


def name_cliques(cliques: object) -> list[tuple[str, CliqueSet]]:
    """Check a list of clique sets; return copies of them with a name each."""
    if isinstance(cliques, CliqueSet):
        cliques = [cliques]
    if not isinstance(cliques, list | tuple):
        raise TypeError(f"cliques must be a list of clique sets such as NodeCliques('rbf'), got {cliques!r}")
    for index, clique in enumerate(cliques):
        if not isinstance(clique, CliqueSet):
            raise TypeError(
                f"cliques[{index}] is {clique!r}, expected a clique set such as NodeCliques, EdgeCliques or, for "
                "graphs, GraphNodes and GraphFactors"
            )
    named: list[tuple[str, CliqueSet]] = []
    for clique in (part for described in cliques for part in described.parts()):
        clique.check_reach()
        name = clique.name or clique.default_name
        taken = [other for other, _ in named]
        if name in taken and clique.name is None:
            name = next(f"{name}_{i}" for i in range(2, len(taken) + 3) if f"{name}_{i}" not in taken)
        elif name in taken:
            raise ValueError(f"two clique sets are named {name!r}; give each a name of its own")
        for part_name, part in split_sum(name, clique):
            if part_name in taken:
                raise ValueError(
                    f"two clique sets are named {part_name!r}, one of them a part of the sum of kernels in "
                    f"{name!r}; give each a name of its own"
                )
            try:
                named.append((part_name, resolve_clique(part)))
            except (TypeError, ValueError) as error:
                raise type(error)(f"clique set {part_name!r}: {error}") from error
    if not any(clique.default_name == "node" for _, clique in named):
        raise ValueError(
            "cliques holds no NodeCliques (for graphs, GraphNodes): add NodeCliques(kernel), the potential of "
            "single labels"
        )
    if all(clique.kernel is None for _, clique in named):
        raise ValueError("no clique set has a kernel, so labels would not depend on the inputs: give kernel='rbf'")
    return named


def resolve_clique(clique: CliqueSet) -> CliqueSet:
    """Return a copy with names resolved to objects; ValueError or TypeError for invalid parameters.

    A fitted field keeps these copies: what the user changes later must not reach it.
    """
    clique = clique.with_defaults()
    clique.check_parameters()
    parameters = clique.get_params(deep=False)
    for name in ("prior_variance", "l1"):
        parameters[name] = float(parameters[name])  # NumPy would compute in float32 with a float32 number
    parameters["basis"] = clone(resolve_basis(clique.basis))
    parameters["label_kernel"] = clone(resolve_label_kernel(clique.label_kernel))
    if clique.has_single_labellings and not isinstance(parameters["label_kernel"], Delta):
        raise ValueError(
            "support='observed' and l1 treat the weights of each label by themselves: they need "
            f"label_kernel='delta', got {clique.label_kernel!r}"
        )
    if clique.kernel is not None:
        parameters["kernel"] = clone(resolve_kernel(clique.kernel))
        parameters["kernel"].check_parameters()
    return type(clique)(**parameters)


def split_sum(name: str, clique: CliqueSet) -> list[tuple[str, CliqueSet]]:
    """Return the clique sets that replace one with a sum of kernels, with names that begin with ``name``."""
    variances = clique.prior_variance
    several = isinstance(variances, list | tuple)
    if clique.kernel is None:
        if several:
            raise ValueError(f"clique set {name!r} has no kernel: prior_variance must be one number")
        return [(name, clique)]
    kernel = resolve_kernel(clique.kernel)
    parts = kernel.summands
    if several:
        if len(variances) != len(parts):
            raise ValueError(
                f"prior_variance of clique set {name!r} holds {len(variances)} numbers, but its kernel "
                f"{kernel!r} is a sum of {len(parts)}: give one number, or one for each"
            )
        groups, chosen = [[part] for part in parts], list(variances)
    else:
        explicit = [part for part in parts if part.has_feature_map]
        others = [part for part in parts if not part.has_feature_map]
        groups = [group for group in (explicit, others) if group]
        chosen = [variances] * len(groups)
    if len(groups) == 1:
        return [(name, _with(clique, kernel, chosen[0]))]
    sets: list[tuple[str, CliqueSet]] = []
    for index, (group, variance) in enumerate(zip(groups, chosen, strict=True)):
        part = _with(clique, reduce(add, group), variance)
        if not part.kernel.has_feature_map:
            part = part.without_feature_weights()
        part.name = name if index == 0 else f"{name}_{index + 1}"
        sets.append((part.name, part))
    return sets


def _with(clique: CliqueSet, kernel: Kernel, variance: float) -> CliqueSet:
    parameters = clique.get_params(deep=False)
    return type(clique)(**{**parameters, "kernel": kernel, "prior_variance": variance})


def build_designs(
    cliques: NamedCliques,
    sample: Sample,
    random: np.random.Generator,
    announce: Callable[[str], None] | None = None,
) -> list[Design]:
    """Choose a basis for each named clique set and put its term on the sample."""
    designs = []
    for name, clique in cliques:
        if clique.kernel is not None and announce is not None:
            announce(f"choosing a basis for {name} cliques on {sample.n_positions:,} positions")
        designs.append(build_design(name, clique, sample, random))
    return designs


def build_design(name: str, clique: CliqueSet, sample: Sample, random: np.random.Generator) -> Design:
    """Choose a basis for a resolved clique set and put its term on the sample."""
    n_labels, pairs = sample.spec.n_labels, choose_pairs(clique)
    if clique.kernel is None:
        return sample.design(_term(name, clique, ConstantSubspace(Constant(1.0)), pairs, n_labels))
    basis = resolve_basis(clique.basis)
    view = sample.view(name, clique)
    if view.n_rows == 0:
        raise ValueError(
            f"the training data hold no {name!r} cliques, all sequences have length one or no graph has edges: "
            "there is nothing to choose a kernel basis from. Leave out the edge kernel."
        )
    kernel = view.resolve_kernel(resolve_kernel(clique.kernel))
    explicit = kernel.feature_map(view.first_row)
    if explicit is not None:
        subspace: Subspace = ExplicitSubspace(kernel, explicit.shape[1])
        return sample.design(_term(name, clique, subspace, pairs, n_labels), view)
    clique.check_pivots(name)
    view.check_kernel(kernel, random)

    def choose(most: int | None) -> PanelCholesky:
        panel = view.panel(kernel, basis, most)
        basis.select(panel, random)
        if panel.rank == 0:
            warn_of_no_pivots(kernel, f"clique set {name!r}")
        return panel

    subspace, panel = pairs.choose_span(choose, clique.most_pivots)
    design = sample.design(_term(name, clique, subspace, pairs, n_labels), view, panel)
    # Columns that will not grow may be kept in another form: let go of this one.
    return replace(design, panel=panel) if basis.grows_in_rounds else design


def choose_pairs(clique: CliqueSet) -> EveryPair:
    """Return the pairs that a clique set has coefficients for, before it has a subspace and meets data."""
    if clique.ties is not None:
        from kernelfields.models.tied_sets import TiedPairs

        return TiedPairs(clique.ties)
    return SEEN_PAIRS if clique.observed_only else EVERY_PAIR


def _term(name: str, clique: CliqueSet, subspace: Subspace, pairs: EveryPair, n_labels: int) -> Term:
    """Return an unfitted term in a subspace."""
    factor = label_factor(clique, n_labels, pairs)
    return Term(clique, name, subspace, factor, pairs.in_subspace(clique, subspace, n_labels))
