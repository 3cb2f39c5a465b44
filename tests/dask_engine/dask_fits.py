"""The same field on threads and on a cluster, for the tests of this folder."""

from __future__ import annotations

from functools import partial

import numpy as np

from kernelfields.engines import Threads
from kernelfields.estimators.chain_cliques import chain_cliques
from kernelfields.estimators.chain_engines import chain_engine
from kernelfields.estimators.chain_inputs import ChainInputs
from kernelfields.estimators.chain_spaces import chain_spaces
from kernelfields.estimators.class_weights import weigh_classes
from kernelfields.estimators.dask_spaces import dask_fit_parts
from kernelfields.estimators.fitting import fit_field
from kernelfields.estimators.spaces import name_cliques
from kernelfields.fields import resolve_constraints
from kernelfields.fields.randomness import random_generator
from kernelfields.inference.workers import Workers
from kernelfields.posterior import LogPosterior


def sequences(n_sequences=40, n_features=4, n_labels=3, longest=9, seed=0):
    """Sticky labels, and inputs around a centre for each of them."""
    random = np.random.default_rng(seed)
    centres = 1.5 * random.normal(size=(n_labels, n_features))
    X, y = [], []
    for _ in range(n_sequences):
        labels = np.sort(random.integers(n_labels, size=int(random.integers(1, longest + 1))))
        X.append(centres[labels] + random.normal(size=(len(labels), n_features)))
        y.append(labels)
    return X, y


def on_threads(crf, X, y, sample_weight=None):
    """Return spaces, engine builder and number of labels of a field on threads."""
    chains, classes = ChainInputs().fit_chains(X, y, sample_weight)
    chains = weigh_classes(chains, classes, crf.class_weight)
    masks = resolve_constraints(crf.constraints, classes)
    spaces = chain_spaces(
        chains,
        len(classes),
        name_cliques(chain_cliques(crf)),
        random=random_generator(crf.random_state),
        say=lambda text: None,
        tol=crf.tol,
        dtype=crf.dtype,
        engine=Threads(),
    )
    engine_of = partial(chain_engine, chains, n_labels=len(classes), masks=masks, workers=Workers(1))
    return spaces, engine_of, len(classes)


def on_cluster(crf, X, y, client, sample_weight=None):
    """The same on a cluster."""
    _, classes, _, spaces, engine_of = dask_fit_parts(crf, X, y, sample_weight, client)
    return spaces, engine_of, len(classes)


def posterior(spaces, engine_of, n_labels):
    """Return the objective of a field."""
    return LogPosterior(engine_of([space.clique_features(n_labels) for space in spaces]))


def fitted(crf, spaces, engine_of, n_labels, watch=None):
    """Fit a field."""
    return fit_field(
        spaces,
        engine_of,
        n_labels,
        solver=crf.solver,
        tol=crf.tol,
        max_iter=crf.max_iter,
        watch=watch,
        random=np.random.default_rng(0),
        dtype=crf.dtype,
    )
