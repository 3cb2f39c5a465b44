"""A fitted MultiLabelCRF as a document of plain values and arrays, and back; see model_document.py.

Sets of one kind share a subspace, which is kept once, with the coefficients of all of them side by side.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from functools import reduce
from typing import Any

import numpy as np

from kernelfields.basis import PivotSubspace
from kernelfields.estimators.fitted_sets import FittedSet
from kernelfields.estimators.graph_documents import FittedBy
from kernelfields.estimators.laplace_documents import describe_laplace, rebuild_laplace
from kernelfields.estimators.multilabel_field import LABEL_CONTRAST, PAIR_CONTRAST
from kernelfields.estimators.multilabel_model import MultiLabelModel
from kernelfields.estimators.parameters import is_whole, resolve_dtype
from kernelfields.estimators.set_documents import (
    describe_basis,
    describe_set,
    describe_solution,
    rebuild_basis,
    rebuild_set,
    rebuild_solution,
)
from kernelfields.fields import CliqueSet, GraphNodes
from kernelfields.fields.label_cliques import LabelCliques, LabelPairs
from kernelfields.formats import ModelFileError, read_model, write_model
from kernelfields.inference.graph import METHODS
from kernelfields.kernels.algebra import Sum
from kernelfields.posterior import Certificate

KIND = "MultiLabelCRF"
_PLAIN = (
    "rank",
    "prior_variance",
    "edge_prior_variance",
    "bias_prior_variance",
    "decision",
    "tol",
    "max_iter",
    "n_jobs",
    "verbose",
)


def write_multilabel_crf(path: str | os.PathLike, estimator: Any) -> None:
    """Write a fitted estimator to a model file."""
    model, certificates = estimator.model_, estimator._certificates
    names, dtype = estimator.label_names_, resolve_dtype(estimator.dtype)
    features = getattr(estimator, "feature_names_in_", None)
    document = {
        "parameters": {
            **{name: getattr(estimator, name) for name in _PLAIN},
            "inference": estimator.inference
            if isinstance(estimator.inference, str)
            else estimator.inference.method,
            "solver": estimator.solver if isinstance(estimator.solver, str) else "auto",
            "dtype": "auto" if dtype is None else dtype.name,
            "random_state": estimator.random_state if is_whole(estimator.random_state) else None,
            "basis": describe_basis(estimator.basis),
        },
        "names": names.tolist(),
        "n_features": estimator.n_features_in_,
        "feature_names": None if features is None else [str(name) for name in features],
        "sparse": bool(estimator._sparse),
        "pairs": [[name, *edge] for name, edge in model.pairs.items()],
        "fitted_by": {name: getattr(estimator.inference_, name) for name in FittedBy.FIELDS},
        "parts": [_describe_part(each) for each in _parts(model.sets)],
        "solution": describe_solution(estimator.solution_),
        "certificates": None if certificates is None else [asdict(each) for each in certificates],
        **describe_laplace(estimator),
    }
    write_model(path, KIND, document, {})


def read_multilabel_crf(cls: type, path: str | os.PathLike, callables: Mapping[str, Callable] | None) -> Any:
    """Read an estimator from a model file."""
    document, _ = read_model(path, KIND)
    try:
        return _rebuild(cls, document, callables)
    except (KeyError, TypeError, IndexError, AttributeError, ValueError) as error:
        raise ModelFileError(f"{path} is not a sound {KIND} model: {error}") from error


def _parts(sets: Sequence[FittedSet]) -> list[list[FittedSet]]:
    """Cut the sets of a model into runs that share a subspace, or have none of their own."""
    parts: list[list[FittedSet]] = []
    for each in sets:
        last = parts[-1][-1] if parts else None
        if last is not None and last.subspace is each.subspace and type(last.clique) is type(each.clique):
            parts[-1].append(each)
        else:
            parts.append([each])
    return parts


def _describe_part(part: list[FittedSet]) -> dict[str, Any]:
    """Describe sets that share a subspace as one set, whose coefficients are a column for each of them."""
    first = part[0]
    clique = first.clique
    carrier = GraphNodes(clique.kernel, prior_variance=clique.prior_variance, basis=clique.basis, rank=clique.rank)
    coefficients = np.hstack([each.coefficients for each in part])
    return {
        "set": describe_set(FittedSet(carrier, first.name, first.subspace, None, coefficients)),
        "names": [each.name for each in part],
        "labels": [each.clique.label for each in part] if isinstance(clique, LabelCliques) else None,
        "groups": [each.clique.group for each in part] if isinstance(clique, LabelPairs) else None,
    }


def _rebuild_part(description: dict[str, Any], callables: Mapping[str, Callable] | None) -> list[FittedSet]:
    whole = rebuild_set(description["set"], 2, callables)
    names, clique = description["names"], whole.clique
    if whole.coefficients.shape != (whole.subspace.rank, len(names)):
        raise ValueError(f"the coefficients of set {whole.name!r} do not fit its basis and its labels")
    shared = {
        "prior_variance": clique.prior_variance,
        "basis": clique.basis,
        "rank": clique.rank,
    }
    sets = []
    for index, name in enumerate(names):
        if description["labels"] is not None:
            own: CliqueSet = LabelCliques(
                clique.kernel, label=int(description["labels"][index]), name=name, **shared
            )
            contrast = LABEL_CONTRAST
        else:
            own = LabelPairs(clique.kernel, group=description["groups"][index], name=name, **shared)
            contrast = PAIR_CONTRAST
        column = np.ascontiguousarray(whole.coefficients[:, index : index + 1])
        sets.append(FittedSet(own, name, whole.subspace, contrast, column))
    return sets


def _rebuild(cls: type, document: dict[str, Any], callables: Mapping[str, Callable] | None) -> Any:
    names = list(document["names"])
    sets = [each for part in document["parts"] for each in _rebuild_part(part, callables)]
    pairs = {str(name): (int(j), int(k)) for name, j, k in document["pairs"]}
    parameters = dict(document["parameters"])
    parameters["basis"] = rebuild_basis(parameters["basis"])
    if isinstance(parameters["prior_variance"], list):
        parameters["prior_variance"] = tuple(parameters["prior_variance"])
    if parameters["inference"] not in (*METHODS, "table"):
        raise ValueError(f"the inference {parameters['inference']!r} is not known")
    kernels = {
        kind: [each.clique.kernel for each in sets if type(each.clique) is kind and each.clique.kernel is not None]
        for kind in (LabelCliques, LabelPairs)
    }
    estimator = cls(
        kernel=_summed(kernels[LabelCliques]),
        edge_kernel=_summed(kernels[LabelPairs]),
        label_graph=[tuple(pair) for pair in pairs.values()],
        **parameters,
    )
    estimator.n_features_in_ = int(document["n_features"])
    if document["feature_names"] is not None:
        estimator.feature_names_in_ = np.array(document["feature_names"], dtype=object)
    estimator._sparse = bool(document["sparse"])
    estimator.model_ = MultiLabelModel(sets, len(names), pairs, estimator.inference)
    _check_consistent(estimator.model_, estimator.n_features_in_)
    estimator.inference_ = FittedBy(**document["fitted_by"])
    estimator.structure_path_ = None
    estimator.solution_ = rebuild_solution(document["solution"], sets)
    certificates = document["certificates"]
    estimator._certificates = None if certificates is None else tuple(Certificate(**each) for each in certificates)
    rebuild_laplace(estimator, document, sets)
    estimator._set_views(names)
    return estimator


def _summed(kernels: list) -> Any:
    """Return the sum of the different kernels of some sets, in their order; None for none."""
    different: list = []
    for kernel in kernels:
        if not any(kernel is other for other in different):
            different.append(kernel)
    return reduce(Sum, different) if different else None


def _check_consistent(model: MultiLabelModel, n_features: int) -> None:
    """Raise unless all parts fit together, so that a model that loads can predict."""
    for name, (j, k) in model.pairs.items():
        if not 0 <= j < k < model.n_labels:
            raise ValueError(f"{name!r} joins labels that do not exist")
    for each in model.sets:
        group = each.clique.group
        if group is not None and group not in model.pairs:
            raise ValueError(f"set {each.name!r} scores the unknown pair {group!r}")
        if isinstance(each.clique, LabelCliques) and not 0 <= each.clique.label < model.n_labels:
            raise ValueError(f"set {each.name!r} scores a label that does not exist")
        if isinstance(each.subspace, PivotSubspace) and each.subspace.pivots.shape[1] != n_features:
            raise ValueError(f"the pivots of set {each.name!r} do not have {n_features} columns, as the inputs do")
