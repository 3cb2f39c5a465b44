"""What a fit of a ChainCRF is given: spaces on an engine, a start, a development set, threads, watchers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from kernelfields.engines import Engine, Threads
from kernelfields.engines.blas_threads import blas_threads
from kernelfields.engines.choice import resolve_engine
from kernelfields.estimators.chain_cliques import chain_cliques
from kernelfields.estimators.chain_engines import chain_engine
from kernelfields.estimators.chain_inputs import ChainInputs
from kernelfields.estimators.chain_spaces import chain_spaces
from kernelfields.estimators.chain_structure import learn_chain_cliques
from kernelfields.estimators.class_weights import weigh_classes
from kernelfields.estimators.development import DevelopmentSet
from kernelfields.estimators.lazy_answers import is_dask_collection
from kernelfields.estimators.parameters import check_callbacks
from kernelfields.estimators.spaces import name_cliques
from kernelfields.estimators.warm_start import continued_spaces
from kernelfields.fields import Chains, ConstraintMasks, resolve_constraints
from kernelfields.inference.workers import Workers
from kernelfields.reports.progress import FitProgress
from kernelfields.solvers import Iteration
from kernelfields.structure import StructurePath

# Below this many feature values, threads of BLAS wait for each other longer than they work.
_SMALL_PRODUCT = 1_000_000


@dataclass
class FitParts:
    """All that is there before a solver begins."""

    inputs: ChainInputs
    classes: np.ndarray
    masks: ConstraintMasks
    spaces: Sequence[Any]
    engine_of: Any
    start: Any = None
    development: DevelopmentSet | None = None
    path: StructurePath | None = None


def fit_parts(
    chain: Any,
    X: Any,
    y: Any,
    sample_weight: Any,
    held_out: tuple[Any, Any],
    *,
    optimize: Any,
    random: np.random.Generator,
    say: Callable[[str], None],
    held: ExitStack,
) -> FitParts:
    """Check the data of a fit and compute its features; on a cluster if asked for, or if the data are there.

    What is to be in force until the fit ends, a limit on the threads of BLAS, is entered into ``held``.
    """
    if is_dask_collection(X) or is_dask(chain.engine):
        return _cluster_parts(chain, X, y, sample_weight, held_out, optimize, random, say)
    return _local_parts(chain, X, y, sample_weight, held_out, optimize, random, say, held)


def _cluster_parts(
    chain: Any, X: Any, y: Any, sample_weight: Any, held_out: tuple[Any, Any], optimize: Any, random: Any, say: Any
) -> FitParts:
    from kernelfields.estimators.dask_spaces import dask_fit_parts

    if not is_dask(chain.engine) and chain.engine != "auto":
        raise ValueError(f"X is a Dask collection: use engine='dask' or 'auto', got engine={chain.engine!r}")
    engine: Any = resolve_engine(
        "dask" if isinstance(chain.engine, str) else chain.engine, device=chain.device, memory=chain.memory
    )
    for name, value in (("optimize", optimize), ("a development set", held_out[0])):
        if value is not None:
            raise ValueError(f"{name} needs engine='threads': on a cluster a fit is one descent")
    found = dask_fit_parts(chain, X, y, sample_weight, engine.client, random=random, say=say)
    return FitParts(*found)


def _local_parts(
    chain: Any,
    X: Any,
    y: Any,
    sample_weight: Any,
    held_out: tuple[Any, Any],
    optimize: Any,
    random: Any,
    say: Any,
    held: ExitStack,
) -> FitParts:
    cliques = name_cliques(chain_cliques(chain))
    continues = chain.warm_start and hasattr(chain, "model_")
    inputs, chains, classes = _chains(chain, X, y, sample_weight, cliques, continues)
    masks = resolve_constraints(chain.constraints, classes)
    masks.check_labels(chains.labels, chains.offsets, classes)
    workers = Workers(chain.n_jobs)
    engine = chain_place(chain, chains.n_positions)
    development = development_set(chain, inputs, *held_out, classes, masks, workers)
    held.enter_context(blas_threads(blas_limit(chain, workers, chains.n_positions)))
    path: StructurePath | None = None
    if isinstance(chain.cliques, str) and not continues:
        cliques, path = learn_chain_cliques(
            chain,
            chains,
            len(classes),
            held_out=None if development is None else development.chains,
            masks=masks,
            workers=workers,
            random=random,
            say=say,
        )
    elif isinstance(chain.cliques, str):
        cliques = [(each.name, each.clique) for each in chain.model_.sets]
        path = chain.structure_path_
    engine_of = partial(chain_engine, chains, n_labels=len(classes), masks=masks, workers=workers, engine=engine)
    precision: dict[str, Any] = {"tol": chain.tol, "dtype": chain.dtype}
    build: Any = partial(chain_spaces, chains, len(classes), random=random, say=say, engine=engine, **precision)
    if continues:
        spaces = continued_spaces(cliques, chain.model_.sets, chains, **precision)
        start: Any = [each.coefficients for each in chain.model_.sets]
    else:
        spaces, start = build(cliques), None
    spaces, start = chain._optimized(optimize, spaces, start, build, engine_of, len(classes), random, say)
    return FitParts(inputs, classes, masks, spaces, engine_of, start, development, path)


def _chains(
    chain: Any, X: Any, y: Any, sample_weight: Any, cliques: Sequence[tuple], continues: bool
) -> tuple[ChainInputs, Chains, np.ndarray]:
    """Return the labelled chains of a fit, and how their inputs are read."""
    if continues:
        inputs = chain._inputs
        chains, classes = inputs.chains(X, y, sample_weight, chain.classes_)
    else:
        inputs = ChainInputs()
        seen_counts = any(clique.support == "observed" for _, clique in cliques)
        chains, classes = inputs.fit_chains(X, y, sample_weight, keep_zeros=seen_counts)
    return inputs, weigh_classes(chains, classes, chain.class_weight), classes


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


def is_dask(engine: Any) -> bool:
    """Whether an engine, or its name, is that of a Dask cluster."""
    return getattr(engine, "name", engine) == "dask"


def prediction_place(chain: Any, n_positions: int) -> Engine:
    """Return where a ChainCRF scores new chains: where it is fitted, and here if that is a cluster."""
    return Threads() if is_dask(chain.engine) else chain_place(chain, n_positions)


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
