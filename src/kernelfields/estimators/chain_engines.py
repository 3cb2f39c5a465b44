"""The engine of labelled chains: forward and backward where only neighbours meet, else a junction tree."""

from __future__ import annotations

from collections.abc import Sequence

from kernelfields.engines import CliqueFeatures, ThreadsEngine
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
) -> ThreadsEngine:
    """Return the engine that clique sets on chains need."""
    if reaches_far(each.group for each in sets):
        likelihood = long_chain_likelihood(chains, sets, n_labels, masks=masks, workers=workers)
        return ThreadsEngine(likelihood, sets)
    if any(not each.tied_everywhere and each.labels_per_clique == 2 for each in sets):
        check_transitions_fit(chains.n_positions, n_labels)
    return ThreadsEngine.for_chains(chains, sets, n_labels, masks=masks, workers=workers)
