"""A fitted ChainCRF as a document of plain values and arrays, and back.

Nothing in the document names code: kernels, bases, clique sets and constraints are rebuilt from registries of
known kinds. Parameters that only matter for fitting again and are code (callbacks, a solver or basis of one's
own, a random generator) are not kept; the default takes their place.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import asdict
from functools import reduce
from typing import Any

import numpy as np
import scipy.sparse

from kernelfields.basis import ExplicitSubspace, PivotSubspace
from kernelfields.estimators.chain_inputs import ChainInputs
from kernelfields.estimators.field_model import FieldModel
from kernelfields.estimators.fitted_sets import FittedSet
from kernelfields.estimators.laplace_documents import describe_laplace, rebuild_laplace
from kernelfields.estimators.parameters import is_whole, resolve_dtype
from kernelfields.estimators.set_documents import (
    describe_basis,
    describe_set,
    describe_solution,
    rebuild_basis,
    rebuild_set,
    rebuild_solution,
)
from kernelfields.features import FeatureDictEncoder, check_window
from kernelfields.fields import ConstraintMasks, Constraints
from kernelfields.formats import ModelFileError, read_model, write_model
from kernelfields.kernels import label_kernel_from_spec, resolve_label_kernel
from kernelfields.kernels.algebra import Sum
from kernelfields.posterior import Certificate

KIND = "ChainCRF"
_PLAIN = (
    "window",
    "rank",
    "support",
    "edge_support",
    "min_freq",
    "l1",
    "edge_l1",
    "prior_variance",
    "edge_prior_variance",
    "tol",
    "max_iter",
    "n_jobs",
    "verbose",
    "patience",
    "warm_start",
)


def write_chain_crf(path: str | os.PathLike, estimator: Any) -> None:
    """Write a fitted estimator to a model file."""
    write_model(path, KIND, describe_chain_crf(estimator), {})


def describe_chain_crf(estimator: Any) -> dict[str, Any]:
    """Return a fitted estimator as a document of plain values and arrays."""
    masks = estimator.model_.masks
    return {
        "parameters": _describe_parameters(estimator),
        "classes": estimator.classes_,
        "n_features": estimator._inputs.n_features,
        "sparse": bool(estimator._inputs.sparse),
        "feature_names": None if estimator._inputs.encoder is None else estimator._inputs.encoder.spec(),
        "masks": {"edge": masks.edge, "start": masks.start, "end": masks.end, "label": masks.label},
        "sets": [describe_set(each) for each in estimator.model_.sets],
        "solution": describe_solution(estimator.solution_),
        "certificates": [asdict(estimator.certificate_), asdict(estimator.rkhs_certificate_)],
        **describe_laplace(estimator),
    }


def read_chain_crf(cls: type, path: str | os.PathLike, callables: Mapping[str, Callable] | None) -> Any:
    """Read an estimator from a model file."""
    document, _ = read_model(path, KIND)
    try:
        return rebuild_chain_crf(cls, document, callables)
    except (KeyError, TypeError, IndexError, AttributeError, ValueError) as error:
        raise ModelFileError(f"{path} is not a sound {KIND} model: {error}") from error


def rebuild_chain_crf(cls: type, document: dict[str, Any], callables: Mapping[str, Callable] | None = None) -> Any:
    """Return the estimator that :func:`describe_chain_crf` described; errors of any kind if it is not sound."""
    classes = np.asarray(document["classes"])
    n_labels = len(classes)
    sets = [rebuild_set(each, n_labels, callables) for each in document["sets"]]
    masks = ConstraintMasks(**document["masks"])
    _check_consistent(sets, masks, classes, document)
    estimator = cls(**_rebuild_parameters(document["parameters"], sets))
    names = document["feature_names"]
    estimator._inputs = ChainInputs(
        int(document["n_features"]),
        bool(document["sparse"]),
        None if names is None else FeatureDictEncoder.from_spec(names),
    )
    estimator.classes_ = classes
    estimator.n_features_in_ = estimator._inputs.n_features
    estimator.model_ = FieldModel(sets, n_labels, masks)
    estimator.solution_ = rebuild_solution(document["solution"], sets)
    estimator.certificate_, estimator.rkhs_certificate_ = (
        Certificate(**each) for each in document["certificates"]
    )
    estimator.dev_log_likelihoods_ = None
    estimator.structure_path_ = None
    rebuild_laplace(estimator, document, sets)
    estimator._set_views()
    return estimator


def _check_consistent(
    sets: list[FittedSet], masks: ConstraintMasks, classes: np.ndarray, document: dict[str, Any]
) -> None:
    """Raise unless all parts fit together, so that a model that loads can predict."""
    n_labels, n_features = len(classes), document["n_features"]
    if classes.ndim != 1 or n_labels < 2 or not np.array_equal(np.unique(classes), classes):
        raise ValueError("the classes are not two or more sorted labels")
    if document["feature_names"] is not None and len(document["feature_names"]) != n_features:
        raise ValueError("the feature names do not match the number of features")
    for name in ("edge", "start", "end", "label"):
        if getattr(masks, name).shape != ((n_labels, n_labels) if name == "edge" else (n_labels,)):
            raise ValueError(f"the constraint mask {name!r} has the wrong shape")
    for each in sets:
        if each.label_coefficients.shape != (each.subspace.rank, each.clique.n_configurations(n_labels)):
            raise ValueError(f"the coefficients of set {each.name!r} do not fit its basis and the classes")
        width = n_features * (sum(check_window(each.clique.window)) + 1)
        subspace = each.subspace
        if isinstance(subspace, PivotSubspace) and subspace.pivots.shape[1] != width:
            raise ValueError(f"the pivots of set {each.name!r} do not have {width} columns, as its inputs do")
        if isinstance(subspace, ExplicitSubspace):
            mapped = subspace.kernel.feature_map(scipy.sparse.csr_array((1, width)))
            if mapped is None or mapped.shape[1] != subspace.rank:
                raise ValueError(f"the coefficients of set {each.name!r} do not fit its {width} input columns")


def _describe_parameters(estimator: Any) -> dict[str, Any]:
    """Keep the parameters that are data; kernels are kept with the clique sets."""
    parameters = {name: getattr(estimator, name) for name in _PLAIN}
    dtype = resolve_dtype(estimator.dtype)
    parameters["dtype"] = "auto" if dtype is None else dtype.name
    parameters["solver"] = estimator.solver if isinstance(estimator.solver, str) else "auto"
    parameters["random_state"] = estimator.random_state if is_whole(estimator.random_state) else None
    parameters["basis"] = describe_basis(estimator.basis)
    parameters["label_kernel"] = resolve_label_kernel(estimator.label_kernel).spec()
    parameters["constraints"] = Constraints.of(estimator.constraints).spec()
    weight = estimator.class_weight
    parameters["class_weight"] = weight if weight is None or isinstance(weight, str) else list(weight.items())
    parameters["spelled_out"] = estimator.cliques is not None
    return parameters


def _rebuild_parameters(described: dict[str, Any], sets: list[FittedSet]) -> dict[str, Any]:
    parameters = dict(described)
    for name in ("window", "prior_variance", "edge_prior_variance"):
        if isinstance(parameters[name], list):
            parameters[name] = tuple(parameters[name])
    parameters["basis"] = rebuild_basis(parameters["basis"])
    parameters["label_kernel"] = label_kernel_from_spec(parameters["label_kernel"])
    constraints = Constraints.from_spec(parameters["constraints"])
    parameters["constraints"] = None if constraints == Constraints() else constraints
    if isinstance(parameters.get("class_weight"), list):
        parameters["class_weight"] = dict(parameters["class_weight"])
    if parameters.pop("spelled_out"):
        return {**parameters, "cliques": [each.clique for each in sets]}
    # A sum of kernels is several sets of one kind.
    node, edge = (
        [each.clique.kernel for each in sets if each.clique.default_name == kind] for kind in ("node", "edge")
    )
    return {
        **parameters,
        "kernel": reduce(Sum, node),
        "edge_kernel": None if edge == [None] else reduce(Sum, edge),
    }
