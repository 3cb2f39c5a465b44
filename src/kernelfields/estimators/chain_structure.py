"""ChainCRF(cliques="learn"): which clique sets a chain field should have, found on its training sequences."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from kernelfields.estimators.chain_cliques import described_cliques
from kernelfields.estimators.chain_engines import chain_engine
from kernelfields.estimators.field_model import FieldModel
from kernelfields.estimators.fitted_sets import FittedSet
from kernelfields.estimators.fitting import FittedField, fit_field
from kernelfields.estimators.spaces import CliqueSpace, build_space, name_cliques
from kernelfields.fields import (
    Chains,
    CliqueSet,
    ConstraintMasks,
    EdgeCliques,
    EndCliques,
    NodeCliques,
    OrderCliques,
    SkipCliques,
    StartCliques,
)
from kernelfields.inference.workers import Workers
from kernelfields.structure import StructurePath, StructureSearch, learn_structure

# Three labels in a row have L^3 scores: beyond this many they are not proposed unasked.
_MOST_TRIPLES = 10_000


def resolve_search(candidates: Any) -> StructureSearch:
    """Return what to choose from as a StructureSearch; TypeError or ValueError if it cannot be used."""
    search = candidates if isinstance(candidates, StructureSearch) else StructureSearch(candidates)
    search.check()
    if search.candidates is not None and not isinstance(search.candidates, list | tuple):
        raise TypeError(
            f"candidates must be a list of clique sets such as SkipCliques(lag=2), or a StructureSearch, got "
            f"{search.candidates!r}"
        )
    return search


def default_candidates(chain: Any, n_labels: int) -> list[CliqueSet]:
    """Return what is tried if nothing is named: ends, longer reach, transitions that see x, neighbours of x."""
    parts = chain.prior_variance
    variance: dict[str, Any] = {"prior_variance": parts[0] if isinstance(parts, list | tuple) else parts}
    found: list[CliqueSet] = [
        StartCliques(**variance),
        EndCliques(**variance),
        SkipCliques(lag=2, **variance),
        EdgeCliques("linear", window=chain.window, name="edge inputs", **variance),
        NodeCliques("linear", window=3, name="neighbours", **variance),
    ]
    if n_labels**3 <= _MOST_TRIPLES:
        found.append(OrderCliques(order=2, **variance))
    return found


def learn_chain_cliques(
    chain: Any,
    chains: Chains,
    n_labels: int,
    *,
    held_out: Chains | None,
    masks: ConstraintMasks,
    workers: Workers,
    random: np.random.Generator,
    say: Callable[[str], None],
) -> tuple[list[tuple[str, CliqueSet]], StructurePath]:
    """Return the named clique sets that a search chose, and its path.

    Without ``held_out`` chains, a share of the training sequences is set aside to score each step.
    """
    search = resolve_search(chain.candidates)
    base = described_cliques(chain)
    candidates = search.candidates if search.candidates is not None else default_candidates(chain, n_labels)
    named = name_cliques([*base, *candidates])
    # A sum of kernels is several sets, so the number of base sets is known only after naming.
    n_base = len(name_cliques(base))
    if held_out is None and search.validation > 0:
        chains, held_out = _split(chains, search.validation, random)
    settings: dict[str, Any] = {"n_labels": n_labels, "masks": masks, "workers": workers}
    spaces = [
        build_space(name, clique, chains, n_labels, tol=chain.tol, dtype=chain.dtype, random=random)
        for name, clique in named
    ]
    engine_of = partial(chain_engine, chains, **settings)

    def fit(present: Sequence[CliqueSpace], start: Any) -> FittedField:
        return fit_field(
            present,
            engine_of,
            n_labels,
            solver=chain.solver,
            tol=chain.tol,
            max_iter=chain.max_iter,
            watch=None,
            random=random,
            start=start,
        )

    def score(present: Sequence[CliqueSpace], fitted: FittedField) -> float:
        assert held_out is not None
        sets = [
            FittedSet(space.clique, space.name, space.subspace, space.label_factor, coefficients, space.support)
            for space, coefficients in zip(present, fitted.coefficients, strict=True)
        ]
        scored = FieldModel(sets, n_labels, masks).scored(held_out, workers)
        return float((scored.label_scores() - scored.log_partition).sum())

    path, chosen, _ = learn_structure(
        spaces[:n_base],
        spaces[n_base:],
        fit=fit,
        engine_of=engine_of,
        n_labels=n_labels,
        search=search,
        score=None if held_out is None else score,
        say=say,
    )
    names = {space.name for space in chosen}
    return [(name, clique) for name, clique in named if name in names], path


def _split(chains: Chains, share: float, random: np.random.Generator) -> tuple[Chains, Chains]:
    """Set a random share of the sequences aside."""
    count = round(share * chains.n_sequences)
    if not 0 < count < chains.n_sequences:
        raise ValueError(
            f"{chains.n_sequences} sequences cannot be split to hold out a share of {share:g}: pass more of them, "
            "a development set, or StructureSearch(validation=0)"
        )
    order = random.permutation(chains.n_sequences)
    return chains.subset(np.sort(order[count:])), chains.subset(np.sort(order[:count]))
