"""A fitted ExponentialFamilyDensity as a document of plain values and arrays, and back.

A base measure that is a function is not data: the file says that there is one, and reading it asks for it under
the name "base_measure".
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any

import numpy as np

from kernelfields.basis import ExplicitSubspace, PivotSubspace
from kernelfields.estimators.density_box import Box, FunctionMeasure, GaussianMeasure, UniformMeasure
from kernelfields.estimators.density_quadrature import Quadrature
from kernelfields.estimators.set_documents import describe_basis, rebuild_basis
from kernelfields.formats import ModelFileError, read_model, write_model
from kernelfields.kernels import kernel_from_spec
from kernelfields.posterior import Certificate

KIND = "ExponentialFamilyDensity"
_PLAIN = (
    "prior_variance",
    "margin",
    "rank",
    "pivots",
    "quadrature",
    "n_nodes",
    "quadrature_tol",
    "tol",
    "max_iter",
)


def write_density(path: str | os.PathLike, estimator: Any) -> None:
    """Write a fitted estimator to a model file."""
    measure, subspace = estimator._measure, estimator.basis_
    document: dict[str, Any] = {
        "parameters": {
            **{name: getattr(estimator, name) for name in _PLAIN},
            "basis": describe_basis(estimator.basis),
            "box": "auto" if isinstance(estimator.box, str) else np.asarray(estimator.box, dtype=np.float64),
        },
        "box": estimator.box_,
        "measure": {"kind": measure.kind},
        "kernel": subspace.kernel.spec(),
        "coefficients": estimator.coef_,
        "log_partition": float(estimator.log_partition_),
        "log_partition_error": float(estimator.log_partition_error_),
        "quadrature": asdict(estimator.quadrature_),
        "certificate": asdict(estimator.certificate_),
        "n_iter": int(estimator.n_iter_),
        "feature_names": getattr(estimator, "feature_names_in_", np.array([], dtype=str)).tolist(),
    }
    if isinstance(measure, GaussianMeasure):
        document["measure"] |= {"mean": measure.mean, "deviation": measure.deviation}
    if isinstance(subspace, PivotSubspace):
        document["pivots"] = {
            "inputs": subspace.pivots,
            "factor": subspace.factor,
            "indices": subspace.indices,
        }
    write_model(path, KIND, document, {})


def read_density(cls: type, path: str | os.PathLike, callables: Mapping[str, Callable] | None) -> Any:
    """Read an estimator from a model file."""
    document, _ = read_model(path, KIND)
    try:
        return _rebuild(cls, document, dict(callables or {}))
    except (KeyError, TypeError, IndexError, AttributeError, ValueError) as error:
        raise ModelFileError(f"{path} is not a sound {KIND} model: {error}") from error


def _rebuild(cls: type, document: dict[str, Any], callables: dict[str, Callable]) -> Any:
    bounds = np.asarray(document["box"], dtype=np.float64)
    if bounds.ndim != 2 or bounds.shape[1] != 2 or not np.all(bounds[:, 0] < bounds[:, 1]):
        raise ValueError("the box is not one")
    box = Box(bounds[:, 0].copy(), bounds[:, 1].copy())
    kind = document["measure"]["kind"]
    base_measure: Any = kind
    if kind == "uniform":
        measure: Any = UniformMeasure(box)
    elif kind == "gaussian":
        measure = GaussianMeasure(box, document["measure"]["mean"], document["measure"]["deviation"])
    else:
        if "base_measure" not in callables:
            raise ValueError(
                "its base measure is a function, which is not stored: pass callables={'base_measure': function}"
            )
        base_measure = callables.pop("base_measure")
        measure = FunctionMeasure(box, base_measure)
    kernel = kernel_from_spec(document["kernel"], callables)
    coefficients = np.asarray(document["coefficients"], dtype=np.float64)
    if "pivots" in document:
        pivots = document["pivots"]
        subspace: Any = PivotSubspace(kernel, pivots["inputs"], pivots["factor"], pivots["indices"])
        if pivots["inputs"].shape != (len(coefficients), box.dimension):
            raise ValueError("the pivots do not fit the coefficients and the box")
        if subspace.factor.shape != (len(coefficients),) * 2:
            raise ValueError("the basis is not consistent")
    else:
        subspace = ExplicitSubspace(kernel, len(coefficients))
    parameters = dict(document["parameters"])
    parameters["basis"] = rebuild_basis(parameters["basis"])
    estimator = cls(kernel, base_measure=base_measure, **parameters)
    estimator._measure, estimator.box_, estimator.basis_ = measure, bounds, subspace
    estimator.coef_ = coefficients
    estimator.log_partition_ = float(document["log_partition"])
    estimator.log_partition_error_ = float(document["log_partition_error"])
    estimator.quadrature_ = Quadrature(**document["quadrature"])
    estimator.certificate_ = Certificate(**document["certificate"])
    estimator.n_iter_ = int(document["n_iter"])
    estimator.n_features_in_ = box.dimension
    if document["feature_names"]:
        estimator.feature_names_in_ = np.array(document["feature_names"], dtype=object)
    return estimator
