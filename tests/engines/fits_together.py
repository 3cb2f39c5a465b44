"""Fields on data that several processes share, and what a posterior says of them; imported by those processes."""

from __future__ import annotations

import numpy as np
import scipy.sparse
from conforming_engines import ESTIMATORS, sequences
from together import Together

from benchmarks.fit_parts import parts_of_fit
from kernelfields import ChainCRF
from kernelfields.data import EdgeCliques, EndCliques, NodeCliques, SkipCliques, StartCliques
from kernelfields.engines.choice import Partitions
from kernelfields.kernels import RBF, Columns, Linear, Polynomial
from kernelfields.objective.likelihoods.completion import Completion, frozen_posterior
from kernelfields.objective.posterior import Direction, LogPosterior
from kernelfields.solvers.choice import has_raw_inputs, sparse_values

SHARED = {"rank": 9, "random_state": 3, "dtype": "float64", "prior_variance": 2.0, "scale": False}


def rare_columns(X):
    """Sparse inputs of which some columns occur in the first or the last sequences only, or nowhere."""
    wide = []
    for index, x in enumerate(X):
        extra = np.zeros((len(x), 4))
        extra[:, 0], extra[:, 1] = index < 3, index > len(X) - 3
        wide.append(scipy.sparse.csr_array(np.hstack([np.where(np.abs(x) > 0.5, x, 0.0), extra])))
    return wide


def words(X):
    """Feature dicts, some of which occur in a few sequences only."""
    return [
        [{"bias": 1.0, "first": f"{int(row[0])}", f"only{index % 7}": True} for row in x] for index, x in enumerate(X)
    ]


#: Fields of chains whose designs need more than a sum: rules, columns and pairs that one process has alone.
CHAINS = {
    "window": (ChainCRF(RBF("scale"), window=3, **SHARED), None),
    "some columns": (ChainCRF(Columns(RBF("scale"), 1, 3), **SHARED), None),
    "greedy": (ChainCRF("rbf", basis="greedy-cholesky", **SHARED), None),
    "uniform": (ChainCRF("rbf", basis="uniform", **SHARED), None),
    "sparse sum": (
        ChainCRF(Linear() + Polynomial(4, gamma="scale"), **{**SHARED, "prior_variance": (2.0, 0.5)}),
        rare_columns,
    ),
    "raw inputs": (ChainCRF("linear", **SHARED), None),
    "observed": (ChainCRF("linear", support=2.0, **SHARED), words),
    "ends": (
        ChainCRF(cliques=[NodeCliques("rbf"), EdgeCliques(), StartCliques("linear"), EndCliques()], **SHARED),
        None,
    ),
    "long": (ChainCRF(cliques=[NodeCliques("rbf"), EdgeCliques(), SkipCliques(lag=2)], **SHARED), None),
}


def case(name, partly=False):
    """Return an estimator, inputs and labels by name."""
    if name in ESTIMATORS:
        estimator, X, y, some = ESTIMATORS[name]()
        return estimator, X, some if partly else y
    estimator, made_of = CHAINS[name]
    X, y = sequences()
    return estimator, X if made_of is None else made_of(X), y


def in_parts(items, rank):
    """Return the partitions of one of two processes: three for the first, of which one is empty, one for the other."""
    n_items = items.shape[0] if hasattr(items, "shape") else len(items)
    ends = [0, 2, 2, 5, n_items]
    numbers = [0, 1, 2] if rank == 0 else [3]
    return Partitions(numbers, [items[ends[number] : ends[number + 1]] for number in numbers])


def posterior_there(collective, name, partly=False, workers=None, collected=False, weights=None):
    """Return the posterior of a field in one of several processes, its data given as lists or in parts."""
    estimator, X, y = case(name, partly)
    given = [X, y, weights]
    if collected:
        given = [None if each is None else in_parts(each, collective.rank) for each in given]
    _, sample, designs = parts_of_fit(estimator, *given, Together(workers))
    return LogPosterior(sample.datafit(designs))


def posterior_here(name, partly=False, weights=None):
    """Return the same by threads."""
    estimator, X, y = case(name, partly)
    _, sample, designs = parts_of_fit(estimator, X, y, weights)
    return LogPosterior(sample.datafit(designs))


def sentences_of_all(datafit):
    """Return what inference reports in all processes."""
    found = datafit.likelihood.warnings
    for partners in datafit.partners:
        found = partners.sentences(found)
    return found


def answers(posterior):
    """Return what a posterior says: everything that solvers and certificates ask it for."""
    theta, direction = 0.4 * np.random.default_rng(1).normal(size=(2, posterior.size))
    point = posterior.make_point(theta)
    line = posterior.make_line(point, Direction(direction))
    found = {
        "value": point.value,
        "gradient": point.gradient,
        "value at zero": posterior.datafit.group.total(posterior.datafit.likelihood.value_at_zero),
        "metric": posterior.metric.at_start,
        "metric at a point": posterior.metric.estimate_curvature(posterior.trials.curvature_diagonals(point)),
        "line": np.array([*line(0.3), line.reach]),
        "far away": posterior.convex and line(1e200)[0] == np.inf,
        "kind": (posterior.convex, posterior.approximation, has_raw_inputs(posterior), str(posterior.dtype)),
        "sizes": (*posterior.datafit.facts[2:], sparse_values(posterior)),
        "blocks": [block.shape for block in posterior.blocks],
        "pivots": [getattr(design.term.subspace, "indices", None) for design in posterior.datafit.designs],
        "weights": Completion(posterior.datafit).item_weights,
        "passes": posterior.passes,
        "warnings": sentences_of_all(posterior.datafit),
        "all features": np.concatenate([part.ravel() for part in posterior.blocks.expand(theta)]),
    }
    for index in range(len(posterior.blocks)):
        found[f"outside {index}"] = posterior.datafit.outside_span.bound(point.evaluation.residual, index)
        found[f"left out {index}"] = posterior.datafit.outside_span.largest(index)
    if posterior.approximation is None:
        found["Hessian product"] = posterior.hessian_product(point, direction)[0]
        for index in range(len(posterior.blocks)):
            found[f"curvature {index}"] = posterior.curvature_block(point, index)
    if not posterior.convex:
        found["completed"] = frozen_posterior(posterior, theta).make_point(0.5 * theta).gradient
    return found
