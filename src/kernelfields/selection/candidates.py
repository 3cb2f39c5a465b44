"""Candidates of a search: the product of kernels, ranks and prior variances.

    name of a kernel     candidates it stands for
    "rbf"                gamma = m g           m in 0.1, 0.3, 1, 3, 10; g is what gamma="scale" gives
    "laplacian"          gamma = m^1/2 g       its gamma is an inverse length, that of "rbf" its square
    "matern"             length_scale = g / m^1/2
    "poly"               degree 1, 2, 3
    any other name       that kernel

Kernels that are given as objects, and dicts of kernels by type of node, are taken as they are. "scale" is read once,
from the inputs of all training data (not from their labels), and rounded to three figures, so that every fold compares
the same kernels.

Candidates that differ in nothing but their prior variances form a path: they share basis and features.
Fails: ValueError or TypeError naming the parameter and the entry, before any work starts.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone

from kernelfields.estimators.base import FieldEstimator
from kernelfields.kernels.dot_product import Polynomial
from kernelfields.kernels.registry import resolve_kernel
from kernelfields.kernels.stationary import RBF, Laplacian, Matern
from kernelfields.models.build import NamedCliques, check_pivots_allowed
from kernelfields.numerics.parameters import check_count, check_prior_variance

SCALE_MULTIPLES = (0.1, 0.3, 1.0, 3.0, 10.0)
DEGREES = (1, 2, 3)


@dataclass(frozen=True, eq=False)
class Candidate:
    """Parameters of an estimator; those with the same ``path`` differ in prior variances only."""

    params: dict[str, Any]
    path: tuple

    @property
    def words(self) -> str:
        """The parameters as a line of text."""
        return ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in self.params.items())

    @property
    def level(self) -> tuple[float, float]:
        """Prior variances of transitions and of nodes: along a path they rise, the first one more slowly."""
        edge = self.params.get("edge_prior_variance")
        return 0.0 if edge is None else _mean(edge), _mean(self.params["prior_variance"])


def _mean(variance: Any) -> float:
    """Return the geometric mean of the variances of the parts of a sum; a single one as it is."""
    several = variance if isinstance(variance, tuple) else (variance,)
    return math.exp(math.fsum(math.log(each) for each in several) / len(several))


def list_candidates(
    estimator: Any,
    view: Callable[[str], Any],
    clique_sets: Callable[[Any], NamedCliques],
    *,
    kernels: Any,
    prior_variances: Any,
    ranks: Any,
    edge_prior_variances: Any,
) -> list[Candidate]:
    """Return all candidates, checked.

    ``view(name)`` returns the inputs (N, d) that a kernel of that name sees, ``clique_sets(estimator)`` the named
    clique sets that an estimator describes.
    """
    if getattr(estimator, "cliques", None) is not None:
        raise ValueError(
            "estimator spells its field out in cliques, so its kernel, rank and prior variances are not used: "
            "leave out cliques, or search with scikit-learn's GridSearchCV over lists of cliques"
        )
    names = estimator.kernel if kernels is None else kernels
    listed = _entries(names, "kernels") if isinstance(names, list | tuple) else [names]
    resolved = _distinct([kernel for each in listed for kernel in expand_kernel(each, view)])
    edge_kernel = getattr(estimator, "edge_kernel", None)
    node = _variances(prior_variances, "prior_variances")
    edges = [None] if edge_prior_variances is None else _variances(edge_prior_variances, "edge_prior_variances")
    chosen_ranks = [estimator.rank] if ranks is None else _ranks(ranks)
    candidates = [
        Candidate(
            {
                "kernel": kernel,
                "rank": rank,
                **({} if edge is None else {"edge_prior_variance": edge}),
                "prior_variance": variance,
            },
            (number, rank, *(len(each) if isinstance(each, tuple) else 1 for each in (variance, edge))),
        )
        for number, kernel in enumerate(resolved)
        for rank in (chosen_ranks if _has_rank(kernel, edge_kernel) else chosen_ranks[:1])
        for edge in edges
        for variance in node
    ]
    for candidate in candidates:
        _check(clone(estimator).set_params(**candidate.params), clique_sets)
    return candidates


def expand_kernel(kernel: Any, view: Callable[[str], Any]) -> list[Any]:
    """Return the kernels that a name stands for; an object, or a dict of them, stands for itself."""
    if isinstance(kernel, Mapping):
        return [{kind: resolve_kernel(each) for kind, each in kernel.items()}]
    resolved = resolve_kernel(kernel)
    if not isinstance(kernel, str):
        return [resolved]
    if kernel in ("poly", "polynomial"):
        return [Polynomial(degree) for degree in DEGREES]
    for kind, parameter, power in ((RBF, "gamma", 1.0), (Laplacian, "gamma", 0.5), (Matern, "length_scale", -0.5)):
        if isinstance(resolved, kind):
            scale = getattr(resolved.resolve(view(kernel)), parameter)
            values = [float(f"{scale * multiple**power:.3g}") for multiple in SCALE_MULTIPLES]
            return [kind(**{parameter: value}) for value in values]
    return [resolved]


def _has_rank(*kernels: Any) -> bool:
    """Whether some kernel has no explicit features, so that its basis is limited by the rank."""
    each_one = [each for kernel in kernels for each in (kernel.values() if isinstance(kernel, Mapping) else [kernel])]
    # "auto" adds a linear function of the features of edges.
    resolved = [resolve_kernel(each) for each in each_one if each is not None and each != "auto"]
    return not all(kernel.has_feature_map for kernel in resolved)


def _check(described: FieldEstimator, clique_sets: Callable[[Any], NamedCliques]) -> None:
    """Raise what fitting a candidate would raise, as far as that needs no fit."""
    described._check_parameters()
    for name, clique in clique_sets(described):
        if clique.kernel is not None and not resolve_kernel(clique.kernel).has_feature_map:
            check_pivots_allowed(name, clique)


def _variances(values: Any, name: str) -> list[Any]:
    """Return prior variances as numbers, and as tuples where the parts of a sum have their own."""
    listed = []
    for index, value in enumerate(_entries(values, name)):
        several = isinstance(value, list | tuple)
        for each in value if several else [value]:
            check_prior_variance(each, f"{name}[{index}]")
        if several and not len(value):
            raise ValueError(f"{name}[{index}] is empty: give one number, or one for each part of a sum")
        listed.append(tuple(map(float, value)) if several else float(value))
    return _distinct(listed)


def _ranks(ranks: Any) -> list[int | None]:
    listed = _entries(ranks, "ranks")
    for index, rank in enumerate(listed):
        if rank is not None:
            check_count(rank, f"ranks[{index}]", " (or None for no limit)")
    return _distinct([rank if rank is None else int(rank) for rank in listed])


def _entries(values: Any, name: str) -> list:
    if not isinstance(values, list | tuple | np.ndarray):
        raise TypeError(f"{name} must be a list of values to choose from, got {values!r}")
    if not len(values):
        raise ValueError(f"{name} is empty: a search needs at least one value to choose from")
    return list(values)


def _distinct(values: Sequence) -> list:
    """Return the values without repetitions, in the order of their first occurrence."""
    kept: list = []
    for value in values:
        if value not in kept:
            kept.append(value)
    return kept
