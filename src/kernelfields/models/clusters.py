"""Clusters by regularised information maximisation: starts, restarts, and the best of the local optima.

    maximise   I - sum_c ||V_c||^2 / (2 s_c)          I: objective/likelihoods/information.py

Information is not convex, and where a climb begins decides where it ends. A start is a partition of the inputs,
which a field is fitted to as if it were labels, by a few steps on a convex problem; then the information climbs:

    "spectral"   k-means of the leading singular vectors of D^-1/2 Z, rows of norm one, D: degrees Z Z^T 1
                 (Ng, Jordan, Weiss 2001, with the kernel for affinities)
    "kmeans"    k-means of the features Z, which is kernel k-means in the span of the basis
    "random"     each input goes to the nearest of n_clusters inputs drawn at random

Where similarities are not positive, as those of a linear kernel, degrees are no such thing, and "spectral" is
"kmeans". Cost of a start: that of k-means and of about as many passes as a fit to labels takes, and as the climb.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import scipy.sparse

from kernelfields.fields.chains import Chains
from kernelfields.fields.graphs import Graphs
from kernelfields.fields.reading import Matrix
from kernelfields.inference.choice import FamilySpec, family_of
from kernelfields.numerics.sparse_rows import is_sparse
from kernelfields.numerics.threads import Workers
from kernelfields.objective.datafit import Datafit
from kernelfields.objective.designs.design import LocalDesign
from kernelfields.objective.likelihoods.information import InformationObjective
from kernelfields.objective.likelihoods.likelihood import labelled_objective
from kernelfields.objective.posterior import LogPosterior
from kernelfields.solvers.lbfgs import LBFGS
from kernelfields.solvers.loop import SINGLE_CUT, Solution, Watcher, minimize

STARTS = ("spectral", "kmeans", "random")
# A start is only a start: how well a field fits the partition, and how long it may take.
_START_TOLERANCE, _START_ITERATIONS = 0.05, 50
_LEAST_DEGREE = 1e-9


@dataclass(frozen=True)
class ClimbOptions:
    """How clusters are looked for: kind and number of starts, and when a climb ends."""

    init: str
    n_init: int
    tol: float
    max_iter: int
    random: np.random.Generator
    announce: Callable[[str], None]
    watch: Watcher | None = None


@dataclass(frozen=True)
class Clusters:
    """The best climb: where it ended, its information in nats, and the marginals of the clusters, (N, L)."""

    solution: Solution
    coefficients: list[np.ndarray]
    information: float
    marginals: np.ndarray
    #: What each climb reached, I less the penalty.
    objectives: list[float]


class Partitions:
    """Partitions of inputs with features Z (N, r), an array or CSR, into ``n_clusters``."""

    def __init__(self, features: Matrix, n_clusters: int):
        self._features = features
        self._n_clusters = n_clusters

    def draw(self, init: str, random: np.random.Generator) -> np.ndarray:
        """Return the numbers of the parts, (N,)."""
        # Here, because these imports take longer than all others of the package.
        from sklearn.cluster import KMeans
        from sklearn.metrics import pairwise_distances_argmin

        if init == "random":
            centres = random.choice(self._features.shape[0], self._n_clusters, replace=False)
            return pairwise_distances_argmin(self._features, self._features[np.sort(centres)])
        rows = self._embedded if init == "spectral" else self._features
        # Their seeds are ours: scikit-learn takes no generators.
        seed = int(random.integers(2**31))
        return KMeans(self._n_clusters, n_init=1, random_state=seed).fit(rows).labels_

    @cached_property
    def _embedded(self) -> Matrix:
        """Rows of norm one in the leading singular vectors; the features themselves without positive degrees."""
        from sklearn.utils.extmath import randomized_svd, row_norms

        features = self._features
        degrees = np.asarray(features @ np.asarray(features.sum(axis=0)).ravel(), dtype=np.float64)
        if degrees.min() <= _LEAST_DEGREE * degrees.max():
            return features
        scale = 1.0 / np.sqrt(degrees)
        scaled = (
            scipy.sparse.diags_array(scale) @ features
            if scipy.sparse.issparse(features)
            else (features * scale[:, None])
        )
        left = randomized_svd(scaled, min(self._n_clusters, *scaled.shape), n_iter=7, random_state=0)[0]
        return left / np.maximum(row_norms(left), np.finfo(float).tiny)[:, None]


def find_clusters(
    designs: Sequence[LocalDesign], data: Chains | Graphs, spec: FamilySpec, workers: Workers, options: ClimbOptions
) -> Clusters:
    """Return the best of several climbs; Ctrl-C ends the search and keeps the best so far.

    ``data`` have weights of sum one over all positions; labels, if any, do not count.
    """
    family = family_of(data, designs, spec)
    posterior = LogPosterior(Datafit(InformationObjective(family, data.weights, workers), designs))
    partitions = Partitions(_node_features(designs), spec.n_labels)
    best: Solution | None = None
    objectives: list[float] = []
    for number in range(1, options.n_init + 1):
        where = f"start {number} of {options.n_init}"
        options.announce(f"{where}: {options.init}")
        try:
            labels = partitions.draw(options.init, options.random)
            labelled = labelled_objective(family, replace(data, labels=labels), workers)
            solution = _climb(LogPosterior(Datafit(labelled, designs)), posterior, options)
        except KeyboardInterrupt:
            if best is None:
                raise
            best = replace(best, reason="interrupted")
            break
        objectives.append(-solution.value)
        options.announce(f"{where}: {-solution.value:.4f} of at most {np.log(spec.n_labels):.4f} nats")
        if best is None or solution.value < best.value:
            best = solution
        if solution.reason in ("interrupted", "callback"):
            best = replace(best, reason=solution.reason)
            break
    assert best is not None
    evaluation = posterior.datafit.evaluate(posterior.potentials(best.theta))
    marginals = evaluation.member.marginals()
    return Clusters(best, posterior.expanded(best.theta), -evaluation.value, marginals, objectives)


def _climb(labelled: LogPosterior, posterior: LogPosterior, options: ClimbOptions) -> Solution:
    """Return where a climb ends that begins at the field of a partition."""
    first = minimize(labelled, LBFGS(), tol=_START_TOLERANCE, max_iter=_START_ITERATIONS)
    interrupted = first.reason == "interrupted"
    most, tol = 0 if interrupted else options.max_iter, options.tol / SINGLE_CUT
    solution = minimize(posterior, LBFGS(), start=first.theta, tol=tol, max_iter=most, watch=options.watch)
    return replace(solution, reason="interrupted") if interrupted else solution


def _node_features(designs: Sequence[LocalDesign]) -> Matrix:
    """Return the features of all terms of single labels beside each other, (N, r)."""
    parts = [design.features for design in designs if design.labels_per_clique == 1 and design.features is not None]
    # Those on a device are read back for the starts.
    parts = [part if is_sparse(part) or isinstance(part, np.ndarray) else part[:] for part in parts]
    if len(parts) == 1:
        return parts[0]
    sparse = any(map(scipy.sparse.issparse, parts))
    return scipy.sparse.hstack(parts, format="csr") if sparse else np.hstack(parts)
