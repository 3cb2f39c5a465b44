"""The engine of labelled chains: forward and backward where only neighbours meet, else a junction tree."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kernelfields.engines import CliqueFeatures, Engine, Threads, ThreadsEngine
from kernelfields.estimators.long_chains import long_chain_likelihood, reaches_far
from kernelfields.estimators.spaces import check_transitions_fit
from kernelfields.fields import Chains, ConstraintMasks
from kernelfields.inference.workers import Workers


def chain_engine(
    chains: Chains,
    sets: Sequence[CliqueFeatures],
    *,
    n_labels: int,
    masks: ConstraintMasks | None = None,
    workers: Workers | None = None,
    engine: Engine | None = None,
) -> Any:
    """Return the sums that clique sets on chains need, where ``engine`` says; None for threads."""
    engine = engine or Threads()
    if reaches_far(each.group for each in sets):
        if not isinstance(engine, Threads):
            raise ValueError(
                f"engine={engine.name!r} knows neighbouring labels only: clique sets of longer reach need "
                "engine='threads'"
            )
        likelihood = long_chain_likelihood(chains, sets, n_labels, masks=masks, workers=workers)
        return ThreadsEngine(likelihood, sets)
    if any(not each.tied_everywhere and each.labels_per_clique == 2 for each in sets):
        check_transitions_fit(chains.n_positions, n_labels)
    return engine.chain_sums(chains, sets, n_labels, masks=masks, workers=workers)
