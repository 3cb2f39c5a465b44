"""Candidates of a search: the product of kernels, ranks and prior variances.

    name of a kernel     candidates
    "rbf"                gamma = m g           m in 0.1, 0.3, 1, 3, 10; g is the value of gamma="scale"
    "laplacian"          gamma = m^1/2 g       its gamma is an inverse length, that of "rbf" its square
    "matern"             length_scale = g / m^1/2
    "poly"               degree 1, 2, 3
    any other name       that kernel

Kernel objects, and dicts of kernels by type of node, are single candidates. "scale" is computed once, from the inputs
of all training data (not from their labels), and rounded to three figures, so that every fold compares the same
kernels. Candidates that differ only in prior variances form a path: they share basis and features.

Raises ValueError or TypeError with the parameter and the entry, before the first fit.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, TypeAlias, TypeVar

import numpy as np
from sklearn.base import clone

from kernelfields.data.cliques import NodeCliques
from kernelfields.data.reading import Matrix
from kernelfields.estimators.auto_parameters import beside_categories, make_pilot
from kernelfields.estimators.base import FieldEstimator
from kernelfields.estimators.fit_state import FitState
from kernelfields.estimators.kept_field import KernelLike, check_parameters
from kernelfields.estimators.sequence_classifier import SequenceClassifier
from kernelfields.kernels.dot_product import Polynomial
from kernelfields.kernels.kernel import Kernel
from kernelfields.kernels.registry import resolve_kernel
from kernelfields.kernels.stationary import RBF, Laplacian, Matern
from kernelfields.numerics.parameters import check_prior_variance, count_or_none, is_real
from kernelfields.reports.tables import PlainValues

#: Estimators that can be searched, and what they may have for a kernel: one, or one for each type of node.
Searched = FieldEstimator | SequenceClassifier
Kernels: TypeAlias = "KernelLike | Mapping[str, KernelLike]"
Value = TypeVar("Value")

SCALE_MULTIPLES = (0.1, 0.3, 1.0, 3.0, 10.0)
DEGREES = (1, 2, 3)
# The parameter that is the scale of a kernel, and by which power of a multiple it changes.
_SCALES: dict[type, tuple[str, float]] = {
    RBF: ("gamma", 1.0),
    Laplacian: ("gamma", 0.5),
    Matern: ("length_scale", -0.5),
}
_EDGES = "edges__prior_variance"
_VARIANCES = ("prior_variance", _EDGES)


@dataclass(frozen=True, eq=False)
class Candidate:
    """A combination of parameter values for an estimator."""

    params: PlainValues

    def __str__(self) -> str:
        return ", ".join(f"{_describe_repetitions(name)} {value}" for name, value in self.params.items())

    @property
    def path(self) -> tuple[int, ...]:
        """The key of the path: candidates that differ only in prior variances, with the same kernel object."""
        return id(self.params["kernel"]), self.params["rank"]

    @property
    def level(self) -> tuple[float, float]:
        """The prior variances of transitions and of nodes, in the order of a path; the latter change faster."""
        return self.params.get(_EDGES, 1.0), self.params["prior_variance"]


def _describe_repetitions(name: str) -> str:
    return name.replace("edges__", "edge_").replace("_", " ")


def list_candidates(
    estimator: Searched,
    training: FitState,
    *,
    kernels: Kernels | Sequence[Kernels],
    prior_variances: object,
    ranks: object,
    edge_prior_variances: object,
) -> list[Candidate]:
    """List all candidates, checked on ``training``, the data of all items."""
    if getattr(estimator, "cliques", None) is not None:
        raise ValueError(
            "estimator spells its field out in cliques, so its kernel, rank and prior variances are not used: "
            "leave out cliques, or search with scikit-learn's GridSearchCV over lists of cliques"
        )
    listed = (
        _read_entries(kernels, "kernels", lambda kernel, _: kernel) if isinstance(kernels, list | tuple) else [kernels]
    )
    listed_ranks = [estimator.rank] if ranks is None else _read_entries(ranks, "ranks", _rank)
    variances = _read_entries(prior_variances, "prior_variances", _variance)
    edges: list[dict[str, object]] = [{}]
    if edge_prior_variances is not None:
        if not hasattr(estimator, "edges"):
            raise ValueError(f"{type(estimator).__name__} has no edges: leave out edge_prior_variances")
        entries = _read_entries(edge_prior_variances, "edge_prior_variances", _variance)
        edges = [{_EDGES: variance} for variance in entries]

    def inputs() -> tuple[Matrix, np.ndarray]:
        data = training.data
        window = getattr(estimator, "window", 1)
        seen = data.inputs if isinstance(window, str) else NodeCliques(window=window).view(data)
        seen = seen[:, : seen.shape[1] - training.reader.rows.categories]
        return seen, data.weights if seen.shape[0] == len(data.weights) else data.position_weights

    def expand(kernel: Kernels) -> list[Any]:
        found: list[Any] = expand_kernel(kernel, inputs)
        # Names leave open what becomes of categories beside numbers.
        named = isinstance(kernel, str) and training.reader.rows.categories
        return (
            [beside_categories(own, training.estimator.choices_.chosen.get("categories")) for own in found]
            if named
            else found
        )

    candidates: list[Candidate] = []
    for kernel in _drop_repeated([kernel for name in listed for kernel in expand(name)]):
        own_ranks = listed_ranks if _has_rank(kernel, *_edge_kernels(estimator)) else listed_ranks[:1]
        for rank, edge, variance in product(own_ranks, edges, variances):
            candidates.append(Candidate({"kernel": kernel, "rank": rank, **edge, "prior_variance": variance}))
            _check(clone(estimator).set_params(**candidates[-1].params), training)
    return candidates


def expand_kernel(kernel: Kernels, inputs: Callable[[], tuple[Matrix, np.ndarray]]) -> list[Kernel | dict[str, Kernel]]:
    """Return the candidate kernels of a name; kernel objects and dicts are single candidates.

    ``inputs()`` are those that the kernel sees, (N, d), and their weights, (N,).
    """
    if isinstance(kernel, Mapping):
        return [{kind: resolve_kernel(own) for kind, own in kernel.items()}]
    resolved = resolve_kernel(kernel)
    if not isinstance(kernel, str):
        return [resolved]
    if kernel in ("poly", "polynomial"):
        return [Polynomial(degree) for degree in DEGREES]
    if type(resolved) not in _SCALES:
        return [resolved]
    parameter, power = _SCALES[type(resolved)]
    scale = getattr(resolved.resolve(*inputs()), parameter)
    values = [float(f"{scale * multiple**power:.3g}") for multiple in SCALE_MULTIPLES]
    return [type(resolved)(**{parameter: value}) for value in values]


def _edge_kernels(estimator: Searched) -> list[KernelLike | None]:
    """Return the kernels that the user gave for the edges of an estimator."""
    edges = getattr(estimator, "edges", None)
    sets = edges.values() if isinstance(edges, Mapping) else [edges]
    return [clique.kernel for clique in sets if clique is not None]


def _has_rank(*kernels: Kernels | None) -> bool:
    """Whether a kernel needs a basis, whose size is the rank."""
    listed = [own for kernel in kernels for own in (kernel.values() if isinstance(kernel, Mapping) else [kernel])]
    # "auto" adds a linear function of the features of edges.
    return not all(resolve_kernel(own).has_feature_map for own in listed if own is not None and own != "auto")


def _check(described: Searched, training: FitState) -> None:
    """Raise the errors of a candidate that can be found before a fit."""
    check_parameters(described)
    # As for short fits: a tree of labels is not looked for again.
    for name, clique in (
        make_pilot(described).structure.clique_sets(training) if isinstance(described, FieldEstimator) else ()
    ):
        if clique.kernel is not None and not resolve_kernel(clique.kernel).has_feature_map:
            clique.check_pivots(name)


def _read_entries(values: object, name: str, read: Callable[[Any, str], Value]) -> list[Value]:
    """Return the distinct entries of a grid, converted by ``read``."""
    if not isinstance(values, list | tuple | np.ndarray):
        raise TypeError(f"{name} must be a list of values to choose from, got {values!r}")
    if not len(values):
        raise ValueError(f"{name} is empty: a search needs at least one value to choose from")
    return _drop_repeated([read(value, f"{name}[{index}]") for index, value in enumerate(values)])


def _drop_repeated(values: Sequence[Value]) -> list[Value]:
    return [value for index, value in enumerate(values) if value not in values[:index]]


def _variance(value: float, name: str) -> float:
    check_prior_variance(value, name)
    return float(value)


def _rank(value: int | None, name: str) -> int | None:
    count_or_none(value, name)
    return None if value is None else int(value)


def find_grid_ends(best: Candidate, grid: Sequence[Candidate]) -> list[str]:
    """Return a sentence about each best value at an end of its grid.

    Grids are those of prior variances, and of the scale of kernels of one kind that differ in it alone; they have two
    values or more.
    """
    found, kernel = [], best.params["kernel"]
    for name in (*_VARIANCES, *_SCALES.get(type(kernel), ())[:1]):
        if name in _VARIANCES:
            value, values = best.params.get(name), [candidate.params.get(name) for candidate in grid]
        else:
            value, kernels = getattr(kernel, name), [candidate.params["kernel"] for candidate in grid]
            values = [
                getattr(other, name)
                for other in kernels
                if _parameters_except(name, other) == _parameters_except(name, kernel)
            ]
        known = sorted({listed for listed in values if is_real(listed) and listed < math.inf})
        if len(known) > 1 and value in (known[0], known[-1]):
            side = "largest" if value == known[-1] else "smallest"
            found.append(f"the best {_describe_repetitions(name)}, {value:g}, is the {side} of its grid")
    return found


def _parameters_except(name: str, kernel: Kernel | dict[str, Kernel]) -> object:
    """Return the class and the parameters of a kernel, except one parameter."""
    return type(kernel), {**kernel.get_params(deep=False), name: None} if isinstance(kernel, Kernel) else None
