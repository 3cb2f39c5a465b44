"""A fitted GraphCRF as a document of plain values and arrays, and back; see model_document.py for what is kept."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any

import numpy as np

from kernelfields.basis import PivotSubspace
from kernelfields.estimators.fitted_sets import FittedSet
from kernelfields.estimators.graph_inputs import GraphInputs
from kernelfields.estimators.graph_model import GraphModel
from kernelfields.estimators.laplace_documents import describe_laplace, rebuild_laplace
from kernelfields.estimators.set_documents import (
    describe_set,
    describe_solution,
    rebuild_set,
    rebuild_solution,
)
from kernelfields.formats import ModelFileError, read_model, write_model
from kernelfields.inference.graph import METHODS
from kernelfields.posterior import Certificate

KIND = "GraphCRF"
_PLAIN = ("rank", "support", "tol", "max_iter", "n_jobs", "verbose")


def write_graph_crf(path: str | os.PathLike, estimator: Any) -> None:
    """Write a fitted estimator to a model file."""
    inputs, certificates = estimator._inputs, estimator._certificates
    document = {
        "parameters": {
            **{name: getattr(estimator, name) for name in _PLAIN},
            "inference": _method(estimator.inference),
            "solver": estimator.solver if isinstance(estimator.solver, str) else "auto",
        },
        "classes": estimator.classes_,
        "n_features": inputs.n_features,
        "sparse": bool(inputs.sparse),
        "factors": [[name, *kind] for name, kind in inputs.factors.items()],
        "node_types": None if inputs.node_types is None else list(inputs.node_types),
        "fitted_by": {name: getattr(estimator.inference_, name) for name in FittedBy.FIELDS},
        "sets": [describe_set(each) for each in estimator.model_.sets],
        "solution": describe_solution(estimator.solution_),
        "certificates": None if certificates is None else [asdict(each) for each in certificates],
        **describe_laplace(estimator),
    }
    write_model(path, KIND, document, {})


def read_graph_crf(cls: type, path: str | os.PathLike, callables: Mapping[str, Callable] | None) -> Any:
    """Read an estimator from a model file."""
    document, _ = read_model(path, KIND)
    try:
        return _rebuild(cls, document, callables)
    except (KeyError, TypeError, IndexError, AttributeError, ValueError) as error:
        raise ModelFileError(f"{path} is not a sound {KIND} model: {error}") from error


def _rebuild(cls: type, document: dict[str, Any], callables: Mapping[str, Callable] | None) -> Any:
    classes = np.asarray(document["classes"])
    sets = [rebuild_set(each, len(classes), callables) for each in document["sets"]]
    factors = {
        str(name): (int(order), None if width is None else int(width), bool(sparse))
        for name, order, width, sparse in document["factors"]
    }
    kinds = document["node_types"]
    node_types = None if kinds is None else tuple(map(str, kinds))
    inputs = GraphInputs(int(document["n_features"]), bool(document["sparse"]), factors, node_types)
    _check_consistent(sets, inputs, classes)
    parameters = dict(document["parameters"])
    if parameters["inference"] not in METHODS:
        raise ValueError(f"the inference {parameters['inference']!r} is not known")
    estimator = cls(cliques=[each.clique for each in sets], **parameters)
    estimator._inputs = inputs
    estimator.classes_ = classes
    estimator.n_features_in_ = inputs.n_features
    estimator.model_ = GraphModel(sets, len(classes), estimator.inference)
    estimator.inference_ = FittedBy(**document["fitted_by"])
    estimator.solution_ = rebuild_solution(document["solution"], sets)
    certificates = document["certificates"]
    estimator._certificates = None if certificates is None else tuple(Certificate(**each) for each in certificates)
    rebuild_laplace(estimator, document, sets)
    estimator._set_views()
    return estimator


class FittedBy:
    """What is known of the inference of a fit once the graphs it was made for are gone."""

    FIELDS = ("method", "exact", "bound", "description")

    def __init__(self, method: str, exact: bool, bound: str | None, description: str):
        self.method = method
        self.exact = exact
        self.bound = bound
        self.description = description


def _method(inference: Any) -> str:
    """Return the name of a method; options of an approximate one are not kept."""
    return inference if isinstance(inference, str) else inference.method


def _check_consistent(sets: list[FittedSet], inputs: GraphInputs, classes: np.ndarray) -> None:
    """Raise unless all parts fit together, so that a model that loads can predict."""
    if classes.ndim != 1 or len(classes) < 2 or not np.array_equal(np.unique(classes), classes):
        raise ValueError("the classes are not two or more sorted labels")
    for each in sets:
        group = each.clique.group
        if group is not None and group not in inputs.factors:
            raise ValueError(f"set {each.name!r} scores factors of the unknown type {group!r}")
        kind = getattr(each.clique, "node_type", None)
        if kind is not None and kind not in (inputs.node_types or ()):
            raise ValueError(f"set {each.name!r} scores nodes of the unknown type {kind!r}")
        if each.label_coefficients.shape != (each.subspace.rank, each.clique.n_configurations(len(classes))):
            raise ValueError(f"the coefficients of set {each.name!r} do not fit its basis and the classes")
        width = inputs.n_features if group is None else inputs.factors[group][1]
        if isinstance(each.subspace, PivotSubspace) and each.subspace.pivots.shape[1] != width:
            raise ValueError(f"the pivots of set {each.name!r} do not have {width} columns, as its inputs do")
