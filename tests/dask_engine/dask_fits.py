"""The same field on threads and on a cluster, for the tests of this folder."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from benchmarks.fit_parts import parts_of_fit
from kernelfields.engines import Dask
from kernelfields.models.fit import fit_field
from kernelfields.objective import LogPosterior


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


def wait_for_two(client):
    """Wait until two workers are there; where a nanny has given up, as on a busy machine, another worker starts."""
    try:
        client.wait_for_workers(2, timeout=60)
    except TimeoutError:
        client.cluster.scale(3)
        client.wait_for_workers(2, timeout=120)


def on_threads(crf, X, y, sample_weight=None):
    """Return training data, sample and designs of a field on threads."""
    return parts_of_fit(crf, X, y, sample_weight)


def on_cluster(crf, X, y, client, sample_weight=None):
    """The same on a cluster."""
    return parts_of_fit(crf, X, y, sample_weight, Dask(client))


def posterior(training, sample, designs):
    """Return the objective of a field."""
    return LogPosterior(sample.datafit(designs))


def fitted(crf, training, sample, designs, watch=None):
    """Fit a field."""
    options = replace(training.options, watch=watch, random=np.random.default_rng(0))
    return fit_field(designs, sample, options)
