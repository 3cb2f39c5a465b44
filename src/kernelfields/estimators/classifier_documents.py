"""A fitted KernelClassifier as a document of plain values and arrays, and back."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import asdict
from functools import reduce
from typing import Any

import numpy as np

from kernelfields.basis import PivotSubspace
from kernelfields.estimators.laplace_documents import describe_laplace, rebuild_laplace
from kernelfields.estimators.set_documents import (
    describe_basis,
    describe_set,
    describe_solution,
    rebuild_basis,
    rebuild_set,
    rebuild_solution,
)
from kernelfields.formats import ModelFileError, read_model, write_model
from kernelfields.kernels.algebra import Sum
from kernelfields.posterior import Certificate

KIND = "KernelClassifier"
_PLAIN = ("rank", "bias", "prior_variance", "tol", "max_iter", "n_jobs", "verbose")


def write_kernel_classifier(path: str | os.PathLike, estimator: Any) -> None:
    """Write a fitted estimator to a model file."""
    document = {
        "parameters": {
            **{name: getattr(estimator, name) for name in _PLAIN},
            "basis": describe_basis(estimator.basis),
            "solver": estimator.solver if isinstance(estimator.solver, str) else "auto",
        },
        "classes": estimator.classes_,
        "n_features": estimator.n_features_in_,
        "sparse": bool(estimator._sparse),
        "feature_names": getattr(estimator, "feature_names_in_", np.array([], dtype=str)).tolist(),
        "sets": [describe_set(each) for each in estimator.sets_],
        "solution": describe_solution(estimator.solution_),
        "certificates": [asdict(estimator.certificate_), asdict(estimator.rkhs_certificate_)],
        **describe_laplace(estimator),
    }
    write_model(path, KIND, document, {})


def read_kernel_classifier(cls: type, path: str | os.PathLike, callables: Mapping[str, Callable] | None) -> Any:
    """Read an estimator from a model file."""
    document, _ = read_model(path, KIND)
    try:
        return _rebuild(cls, document, callables)
    except (KeyError, TypeError, IndexError, AttributeError, ValueError) as error:
        raise ModelFileError(f"{path} is not a sound {KIND} model: {error}") from error


def _rebuild(cls: type, document: dict[str, Any], callables: Mapping[str, Callable] | None) -> Any:
    classes = np.asarray(document["classes"])
    if classes.ndim != 1 or len(classes) < 2 or not np.array_equal(np.unique(classes), classes):
        raise ValueError("the classes are not two or more sorted labels")
    sets = [rebuild_set(each, len(classes), callables) for each in document["sets"]]
    for each in sets:
        if each.label_coefficients.shape != (each.subspace.rank, len(classes)):
            raise ValueError(f"the coefficients of set {each.name!r} do not fit its basis and the classes")
        if isinstance(each.subspace, PivotSubspace) and each.subspace.pivots.shape[1] != document["n_features"]:
            raise ValueError(f"the pivots of set {each.name!r} do not have as many columns as the inputs")
    parameters = dict(document["parameters"])
    parameters["basis"] = rebuild_basis(parameters["basis"])
    if isinstance(parameters["prior_variance"], list):
        parameters["prior_variance"] = tuple(parameters["prior_variance"])
    # A sum of kernels is several sets.
    nodes = [each.clique for each in sets if each.clique.kernel is not None]
    kernel = reduce(Sum, [clique.kernel for clique in nodes])
    estimator = cls(kernel, label_kernel=nodes[0].label_kernel, **parameters)
    estimator.classes_ = classes
    estimator.n_features_in_ = int(document["n_features"])
    if document["feature_names"]:
        estimator.feature_names_in_ = np.array(document["feature_names"], dtype=object)
    estimator._sparse = bool(document["sparse"])
    estimator.sets_ = sets
    estimator.solution_ = rebuild_solution(document["solution"], sets)
    estimator.certificate_, estimator.rkhs_certificate_ = (
        Certificate(**each) for each in document["certificates"]
    )
    rebuild_laplace(estimator, document, sets)
    estimator._set_views()
    return estimator
