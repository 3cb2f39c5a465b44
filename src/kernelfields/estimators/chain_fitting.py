"""What a fit of a ChainCRF is given beside its chains: a place to run, a development set, threads, watchers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from kernelfields.engines import Engine
from kernelfields.engines.choice import resolve_engine
from kernelfields.estimators.chain_inputs import ChainInputs
from kernelfields.estimators.development import DevelopmentSet
from kernelfields.estimators.parameters import check_callbacks
from kernelfields.fields import ConstraintMasks
from kernelfields.inference.workers import Workers
from kernelfields.reports.progress import FitProgress
from kernelfields.solvers import Iteration

# Below this many feature values, threads of BLAS wait for each other longer than they work.
_SMALL_PRODUCT = 1_000_000


def development_set(
    chain: Any,
    inputs: ChainInputs,
    X_dev: Any,
    y_dev: Any,
    classes: np.ndarray,
    masks: ConstraintMasks,
    workers: Workers,
) -> DevelopmentSet | None:
    """Return the development set of a fit, None where there is none."""
    if (X_dev is None) != (y_dev is None):
        raise ValueError("a development set needs both X_dev and y_dev")
    if X_dev is None:
        return None
    try:
        chains, _ = inputs.chains(X_dev, y_dev, None, classes)
    except ValueError as error:
        raise ValueError(f"development set: {error}") from error
    masks.check_labels(chains.labels, chains.offsets, classes)
    return DevelopmentSet(chains, chain.patience, masks=masks, workers=workers)


def chain_place(chain: Any, n_positions: int) -> Engine:
    """Return the engine a ChainCRF asks for on chains of so many positions; raise if it cannot run here."""
    rank = n_positions if chain.rank is None else min(chain.rank, n_positions)
    return resolve_engine(chain.engine, device=chain.device, memory=chain.memory, n_values=n_positions * rank)


def blas_limit(chain: Any, workers: Workers, n_positions: int) -> int | None:
    """Return how many threads BLAS may use: ``n_jobs``; by default one for small products, else any number."""
    if chain.n_jobs is not None:
        return workers.n_threads
    small = n_positions * min(chain.rank or n_positions, n_positions) < _SMALL_PRODUCT
    return 1 if small else None


def watcher(callbacks: Any, progress: FitProgress) -> Callable[[Iteration], bool]:
    """Return one function that shows an iteration to all callbacks and to the progress of a fit."""
    watchers = [*check_callbacks(callbacks), progress]
    # A list, not a generator: every watcher sees every iteration, whatever the others say.
    return lambda iteration: True in [each(iteration) for each in watchers]
